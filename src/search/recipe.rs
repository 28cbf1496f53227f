//! What a run of a search is like: a small scenario, and the server that it is sent to where the search draws that, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    ops::RangeInclusive,
    time::Duration,
};

use rand::{
    RngExt as _,
    seq::{IndexedMutRandom as _, IndexedRandom as _, IteratorRandom as _},
};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use reference::{Planted, ServerSetup};
use workload::{
    conversation::Transport,
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
/// Streams in most groups: what goes wrong with calls alone is rare.
const TRANSPORTS: [Transport; 10] = {
    let [stream, unary] = [Transport::GrpcStream, Transport::GrpcUnary];
    [stream, stream, stream, stream, stream, stream, stream, unary, Transport::HttpBinary, Transport::Http]
};
/// How many runs load the model anew, where runs may, and when, in ms.
const RELOADED: f64 = 0.3;
const RELOAD: RangeInclusive<u64> = 20..=1500;
/// The longest pause of steps and iterations, in ms.
const PAUSE_MAX: u64 = 1500;
/// A longer idle limit of a given server is not paused for.
const IDLE_MAX: u64 = 1000;
/// How long a run on a given server begins iterations, in s, and how long the pauses of a sequence last there at most, in ms.
const LASTS_S: u64 = 2;
const PAUSES_MAX: u64 = 6000;
/// How long the tool watches before and after such a run whether others use the model.
const QUIET_MS: u64 = 200;
/// Genes that change at a time.
const CHANGES: RangeInclusive<u32> = 1..=3;

/// What recipes are drawn by.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The idle limit of the server, where the server is not drawn.
    pub given_idle: Option<Duration>,
    /// Patterns that no run has.
    pub without: BTreeSet<Pattern>,
    /// Whether the model is loaded anew in some runs.
    pub reloads: bool,
}

/// A small scenario, and the server that it is sent to where that is drawn, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    groups: Vec<Group>,
    server: Option<Drawn>,
    /// When the model is loaded anew, in ms, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reload_ms: Option<u64>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawn {
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
    transport: Transport,
    is_pipelined: bool,
    keeps_streams: bool,
    /// Of steps and of iterations, in ms; the larger ones are about the idle limit.
    think: [u64; 2],
}

impl Recipe {
    /// Any run.
    pub fn drawn(random: &mut ChaCha8Rng, terms: &Terms) -> Self {
        let groups = random.random_range(GROUPS);
        let idle_ms = terms.idle_ms().unwrap_or_else(|| *IDLE.choose(random).expect("there are some"));
        let groups = (0..groups).map(|_| Group::drawn(random, idle_ms, terms)).collect();
        let server = terms.given_idle.is_none().then(|| Drawn {
            is_oldest: random.random_bool(0.4),
            instances: random.random_range(INSTANCES),
            batch: random.random_range(BATCH),
            execution_ms: *EXECUTION.choose(random).expect("there are some"),
            idle_ms,
        });
        let reload_ms = (terms.reloads && random.random_bool(RELOADED)).then(|| random.random_range(RELOAD));
        Self { groups, server, reload_ms }
    }

    /// The same with some genes drawn anew.
    pub(super) fn changed(mut self, random: &mut ChaCha8Rng, terms: &Terms) -> Self {
        for _ in 0..random.random_range(CHANGES) {
            let other = Self::drawn(random, terms);
            match (random.random_range(0..8), &mut self.server, other.server) {
                (0, Some(its), Some(other)) => its.is_oldest = other.is_oldest,
                (1, Some(its), Some(other)) => (its.instances, its.batch) = (other.instances, other.batch),
                (2, Some(its), Some(other)) => its.execution_ms = other.execution_ms,
                (3, Some(its), Some(other)) => its.idle_ms = other.idle_ms,
                (3, ..) if terms.reloads => self.reload_ms = other.reload_ms,
                (4, ..) if self.groups.len() < *GROUPS.end() => self.groups.extend(other.groups.into_iter().take(1)),
                (5, ..) if self.groups.len() > 1 => {
                    _ = self.groups.swap_remove(random.random_range(0..self.groups.len()));
                }
                (_, its, _) => {
                    let idle_ms = its.as_ref().map(|its| its.idle_ms).or(terms.idle_ms()).unwrap_or(IDLE_MAX);
                    let group = self.groups.choose_mut(random).expect("there is one");
                    group.change(Group::drawn(random, idle_ms, terms), random);
                }
            }
        }
        self
    }

    /// Whether the search that drew it drew the server, too.
    pub(super) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Whether it could be drawn by these terms, the server aside.
    pub(super) fn suits(&self, terms: &Terms) -> bool {
        let mut patterns = self.groups.iter().flat_map(|group| group.patterns.keys());
        (terms.reloads || self.reload_ms.is_none()) && !patterns.any(|pattern| terms.without.contains(pattern))
    }

    /// Whether a search may come to it.
    pub(super) fn is_drawable(&self) -> bool {
        let has_groups = GROUPS.contains(&self.groups.len()) && self.groups.iter().all(Group::is_drawable);
        let has_reload = self.reload_ms.is_none_or(|ms| RELOAD.contains(&ms));
        has_reload && has_groups && self.server.as_ref().is_none_or(Drawn::is_drawable) && self.scenario().is_ok()
    }

    /// The scenario as a file has it.
    pub fn scenario_text(&self) -> String {
        let iterations = ITERATIONS / self.groups.iter().map(|group| u64::from(group.workers)).sum::<u64>().max(1);
        let mut text = match &self.server {
            Some(server) => format!("[target]\nmodel = \"{}\"\n", server.model()),
            // What a drawn run reaches is what its search counts.
            None => format!("claims = {{}}\nlimits.quiet_ms = {QUIET_MS}\n"),
        };
        if let Some(ms) = self.reload_ms {
            writeln!(text, "[[phase]]\nname = \"reloaded\"\npause_ms = {ms}\nserver = \"reload\"").expect("a String");
        }
        for (number, group) in self.groups.iter().enumerate() {
            group.write(number, iterations.max(1), self.server.is_none(), &mut text).expect("a String");
        }
        text
    }

    /// The scenario.
    ///
    /// # Errors
    /// When its parts do not go together.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        self.scenario_with(Overrides::default())
    }

    /// The scenario, where something is said in its place, such as the endpoint.
    ///
    /// # Errors
    /// When its parts do not go together.
    pub fn scenario_with(&self, overrides: Overrides) -> Result<Scenario, ScenarioError> {
        Scenario::resolve(&Source::from_text("search", &self.scenario_text()), overrides)
    }

    /// The server, with these faults; as it is by default where none was drawn.
    pub fn server(&self, fault: Vec<Planted>) -> ServerSetup {
        let rest = ServerSetup { fault, ..ServerSetup::default() };
        let Some(Drawn { instances, batch, execution_ms, idle_ms, .. }) = self.server else { return rest };
        ServerSetup {
            idle_limit: Duration::from_millis(idle_ms),
            instances,
            max_batch_size: batch,
            execution_time: Duration::from_millis(execution_ms),
            ..rest
        }
    }
}

impl Terms {
    /// Makes sure that runs can be drawn: each kind of sending has a pattern.
    ///
    /// # Errors
    /// Why not, in one line.
    pub fn check(&self) -> Result<(), String> {
        let is_left =
            |pattern: &Pattern| can_be_sent(*pattern, Transport::GrpcUnary) && !self.without.contains(pattern);
        if Pattern::ALL.iter().any(is_left) { Ok(()) } else { Err("no pattern is left that calls can send".to_owned()) }
    }

    /// The idle limit that pauses are drawn by, in ms, where that of the server is not drawn.
    fn idle_ms(&self) -> Option<u64> {
        let given = self.given_idle?.as_millis();
        Some(u64::try_from(given).unwrap_or(u64::MAX).clamp(1, IDLE_MAX))
    }
}

impl Drawn {
    /// Whether a search may come to it.
    fn is_drawable(&self) -> bool {
        let has_slots = INSTANCES.contains(&self.instances) && BATCH.contains(&self.batch);
        has_slots && EXECUTION.contains(&self.execution_ms) && IDLE.contains(&self.idle_ms)
    }

    fn model(&self) -> &'static str {
        if self.is_oldest { "oldest_sequence_int32" } else { "custom_sequence_int32" }
    }
}

/// Whether a client of a search can send a pattern.
fn can_be_sent(pattern: Pattern, transport: Transport) -> bool {
    !pattern.has(Trait::IsKilled) && (transport == Transport::GrpcStream || !pattern.has(Trait::Streams))
}

impl Group {
    fn drawn(random: &mut ChaCha8Rng, idle_ms: u64, terms: &Terms) -> Self {
        let transport = *TRANSPORTS.choose(random).expect("there are some");
        let count = random.random_range(PATTERNS);
        let may_be = |pattern: &Pattern| can_be_sent(*pattern, transport) && !terms.without.contains(pattern);
        let drawn = Pattern::ALL.into_iter().filter(may_be).sample(random, count);
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
            transport,
            is_pipelined: random.random_bool(0.7),
            keeps_streams: random.random_bool(0.3),
            think: [pause(random), pause(random)],
        }
    }

    /// Whether a search may come to it.
    fn is_drawable(&self) -> bool {
        let Self { workers, common, rare, patterns, longest, window, think, transport, .. } = self;
        let has_size = WORKERS.contains(workers) && COMMON.contains(common) && RARE.contains(rare);
        let has_patterns = PATTERNS.contains(&patterns.len())
            && patterns.iter().all(|(pattern, weight)| can_be_sent(*pattern, *transport) && WEIGHTS.contains(weight));
        let has_times = think.iter().all(|pause| *pause <= PAUSE_MAX);
        let is_known = TRANSPORTS.contains(transport);
        is_known && has_size && has_patterns && has_times && LONGEST.contains(longest) && WINDOWS.contains(window)
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
            _ => (self.patterns, self.transport) = (other.patterns, other.transport),
        }
    }

    /// Writes it. In real time a run has a limit.
    fn write(&self, number: usize, iterations: u64, is_real: bool, out: &mut String) -> std::fmt::Result {
        let weights: Vec<_> = self.patterns.iter().map(|(pattern, weight)| format!("{pattern} = {weight}")).collect();
        let weights = weights.join(", ");
        let [step, iteration] = self.think;
        let longest = if is_real { PAUSES_MAX / u64::from(self.longest) } else { PAUSE_MAX };
        let (step, lasts) =
            (step.min(longest), if is_real { format!(", duration_s = {LASTS_S}") } else { String::new() });
        writeln!(out, "\n[[population]]\nname = \"group-{number}\"")?;
        writeln!(out, "load = {{ workers = {}, iterations = {iterations}{lasts} }}", self.workers)?;
        let probability = if self.rare > 0 { 0.3 } else { 0.0 };
        writeln!(
            out,
            "contexts = {{ common = {}, rare = {}, rare_probability = {probability} }}",
            self.common, self.rare
        )?;
        writeln!(out, "patterns = {{ common = {{ {weights} }}, rare = {{ {weights} }} }}")?;
        writeln!(out, "length = {{ min = 1, max = {0}, uniform = {{ min = 1, max = {0} }} }}", self.longest)?;
        writeln!(out, "think = {{ step_ms.constant = {step}, iteration_ms.constant = {iteration} }}")?;
        let transport = self.transport;
        let reuse = if self.is_pipelined { "pipelined" } else { "after-response" };
        let stream = if self.keeps_streams { "per-context" } else { "per-sequence" };
        let window = self.window.map_or_else(|| "\"all\"".to_owned(), |window| window.to_string());
        writeln!(out, "[population.sending]\ntransport = \"{transport}\"\nreuse = \"{reuse}\"")?;
        if transport == Transport::GrpcStream {
            writeln!(out, "stream = \"{stream}\"\nwindow = {window}")?;
        }
        Ok(())
    }
}
