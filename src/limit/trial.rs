//! What a run at one load shows: whether the server took the load.

use std::time::Duration;

use crate::{
    recorder::{Interval, Sample, Series},
    run::RunResult,
    verdict::{Judged, Missed},
};
use oracle::{Evidence, Violation};
use workload::{event::Code, scenario::Scenario};

/// A greater share of the iterations that were due may not have begun, in percent.
const NOT_BEGUN_PERCENT_MAX: u64 = 1;
/// A greater share of requests may not be without a good response, in percent.
const NOT_GOOD_PERCENT_MAX: u64 = 1;
/// How many waits for a slot, one after the other, a trial has room for at least.
const WAITS_OF_A_TRIAL: u128 = 4;
/// Unanswered requests grow if more than this share of what is sent stays behind, and more than chance explains.
const LEFT_BEHIND: f64 = 0.02;
/// The number of sequences at a time has a standard deviation of its root, as that of a Poisson process; more of these are no chance.
const DEVIATIONS: f64 = 3.0;

/// Why a load was too much.
#[derive(Clone, Debug, PartialEq)]
pub enum Overload {
    /// A threshold was missed.
    Threshold(Missed),
    /// Iterations did not begin when they were due, or not at all, because all workers were busy.
    NotBegun {
        /// How many.
        iterations: u64,
        /// Of so many.
        due: u64,
    },
    /// The server rejected requests because it had too much load.
    Rejected {
        /// How many, as far as they are kept.
        requests: u64,
    },
    /// One sequence in ten waited for a slot for so long that the trial was too short to see where that ends.
    LongWaits {
        /// The p90, in µs.
        p90_us: u64,
    },
    /// Requests without a response became more and more.
    Backlog {
        /// How many there were in the second quarter, on average.
        from: f64,
        /// And in the last one.
        to: f64,
    },
    /// Too many requests got no good response.
    NotGood {
        /// How many.
        requests: u64,
        /// Of so many.
        of: u64,
    },
}

/// A run at one load.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Iterations that were to begin in a second, or workers.
    pub load: f64,
    /// Sequences begun in a second.
    pub sequences_per_second: f64,
    /// Responses in a second.
    pub responses_per_second: f64,
    /// Good responses in a second.
    pub goodput_per_second: f64,
    /// The median of steps, in µs; none where there were none.
    pub step_p50_us: Option<u64>,
    /// The p99 of steps, in µs.
    pub step_p99_us: Option<u64>,
    /// The p99 of sequences, in µs.
    pub sequence_p99_us: Option<u64>,
    /// The p99 of waits for a slot, in µs.
    pub wait_for_slot_p99_us: Option<u64>,
    /// Requests without a response: the mean of the looks of each second.
    pub in_flight: Option<f64>,
    /// STARTs without a response, the same way.
    pub starts_waiting: Option<f64>,
    /// Inferences of an execution, on average.
    pub mean_batch: Option<f64>,
    /// Violations of all kinds.
    pub violations: u64,
    /// Why it was too much; nothing where it was not.
    pub overload: Vec<Overload>,
}

/// Whether a violation is the server's own word that it had too much load: the error of a full queue, or the status that servers and proxies
/// give then. A response that is lost is no such word: the timeout for a response grows with the load.
fn is_overload(violation: &Violation) -> bool {
    const GRPC_RESOURCE_EXHAUSTED: u16 = 8;
    const GRPC_UNAVAILABLE: u16 = 14;
    const HTTP_TOO_MANY_REQUESTS: u16 = 429;
    const HTTP_UNAVAILABLE: u16 = 503;
    let Evidence::Failed { code, error, .. } = &violation.evidence else { return false };
    match code {
        Some(
            Code::Grpc(GRPC_RESOURCE_EXHAUSTED | GRPC_UNAVAILABLE)
            | Code::Http(HTTP_TOO_MANY_REQUESTS | HTTP_UNAVAILABLE),
        ) => true,
        // On a stream an error has no code.
        _ => error.contains("maximum queue size"),
    }
}

impl Trial {
    /// What a run at this load shows that was to begin iterations for so long.
    #[expect(clippy::cast_precision_loss)]
    pub fn of(load: f64, scenario: &Scenario, result: &RunResult, lasts: Duration) -> Self {
        let tally = &result.tally;
        let seconds = result.elapsed.as_secs_f64().max(1e-9);
        let [mut responses, mut good] = [0, 0];
        for interval in &result.series.intervals {
            responses += interval.counted.responses;
            good += interval.counted.good;
        }
        let samples: Vec<_> = result.series.intervals.iter().filter_map(|interval| interval.sample).collect();
        let mean = |of: fn(&Sample) -> u64| {
            (!samples.is_empty()).then(|| samples.iter().map(|its| of(its) as f64).sum::<f64>() / samples.len() as f64)
        };
        let at = |times: &crate::recorder::Times, share: f64| (times.count() > 0).then(|| times.at_quantile_us(share));
        Self {
            load,
            sequences_per_second: tally.total().sequences as f64 / seconds,
            responses_per_second: responses as f64 / seconds,
            goodput_per_second: good as f64 / seconds,
            step_p50_us: at(&tally.step, 0.5),
            step_p99_us: at(&tally.step, 0.99),
            sequence_p99_us: at(&tally.waits.sequence, 0.99),
            wait_for_slot_p99_us: at(&tally.waits.slot, 0.99),
            in_flight: mean(|its| its.in_flight),
            starts_waiting: mean(|its| its.starts_waiting),
            mean_batch: mean_batch(&samples),
            violations: tally.violation_count(),
            overload: overload(scenario, result, lasts),
        }
    }

    /// Whether the server took the load.
    pub fn is_sustained(&self) -> bool {
        self.overload.is_empty() && self.violations == 0
    }

    /// Whether all violations come from too much load.
    pub fn excuses(&self, violations: &[Violation]) -> bool {
        violations.iter().all(is_overload)
    }
}

#[expect(clippy::cast_precision_loss)]
fn mean_batch(samples: &[Sample]) -> Option<f64> {
    let (first, last) = (samples.first()?.statistics?, samples.last()?.statistics?);
    let inferences = last.counted.inference.checked_sub(first.counted.inference)?;
    let executions = last.counted.execution.checked_sub(first.counted.execution)?;
    (executions > 0).then(|| inferences as f64 / executions as f64)
}

fn overload(scenario: &Scenario, result: &RunResult, lasts: Duration) -> Vec<Overload> {
    let missed = Judged { scenario, result }.missed_thresholds();
    let mut found: Vec<_> = missed.into_iter().map(Overload::Threshold).collect();
    let [mut late, mut due] = [0, 0];
    for its in &result.arrived {
        late += its.not_begun + its.begun_late;
        due += its.not_begun + its.begun;
    }
    let rejected = result.violations.iter().filter(|violation| is_overload(violation)).count();
    if rejected > 0 {
        found.push(Overload::Rejected { requests: rejected as u64 });
    }
    if late * 100 > due * NOT_BEGUN_PERCENT_MAX {
        found.push(Overload::NotBegun { iterations: late, due });
    }
    let p90_us = result.tally.waits.slot.at_quantile_us(0.9);
    if u128::from(p90_us) * WAITS_OF_A_TRIAL > lasts.as_micros() {
        found.push(Overload::LongWaits { p90_us });
    }
    // In a closed loop no more can be behind than there are workers.
    if !result.arrived.is_empty() {
        found.extend(backlog(&result.series, lasts));
    }
    let (requests, good) = (result.tally.not_good(), result.tally.good());
    if requests * 100 > (requests + good) * NOT_GOOD_PERCENT_MAX {
        found.push(Overload::NotGood { requests, of: requests + good });
    }
    found
}

/// Whether unanswered requests became more and more while iterations began.
#[expect(clippy::cast_precision_loss)]
fn backlog(series: &Series, lasts: Duration) -> Option<Overload> {
    let intervals = usize::try_from(lasts.as_secs() / series.seconds).ok()?.min(series.intervals.len());
    let mut unanswered = 0.0;
    let mut at_end = |interval: &Interval| {
        let its = interval.counted;
        unanswered += its.requests as f64 - its.responses as f64 - its.abandoned as f64;
        unanswered
    };
    let unanswered: Vec<f64> = series.intervals[..intervals].iter().map(&mut at_end).collect();
    let quarter = intervals / 4;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let second = unanswered.get(quarter..2 * quarter).filter(|part| !part.is_empty())?;
    let (from, to) = (mean(second), mean(&unanswered[intervals - quarter..]));
    let of = |count: fn(&Interval) -> u64| series.intervals[intervals / 2..intervals].iter().map(count).sum::<u64>();
    let (sent, sequences) = (of(|its| its.counted.requests) as f64, of(|its| its.counted.sequences) as f64);
    let length = sent / sequences.max(1.0);
    let grows = to - from > LEFT_BEHIND * sent && (to - from) / length > DEVIATIONS * (to / length).sqrt();
    grows.then_some(Overload::Backlog { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Counted;
    use oracle::ViolationKind;

    fn series(requests_and_responses: impl Iterator<Item = (u64, u64)>) -> Series {
        let mut series = Series::default();
        for (second, (requests, responses)) in (0..).zip(requests_and_responses) {
            let counted = Counted { requests, responses, sequences: requests / 10, ..Counted::default() };
            series.add(second, &Interval { counted, ..Interval::default() });
        }
        series
    }

    fn grows(requests_and_responses: impl Iterator<Item = (u64, u64)>) -> bool {
        backlog(&series(requests_and_responses), Duration::from_secs(12)).is_some()
    }

    fn rejected(code: Option<Code>, error: &str) -> Violation {
        let evidence = Evidence::Failed { has_to_be_rejected: false, code, error: error.to_owned() };
        Violation::of_the_run(ViolationKind::UnexpectedError, 0, evidence)
    }

    #[test]
    fn only_a_servers_own_word_explains_a_violation_by_too_much_load() {
        for (code, error, expected) in [
            (Some(Code::Grpc(14)), "no healthy upstream", true),
            (Some(Code::Grpc(8)), "", true),
            (Some(Code::Http(429)), "", true),
            (Some(Code::Http(503)), "", true),
            (None, "[request id: 1] Exceeds maximum queue size", true),
            (None, "planted", false),
            (Some(Code::Grpc(13)), "internal", false),
            // 14 is another thing over HTTP, and 503 over gRPC.
            (Some(Code::Http(14)), "", false),
            (Some(Code::Grpc(503)), "", false),
        ] {
            assert_eq!(is_overload(&rejected(code, error)), expected, "{code:?} {error}");
        }
        assert!(!is_overload(&Violation::of_the_run(ViolationKind::Lost, 0, Evidence::StillOpen)));
    }

    #[test]
    fn a_backlog_grows_if_responses_stay_behind_for_the_whole_run() {
        assert!(grows((0..12).map(|_| (1000, 900))), "a tenth stays behind");
        assert!(grows((0..15).map(|second| if second < 12 { (1000, 960) } else { (0, 160) })), "the rest comes later");
        assert!(!grows((0..12).map(|_| (1000, 1000))));
        assert!(!grows((0..12).map(|_| (1000, 999))), "that is not known in a short run");
        // It fills up at first, and then stays.
        assert!(!grows((0..12).map(|second| (1000, if second == 0 { 600 } else { 1000 }))));
        // With few sequences at a time that may be chance.
        assert!(!grows((0..12).map(|second| (40, if second < 9 { 40 } else { 20 }))));
        // It goes up and down.
        assert!(!grows((0..12).map(|second| (1000, if second % 2 == 0 { 800 } else { 1200 }))));
        assert!(!grows((0..2).map(|_| (1000, 1))), "too short to say");
    }
}
