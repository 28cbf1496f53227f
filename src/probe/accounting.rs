//! Whether the server's own counts account for every request, and whether requests still wait in it after all were answered.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Site, SlotCheck, slots::SlotFinding};
use crate::recorder::{Counts, Tally};
use oracle::{CountBounds, Evidence, Violation, ViolationKind};
use wire::transport::{CallError, Client, pending_requests};
use workload::model::{Counted, Model, Spent, Statistics};

const POLL: Duration = Duration::from_millis(50);

/// What the server's counts say about the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Accounting {
    /// They account for every request.
    Agrees {
        /// How far they rose.
        rose: Counted,
        /// How long the requests took in the server that succeeded, all together.
        #[serde(default)]
        spent: Spent,
        /// What became of the requests that brought no output.
        #[serde(default)]
        unheard: Unheard,
    },
    /// They do not.
    Differs {
        /// How far they rose.
        rose: Counted,
        /// What a correct server counts.
        expected: CountBounds,
    },
    /// They cannot tell.
    NotCheckable {
        /// Why.
        why: String,
    },
}

/// Requests that failed, or whose response never came; of a model that calls another one also those that were rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unheard {
    /// How many there were.
    pub requests: u64,
    /// How many of them the server executed all the same.
    pub executed: u64,
}

/// The counts before a run, if they stood still.
#[derive(Clone, Debug)]
pub(crate) struct Baseline(Result<Statistics, String>);

impl Baseline {
    /// Takes the model's counts, and watches for a while whether anybody else uses the model.
    pub(crate) async fn take(client: &Client, model: &str, quiet: Duration) -> Self {
        Self(match stood_still(client, model, quiet, Duration::ZERO).await {
            Ok((before, after)) if before.counted == after.counted => Ok(after),
            Ok((before, after)) => Err(format!(
                "somebody else uses the model, or the endpoint leads to several servers (--replicas): the counts changed by {} \
                 before the run",
                after.counted.success.abs_diff(before.counted.success)
            )),
            Err(error) => Err(unreadable(&error)),
        })
    }

    /// How many requests the model had executed, if its counts stood still.
    pub(crate) fn executed(&self) -> Option<u64> {
        self.0.as_ref().ok().map(|said| said.counted.success)
    }

    /// Compares how far the counts rose with what was sent and answered.
    pub(crate) async fn compare(
        &self,
        client: &Client,
        model: &Model,
        counts: &Counts,
        settle: Duration,
        quiet: Duration,
    ) -> Accounting {
        let before = match &self.0 {
            Ok(before) => *before,
            Err(why) => return Accounting::NotCheckable { why: why.clone() },
        };
        let expected = bounds(counts, model);
        let model = &model.name;
        let has_settled = |now: Statistics| now.since(&before).is_some_and(|rose| reach(&rose.counted, &expected));
        wait_until_settled(client, model, settle, has_settled).await;
        // The server may still work off what was cut.
        let patience = if counts.indeterminate > 0 { settle } else { Duration::ZERO };
        match stood_still(client, model, quiet, patience).await {
            Ok((first, last)) if first.counted != last.counted => Accounting::NotCheckable {
                why: "the model's counts still rose after the run: somebody else uses it, or it works off what was cut"
                    .to_owned(),
            },
            Ok((_, last)) => judge(last.since(&before), expected),
            Err(error) => Accounting::NotCheckable { why: unreadable(&error) },
        }
    }
}

/// The counts before something that is short enough to need no watch for others beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger(Statistics);

impl Ledger {
    pub(crate) async fn open(client: &Client, model: &str) -> Result<Self, String> {
        client.statistics(model).await.map(Self).map_err(|error| unreadable(&error))
    }

    /// Waits until the server has counted this many requests since, for at most `settle`: a server may count a request after
    /// it has answered it.
    pub(crate) async fn wait_for(self, client: &Client, model: &str, completed: u64, settle: Duration) {
        let reached = |now: Statistics| now.since(&self.0).is_none_or(|rose| rose.counted.success >= completed);
        wait_until_settled(client, model, settle, reached).await;
    }

    /// Compares how far the counts rose with what was sent and answered since.
    pub(crate) async fn compare(self, client: &Client, model: &Model, counts: &Counts, settle: Duration) -> Accounting {
        let expected = bounds(counts, model);
        let model = &model.name;
        let reached = |now: Statistics| now.since(&self.0).is_none_or(|rose| reach(&rose.counted, &expected));
        wait_until_settled(client, model, settle, reached).await;
        match client.statistics(model).await {
            Ok(now) => judge(now.since(&self.0), expected),
            Err(error) => Accounting::NotCheckable { why: unreadable(&error) },
        }
    }
}

fn unreadable(error: &CallError) -> String {
    format!("the statistics cannot be read: {error}")
}

/// The counts before and after a time of quiet; where they rise, again until that much time has passed.
async fn stood_still(
    client: &Client,
    model: &str,
    quiet: Duration,
    patience: Duration,
) -> Result<(Statistics, Statistics), CallError> {
    let deadline = Instant::now() + patience;
    loop {
        let first = client.statistics(model).await?;
        tokio::time::sleep(quiet).await;
        let last = client.statistics(model).await?;
        if first.counted == last.counted || Instant::now() >= deadline {
            return Ok((first, last));
        }
    }
}

async fn wait_until_settled(client: &Client, model: &str, limit: Duration, settled: impl Fn(Statistics) -> bool) {
    let poll = async {
        while !client.statistics(model).await.is_ok_and(&settled) {
            tokio::time::sleep(POLL).await;
        }
    };
    // What has not settled by then is judged as it is.
    let _ = tokio::time::timeout(limit, poll).await;
}

/// What a correct server counts. Rejected requests are in no count, but those that waited for too long, which may count as failures.
fn bounds(counts: &Counts, model: &Model) -> CountBounds {
    let Counts { completed, rejected, failed, expired, indeterminate, .. } = *counts;
    let fail_max = if model.arithmetic.answers.are_iterative() {
        // The server's own END of a request that is a whole sequence is a failure to it.
        failed + expired + indeterminate + completed
    } else if model.steps.is_empty() {
        failed + expired + indeterminate
    } else {
        // To an ensemble each rejection by a step is a failure. tritonserver counts each failure twice since 24.08.
        2 * (failed + rejected + indeterminate)
    };
    // The model executes what the model that it calls rejects, and counts it as a success.
    let rejected_by_called = if model.calls.is_some() { rejected } else { 0 };
    CountBounds {
        success_min: completed,
        // A request that the model itself answers with an error counts as a success, or as a failure.
        success_max: completed + failed + indeterminate + rejected_by_called,
        fail_max,
    }
}

fn reach(rose: &Counted, expected: &CountBounds) -> bool {
    rose.success >= expected.success_min && rose.inference >= expected.success_min
}

fn judge(rose: Option<Statistics>, expected: CountBounds) -> Accounting {
    let Some(Statistics { counted: rose, spent }) = rose else {
        return Accounting::NotCheckable {
            why: "the model's counts fell: it was loaded anew during the run".to_owned(),
        };
    };
    let successes = expected.success_min..=expected.success_max;
    if successes.contains(&rose.success) && successes.contains(&rose.inference) && rose.fail <= expected.fail_max {
        let unheard = Unheard {
            requests: expected.success_max - expected.success_min,
            executed: rose.success - expected.success_min,
        };
        return Accounting::Agrees { rose, spent: spent.whole_us(), unheard };
    }
    Accounting::Differs { rose, expected }
}

impl Accounting {
    pub(crate) fn violation(&self, at_ns: u64, counts: &Counts) -> Option<Violation> {
        let Self::Differs { rose: seen, expected } = *self else { return None };
        let evidence = Evidence::Counts { requests: counts.requests, expected, seen };
        Some(Violation::of_the_run(ViolationKind::Statistics, at_ns, evidence))
    }
}

/// What the server's count of pending requests says after the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum PendingRequests {
    /// None is left.
    None,
    /// Some are.
    Left {
        /// How many.
        count: u64,
    },
    /// It was not looked at, or tells nothing.
    NotChecked {
        /// Why.
        why: String,
    },
}

impl PendingRequests {
    /// Waits until no request is pending, as long as statistics may take to settle. `excuse` is why the count would tell nothing.
    pub(crate) async fn look(site: Site<'_>, tally: &Tally, excuse: Option<String>) -> Self {
        let Site { scenario, access, preflight, .. } = site;
        let servers = scenario.target.servers().len();
        if servers > 1 {
            return Self::NotChecked { why: format!("metrics are of one server, and there are {servers}") };
        }
        let Some(metrics) = &scenario.target.metrics else {
            return Self::NotChecked { why: "the server's metrics are not known (--metrics-url)".to_owned() };
        };
        if let Some(why) = excuse {
            return Self::NotChecked { why };
        }
        let (target, limit) = (&scenario.target, scenario.limits.connect_ms.duration());
        // What was cut may still be worked off in the backlog.
        let straggling = if tally.cut { preflight.limits.lawful } else { Duration::ZERO };
        let deadline = Instant::now() + scenario.limits.settle_ms.duration().max(straggling);
        loop {
            match pending_requests(metrics, access, target, limit).await {
                Ok(0) => return Self::None,
                Ok(count) if Instant::now() >= deadline => return Self::Left { count },
                Ok(_) => tokio::time::sleep(POLL).await,
                Err(why) => return Self::NotChecked { why },
            }
        }
    }

    pub(crate) fn violation(&self, at_ns: u64, tally: &Tally, slots: &SlotCheck) -> Option<Violation> {
        let Self::Left { count } = self else { return None };
        let all_slots_free = matches!(slots.finding, SlotFinding::AllThere { .. });
        let evidence = Evidence::Pending { sent: tally.total().sent(), seen: *count, all_slots_free };
        Some(Violation::of_the_run(ViolationKind::PendingLeft, at_ns, evidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::answers::Answers;

    fn counts(completed: u64, failed: u64, indeterminate: u64) -> Counts {
        Counts {
            requests: completed + failed + indeterminate + 3,
            completed,
            rejected: 3,
            failed,
            indeterminate,
            ..Counts::default()
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as since() gives it")]
    fn rose(success: u64, inference: u64, fail: u64) -> Option<Statistics> {
        Some(counted(Counted { success, fail, inference, execution: 1 }))
    }

    fn counted(counted: Counted) -> Statistics {
        Statistics { counted, spent: Spent::default() }
    }

    fn agrees(counts: &Counts, rose: Option<Statistics>) -> bool {
        matches!(judge(rose, bounds(counts, &Model::default())), Accounting::Agrees { .. })
    }

    #[test]
    fn when_all_was_answered_the_counts_are_exact() {
        let counts = counts(10, 0, 0);
        assert!(agrees(&counts, rose(10, 10, 0)));
        for (success, inference, fail) in [(9, 10, 0), (11, 10, 0), (10, 9, 0), (10, 11, 0), (10, 10, 1), (13, 13, 0)] {
            let judged = judge(rose(success, inference, fail), bounds(&counts, &Model::default()));
            let violation = judged.violation(0, &counts).expect("a violation");
            assert_eq!(violation.kind, ViolationKind::Statistics, "{violation:?}");
        }
    }

    #[test]
    fn after_a_cut_the_counts_are_bounded() {
        let counts = counts(10, 1, 4);
        for (success, fail, right) in
            [(10, 0, true), (15, 1, true), (12, 5, true), (9, 0, false), (16, 0, false), (10, 6, false)]
        {
            let judged = judge(rose(success, success, fail), bounds(&counts, &Model::default()));
            let executed = match judged {
                Accounting::Agrees { unheard, .. } => Some((unheard.requests, unheard.executed)),
                _ => None,
            };
            assert_eq!(executed, right.then(|| (5, success - 10)), "{success} {fail}");
        }
    }

    #[test]
    fn sequences_that_end_by_themselves_may_each_count_as_a_failure_too() {
        let mut model = Model::default();
        model.arithmetic.answers = Answers::EachOf(3);
        let agrees = |fail| {
            let judged = judge(rose(10, 10, fail), bounds(&counts(10, 0, 0), &model));
            matches!(judged, Accounting::Agrees { .. })
        };
        assert_eq!([0, 10, 11].map(agrees), [true, true, false]);
    }

    #[test]
    fn an_ensemble_counts_rejections_as_failures_and_may_count_them_twice() {
        let model = Model { steps: vec!["step".to_owned()], ..Model::default() };
        let agrees =
            |fail| matches!(judge(rose(10, 10, fail), bounds(&counts(10, 1, 0), &model)), Accounting::Agrees { .. });
        assert_eq!([0, 4, 8, 9].map(agrees), [true, true, true, false]);
    }

    #[test]
    fn a_model_that_calls_another_may_count_what_that_one_rejects_as_a_success() {
        let model = Model { calls: Some("called".to_owned()), ..Model::default() };
        let agrees = |success, fail| {
            let judged = judge(rose(success, success, fail), bounds(&counts(10, 0, 0), &model));
            matches!(judged, Accounting::Agrees { .. })
        };
        assert_eq!(
            [(9, 0), (10, 0), (13, 0), (14, 0), (10, 1)].map(|(success, fail)| agrees(success, fail)),
            [false, true, true, false, false]
        );
    }

    #[test]
    fn counts_that_fell_tell_nothing() {
        let before = counted(Counted { success: 5, ..Counted::default() });
        let judged = judge(Statistics::default().since(&before), bounds(&counts(1, 0, 0), &Model::default()));
        assert!(matches!(judged, Accounting::NotCheckable { .. }), "{judged:?}");
    }
}
