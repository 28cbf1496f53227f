//! The flags that concern histories.

use std::{path::PathBuf, time::Duration};

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{FileArgs, values::time};
use oracle::history::{Keep, Options};

/// What of a run is written down.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct HistoryArgs {
    /// Write every event to FILE
    ///
    /// `sequence-stress check FILE` judges the run again. A name that ends in .zst is compressed.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Keep all events, or those this long around violations and before the end [default: 2m]
    #[arg(long, value_name = "TIME|all", value_parser = keep, requires = "history")]
    pub history_keep: Option<Keep>,
    /// Largest size of the history before compression, such as 500MB; events far from violations go first [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "history")]
    pub history_limit: Option<u64>,
}

/// What `sequence-stress check` needs.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Histories of runs with --history
    #[arg(value_name = "FILE", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub files: Vec<String>,
    /// The golden file that the run was judged by
    #[arg(long, value_name = "FILE")]
    pub golden: Option<PathBuf>,
    /// What it leaves, of one history.
    #[command(flatten)]
    pub out: FileArgs,
    /// Print only the verdict, its limits, violations and the replay command
    #[arg(short, long)]
    pub quiet: bool,
}

impl HistoryArgs {
    /// How the history is to be written, if at all.
    pub fn options(&self) -> Option<Options> {
        Some(Options {
            path: self.history.clone()?,
            keep: self.history_keep.unwrap_or(Keep::DEFAULT),
            limit: self.history_limit.unwrap_or(Options::LIMIT),
            part: Options::PART,
        })
    }
}

fn keep(text: &str) -> Result<Keep, String> {
    if text == "all" {
        return Ok(Keep::All);
    }
    match time(text) {
        Ok(around) if around >= Duration::from_secs(1) => Ok(Keep::Around(around)),
        Ok(_) => Err("give 1s or more".to_owned()),
        Err(problem) => Err(format!("{problem}, or 'all'")),
    }
}

/// The units of a size, the longer names first.
const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];
/// Less than this holds no part that is worth the name.
const SMALLEST: u64 = 1 << 20;

fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|digits| (digits, *unit)))
        .ok_or("give a size such as 500MB or 2GiB")?;
    let number: u64 = digits.trim().parse().map_err(|_| "give a size such as 500MB or 2GiB")?;
    match number.checked_mul(unit) {
        Some(size) if size >= SMALLEST => Ok(size),
        Some(_) => Err("give 1MiB or more".to_owned()),
        None => Err("the size is too large".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_time_or_all() {
        assert_eq!(keep("all"), Ok(Keep::All));
        assert_eq!(keep("5m"), Ok(Keep::Around(Duration::from_secs(300))));
        for text in ["0s", "500ms", "some", ""] {
            assert!(keep(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("500MB"), Ok(500_000_000));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("1048576B"), Ok(1 << 20));
        for text in ["500", "1KB", "-1GB", "99999999999GB", "GB", ""] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
