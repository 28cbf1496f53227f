//! Measures the CPU time of the oracle's checks, in ns per request, for several kinds of conversations.
//!
//! `cargo bench --profile dist --bench judging` measures. `cargo test --bench judging` runs the quick form: one round of each kind,
//! whose figures mean nothing.

use std::{num::NonZeroU64, time::Duration, time::Instant};

use oracle::{Oracle, Rules, Words};
use workload::{
    arithmetic::Arithmetic,
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, Event, EventKind, Received, Response},
    number::Number,
    seed::Seed,
    sequence::{CorrelationId, IdForm, Pattern, RequestId, Step},
    tensor::{Tensor, TensorData},
};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

const STEPS: u32 = 16;
const CONVERSATIONS: u32 = 200;
const ROUNDS: u32 = 100;
const QUICK_ROUNDS: u32 = 1;

/// Makes up what happens on one context of a correct server.
struct Writer {
    random: ChaCha8Rng,
    at: u64,
    sequence: u32,
    events: Vec<Event>,
}

impl Writer {
    fn tell(&mut self, lane: u8, kind: EventKind) {
        self.at += 10_000;
        let context = ContextId { worker: 0, context: 0 };
        self.events.push(Event { at: self.at, context, lane: Lane(lane), kind });
    }

    /// A sequence over so many streams; its answers come when all steps of a group are sent.
    fn sequence(&mut self, lanes: u8, answered: u32) {
        let mut sum = Number::default();
        let steps: Vec<_> = (0..STEPS).map(|step| self.step(step)).collect();
        let groups: Vec<&[Step]> = match lanes {
            1 => vec![&steps],
            _ => [&steps[..1]].into_iter().chain(steps[1..].chunks(usize::from(lanes) * 2)).collect(),
        };
        let mut open = answered;
        for group in groups {
            let lane = |index: usize| u8::try_from(index % usize::from(lanes)).expect("small");
            for (index, step) in group.iter().enumerate() {
                self.tell(lane(index), EventKind::Sent(*step));
            }
            for (index, step) in group.iter().enumerate().take(open as usize) {
                sum = sum.wrapping_add(step.value);
                self.tell(lane(index), answer(step, sum));
            }
            open = open.saturating_sub(u32::try_from(group.len()).expect("few"));
        }
        self.sequence += 1;
    }

    fn step(&mut self, step: u32) -> Step {
        let request = RequestId { worker: 0, context: 0, sequence: self.sequence, step };
        let value = self.random.random::<i32>().into();
        Step {
            request,
            pattern: Pattern::Valid,
            start: step == 0,
            end: step + 1 == STEPS,
            value,
            of: STEPS,
            special: None,
        }
    }
}

fn answer(step: &Step, sum: Number) -> EventKind {
    let data = TensorData::Raw(sum.to_bytes());
    let output = Tensor { name: "OUTPUT".into(), datatype: "INT32".into(), shape: vec![1, 1], data };
    let response = Response { model: "m".into(), outputs: vec![output], ..Response::default() };
    EventKind::Received(Box::new(Received {
        id: step.request.to_string(),
        result: Ok(response),
        code: None,
        outputs: 0,
    }))
}

fn measure(rounds: u32, name: &str, mut conversation: impl FnMut(&mut Writer)) {
    let rules = Rules {
        model: "m".into(),
        version: None,
        output: "OUTPUT".into(),
        shape: vec![1, 1].into(),
        arithmetic: Arithmetic::default(),
        idle_limit: Some(Duration::from_secs(1)),
        straggling: Duration::from_millis(20),
        mixes: false,
        restarts: true,
        words: Words::Known,
        controls: None,
        golden: None,
    };
    let mut oracle = Oracle::new(rules, 1, 1, |_| (CorrelationId(NonZeroU64::MIN), IdForm::Integer));
    let mut writer = Writer { random: Seed(1).generator(0), at: 0, sequence: 0, events: Vec::new() };
    let (mut requests, mut took, mut unjudged) = (0, Duration::ZERO, 0);
    for _ in 0..rounds {
        (0..CONVERSATIONS).for_each(|_| conversation(&mut writer));
        let events = std::mem::take(&mut writer.events);
        requests += events.iter().filter(|event| matches!(event.kind, EventKind::Sent(_))).count();
        let began = Instant::now();
        for event in events {
            let event = oracle.read(event);
            let ruling = oracle.observe(event);
            assert!(ruling.violations.is_empty(), "{:?}", ruling.violations);
            unjudged += usize::from(ruling.settled.is_some_and(|settled| settled.doubt.is_some()));
        }
        took += began.elapsed();
    }
    let each = took.as_nanos() / requests as u128;
    #[expect(clippy::print_stdout, reason = "it is what it is for")]
    {
        println!("{name}: {each} ns a request, {unjudged} of {requests} unjudged");
    }
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn main() {
    // `cargo bench` adds this flag, and `cargo test` does not.
    let is_quick = !std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_quick { QUICK_ROUNDS } else { ROUNDS };
    if is_quick {
        println!("quick form: the figures mean nothing");
    }
    measure(rounds, "one stream", |writer| writer.sequence(1, STEPS));
    measure(rounds, "three streams at once", |writer| writer.sequence(3, STEPS));
    let mut conversations = 0;
    measure(rounds, "one stream, one in ten cut", |writer| {
        conversations += 1;
        if conversations % 10 > 0 {
            return writer.sequence(1, STEPS);
        }
        writer.sequence(1, 4);
        writer.tell(0, EventKind::Cut(Cut::Cancelled));
        writer.tell(0, EventKind::Opened(Connection::Own, Transport::GrpcStream));
    });
}
