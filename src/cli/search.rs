//! The flags of `search`.

use std::{num::NonZeroU64, path::PathBuf};

use clap::Args;

use super::values::whole;
use reference::Planted;

/// What stands below the options in `--help`.
const ABOUT: &str = "\
Each run has a small scenario and a simulated reference server. Its patterns, lengths and times, and the server's slots \
and limits, are drawn, or changed from those of an earlier run that reached something new. docs/SEARCH.md has more.

Exit codes:
  0  no run has a violation
  1  violations found
  2  the command line or a file is wrong
  3  interrupted before a violation was found
  4  a run could not be held";

/// What to search with.
#[derive(Clone, Debug, Args)]
#[command(after_help = ABOUT)]
pub struct SearchArgs {
    /// Number of runs
    #[arg(long, value_parser = whole::<NonZeroU64>, value_name = "N", default_value = "1000", allow_negative_numbers = true)]
    pub runs: NonZeroU64,
    /// Seed of every choice; printed [default: from the clock]
    #[arg(short, long, value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// Plant a fault in the server (list: `sequence-stress faults`)
    ///
    /// NAME always, NAME:PROBABILITY, or NAME:once@N for the N-th chance of each run; repeatable.
    #[arg(long, value_name = "NAME[:WHEN]")]
    pub fault: Vec<Planted>,
    /// End at the first run with a violation
    #[arg(long)]
    pub fail_fast: bool,
    /// Go on from what FILE has learnt, if it is there, and write what is learnt to FILE
    #[arg(long, value_name = "FILE")]
    pub corpus: Option<PathBuf>,
    /// Write the first violation to FILE
    ///
    /// `sequence-stress replay FILE` sends the same to a server. Without a violation the tool says so and leaves FILE untouched.
    #[arg(long, value_name = "FILE")]
    pub failure: Option<PathBuf>,
    /// Print only violations and the verdict
    #[arg(short, long)]
    pub quiet: bool,
}
