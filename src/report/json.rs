//! The result for machines; `docs/result.schema.json` describes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    Claimed, Description, Extent, PlantedFault, Summary, Verdict,
    checks::{Check, checks, judges_outputs},
    evidence,
    mean_step::{MeanBatch, MeanStep},
    series::{WithCounts, with_counts},
};
use crate::{
    frame::HistoryWritten,
    preflight::Part,
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    reading::Written,
    recorder::{self, Counts, Found, Tally, Times},
    run::{Arrived, End, Health, Memory, Origin, PhaseSpan, Ranks, Restarts},
};
use oracle::{
    Evidence, LongestWait, Place, Violation, ViolationKind,
    diagnosis::{Cause, Clue, Explanation},
    golden::{Facts, Identity, Repeated},
};
use wire::transport::GoAways;
use workload::{
    model::Model,
    scenario::{Population, Scenario},
    seed::Seed,
    sequence::Pattern,
};

/// The version of the result's form. It rises when a reader of the old form could misread the new one.
pub const SCHEMA_VERSION: u32 = 3;

/// How the documents of several runs begin.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stamp {
    /// Rises when a reader of the old form could misread the new one.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The version of sequence-stress.
    tool_version: &'static str,
    /// The process's exit code.
    exit_code: u8,
}

impl Stamp {
    pub(super) fn of(exit_code: u8) -> Self {
        Self { schema_version: SCHEMA_VERSION, tool_version: env!("CARGO_PKG_VERSION"), exit_code }
    }
}

/// The result of a run for machines.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'s> {
    /// Rises when a reader of the old form could misread the new one.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: u32,
    /// The version of sequence-stress.
    tool_version: &'static str,
    /// The server's name and version, as it reports them; null if it does not.
    server_version: Option<&'s str>,
    /// The version of the model under test; null if the server does not report it.
    model_version: Option<&'s str>,
    /// When and where the run was held.
    #[serde(flatten)]
    origin: &'s Origin,
    /// valid: every check passed; invalid: there are violations; unknown: nothing failed, and not enough was tested.
    verdict: Verdict,
    /// The process's exit code.
    exit_code: u8,
    /// Whether the run's end is known. In a checkpoint it is not: the result is what the run had shown by then.
    complete: bool,
    /// Why the verdict is not valid although nothing failed.
    doubts: Vec<String>,
    /// What the run claims to exercise, and what it did besides. In a run of at least the scenario's `claims_from` iterations, one that
    /// was not reached makes the verdict 'unknown', unless there are violations or the run was interrupted.
    claims: Vec<Claimed>,
    /// What the scenario's thresholds came to (`fail_if`, `--fail-if`).
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    thresholds: &'s [Found],
    /// What the thresholds say that were missed.
    missed_thresholds: Vec<String>,
    /// What was checked besides the responses, and what was not: the lines that the report has below the verdict.
    checks: Vec<Check>,
    /// What fixes every choice.
    seed: Seed,
    /// The command line that sends the same again.
    replay: &'s str,
    /// Requests sent.
    requests: u64,
    /// Sequences begun.
    sequences: u64,
    /// Of all patterns together.
    outcomes: Counts,
    /// By pattern; one of which nothing was sent is left out.
    patterns: BTreeMap<&'static str, Counts>,
    /// Violations of all kinds.
    violation_count: u64,
    /// How many violations of each kind there were.
    violations_by_kind: &'s BTreeMap<ViolationKind, u64>,
    /// The first ones, in the order in which they were seen.
    violations: Vec<Replayable<'s>>,
    latency_us: Latencies<'s>,
    /// Where the time of a step that the server executed goes on average; null where it executed none.
    mean_step_us: Option<MeanStep>,
    /// How full the model's batches were.
    mean_batch: MeanBatch,
    /// Requests sent in a second.
    requests_per_second: f64,
    /// Good responses in a second: those that were right and in time, and errors that were planned.
    goodput_per_second: f64,
    /// Sequences begun in a second.
    sequences_per_second: f64,
    /// CPU time of the client, user and system, for each request; with an embedded server, its own is in it.
    client_cpu_us_per_request: f64,
    client_memory_bytes: Memory,
    /// Whether the reference server ran in the client's process, and so is in its CPU time and memory.
    embedded: bool,
    /// The faults that were planted in the embedded server.
    planted_faults: &'s [PlantedFault],
    /// From the start of the first iteration to the end of the last stream.
    elapsed_s: f64,
    /// What the model's own statistics say.
    server_counts: &'s Accounting,
    /// Whether requests were still pending in the server after the run.
    pending_requests: &'s PendingRequests,
    /// What the model's slots were like after the run.
    slots_check: &'s SlotCheck,
    /// The idle limit that the server really keeps, where the scenario has it searched for.
    idle_limit: &'s IdleSearch,
    /// The scenario's phases, where it has any.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    phases: &'s [PhaseSpan],
    /// What became of iterations that begin at a rate, by population; where any do.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    arrivals: &'s [Arrived],
    /// How steps that are due at times of their own were sent; where any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing: Option<Pacing>,
    /// The longest wait for a slot of a START that was sent when every slot was certainly taken; where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_wait: Option<&'s LongestWait>,
    /// What became of connections that the server ended in good order (GOAWAY); where there were any.
    #[serde(skip_serializing_if = "GoAways::is_none")]
    go_aways: GoAways,
    /// How often the server was away and came back; where it was.
    #[serde(skip_serializing_if = "Restarts::is_none")]
    restarts: &'s Restarts,
    /// The ranks that held the run; where it was several.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<&'s Ranks>,
    /// What judged the outputs of a model without a formula; where the run had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    golden: Option<Judged<'s>>,
    /// What the server said of itself during the run, each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<&'s Health>,
    /// What happened in each second of the run, or in each of longer intervals of a long one.
    series: Vec<WithCounts>,
    /// How long answers were waited for, and how long a lawful one may take, in microseconds.
    limits_us: Limits,
    /// Which parts of the protocol the endpoint has, as the run found them before it began.
    endpoint_parts: &'s [Part],
    /// What the run did otherwise than asked, and what it could not check.
    notes: Vec<String>,
    /// What became of the history, where one was written.
    history: Option<&'s HistoryWritten>,
    /// The model under test; null is what is not known.
    model: &'s Model,
    /// The scenario's name or file.
    scenario_name: &'s str,
    /// The whole scenario; docs/SCENARIOS-KEYS.md has its keys.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    scenario: &'s Scenario,
}

/// The counts of each pattern of which anything was sent.
fn patterns(tally: &Tally) -> BTreeMap<&'static str, Counts> {
    let all = Pattern::ALL.iter().map(|pattern| (pattern.name(), tally.patterns[pattern.index()]));
    all.filter(|(_, counts)| *counts != Counts::default()).collect()
}

/// The golden outputs that a run was judged by.
#[derive(Serialize, JsonSchema)]
struct Judged<'s> {
    /// Of which model and inputs they are.
    identity: &'s Identity,
    /// Whether any output was judged: by what the calibration measured, or by a rule for the same steps.
    judges: bool,
    /// What the calibration found out; nothing where the run expected nothing of outputs.
    facts: &'s Facts,
    /// How often the same steps were answered the same, where no calibration measured what they are answered with.
    same_steps: Repeated,
}

/// A violation with its words beside the values.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Violation")]
struct Replayable<'s> {
    kind: ViolationKind,
    /// When the client saw it, in microseconds since the run began.
    at_us: u64,
    #[serde(flatten)]
    place: Option<&'s Place>,
    #[serde(flatten)]
    words: Description,
    /// What had to come back, and what came, as values.
    evidence: &'s Evidence,
    /// What it may come from, the likeliest first.
    explanations: Vec<Explained<'s>>,
    /// The command line that sends the same again.
    replay: &'s str,
}

/// A cause, and what speaks for it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Explanation")]
struct Explained<'s> {
    cause: Cause,
    /// What speaks for it, in words.
    evidence: String,
    /// What speaks for it, as values.
    clues: &'s [Clue],
    /// That quantities match as they do happens by chance in one of so many cases; absent where it hardly ever does.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_chance: Option<u64>,
}

impl<'s> Replayable<'s> {
    fn new(violation: &'s Violation, replay: &'s str) -> Self {
        let explained = |explanation: &'s Explanation| Explained {
            cause: explanation.cause,
            evidence: evidence(violation, explanation),
            clues: &explanation.clues,
            by_chance: explanation.by_chance,
        };
        Self {
            kind: violation.kind,
            at_us: violation.at_ns / 1000,
            place: violation.place.as_ref(),
            words: Description::of(violation),
            evidence: &violation.evidence,
            explanations: violation.explanations.iter().map(explained).collect(),
            replay,
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Latencies<'s> {
    step: Percentiles,
    /// Those of steps, where a request without a good response counts as infinitely slow: null.
    good_step: GoodPercentiles,
    sequence: Percentiles,
    wait_for_slot: Percentiles,
    /// From when a sequence's START was due, or sent, to the first response to it; where the model gives several responses to a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_response: Option<Percentiles>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    populations: BTreeMap<&'s str, Waits>,
}

#[derive(Serialize, JsonSchema)]
struct Waits {
    sequence: Percentiles,
    wait_for_slot: Percentiles,
}

fn waits<'s>((population, waits): (&'s Population, &recorder::Waits)) -> (&'s str, Waits) {
    (&population.name, Waits { sequence: (&waits.sequence).into(), wait_for_slot: (&waits.slot).into() })
}

#[derive(Serialize, JsonSchema)]
struct Percentiles {
    count: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

/// How steps that are due at times of their own were sent. Where they are, `latency_us` counts from when they were due.
#[derive(Serialize, JsonSchema)]
struct Pacing {
    /// How late the client sent a step for whose time alone it waited.
    late_us: Percentiles,
    /// How late the client sent other steps: the step before had no response yet, or no worker was free.
    held_back_us: Percentiles,
    /// From when a step was really sent to its response.
    step_from_sending_us: Percentiles,
    /// From when a sequence's first step was really sent to the response to its last.
    sequence_from_sending_us: Percentiles,
    /// Whether the client was so late that it was the limit, and not the server.
    client_was_the_limit: bool,
}

impl From<&recorder::Pacing> for Pacing {
    fn from(pacing: &recorder::Pacing) -> Self {
        Self {
            late_us: (&pacing.late).into(),
            held_back_us: (&pacing.held_back).into(),
            step_from_sending_us: (&pacing.step).into(),
            sequence_from_sending_us: (&pacing.sequence).into(),
            client_was_the_limit: pacing.client_late_us().is_some(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct GoodPercentiles {
    /// Good responses.
    count: u64,
    /// Responses that were not good, and requests whose response the server owed and that got none.
    not_good: u64,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    p99_9: Option<u64>,
    max: Option<u64>,
}

impl From<&Tally> for GoodPercentiles {
    fn from(tally: &Tally) -> Self {
        let at = |quantile| tally.good_at_quantile_us(quantile);
        Self {
            count: tally.good(),
            not_good: tally.not_good(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: at(1.0),
        }
    }
}

#[derive(Serialize, JsonSchema)]
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

/// The result as a value.
pub(super) fn to_value(summary: &Summary) -> Value {
    serde_json::to_value(Document::of(summary)).expect("the keys are texts")
}

/// The result as one JSON object.
pub fn to_json(summary: &Summary) -> Vec<u8> {
    document_to_json(&Document::of(summary))
}

pub(super) fn document_to_json(document: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(document).expect("the keys are texts");
    bytes.push(b'\n');
    bytes
}

/// A document as a reader of its file has it.
pub(super) fn read_again(document: &impl Serialize) -> Written {
    Written::parsed(&document_to_json(document)).expect("what is written here can be read")
}

impl Summary {
    /// The result as a reader of its JSON has it.
    pub(crate) fn written(&self) -> Written {
        read_again(&Document::of(self))
    }
}

impl<'s> Document<'s> {
    /// The result of a run.
    #[expect(clippy::cast_precision_loss)]
    pub(super) fn of(summary: &'s Summary) -> Self {
        let Summary { scenario, scenario_name, seed, replay, embedded, result } = summary;
        let tally = &result.tally;
        let outcomes = tally.total();
        let limits = result.preflight.limits;
        Self {
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION"),
            server_version: result.preflight.model.server.as_deref(),
            model_version: result.preflight.model.version.as_deref(),
            origin: &result.origin,
            verdict: summary.verdict(),
            exit_code: summary.exit_code(),
            complete: result.end == End::Known,
            doubts: summary.doubts(),
            claims: summary.claims().into_iter().filter(|its| its.least > 0 || its.reached > 0).collect(),
            thresholds: &result.thresholds,
            missed_thresholds: summary.missed_thresholds(),
            checks: checks(summary, Extent::Usual),
            seed: *seed,
            replay,
            requests: outcomes.requests,
            sequences: outcomes.sequences,
            outcomes,
            patterns: patterns(tally),
            violation_count: tally.violation_count(),
            violations_by_kind: &tally.violations,
            violations: result.violations.iter().map(|violation| Replayable::new(violation, replay)).collect(),
            latency_us: Latencies {
                step: (&tally.step).into(),
                good_step: tally.into(),
                sequence: (&tally.waits.sequence).into(),
                wait_for_slot: (&tally.waits.slot).into(),
                first_response: summary.first_response().map(Into::into),
                populations: scenario.populations.iter().zip(&tally.populations).map(waits).collect(),
            },
            mean_step_us: MeanStep::of(result),
            mean_batch: MeanBatch::of(result),
            requests_per_second: summary.requests_per_second(),
            goodput_per_second: summary.goodput_per_second(),
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
            arrivals: &result.arrived,
            pacing: tally.pacing.as_deref().map(Into::into),
            longest_wait: result.longest_wait.as_ref(),
            go_aways: result.go_aways,
            restarts: &result.restarts,
            ranks: result.ranks.as_ref(),
            golden: result.preflight.golden.as_ref().map(|golden| Judged {
                identity: &golden.identity,
                judges: judges_outputs(golden),
                facts: &golden.facts,
                same_steps: golden.relations.repeated(),
            }),
            health: result.health.as_ref(),
            series: with_counts(result),
            limits_us: Limits {
                longest_lawful_wait: limits.lawful.as_micros(),
                lost_after: limits.lost_after.as_micros(),
                response: limits.threshold.map(|limit| limit.as_micros()),
            },
            endpoint_parts: &result.preflight.parts,
            notes: result.preflight.notes.iter().map(ToString::to_string).chain(summary.other_words()).collect(),
            history: result.recorded.as_ref(),
            model: &result.preflight.model,
            scenario_name,
            scenario,
        }
    }
}

#[cfg(test)]
mod tests;
