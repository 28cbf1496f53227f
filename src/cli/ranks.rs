//! The flags of runs that several processes hold together.

use std::{env, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;

use super::values::{some_milliseconds, whole};
use crate::ranks::{Launcher, Meeting, Place, Told};

/// How the ranks of a run find each other.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Several ranks")]
pub struct RankArgs {
    /// This process's number among several that hold the run together, from 0 [default: as srun, mpiexec or Kubernetes says]
    ///
    /// Rank 0 leads and reports. The ranks share the workers and the iterations of a rate; all flags of the load are those of the whole.
    #[arg(long, value_name = "N", value_parser = whole::<u32>, allow_negative_numbers = true)]
    pub rank: Option<u32>,
    /// How many ranks there are
    #[arg(long, value_name = "N", value_parser = whole::<NonZeroU32>, env = "SEQUENCE_STRESS_RANKS", hide_env_values = true, allow_negative_numbers = true)]
    pub of: Option<NonZeroU32>,
    /// Where rank 0 listens for the other ranks
    ///
    /// Under srun and mpiexec HOST is enough, and without the flag rank 0 takes an address of its machine.
    #[arg(long, value_name = "HOST:PORT", env = "SEQUENCE_STRESS_RENDEZVOUS", hide_env_values = true)]
    pub rendezvous: Option<String>,
    /// How long the ranks wait for each other before the run [default: 10s, and 5m under Kubernetes]
    #[arg(long, value_name = "TIME", value_parser = some_milliseconds)]
    pub rendezvous_limit: Option<Duration>,
    /// Folder in which each rank writes what it measured [default: ranks-JOB]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// How often these ranks were started before; each attempt has correlation IDs of its own
    ///
    /// Without the flag the folder of --results tells, and Slurm's count of restarts.
    #[arg(long, value_name = "N", value_parser = whole::<u32>, allow_negative_numbers = true)]
    pub attempt: Option<u32>,
}

impl RankArgs {
    /// Which of several processes this one is; none where it is alone.
    ///
    /// # Errors
    /// When flags and environment contradict themselves, in one line.
    pub fn place(&self) -> Result<Option<Place>, String> {
        // The number of ranks alone says nothing: a shell may have it for others.
        let of = self.of.filter(|_| self.rank.is_some() || env::var_os("SEQUENCE_STRESS_RANKS").is_none());
        Place::find(&Told { rank: self.rank, of }, variable)
    }

    /// Where the ranks of a job write what they measured.
    pub fn folder(&self, place: &Place) -> PathBuf {
        let usual = || place.job.as_ref().map_or_else(|| "ranks".to_owned(), |job| format!("ranks-{job}")).into();
        self.results.clone().unwrap_or_else(usual)
    }

    /// How they meet.
    pub fn meeting(&self, place: &Place) -> Meeting {
        let usual = if place.launcher == Launcher::Kubernetes { 300 } else { 10 };
        Meeting {
            address: self.rendezvous.clone(),
            folder: self.folder(place),
            limit: self.rendezvous_limit.unwrap_or(Duration::from_secs(usual)),
        }
    }
}

/// Whether this process is one of several that were started together.
pub(crate) fn is_one_of_several() -> bool {
    Place::find(&Told::default(), variable).is_ok_and(|place| place.is_some_and(|its| its.share.is_one_of_several()))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
