//! The flags of `report`.

use std::path::PathBuf;

use clap::Args;

use crate::report::Format;

/// What stands below the options.
const FOOTER: &str = "\
Examples:
  sequence-stress report run.json --html run.html
  sequence-stress report run.jsonl.zst --html run.html
  sequence-stress report old.json new.json --html both.html
  sequence-stress report run.json --csv > series.csv
  sequence-stress report run.json --markdown > run.md
  sequence-stress report --merge ranks --json run.json

Exit codes:
  0  written; with --merge that of the run
  2  the command line or a file is wrong; a damaged history is shown all the same";

/// What is reported, and how.
#[derive(Clone, Debug, Args)]
#[command(after_help = FOOTER, next_help_heading = "Output")]
pub struct ReportArgs {
    /// Results that --json wrote: of runs, suites, searches for the limit or the gaps of a failure; histories; or hunt.json
    /// of scripts/hunt
    #[arg(value_name = "RESULT", required_unless_present = "merge", help_heading = None)]
    pub results: Vec<PathBuf>,
    /// Put together what the ranks of a run wrote into this folder (--results), print the result, and exit with its code
    #[arg(long, value_name = "DIR", conflicts_with_all = ["results", "history", "golden", "markdown", "csv"], help_heading = "Input")]
    pub merge: Option<PathBuf>,
    /// Histories of these runs, where the results do not name them
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Input")]
    pub history: Vec<PathBuf>,
    /// The golden file that the runs were judged by
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub golden: Option<PathBuf>,
    /// Write a page to FILE that any browser shows, offline
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// With --merge: write the result to FILE as JSON
    #[arg(long, value_name = "FILE", requires = "merge")]
    pub json: Option<PathBuf>,
    /// The same as `--junit` of a run, for all results.
    #[arg(long, value_name = "FILE", help = Format::Junit.what())]
    pub junit: Option<PathBuf>,
    /// Print the results as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Print the series of each run, or the trials of each search, as CSV
    #[arg(long, conflicts_with = "markdown")]
    pub csv: bool,
}
