mod controls;
mod special;
mod streams;

use std::num::NonZeroU64;

use super::*;
use crate::{
    conversation::Connection,
    event::{Cut, Disturbance, EventKind, Received, Response},
    sequence::{IdForm, Pattern, RequestId, Special},
    tensor::{Tensor, TensorData},
};

const CONTEXT: ContextId = ContextId { worker: 0, context: 0 };
const MS: Nanos = 1_000_000;
const IDLE: Duration = Duration::from_secs(1);
const STRAGGLING: Duration = Duration::from_secs(3);
const START_ERROR: &str =
    "inference request for sequence 5 to model 'm' must specify the START flag on the first request of the sequence";

/// A conversation on one correlation ID with an oracle listening.
struct Conversation {
    oracle: Oracle,
    now: Nanos,
    lane: Lane,
    serial: u32,
    sent: Vec<Step>,
    rulings: Vec<Ruling>,
}

impl Conversation {
    fn new() -> Self {
        Self::with_ids_as(IdForm::Integer)
    }

    fn with_ids_as(form: IdForm) -> Self {
        let rules = Rules {
            model: "m".into(),
            output: "OUTPUT".into(),
            shape: vec![1, 1],
            idle_limit: Some(IDLE),
            straggling: STRAGGLING,
            mixes: false,
            controls: None,
        };
        let id = CorrelationId(NonZeroU64::new(5).expect("not zero"));
        Self {
            oracle: Oracle::new(rules, 1, 1, |_| (id, form)),
            now: 0,
            lane: Lane::FIRST,
            serial: 0,
            sent: Vec::new(),
            rulings: Vec::new(),
        }
    }

    fn tell(&mut self, kind: EventKind) -> &mut Self {
        self.rulings.push(self.oracle.observe(Event { at: self.now, context: CONTEXT, lane: self.lane, kind }));
        self
    }

    /// What follows happens on this stream.
    fn on(&mut self, lane: u8) -> &mut Self {
        self.lane = Lane(lane);
        self
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self
    }

    /// Sends a sequence on the current stream.
    fn send(&mut self, start: bool, end: bool, values: &[i32]) -> &mut Self {
        self.send_special(start, end, values, &[])
    }

    /// Sends a sequence, the first steps of which are set apart so.
    fn send_special(&mut self, start: bool, end: bool, values: &[i32], special: &[Option<Special>]) -> &mut Self {
        let of = u32::try_from(values.len()).expect("short");
        for (step, &value) in (0..).zip(values) {
            let request = RequestId { worker: 0, context: 0, sequence: self.serial, step };
            let step = Step {
                request,
                pattern: Pattern::Valid,
                start: start && step == 0,
                end: end && step + 1 == of,
                value,
                of,
                special: special.get(step as usize).copied().flatten(),
            };
            self.sent.push(step);
            self.tell(EventKind::Sent(step));
        }
        self.serial += 1;
        self
    }

    fn receive(&mut self, id: &str, result: Result<Response, String>) -> &mut Self {
        self.tell(EventKind::Received(Received { id: id.into(), result }))
    }

    fn answer(&mut self, id: &str, sum: i32) -> &mut Self {
        self.receive(id, Ok(response(sum)))
    }

    fn refuse(&mut self, id: &str) -> &mut Self {
        self.receive(id, Err(START_ERROR.into()))
    }

    fn violations(&self) -> Vec<ViolationKind> {
        self.rulings.iter().flat_map(|ruling| &ruling.violations).map(|violation| violation.kind).collect()
    }

    /// Whether the last answer was judged.
    fn judged(&self) -> bool {
        self.rulings.last().and_then(|ruling| ruling.settled).expect("an answer").judged
    }

    #[track_caller]
    fn assert(&self, expected: &[ViolationKind]) {
        assert_eq!(
            self.violations(),
            expected,
            "{:#?}",
            self.rulings.iter().flat_map(|r| &r.violations).collect::<Vec<_>>()
        );
    }
}

/// An answer without outputs and without an error text.
fn nothing() -> Response {
    Response { model: "m".into(), outputs: Vec::new() }
}

fn response(sum: i32) -> Response {
    let data = TensorData::Raw(sum.to_le_bytes().into());
    Response {
        model: "m".into(),
        outputs: vec![Tensor { name: "OUTPUT".into(), datatype: "INT32".into(), shape: vec![1, 1], data }],
    }
}

#[test]
fn a_correct_conversation_is_not_accused() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1, 2, 3]).send(true, false, &[10, 20]);
    c.answer("0-0-0-0", 1)
        .answer("0-0-0-1", 3)
        .answer("0-0-0-2", 6)
        .answer("0-0-1-0", 10)
        .answer("0-0-1-1", 30)
        .tell(EventKind::Closed);
    // A new START on an ID that may or may not live still.
    c.wait(5000).tell(EventKind::Opened(Connection::Own)).send(true, true, &[7]).answer("0-0-2-0", 7);
    c.send(false, false, &[8]).refuse("0-0-3-0");
    c.assert(&[]);
    assert!(c.rulings.iter().filter_map(|ruling| ruling.settled).all(|settled| settled.judged));
}

#[test]
fn each_wrong_sum_is_one_violation() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).answer("0-0-0-1", 4);
    c.assert(&[ViolationKind::WrongSum]);
    // The state itself is off by one: no further accusation.
    c.answer("0-0-0-2", 7).assert(&[ViolationKind::WrongSum]);
    let text = c.rulings.iter().flat_map(|r| &r.violations).next().expect("one").to_string();
    assert_eq!(
        text,
        "wrong-sum at 0.000 s, worker 0 context 0 correlation ID 5 request 0-0-0-1: sent valid step 2/3 value 2; expected 3; saw 4 (off by 1)"
    );
}

#[test]
fn a_state_that_start_did_not_reset_is_seen() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).send(true, true, &[5]).answer("0-0-0-0", 1).answer("0-0-1-0", 6);
    c.assert(&[ViolationKind::WrongSum]);
}

#[test]
fn a_step_without_start_and_without_sequence_has_to_be_refused() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).answer("0-0-1-0", 5);
    c.assert(&[ViolationKind::MissingStartError]);
    assert!(c.judged());
}

#[test]
fn before_the_first_start_either_is_lawful() {
    let mut c = Conversation::new();
    c.send(false, false, &[5]).answer("0-0-0-0", 1234);
    assert!(!c.judged());
    c.send(false, false, &[5]).answer("0-0-1-0", 1239);
    assert!(c.judged());
    let mut d = Conversation::new();
    d.send(false, false, &[5]).refuse("0-0-0-0");
    assert!(!d.judged());
    c.assert(&[]);
    d.assert(&[]);
}

#[test]
fn a_refusal_has_to_be_for_want_of_start() {
    for text in [
        "something else",
        "inference request for sequence 55 to model 'm' must specify the START flag on the first request of the sequence",
        "inference request for sequence 5 to model 'n' must specify the START flag on the first request of the sequence",
    ] {
        let mut c = Conversation::new();
        c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).receive("0-0-1-0", Err(text.into()));
        c.assert(&[ViolationKind::UnexpectedError]);
    }
}

#[test]
fn a_start_is_never_refused() {
    let mut c = Conversation::new();
    c.wait(100_000).send(true, true, &[1]).refuse("0-0-0-0");
    c.assert(&[ViolationKind::SpuriousStartError]);
}

#[test]
fn a_refusal_in_the_middle_is_lawful_only_past_the_idle_limit() {
    for (waited, lawful) in [(999, false), (1000, true)] {
        let mut c = Conversation::new();
        c.send(true, false, &[1]).wait(400).answer("0-0-0-0", 1).wait(waited - 400 - 10).send(false, true, &[2]);
        // The server's clock runs from the arrival of the first step, at the earliest when it was sent.
        c.wait(10).refuse("0-0-1-0");
        c.assert(if lawful { &[] } else { &[ViolationKind::SpuriousStartError] });
        assert_eq!(c.judged(), !lawful);
    }
}

#[test]
fn after_a_refusal_the_rest_of_the_sequence_has_to_be_refused_too() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3, 4]).wait(2000).answer("0-0-0-0", 1).refuse("0-0-0-1").refuse("0-0-0-2");
    assert!(c.judged());
    c.assert(&[]);
    c.answer("0-0-0-3", 4).assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn without_an_idle_limit_a_refusal_in_the_middle_is_not_judged() {
    let mut c = Conversation::new();
    c.oracle.rules.idle_limit = None;
    c.send(true, true, &[1, 2]).answer("0-0-0-0", 1).refuse("0-0-0-1");
    assert!(!c.judged());
    c.assert(&[]);
}

#[test]
fn a_missing_answer_is_lost_and_the_rest_is_not_known() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).wait(20_000).tell(EventKind::GaveUp);
    c.assert(&[ViolationKind::Lost]);
    assert_eq!(
        c.rulings.last().and_then(|r| r.settled).map(|s| (s.step.request.step, s.outcome)),
        Some((1, Outcome::Indeterminate))
    );
    c.tell(EventKind::Cut(Cut::ByClient));
    assert_eq!(c.rulings.last().map(|r| r.abandoned), Some(1));
    c.assert(&[ViolationKind::Lost]);
}

/// A sequence of which two steps are under way when its stream is cut, and the next one.
fn cut_and_begun_anew() -> Conversation {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).tell(EventKind::Cut(Cut::ByClient));
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[10, 20, 30]).answer("0-0-1-0", 10);
    c
}

#[test]
fn after_a_cut_stragglers_may_be_added_and_may_end_the_sequence() {
    let mut c = cut_and_begun_anew();
    // The straggler 2 was added, and 3 with its END came then.
    c.answer("0-0-1-1", 32);
    assert!(c.judged());
    c.refuse("0-0-1-2");
    assert!(!c.judged());
    c.assert(&[]);
    let mut c = cut_and_begun_anew();
    c.answer("0-0-1-1", 30).answer("0-0-1-2", 62).assert(&[]);
    assert!(c.judged());
}

#[test]
fn after_a_cut_a_sum_that_no_stragglers_make_is_wrong() {
    for sum in [31, 33, 35, 52] {
        let mut c = cut_and_begun_anew();
        c.answer("0-0-1-1", sum).assert(&[ViolationKind::WrongSum]);
    }
    // Once it was added it is not added again.
    let mut c = cut_and_begun_anew();
    c.answer("0-0-1-1", 32).answer("0-0-1-2", 64).assert(&[ViolationKind::WrongSum]);
}

#[test]
fn stragglers_come_until_a_time_limit() {
    for (waited, lawful) in [(2999, true), (3001, false)] {
        let mut c = Conversation::new();
        c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).tell(EventKind::Cut(Cut::ByClient));
        // What was sent in that time may have met them, whenever its answer comes.
        c.wait(waited).tell(EventKind::Opened(Connection::Own)).send(true, true, &[10, 20]).wait(2);
        c.answer("0-0-1-0", 10).answer("0-0-1-1", 32);
        c.assert(if lawful { &[] } else { &[ViolationKind::WrongSum] });
    }
}

#[test]
fn in_doubt_a_start_that_does_not_begin_anew_is_seen() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2]).answer("0-0-0-0", 1).tell(EventKind::Cut(Cut::ByClient));
    c.tell(EventKind::Opened(Connection::Own)).send(true, false, &[10]).answer("0-0-1-0", 11);
    c.assert(&[ViolationKind::WrongSum]);
}

#[test]
fn a_refusal_in_another_order_is_reordered_and_nothing_else() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).send(true, true, &[7, 8]);
    c.answer("0-0-2-0", 7).refuse("0-0-1-0").answer("0-0-2-1", 15);
    c.assert(&[ViolationKind::Reordered]);
}

#[test]
fn a_cut_says_nothing_against_the_server_unless_the_server_did_it() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).tell(EventKind::Cut(Cut::Interrupted)).assert(&[]);
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1]).tell(EventKind::Cut(Cut::Broken("reset".into())));
    c.assert(&[ViolationKind::StreamBroken]);
    c.tell(EventKind::NotClosed).assert(&[ViolationKind::StreamBroken, ViolationKind::StreamNotClosed]);
}

#[test]
fn answers_in_another_order_are_one_violation_each_and_their_sums_are_checked() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-1", 3).answer("0-0-0-0", 1).answer("0-0-0-2", 6);
    c.assert(&[ViolationKind::Reordered]);
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-2", 6).answer("0-0-0-0", 2).answer("0-0-0-1", 3);
    c.assert(&[ViolationKind::Reordered, ViolationKind::WrongSum, ViolationKind::Reordered]);
}

#[test]
fn an_answer_that_was_overtaken_and_never_came_is_lost_and_not_reordered() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).answer("0-0-0-2", 6).wait(20_000).tell(EventKind::GaveUp);
    c.assert(&[ViolationKind::Lost]);
}

#[test]
fn a_second_answer_is_a_duplicate() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1, 2]).answer("0-0-0-0", 1).answer("0-0-0-0", 1);
    c.assert(&[ViolationKind::Duplicate]);
    assert!(c.rulings.last().is_some_and(|ruling| ruling.distrust));
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1]).answer("0-0-0-0", 1).refuse("0-0-0-0");
    c.assert(&[ViolationKind::Duplicate]);
}

#[test]
fn an_answer_to_what_was_not_sent_on_the_stream_is_misaddressed() {
    for id in ["0-0-7-0", "3-0-0-0", "0-1-0-0", "", "nonsense", "0-0-0-1"] {
        let mut c = Conversation::new();
        c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1]).answer(id, 1);
        c.assert(&[ViolationKind::Misaddressed]);
        assert!(c.rulings.last().is_some_and(|ruling| ruling.distrust && ruling.settled.is_none()));
    }
    // What an earlier stream carried.
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1]).answer("0-0-0-0", 1).tell(EventKind::Closed);
    c.tell(EventKind::Opened(Connection::Own)).send(true, true, &[1]).answer("0-0-0-0", 1);
    c.assert(&[ViolationKind::Misaddressed]);
}

#[test]
fn a_response_has_to_be_what_was_asked_for() {
    type Spoil = fn(&mut Response);
    let cases: [(Spoil, ViolationKind); 7] = [
        (|r| r.model = "n".into(), ViolationKind::WrongModel),
        (|r| r.outputs[0].name = "OUTPU".into(), ViolationKind::WrongOutputName),
        (|r| r.outputs.clear(), ViolationKind::WrongOutputName),
        (|r| r.outputs[0].datatype = "UINT32".into(), ViolationKind::WrongOutputType),
        (|r| r.outputs[0].shape = vec![1], ViolationKind::WrongOutputShape),
        (|r| r.outputs[0].data = TensorData::Raw(vec![1, 0, 0]), ViolationKind::WrongOutputSize),
        (|r| r.outputs[0].data = TensorData::Absent, ViolationKind::WrongOutputSize),
    ];
    for (spoil, kind) in cases {
        let mut c = Conversation::new();
        let mut spoiled = response(1);
        spoil(&mut spoiled);
        c.send(true, true, &[1, 2]).receive("0-0-0-0", Ok(spoiled));
        c.assert(&[kind]);
        c.answer("0-0-0-1", 3).assert(&[kind]);
    }
}

#[test]
fn after_an_unexpected_error_nothing_is_known_until_the_next_start() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 4])
        .answer("0-0-0-0", 1)
        .receive("0-0-0-1", Err("out of memory".into()))
        .answer("0-0-0-2", 5);
    c.assert(&[ViolationKind::UnexpectedError]);
    assert!(!c.judged());
    c.send(true, true, &[1]).answer("0-0-1-0", 2);
    c.assert(&[ViolationKind::UnexpectedError, ViolationKind::WrongSum]);
}

#[test]
fn what_is_missing_may_have_been_anything() {
    // A sequence that ended before, and one that went on: behind the gap either is whatever happened in it.
    for end in [true, false] {
        let mut c = Conversation::new();
        c.send(true, end, &[5]).answer("0-0-0-0", 5);
        c.wait(1).tell(EventKind::Cut(Cut::Interrupted)).wait(1);
        c.send(false, false, &[7]).answer("0-0-1-0", 100).assert(&[]);
        c.wait(1).send(false, true, &[7]).refuse("0-0-2-0").assert(&[]);
        // What may be under way of it has an end, and a START is judged at once.
        c.send(true, false, &[1]).answer("0-0-3-0", 2).assert(&[ViolationKind::WrongSum]);
        c.wait(3001).send(true, false, &[1]).answer("0-0-4-0", 1);
        c.send(false, true, &[1]).answer("0-0-5-0", 3).assert(&[ViolationKind::WrongSum, ViolationKind::WrongSum]);
    }
}

/// What a model says of a sequence that began before it was loaded anew, and what it says later.
#[test]
fn while_a_model_is_exchanged_anything_may_become_of_what_is_under_way_and_nothing_of_what_begins_afterwards() {
    let stopping = "Server is stopping, scheduler for model has stopped accepting new inference requests";
    let disturbed = || {
        let mut c = Conversation::new();
        c.tell(EventKind::Opened(Connection::Own)).send(true, false, &[1, 2, 3, 4]).answer("0-0-0-0", 1);
        c.tell(EventKind::Disturbed(Disturbance::Begins)).wait(100).refuse("0-0-0-1");
        c.receive("0-0-0-2", Err(stopping.to_owned()));
        c.tell(EventKind::Disturbed(Disturbance::IsOver)).answer("0-0-0-3", 77);
        assert!(!c.judged());
        c.wait(100);
        c
    };
    // The sequence may have lived on, or not.
    let mut c = disturbed();
    c.send(false, false, &[1]).refuse("0-0-1-0").assert(&[]);
    let mut c = disturbed();
    c.send(false, false, &[1]).answer("0-0-1-0", 78).assert(&[]);
    // A new one is as ever.
    let mut c = disturbed();
    c.send(true, true, &[1, 2]).answer("0-0-1-0", 1).answer("0-0-1-1", 4).assert(&[ViolationKind::WrongSum]);
    let mut c = disturbed();
    c.send(true, false, &[1, 2]).answer("0-0-1-0", 1).refuse("0-0-1-1").assert(&[ViolationKind::SpuriousStartError]);
    let mut c = disturbed();
    c.send(true, false, &[1]).receive("0-0-1-0", Err(stopping.to_owned())).assert(&[ViolationKind::UnexpectedError]);
    let mut c = disturbed();
    c.send(false, false, &[1]).receive("0-0-1-0", Err("other".to_owned())).assert(&[ViolationKind::UnexpectedError]);
    // What was sent before may be lost, and what is sent afterwards may not.
    let mut c = disturbed();
    c.send(true, false, &[1]).tell(EventKind::GaveUp).assert(&[ViolationKind::Lost]);
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own)).send(true, false, &[1]).tell(EventKind::Disturbed(Disturbance::Begins));
    c.wait(100).tell(EventKind::Disturbed(Disturbance::IsOver)).wait(5000).tell(EventKind::GaveUp).assert(&[]);
    // A stream need not end that was there before.
    c.tell(EventKind::NotClosed).assert(&[]);
    // A stream may break that was there before.
    let mut c = disturbed();
    c.tell(EventKind::Cut(Cut::Broken("reset".into()))).assert(&[]);
    // One that was opened soon afterwards may be on a connection whose end has not arrived yet, until it is answered.
    let opened_after = |ms| {
        let mut c = disturbed();
        c.tell(EventKind::Cut(Cut::ByClient)).wait(ms).tell(EventKind::Opened(Connection::Own)).send(
            true,
            false,
            &[1, 2],
        );
        c
    };
    let broken = || EventKind::Cut(Cut::Broken("reset".into()));
    opened_after(1).tell(broken()).assert(&[]);
    opened_after(1).answer("0-0-1-0", 1).tell(broken()).assert(&[ViolationKind::StreamBroken]);
    opened_after(3000).tell(broken()).assert(&[ViolationKind::StreamBroken]);
    // Of the stream that comes after one that was answered nothing is known.
    let mut c = opened_after(1);
    c.answer("0-0-1-0", 1).tell(EventKind::Cut(Cut::ByClient)).tell(EventKind::Opened(Connection::Own));
    c.send(true, false, &[1]).tell(broken()).assert(&[]);
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own)).send(true, false, &[1]).tell(broken());
    c.assert(&[ViolationKind::StreamBroken]);
}

#[test]
fn what_was_cut_before_an_exchange_may_still_come_after_it() {
    let mut c = Conversation::new();
    c.send(true, false, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).tell(EventKind::Cut(Cut::ByClient));
    c.tell(EventKind::Disturbed(Disturbance::Begins)).wait(100).tell(EventKind::Disturbed(Disturbance::IsOver));
    c.wait(1).tell(EventKind::Opened(Connection::Own)).send(true, false, &[10, 20]);
    c.answer("0-0-2-0", 10).answer("0-0-2-1", 35).assert(&[]);
    c.wait(3000).send(true, false, &[10, 20]).answer("0-0-3-0", 10).answer("0-0-3-1", 35);
    c.assert(&[ViolationKind::WrongSum]);
}
