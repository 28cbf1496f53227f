//! The result for people: the verdict, what it rests on, violations in groups, tables.

mod header;
mod line;
mod tables;
mod violations;

use std::io;

use anstyle::{AnsiColor, Style};

use self::{
    line::{Line, write_lines},
    tables::{write_counts, write_means, write_resources, write_times},
    violations::write_groups,
};
use super::{
    Summary, Verdict,
    checks::checks,
    words::{because, time},
};
use crate::run::End;
use workload::wording::wrapped;

pub use self::violations::LiveLines;
pub(crate) use self::{
    header::{write_preflight, write_ranks},
    violations::{violation_line, violation_lines, write_violation},
};

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const RED: Style = AnsiColor::Red.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// How much of a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The verdict, violations and how to have the run again.
    Short,
    /// What fits on a screen of 80 columns.
    Usual,
    /// Everything.
    Wide,
}

impl Extent {
    /// The most columns of a line of prose.
    fn columns(self) -> usize {
        if self == Self::Wide { 120 } else { 80 }
    }
}

/// Writes the result.
pub(crate) fn write_text(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    if extent != Extent::Short {
        writeln!(out)?;
    }
    write_verdict(summary, extent.columns(), out)?;
    let lines: Vec<_> = checks(summary, extent).iter().map(Line::of).collect();
    write_lines(&lines, extent.columns(), out)?;
    write_groups(summary, extent, out)?;
    if extent != Extent::Short {
        write_counts(summary, out)?;
        write_times(summary, extent, out)?;
        write_means(summary, extent, out)?;
        write_resources(summary, extent, out)?;
    }
    writeln!(out, "replay: {}", summary.replay)
}

/// The verdict, and why it is this one; of a run that goes on, if nothing changed any more.
pub(crate) fn verdict_and_why(summary: &Summary) -> (Verdict, String) {
    let tally = &summary.result.tally;
    let (verdict, doubts) = summary.so_far();
    (verdict, because(verdict, &tally.total(), &tally.violations, &doubts))
}

/// The verdict as the last thing, where the report may be longer than the terminal is high.
pub(crate) fn write_verdict_again(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    write_verdict(summary, extent.columns(), out)
}

/// The verdict, and then each missed threshold.
fn write_verdict(summary: &Summary, columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let (verdict, why) = verdict_and_why(summary);
    let style = match verdict {
        Verdict::Valid => GREEN,
        Verdict::Invalid => RED,
        Verdict::Unknown => YELLOW,
    };
    let so_far = if summary.result.end == End::NotYet { " SO FAR" } else { "" };
    let word = verdict.to_string().to_uppercase() + so_far;
    let text = wrapped(&format!("{word}: {why} (seed {})", summary.seed), columns - 2).join("\n  ");
    writeln!(out, "{style}{word}{style:#}{}", text.trim_start_matches(&word))?;
    for missed in summary.missed_thresholds() {
        writeln!(out, "{RED}THRESHOLD MISSED{RED:#}: {missed}")?;
    }
    Ok(())
}

/// A text of at most so many characters.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
pub(super) mod tests;
