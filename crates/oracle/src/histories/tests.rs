use std::{collections::HashSet, num::NonZeroU64, time::Duration};

use rand::{Rng, RngExt as _};

use super::{Given, Histories, NODES_MAX};
use crate::{
    Oracle, Rules, Ruling, Words,
    order::{
        Answer, Operation, OrderFound, decide,
        tests::{random_operations, serve, spoil},
    },
    rounds::rounds,
    states::State,
};
use workload::{
    arithmetic::Arithmetic,
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, Event, EventKind, Nanos, Received, Response},
    number::Number,
    seed::Seed,
    sequence::{CorrelationId, IdForm, Pattern, RequestId, Step},
    tensor::{Tensor, TensorData},
};

const STRAGGLING: Duration = Duration::from_millis(1);

impl Histories {
    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether such a state is possible while nothing is taken in that is waited for.
    pub(crate) fn may_come_to(&self, given: &Given, is_it: impl Fn(State) -> bool) -> bool {
        let mut seen = HashSet::new();
        let mut open = self.nodes.clone();
        while let Some(node) = open.pop() {
            if is_it(node.state) || seen.len() > NODES_MAX {
                return true;
            }
            if seen.insert((node.state, node.from)) {
                open.extend(node.silently(given));
            }
        }
        false
    }
}

fn oracle() -> Oracle {
    let rules = Rules {
        model: "m".into(),
        calls: None,
        version: None,
        output: "OUTPUT".into(),
        shape: vec![1, 1].into(),
        arithmetic: Arithmetic::default(),
        idle_limit: Some(Duration::from_secs(1)),
        straggling: STRAGGLING,
        mixes: false,
        restarts: true,
        words: Words::Known,
        controls: None,
        golden: None,
    };
    Oracle::new(rules, 1, 1, |_| (CorrelationId(NonZeroU64::new(5).expect("not zero")), IdForm::Integer))
}

fn event(at: Nanos, lane: u8, kind: EventKind) -> Event {
    Event { at, context: ContextId { worker: 0, context: 0 }, lane: Lane(lane), kind }
}

fn received(step: &Step, answer: Answer) -> EventKind {
    let output = |sum: Number| {
        let data = TensorData::Raw(sum.to_bytes());
        Tensor { name: "OUTPUT".into(), datatype: "INT32".into(), shape: vec![1, 1], data }
    };
    let result = match answer {
        Answer::Sum(sum) => Ok(Response { model: "m".into(), outputs: vec![output(sum)], ..Response::default() }),
        Answer::Rejected => Err("sequence 5 to model 'm' must specify the START flag".to_owned()),
    };
    EventKind::Received(Box::new(Received { id: step.request.to_string(), result, code: None, outputs: 0 }))
}

/// A step START END and its answer: then the ID has no sequence.
fn begin_with_nothing(oracle: &mut Oracle) {
    let request = RequestId { worker: 0, context: 0, sequence: 1_000_000, step: 0 };
    let step = Step { request, pattern: Pattern::Valid, start: true, end: true, value: 1.into(), of: 1, special: None };
    oracle.observe(event(0, 0, EventKind::Sent(step)));
    oracle.observe(event(1, 0, received(&step, Answer::Sum(1.into()))));
}

/// Whether the oracle finds these steps right, each on a stream of its own.
fn is_right(operations: &[Operation]) -> bool {
    let mut oracle = oracle();
    begin_with_nothing(&mut oracle);
    let mut events = Vec::new();
    for (lane, Operation { step, sent_at, answer }) in (0..).zip(operations) {
        events.push(event(*sent_at, lane, EventKind::Sent(*step)));
        events.extend(answer.map(|(at, answer)| event(at, lane, received(step, answer))));
    }
    // What comes at the same time is not ordered.
    events.sort_by_key(|event| (event.at, matches!(event.kind, EventKind::Received(_))));
    events.into_iter().all(|event| oracle.observe(event).violations.is_empty())
}

#[test]
fn the_oracle_finds_steps_right_where_some_order_explains_them() {
    let mut found = [0, 0];
    let mut random = Seed(8).generator(0);
    for case in 0..4000 {
        let count = random.random_range(1..=6);
        let mut operations = random_operations(&mut random, count, 60);
        if case % 3 > 0 {
            spoil(&mut random, &mut operations);
        }
        let expected = matches!(decide(&operations, State::Absent), OrderFound::Explained(_));
        assert_eq!(is_right(&operations), expected, "case {case}: {operations:#?}");
        found[usize::from(expected)] += 1;
    }
    assert!(found.iter().all(|count| *count > 700), "{found:?}");
}

/// A client and a correct server on one correlation ID.
struct Conversation<R> {
    random: R,
    oracle: Oracle,
    now: Nanos,
    events: u64,
    steps: u32,
    held: State,
    unjudged: u64,
}

impl<R: Rng> Conversation<R> {
    fn tell(&mut self, lane: u8, kind: EventKind) -> Ruling {
        self.now += 5_000;
        self.events += 1;
        let ruling = self.oracle.observe(event(self.now, lane, kind));
        assert!(ruling.violations.is_empty(), "{:?}", ruling.violations);
        self.unjudged += u64::from(ruling.settled.is_some_and(|settled| settled.doubt.is_some()));
        ruling
    }

    fn send(&mut self, lane: u8, start: bool, end: bool) -> (u8, Step) {
        let request = RequestId { worker: 0, context: 0, sequence: self.steps, step: 0 };
        self.steps += 1;
        let step = Step {
            request,
            pattern: Pattern::Valid,
            start,
            end,
            value: self.random.random::<i32>().into(),
            of: 1,
            special: None,
        };
        self.tell(lane, EventKind::Sent(step));
        (lane, step)
    }

    fn answer(&mut self, sent: &[(u8, Step)]) {
        for (lane, step) in sent {
            let (then, answer) = serve(self.held, step);
            self.held = then;
            self.tell(*lane, received(step, answer));
        }
    }

    fn sequence(&mut self, lanes: u8) {
        let first = self.send(0, true, false);
        self.answer(&[first]);
        let middle: Vec<_> = (0..3 * lanes).map(|step| self.send(step % lanes, false, false)).collect();
        self.answer(&middle);
        let last = self.send(0, false, true);
        self.answer(&[last]);
    }

    fn cut(&mut self) {
        let sent: Vec<_> = (0..8).map(|step| self.send(0, step == 0, step == 7)).collect();
        self.answer(&sent[..3]);
        self.tell(0, EventKind::Cut(Cut::Cancelled));
        self.tell(0, EventKind::Opened(Connection::Own, Transport::GrpcStream));
        // The rest is dropped unread.
    }
}

fn leaves_no_more_behind_than_a_few(events: u64) {
    let oracle = oracle();
    let random = Seed(9).generator(0);
    let held = State::Absent;
    let mut c = Conversation { random, oracle, now: 0, events: 0, steps: 0, held, unjudged: 0 };
    let (mut states_max, mut requests_max) = (0, 0);
    while c.events < events {
        match c.random.random_range(0..20) {
            0 => c.cut(),
            1 => c.sequence(2),
            _ => c.sequence(1),
        }
        let (states, requests) = c.oracle.ids[0].size();
        (states_max, requests_max) = (states_max.max(states), requests_max.max(requests));
    }
    assert!(states_max <= 4 && requests_max <= 128, "{states_max} states, {requests_max} requests");
    assert!(c.unjudged < c.events / 20, "{} of {}", c.unjudged, c.events);
}

#[test]
fn many_events_on_one_id_leave_no_more_behind_than_a_few() {
    // Some 300 streams are cut. If each left one request behind, there would be more than the 128 that are allowed.
    leaves_no_more_behind_than_a_few(rounds(50_000, 1_000_000));
}
