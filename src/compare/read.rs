//! Results as they are read for a comparison. A file may be anything.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    reading::{Writer, bytes, no_result, one_line, writer},
    recorder::INTERVALS_MAX,
    report::Verdict,
    run::Host,
};
use oracle::ViolationKind;
use workload::seed::Seed;

/// No figure of a result is as large: an hour in µs is less, and so is the memory of a machine in bytes.
const FIGURE_MAX: f64 = 1e18;
/// A smaller figure is none that a run can write, but for 0.
const FIGURE_MIN: f64 = 1e-6;

/// What an interval of the series has.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Second {
    pub(super) at_s: f64,
    pub(super) lasts_s: f64,
    pub(super) responses: f64,
    pub(super) good: f64,
    pub(super) step_mean_us: Option<f64>,
    pub(super) step_p50_us: Option<f64>,
    pub(super) step_p99_us: Option<f64>,
    pub(super) sequence_mean_us: Option<f64>,
    pub(super) sequence_p50_us: Option<f64>,
    pub(super) sequence_p99_us: Option<f64>,
    pub(super) wait_for_slot_mean_us: Option<f64>,
    pub(super) wait_for_slot_p50_us: Option<f64>,
    pub(super) wait_for_slot_p99_us: Option<f64>,
    pub(super) server_queue_us: Option<f64>,
    pub(super) server_compute_us: Option<f64>,
    pub(super) mean_batch: Option<f64>,
    pub(super) server_cpu_percent: Option<f64>,
    pub(super) server_memory_bytes: Option<f64>,
    pub(super) client_cpu_percent: Option<f64>,
    pub(super) client_memory_bytes: Option<f64>,
}

/// What a comparison needs of a result.
#[derive(Deserialize)]
struct Document {
    tool_version: String,
    server_version: Option<String>,
    verdict: Verdict,
    exit_code: u8,
    doubts: Vec<String>,
    missed_thresholds: Vec<String>,
    violations_by_kind: BTreeMap<ViolationKind, u64>,
    seed: Seed,
    replay: String,
    embedded: bool,
    elapsed_s: f64,
    host: Host,
    model: Map<String, Value>,
    scenario: Map<String, Value>,
    series: Vec<Second>,
}

/// A run, as its result has it.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The file that has it.
    pub(crate) file: PathBuf,
    /// The version of the tool.
    pub(crate) tool: String,
    /// The server's name and version, as far as it told.
    pub(crate) server: Option<String>,
    /// The run's verdict.
    pub(crate) verdict: Verdict,
    /// The exit code of the run.
    pub(crate) exit_code: u8,
    /// Why the verdict is unknown.
    pub(crate) doubts: Vec<String>,
    /// The thresholds that the run missed.
    pub(crate) missed_thresholds: Vec<String>,
    /// How many violations of each kind it had.
    pub(crate) violations: BTreeMap<ViolationKind, u64>,
    /// What fixed every choice.
    pub(crate) seed: Seed,
    /// The command that sends the same again.
    pub(crate) replay: String,
    /// How long it took, in seconds.
    pub(crate) elapsed_s: f64,
    /// The name of the machine where the client ran, as far as the system told it.
    pub(crate) host: Option<String>,
    /// Whether the load begins iterations at a rate.
    pub(crate) has_a_rate: bool,
    /// What has to be the same on both sides.
    fixed: Value,
    /// What may differ, and should be known where it does.
    free: Value,
    pub(super) seconds: Vec<Second>,
}

/// Of the model, what makes two results those of the same one.
const OF_THE_MODEL: [&str; 6] = ["name", "input", "output", "shape", "datatype", "formula"];
/// Of the model, what a server or its configuration may do otherwise.
const OF_THE_SERVER: [&str; 4] = ["strategy", "slots", "idle_limit_us", "execution_us"];

impl Ran {
    /// Reads a result.
    ///
    /// # Errors
    /// In one line, where the file is no result of a run, or one that cannot be compared.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let document = bytes(path).and_then(|bytes| parsed(&bytes)).map_err(|problem| {
            format!("cannot compare {}: {problem}; give results that --json of a run wrote", path.display())
        })?;
        Ok(Self::of(path, document))
    }

    fn of(path: &Path, document: Document) -> Self {
        let part = |names: &[&str]| -> Map<String, Value> {
            let named = names.iter().filter_map(|name| Some(((*name).to_owned(), document.model.get(*name)?.clone())));
            named.collect()
        };
        let has_a_rate = has_a_rate(&document.scenario);
        let mut fixed = Map::new();
        fixed.insert("model".to_owned(), part(&OF_THE_MODEL).into());
        fixed.insert("embedded".to_owned(), document.embedded.into());
        let free = Value::from(part(&OF_THE_SERVER));
        fixed.insert("scenario".to_owned(), what_is_sent(document.scenario));
        Self {
            file: path.to_owned(),
            tool: one_line(&document.tool_version),
            server: document.server_version.as_deref().map(one_line),
            verdict: document.verdict,
            exit_code: document.exit_code,
            doubts: document.doubts.iter().map(|text| one_line(text)).collect(),
            missed_thresholds: document.missed_thresholds.iter().map(|text| one_line(text)).collect(),
            violations: document.violations_by_kind,
            seed: document.seed,
            replay: one_line(&document.replay),
            elapsed_s: document.elapsed_s,
            host: document.host.name.as_deref().map(one_line),
            has_a_rate,
            fixed: fixed.into(),
            free,
            seconds: document.series,
        }
    }

    /// What keeps this result and another from being compared, such as `scenario.load.workers: 8 and 16`.
    pub(crate) fn unlike(&self, other: &Self) -> Option<String> {
        difference("", &self.fixed, &other.fixed)
    }

    /// What the servers do otherwise by their configuration.
    pub(crate) fn configured_otherwise(&self, other: &Self) -> Option<String> {
        difference("model", &self.free, &other.free)
    }

    /// The whole intervals behind the warm-up.
    pub(super) fn whole_seconds(&self, warm_up_s: u64) -> impl Iterator<Item = &Second> {
        #[expect(clippy::cast_precision_loss)]
        let from = warm_up_s as f64;
        // The run's end cuts the last one short.
        self.seconds.iter().filter(move |its| its.at_s >= from && its.at_s + its.lasts_s <= self.elapsed_s)
    }
}

/// Of a scenario, what makes a server work: not where the server is, and not what a run has to reach.
pub(crate) fn what_is_sent(mut scenario: Map<String, Value>) -> Value {
    for key in ["target", "claims", "claims_from"] {
        scenario.remove(key);
    }
    scenario.into()
}

/// Whether some of the load begins at a rate, whether there are populations or one load.
fn has_a_rate(scenario: &Map<String, Value>) -> bool {
    let has_one = |of: &Value| of.get("load").and_then(|load| load.get("rate")).is_some();
    let populations = scenario.get("population").and_then(Value::as_array);
    scenario.get("load").and_then(|load| load.get("rate")).is_some() || populations.into_iter().flatten().any(has_one)
}

fn parsed(bytes: &[u8]) -> Result<Document, String> {
    match writer(bytes)? {
        Writer::Run => {}
        Writer::Suite => return Err("it is the result of a suite".to_owned()),
        Writer::Hunt => return Err("it is the result of a hunt".to_owned()),
        Writer::Search | Writer::Window | Writer::Other => return Err("it has no series".to_owned()),
    }
    let document: Document = serde_json::from_slice(bytes).map_err(|error| no_result(&error))?;
    let intervals = document.series.len();
    if intervals > INTERVALS_MAX {
        return Err(format!("its series has {intervals} intervals, and a run writes at most {INTERVALS_MAX}"));
    }
    if let Some(at) = document.series.iter().position(|second| !is_sound(second)) {
        return Err(format!("interval {at} of its series has a figure that cannot be"));
    }
    Ok(document)
}

/// Whether every figure of an interval is one that a run can write.
fn is_sound(second: &Second) -> bool {
    let can_be = |figure: f64| figure == 0.0 || (FIGURE_MIN..=FIGURE_MAX).contains(&figure);
    let all = super::Measure::ALL.iter().filter_map(|measure| measure.of(second));
    second.lasts_s >= 1.0 && [second.at_s, second.lasts_s].into_iter().chain(all).all(can_be)
}

/// The first place where two values differ, with both.
pub(crate) fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            let of = |object: &Map<String, Value>, key: &str| object.get(key).cloned().unwrap_or_default();
            keys.into_iter().find_map(|key| difference(&below(key), &of(one, key), &of(other, key)))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.into_iter().find_map(|(place, (one, other))| difference(&below(&place.to_string()), one, other))
        }
        _ if one == other => None,
        _ => Some(format!("{path}: {} and {}", shown(one), shown(other))),
    }
}

/// The longest value that is shown whole.
const SHOWN_MAX: usize = 60;

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("'{}'", text.escape_default()),
        value => value.to_string(),
    };
    let short: String = text.chars().take(SHOWN_MAX).collect();
    if short.len() < text.len() { format!("{short}…") } else { text }
}

#[cfg(test)]
mod tests;
