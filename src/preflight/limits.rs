//! How long a run waits for an answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use workload::{
    model::Model,
    plan::{pauses_of, sequences_at_once},
    scenario::{Millis, Population, Scenario},
};

/// What no limit passes: nobody waits for so long, and it can be doubled and added to any time without an overflow.
const LONGEST: Duration = Duration::from_millis(100 * Millis::MAX);

/// The longest that a client waits until it gives a connection up on which nothing passes any more.
pub(crate) const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// The time limits of a run, after what is known of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// The longest that a correct server may let an answer wait.
    pub lawful: Duration,
    /// What one step may take in the server.
    pub step: Duration,
    /// A missing answer is lost after this.
    pub lost_after: Duration,
    /// For so long a correct server may answer none of those who wait: as long as no sequence that has a slot sends anything, until the
    /// idle limit takes the slot from it. Who waits for a stream's end alone waits no longer either.
    #[serde(default)]
    pub silence: Duration,
    /// An answer that takes longer than this misses the user's threshold.
    pub threshold: Option<Duration>,
    /// What the longest lawful wait is made of.
    #[serde(skip)]
    waits: Waits,
}

/// What the longest lawful wait is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    /// The longest that a sequence may have its slot.
    turn: Duration,
    slots: u32,
    /// How many sequences of one worker may be in the backlog before a START.
    at_once: u32,
    network: Duration,
    /// A missing answer is not lost before this.
    least: Duration,
}

impl Waits {
    /// The longest lawful wait for a slot and for all the steps of a sequence.
    ///
    /// Every slot may be taken when a START comes, by a sequence that sends no END and is ended only by the idle limit. Before
    /// it in the backlog are at most the sequences that the workers have under way ([`sequences_at_once`]). The backlog is served in order, so what comes later does not count. A slot is free again at the
    /// latest when the longest sequence has run in it and the idle limit has passed.
    fn lawful(&self, workers: u32) -> Duration {
        let turns = workers.saturating_mul(self.at_once).div_ceil(self.slots.max(1)).saturating_add(1);
        // What the network adds to the request and its own answer comes on top.
        self.turn.saturating_mul(turns).saturating_add(self.network).min(LONGEST)
    }
}

impl RunLimits {
    /// The limits for this scenario and this model. Where the slots or the idle limit are not known, one slot and the
    /// usual second are taken.
    pub(crate) fn new(scenario: &Scenario, model: &Model) -> Self {
        Self::with_pauses(scenario, model, pauses_of(scenario, idle_limit(model)))
    }

    /// The limits where a conversation may pause for so long in all, in the middle of its sequences.
    pub(crate) fn with_pauses(scenario: &Scenario, model: &Model, pauses: Duration) -> Self {
        let response = scenario.limits.response_ms.map(Millis::duration);
        let least = scenario.limits.lost_after_ms.duration().max(response.unwrap_or_default());
        let slots = model.fewest_slots().unwrap_or(1).max(1);
        let turn = longest_turn(scenario, model, pauses);
        let at_once = scenario.populations.iter().map(sequences_at_once).max().unwrap_or_default();
        let waits = Waits { turn, slots, at_once, network: added_by_networks(scenario), least };
        let lawful = waits.lawful(scenario.workers());
        let lost_after = lawful.max(least);
        let step = step_time(scenario, model).min(LONGEST);
        let idle = idle_limit(model).saturating_add(model.turn.between_models);
        let silence = idle.saturating_add(step).saturating_add(added_by_networks(scenario));
        Self {
            lawful,
            step,
            lost_after,
            silence: silence.max(scenario.limits.lost_after_ms.duration()).min(lost_after),
            threshold: response.filter(|&response| response < lost_after),
            waits,
        }
    }

    /// After how long a missing answer is lost, where so many workers of each population were busy at a time at the most; none where all
    /// always are, because iterations follow one another.
    pub(crate) fn lost_after_of(&self, scenario: &Scenario, busy: &[Option<u32>]) -> Duration {
        if busy.iter().all(Option::is_none) {
            return self.lost_after;
        }
        let workers = |(population, busy): (&Population, &Option<u32>)| busy.unwrap_or(population.load.workers.get());
        self.lost_after_with(scenario.populations.iter().zip(busy).map(workers).fold(0, u32::saturating_add))
    }

    /// How long a server may answer nobody to whom it owes something.
    pub(crate) fn longest_silence(&self, scenario: &Scenario) -> Duration {
        let taken_within = if scenario.has_network_that_takes() { PATIENCE_MAX } else { Duration::ZERO };
        self.silence * 2 + taken_within
    }

    /// After how long a missing answer is lost where no more than so many workers were busy at a time.
    fn lost_after_with(&self, workers: u32) -> Duration {
        self.waits.lawful(workers).max(self.waits.least).min(self.lost_after)
    }
}

/// The longest that one step may take in the server: its own execution and those whose turn comes before it.
fn step_time(scenario: &Scenario, model: &Model) -> Duration {
    let executions = model.execution.saturating_mul(model.arithmetic.answers.executions());
    let own = scenario.limits.step_ms.duration().saturating_add(executions);
    let execution = own.saturating_add(model.turn.queue_delay);
    execution.saturating_mul(model.turn.executions_before.saturating_add(1))
}

/// The longest that a sequence may have its slot.
fn longest_turn(scenario: &Scenario, model: &Model, pauses: Duration) -> Duration {
    let idle_limit = idle_limit(model);
    let longest = |population: &Population| {
        let thinking = population.longest_between_steps();
        // Who does nothing, or is not heard of, for longer than the idle limit loses the slot.
        let silent = thinking.unwrap_or(idle_limit).saturating_add(population.network.round_trip()).min(idle_limit);
        let step = step_time(scenario, model).saturating_add(silent);
        let stalled = population.network.stall().min(idle_limit);
        step.saturating_mul(population.length.max.get()).saturating_add(stalled).saturating_add(passage(population))
    };
    let longest_sequence = scenario.populations.iter().map(longest).max().unwrap_or_default();
    let between_models = model.turn.between_models;
    idle_limit.saturating_add(longest_sequence).saturating_add(pauses).saturating_add(between_models)
}

/// The idle limit, or the server's default where it is not known.
pub(super) fn idle_limit(model: &Model) -> Duration {
    model.idle_limit.unwrap_or(Duration::from_secs(1))
}

/// How much longer a request and its answer are under way because of the worst network.
fn added_by_networks(scenario: &Scenario) -> Duration {
    let under_way = |population: &Population| {
        let network = &population.network;
        network.round_trip().saturating_add(network.stall()).saturating_add(passage(population))
    };
    scenario.populations.iter().map(under_way).max().unwrap_or_default()
}

/// How long all that may be under way on a connection takes to pass: two sequences of the worker and two of its neighbour.
fn passage(population: &Population) -> Duration {
    population.network.passage(u64::from(population.length.max.get()) * 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{
        model::Turn,
        scenario::{Overrides, Source},
    };

    fn model(execution: Duration) -> Model {
        Model { execution, batches: true, ..Model::default() }
    }

    #[test]
    fn the_most_absurd_times_can_be_doubled_and_added() {
        let year = Millis::MAX;
        let text = format!("limits = {{ step_ms = {year}, lost_after_ms = {year} }}\nlength.max = 1000000");
        let scenario = Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario");
        let model = Model {
            slots: Some(1),
            idle_limit: Some(Duration::MAX),
            turn: Turn { executions_before: u32::MAX, queue_delay: Duration::MAX, between_models: Duration::MAX },
            ..model(Duration::MAX)
        };
        let limits = RunLimits::new(&scenario, &model);
        assert_eq!((limits.lawful, limits.step, limits.lost_after), (LONGEST, LONGEST, LONGEST));
        assert!(tokio::time::Instant::now().checked_add(limits.lost_after * 10).is_some());
    }

    #[test]
    fn a_server_is_silent_for_no_longer_than_an_idle_limit_and_a_step_however_long_the_sequences_are() {
        let limits = |text: &str| {
            let scenario =
                Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
            let model = Model { slots: Some(4), idle_limit: Some(Duration::from_secs(30)), ..model(Duration::ZERO) };
            RunLimits::new(&scenario, &model)
        };
        let ms = Duration::from_millis;
        let long = limits("length.max = 1000000\nlimits.step_ms = 20");
        assert!(long.lost_after > Duration::from_secs(20_000), "{long:?}");
        assert_eq!(long.silence, ms(30_020));
        assert_eq!(limits("network.latency_ms.constant = 10\nlimits.step_ms = 20").silence, ms(30_040));
        assert_eq!(limits("limits = { step_ms = 20, lost_after_ms = 60000 }").silence, ms(60_000));
    }

    #[test]
    fn what_the_network_may_add_is_added() {
        let lawful = |more: &str| {
            let text = format!("load.workers = 2\nlength.max = 10\nlimits.step_ms = 1\n{more}");
            let scenario =
                Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario");
            let slots_of = |model: Model| Model { slots: Some(4), idle_limit: Some(Duration::from_secs(1)), ..model };
            RunLimits::new(&scenario, &slots_of(model(Duration::ZERO))).lawful
        };
        let ms = Duration::from_millis;
        // Two turns, of an idle limit and ten steps each.
        assert_eq!(lawful(""), ms(2 * 1010));
        assert_eq!(lawful("network.latency_ms.constant = 10"), ms(2 * (1010 + 10 * 20) + 20));
        assert_eq!(lawful("network.bandwidth_kib_s = 20"), ms(2 * (1010 + 1000) + 1000));
        let hole = "network.black_hole = { after_ms.constant = 1, for_ms.constant = 3000 }";
        assert_eq!(lawful(hole), ms(2 * (1010 + 1000) + 3000));
    }
}
