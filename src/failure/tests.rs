use super::*;
use crate::{
    conversation::{Act, Connection, Lane, parse_acts},
    scenario::{Overrides, Source},
    sequence::Pattern,
};

fn texts(acts: &[&str]) -> Vec<String> {
    acts.iter().map(|act| (*act).to_owned()).collect()
}

fn acts(list: &[&str]) -> Vec<Act> {
    parse_acts(&texts(list)).expect("acts")
}

fn conversation(worker: u32, context: u32, at_us: u64, list: &[&str]) -> Conversation {
    Conversation { worker, context, pattern: Pattern::Valid, at_us, accused: false, acts: acts(list) }
}

fn failure(conversations: Vec<Conversation>) -> Failure {
    Failure {
        found: "an answer is wrong".to_owned(),
        kind: ViolationKind::WrongSum,
        scenario: Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("the built-in scenario"),
        seed: Seed(42),
        embedded: Some(vec!["--fault".to_owned(), "off-by-one".to_owned()]),
        conversations,
    }
}

/// Everything that an act can be.
const ALL: [&str; 12] = [
    "send 0 START 5",
    "await 0 <= 3",
    "open 1 over fresh",
    "send 1 -7",
    "pause 20000 us",
    "send 1 END 2147483647",
    "await 0",
    "half-close 0",
    "close 0",
    "reset 1",
    "send 0 START END 9",
    "cancel 0",
];

#[test]
fn acts_are_read_as_they_are_written() {
    let acts = acts(&ALL);
    assert_eq!(acts.iter().map(ToString::to_string).collect::<Vec<_>>(), ALL);
    let numbers: Vec<_> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Send { sequence, step, of, .. } => Some((*sequence, *step, *of)),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [(0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 1)]);
}

#[test]
fn other_texts_are_no_acts_and_some_cannot_follow_others() {
    for wrong in
        ["", "send", "send 0", "send 8 5", "send 0 END START 5", "send 0 2147483648", "open 1", "pause -1 us", "sing 0"]
    {
        let error = parse_acts(&texts(&[wrong])).expect_err(wrong);
        assert!(error.starts_with(&format!("'{wrong}' is no act: write open LANE")), "{error}");
    }
    for (list, problem) in [
        (&["send 0 START 1", "half-close 0", "send 0 2"][..], "'send 0 2': the stream is half-closed"),
        (&["open 1 over own", "reset 1"], "'reset 1': only a connection that was made for the stream"),
    ] {
        let error = parse_acts(&texts(list)).expect_err(problem);
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn a_failure_is_read_as_it_is_written() {
    let failure =
        failure(vec![conversation(0, 0, 0, &ALL), conversation(1, 2, 1500, &["send 0 START END 1"])]).renumbered();
    let text = failure.to_text();
    assert_eq!(Failure::from_text(&text), Ok(failure), "{text}");
    assert!(text.contains("\"send 0 START 5\","), "an act a line: {text}");
}

#[test]
fn what_is_no_failure_file_is_refused() {
    let good = failure(vec![conversation(0, 0, 0, &["send 0 START END 1"])]).to_text();
    for (from, to, problem) in [
        ("sequence-stress-failure", "something", "its format is 'something' and not 'sequence-stress-failure'"),
        ("version = 1", "version = 2", "its version is 2, and this program reads version 1"),
        ("send 0 START END 1", "sing", "worker 0 context 0: 'sing' is no act"),
        ("kind = ", "kin = ", "unknown field `kin`"),
        ("wrong-sum", "wrong", "unknown variant `wrong`"),
        ("workers = 8", "workers = 0", "its scenario"),
        ("acts", "act", "unknown field `act`"),
    ] {
        assert!(good.contains(from), "{good}");
        let error = Failure::from_text(&good.replace(from, to)).expect_err(problem);
        assert!(error.contains(problem), "{error}");
    }
    for end in 0..good.len() {
        // Whatever is cut off, it is an error or a smaller failure, and no panic.
        let _ = Failure::from_text(&good[..end]);
    }
}

#[test]
fn workers_and_contexts_are_numbered_anew() {
    let list = ["send 0 START END 1"];
    let failure =
        failure(vec![conversation(7, 9, 500, &list), conversation(3, 4, 200, &list), conversation(7, 2, 900, &list)]);
    let places: Vec<_> =
        failure.renumbered().conversations.iter().map(|its| (its.worker, its.context, its.at_us)).collect();
    assert_eq!(places, [(1, 1, 300), (0, 0, 0), (1, 0, 700)]);
}

#[test]
fn a_conversation_with_acts_taken_away_can_still_be_held() {
    let whole = conversation(
        0,
        0,
        0,
        &["open 1 over fresh", "send 1 START 1", "send 0 2", "half-close 1", "await 1", "reset 1"],
    );
    let without = |index: usize| {
        let left = whole.acts.iter().enumerate().filter(|(its, _)| *its != index).map(|(_, act)| *act);
        whole.with_acts(left).map(|its| its.acts.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(without(1), Some(texts(&["send 0 2"])), "the other stream carries nothing");
    assert_eq!(
        without(0),
        Some(texts(&["send 1 START 1", "send 0 2", "half-close 1", "await 1"])),
        "the context's own connection is not reset"
    );
    assert_eq!(whole.with_acts([Act::Await { lane: Lane(0), unanswered: 0 }]), None);
}

/// A server that fails when a START with value 13 and later, on another worker, a step with value 7 is sent.
fn fails(failure: &Failure) -> bool {
    let place = |wanted: i32, start_only: bool| {
        failure.conversations.iter().enumerate().find_map(|(index, its)| {
            let is = |act: &Act| matches!(act, Act::Send { value, start, .. } if *value == wanted && (*start || !start_only));
            its.acts.iter().any(is).then_some((index, its.worker))
        })
    };
    matches!((place(13, true), place(7, false)), (Some((first, one)), Some((second, other))) if first < second && one != other)
}

#[test]
fn a_failure_shrinks_to_the_messages_that_it_needs() {
    let filler = |worker, context| {
        let list: Vec<_> =
            (0..40).map(|n| format!("send 0{} {}", if n == 0 { " START" } else { "" }, 100 + n)).collect();
        Conversation {
            worker,
            context,
            pattern: Pattern::Valid,
            at_us: 10,
            accused: false,
            acts: parse_acts(&list).expect("acts"),
        }
    };
    let mut conversations: Vec<_> = (0..250).map(|number| filler(number % 16, number % 5)).collect();
    conversations[100].acts.insert(3, acts(&["send 0 START 13"])[0]);
    conversations[200].acts.insert(17, acts(&["send 0 7"])[0]);
    conversations[200].acts.insert(3, Act::Open { lane: Lane(1), over: Connection::Fresh });
    let whole = failure(conversations);
    assert!(whole.messages() > 10_000 && fails(&whole));
    let shrunk = shrink(whole, 10_000, &mut fails);
    assert!(shrunk.is_minimal);
    let left: Vec<_> =
        shrunk.failure.conversations.iter().map(|its| (its.worker, its.context, its.acts.clone())).collect();
    let [(0, 0, first), (1, 0, second)] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!((first, second), (&acts(&["send 0 START 13"]), &acts(&["send 0 7"])));
    assert!(shrunk.trials < 200, "{} trials", shrunk.trials);
}

#[test]
fn shrinking_ends_when_its_trials_are_used_up() {
    let list = ["send 0 START 13", "send 0 1", "send 0 2"];
    let mut asked = 0;
    let shrunk = shrink(failure(vec![conversation(0, 0, 0, &list)]), 2, &mut |_| {
        asked += 1;
        false
    });
    assert_eq!((shrunk.trials, asked, shrunk.is_minimal), (2, 2, false));
}
