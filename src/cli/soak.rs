//! The flags of runs that last for hours.

use std::time::Duration;

use clap::Args;

use super::values::{milliseconds, some_seconds};
use workload::scenario::Millis;

/// What a run that lasts for hours needs.
#[derive(Clone, Debug, Default, Args)]
pub struct SoakArgs {
    /// Write the result so far to the files of --json, --csv, --hdr-log and --junit this often [default: 60s]
    ///
    /// A killed run leaves this checkpoint. Its JSON has `"complete": false`.
    #[arg(long, value_name = "TIME", value_parser = some_seconds, help_heading = "Output")]
    pub checkpoint: Option<Duration>,
    /// Wait this long for a server that goes away, such as 2m, and go on when it is ready again
    ///
    /// The report says when the server was away. Sequences that lived then are not judged. Without this flag the run ends with the
    /// violation server-died.
    #[arg(long, value_name = "TIME", value_parser = milliseconds, help_heading = "What to check")]
    pub reconnect: Option<Millis>,
}

impl SoakArgs {
    const CHECKPOINT: Duration = Duration::from_secs(60);

    /// How often the files of the result are written during the run.
    pub fn checkpoint_every(&self) -> Duration {
        self.checkpoint.unwrap_or(Self::CHECKPOINT)
    }
}
