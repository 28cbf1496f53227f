//! Measures the CPU time of the oracle's checks, in ns per request, for several kinds of conversations.
//!
//! `cargo bench --profile dist --bench judging` measures. `cargo test --bench judging` runs the quick form: one round of each kind,
//! whose figures mean nothing.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use oracle::{
    Oracle, Rules, Words,
    golden::{Compare, Expectation, Facts, Golden, Identity, Lineage, Output},
};
use workload::{
    arithmetic::{Arithmetic, Formula},
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, Event, EventKind, Received, Response},
    inputs::{ElementType, InputSet, InputTensor, Track},
    number::Number,
    seed::Seed,
    sequence::{CorrelationId, IdForm, Pattern, RequestId, Step},
    tensor::{Tensor, TensorData, TensorSpec},
};

use nix::time::{ClockId, clock_gettime};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

const STEPS: u32 = 16;
const CONVERSATIONS: u32 = 200;
const ROUNDS: u32 = 100;
const QUICK_ROUNDS: u32 = 1;
/// Of a model without a formula: how many tracks it is sent, and how many numbers it answers.
const TRACKS: usize = 64;
const WIDTH: u16 = 512;

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
    answer_of(step, "INT32", vec![1, 1], sum.to_bytes())
}

fn answer_of(step: &Step, datatype: &str, shape: Vec<i64>, data: Vec<u8>) -> EventKind {
    let data = TensorData::Raw(data);
    let output = Tensor { name: "OUTPUT".into(), datatype: datatype.into(), shape, data };
    let response = Response { model: "m".into(), outputs: vec![output], ..Response::default() };
    EventKind::Received(Box::new(Received {
        id: step.request.to_string(),
        result: Ok(response),
        code: None,
        outputs: 0,
    }))
}

fn rules() -> Rules {
    Rules {
        model: "m".into(),
        calls: None,
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
    }
}

/// The time that this thread has run for. Other programs that use the machine are not in it.
fn cpu_time() -> Duration {
    // What the system counts of a thread's resources may be in ticks of its timer.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the system counts it").into()
}

fn measure(rounds: u32, name: &str, mut conversation: impl FnMut(&mut Writer)) {
    let mut oracle = Oracle::new(rules(), 1, 1, |_| (CorrelationId(NonZeroU64::MIN), IdForm::Integer));
    let mut writer = Writer { random: Seed(1).generator(0), at: 0, sequence: 0, events: Vec::new() };
    let (mut requests, mut took, mut unjudged) = (0, Duration::ZERO, 0);
    for _ in 0..rounds {
        (0..CONVERSATIONS).for_each(|_| conversation(&mut writer));
        let events = std::mem::take(&mut writer.events);
        requests += events.iter().filter(|event| matches!(event.kind, EventKind::Sent(_))).count();
        let began = cpu_time();
        for event in events {
            let event = oracle.read(event);
            let ruling = oracle.observe(event);
            assert!(ruling.violations.is_empty(), "{:?}", ruling.violations);
            unjudged += usize::from(ruling.settled.is_some_and(|settled| settled.doubt.is_some()));
        }
        took += cpu_time().saturating_sub(began);
    }
    let each = took.as_nanos() / requests as u128;
    #[expect(clippy::print_stdout, reason = "it is what it is for")]
    {
        println!("{name}: {each} ns a request, {unjudged} of {requests} unjudged");
    }
}

/// Golden outputs of 512 numbers for each step of some tracks, and those outputs.
fn golden() -> (Arc<Golden>, Vec<Vec<Vec<u8>>>) {
    let mut random = Seed(2).generator(0);
    let mut numbers =
        |count: usize| -> Vec<u8> { (0..count).flat_map(|_| random.random::<f32>().to_le_bytes()).collect() };
    let tensor =
        |data: Vec<u8>| InputTensor { name: "INPUT".into(), datatype: ElementType::Fp32, shape: vec![1, 4], data };
    let track = |track: usize| Track {
        name: track.to_string(),
        steps: (0..STEPS).map(|_| [tensor(numbers(4))].into()).collect(),
        pauses: Vec::new(),
    };
    let inputs = Arc::new(InputSet::new((0..TRACKS).map(track).collect()));
    let outputs: Vec<Vec<Vec<u8>>> = (0..TRACKS).map(|_| (0..STEPS).map(|_| numbers(WIDTH.into())).collect()).collect();
    let spec = TensorSpec { name: "OUTPUT".into(), datatype: "FP32".into(), shape: vec![-1, WIDTH.into()] };
    let output = Output { spec, datatype: ElementType::Fp32, compare: Compare::Measured, tolerances: vec![1e-4] };
    let identity =
        Identity { model: "m".into(), version: None, server: None, configuration: None, inputs: String::new() };
    let number = |number: usize| u32::try_from(number).expect("few");
    let of_track = |track: usize| {
        (0..STEPS as usize)
            .map(move |step| (track, step, Lineage::Track { track: number(track), steps: number(step + 1) }))
    };
    let seen = (0..TRACKS).flat_map(of_track).map(|(track, step, lineage)| {
        (lineage, vec![vec![(vec![1, WIDTH.into()], outputs[track][step].clone())]].into())
    });
    let golden = Golden::new(identity, inputs, vec![output], Facts::default(), seen);
    (Arc::new(golden), outputs)
}

/// The same of a model without a formula, beside a bare comparison of the same tensors.
fn measure_golden(rounds: u32) {
    let (golden, outputs) = golden();
    let arithmetic = Arithmetic { datatype: InputSet::DATATYPE, formula: Formula::Golden, ..Arithmetic::default() };
    let rules = Rules { arithmetic, golden: Some(Expectation::of(Arc::clone(&golden))), ..rules() };
    let mut oracle = Oracle::new(rules, 1, 1, |_| (CorrelationId(NonZeroU64::MIN), IdForm::Integer));
    let mut writer = Writer { random: Seed(1).generator(0), at: 0, sequence: 0, events: Vec::new() };
    let mut requests = 0;
    // Other programs use the machine, too: the quickest round is the one that they disturbed the least.
    let (mut quickest_judging, mut quickest_comparing) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        // Kernels add up in another order in another batch: each number is a little off.
        let near = |number: &[u8; 4]| (f32::from_le_bytes(*number) + 1e-5).to_le_bytes();
        let near = |output: &Vec<u8>| output.as_chunks::<4>().0.iter().flat_map(near).collect::<Vec<u8>>();
        let answers: Vec<_> = outputs.iter().flatten().map(near).collect();
        let began = cpu_time();
        for (output, answer) in outputs.iter().flatten().zip(&answers) {
            let apart = Compare::Measured.distance(ElementType::Fp32, output, answer);
            assert!(apart < 1e-4, "{apart}");
        }
        quickest_comparing = quickest_comparing.min(cpu_time().saturating_sub(began));
        let mut answers = answers.into_iter();
        for track in 0..outputs.len() {
            for (number, data) in (0..STEPS).zip(&mut answers) {
                let mut step = writer.step(number);
                step.value = golden.inputs.number(track, number as usize);
                writer.tell(0, EventKind::Sent(step));
                writer.tell(0, answer_of(&step, "FP32", vec![1, WIDTH.into()], data));
            }
            writer.sequence += 1;
        }
        let events = std::mem::take(&mut writer.events);
        requests = events.len() / 2;
        let began = cpu_time();
        for event in events {
            let event = oracle.read(event);
            let ruling = oracle.observe(event);
            assert!(ruling.violations.is_empty(), "{:?}", ruling.violations);
        }
        quickest_judging = quickest_judging.min(cpu_time().saturating_sub(began));
    }
    let each = |took: Duration| took.as_nanos() / requests as u128;
    #[expect(clippy::print_stdout, reason = "it is what it is for")]
    {
        let (judging, comparing) = (each(quickest_judging), each(quickest_comparing));
        println!("outputs of {WIDTH} FP32: {judging} ns a request, {comparing} ns of them for a bare comparison");
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
    measure_golden(rounds);
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
