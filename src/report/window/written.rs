//! What is known of the gaps of a failure, for machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{WindowEnded, WindowResult, noun};
use crate::{
    report::SCHEMA_VERSION,
    window::{CONFIDENCE, Count, Curve, Gap, Point, Window},
};
use oracle::ViolationKind;

/// The measurement for machines.
#[derive(Serialize, JsonSchema)]
pub(in crate::report) struct Document<'r> {
    /// Rises when a reader of the old form could misread the new one.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The version of sequence-stress.
    tool_version: &'static str,
    /// The process's exit code.
    exit_code: u8,
    /// The kind of the violation that counts as the failure.
    kind: ViolationKind,
    /// The failure file.
    failure: &'r str,
    /// The model's name.
    model: &'r str,
    /// Whether all runs met one server, with what earlier runs left in it; then no gap is said not to matter.
    one_server: bool,
    /// The server's name and version; null where it does not tell them.
    server: Option<&'r str>,
    /// How long the model takes to execute a request, in microseconds; null where that is not known.
    execution_us: Option<f64>,
    /// What ended the measurement: done, never-failed, interrupted, time-limit or not-tested.
    ended: &'static str,
    /// Why it ended before all was measured, where a run could not be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'r str>,
    /// What was found, in words.
    verdict: String,
    /// Why to doubt the measurement, where the verdict does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// How many runs each length of a gap gets.
    runs_per_length: u32,
    /// How certain an interval is to have the true probability in it.
    confidence: f64,
    /// The runs before the measurement, which show whether the failure shows at all.
    before: Rate,
    /// The runs of the failure as it is. They count for each gap.
    as_recorded: Rate,
    /// All runs of the measurement.
    all: Rate,
    /// Runs with another violation, by its kind.
    otherwise: &'r BTreeMap<ViolationKind, u32>,
    /// The gaps that were measured.
    gaps: Vec<OneGap>,
    /// How long it took, in seconds.
    took_s: f64,
    /// The command line that measures again.
    replay: &'r str,
}

/// What runs came to.
#[derive(Serialize, JsonSchema)]
struct Rate {
    runs: u32,
    /// Runs with the failure.
    failed: u32,
    /// Runs with another violation.
    otherwise: u32,
    /// The interval that has the true probability of the failure in it (Clopper and Pearson): its lower end.
    low: f64,
    /// Its upper end.
    high: f64,
}

impl From<Count> for Rate {
    fn from(count: Count) -> Self {
        let (low, high) = count.interval();
        Self { runs: count.runs, failed: count.failed, otherwise: count.otherwise, low, high }
    }
}

/// A gap between two acts of the failure.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Gap")]
struct OneGap {
    /// Its number in the failure, from 1, as --gap takes it.
    number: usize,
    worker: u32,
    context: u32,
    /// What it begins with, in words.
    from: String,
    /// What it ends with, in words.
    to: String,
    /// How long it is in the failure, in microseconds.
    recorded_us: u64,
    /// Whether the probability of failing depends on it by more than chance.
    matters: bool,
    /// How probable it is by chance alone that lengths differ so much, corrected for the number of gaps; null where only one length was tried.
    p: Option<f64>,
    /// What is known of it, in words.
    says: String,
    /// The lengths at which it fails, or fails more often; empty where the gap does not matter.
    windows: Vec<OneWindow>,
    /// Each length that was tried, the shortest first.
    points: Vec<OnePoint>,
}

/// Neighbouring lengths at which the failure fails more often than at others.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Window")]
struct OneWindow {
    /// The shortest of them, in microseconds.
    from_us: u64,
    /// The longest of them.
    until_us: u64,
    /// The next shorter length that was tried: the edge lies between. Null where none is shorter.
    below_us: Option<u64>,
    /// The next longer length that was tried. Null where none is longer.
    above_us: Option<u64>,
    #[serde(flatten)]
    rate: Rate,
}

/// A length of a gap.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Point")]
struct OnePoint {
    /// The length in microseconds.
    us: u64,
    #[serde(flatten)]
    rate: Rate,
}

impl<'r> Document<'r> {
    pub(super) fn of(result: &'r WindowResult) -> Self {
        let why = if let WindowEnded::NotTested(why) = &result.ended { Some(why.as_str()) } else { None };
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION"),
            exit_code: result.exit_code(),
            kind: result.kind,
            failure: &result.file,
            model: &result.model,
            one_server: result.one_server,
            server: result.server.as_deref(),
            execution_us: result.execution_us,
            ended: result.ended.name(),
            why,
            verdict: result.verdict(),
            note: result.note(),
            runs_per_length: result.runs,
            confidence: CONFIDENCE,
            before: result.before.into(),
            as_recorded: result.as_recorded.into(),
            all: result.all.into(),
            otherwise: &result.otherwise,
            gaps: result.curves.iter().map(|curve| gap(result, curve)).collect(),
            took_s: result.took.as_secs_f64(),
            replay: &result.replay,
        }
    }
}

fn gap(result: &WindowResult, curve: &Curve) -> OneGap {
    let Gap { number, worker, context, recorded_us, .. } = curve.gap;
    let window = |window: &Window| OneWindow {
        from_us: window.from_us,
        until_us: window.until_us,
        below_us: window.below_us,
        above_us: window.above_us,
        rate: window.count.into(),
    };
    let point = |point: &Point| OnePoint { us: point.us, rate: point.count.into() };
    OneGap {
        number,
        worker,
        context,
        from: noun(&curve.gap.from),
        to: noun(&curve.gap.to),
        recorded_us,
        matters: curve.matters(),
        p: curve.p,
        says: result.says(curve),
        windows: curve.windows.iter().map(window).collect(),
        points: curve.points.iter().map(point).collect(),
    }
}
