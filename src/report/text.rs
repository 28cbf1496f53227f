//! The result for people: the verdict, what it rests on, violations in groups, tables.

mod checks;
mod header;
mod line;
mod tables;
mod violations;

use std::io;

use anstyle::{AnsiColor, Style};

use self::{
    checks::{arrived, basis, missed_claims, not_checked, pending, planted},
    line::write_lines,
    tables::{write_counts, write_means, write_resources, write_times},
    violations::write_groups,
};
use super::{Summary, Verdict};
use crate::{probe::PendingRequests, run::End};
use workload::wording::{counted, wrapped};

pub use self::violations::LiveLines;
pub(crate) use self::{
    header::write_preflight,
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
    let mut lines: Vec<_> = summary.embedded.iter().flatten().map(|its| planted(its, summary.is_found())).collect();
    lines.extend(missed_claims(summary));
    if extent == Extent::Short {
        // What a flag asked for is missed in silence nowhere.
        let asked = summary.scenario.target.metrics.is_some();
        let is_missed = asked && matches!(summary.result.pending, PendingRequests::NotChecked { .. });
        lines.extend(is_missed.then(|| pending(&summary.result.pending)));
        // A rate was asked for, too.
        lines.extend(summary.result.arrived.iter().filter(|its| its.not_begun > 0).map(arrived));
        // A flag asked for golden outputs, too.
        if summary.result.preflight.golden.is_some() {
            lines.extend(not_checked(summary));
        }
    } else {
        lines.extend(basis(summary, extent));
    }
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
    let total = tally.total();
    let (verdict, doubts) = summary.so_far();
    let why = match verdict {
        Verdict::Valid => {
            let judged = total.answered() - total.unjudged;
            format!("{} checked, no violations", counted(judged, "response"))
        }
        Verdict::Invalid => {
            let kinds: Vec<_> = tally.violations.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            format!("{}: {}", counted(tally.violation_count(), "violation"), kinds.join(", "))
        }
        Verdict::Unknown => doubts.join("; "),
    };
    (verdict, why)
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

/// A time as a person writes it.
fn time(time: std::time::Duration) -> String {
    match time.as_millis() {
        ms if ms < 1000 => format!("{ms} ms"),
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// A text of at most so many characters.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
