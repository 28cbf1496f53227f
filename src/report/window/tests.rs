use super::*;
use crate::{
    failure::tests::{conversation, failure},
    window::{Came, Search, Trial, gaps},
};
use serde_json::{Value, json};
use workload::seed::Seed;

const ACTS: [&str; 6] = ["send 0 START 1", "send 0 2", "send 0 END 3", "await 0 <= 2", "pause 17000 us", "cancel 0"];

/// What is known when every length was tried, of a failure that fails as `fails` says: by the number of the gap and its length.
fn result(fails: impl Fn(usize, u64) -> bool) -> WindowResult {
    let gaps = gaps(&failure(vec![conversation(0, 0, 0, &ACTS)]));
    let mut search = Search::new(gaps.clone(), 6, Some(20_000.0), Seed(1));
    loop {
        let trials = search.next(7);
        if trials.is_empty() {
            break;
        }
        for trial in trials {
            let failed = match trial {
                Trial::AsRecorded => gaps.iter().all(|gap| fails(gap.number, gap.recorded_us)),
                Trial::Changed { gap, us } => fails(gap + 1, us),
            };
            search.tell(trial, if failed { Came::Failed } else { Came::Passed });
        }
    }
    WindowResult {
        kind: ViolationKind::SlotLeak,
        file: "failure.small.toml".to_owned(),
        one_server: false,
        server: Some("triton 2.51.0".to_owned()),
        model: "custom_sequence_int32".to_owned(),
        execution_us: Some(20_000.0),
        runs: 6,
        before: Count { runs: 1, failed: 1, otherwise: 0 },
        as_recorded: search.as_recorded(),
        all: search.all(),
        otherwise: BTreeMap::new(),
        curves: search.curves(),
        took: Duration::from_secs(75),
        ended: WindowEnded::Done,
        replay: "sequence-stress replay failure.small.toml --window".to_owned(),
    }
}

fn text(result: &WindowResult, draws: bool) -> String {
    let mut text = Vec::new();
    result.write(draws, &mut anstream::StripStream::new(&mut text)).expect("memory takes it");
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= COLUMNS), "{text}");
    text
}

#[test]
fn the_window_comes_first_and_then_its_drawing() {
    let result = result(|gap, us| gap != 3 || (15_900..19_700).contains(&us));
    insta::assert_snapshot!(text(&result, true));
    let document: Value = serde_json::from_slice(&result.to_json()).expect("JSON");
    assert_eq!((&document["exit_code"], &document["ended"]), (&json!(1), &json!("done")));
    let gaps = document["gaps"].as_array().expect("gaps");
    let matter: Vec<_> = gaps.iter().map(|gap| gap["matters"].as_bool()).collect();
    assert_eq!(matter, [Some(false), Some(false), Some(true)]);
    let window = &gaps[2]["windows"][0];
    assert!(window["below_us"].as_u64() < Some(15_900) && window["above_us"].as_u64() >= Some(19_700), "{window}");
    assert_eq!((&window["failed"], &window["high"]), (&window["runs"], &json!(1.0)));
}

#[test]
fn what_does_not_depend_on_time_says_so() {
    let said = text(&result(|_, _| true), true);
    assert!(said.starts_with("NO WINDOW: none of 3 gaps matters: slot-leak showed in 108 of 108 runs"), "{said}");
    assert!(said.contains("does not matter from 0 to 80 ms") && !said.contains("*: recorded"), "{said}");
}

#[test]
fn one_server_for_all_runs_leaves_doubt() {
    let one_server = |fails: &dyn Fn(usize, u64) -> bool| WindowResult { one_server: true, ..result(fails) };
    // A run that damages the server may be why all later ones fail.
    let always = one_server(&|_, _| true);
    for draws in [false, true] {
        let said = text(&always, draws);
        let (verdict, rest) = said.split_once("\n  gap 1").expect("a gap");
        assert_eq!(
            verdict.replace("\n  ", " "),
            "UNKNOWN: no gap has shown an effect: slot-leak showed in 108 of 108 runs, but all runs met one server, so \
             damage that one run left there may have changed the later ones; measure again with --reload"
        );
        assert!(rest.contains("no effect seen from 0 to 80 ms") && !rest.contains("does not matter"), "{said}");
        assert!(!rest.contains("note:"), "{said}");
    }
    assert_eq!(always.exit_code(), 1);
    let document = |result: &WindowResult| serde_json::from_slice::<Value>(&result.to_json()).expect("JSON");
    let json = document(&always);
    assert_eq!((&json["one_server"], &json["note"]), (&json!(true), &Value::Null));
    assert!(json["verdict"].as_str().is_some_and(|verdict| verdict.starts_with("UNKNOWN: ")), "{json}");
    // What depends on the timing is no such damage alone, but the window may be another.
    let sometimes = one_server(&|gap, us| gap != 2 || us < 3_050);
    let said = text(&sometimes, false);
    assert!(said.starts_with("WINDOW: slot-leak fails when #3 END comes at most 3 ms after #2"), "{said}");
    let note = "all runs met one server, so damage that one run left there may have changed the later ones; --reload \
                rules this out";
    assert!(said.replace("\n        ", " ").contains(&format!("\n  note: {note}\n")), "{said}");
    assert_eq!(document(&sometimes)["note"], note);
    let own = document(&result(|_, _| true));
    assert_eq!((&own["one_server"], &own["note"]), (&json!(false), &Value::Null));
}

#[test]
fn a_gap_alone_is_said_once() {
    let mut alone = result(|gap, us| gap != 2 || us < 3_050);
    alone.curves.retain(|curve| curve.gap.number == 2);
    let said = text(&alone, true).replace("\n  ", " ");
    assert_eq!(said.matches("fails when #3 END comes at most 3 ms after #2").count(), 1, "{said}");
    assert!(said.contains("\ngap 2: from #2 to #3 END"), "{said}");
    let mut alone = result(|_, _| true);
    alone.curves.truncate(1);
    assert!(text(&alone, false).contains("\n  gap 1  from #1 START to #2 (recorded: 0 ms): does not matter"));
}

#[test]
fn what_ends_a_measurement_is_said() {
    let whole = result(|gap, us| gap != 2 || us < 3_050);
    let none = Count::default();
    let never = WindowResult { before: Count { runs: 20, ..none }, all: none, curves: Vec::new(), ..whole.clone() };
    for (result, words, code) in [
        (
            WindowResult { ended: WindowEnded::NeverFailed, ..never.clone() },
            "UNKNOWN: slot-leak did not fail in 20 runs, so no gap was measured; more runs",
            3,
        ),
        (
            WindowResult { ended: WindowEnded::Interrupted, ..never.clone() },
            "interrupted; by then: no gap was measured",
            3,
        ),
        (
            WindowResult { ended: WindowEnded::NotTested("it is gone".to_owned()), ..never },
            "UNKNOWN: it is gone; by",
            4,
        ),
        (WindowResult { ended: WindowEnded::TimeLimit, ..whole.clone() }, "WINDOW: the time limit ended the", 1),
        (
            WindowResult { ended: WindowEnded::TimeLimit, ..result(|_, _| true) },
            "UNKNOWN: the time limit ended the measurement (--time-limit); by then: no gap has shown an effect: slot",
            1,
        ),
        (whole, "WINDOW: slot-leak fails when #3 END comes at most 3 ms after #2", 1),
    ] {
        let said = text(&result, false).replace("\n  ", " ");
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(result.exit_code(), code, "{said}");
    }
}

#[test]
fn several_windows_and_rates_are_said() {
    let mut several = result(|gap, us| gap != 1 || !(1_000..6_000).contains(&us));
    let said = text(&several, false).replace("\n  ", " ");
    assert!(said.contains("fails when #2 comes at most 0.") && said.contains(" ms, or "), "{said}");
    assert!(said.contains(" ms or more after #1 START"), "{said}");
    several = result(|gap, us| match gap {
        1 => us < 6_000,
        3 => us > 15_000,
        _ => true,
    });
    assert!(text(&several, false).starts_with("WINDOW: slot-leak depends on 2 of 3 gaps: 1, 3"));
    assert_eq!(
        ["0", "0.05", "1.5", "19.7", "350"].map(str::to_owned),
        [0.0, 50.0, 1500.0, 19_700.0, 350_000.0].map(milliseconds_bare)
    );
}

#[test]
fn a_window_is_said_as_a_distance_to_the_end_of_an_execution() {
    let its = gaps(&failure(vec![conversation(0, 0, 0, &ACTS)])).remove(2);
    let said = |from_us, until_us, below_us, above_us| {
        before_the_end(&Window { from_us, until_us, below_us, above_us, count: Count::default() }, &its, 20_000.0)
    };
    for (from, until, below, words) in [
        (15_900, 19_700, Some(1), "0.3 to 4.1 ms before the end of the execution (20 ms)"),
        (15_000, 22_000, Some(1), "from 5 ms before the end of the execution to 2 ms after it (20 ms)"),
        (33_000, 38_000, Some(1), "2 to 7 ms before the end of execution 2 from there on (20 ms each)"),
        (0, 38_500, None, "1.5 ms or more before the end of execution 2 from there on (20 ms each)"),
        (0, 21_000, None, "at most 1 ms after the end of the execution (20 ms)"),
    ] {
        assert_eq!(said(from, until, below, Some(90_000)).as_deref(), Some(words));
    }
    // The third step is never executed after the second one of those that are left.
    assert_eq!(said(55_000, 58_000, Some(1), Some(90_000)), None);
    assert_eq!(said(15_000, 80_000, Some(1), None), None);
}
