//! What came of a suite, as a table.

use std::{io, time::Duration};

use super::{Summary, Verdict, counted};
use crate::probe::SlotFinding;

/// What came of one scenario of a suite.
#[derive(Clone, Debug)]
pub struct SuiteRow {
    /// The scenario's name.
    pub name: String,
    /// What came of it.
    pub outcome: ScenarioOutcome,
    /// How long it took, with all that is looked at before and after it.
    pub took: Duration,
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub enum ScenarioOutcome {
    /// It was run.
    Run(Box<Summary>),
    /// The endpoint cannot do it, for this reason.
    Skipped(String),
    /// Nothing could be tested, for this reason.
    NotTested(String),
    /// It was interrupted before anything was sent.
    Interrupted,
    /// The suite ended before it.
    NotBegun,
}

impl SuiteRow {
    /// The exit code that it stands for; none where it was skipped.
    #[must_use]
    pub fn exit_code(&self) -> Option<u8> {
        match &self.outcome {
            ScenarioOutcome::Run(summary) => Some(summary.exit_code()),
            ScenarioOutcome::NotTested(_) => Some(4),
            ScenarioOutcome::Interrupted => Some(3),
            ScenarioOutcome::Skipped(_) | ScenarioOutcome::NotBegun => None,
        }
    }
}

/// The exit code of a whole suite: violations first, then what could not be tested, thresholds, and doubts.
#[must_use]
pub fn exit_code(lines: &[SuiteRow]) -> u8 {
    let codes: Vec<_> = lines.iter().filter_map(SuiteRow::exit_code).collect();
    let first = [1, 4, 5, 3].into_iter().find(|code| codes.contains(code));
    // A suite of which nothing was run shows nothing.
    first.unwrap_or(if codes.is_empty() { 3 } else { 0 })
}

/// From this share on the suite tells how much of a scenario could not be judged.
const UNJUDGED_PERCENT_TOLD: u64 = 10;

/// Writes a line for each scenario, and one for all.
///
/// # Errors
/// When it cannot be written.
pub fn write_suite(lines: &[SuiteRow], out: &mut impl io::Write) -> io::Result<()> {
    let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0).max("scenario".len());
    writeln!(
        out,
        "{:width$}  {:<10} {:>9} {:>10} {:>10}  {:>6}",
        "scenario", "verdict", "requests", "sequences", "violations", "took"
    )?;
    for SuiteRow { name, outcome, took } in lines {
        match outcome {
            ScenarioOutcome::Run(summary) => {
                let total = summary.result.tally.total();
                write!(
                    out,
                    "{name:width$}  {:<10} {:>9} {:>10} {:>10}  {:>4} s",
                    summary.verdict(),
                    total.requests,
                    total.sequences,
                    summary.result.tally.violation_count(),
                    took.as_secs()
                )?;
                let doubts = if summary.verdict() == Verdict::Unknown { summary.doubts() } else { Vec::new() };
                let slots = match &summary.result.slots.finding {
                    SlotFinding::NotCheckable { why } => Some(format!("slots not checkable: {why}")),
                    _ => None,
                };
                let unjudged = summary.judged().unjudged_percent();
                let unjudged = (unjudged >= UNJUDGED_PERCENT_TOLD && doubts.is_empty())
                    .then(|| format!("{unjudged} % of the answers could not be judged"));
                let remarks: Vec<_> =
                    doubts.into_iter().chain(unjudged).chain(summary.missed_threshold()).chain(slots).collect();
                writeln!(out, "{}{}", if remarks.is_empty() { "" } else { "  " }, remarks.join("; "))?;
            }
            ScenarioOutcome::Skipped(why) => writeln!(out, "{name:width$}  {:<10} {why}", "skipped")?,
            ScenarioOutcome::Interrupted => writeln!(out, "{name:width$}  interrupted before anything was sent")?,
            ScenarioOutcome::NotBegun => writeln!(out, "{name:width$}  {:<10} the suite ended before it", "not run")?,
            ScenarioOutcome::NotTested(why) => writeln!(out, "{name:width$}  {:<10} {why}", "not tested")?,
        }
    }
    let count = |wanted: fn(&Summary) -> bool| {
        let is_so = |line: &&SuiteRow| matches!(&line.outcome, ScenarioOutcome::Run(summary) if wanted(summary));
        lines.iter().filter(is_so).count()
    };
    let run = count(|_| true);
    writeln!(
        out,
        "{run} of {} run: {} valid, {} invalid, {} unknown; {} s",
        counted(lines.len() as u64, "scenario"),
        count(|summary| summary.verdict() == Verdict::Valid),
        count(|summary| summary.verdict() == Verdict::Invalid),
        count(|summary| summary.verdict() == Verdict::Unknown),
        lines.iter().map(|line| line.took).sum::<Duration>().as_secs()
    )
}
