//! The flags that say how the reference server is to be.

use std::{num::NonZeroU32, time::Duration};

use clap::Args;

use super::values::{any_milliseconds, share, some_milliseconds, time, whole};
use reference::{Like, Planted, ServerSetup};
use workload::model::Strategy;

/// What the reference server is to do, whether alone or embedded.
#[derive(Clone, Debug, Default, Args)]
#[group(id = ServerArgs::IDS[0])]
#[command(next_help_heading = "Embedded server")]
pub struct ServerArgs {
    /// Its models, their scheduler, and faults.
    #[command(flatten)]
    pub scheduler: SchedulerArgs,
    /// Behave like this release of Triton where releases differ: 24.10 or 25.01. 25.01 rejects a correlation ID whose type
    /// is not that of the model's control [default: 24.10]
    #[arg(long, value_name = "RELEASE")]
    pub like: Option<Like>,
    /// End each gRPC connection gracefully (GOAWAY) at this age [default: never]
    #[arg(long, value_name = "TIME", value_parser = some_milliseconds)]
    pub grpc_max_connection_age: Option<Duration>,
}

/// The same of what also a server without sockets has: models, scheduler and faults.
#[derive(Clone, Debug, Default, Args)]
#[group(id = ServerArgs::IDS[1])]
#[command(next_help_heading = "Embedded server")]
pub struct SchedulerArgs {
    /// Number of versions of each model, all of which the server serves [default: 1]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub versions: Option<NonZeroU32>,
    /// Number of instances of each model [default: 1]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub instances: Option<NonZeroU32>,
    /// Largest batch; with Direct, the number of slots of each instance [default: 8]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub max_batch_size: Option<NonZeroU32>,
    /// With Oldest: the number of slots of each instance [default: as --max-batch-size]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub candidates: Option<NonZeroU32>,
    /// Duration of one execution, such as 10ms [default: 3ms]
    #[arg(long, value_name = "TIME", value_parser = any_milliseconds)]
    pub execution_time: Option<Duration>,
    /// Longest wait for more requests before an execution; with Direct, below --minimum-slot-utilization [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub queue_delay: Option<Duration>,
    /// With Direct: from this share of slots on, 0 to 1, an execution does not wait [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub minimum_slot_utilization: Option<f32>,
    /// With Oldest: at these batch sizes an execution does not wait, such as 2,4
    #[arg(long, value_name = "LIST", value_parser = whole::<NonZeroU32>, value_delimiter = ',')]
    pub preferred_batch_size: Vec<NonZeroU32>,
    /// Plant a fault (list: `sequence-stress faults`)
    ///
    /// NAME always, NAME:PROBABILITY, or NAME:once@N for the N-th chance; repeatable.
    #[arg(long, value_name = "NAME[:WHEN]")]
    pub fault: Vec<Planted>,
    /// Seed of faults with a probability [default: the run's seed, or 0]
    #[arg(long, value_parser = whole::<u64>, value_name = "SEED")]
    pub fault_seed: Option<u64>,
    /// Delay of the faults late-response, slow-execution and late-release [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub fault_hold: Option<Duration>,
}

impl ServerArgs {
    /// The groups that its flags belong to.
    pub(super) const IDS: [&str; 2] = ["reference server", "scheduler"];

    /// The server that these flags say; what they leave open is as in `rest`.
    pub(super) fn setup(&self, rest: &ServerSetup) -> ServerSetup {
        ServerSetup {
            like: self.like.unwrap_or(rest.like),
            grpc_max_connection_age: self.grpc_max_connection_age.or(rest.grpc_max_connection_age),
            ..self.scheduler.setup(rest)
        }
    }
}

impl SchedulerArgs {
    /// The server that these flags say; what they leave open is as in `rest`.
    pub(super) fn setup(&self, rest: &ServerSetup) -> ServerSetup {
        let number = |given: Option<NonZeroU32>, rest| given.map_or(rest, NonZeroU32::get);
        ServerSetup {
            versions: number(self.versions, rest.versions),
            instances: number(self.instances, rest.instances),
            max_batch_size: number(self.max_batch_size, rest.max_batch_size),
            candidates: self.candidates.map(NonZeroU32::get).or(rest.candidates),
            execution_time: self.execution_time.unwrap_or(rest.execution_time),
            queue_delay: self.queue_delay.unwrap_or(rest.queue_delay),
            minimum_slot_utilization: self.minimum_slot_utilization.unwrap_or(rest.minimum_slot_utilization),
            preferred_batch_size: self.preferred_batch_size.iter().map(|size| size.get()).collect(),
            fault: self.fault.clone(),
            fault_seed: self.fault_seed.unwrap_or(rest.fault_seed),
            fault_hold: self.fault_hold.unwrap_or(rest.fault_hold),
            ..rest.clone()
        }
    }

    /// Rejects options of a strategy that none of these models has, and returns what does nothing besides, a sentence each:
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
