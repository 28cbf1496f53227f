use serde_json::json;

use super::*;

/// The data of a page, as its script reads it.
fn data(page: &[u8]) -> (String, Value) {
    let page = String::from_utf8(page.to_vec()).expect("UTF-8");
    let (_, rest) = page.split_once(BEFORE).expect("the data");
    let (data, _) = rest.split_once(BEHIND).expect("its end");
    (data.to_owned(), serde_json::from_str(data).expect("JSON"))
}

#[test]
fn what_a_server_says_stays_a_text() {
    let evil = "</script><script>alert(1)</script><!-- & \" ' \u{2028}\u{2029}\u{0}";
    let part = Part::of(evil.to_owned(), json!({ "violations": [], "note": evil }));
    let (text, value) = data(&to_html(&[part], Ok(None)));
    assert_eq!(value["results"][0]["document"]["note"], evil);
    assert_eq!(value["results"][0]["name"], evil);
    assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\u{0}']), "{text}");
}

#[test]
fn the_kinds_and_causes_that_occur_are_explained() {
    let violation = json!({ "kind": "wrong-sum", "explanations": [{ "cause": "wrong-arithmetic" }] });
    let run = json!({ "violations": [violation] });
    let in_a_suite = json!({ "scenarios": [{ "name": "l0", "result": run }, { "name": "skipped" }] });
    let in_a_search = json!({ "trials": [], "violation": run });
    let in_a_hunt = json!({ "findings": [{ "kind": "wrong-sum", "cause": null, "result": run }, { "result": null }] });
    let of_a_hunt = json!({ "findings": [{ "kind": "wrong-sum", "cause": "wrong-arithmetic", "result": null }] });
    for document in [run.clone(), in_a_suite, in_a_search, in_a_hunt, of_a_hunt] {
        let (_, value) = data(&to_html(&[Part::of("x".to_owned(), document)], Ok(None)));
        let text = value["kinds"]["wrong-sum"]["text"].as_str().expect("a text");
        assert!(text.contains("\n- Usual causes: ") && !text.contains("]("), "{text}");
        assert!(value["causes"]["wrong-arithmetic"]["what"].as_str().expect("a text").ends_with('.'));
    }
    let unknown = json!({ "violations": [{ "kind": "of-a-later-version" }, 3, { "kind": 5 }] });
    let (_, value) = data(&to_html(&[Part::of("x".to_owned(), unknown)], Ok(None)));
    assert_eq!((&value["kinds"], &value["causes"]), (&json!({}), &json!({})));
}

#[test]
fn lanes_that_a_page_has_no_room_for_are_left_out_with_the_reason() {
    let of = |size| Pictured { lanes: Some("x".repeat(size)), note: None };
    let mut part = Part::of("hunt".to_owned(), json!({}));
    let all = [of(LANES_MAX - 1), of(2), of(1), Pictured::default()];
    part.picture_each(all.clone().map(|pictured| (false, pictured)));
    let has = |part: &Part| part.lanes.iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(has(&part), [true, false, true, false]);
    assert_eq!(part.lanes_notes, [None, Some(NO_ROOM.to_owned()), None, None]);
    // Those that are marked have theirs first.
    let mut part = Part::of("suite".to_owned(), json!({}));
    part.picture_each([false, true, false, true].into_iter().zip(all));
    assert_eq!(has(&part), [false, true, true, false]);
}
