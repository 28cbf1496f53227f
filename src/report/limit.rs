//! What came of a search for the highest load, as a table, as JSON and as CSV.

use std::{io, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Summary,
    html::of_search,
    json::{Document as RunDocument, Stamp, document_to_json, read_again},
    text::{BOLD, RED},
    words,
};
use crate::{
    limit::{Bracket, Load, Overload, Range, Trial},
    reading::Written,
};
use workload::{
    scenario::Scenario,
    seed::Seed,
    wording::{counted, wrapped},
};

/// The columns of a terminal.
const COLUMNS: usize = 80;

/// What ended a search.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The limit is known, as well as the trials tell.
    Found,
    /// A run found a violation that too much load does not explain.
    Violation(Box<Summary>),
    /// The user interrupted it.
    Interrupted,
    /// A run could not be made, for this reason.
    NotTested(String),
    /// A run did not measure what a threshold is of, for this reason.
    NotMeasured(String),
}

/// What came of a search for the highest load that a server takes correctly.
#[derive(Clone, Debug)]
pub(crate) struct LimitResult {
    pub(crate) range: Range,
    pub(crate) scenario: Scenario,
    pub(crate) scenario_name: String,
    pub(crate) seed: Seed,
    /// For how long iterations begin in each trial.
    pub(crate) lasts: Duration,
    /// The command line that searches again.
    pub(crate) replay: String,
    pub(crate) trials: Vec<Trial>,
    pub(crate) bracket: Bracket,
    pub(crate) ended: Ended,
}

impl LimitResult {
    pub(crate) fn exit_code(&self) -> u8 {
        match &self.ended {
            Ended::Violation(_) => 1,
            Ended::NotTested(_) => 4,
            Ended::Found if self.bracket.sustained.is_some() && self.bracket.is_sure => 0,
            Ended::Found | Ended::Interrupted | Ended::NotMeasured(_) => 3,
        }
    }

    /// Where the limit is, in words.
    fn limit(&self) -> String {
        let shown = |load: f64| self.range.of.shown(load);
        let noun = if self.range.of == Load::Rate { "rate" } else { "number of workers" };
        let Bracket { sustained, overloaded, is_sure } = self.bracket;
        let text = match (sustained, overloaded) {
            (Some(low), Some(high)) => format!(
                "between {} and {}: the server took the first {noun}, and the second was too much",
                shown(low),
                shown(high)
            ),
            (Some(low), None) => {
                format!("{} or more: the server took each {noun} that was tried; give a higher range", shown(low))
            }
            (None, Some(high)) => {
                format!("below {}: each {noun} that was tried was too much; give a lower range", shown(high))
            }
            (None, None) => return "not known: no trial came to an end".to_owned(),
        };
        if is_sure { text } else { format!("{text}; not yet sure, because too few trials were made") }
    }

    /// Writes what the search came to. With a violation, the report of its run is above it.
    pub(crate) fn write_end(&self, out: &mut impl io::Write) -> io::Result<()> {
        let (word, text) = match &self.ended {
            Ended::Found => ("LIMIT", self.limit()),
            Ended::Violation(summary) => {
                let load = self.trials.last().map(|trial| self.range.of.shown(trial.load)).unwrap_or_default();
                let found = counted(summary.result.tally.violation_count(), "violation");
                ("INVALID", format!("{found} at {load}, which too much load does not explain; the search ended there"))
            }
            Ended::Interrupted => {
                ("UNKNOWN", format!("the search was interrupted; the limit by then: {}", self.limit()))
            }
            Ended::NotTested(why) | Ended::NotMeasured(why) => {
                ("UNKNOWN", format!("{why}; the limit by then: {}", self.limit()))
            }
        };
        let text = wrapped(&format!("{word}: {text} (seed {})", self.seed), COLUMNS - 2).join("\n  ");
        writeln!(out, "\n{BOLD}{word}{BOLD:#}{}", text.trim_start_matches(word))?;
        writeln!(out, "replay: {}", self.replay)
    }

    /// The search as one JSON object.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        document_to_json(&Document::of(self))
    }

    /// The search as a page.
    pub(crate) fn to_html(&self) -> Vec<u8> {
        of_search(&self.scenario_name, &Document::of(self))
    }

    /// The search as a reader of its JSON has it.
    pub(crate) fn written(&self) -> Written {
        read_again(&Document::of(self))
    }

    /// A line for each trial, with a line of titles.
    pub(crate) fn to_csv(&self) -> Vec<u8> {
        written(self.trials.iter().map(Row::of).collect())
    }
}

/// Writes the head of the table of trials.
pub(crate) fn write_limit_header(range: &Range, lasts: Duration, out: &mut impl io::Write) -> io::Result<()> {
    // A search of usual length; the bound on trials is far above.
    let minutes = |trials: u64| (lasts.as_secs() * trials).div_ceil(60);
    writeln!(
        out,
        "find the limit: {range}, {} s each; 15 to 30 trials are usual, so {} to {} min",
        lasts.as_secs(),
        minutes(15),
        minutes(30)
    )?;
    writeln!(
        out,
        "\n{BOLD}{:>10}{:>13}{:>11}{:>10}{:>10}{:>11}{:>7}{BOLD:#}",
        "load", "sequences/s", "goodput/s", "step p50", "step p99", "in flight", "batch"
    )
}

/// Writes a trial's row, and below it why its load was too much.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(crate) fn write_trial(of: Load, trial: &Trial, out: &mut impl io::Write) -> io::Result<()> {
    let ms = |us: Option<u64>| us.map_or("-".to_owned(), |us| format!("{:.1}", us as f64 / 1000.0));
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.1}"));
    writeln!(
        out,
        "{:>10}{:>13.1}{:>11.1}{:>10}{:>10}{:>11}{:>7}  {}",
        of.shown(trial.load),
        trial.sequences_per_second,
        trial.goodput_per_second,
        ms(trial.step_p50_us),
        ms(trial.step_p99_us),
        number(trial.in_flight),
        number(trial.mean_batch),
        match (trial.is_sustained(), trial.overload.is_empty()) {
            (true, _) => "sustained",
            (false, true) => "violation",
            (false, false) => "too much",
        },
    )?;
    for overload in &trial.overload {
        let text = wrapped(&why(overload), COLUMNS - 12).join("\n            ");
        writeln!(out, "            {RED}{text}{RED:#}")?;
    }
    Ok(())
}

/// Rows as CSV, with a line of titles.
pub(super) fn written(rows: Vec<Row>) -> Vec<u8> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("memory takes flat rows");
    }
    writer.into_inner().expect("memory takes it")
}

/// Why a load was too much.
fn why(overload: &Overload) -> String {
    match overload {
        Overload::Threshold(missed) => words::missed(missed),
        Overload::NotBegun { iterations, due } => format!(
            "{iterations} of {} that were due began late or not at all: all workers were busy (more: -c)",
            counted(*due, "iteration")
        ),
        Overload::Rejected { requests } => {
            format!("the server rejected {} because it had too much load", counted(*requests, "request"))
        }
        Overload::LongWaits { p90_us } => format!(
            "one sequence in ten waited {:.1} s or more for a slot, which is over a quarter of the trial",
            Duration::from_micros(*p90_us).as_secs_f64()
        ),
        Overload::Backlog { from, to } => {
            format!("unanswered requests grew from {from:.0} to {to:.0} while iterations began")
        }
        Overload::NotGood { requests, of } => {
            format!("{requests} of {} got no good response", counted(*of, "request"))
        }
    }
}

/// A trial, for machines. What was not measured is null, or empty in CSV.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Trial")]
pub(super) struct Row {
    /// The rate in iterations a second, or the number of workers.
    load: f64,
    /// Whether the server took it.
    sustained: bool,
    /// Why it was too much, in words.
    why: String,
    /// Sequences begun in a second.
    sequences_per_second: f64,
    /// Responses in a second.
    responses_per_second: f64,
    /// Good responses in a second.
    goodput_per_second: f64,
    step_p50_us: Option<u64>,
    step_p99_us: Option<u64>,
    sequence_p99_us: Option<u64>,
    wait_for_slot_p99_us: Option<u64>,
    /// Requests without a response, on average.
    in_flight: Option<f64>,
    /// STARTs without a response, on average.
    starts_waiting: Option<f64>,
    /// Inferences of an execution, on average.
    mean_batch: Option<f64>,
    violations: u64,
}

impl Row {
    fn of(trial: &Trial) -> Self {
        Self {
            load: trial.load,
            sustained: trial.is_sustained(),
            why: trial.overload.iter().map(why).collect::<Vec<_>>().join("; "),
            sequences_per_second: trial.sequences_per_second,
            responses_per_second: trial.responses_per_second,
            goodput_per_second: trial.goodput_per_second,
            step_p50_us: trial.step_p50_us,
            step_p99_us: trial.step_p99_us,
            sequence_p99_us: trial.sequence_p99_us,
            wait_for_slot_p99_us: trial.wait_for_slot_p99_us,
            in_flight: trial.in_flight,
            starts_waiting: trial.starts_waiting,
            mean_batch: trial.mean_batch,
            violations: trial.violations,
        }
    }
}

/// The search for machines.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'s> {
    #[serde(flatten)]
    stamp: Stamp,
    /// What was raised: rate (iterations that begin in a second) or workers.
    load: &'static str,
    /// The loads among which the limit was looked for.
    range: String,
    /// The highest load that was sustained each time; null where that was none.
    sustained: Option<f64>,
    /// The lowest load that was too much each time; null where that was none.
    overloaded: Option<f64>,
    /// Whether both were so three times of three, or four of five; or there was none further out.
    sure: bool,
    /// What ended the search: found, violation, interrupted, not-tested or not-measured.
    ended: &'static str,
    /// Why the search ended before the limit was known, where a run could not be made or measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'s str>,
    /// The limit in words.
    limit: String,
    /// For how long iterations began in each trial.
    trial_s: u64,
    /// The trials, in the order in which they were made.
    trials: Vec<Row>,
    /// The run that found a violation, as `--json` of a run writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<RunDocument<'s>>,
    /// What fixes every choice.
    seed: Seed,
    /// The command line that searches again.
    replay: &'s str,
    /// The scenario's name or file.
    scenario_name: &'s str,
    /// The whole scenario, at the lowest load.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    scenario: &'s Scenario,
}

impl<'s> Document<'s> {
    fn of(result: &'s LimitResult) -> Self {
        let (ended, why, violation) = match &result.ended {
            Ended::Found => ("found", None, None),
            Ended::Violation(summary) => ("violation", None, Some(RunDocument::of(summary))),
            Ended::Interrupted => ("interrupted", None, None),
            Ended::NotTested(why) => ("not-tested", Some(why.as_str()), None),
            Ended::NotMeasured(why) => ("not-measured", Some(why.as_str()), None),
        };
        Self {
            stamp: Stamp::of(result.exit_code()),
            load: result.range.of.name(),
            range: result.range.to_string(),
            sustained: result.bracket.sustained,
            overloaded: result.bracket.overloaded,
            sure: result.bracket.is_sure,
            ended,
            why,
            limit: result.limit(),
            trial_s: result.lasts.as_secs(),
            trials: result.trials.iter().map(Row::of).collect(),
            violation,
            seed: result.seed,
            replay: &result.replay,
            scenario_name: &result.scenario_name,
            scenario: &result.scenario,
        }
    }
}
