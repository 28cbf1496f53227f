//! Whether every slot is there after a run, and none of them twice.

mod attempt;
mod open_sequence;

use std::{num::NonZeroU64, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use self::attempt::{Attempt, Void};
use super::{Site, aside::Trail};
use crate::{preflight::Preflight, recorder::Tally};
use oracle::{Evidence, Leak, Violation, ViolationKind};
use wire::transport::Client;
use workload::{
    event::ServerName,
    scenario::Scenario,
    sequence::{Pattern, Trait},
};

/// How late a correct server's reaper may be. A server that is later costs time and nothing else, because a START is
/// waited for much longer.
const REAPER_LATE: Duration = Duration::from_millis(50);
/// How often the check begins anew where a sequence could not be kept open: so many times, and within this time some more, for
/// the cores may only be wanted elsewhere just now.
const ATTEMPTS: u32 = 3;
const MORE_ATTEMPTS: u32 = 9;
const MORE_WITHIN: Duration = Duration::from_secs(15);

/// What the slots of the model are like after the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotCheck {
    /// What was found.
    #[serde(flatten)]
    pub finding: SlotFinding,
    /// How many requests were sent for it, which no other count of the run has.
    pub requests: u64,
    /// How long it took, the wait for sequences to go idle included.
    pub took_us: u64,
    /// The server that the finding is of, where one of several differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerName>,
}

/// What was found of the slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum SlotFinding {
    /// As many sequences as the model has slots were open at a time, and one more had to wait for the first to end.
    AllThere {
        /// How many that are.
        slots: u32,
    },
    /// Fewer could be open at a time.
    Leaked {
        /// How many slots the model has.
        slots: u32,
        /// How many of them are gone.
        leaked: u32,
        /// What was seen.
        seen: Leak,
    },
    /// More could be open at a time.
    ReleasedTwice {
        /// How many slots the model has.
        slots: u32,
        /// How soon one START more was answered, in ms.
        #[serde(rename = "within_us", with = "workload::micros::OfMs")]
        within_ms: u64,
    },
    /// It could not be told.
    NotCheckable {
        /// Why.
        why: String,
    },
}

impl SlotCheck {
    pub(crate) fn not_checkable(why: impl Into<String>) -> Self {
        Self { finding: SlotFinding::NotCheckable { why: why.into() }, requests: 0, took_us: 0, server: None }
    }

    /// What was found on several servers, or of several versions: the slots of all of them, or what is wrong with those of the first one
    /// of which something is.
    pub(crate) fn and(self, other: Self) -> Self {
        let (requests, took_us) =
            (self.requests.saturating_add(other.requests), self.took_us.saturating_add(other.took_us));
        let finding = match (self.finding, other.finding) {
            (SlotFinding::AllThere { slots }, SlotFinding::AllThere { slots: more }) => {
                let finding = SlotFinding::AllThere { slots: slots.saturating_add(more) };
                return Self { finding, requests, took_us, server: None };
            }
            // What could not be told of one server hides nothing of another.
            (
                SlotFinding::AllThere { .. } | SlotFinding::NotCheckable { .. },
                finding @ (SlotFinding::Leaked { .. } | SlotFinding::ReleasedTwice { .. }),
            )
            | (SlotFinding::AllThere { .. }, finding) => {
                return Self { finding, requests, took_us, server: other.server };
            }
            (finding, _) => finding,
        };
        Self { finding, requests, took_us, server: self.server }
    }

    pub(crate) fn violation(&self, at_ns: u64) -> Option<Violation> {
        let (kind, evidence) = match self.finding {
            SlotFinding::Leaked { slots, seen, .. } => (ViolationKind::SlotLeak, Evidence::SlotsLeaked { slots, seen }),
            SlotFinding::ReleasedTwice { slots, within_ms } => {
                (ViolationKind::SlotReleasedTwice, Evidence::SlotsSurplus { slots, within_ms })
            }
            SlotFinding::AllThere { .. } | SlotFinding::NotCheckable { .. } => return None,
        };
        Some(Violation::of_the_run(kind, at_ns, evidence))
    }
}

/// What a run left behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aftermath<'r> {
    pub(crate) tally: &'r Tally,
    /// When the last stream had ended.
    pub(crate) elapsed: Duration,
    /// Whether its conversations were given, and so need not be as their patterns say.
    pub(crate) is_given: bool,
}

impl Aftermath<'_> {
    /// Whether a sequence may be open, so that its slot is free only when the idle limit has passed.
    fn may_have_sequences(&self) -> bool {
        let total = self.tally.total();
        let leaves_some =
            |pattern: &Pattern| !pattern.has(Trait::LeavesNone) && self.tally.patterns[pattern.index()].requests > 0;
        self.is_given
            || Pattern::ALL.iter().any(leaves_some)
            || self.tally.cut
            || total.indeterminate + total.failed > 0
            || total.sequences != total.sequences_as_designed
    }
}

impl Aftermath<'_> {
    /// How long it may take until no sequence is open any more.
    pub(crate) fn gone_idle(&self, idle_limit: Duration) -> Duration {
        if self.may_have_sequences() { idle_limit + REAPER_LATE } else { Duration::ZERO }
    }
}

/// What the check is about: as much of model and scenario as it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) slots: u32,
    pub(crate) idle_limit: Duration,
    /// What one step may take in the server.
    step: Duration,
    /// How long what has to be answered is waited for.
    pub(crate) patience: Duration,
    /// Whether the server may have stopped answering every client before the run ended. Unanswered STARTs then say nothing of slots.
    pub(crate) stuck: bool,
    /// The first of the correlation IDs that no worker has.
    pub(crate) first_id: NonZeroU64,
}

impl Terms {
    pub(crate) fn new(scenario: &Scenario, preflight: &Preflight, after: Aftermath<'_>) -> Result<Self, String> {
        let (model, tally) = (&preflight.model, after.tally);
        if !scenario.slots.check {
            return Err("the scenario switches it off (slots.check)".to_owned());
        }
        if model.arithmetic.answers.are_iterative() {
            return Err("requests to an iterative model are whole sequences, so none can be kept open".to_owned());
        }
        let slots = model.slots.ok_or("the number of slots is not known (--slots)")?;
        let idle_limit = model.idle_limit.ok_or("the idle limit is not known (--idle-limit)")?;
        if slots > scenario.slots.max.get() {
            return Err(format!("the model has {slots} slots, more than slots.max, {}", scenario.slots.max));
        }
        if after.may_have_sequences() && idle_limit > scenario.slots.wait_ms.duration() {
            return Err(format!(
                "the idle limit, {} ms, is above slots.wait_ms, {}",
                idle_limit.as_millis(),
                scenario.slots.wait_ms.duration().as_millis()
            ));
        }
        if model.execution.saturating_mul(model.turn.executions_before.saturating_add(1)) >= idle_limit {
            return Err(
                "a step on every slot takes longer than the idle limit, so they cannot all be kept open".to_owned()
            );
        }
        let limits = preflight.limits;
        let usual =
            scenario.limits.lost_after_ms.duration().max(idle_limit.saturating_mul(4).saturating_add(limits.step * 10));
        // What was cut may still be worked off in the backlog.
        let patience = if tally.cut { usual.max(limits.lawful) } else { usual };
        let first_id =
            free_ids(scenario, slots, 0).ok_or("the workers have so many correlation IDs that none are left")?;
        Ok(Self { slots, idle_limit, step: limits.step, patience, stuck: tally.stuck, first_id })
    }
}

/// The first of so many correlation IDs that belong to no worker; those for the slot check come before them, or, where there are to
/// be none, are these.
pub(crate) fn free_ids(scenario: &Scenario, slots: u32, count: u64) -> Option<NonZeroU64> {
    let own = u64::from(MORE_ATTEMPTS) * (u64::from(slots) + 1);
    let first = unused_ids(scenario, own.checked_add(count)?)?;
    if count == 0 { Some(first) } else { first.checked_add(own) }
}

/// The first of so many correlation IDs behind the workers' blocks, or before them.
fn unused_ids(scenario: &Scenario, count: u64) -> Option<NonZeroU64> {
    let ids = &scenario.correlation_ids;
    let used = u64::from(scenario.workers()) * u64::from(ids.block.get());
    let behind = ids.first.checked_add(used).filter(|first| first.checked_add(count - 1).is_some());
    behind.or_else(|| (ids.first.get() > count).then_some(NonZeroU64::MIN))
}

/// How long the check takes on a server that keeps its sequences open, at most; none where nothing is checked.
pub(crate) fn lasts(site: Site<'_>, after: Aftermath<'_>) -> Option<Duration> {
    let terms = Terms::new(site.scenario, site.preflight, after).ok()?;
    let gone_idle = after.gone_idle(terms.idle_limit);
    // One START of a lost slot is waited for, and the hand-over of another slot.
    Some(gone_idle + terms.patience * 2)
}

/// Looks at the slots of the model, as it is after a run. What is seen on the way that a correct server does not do goes to `trail`;
/// the finding's own violation does not.
pub(crate) async fn check(client: &Client, site: Site<'_>, after: Aftermath<'_>, trail: &mut Trail) -> SlotCheck {
    let terms = match Terms::new(site.scenario, site.preflight, after) {
        Ok(terms) => terms,
        Err(why) => return SlotCheck::not_checkable(why),
    };
    let began = Instant::now();
    if after.may_have_sequences() {
        let gone_idle = after.elapsed + terms.idle_limit + REAPER_LATE;
        tokio::time::sleep(gone_idle.saturating_sub(site.clock.elapsed())).await;
    }
    let mut number = 0;
    let finding = loop {
        let attempt = async { Attempt::new(number, terms, client, site, trail).await?.run().await };
        let Void { why, again } = match attempt.await {
            Ok(finding) => break finding,
            Err(void) => void,
        };
        number += 1;
        let limit = if began.elapsed() < MORE_WITHIN { MORE_ATTEMPTS } else { ATTEMPTS };
        if !again || number >= limit {
            break SlotFinding::NotCheckable { why };
        }
        // What the attempt left open goes idle.
        tokio::time::sleep(terms.idle_limit + REAPER_LATE).await;
    };
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    SlotCheck { finding, requests: trail.requests, took_us, server: None }
}

/// The same on each server, where they are several; `alone` is the scenario for each of them. Each has a trail of its own.
pub(crate) async fn check_each(
    client: &Client,
    site: Site<'_>,
    alone: &[Scenario],
    after: Aftermath<'_>,
    trails: &mut Vec<Trail>,
) -> SlotCheck {
    let mut all: Option<SlotCheck> = None;
    for ((endpoint, server), scenario) in client.replicas().iter().zip(alone) {
        // The IDs are the same on each server: what one of them did explains nothing of another.
        trails.push(Trail::default());
        let trail = trails.last_mut().expect("it was just put there");
        let found = check(server, Site { scenario, ..site }, after, trail).await;
        let found = SlotCheck { server: Some(ServerName::new(&endpoint.to_string())), ..found };
        all = Some(match all {
            Some(all) => all.and(found),
            None => found,
        });
    }
    if let Some(all) = all {
        return all;
    }
    trails.push(Trail::default());
    check(client, site, after, trails.last_mut().expect("it was just put there")).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::scenario::{Overrides, Source};

    fn scenario(text: &str) -> Scenario {
        Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario")
    }

    #[test]
    fn the_checks_ids_are_no_workers() {
        let free = |text: &str, count| unused_ids(&scenario(text), count).map(NonZeroU64::get);
        assert_eq!(free("load.workers = 3\ncorrelation_ids = { first = 5, block = 10 }", 9), Some(35));
        let last = "load.workers = 1\ncorrelation_ids = { first = 18446744073709551600, block = 10 }";
        assert_eq!(free(last, 6), Some(18_446_744_073_709_551_610));
        assert_eq!(free(last, 7), Some(1), "behind the block there is room for six");
        let most = "load.workers = 1\ncorrelation_ids = { first = 8, block = 10 }";
        assert_eq!(free(most, 7), Some(18));
        assert_eq!(free(most, u64::MAX - 3), None);
    }

    #[test]
    fn what_is_wrong_on_one_server_shows_whatever_was_found_on_the_other() {
        let found =
            |finding, name: &str| SlotCheck { finding, requests: 5, took_us: 7, server: Some(ServerName::new(name)) };
        let leak = || SlotFinding::Leaked { slots: 4, leaked: 1, seen: Leak::NotHandedOn { waited_ms: 1 } };
        for other in [SlotFinding::NotCheckable { why: "unknown".to_owned() }, SlotFinding::AllThere { slots: 4 }] {
            for both in
                [found(leak(), "b").and(found(other.clone(), "a")), found(other.clone(), "a").and(found(leak(), "b"))]
            {
                assert_eq!((both.finding, both.server, both.requests), (leak(), Some(ServerName::new("b")), 10));
            }
        }
        let all = found(SlotFinding::AllThere { slots: 4 }, "a").and(found(SlotFinding::AllThere { slots: 3 }, "b"));
        assert_eq!((all.finding, all.server), (SlotFinding::AllThere { slots: 7 }, None));
    }

    #[test]
    fn a_finding_is_one_violation_or_none() {
        let kind = |finding| {
            SlotCheck { finding, requests: 0, took_us: 0, server: None }.violation(1).map(|violation| violation.kind)
        };
        assert_eq!(kind(SlotFinding::AllThere { slots: 4 }), None);
        assert_eq!(kind(SlotFinding::NotCheckable { why: String::new() }), None);
        let seen = Leak::NotHandedOn { waited_ms: 1 };
        assert_eq!(kind(SlotFinding::Leaked { slots: 4, leaked: 1, seen }), Some(ViolationKind::SlotLeak));
        assert_eq!(kind(SlotFinding::ReleasedTwice { slots: 4, within_ms: 1 }), Some(ViolationKind::SlotReleasedTwice));
    }
}
