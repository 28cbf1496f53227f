//! What a comparison comes to, in words and for machines.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Verdict, counted,
    json::{Stamp, document_to_json},
};
use crate::compare::{
    CONFIDENCE, Compared, Comparison, Difference, Doubt, Estimate, Finding, Measure, Observed, Quantity, Ran, Silent,
};
use workload::wording::wrapped;

/// The columns of a report.
const COLUMNS: usize = 80;
/// How many measures the verdict names.
const NAMED_MAX: usize = 3;

/// All comparisons of a command, and what they were asked.
#[derive(Clone, Debug)]
pub(crate) struct Compare<'r> {
    /// Each of the new sides with the old one.
    pub(crate) comparisons: Vec<Comparison<'r>>,
    /// The least difference that counts, as a share of the old value.
    pub(crate) least: f64,
    /// How many seconds of each run do not count.
    pub(crate) warm_up_s: u64,
    /// Whether this command held the runs itself.
    pub(crate) held: bool,
}

impl Compare<'_> {
    /// The exit code: violations of runs that this command held first, then a regression, and then what is not known.
    pub(crate) fn exit_code(&self) -> u8 {
        let found = |finding: Finding| self.comparisons.iter().any(|its| its.finding() == finding);
        if self.held && self.comparisons.iter().any(Comparison::has_violations) {
            1
        } else if found(Finding::Regression) {
            5
        } else if found(Finding::Unknown) {
            3
        } else {
            0
        }
    }

    /// Writes each comparison: the verdict, and unless `quiet`, the table and what limits it.
    pub(crate) fn write(&self, quiet: bool, out: &mut impl Write) -> io::Result<()> {
        for (place, comparison) in self.comparisons.iter().enumerate() {
            if place > 0 && !quiet {
                writeln!(out)?;
            }
            let name = match (&self.comparisons[..], &comparison.new[..]) {
                ([_, _, ..], [alone]) => format!("{}: ", alone.file.display()),
                _ => String::new(),
            };
            let verdict = format!("{name}{}", Self::verdict(comparison));
            wrapped(&verdict, COLUMNS).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            notes(comparison).iter().try_for_each(|note| write_note(note, out))?;
            if !quiet {
                writeln!(out)?;
                write_table(comparison, out)?;
                wrapped(&self.basis(comparison), COLUMNS).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            }
        }
        Ok(())
    }

    fn verdict(comparison: &Comparison) -> String {
        match (comparison.finding(), comparison.doubt()) {
            (Finding::Regression, _) => {
                let worse: Vec<_> = comparison.regressions().collect();
                let mut named: Vec<_> = worse.iter().take(NAMED_MAX).map(|row| change(row)).collect();
                if worse.len() > NAMED_MAX {
                    named.push(format!("and {} more", worse.len() - NAMED_MAX));
                }
                format!("REGRESSION: {}", named.join(", "))
            }
            (Finding::NoRegression, _) => {
                let first: Vec<_> = comparison.felt().take(NAMED_MAX).map(change).collect();
                format!("NO REGRESSION found: {}", first.join(", "))
            }
            (Finding::Unknown, doubt) => format!("UNKNOWN: {}", doubt.map(why).unwrap_or_default()),
        }
    }

    /// What an observation is, and what counts.
    fn basis(&self, comparison: &Comparison) -> String {
        let of = match comparison.observed {
            Observed::Blocks { old, new } => {
                format!(
                    "{old} s of the old run and {new} s of the new one, in blocks of seconds that are nearly independent"
                )
            }
            Observed::Runs { old, new } => format!("{old} old runs and {new} new ones"),
            Observed::Pairs(pairs) => format!("{} of runs with the same seed", counted(pairs as u64, "pair")),
        };
        format!(
            "compared: {of}, without the first {} s of each run. A measure is worse if it certainly differs (95 %, corrected for the number of \
             measures) by {} or more.",
            self.warm_up_s,
            percent(self.least)
        )
    }
}

/// What the reader should know besides.
fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes: Vec<_> = comparison.runs().filter_map(trouble).collect();
    let (old, new) = (&comparison.old[0], &comparison.new[0]);
    let texts = |of: fn(&Ran) -> String| {
        let of_side = |side: &[&Ran]| side.iter().map(|ran| of(ran)).collect::<BTreeSet<_>>();
        let (old, new) = (of_side(&comparison.old), of_side(&comparison.new));
        let joined = |texts: &BTreeSet<String>| texts.iter().cloned().collect::<Vec<_>>().join(", ");
        (old != new).then(|| (joined(&old), joined(&new)))
    };
    let server = texts(|ran| ran.server.clone().unwrap_or_else(|| "a server that does not say its name".to_owned()));
    if let Some((old, new)) = server {
        notes.push(format!("the servers differ: {old} and {new}"));
    }
    if let Some(what) = old.configured_otherwise(new) {
        notes.push(format!("the servers are configured differently: {what}"));
    }
    if let Some((old, new)) = texts(|ran| ran.tool.clone()) {
        notes.push(format!("the clients differ: sequence-stress {old} and {new}"));
    }
    let host = texts(|ran| ran.host.clone().unwrap_or_else(|| "a machine without a name".to_owned()));
    if let Some((old, new)) = host {
        notes.push(format!("the clients ran on different machines: {old} and {new}"));
    }
    if comparison.old[0].has_a_rate {
        notes.push("throughput is not compared: the load's rate fixes it".to_owned());
    }
    if let Observed::Blocks { .. } = comparison.observed {
        notes.push(
            "two single runs cannot tell the server from what else the machine did: --run 5 holds runs of both in turn"
                .to_owned(),
        );
    }
    notes
}

fn write_note(note: &str, out: &mut impl Write) -> io::Result<()> {
    let (label, indent) = ("note: ", "      ");
    let lines = wrapped(note, COLUMNS - label.len());
    (0..).zip(&lines).try_for_each(|(place, line)| writeln!(out, "{}{line}", if place == 0 { label } else { indent }))
}

/// What was wrong with a run.
fn trouble(ran: &Ran) -> Option<String> {
    let file = ran.file.display();
    match ran.verdict {
        Verdict::Valid if ran.missed_thresholds.is_empty() => None,
        Verdict::Valid => Some(format!("{file}: the run missed a threshold: {}", ran.missed_thresholds.join("; "))),
        Verdict::Unknown => Some(format!("{file}: the run is UNKNOWN: {}", ran.doubts.join("; "))),
        Verdict::Invalid => {
            let kinds: Vec<_> = ran.violations.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            Some(format!("{file}: the run is INVALID: {}; again: {}", kinds.join(", "), ran.replay))
        }
    }
}

fn why(doubt: Doubt) -> String {
    match doubt {
        Doubt::NothingMeasured => {
            "no latency of steps was measured on both sides after the warm-up: run longer, or set --warm-up 0s"
                .to_owned()
        }
        Doubt::FewBlocks { blocks, least } => format!(
            "too short to say: the seconds of the series make {}, and {least} are needed on each side; run longer (-d 60s), or \
             compare several runs (--run 5)",
            counted(blocks as u64, "independent block")
        ),
        Doubt::FewRuns { runs, least } => {
            format!("too few runs to say: {runs}, and {least} are needed on each side; hold more runs (--run 5)")
        }
        Doubt::TooNoisy => {
            "too noisy to say: a difference of a quarter could hide; run longer, or hold more runs (--run 10)"
                .to_owned()
        }
    }
}

/// A share as percent, such as `5 %` or `0.5 %`.
fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}

/// A ratio as a difference in percent with its sign, such as `+21`.
fn signed(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() >= 999.5 {
        return format!("×{ratio:.0}");
    }
    let text = format!("{percent:+.0}");
    if text == "-0" { "+0".to_owned() } else { text }
}

/// A measure with how much it differs, such as `step.p50 +21 % (+15 to +27 %)`.
fn change(row: &Compared) -> String {
    let Ok(Estimate { ratio, low, high, .. }) = row.estimate else { return row.measure.to_string() };
    format!("{} {} % ({} to {} %)", row.measure, signed(ratio), signed(low), signed(high))
}

fn write_table(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:<19}{:>12}{:>12}{:>9}  95 % interval", "measure", "old", "new", "change")?;
    for row in &comparison.rows {
        let measure = row.measure;
        match row.estimate {
            Ok(Estimate { old, new, ratio, low, high, .. }) => {
                let quantity = measure.quantity();
                let [old, new] = [old, new].map(|value| figure(quantity, value));
                let change = format!("{} %", signed(ratio));
                let interval = format!("{} to {} %", signed(low), signed(high));
                let line = format!(
                    "{measure:<19}{old:>12}{new:>12}{change:>9}  {interval:<15}  {}",
                    remark(row.difference, measure)
                );
                writeln!(out, "{}", line.trim_end())?;
            }
            Err(Silent::TooFew(few)) => writeln!(out, "{measure:<19}  too few independent observations: {few}")?,
            // Nobody asked for what was measured on neither side.
            Err(Silent::NotMeasured) => {}
        }
    }
    Ok(())
}

/// How a measure differs. What a user does not feel is no regression.
fn remark(difference: Difference, measure: Measure) -> &'static str {
    match difference {
        Difference::None => "",
        Difference::Slight => "slight",
        Difference::Other => "differs",
        Difference::Better => "better",
        Difference::Worse if measure.is_felt() => "WORSE",
        Difference::Worse => "worse",
    }
}

/// A value with its unit, in three digits or a little more.
fn figure(quantity: Quantity, value: f64) -> String {
    let digits = |value: f64| match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match quantity {
        Quantity::Time if value < 1000.0 => format!("{} µs", digits(value)),
        Quantity::Time => format!("{} ms", digits(value / 1000.0)),
        Quantity::Rate => format!("{}/s", digits(value)),
        Quantity::Batch => digits(value),
        Quantity::Cpu => format!("{} %", digits(value)),
        Quantity::Memory => format!("{} MB", digits(value / 1e6)),
    }
}

/// A comparison for machines.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    #[serde(flatten)]
    stamp: Stamp,
    /// The least difference that counts, as a share of the old value.
    least: f64,
    /// How certain each interval is to have the true ratio in it.
    confidence: f64,
    /// How many seconds at the beginning of each run do not count.
    warm_up_s: u64,
    /// Each of the new sides with the old one.
    comparisons: Vec<ComparisonDocument>,
}

/// An old and a new side for machines.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Comparison")]
struct ComparisonDocument {
    /// What the comparison comes to.
    finding: Finding,
    /// Why the finding is unknown; null if it is not.
    doubt: Option<String>,
    /// What an observation is: a block of seconds of one run a side, a run, or a pair of runs with the same seed.
    observed: &'static str,
    /// The old runs.
    old: Vec<RunDocument>,
    /// The new runs.
    new: Vec<RunDocument>,
    /// Each measure that both sides have.
    measures: Vec<MeasureDocument>,
    /// What the reader should know besides.
    notes: Vec<String>,
}

/// A run of a comparison for machines.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ComparedRun")]
struct RunDocument {
    /// The file with its result.
    file: String,
    /// The server's name and version; null if it does not report them.
    server_version: Option<String>,
    /// The run's verdict.
    verdict: Verdict,
    /// The run's exit code.
    exit_code: u8,
    /// What fixed every choice.
    seed: u64,
    /// How long it took.
    elapsed_s: f64,
}

/// A measure of both sides for machines.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ComparedMeasure")]
struct MeasureDocument {
    /// The measure's name.
    name: Measure,
    /// The unit of `old` and `new`.
    unit: &'static str,
    /// Whether a user feels it. Only such a measure makes a regression.
    felt: bool,
    /// How it differs.
    difference: Difference,
    /// The old mean; null, as what follows, if there is too little to say.
    old: Option<f64>,
    /// The new mean.
    new: Option<f64>,
    /// New by old.
    ratio: Option<f64>,
    /// The lower end of the interval of the ratio.
    low: Option<f64>,
    /// The upper end of the interval of the ratio.
    high: Option<f64>,
    /// How probable such a difference would be if nothing differed, corrected for the number of measures.
    p: Option<f64>,
}

impl MeasureDocument {
    fn of(row: &Compared) -> Option<Self> {
        if row.estimate == Err(Silent::NotMeasured) {
            return None;
        }
        let known = row.estimate.as_ref().ok();
        Some(Self {
            name: row.measure,
            unit: match row.measure.quantity() {
                Quantity::Time => "us",
                Quantity::Rate => "1/s",
                Quantity::Batch => "inferences",
                Quantity::Cpu => "percent",
                Quantity::Memory => "bytes",
            },
            felt: row.measure.is_felt(),
            difference: row.difference,
            old: known.map(|its| its.old),
            new: known.map(|its| its.new),
            ratio: known.map(|its| its.ratio),
            low: known.map(|its| its.low),
            high: known.map(|its| its.high),
            p: known.map(|_| row.p),
        })
    }
}

impl Compare<'_> {
    /// The comparisons as one JSON object.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let run = |ran: &&Ran| RunDocument {
            file: ran.file.display().to_string(),
            server_version: ran.server.clone(),
            verdict: ran.verdict,
            exit_code: ran.exit_code,
            seed: ran.seed.0,
            elapsed_s: ran.elapsed_s,
        };
        let comparison = |its: &Comparison| ComparisonDocument {
            finding: its.finding(),
            doubt: its.doubt().filter(|_| its.finding() == Finding::Unknown).map(why),
            observed: match its.observed {
                Observed::Blocks { .. } => "block",
                Observed::Runs { .. } => "run",
                Observed::Pairs(_) => "pair",
            },
            old: its.old.iter().map(run).collect(),
            new: its.new.iter().map(run).collect(),
            measures: its.rows.iter().filter_map(MeasureDocument::of).collect(),
            notes: notes(its),
        };
        document_to_json(&Document {
            stamp: Stamp::of(self.exit_code()),
            least: self.least,
            confidence: CONFIDENCE,
            warm_up_s: self.warm_up_s,
            comparisons: self.comparisons.iter().map(comparison).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
