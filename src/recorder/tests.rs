use super::*;
use crate::preflight::{
    Hints,
    tests::{scenario, told},
};
use workload::{
    conversation::{Connection, Transport},
    event::{Received, Response, Series as Responses},
    sequence::Step,
};

const MS: Nanos = 1_000_000;

/// The first-response times, and the waits for a slot, of sequences of one step each in ms. Each START is sent at 0 and has its last
/// response after 50 ms, the first one so much before.
fn first_responses(responses: Option<u32>, spreads: &[Option<u64>]) -> (Vec<u64>, u64) {
    let scenario = scenario("load.workers = 1\ncontexts = { common = 1, rare = 0, rare_probability = 0 }");
    let hints = Hints { responses, ..Hints::default() };
    let rules = told(&scenario, hints).rules(&scenario);
    let mut tally = Tally::default();
    let mut shortest = Vec::new();
    for spread in spreads {
        let mut recorder = Recorder::of(&scenario, rules.clone(), None, None, Seconds::default());
        let context = ContextId { worker: 0, context: 0 };
        let mut tell = |at, kind| drop(recorder.record(Event { at, context, lane: Lane::FIRST, kind }));
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let step =
            Step { request, pattern: Pattern::Valid, start: true, end: true, value: 1.into(), of: 1, special: None };
        tell(0, EventKind::Opened(Connection::Own, Transport::GrpcStream));
        tell(0, EventKind::Sent(step));
        let series = Responses { spread: spread.map(Duration::from_millis), ..Responses::default() };
        let result = Ok(Response { series, ..Response::default() });
        let received = Received { id: request.to_string(), result, code: None, outputs: 0 };
        tell(50 * MS, EventKind::Received(Box::new(received)));
        let its = recorder.close();
        shortest.extend((its.first_response.count() > 0).then(|| its.first_response.max_us() / 1000));
        tally.merge(&its);
    }
    assert_eq!(tally.first_response.count(), shortest.len() as u64);
    (shortest, tally.waits.slot.count())
}

#[test]
fn the_first_of_several_responses_is_the_first_response_to_a_sequence() {
    // Whether the last response was right makes no difference.
    assert_eq!(first_responses(Some(3), &[Some(0), Some(30), None, Some(50)]), (vec![50, 20, 0], 4));
    // Where there is one response it is the first one, too.
    assert_eq!(first_responses(None, &[None]), (vec![50], 1));
}

#[test]
fn a_sequence_with_a_violation_is_not_as_designed() {
    let scenario = scenario("load.workers = 1\ncontexts = { common = 1, rare = 0, rare_probability = 0 }");
    let rules = told(&scenario, Hints::default()).rules(&scenario);
    let mut recorder = Recorder::of(&scenario, rules, None, None, Seconds::default());
    let context = ContextId { worker: 0, context: 0 };
    let mut tell = |at, kind| drop(recorder.record(Event { at, context, lane: Lane::FIRST, kind }));
    let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
    let step = Step { request, pattern: Pattern::Valid, start: true, end: true, value: 1.into(), of: 1, special: None };
    tell(0, EventKind::Opened(Connection::Own, Transport::GrpcStream));
    tell(0, EventKind::Sent(step));
    // It was executed, and its response has no output.
    let received = Received { id: request.to_string(), result: Ok(Response::default()), code: None, outputs: 0 };
    tell(50 * MS, EventKind::Received(Box::new(received)));
    let tally = recorder.close();
    let counts = tally.patterns[Pattern::Valid.index()];
    assert!(tally.violation_count() > 0);
    assert_eq!((counts.completed, counts.sequences), (1, 1));
    assert_eq!((counts.sequences_as_designed, tally.waits.sequence.count()), (0, 1));
}
