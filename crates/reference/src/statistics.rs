//! What a model has counted, as `ModelStatistics` tells it.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use super::scheduler::{Moment, Rejection};
use wire::proto::{InferBatchStatistics, InferStatistics, ModelStatistics, StatisticDuration};

#[derive(Clone, Debug, Default)]
pub(super) struct Statistics {
    /// Milliseconds since the epoch.
    last_inference: u64,
    pub(super) executions: u64,
    pub(super) success: Count,
    fail: Count,
    pub(super) queue: Count,
    pub(super) compute: Count,
    /// Executions by batch size, padding included.
    batches: BTreeMap<u64, Count>,
    /// Requests that failed, by [`Reason`].
    failures: [u64; Reason::NAMES.len()],
}

/// Why a request failed, as the metrics tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Cancelled,
    Model,
    Other,
    Rejected,
}

impl Reason {
    /// Their names, in order.
    const NAMES: [&'static str; 4] = ["CANCELED", "BACKEND", "OTHER", "REJECTED"];
}

impl From<Rejection> for Reason {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Cancelled => Self::Cancelled,
            Rejection::Expired => Self::Rejected,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) count: u64,
    time: Duration,
}

impl Count {
    /// The time in microseconds.
    pub(super) fn us(self) -> u64 {
        u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX)
    }

    fn add(&mut self, count: u64, time: Duration) {
        self.count += count;
        self.time += time;
    }
}

impl From<Count> for StatisticDuration {
    fn from(Count { count, time }: Count) -> Self {
        Self { count, ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) }
    }
}

impl Statistics {
    /// Counts one execution of a batch of this size: of each request when it arrived, and whether it succeeded.
    pub(super) fn executed(
        &mut self,
        batch_size: usize,
        requests: impl Iterator<Item = (Moment, bool)>,
        span: &Range<Moment>,
        epoch_ms: u64,
    ) {
        let took = span.end.saturating_sub(span.start);
        self.last_inference = epoch_ms;
        self.executions += 1;
        self.batches.entry(batch_size as u64).or_default().add(1, took);
        for (arrived, succeeded) in requests {
            let lived = span.end.saturating_sub(arrived);
            if !succeeded {
                self.failed(lived, Reason::Model);
                continue;
            }
            self.success.add(1, lived);
            self.queue.add(1, span.start.saturating_sub(arrived));
            self.compute.add(1, took);
        }
    }

    /// Counts what executions a batch of an iterative model had besides the first one. The server ends each request's sequence by
    /// itself, and counts that as a failure.
    pub(super) fn iterated(&mut self, batch_size: usize, iterations: u32, requests: usize) {
        let more = u64::from(iterations).saturating_sub(1);
        self.executions += more;
        self.batches.entry(batch_size as u64).or_default().add(more, Duration::ZERO);
        self.fail.add(requests as u64, Duration::ZERO);
    }

    /// Counts a request that was accepted, and not executed or not answered with outputs.
    pub(super) fn failed(&mut self, waited: Duration, reason: Reason) {
        self.fail.add(1, waited);
        self.failures[reason as usize] += 1;
    }

    /// How many requests failed, by reason.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reason::NAMES.into_iter().zip(self.failures)
    }

    /// The counts as the wire has them.
    pub(super) fn report(&self, model: &str, version: i64) -> ModelStatistics {
        // Inputs and outputs are not copied, so that takes no time worth telling.
        let instant = |count: Count| Some(Count { time: Duration::ZERO, ..count }.into());
        let each = |count: Count| Some(count.into());
        let batch = |(size, count): (&u64, &Count)| InferBatchStatistics {
            batch_size: *size,
            compute_input: instant(*count),
            compute_infer: each(*count),
            compute_output: instant(*count),
        };
        ModelStatistics {
            name: model.to_owned(),
            version: version.to_string(),
            last_inference: self.last_inference,
            inference_count: self.success.count,
            execution_count: self.executions,
            inference_stats: Some(InferStatistics {
                success: each(self.success),
                fail: each(self.fail),
                queue: each(self.queue),
                compute_input: instant(self.compute),
                compute_infer: each(self.compute),
                compute_output: instant(self.compute),
                cache_hit: each(Count::default()),
                cache_miss: each(Count::default()),
            }),
            batch_stats: self.batches.iter().map(batch).collect(),
            ..Default::default()
        }
    }
}
