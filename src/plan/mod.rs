//! What a run sends: a pure function of the scenario, the seed and a worker's index.

mod acts;
mod ids;
mod pacing;

pub use acts::{Manner, fresh_connections_of};
pub use ids::correlation_id;
pub use pacing::{Pace, Pacer};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, weighted::WeightedIndex};
use serde::Serialize;

use crate::{
    scenario::{Scenario, Weights},
    seed::Seed,
    sequence::{CorrelationId, Pattern, Sequence},
};

/// One draw from the patterns: what a worker sends on one of its contexts before it goes on to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// The worker's index.
    pub worker: u32,
    /// The how-manieth pass of the worker this is, from 0.
    pub pass: u64,
    /// The context's index; the common ones come first.
    pub context: u32,
    /// The context's correlation ID.
    pub correlation_id: CorrelationId,
    /// The pattern that was drawn.
    pub pattern: Pattern,
    /// One sequence, or two that follow each other.
    pub sequences: Vec<Sequence>,
    /// What the pattern does besides sending them; none where it only sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twist: Option<Twist>,
}

/// The numbers of a pattern that does more than to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Twist {
    /// After how many steps of the first sequence it comes, from 1.
    pub after: u32,
    /// How long a pause is, in percent of the idle limit.
    pub pause_percent: u32,
    /// How many streams there are.
    pub lanes: u8,
}

/// How long pauses are, in percent of the idle limit.
const PAUSES: std::ops::RangeInclusive<u32> = 30..=170;
/// The numbers of streams that one sequence is submitted over at once.
const LANES: std::ops::RangeInclusive<u8> = 2..=4;

/// The passes of one worker, without an end.
#[derive(Debug)]
pub struct WorkerPlan {
    worker: u32,
    scenario: Scenario,
    generator: ChaCha8Rng,
    common: Option<WeightedIndex<f64>>,
    rare: Option<WeightedIndex<f64>>,
    length: rand_distr::Normal<f64>,
    next_pass: u64,
    next_rare: u32,
    /// By context: whether its ID certainly has no sequence, as far as the plan can know.
    has_no_sequence: Vec<bool>,
}

impl WorkerPlan {
    /// The plan of the worker with this index.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: Seed, worker: u32) -> Self {
        let weighted = |contexts: u32, weights: &Weights| {
            (contexts > 0).then(|| WeightedIndex::new(weights.in_order()).expect("a scenario's weights are checked"))
        };
        let normal = scenario.length.normal;
        Self {
            worker,
            generator: seed.generator(worker),
            common: weighted(scenario.contexts.common, &scenario.patterns.common),
            rare: weighted(scenario.contexts.rare, &scenario.patterns.rare),
            length: rand_distr::Normal::new(normal.mean, normal.stdev).expect("a scenario's numbers are finite"),
            next_pass: 0,
            next_rare: 0,
            has_no_sequence: vec![false; scenario.contexts.count() as usize],
            scenario: scenario.clone(),
        }
    }

    /// The next pass.
    pub fn next_pass(&mut self) -> Pass {
        let (context, pattern) = self.draw_pattern();
        self.has_no_sequence[context as usize] = pattern.leaves_no_sequence();
        let sequences = self.draw_sequences(pattern);
        let twist = (pattern.index() > Pattern::NoEnd.index()).then(|| self.draw_twist(&sequences[0]));
        let pass = self.next_pass;
        self.next_pass += 1;
        Pass {
            worker: self.worker,
            pass,
            context,
            correlation_id: correlation_id(&self.scenario, self.worker, context),
            pattern,
            sequences,
            twist,
        }
    }

    fn draw_pattern(&mut self) -> (u32, Pattern) {
        let is_rare = self.generator.random_bool(self.scenario.contexts.rare_probability.0);
        let (context, drawn) =
            if is_rare { (self.take_rare(), &self.rare) } else { (self.draw_common(), &self.common) };
        let weighted = drawn.as_ref().expect("a scenario's odds lead to contexts that exist");
        let pattern = Pattern::ALL[weighted.sample(&mut self.generator)];
        if pattern == Pattern::NoStart && !self.has_no_sequence[context as usize] {
            // The server would rightly take the step for the continuation of a sequence that still lives.
            let patterns = &self.scenario.patterns;
            let weights = if is_rare { &patterns.rare } else { &patterns.common };
            let instead = if weights.of(Pattern::NoEnd) > 0.0 { Pattern::NoEnd } else { Pattern::Valid };
            return (context, instead);
        }
        (context, pattern)
    }

    fn draw_common(&mut self) -> u32 {
        self.generator.random_range(0..self.scenario.contexts.common)
    }

    fn take_rare(&mut self) -> u32 {
        let taken = self.next_rare;
        self.next_rare = (taken + 1) % self.scenario.contexts.rare;
        self.scenario.contexts.common + taken
    }

    fn draw_sequences(&mut self, pattern: Pattern) -> Vec<Sequence> {
        match pattern {
            Pattern::Valid | Pattern::HalfClose => vec![self.draw_sequence(true)],
            Pattern::ValidValid => vec![self.draw_sequence(true), self.draw_sequence(true)],
            Pattern::ValidNoEnd => vec![self.draw_sequence(true), self.draw_sequence(false)],
            Pattern::NoEnd => vec![self.draw_sequence(false)],
            Pattern::NoStart => vec![Sequence { start: false, end: false, values: vec![self.draw_value()] }],
            Pattern::Pause
            | Pattern::CancelExecuting
            | Pattern::CancelIdle
            | Pattern::ContinueElsewhere
            | Pattern::ContinueByNeighbour => vec![self.draw_longer_sequence(2)],
            Pattern::Concurrent => vec![self.draw_longer_sequence(3)],
            // With END queued the slot is given back where the requests are cancelled; without, also by the idle limit.
            Pattern::CancelQueued | Pattern::Reset => {
                let end = self.generator.random_bool(0.5);
                vec![Sequence { end, ..self.draw_longer_sequence(3) }]
            }
            Pattern::CancelRestart | Pattern::RestartElsewhere => {
                vec![self.draw_longer_sequence(3), self.draw_longer_sequence(2)]
            }
        }
    }

    fn draw_sequence(&mut self, end: bool) -> Sequence {
        let length = self.draw_length();
        Sequence { start: true, end, values: (0..length).map(|_| self.draw_value()).collect() }
    }

    /// A sequence with START and END, of at least so many steps.
    fn draw_longer_sequence(&mut self, least: u32) -> Sequence {
        let length = self.draw_length().max(least);
        Sequence { start: true, end: true, values: (0..length).map(|_| self.draw_value()).collect() }
    }

    fn draw_twist(&mut self, first: &Sequence) -> Twist {
        let steps = u32::try_from(first.values.len()).expect("a length is a 32-bit number");
        Twist {
            after: self.generator.random_range(1..steps.max(2)),
            pause_percent: self.generator.random_range(PAUSES),
            lanes: self.generator.random_range(LANES),
        }
    }

    fn draw_length(&mut self) -> u32 {
        let (min, max) = (self.scenario.length.min.get(), self.scenario.length.max.get());
        let drawn = self.length.sample(&mut self.generator);
        // A cast from floating point rounds towards zero and saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let steps = drawn as u32;
        steps.clamp(min, max)
    }

    fn draw_value(&mut self) -> i32 {
        let values = self.scenario.values.uniform;
        self.generator.random_range(values.min..=values.max)
    }
}

#[cfg(test)]
mod tests;
