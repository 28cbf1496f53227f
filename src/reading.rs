//! Results as `--json` wrote them, read again. A file may be anything.

mod hunt;

pub(crate) use self::hunt::{Covered, Finding, Hunt, OfRelease, Replays};

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    limit::Load,
    recorder::{Counts, Found},
    report::{Check, Claimed, SCHEMA_VERSION, Told, Verdict},
    run::Host,
};
use oracle::ViolationKind;
use workload::seed::Seed;

/// No result is as large: a thousand violations take a few megabytes.
pub(crate) const LARGEST: u64 = 256 * 1024 * 1024;
/// The longest text of a file that is shown whole.
pub(crate) const TEXT_MAX: usize = 500;

/// The bytes of a file that should be a result.
///
/// # Errors
/// In one line, where there is no such file, or none that can be a result.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    // A pipe may never end.
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    if about.len() > LARGEST {
        return Err(format!("it has {} bytes, and no result is as large", about.len()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // It may have grown.
    file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// What tells a result from other files.
#[derive(Deserialize)]
struct Head {
    schema_version: Option<u32>,
    /// Only the result of a run has it.
    series: Option<IgnoredAny>,
    /// Only the result of a suite has it.
    scenarios: Option<IgnoredAny>,
    /// Only the result of a search for the highest load has it.
    trials: Option<IgnoredAny>,
    /// Only a hunt has it.
    findings: Option<IgnoredAny>,
    /// Only the gaps of a failure, as a replay measures them, have it.
    gaps: Option<IgnoredAny>,
}

/// What wrote a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Run,
    Suite,
    /// The search for the highest load.
    Search,
    /// `scripts/hunt`.
    Hunt,
    /// The measurement of a failure's gaps.
    Window,
    /// Something else.
    Other,
}

/// What wrote these bytes.
///
/// # Errors
/// In one line, where they are no result of this version.
pub(crate) fn writer(bytes: &[u8]) -> Result<Writer, String> {
    let head: Head = serde_json::from_slice(bytes).map_err(|error| no_result(&error))?;
    let Some(version) = head.schema_version else { return Err("it has no schema_version".to_owned()) };
    if version != SCHEMA_VERSION {
        return Err(format!("its schema_version is {version}, and this sequence-stress reads {SCHEMA_VERSION}"));
    }
    Ok(match head {
        Head { scenarios: Some(_), .. } => Writer::Suite,
        Head { series: Some(_), .. } => Writer::Run,
        Head { trials: Some(_), .. } => Writer::Search,
        Head { findings: Some(_), .. } => Writer::Hunt,
        Head { gaps: Some(_), .. } => Writer::Window,
        Head { .. } => Writer::Other,
    })
}

/// Why bytes are no result.
pub(crate) fn no_result(error: &serde_json::Error) -> String {
    format!("it is no result ({})", one_line(&error.to_string()))
}

/// A text of a file as it can be shown: nothing in it does anything to a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = shown.take(TEXT_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A result, as the forms for CI systems are made from it.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    Run(Box<Run>),
    Suite(Suite),
    Search(Box<Search>),
    Hunt(Box<Hunt>),
}

impl Written {
    /// Reads the JSON of a run, a suite, a search for the highest load or a hunt.
    ///
    /// # Errors
    /// In one line, where the bytes are none of them.
    pub(crate) fn parsed(bytes: &[u8]) -> Result<Self, String> {
        let parsed = match writer(bytes)? {
            Writer::Run => serde_json::from_slice(bytes).map(Self::Run),
            Writer::Suite => serde_json::from_slice(bytes).map(Self::Suite),
            Writer::Search => serde_json::from_slice(bytes).map(Self::Search),
            Writer::Hunt => serde_json::from_slice(bytes).map(Self::Hunt),
            Writer::Window | Writer::Other => {
                return Err("it is no result of a run, a suite, a search for the limit or a hunt".to_owned());
            }
        };
        parsed.map_err(|error| no_result(&error))
    }
}

/// The result of a run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) tool_version: String,
    pub(crate) server_version: Option<String>,
    pub(crate) started_at: String,
    pub(crate) host: Host,
    pub(crate) verdict: Verdict,
    pub(crate) doubts: Vec<String>,
    pub(crate) claims: Vec<Claimed>,
    #[serde(default)]
    pub(crate) thresholds: Vec<Found>,
    pub(crate) missed_thresholds: Vec<String>,
    /// Empty in results of tools that did not write them.
    #[serde(default)]
    pub(crate) checks: Vec<Check>,
    pub(crate) seed: Seed,
    pub(crate) replay: String,
    pub(crate) outcomes: Counts,
    pub(crate) violation_count: u64,
    pub(crate) violations_by_kind: BTreeMap<ViolationKind, u64>,
    /// The first ones.
    pub(crate) violations: Vec<Told>,
    pub(crate) latency_us: Latencies,
    pub(crate) requests_per_second: f64,
    pub(crate) goodput_per_second: f64,
    pub(crate) elapsed_s: f64,
    /// What judged a model without a formula; none where the model has one.
    pub(crate) golden: Option<Golden>,
    pub(crate) health: Option<Health>,
    pub(crate) limits_us: Limits,
    pub(crate) model: Model,
    pub(crate) scenario_name: String,
    /// Its history, where it has one.
    pub(crate) history: Option<History>,
}

/// Where the history of a run is.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct History {
    pub(crate) path: PathBuf,
}

/// The latencies of a run, in microseconds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Latencies {
    pub(crate) step: Percentiles,
    pub(crate) good_step: GoodPercentiles,
    pub(crate) sequence: Percentiles,
    pub(crate) wait_for_slot: Percentiles,
    pub(crate) first_response: Option<Percentiles>,
}

/// Percentiles in microseconds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) max: u64,
}

/// Percentiles where a request without a good response counts as infinitely slow: none.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct GoodPercentiles {
    pub(crate) count: u64,
    pub(crate) not_good: u64,
    pub(crate) p50: Option<u64>,
    pub(crate) p90: Option<u64>,
    pub(crate) p99: Option<u64>,
    pub(crate) p99_9: Option<u64>,
    pub(crate) max: Option<u64>,
}

/// The time limits of a run, in microseconds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Limits {
    /// That of `--response-limit`.
    pub(crate) response: Option<f64>,
}

/// What judged a model without a formula.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Golden {
    /// Whether any output was judged. Results of tools that did not write this do not say so.
    pub(crate) judges: Option<bool>,
}

/// How often the server was asked whether it and its model were ready.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Health {
    pub(crate) asked: u64,
    pub(crate) unanswered: u64,
}

/// The model under test.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) slots: Option<u32>,
    /// What the model reports of each request.
    pub(crate) controls: Option<IgnoredAny>,
}

/// The results of a suite.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Suite {
    pub(crate) seed: Seed,
    pub(crate) took_s: f64,
    pub(crate) scenarios: Vec<Scenario>,
}

/// A scenario of a suite.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) outcome: ScenarioOutcome,
    /// Why it was not run.
    pub(crate) why: Option<String>,
    pub(crate) took_s: f64,
    pub(crate) result: Option<Box<Run>>,
}

/// What came of a scenario of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScenarioOutcome {
    Run,
    Skipped,
    NotTested,
    Interrupted,
    NotBegun,
}

/// The result of a search for the highest load.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Search {
    pub(crate) tool_version: String,
    pub(crate) exit_code: u8,
    pub(crate) load: Load,
    pub(crate) range: String,
    pub(crate) ended: Ended,
    /// Why the search ended before the limit was known.
    pub(crate) why: Option<String>,
    /// The limit in words.
    pub(crate) limit: String,
    pub(crate) trial_s: u64,
    pub(crate) trials: Vec<Trial>,
    pub(crate) violation: Option<Box<Run>>,
    pub(crate) seed: Seed,
    pub(crate) replay: String,
    pub(crate) scenario_name: String,
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    Found,
    Violation,
    Interrupted,
    NotTested,
    NotMeasured,
}

/// A run at one load.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Trial {
    pub(crate) load: f64,
    pub(crate) sustained: bool,
    /// Why the load was too much.
    pub(crate) why: String,
    pub(crate) sequences_per_second: f64,
    pub(crate) goodput_per_second: f64,
    pub(crate) step_p50_us: Option<u64>,
    pub(crate) step_p99_us: Option<u64>,
    pub(crate) violations: u64,
}
