//! What happened in each interval of a run, for machines: as rows, as CSV, and as a log of histograms.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::serialization::{
    V2DeflateSerializer,
    interval_log::{IntervalLogWriterBuilder, Tag},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Summary,
    mean_step::{mean_batch, possible_batch},
};
use crate::{
    recorder::{Interval, Packed, Sample, Times},
    run::RunResult,
};
use workload::model::{Model, Spent};

/// An interval. What was not measured is null, or empty in CSV.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Row {
    /// When it began, in seconds since the run began.
    at_s: u64,
    /// How long it is in seconds; the last one may be cut short by the run's end.
    lasts_s: u64,
    /// Requests sent.
    requests: u64,
    /// Requests answered in whatever way.
    responses: u64,
    /// Of these, good ones.
    good: u64,
    /// Sequences begun.
    sequences: u64,
    violations: u64,
    step_mean_us: Option<f64>,
    step_p50_us: Option<u64>,
    step_p99_us: Option<u64>,
    step_max_us: Option<u64>,
    sequence_mean_us: Option<f64>,
    sequence_p50_us: Option<u64>,
    sequence_p99_us: Option<u64>,
    sequence_max_us: Option<u64>,
    wait_for_slot_mean_us: Option<f64>,
    wait_for_slot_p50_us: Option<u64>,
    wait_for_slot_p99_us: Option<u64>,
    wait_for_slot_max_us: Option<u64>,
    /// From when a sequence's START was due, or sent, to the first response to it.
    first_response_p50_us: Option<u64>,
    first_response_p99_us: Option<u64>,
    first_response_max_us: Option<u64>,
    /// Sequences whose START was sent and that were not over, as the client knows it, at its end.
    live_sequences: Option<u64>,
    /// Requests without a response, at its end.
    in_flight: Option<u64>,
    /// Slots that are certainly taken, at its end.
    slots_taken: Option<u64>,
    /// STARTs without a response, at its end.
    starts_waiting: Option<u64>,
    /// CPU time of the client in it, in percent of one core.
    client_cpu_percent: Option<f64>,
    client_memory_bytes: Option<u64>,
    /// Executions of the model in it.
    executions: Option<u64>,
    /// Inferences of an execution in it, on average.
    mean_batch: Option<f64>,
    /// How many inferences an execution could have had in it, on average, for the requests that were there.
    possible_batch: Option<f64>,
    /// How long a request that succeeded in it waited in the server, on average.
    server_queue_us: Option<f64>,
    /// How long the model computed for such a request, on average, with its inputs and outputs.
    server_compute_us: Option<f64>,
    /// Requests pending in the server, at its end.
    server_pending: Option<u64>,
    server_memory_bytes: Option<u64>,
    /// CPU time of the server's process in it, in percent of one core.
    server_cpu_percent: Option<f64>,
}

/// An interval with the distribution of its latencies.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Interval")]
pub(super) struct WithCounts {
    #[serde(flatten)]
    row: Row,
    /// Responses by the time from when their step was due, or sent: the lower bound of a bucket in µs, and how many are in the bucket. There
    /// are four buckets to each doubling.
    step_counts: BTreeMap<u64, u64>,
}

/// How many are in each bucket, by the bucket's lower bound in µs.
fn counts(times: &Times) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for recorded in times.histogram().iter_recorded() {
        *counts.entry(bound(recorded.value_iterated_to())).or_default() += recorded.count_at_value();
    }
    counts
}

/// The lower bound of the bucket that has this time.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bound(us: u64) -> u64 {
    let quarter = ((us.max(1) as f64).log2() * 4.0).floor() / 4.0;
    quarter.exp2().round() as u64
}

/// The mean, where anything was measured.
fn mean(times: &Times) -> Option<f64> {
    (times.count() > 0).then(|| times.mean_us())
}

/// A percentile, where anything was measured.
fn at(times: &Times, quantile: f64) -> Option<u64> {
    (times.count() > 0).then(|| times.at_quantile_us(quantile))
}

/// What rose between two looks, as a share of another thing that rose.
#[expect(clippy::cast_precision_loss)]
fn ratio(rose: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| rose as f64 / of as f64)
}

impl Row {
    fn of(at_s: u64, lasts_s: u64, interval: &Interval, before: Option<Sample>, model: &Model) -> Self {
        let Interval { counted, times, offered, sample } = interval;
        let [step, sequence, wait_for_slot, first_response] =
            [&times.step, &times.sequence, &times.slot, &times.first_response].map(Packed::times);
        // What counts up says something only beside the look before.
        let both = before.zip(*sample);
        let passed_us = both.map_or(0, |(before, now)| now.at.saturating_sub(before.at) / 1000);
        let percent = |of: fn(&Sample) -> Option<u64>| {
            let (before, now) = both?;
            Some(ratio(of(&now)?.checked_sub(of(&before)?)?, passed_us)? * 100.0)
        };
        // A server that was started anew counts from 0.
        let statistics = both.and_then(|(before, now)| now.statistics?.since(&before.statistics?));
        let rose = statistics.map(|its| its.counted);
        let mean_us = |of: fn(&Spent) -> u64| {
            statistics.and_then(|its| Some(ratio(of(&its.spent), its.counted.success)? / 1000.0))
        };
        Self {
            at_s,
            lasts_s,
            requests: counted.requests,
            responses: counted.responses,
            good: counted.good,
            sequences: counted.sequences,
            violations: counted.violations,
            step_mean_us: mean(&step),
            step_p50_us: at(&step, 0.5),
            step_p99_us: at(&step, 0.99),
            step_max_us: at(&step, 1.0),
            sequence_mean_us: mean(&sequence),
            sequence_p50_us: at(&sequence, 0.5),
            sequence_p99_us: at(&sequence, 0.99),
            sequence_max_us: at(&sequence, 1.0),
            wait_for_slot_mean_us: mean(&wait_for_slot),
            wait_for_slot_p50_us: at(&wait_for_slot, 0.5),
            wait_for_slot_p99_us: at(&wait_for_slot, 0.99),
            wait_for_slot_max_us: at(&wait_for_slot, 1.0),
            first_response_p50_us: at(&first_response, 0.5),
            first_response_p99_us: at(&first_response, 0.99),
            first_response_max_us: at(&first_response, 1.0),
            live_sequences: offered.live,
            in_flight: sample.map(|its| its.in_flight),
            slots_taken: sample.map(|its| its.slots_taken),
            starts_waiting: sample.map(|its| its.starts_waiting),
            client_cpu_percent: percent(|its| Some(its.client_cpu_us)),
            client_memory_bytes: sample.and_then(|its| its.client_memory),
            executions: rose.map(|its| its.execution),
            mean_batch: rose.and_then(|its| mean_batch(model, its)),
            possible_batch: possible_batch(model, offered),
            server_queue_us: mean_us(|its| its.queue_ns),
            server_compute_us: mean_us(Spent::compute_ns),
            server_pending: sample.and_then(|its| its.pending),
            server_memory_bytes: sample.and_then(|its| its.server_memory),
            server_cpu_percent: percent(|its| its.server_cpu_us),
        }
    }
}

/// A row for each interval, with its latencies.
pub(super) fn with_counts(result: &RunResult) -> Vec<WithCounts> {
    let counts = result.series.intervals.iter().map(|interval| counts(&interval.times.step.times()));
    rows(result).into_iter().zip(counts).map(|(row, step_counts)| WithCounts { row, step_counts }).collect()
}

/// A row for each interval.
fn rows(result: &RunResult) -> Vec<Row> {
    let (series, model) = (&result.series, &result.preflight.model);
    let mut before = None;
    let row = |(place, interval): (u64, &Interval)| {
        let row = Row::of(place * series.seconds, series.seconds, interval, before, model);
        // A look that came too late counts for several seconds.
        before = interval.sample;
        row
    };
    (0..).zip(&series.intervals).map(row).collect()
}

/// The rows as CSV, with a line of titles.
pub(super) fn to_csv(summary: &Summary) -> Vec<u8> {
    written(rows(&summary.result))
}

/// Rows as CSV, with a line of titles.
pub(super) fn written(rows: Vec<Row>) -> Vec<u8> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("memory takes flat rows");
    }
    writer.into_inner().expect("memory takes it")
}

/// The histograms of the intervals as a log for the tools of `HdrHistogram`. The tags `step`, `sequence`, `wait-for-slot` and `first-response` tell them apart;
/// times are in µs, and maxima in ms.
pub(super) fn to_hdr_log(summary: &Summary) -> Vec<u8> {
    let series = &summary.result.series;
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    // A history has the time before the preflight.
    let began = series.began.unwrap_or_else(|| summary.result.origin.started());
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_start_time(began).with_base_time(began).with_max_value_divisor(1000.0);
    let mut writer = builder.begin_log_with(&mut bytes, &mut serializer).expect("memory takes it");
    for (place, interval) in (0..).zip(&series.intervals) {
        let times = &interval.times;
        let tagged = [
            ("step", &times.step),
            ("sequence", &times.sequence),
            ("wait-for-slot", &times.slot),
            ("first-response", &times.first_response),
        ];
        for (tag, times) in tagged {
            let (from, lasts) = (Duration::from_secs(place * series.seconds), Duration::from_secs(series.seconds));
            let times = times.times();
            if times.count() > 0 {
                let written = writer.write_histogram(times.histogram(), from, lasts, Tag::new(tag));
                written.expect("memory takes it");
            }
        }
    }
    bytes
}
