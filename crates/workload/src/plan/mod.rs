//! What a run sends: a pure function of the scenario, the seed and a worker's index.

mod acts;

use std::{iter, num::NonZeroU64, time::Duration};

pub use acts::{Manner, fresh_connections_of, pauses_of};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, weighted::WeightedIndex};
use serde::Serialize;

use crate::{
    conversation::{Lane, Transport},
    inputs::Sent,
    said::is_default,
    scenario::{Length, Load, Millis, Population, Scenario, Sending, Weights},
    seed::Seed,
    sequence::{CorrelationId, Flaw, Pattern, Sequence, Shape, Trait},
};

/// One draw from the patterns: what a worker sends on one of its contexts before it goes on to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Iteration {
    /// The worker's index.
    pub worker: u32,
    /// The how-manieth pass of the worker this is, from 0.
    pub iteration: u64,
    /// The context's index; the common ones come first.
    pub context: u32,
    /// The context's correlation ID.
    pub correlation_id: CorrelationId,
    /// The pattern that was drawn.
    pub pattern: Pattern,
    /// Its sequences, in the order in which they begin; never empty.
    pub sequences: Vec<Sequence>,
    /// How long the worker does nothing before, in ms.
    #[serde(skip_serializing_if = "is_default")]
    pub think_ms: u32,
    /// When each of its steps is due, in the order in which they are sent, in microseconds since the first is; empty where each follows as
    /// soon as it can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub due_us: Vec<u64>,
    /// What the pattern does besides sending them; none where it only sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twist: Option<Twist>,
    /// What each step of the first sequence travels over, where that is drawn; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<Transport>,
    /// The client's deadline in ms, where the pattern has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
}

/// The numbers of a pattern that does more than to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Twist {
    /// After how many steps of the first sequence it comes, from 1.
    pub after: u32,
    /// How long a pause is, or how long a sequence may wait for a slot, in percent of the idle limit.
    pub pause_percent: u32,
    /// How many streams there are.
    pub lanes: u8,
}

/// The correlation ID of a worker's context: IDs of one block, the common contexts' first. The blocks of each version of the model begin
/// anew: a server keeps the sequences of versions apart.
///
/// # Panics
/// When the worker or the context is not one of the scenario's, whose blocks are known to fit the IDs.
pub fn correlation_id(scenario: &Scenario, worker: u32, context: u32) -> CorrelationId {
    let ids = &scenario.correlation_ids;
    let offset = u64::from(scenario.place_in_version(worker)) * u64::from(ids.block.get()) + u64::from(context);
    let id = ids.first.get().checked_add(offset).and_then(NonZeroU64::new);
    CorrelationId(id.expect("a scenario's blocks do not overflow"))
}

/// How long pauses are, in percent of the idle limit.
const PAUSES: std::ops::RangeInclusive<u32> = 30..=170;
/// A client's deadline in ms, where the scenario says nothing of it: around the time of some executions.
const DEADLINES_MS: std::ops::RangeInclusive<u32> = 1..=30;
/// The numbers of streams that one sequence is submitted over at once.
const LANES: std::ops::RangeInclusive<u8> = 2..=4;

/// How many sequences each ID of a shared stream has in one iteration.
const SEQUENCES_OF_AN_ID: u32 = 8;
/// The most IDs whose STARTs share a stream: each has one of the other lanes, and the conversation's first lane is its context's.
const IDS_MAX: u32 = Lane::MAX as u32 - 2;

/// How many sequences of one worker may be under way at a time: two, when a second one is sent behind the first one's END, or one on each
/// ID of a shared stream.
pub fn sequences_at_once(population: &Population) -> u32 {
    if population.draws_any(Trait::SharesStream) { ids_of_a_stream(population).max(2) } else { 2 }
}

fn ids_of_a_stream(population: &Population) -> u32 {
    population.contexts.common.clamp(1, IDS_MAX)
}

/// The most sequences of a burst.
const BURST_MAX: u32 = 64;
/// How many steps of a malformed sequence have a flaw, at the most; two may be drawn for one step.
const FLAWS: std::ops::RangeInclusive<u32> = 1..=4;

/// The iterations of one worker, without an end.
#[derive(Debug)]
pub struct WorkerPlan {
    worker: u32,
    population: Population,
    /// The ID of its first context; those of the others follow.
    first_id: CorrelationId,
    generator: ChaCha8Rng,
    common: Option<WeightedIndex<f64>>,
    rare: Option<WeightedIndex<f64>>,
    next_iteration: u64,
    next_rare: u32,
    /// By context: whether its ID certainly has no sequence, as far as the plan can know.
    has_no_sequence: Vec<bool>,
    /// What steps can travel over.
    transports: Vec<Transport>,
    /// Where sequences send tracks, and no numbers: those, and what draws one.
    tracks: Option<(Sent, ChaCha8Rng)>,
}

impl WorkerPlan {
    /// The plan of the worker with this index.
    pub fn new(scenario: &Scenario, seed: Seed, worker: u32) -> Self {
        let population = scenario.population_of(worker);
        let weighted = |contexts: u32, weights: &Weights| {
            let odds = || WeightedIndex::new(population.odds(weights));
            (contexts > 0).then(|| odds().expect("a scenario's weights are checked"))
        };
        Self {
            worker,
            generator: seed.generator(worker),
            common: weighted(population.contexts.common, &population.patterns.common),
            rare: weighted(population.contexts.rare, &population.patterns.rare),
            next_iteration: 0,
            next_rare: 0,
            has_no_sequence: vec![false; population.contexts.count() as usize],
            first_id: correlation_id(scenario, worker, 0),
            transports: scenario.transports(),
            population: population.clone(),
            tracks: None,
        }
    }

    /// The same plan where each sequence sends a track, if there are some: the value of a step is its input's code.
    #[must_use]
    pub fn with_inputs(self, sent: Option<&Sent>, seed: Seed) -> Self {
        let tracks = sent.map(|sent| (sent.clone(), seed.of_tracks(self.worker)));
        Self { tracks, ..self }
    }

    /// Whether the worker begins no more iterations when this much time has passed since the run began.
    pub fn is_done(&self, elapsed: Duration) -> bool {
        self.population.load.is_done(elapsed, self.next_iteration)
    }

    /// The next iteration.
    pub fn next_iteration(&mut self) -> Iteration {
        let (mut context, pattern) = self.draw_pattern();
        if pattern.has(Trait::SharesStream) {
            // Its IDs are those of the first contexts.
            context = 0;
            self.has_no_sequence[..ids_of_a_stream(&self.population) as usize].fill(true);
        }
        self.has_no_sequence[context as usize] = pattern.has(Trait::LeavesNone);
        let mut sequences: Vec<_> = pattern.shapes().iter().flat_map(|shape| self.draw_sequences(*shape)).collect();
        if let Some(elements) = self.population.values.elements {
            for sequence in &mut sequences {
                let draw = |_: &i64| elements.draw(&mut self.generator);
                sequence.elements = sequence.values.iter().map(draw).collect();
            }
        }
        if !self.population.think.step_ms.is_zero() && !pattern.has(Trait::Queues) {
            for sequence in &mut sequences {
                let draw = |_| self.population.think.step_ms.draw(&mut self.generator);
                sequence.think_ms = (1..sequence.values.len()).map(draw).collect();
            }
        }
        if let Some((sent, generator)) = &mut self.tracks {
            for sequence in &mut sequences {
                take_track(sequence, sent, generator.random_range(0..sent.inputs.tracks().len()));
                if pattern.has(Trait::Queues) {
                    sequence.think_ms.clear();
                }
            }
        }
        let twist = (!pattern.has(Trait::OfTriton)).then(|| self.draw_twist(&sequences[0]));
        let over =
            if pattern.has(Trait::MixesTransports) { self.draw_transports(sequences[0].steps()) } else { Vec::new() };
        let deadline_ms = (pattern == Pattern::Deadline).then(|| self.draw_deadline());
        let steps = sequences.iter().map(|sequence| sequence.values.len()).sum();
        let due_us = if pattern.has(Trait::Queues) { Vec::new() } else { self.draw_due(steps) };
        let iteration = self.next_iteration;
        self.next_iteration += 1;
        Iteration {
            worker: self.worker,
            iteration,
            context,
            correlation_id: self.first_id.after(context),
            pattern,
            sequences,
            think_ms: self.population.think.iteration_ms.draw(&mut self.generator),
            due_us,
            twist,
            over,
            deadline_ms,
        }
    }

    /// When so many steps are due.
    fn draw_due(&mut self, steps: usize) -> Vec<u64> {
        let Load { step_interval_ms: Some(interval), step_jitter_ms, .. } = self.population.load else {
            return Vec::new();
        };
        let us = |time: Millis| u64::try_from(time.duration().as_micros()).expect("it is at most a year");
        let (interval, jitter) = (us(interval), step_jitter_ms.map_or(0, us));
        let mut before = 0;
        let later = (1..steps as u64).map(|step| step.saturating_mul(interval));
        let later = later.map(|due| {
            // A step that comes much later than its interval says makes those behind it no earlier.
            before = before.max(due.saturating_add(self.generator.random_range(0..=jitter)));
            before
        });
        iter::once(0).chain(later).collect()
    }

    /// How the worker's steps travel.
    pub fn sending(&self) -> &Sending {
        &self.population.sending
    }

    fn draw_pattern(&mut self) -> (u32, Pattern) {
        let is_rare = self.generator.random_bool(self.population.contexts.rare_probability.0);
        let (context, drawn) = if is_rare {
            (self.take_rare(), &self.rare)
        } else {
            (self.generator.random_range(0..self.population.contexts.common), &self.common)
        };
        let weighted = drawn.as_ref().expect("a scenario's odds lead to contexts that exist");
        let pattern = Pattern::ALL[weighted.sample(&mut self.generator)];
        if pattern.begins_without_start() && !self.has_no_sequence[context as usize] {
            // The server would rightly take the step for the continuation of a sequence that still lives.
            let patterns = &self.population.patterns;
            let weights = if is_rare { &patterns.rare } else { &patterns.common };
            let instead = if weights.of(Pattern::NoEnd) > 0.0 { Pattern::NoEnd } else { Pattern::Valid };
            return (context, instead);
        }
        (context, pattern)
    }

    fn take_rare(&mut self) -> u32 {
        let taken = self.next_rare;
        self.next_rare = (taken + 1) % self.population.contexts.rare;
        self.population.contexts.common + taken
    }

    fn draw_sequences(&mut self, shape: Shape) -> Vec<Sequence> {
        match shape {
            Shape::Whole(least) => vec![self.draw_sequence(least, true)],
            Shape::Open => vec![self.draw_sequence(1, false)],
            // With END queued the slot is given back where the requests are cancelled; without, also by the idle limit.
            Shape::EndOrNot(least) => {
                let end = self.generator.random_bool(0.5);
                vec![self.draw_sequence(least, end)]
            }
            Shape::Exactly(steps) => {
                let values = (0..steps).map(|_| self.draw_value()).collect();
                // The value of the step that the others replace is drawn, too: a seed's plan depends on it.
                vec![Sequence { values, ..self.draw_step(true, true) }]
            }
            Shape::Stray { end } => vec![self.draw_step(false, end)],
            Shape::Burst => {
                let sequences = self.draw_length().clamp(2, BURST_MAX);
                (0..sequences).map(|_| self.draw_step(true, true)).collect()
            }
            Shape::Flawed => vec![self.draw_flawed_sequence()],
            Shape::EachId(least) => {
                let ids = ids_of_a_stream(&self.population);
                let draw = |number| Sequence { id: number % ids, ..self.draw_sequence(least, true) };
                (0..ids * SEQUENCES_OF_AN_ID).map(draw).collect()
            }
        }
    }

    /// A sequence with START, and with END or not, of at least so many steps.
    fn draw_sequence(&mut self, least: u32, end: bool) -> Sequence {
        let length = self.draw_length().max(least);
        let values = (0..length).map(|_| self.draw_value()).collect();
        Sequence { start: true, end, values, ..Sequence::default() }
    }

    /// A sequence of one step.
    fn draw_step(&mut self, start: bool, end: bool) -> Sequence {
        Sequence { start, end, values: vec![self.draw_value()], ..Sequence::default() }
    }

    /// A sequence with START and END in which some steps but the last have a flaw, those before START among them.
    fn draw_flawed_sequence(&mut self) -> Sequence {
        let flaws = self.generator.random_range(FLAWS);
        let sequence = self.draw_sequence(2 + flaws, true);
        let last = sequence.steps() - 1;
        let mut draw_flaw = |_| {
            let flaw = Flaw::ALL[self.generator.random_range(0..Flaw::ALL.len())];
            (self.generator.random_range(0..last), flaw)
        };
        let flaws = (0..flaws).map(&mut draw_flaw).collect();
        Sequence { flaws, ..sequence }
    }

    fn draw_twist(&mut self, first: &Sequence) -> Twist {
        let steps = first.steps();
        Twist {
            after: self.generator.random_range(1..steps.max(2)),
            pause_percent: self.generator.random_range(PAUSES),
            lanes: self.generator.random_range(LANES),
        }
    }

    /// A client's deadline: at least 1 ms, because a call without any time is never made.
    fn draw_deadline(&mut self) -> u32 {
        let drawn = match &self.population.sending.deadline_ms {
            Some(deadlines) => deadlines.draw(&mut self.generator),
            None => self.generator.random_range(DEADLINES_MS),
        };
        drawn.max(1)
    }

    /// For each step another transport than for the one before it, where there are two.
    fn draw_transports(&mut self, steps: u32) -> Vec<Transport> {
        let mut left = self.transports.clone();
        let mut drawn = Vec::new();
        for _ in 0..steps {
            if left.is_empty() {
                left.push(self.population.sending.transport());
            }
            let place = self.generator.random_range(0..left.len());
            drawn.push(left[place]);
            left = self.transports.iter().copied().filter(|other| *other != drawn[drawn.len() - 1]).collect();
        }
        drawn
    }

    fn draw_length(&mut self) -> u32 {
        let Length { min, max, drawn } = &self.population.length;
        drawn.draw(&mut self.generator).clamp(min.get(), max.get())
    }

    fn draw_value(&mut self) -> i64 {
        self.population.values.draw(&mut self.generator)
    }
}

/// Lets a sequence send a track. A step with a flaw is rejected: it has the input of the step behind it, which is executed in its place.
fn take_track(sequence: &mut Sequence, Sent { inputs, pace }: &Sent, track: usize) {
    // An input has its own shape, whatever `values.elements` says.
    sequence.elements.clear();
    let mut executed = 0;
    for (step, value) in (0..).zip(&mut sequence.values) {
        *value = inputs.number(track, executed).value();
        executed += usize::from(!sequence.flaws.contains_key(&step));
    }
    if let Some(pace) = pace {
        sequence.think_ms = (1..sequence.values.len()).map(|step| pace.before(inputs, track, step)).collect();
    }
}

#[cfg(test)]
mod tests;
