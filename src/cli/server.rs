//! The flags that say how the reference server is to be.

use std::{num::NonZeroU32, time::Duration};

use clap::Args;

use super::values::{any_milliseconds, share, some_milliseconds, time, whole};
use reference::{Like, Planted, ServerSetup};
use workload::model::Strategy;

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
    /// The server that these flags say; what they leave open is as in `rest`.
    pub(super) fn setup(&self, rest: &ServerSetup) -> ServerSetup {
        let number = |given: Option<NonZeroU32>, rest| given.map_or(rest, NonZeroU32::get);
        ServerSetup {
            instances: number(self.instances, rest.instances),
            max_batch_size: number(self.max_batch_size, rest.max_batch_size),
            candidates: self.candidates.map(NonZeroU32::get).or(rest.candidates),
            execution_time: self.execution_time.unwrap_or(rest.execution_time),
            queue_delay: self.queue_delay.unwrap_or(rest.queue_delay),
            minimum_slot_utilization: self.minimum_slot_utilization.unwrap_or(rest.minimum_slot_utilization),
            preferred_batch_size: self.preferred_batch_size.iter().map(|size| size.get()).collect(),
            like: self.like.unwrap_or(rest.like),
            grpc_max_connection_age: self.grpc_max_connection_age.or(rest.grpc_max_connection_age),
            fault: self.fault.clone(),
            fault_seed: self.fault_seed.unwrap_or(rest.fault_seed),
            fault_hold: self.fault_hold.unwrap_or(rest.fault_hold),
            ..rest.clone()
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
        let setup = self.setup(&ServerSetup::default());
        let utilization = self.minimum_slot_utilization.is_some_and(|share| share > 0.0);
        let delay = self.queue_delay.is_some_and(|delay| !delay.is_zero());
        let notes = [
            (
                delay && !utilization && !has(Strategy::Oldest),
                "--queue-delay does nothing here: with Direct a batch is held back only for --minimum-slot-utilization",
            ),
            (utilization && !delay, "--minimum-slot-utilization does nothing without --queue-delay"),
            (
                self.fault_hold.is_some() && !setup.holds_up(),
                "--fault-hold does nothing here: it is for late-response, slow-execution and late-release, none of which is planted",
            ),
            (
                self.fault_seed.is_some() && !setup.draws_faults(),
                "--fault-seed does nothing here: no fault is planted with a probability",
            ),
        ];
        Ok(notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned()).collect())
    }
}
