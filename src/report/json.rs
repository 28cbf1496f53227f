//! The result for machines; `docs/result.schema.json` describes it.

use std::{collections::BTreeMap, io};

use serde::Serialize;

use super::{Claimed, PlantedFault, Summary, Verdict};
use crate::{
    engine::{Accounting, IdleSearch, LongestWait, Memory, Part, PendingRequests, PhaseSpan, Recorded, SlotCheck},
    model::Model,
    oracle::{Violation, ViolationKind},
    recorder::{self, Counts, Times},
    scenario::{Population, Scenario},
    seed::Seed,
    sequence::Pattern,
    transport::GoAways,
};

/// The version of the result's form. It rises when a reader of the old form could misread the new one.
pub const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'s> {
    schema_version: u32,
    tool_version: &'static str,
    verdict: Verdict,
    exit_code: u8,
    doubts: Vec<String>,
    claims: Vec<Claimed>,
    missed_threshold: Option<String>,
    seed: Seed,
    replay: &'s str,
    requests: u64,
    sequences: u64,
    outcomes: Counts,
    patterns: BTreeMap<&'static str, Counts>,
    violation_count: u64,
    violations_by_kind: &'s BTreeMap<ViolationKind, u64>,
    violations: Vec<Replayable<'s>>,
    latency_us: Latencies<'s>,
    requests_per_second: f64,
    sequences_per_second: f64,
    client_cpu_us_per_request: f64,
    client_memory_bytes: Memory,
    embedded: bool,
    planted_faults: &'s [PlantedFault],
    elapsed_s: f64,
    server_counts: &'s Accounting,
    pending_requests: &'s PendingRequests,
    slots_check: &'s SlotCheck,
    idle_limit: &'s IdleSearch,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    phases: &'s [PhaseSpan],
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_wait: Option<&'s LongestWait>,
    #[serde(skip_serializing_if = "GoAways::is_none")]
    go_aways: GoAways,
    limits_us: Limits,
    endpoint_parts: &'s [Part],
    notes: Vec<String>,
    history: Option<&'s Recorded>,
    model: &'s Model,
    scenario_name: &'s str,
    scenario: &'s Scenario,
}

#[derive(Serialize)]
struct Replayable<'s> {
    #[serde(flatten)]
    violation: &'s Violation,
    replay: &'s str,
}

#[derive(Serialize)]
struct Latencies<'s> {
    step: Percentiles,
    sequence: Percentiles,
    slot_wait: Percentiles,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    populations: BTreeMap<&'s str, Waits>,
}

#[derive(Serialize)]
struct Waits {
    sequence: Percentiles,
    slot_wait: Percentiles,
}

fn waits<'s>((population, waits): (&'s Population, &recorder::Waits)) -> (&'s str, Waits) {
    (&population.name, Waits { sequence: (&waits.sequence).into(), slot_wait: (&waits.slot).into() })
}

#[derive(Serialize)]
struct Percentiles {
    count: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

#[derive(Serialize)]
struct Limits {
    longest_lawful_wait: u128,
    lost_after: u128,
    response: Option<u128>,
}

impl From<&Times> for Percentiles {
    fn from(times: &Times) -> Self {
        Self {
            count: times.count(),
            mean: times.mean_us(),
            p50: times.at_quantile_us(0.5),
            p90: times.at_quantile_us(0.9),
            p99: times.at_quantile_us(0.99),
            p99_9: times.at_quantile_us(0.999),
            max: times.max_us(),
        }
    }
}

/// Writes the result as one JSON object.
///
/// # Errors
/// When it cannot be written.
#[expect(clippy::cast_precision_loss)]
pub fn write_json(summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    let Summary { scenario, scenario_name, seed, replay, embedded, result } = summary;
    let tally = &result.tally;
    let outcomes = tally.total();
    let limits = result.preflight.limits;
    let document = Document {
        schema_version: SCHEMA_VERSION,
        tool_version: env!("CARGO_PKG_VERSION"),
        verdict: summary.verdict(),
        exit_code: summary.exit_code(),
        doubts: summary.doubts(),
        claims: summary.claims(),
        missed_threshold: summary.missed_threshold(),
        seed: *seed,
        replay,
        requests: outcomes.requests,
        sequences: outcomes.sequences,
        outcomes,
        patterns: Pattern::ALL.iter().map(|pattern| (pattern.name(), tally.patterns[pattern.index()])).collect(),
        violation_count: tally.violation_count(),
        violations_by_kind: &tally.violations,
        violations: result.violations.iter().map(|violation| Replayable { violation, replay }).collect(),
        latency_us: Latencies {
            step: (&tally.step).into(),
            sequence: (&tally.sequence).into(),
            slot_wait: (&tally.slot_wait).into(),
            populations: scenario.populations.iter().zip(&tally.populations).map(waits).collect(),
        },
        requests_per_second: summary.requests_per_second(),
        sequences_per_second: outcomes.sequences as f64 / result.elapsed.as_secs_f64().max(1e-9),
        client_cpu_us_per_request: summary.client_cpu_us_per_request(),
        client_memory_bytes: result.memory,
        embedded: embedded.is_some(),
        planted_faults: embedded.as_deref().unwrap_or_default(),
        elapsed_s: result.elapsed.as_secs_f64(),
        server_counts: &result.accounting,
        pending_requests: &result.pending,
        slots_check: &result.slots,
        idle_limit: &result.idle_limit,
        phases: &result.phases,
        longest_wait: result.longest_wait.as_ref(),
        go_aways: result.go_aways,
        limits_us: Limits {
            longest_lawful_wait: limits.lawful.as_micros(),
            lost_after: limits.lost_after.as_micros(),
            response: limits.threshold.map(|limit| limit.as_micros()),
        },
        endpoint_parts: &result.preflight.parts,
        notes: result.preflight.notes.iter().cloned().chain(summary.other_words()).collect(),
        history: result.recorded.as_ref(),
        model: &result.preflight.model,
        scenario_name,
        scenario,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
