mod answers;
mod codes;
mod controls;
mod cuts;
mod exchange;
mod series;
mod servers;
mod simulation;
mod special;
mod streams;
mod words;

use std::num::NonZeroU64;

use super::*;
use workload::{
    arithmetic::Arithmetic,
    conversation::{Connection, Transport},
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
        Self::of(form, Arithmetic::default())
    }

    /// Of a model that computes like this.
    fn with_model(arithmetic: Arithmetic) -> Self {
        Self::of(IdForm::Integer, arithmetic)
    }

    /// With a server whose words are not known.
    fn in_other_words() -> Self {
        let mut conversation = Self::new();
        conversation.oracle.rules.words = Words::Unknown;
        conversation
    }

    fn of(form: IdForm, arithmetic: Arithmetic) -> Self {
        let rules = Rules {
            model: "m".into(),
            calls: None,
            version: None,
            output: "OUTPUT".into(),
            shape: vec![1, 1].into(),
            arithmetic,
            idle_limit: Some(IDLE),
            straggling: STRAGGLING,
            mixes: false,
            restarts: true,
            words: Words::Known,
            controls: None,
            golden: None,
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
        let event = Event { at: self.now, context: CONTEXT, lane: self.lane, kind };
        // An event means the same whether its message was read before or not. By turns the one and the other go on.
        let mut twin = self.oracle.clone();
        let of_read = twin.observe(self.oracle.read(event.clone()));
        let ruling = self.oracle.observe(event);
        assert_eq!(format!("{of_read:?}"), format!("{ruling:?}"));
        if self.rulings.len() % 2 == 1 {
            self.oracle = twin;
        }
        self.rulings.push(ruling);
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
                value: value.into(),
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
        self.tell(EventKind::Received(Box::new(Received { id: id.into(), result, code: None, outputs: 0 })))
    }

    fn answer(&mut self, id: &str, sum: i32) -> &mut Self {
        self.receive(id, Ok(response(sum)))
    }

    fn reject(&mut self, id: &str) -> &mut Self {
        self.receive(id, Err(START_ERROR.into()))
    }

    fn violations(&self) -> Vec<ViolationKind> {
        self.rulings.iter().flat_map(|ruling| &ruling.violations).map(|violation| violation.kind).collect()
    }

    /// Whether the last answer was judged.
    fn judged(&self) -> bool {
        self.rulings.last().and_then(|ruling| ruling.settled).expect("an answer").doubt.is_none()
    }

    /// The only violation of the last ruling that has one.
    #[track_caller]
    fn first(&self) -> &Violation {
        let last = self.rulings.iter().rfind(|ruling| !ruling.violations.is_empty());
        &last.expect("a violation").violations[0]
    }

    /// That there is this violation alone, or none.
    #[track_caller]
    fn assert_evidence(&self, expected: Option<(ViolationKind, Evidence)>) {
        let all = self.rulings.iter().flat_map(|ruling| &ruling.violations);
        let all: Vec<_> = all.map(|violation| (violation.kind, violation.evidence.clone())).collect();
        assert_eq!(all, Vec::from_iter(expected));
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
    Response { model: "m".into(), ..Response::default() }
}

fn response(sum: i32) -> Response {
    let data = TensorData::Raw(sum.to_le_bytes().into());
    Response {
        model: "m".into(),
        outputs: vec![Tensor { name: "OUTPUT".into(), datatype: "INT32".into(), shape: vec![1, 1], data }],
        ..Response::default()
    }
}

#[test]
fn a_correct_conversation_is_not_accused() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, true, &[1, 2, 3]).send(
        true,
        false,
        &[10, 20],
    );
    c.answer("0-0-0-0", 1)
        .answer("0-0-0-1", 3)
        .answer("0-0-0-2", 6)
        .answer("0-0-1-0", 10)
        .answer("0-0-1-1", 30)
        .tell(EventKind::Closed);
    // A new START on an ID that may or may not live still.
    c.wait(5000)
        .tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[7])
        .answer("0-0-2-0", 7);
    c.send(false, false, &[8]).reject("0-0-3-0");
    c.assert(&[]);
    assert!(c.rulings.iter().filter_map(|ruling| ruling.settled).all(|settled| settled.doubt.is_none()));
}

#[test]
fn each_wrong_sum_is_one_violation() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).answer("0-0-0-1", 4);
    c.assert(&[ViolationKind::WrongSum]);
    // The state itself is off by one: no further accusation.
    c.answer("0-0-0-2", 7).assert(&[ViolationKind::WrongSum]);
    let Place { request_id, step, .. } = c.first().place.clone().expect("a place");
    assert_eq!((request_id, step), (Some(c.sent[1].request), Some(c.sent[1])));
    let evidence = Evidence::Sum { expected: vec![3.into()], seen: 4.into(), disorder: None };
    assert_eq!(c.first().evidence, evidence);
}

#[test]
fn a_state_that_start_did_not_reset_is_seen() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).send(true, true, &[5]).answer("0-0-0-0", 1).answer("0-0-1-0", 6);
    c.assert(&[ViolationKind::WrongSum]);
}

#[test]
fn a_step_without_start_and_without_sequence_has_to_be_rejected() {
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
    d.send(false, false, &[5]).reject("0-0-0-0");
    assert!(!d.judged());
    c.assert(&[]);
    d.assert(&[]);
}

#[test]
fn a_rejection_has_to_be_for_want_of_start() {
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
fn a_start_is_never_rejected() {
    let mut c = Conversation::new();
    c.wait(100_000).send(true, true, &[1]).reject("0-0-0-0");
    c.assert(&[ViolationKind::SpuriousStartError]);
}

#[test]
fn a_rejection_in_the_middle_is_lawful_only_past_the_idle_limit() {
    for (waited, lawful) in [(999, false), (1000, true)] {
        let mut c = Conversation::new();
        c.send(true, false, &[1]).wait(400).answer("0-0-0-0", 1).wait(waited - 400 - 10).send(false, true, &[2]);
        // The server's clock runs from the arrival of the first step, at the earliest when it was sent.
        c.wait(10).reject("0-0-1-0");
        c.assert(if lawful { &[] } else { &[ViolationKind::SpuriousStartError] });
        assert_eq!(c.judged(), !lawful);
    }
}

#[test]
fn after_a_rejection_the_rest_of_the_sequence_has_to_be_rejected_too() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3, 4]).wait(2000).answer("0-0-0-0", 1).reject("0-0-0-1").reject("0-0-0-2");
    assert!(c.judged());
    c.assert(&[]);
    c.answer("0-0-0-3", 4).assert(&[ViolationKind::MissingStartError]);
}

#[test]
fn without_an_idle_limit_a_rejection_in_the_middle_is_not_judged() {
    let mut c = Conversation::new();
    c.oracle.rules.idle_limit = None;
    c.send(true, true, &[1, 2]).answer("0-0-0-0", 1).reject("0-0-0-1");
    assert!(!c.judged());
    c.assert(&[]);
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
