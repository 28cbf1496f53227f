use std::num::NonZeroU32;

use super::*;
use crate::failure::tests::{conversation, failure};
use workload::{conversation::parse_acts, sequence::Pattern};

/// A gap of no failure.
pub(in crate::window) fn any_gap() -> Gap {
    Gap {
        number: 1,
        worker: 0,
        context: 0,
        from: Mark::Beginning,
        to: Mark::Beginning,
        recorded_us: 0,
        executions: 0,
        conversation: 0,
        place: Place::Start,
    }
}

fn texts(failure: &Failure, conversation: usize) -> Vec<String> {
    failure.conversations[conversation].acts.iter().map(ToString::to_string).collect()
}

fn sent(number: u32) -> Mark {
    Mark::Sent { number, start: number == 1, end: false }
}

const CANCELLED: [&str; 9] = [
    "send 0 START 1",
    "send 0 2",
    "pause 700 us",
    "send 0 3",
    "pause 50 us",
    "await 0 <= 2",
    "pause 1000 us",
    "pause 500 us",
    "cancel 0",
];

#[test]
fn the_gaps_of_a_conversation_are_before_what_the_server_sees() {
    let failure = failure(vec![conversation(0, 0, 0, &CANCELLED)]);
    let gaps = gaps(&failure);
    let seen: Vec<_> = gaps.iter().map(|gap| (gap.number, gap.from, gap.to, gap.recorded_us, gap.executions)).collect();
    let [cancel] = parse_acts(&["cancel 0".to_owned()]).expect("acts").try_into().expect("one");
    assert_eq!(
        seen,
        [
            (1, sent(1), sent(2), 0, 1),
            (2, sent(2), sent(3), 700, 0),
            (3, Mark::Answered(1), Mark::Done(cancel), 1500, 2),
        ]
    );
    let changed = gaps[2].set(&failure, 20);
    assert_eq!(texts(&changed, 0)[5..], ["await 0 <= 2", "pause 20 us", "cancel 0"]);
    assert_eq!(texts(&gaps[2].set(&failure, 0), 0)[4..], ["pause 50 us", "await 0 <= 2", "cancel 0"]);
    let inserted = gaps[0].set(&failure, 9);
    assert_eq!(texts(&inserted, 0)[..3], ["send 0 START 1", "pause 9 us", "send 0 2"]);
    assert_eq!(gaps[1].set(&failure, 700).conversations, failure.conversations);
}

#[test]
fn a_step_without_room_waits_for_the_response_before() {
    let mut failure = failure(vec![conversation(0, 0, 0, &CANCELLED)]);
    failure.scenario.populations[0].sending.window = Room::Steps(NonZeroU32::MIN);
    let seen = |failure: &Failure| gaps(failure).iter().map(|gap| (gap.from, gap.executions)).collect::<Vec<_>>();
    // The wait for two unanswered steps is over when it begins.
    let waits = Mark::Done(parse_acts(&["await 0 <= 2".to_owned()]).expect("an act")[0]);
    assert_eq!(seen(&failure), [(Mark::Answered(1), 0), (Mark::Answered(2), 0), (waits, 0)]);
    // These steps are there to queue.
    failure.conversations[0].pattern = Pattern::CancelQueued;
    assert_eq!(seen(&failure), [(sent(1), 1), (sent(2), 0), (Mark::Answered(1), 2)]);
}

#[test]
fn a_conversation_begins_after_the_one_before_or_after_a_while() {
    let one = ["send 0 START 1"];
    let failure = failure(vec![
        conversation(0, 0, 0, &one),
        conversation(1, 0, 300, &one),
        conversation(1, 1, 300, &["pause 40 us", "send 0 START 1"]),
        conversation(1, 0, 900, &one),
    ]);
    let gaps = gaps(&failure);
    let seen: Vec<_> = gaps.iter().map(|gap| (gap.worker, gap.from, gap.recorded_us)).collect();
    let (began, ended) = (Mark::BeforeBegan, Mark::BeforeEnded);
    assert_eq!(seen, [(0, Mark::Beginning, 0), (1, Mark::Beginning, 300), (1, ended, 40), (1, began, 600)]);
    // The requests of a context are counted over all of its conversations.
    assert_eq!(gaps[3].to, Mark::Sent { number: 2, start: true, end: false });
    let starts = |failure: Failure| failure.conversations.iter().map(|its| its.at_us).collect::<Vec<_>>();
    assert_eq!(starts(gaps[0].set(&failure, 70)), [70, 300, 300, 900]);
    assert_eq!(starts(gaps[1].set(&failure, 0)), [0, 0, 0, 600]);
    assert_eq!(starts(gaps[1].set(&failure, 1300)), [0, 1300, 1300, 1900]);
    assert_eq!(starts(gaps[3].set(&failure, 5)), [0, 300, 300, 305]);
    assert_eq!(texts(&gaps[2].set(&failure, 7), 2), ["pause 7 us", "send 0 START 1"]);
}

#[test]
fn one_worker_begins_when_it_likes() {
    assert_eq!(gaps(&failure(vec![conversation(0, 0, 0, &["send 0 START END 1"])])), []);
}
