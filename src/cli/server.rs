//! The flags that say how the reference server is to be.

use std::{num::NonZeroU32, time::Duration};

use clap::Args;

use super::values::{any_milliseconds, share, some_milliseconds, time, whole};
use models::ModelOptions;
use reference::{Like, Options, Planted, fault::When};
use workload::{model::Strategy, seed::Seed};

/// What the reference server is to do, whether alone or embedded.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "reference server")]
#[command(next_help_heading = "The reference server (alone, or with --embedded)")]
pub struct ServerArgs {
    /// Instances of each model [default: 1]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub instances: Option<NonZeroU32>,
    /// The most requests of one execution; with Direct, the slots of an instance [default: 8]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub max_batch_size: Option<NonZeroU32>,
    /// The slots of an instance where the strategy is Oldest [default: as --max-batch-size]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub candidates: Option<NonZeroU32>,
    /// How long one execution takes, such as 10ms [default: 3ms]
    #[arg(long, value_name = "TIME", value_parser = any_milliseconds)]
    pub execution_time: Option<Duration>,
    /// How long the scheduler may hold a batch back for more requests; with Direct, below --minimum-slot-utilization [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub queue_delay: Option<Duration>,
    /// With Direct: the share of slots, from 0 to 1, for which no batch is held back [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub minimum_slot_utilization: Option<f32>,
    /// With Oldest: batch sizes for which no batch is held back, such as 2,4
    #[arg(long, value_name = "LIST", value_parser = whole::<NonZeroU32>, value_delimiter = ',')]
    pub preferred_batch_size: Vec<NonZeroU32>,
    /// Which release of Triton to be like, where they differ; 25.01 refuses correlation IDs of another type than the model is told
    /// [default: 24.10]
    #[arg(long, value_name = "RELEASE")]
    pub like: Option<Like>,
    /// Tell the client to go away (GOAWAY) on each gRPC connection of this age, and let what is under way finish [default: never]
    #[arg(long, value_name = "TIME", value_parser = some_milliseconds)]
    pub grpc_max_connection_age: Option<Duration>,
    /// Plant a fault: NAME, NAME:PROBABILITY or NAME:once@N; `sequence-stress faults` lists the names (repeatable)
    #[arg(long, value_name = "NAME[:WHEN]")]
    pub fault: Vec<Planted>,
    /// What decides when faults happen that have a probability [default: the run's seed, or 0]
    #[arg(long, value_parser = whole::<u64>, value_name = "SEED")]
    pub fault_seed: Option<u64>,
    /// How long late-response, slow-execution and late-release hold up what they make late [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub fault_hold: Option<Duration>,
}

impl ServerArgs {
    pub(super) fn options(&self, seed: Seed) -> Options {
        let defaults = ModelOptions::default();
        let max_batch_size = self.max_batch_size.map_or(defaults.max_batch_size, NonZeroU32::get);
        let models = ModelOptions {
            instances: self.instances.map_or(defaults.instances, NonZeroU32::get),
            max_batch_size,
            candidates: self.candidates.map_or(max_batch_size, NonZeroU32::get),
            execution: self.execution_time.unwrap_or(defaults.execution),
            queue_delay: self.queue_delay.unwrap_or(defaults.queue_delay),
            minimum_slot_utilization: self.minimum_slot_utilization.unwrap_or(defaults.minimum_slot_utilization),
            preferred_batch_sizes: self.preferred_batch_size.iter().map(|size| size.get()).collect(),
            ..defaults
        };
        let options = Options { models, ..Options::default() };
        Options {
            faults: self.fault.clone(),
            fault_seed: self.fault_seed.map_or(seed, Seed),
            fault_hold: self.fault_hold.unwrap_or(options.fault_hold),
            like: self.like.unwrap_or_default(),
            max_connection_age: self.grpc_max_connection_age,
            ..options
        }
    }

    /// Refuses options of a strategy that none of these models has, and returns what does nothing besides, a sentence each:
    /// a script may well give `--fault-hold` to runs with a fault and without.
    pub(super) fn check(&self, models: &str, strategies: &[Strategy]) -> Result<Vec<String>, String> {
        let has = |strategy| strategies.contains(&strategy);
        let of_one_strategy = [
            ("--candidates", self.candidates.is_some(), Strategy::Oldest),
            ("--preferred-batch-size", !self.preferred_batch_size.is_empty(), Strategy::Oldest),
            ("--minimum-slot-utilization", self.minimum_slot_utilization.is_some(), Strategy::Direct),
        ];
        for (flag, is_given, strategy) in of_one_strategy {
            if let Some(other) = strategies.first().filter(|_| is_given && !has(strategy)) {
                return Err(format!(
                    "{flag} is for {strategy}, and {models} is {other}: leave it out, or see --strategy"
                ));
            }
        }
        let utilization = self.minimum_slot_utilization.is_some_and(|share| share > 0.0);
        let delay = self.queue_delay.is_some_and(|delay| !delay.is_zero());
        let notes = [
            (
                delay && !utilization && !has(Strategy::Oldest),
                "--queue-delay does nothing here: with Direct a batch is held back only for --minimum-slot-utilization",
            ),
            (utilization && !delay, "--minimum-slot-utilization does nothing without --queue-delay"),
            (
                self.fault_hold.is_some() && !self.holds_up(),
                "--fault-hold does nothing here: it is for late-response, slow-execution and late-release, none of which is planted",
            ),
            (
                self.fault_seed.is_some() && !self.draws_faults(),
                "--fault-seed does nothing here: no fault is planted with a probability",
            ),
        ];
        Ok(notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned()).collect())
    }

    /// Whether a planted fault holds something up.
    fn holds_up(&self) -> bool {
        self.fault.iter().any(|planted| planted.fault.holds_up())
    }

    /// Whether chance decides when a planted fault happens.
    fn draws_faults(&self) -> bool {
        let is_drawn = |when| matches!(when, When::Probability(odds) if odds > 0.0 && odds < 1.0);
        self.fault.iter().any(|planted| is_drawn(planted.when))
    }

    /// The flags that say the same again, but for those that do nothing with these faults.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let number = |flag: &str, value: Option<NonZeroU32>| value.map(|value| format!("--{flag} {value}"));
        let time = |flag: &str, value: Option<Duration>| {
            value.map(|value| format!("--{flag} {}", humantime::format_duration(value).to_string().replace(' ', "")))
        };
        let sizes: Vec<_> = self.preferred_batch_size.iter().map(ToString::to_string).collect();
        let words = [
            number("instances", self.instances),
            number("max-batch-size", self.max_batch_size),
            number("candidates", self.candidates),
            time("execution-time", self.execution_time),
            time("queue-delay", self.queue_delay),
            self.minimum_slot_utilization.map(|share| format!("--minimum-slot-utilization {share}")),
            (!sizes.is_empty()).then(|| format!("--preferred-batch-size {}", sizes.join(","))),
            self.like.map(|like| format!("--like {like}")),
            time("grpc-max-connection-age", self.grpc_max_connection_age),
            self.fault_seed.filter(|_| self.draws_faults()).map(|seed| format!("--fault-seed {seed}")),
            time("fault-hold", self.fault_hold.filter(|_| self.holds_up())),
        ];
        words.into_iter().flatten().chain(self.fault.iter().map(|fault| format!("--fault {fault}"))).collect()
    }
}
