//! What a run of a search is like: a small scenario, and the server that it is sent to.

use std::{collections::BTreeMap, fmt::Write as _, ops::RangeInclusive, time::Duration};

use rand::{
    RngExt as _,
    seq::{IndexedMutRandom as _, IndexedRandom as _, IteratorRandom as _},
};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use reference::{Planted, ServerSetup};
use workload::{
    scenario::{Overrides, Scenario, ScenarioError, Source},
    sequence::{Pattern, Trait},
};

/// Iterations of a run, of all workers together.
const ITERATIONS: u64 = 60;
const GROUPS: RangeInclusive<usize> = 1..=3;
const WORKERS: RangeInclusive<u32> = 1..=4;
const COMMON: RangeInclusive<u32> = 1..=4;
const RARE: RangeInclusive<u32> = 0..=3;
const INSTANCES: RangeInclusive<u32> = 1..=2;
const BATCH: RangeInclusive<u32> = 1..=6;
/// In ms.
const EXECUTION: [u64; 5] = [0, 1, 3, 8, 20];
const IDLE: [u64; 4] = [60, 150, 400, 1000];
/// Weights of patterns; most are drawn in some runs and not at all in others.
const WEIGHTS: [u32; 3] = [1, 3, 9];
const PATTERNS: RangeInclusive<usize> = 1..=5;
const LONGEST: [u32; 6] = [1, 2, 3, 6, 12, 30];
/// The most steps without a response; none where there is no limit.
const WINDOWS: [Option<u32>; 4] = [None, None, Some(1), Some(2)];
/// The longest pause of steps and iterations, in ms.
const PAUSE_MAX: u64 = 1500;
/// Genes that change at a time.
const CHANGES: RangeInclusive<u32> = 1..=3;

/// A small scenario, and the server that it is sent to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    groups: Vec<Group>,
    is_oldest: bool,
    instances: u32,
    batch: u32,
    execution_ms: u64,
    idle_ms: u64,
}

/// Workers that send alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    workers: u32,
    common: u32,
    rare: u32,
    patterns: BTreeMap<Pattern, u32>,
    longest: u32,
    window: Option<u32>,
    is_unary: bool,
    is_pipelined: bool,
    keeps_streams: bool,
    /// Of steps and of iterations, in ms; the larger ones are about the idle limit.
    think: [u64; 2],
}

impl Recipe {
    /// Any run.
    pub fn drawn(random: &mut ChaCha8Rng) -> Self {
        let groups = random.random_range(GROUPS);
        let idle_ms = *IDLE.choose(random).expect("there are some");
        Self {
            groups: (0..groups).map(|_| Group::drawn(random, idle_ms)).collect(),
            is_oldest: random.random_bool(0.4),
            instances: random.random_range(INSTANCES),
            batch: random.random_range(BATCH),
            execution_ms: *EXECUTION.choose(random).expect("there are some"),
            idle_ms,
        }
    }

    /// The same with some genes drawn anew.
    pub(super) fn changed(mut self, random: &mut ChaCha8Rng) -> Self {
        for _ in 0..random.random_range(CHANGES) {
            let other = Self::drawn(random);
            match random.random_range(0..8) {
                0 => self.is_oldest = other.is_oldest,
                1 => (self.instances, self.batch) = (other.instances, other.batch),
                2 => self.execution_ms = other.execution_ms,
                3 => self.idle_ms = other.idle_ms,
                4 if self.groups.len() < *GROUPS.end() => self.groups.extend(other.groups.into_iter().take(1)),
                5 if self.groups.len() > 1 => _ = self.groups.swap_remove(random.random_range(0..self.groups.len())),
                _ => {
                    let group = self.groups.choose_mut(random).expect("there is one");
                    group.change(Group::drawn(random, self.idle_ms), random);
                }
            }
        }
        self
    }

    /// Whether a search may come to it.
    pub(super) fn is_drawable(&self) -> bool {
        let has_server = INSTANCES.contains(&self.instances) && BATCH.contains(&self.batch);
        let has_times = EXECUTION.contains(&self.execution_ms) && IDLE.contains(&self.idle_ms);
        let has_groups = GROUPS.contains(&self.groups.len()) && self.groups.iter().all(Group::is_drawable);
        has_server && has_times && has_groups && self.scenario().is_ok()
    }

    /// The scenario as a file has it.
    pub fn scenario_text(&self) -> String {
        let iterations = ITERATIONS / self.groups.iter().map(|group| u64::from(group.workers)).sum::<u64>().max(1);
        let mut text = format!("[target]\nmodel = \"{}\"\n", self.model());
        for (number, group) in self.groups.iter().enumerate() {
            group.write(number, iterations.max(1), &mut text).expect("a String");
        }
        text
    }

    /// The scenario.
    ///
    /// # Errors
    /// When its parts do not go together.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        Scenario::resolve(&Source::from_text("search", &self.scenario_text()), Overrides::default())
    }

    /// The server, with these faults.
    pub fn server(&self, fault: Vec<Planted>) -> ServerSetup {
        ServerSetup {
            idle_limit: Duration::from_millis(self.idle_ms),
            instances: self.instances,
            max_batch_size: self.batch,
            execution_time: Duration::from_millis(self.execution_ms),
            fault,
            ..ServerSetup::default()
        }
    }

    fn model(&self) -> &'static str {
        if self.is_oldest { "oldest_sequence_int32" } else { "custom_sequence_int32" }
    }
}

/// Whether a simulated client can send a pattern.
fn can_be_sent(pattern: Pattern, is_unary: bool) -> bool {
    let needs_stream = pattern.has(Trait::Streams);
    !pattern.has(Trait::IsKilled) && (!is_unary || !needs_stream)
}

impl Group {
    fn drawn(random: &mut ChaCha8Rng, idle_ms: u64) -> Self {
        let is_unary = random.random_bool(0.2);
        let count = random.random_range(PATTERNS);
        let drawn = Pattern::ALL.into_iter().filter(|pattern| can_be_sent(*pattern, is_unary)).sample(random, count);
        let weight = |pattern, random: &mut ChaCha8Rng| (pattern, *WEIGHTS.choose(random).expect("there are some"));
        let patterns = drawn.into_iter().map(|pattern| weight(pattern, random)).collect();
        let pause = |random: &mut ChaCha8Rng| match random.random_range(0..6) {
            0 => random.random_range(1..=20),
            1 => random.random_range(1..=idle_ms + idle_ms / 2),
            _ => 0,
        };
        Self {
            workers: random.random_range(WORKERS),
            common: random.random_range(COMMON),
            rare: random.random_range(RARE),
            patterns,
            longest: *LONGEST.choose(random).expect("there are some"),
            window: *WINDOWS.choose(random).expect("there are some"),
            is_unary,
            is_pipelined: random.random_bool(0.7),
            keeps_streams: random.random_bool(0.3),
            think: [pause(random), pause(random)],
        }
    }

    /// Whether a search may come to it.
    fn is_drawable(&self) -> bool {
        let Self { workers, common, rare, patterns, longest, window, think, is_unary, .. } = self;
        let has_size = WORKERS.contains(workers) && COMMON.contains(common) && RARE.contains(rare);
        let has_patterns = PATTERNS.contains(&patterns.len())
            && patterns.iter().all(|(pattern, weight)| can_be_sent(*pattern, *is_unary) && WEIGHTS.contains(weight));
        let has_times = think.iter().all(|pause| *pause <= PAUSE_MAX);
        has_size && has_patterns && has_times && LONGEST.contains(longest) && WINDOWS.contains(window)
    }

    /// Takes one gene of another one.
    fn change(&mut self, other: Self, random: &mut ChaCha8Rng) {
        match random.random_range(0..8) {
            0 => self.workers = other.workers,
            1 => (self.common, self.rare) = (other.common, other.rare),
            2 => self.longest = other.longest,
            3 => self.window = other.window,
            4 => self.is_pipelined = other.is_pipelined,
            5 => self.keeps_streams = other.keeps_streams,
            6 => self.think = other.think,
            // What calls cannot do goes with them.
            _ => (self.patterns, self.is_unary) = (other.patterns, other.is_unary),
        }
    }

    fn write(&self, number: usize, iterations: u64, out: &mut String) -> std::fmt::Result {
        let weights: Vec<_> = self.patterns.iter().map(|(pattern, weight)| format!("{pattern} = {weight}")).collect();
        let weights = weights.join(", ");
        let [step, iteration] = self.think;
        writeln!(out, "\n[[population]]\nname = \"group-{number}\"")?;
        writeln!(out, "load = {{ workers = {}, iterations = {iterations} }}", self.workers)?;
        let probability = if self.rare > 0 { 0.3 } else { 0.0 };
        writeln!(
            out,
            "contexts = {{ common = {}, rare = {}, rare_probability = {probability} }}",
            self.common, self.rare
        )?;
        writeln!(out, "patterns = {{ common = {{ {weights} }}, rare = {{ {weights} }} }}")?;
        writeln!(out, "length = {{ min = 1, max = {0}, uniform = {{ min = 1, max = {0} }} }}", self.longest)?;
        writeln!(out, "think = {{ step_ms.constant = {step}, iteration_ms.constant = {iteration} }}")?;
        let transport = if self.is_unary { "grpc-unary" } else { "grpc-stream" };
        let reuse = if self.is_pipelined { "pipelined" } else { "after-response" };
        let stream = if self.keeps_streams { "per-context" } else { "per-sequence" };
        let window = self.window.map_or_else(|| "\"all\"".to_owned(), |window| window.to_string());
        writeln!(out, "[population.sending]\ntransport = \"{transport}\"\nreuse = \"{reuse}\"")?;
        if !self.is_unary {
            writeln!(out, "stream = \"{stream}\"\nwindow = {window}")?;
        }
        Ok(())
    }
}
