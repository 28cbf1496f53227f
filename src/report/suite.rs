//! What came of a suite, as a table.

use std::{io, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Pictured, Summary, Verdict, counted,
    html::of_suite,
    json::{Document as RunDocument, Stamp, document_to_json, read_again},
};
use crate::{probe::SlotFinding, reading::Written};
use workload::{seed::Seed, wording::wrapped};

/// The columns of a remark behind its indent.
const REMARK_COLUMNS: usize = 76;

/// What came of one scenario of a suite.
#[derive(Clone, Debug)]
pub struct SuiteRow {
    /// The scenario's name.
    pub name: String,
    /// What came of it.
    pub outcome: ScenarioOutcome,
    /// How long it took, with all that is looked at before and after it.
    pub took: Duration,
    /// Who had which slot.
    pub pictured: Pictured,
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
    pub fn exit_code(&self) -> Option<u8> {
        match &self.outcome {
            ScenarioOutcome::Run(summary) => Some(summary.exit_code()),
            ScenarioOutcome::NotTested(_) => Some(4),
            ScenarioOutcome::Interrupted => Some(3),
            ScenarioOutcome::Skipped(_) | ScenarioOutcome::NotBegun => None,
        }
    }
}

/// What came of a suite.
#[derive(Clone, Debug)]
pub struct SuiteResult {
    /// What fixed every choice.
    pub seed: Seed,
    /// How long it took.
    pub took: Duration,
    /// Its scenarios, in their order.
    pub rows: Vec<SuiteRow>,
}

/// The suite for machines.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'s> {
    #[serde(flatten)]
    stamp: Stamp,
    /// What fixes every choice.
    seed: Seed,
    /// How long the suite took.
    took_s: f64,
    /// The scenarios, in their order.
    scenarios: Vec<ScenarioDocument<'s>>,
}

/// A scenario of a suite for machines.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SuiteScenario")]
struct ScenarioDocument<'s> {
    /// The scenario's name.
    name: &'s str,
    /// run, skipped, not-tested, interrupted or not-begun.
    outcome: &'static str,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'s str>,
    /// How long it took.
    took_s: f64,
    /// The result, as `--json` of a run writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RunDocument<'s>>,
}

impl<'s> From<&'s SuiteRow> for ScenarioDocument<'s> {
    fn from(SuiteRow { name, outcome, took, .. }: &'s SuiteRow) -> Self {
        let (outcome, why, result) = match outcome {
            ScenarioOutcome::Run(summary) => ("run", None, Some(RunDocument::of(summary))),
            ScenarioOutcome::Skipped(why) => ("skipped", Some(why.as_str()), None),
            ScenarioOutcome::NotTested(why) => ("not-tested", Some(why.as_str()), None),
            ScenarioOutcome::Interrupted => ("interrupted", None, None),
            ScenarioOutcome::NotBegun => ("not-begun", None, None),
        };
        Self { name, outcome, why, took_s: took.as_secs_f64(), result }
    }
}

impl SuiteResult {
    /// The exit code: violations first, then what could not be tested, thresholds, and doubts.
    pub fn exit_code(&self) -> u8 {
        let codes: Vec<_> = self.rows.iter().filter_map(SuiteRow::exit_code).collect();
        let first = [1, 4, 5, 3].into_iter().find(|code| codes.contains(code));
        // A suite of which nothing was run shows nothing.
        first.unwrap_or(if codes.is_empty() { 3 } else { 0 })
    }

    /// The suite as one JSON object.
    pub fn to_json(&self) -> Vec<u8> {
        document_to_json(&self.document())
    }

    /// The suite as a page.
    pub(crate) fn to_html(&self) -> Vec<u8> {
        let pictured = self.rows.iter().map(|row| (row.exit_code() == Some(1), row.pictured.clone()));
        of_suite(&self.document(), pictured)
    }

    /// The suite as a reader of its JSON has it.
    pub(crate) fn written(&self) -> Written {
        read_again(&self.document())
    }

    fn document(&self) -> Document<'_> {
        Document {
            stamp: Stamp::of(self.exit_code()),
            seed: self.seed,
            took_s: self.took.as_secs_f64(),
            scenarios: self.rows.iter().map(ScenarioDocument::from).collect(),
        }
    }

    /// Writes a line for all scenarios, and how to have each again that was not valid.
    pub(crate) fn write_end(&self, out: &mut impl io::Write) -> io::Result<()> {
        let runs = || self.rows.iter().filter_map(|row| Some((row, row.summary()?)));
        let count = |wanted| runs().filter(|(_, summary)| summary.verdict() == wanted).count();
        writeln!(
            out,
            "{} of {} run: {} valid, {} invalid, {} unknown; {} s (seed {})",
            runs().count(),
            counted(self.rows.len() as u64, "scenario"),
            count(Verdict::Valid),
            count(Verdict::Invalid),
            count(Verdict::Unknown),
            self.took.as_secs(),
            self.seed,
        )?;
        let failed = runs().filter(|(_, summary)| summary.exit_code() != 0);
        failed.into_iter().try_for_each(|(row, summary)| writeln!(out, "replay {}: {}", row.name, summary.replay))
    }
}

/// From this share on the suite says how much of a scenario could not be judged.
const UNJUDGED_PERCENT_TOLD: u64 = 10;

/// Writes the head of the table.
pub(crate) fn write_suite_header(width: usize, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(
        out,
        "{:width$}  {:<10} {:>9} {:>10} {:>10}  {:>6}",
        "scenario", "verdict", "requests", "sequences", "violations", "took"
    )
}

impl SuiteRow {
    fn summary(&self) -> Option<&Summary> {
        match &self.outcome {
            ScenarioOutcome::Run(summary) => Some(summary),
            _ => None,
        }
    }

    /// Writes the scenario's row of the table, and a line for each remark.
    pub(crate) fn write(&self, width: usize, out: &mut impl io::Write) -> io::Result<()> {
        let (name, took) = (&self.name, self.took.as_secs());
        let (word, why) = match &self.outcome {
            ScenarioOutcome::Run(summary) => {
                let total = summary.result.tally.total();
                let found = summary.result.tally.violation_count();
                writeln!(
                    out,
                    "{name:width$}  {:<10} {:>9} {:>10} {found:>10}  {took:>4} s",
                    summary.verdict(),
                    total.requests,
                    total.sequences
                )?;
                return remarks(summary).iter().try_for_each(|remark| write_remark(remark, out));
            }
            ScenarioOutcome::Skipped(why) => ("skipped", why.as_str()),
            ScenarioOutcome::NotTested(why) => ("not tested", why.as_str()),
            ScenarioOutcome::Interrupted => ("interrupted", "interrupted before anything was sent"),
            ScenarioOutcome::NotBegun => ("not run", "the suite ended before it"),
        };
        writeln!(out, "{name:width$}  {word}")?;
        write_remark(why, out)
    }
}

fn write_remark(remark: &str, out: &mut impl io::Write) -> io::Result<()> {
    wrapped(remark, REMARK_COLUMNS).iter().try_for_each(|line| writeln!(out, "    {line}"))
}

/// What the reader should know of a scenario besides its row.
fn remarks(summary: &Summary) -> Vec<String> {
    let doubts = if summary.verdict() == Verdict::Unknown { summary.doubts() } else { Vec::new() };
    let slots = match &summary.result.slots.finding {
        SlotFinding::NotCheckable { why } => Some(format!("slots not checkable: {why}")),
        _ => None,
    };
    let unjudged = summary.judged().unjudged_percent();
    let unjudged = (unjudged >= UNJUDGED_PERCENT_TOLD && doubts.is_empty())
        .then(|| format!("{unjudged} % of the responses could not be judged"));
    doubts.into_iter().chain(unjudged).chain(summary.missed_thresholds()).chain(slots).collect()
}
