//! What is looked at when the last stream has ended.

use std::borrow::Cow;

use tokio::sync::mpsc;

use super::{Interrupted, Observer, Prepared, RunError, RunResult, shared::Shared};
use crate::{
    frame::{Footer, HistoryWritten},
    preflight::Preflight,
    probe::{
        Accounting, IdleSearch, PendingRequests, Site, SlotCheck,
        aside::Trail,
        idle_search, naming,
        slots::{self, Aftermath},
    },
    recorder::Tally,
};
use oracle::{
    Evidence, Violation, ViolationKind,
    diagnosis::ModelFacts,
    history::{Kept, Spool},
};
use workload::event::Nanos;

/// Why no slot is looked at where nobody was answered any more.
pub(crate) const ANSWERS_NOBODY: &str = "the server answered nobody any more";

impl Prepared {
    /// Compares with the server's own counts, counts its slots, and looks whether it is still there.
    pub(super) async fn conclude(
        &self,
        mut result: RunResult,
        withheld: Option<Violation>,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<RunResult, RunError> {
        let Self { client, baseline, shared, alone, .. } = self;
        if shared.reconnects().is_some() && result.interrupted == Interrupted(false) {
            // It may be away, or have been restarted when no request was under way.
            tokio::select! {
                _ = shared.server_survives("it was away when the run ended") => {}
                Some(()) = interrupts.recv() => result.interrupted = Interrupted(true),
            }
        }
        result.restarts = shared.absences.restarts();
        for violation in alone {
            result.add(violation.clone(), observer);
        }
        let counts = result.tally.total();
        if let Some((rank, _)) = result.lost_rank() {
            let why = format!("rank {rank} was lost, and what it sent last is not known");
            result.accounting = Accounting::NotCheckable { why };
        } else if shared.disturbances.any() {
            let why = "the model was loaded anew, or the server restarted, and the counts with it".to_owned();
            result.accounting = Accounting::NotCheckable { why };
        } else if let Some(baseline) = baseline.as_ref().filter(|_| shared.liveness.gone.get().is_none()) {
            let (model, limits) = (&shared.preflight.model, &shared.setup.scenario.limits);
            observer.looks_at("the server's counts", None);
            let compared =
                baseline.compare(client, model, &counts, limits.settle_ms.duration(), limits.quiet_ms.duration());
            result.accounting = tokio::select! {
                accounting = compared => accounting,
                Some(()) = interrupts.recv() => {
                    result.interrupted = Interrupted(true);
                    Accounting::NotCheckable { why: "the run was interrupted".to_owned() }
                }
            };
        }
        // Where the counts agree no other client had the slot.
        if let Some(withheld) = withheld.filter(|_| matches!(result.accounting, Accounting::Agrees { .. })) {
            result.add(withheld, observer);
        }
        if let Some(violation) = result.accounting.violation(shared.clock.now(), &counts) {
            result.add(violation, observer);
        }
        self.look_at_what_is_left(&mut result, observer, interrupts).await;
        // Of a replay nobody asks why: the run that found the failure has told it.
        let is_asked = shared.setup.given.is_none() && result.interrupted == Interrupted(false);
        if is_asked && shared.liveness.gone.get().is_none() {
            let (site, scene) = (shared.site(&shared.preflight), std::sync::Arc::clone(&result.scene));
            observer.looks_at("for the causes of violations", None);
            tokio::select! {
                () = naming::name(site, &scene, &mut result.violations) => {}
                Some(()) = interrupts.recv() => result.interrupted = Interrupted(true),
            }
        }
        result.go_aways = shared.access.gone_away();
        let put_back = if shared.liveness.gone.get().is_none() { self.hands.put_back().await } else { Ok(()) };
        // A server may die of what it was left with when the last stream closed, or of being put back.
        if result.broken_off.is_none() && shared.absences.away_since().is_none() {
            let why = put_back.as_ref().err().map_or("it did not answer after the run", String::as_str);
            shared.server_is_there(why).await;
        }
        if let Err(why) = put_back {
            observer.trouble(&why);
            result.preflight.notes.push(why.into());
        }
        // One that is gone because nobody started it again did nothing wrong.
        let failed = shared.disturbances.failed();
        if let Some((at, reason)) = shared.liveness.gone.get().filter(|(at, _)| failed.is_none_or(|began| *at < began))
        {
            result.accounting = Accounting::NotCheckable { why: "the server died".to_owned() };
            let endpoint = shared.site(&shared.preflight).gone().await;
            result.add(server_died(endpoint, *at, reason, &result.tally)?, observer);
        }
        Ok(result)
    }

    /// Writes the end of the history.
    pub(super) async fn finish(self, result: RunResult, history: Option<Spool>) -> RunResult {
        let Some(recording) = &self.shared.setup.recording else { return result };
        let path = recording.options.path.clone();
        let Some(spool) = history else {
            let problem = Some(format!("{} took too long to be written", path.display()));
            let kept = Kept { problem, ..Kept::default() };
            return RunResult { recorded: Some(HistoryWritten { path, kept }), ..result };
        };
        // Elsewhere, because an interrupt has to be heard meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let kept = spool.finish(|kept| Footer::new(&result, kept));
            RunResult { recorded: Some(HistoryWritten { path, kept }), ..result }
        });
        written.await.expect("the writing of a history does not fail, it tells")
    }

    /// Looks for requests that are still pending, and whether each slot is there once.
    async fn look_at_what_is_left(
        &self,
        result: &mut RunResult,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) {
        let Self { client, shared, .. } = self;
        let (mut trails, mut of_the_search): (Vec<Trail>, _) = (Vec::new(), Vec::new());
        let looked = async {
            let site = shared.site(&shared.preflight);
            let (early, others) = (ended_early(result), others_may_use_the_model(shared, result));
            if site.scenario.target.metrics.is_some() {
                observer.looks_at("for pending requests", None);
            }
            let pending = PendingRequests::look(site, &result.tally, early.clone().or(others.clone())).await;
            let no_slots =
                |why: String| (SlotCheck::not_checkable(&why), IdleSearch::not_checkable(site.scenario, why));
            if let Some(why) = early.or_else(|| stopped(shared, result)).or(others) {
                return (pending, no_slots(why));
            }
            // A model that was loaded anew may have other slots.
            let asked = if shared.disturbances.any() {
                Preflight::ask(client, &shared.setup.scenario, shared.setup.hints, shared.setup.golden.as_ref())
                    .await
                    .map(Cow::Owned)
            } else {
                Ok(Cow::Borrowed(&shared.preflight))
            };
            let preflight = match asked {
                Ok(preflight) => preflight,
                Err(why) => return (pending, no_slots(why)),
            };
            let RunResult { tally, elapsed, .. } = &*result;
            let after = Aftermath { tally, elapsed: *elapsed, is_given: shared.setup.given.is_some() };
            let alone = shared.setup.scenario.of_each_server();
            let site = shared.site(&preflight);
            observer.looks_at("the slots", slots::lasts(site, after));
            let mut slots: Option<SlotCheck> = None;
            // Each version has slots of its own.
            for version in shared.setup.scenario.versions() {
                let preflight = preflight.of_version(version);
                let found = slots::check_each(client, shared.site(&preflight), &alone, after, &mut trails).await;
                slots = Some(match slots {
                    Some(slots) => slots.and(found),
                    None => found,
                });
            }
            let slots = slots.unwrap_or_else(|| SlotCheck::not_checkable("there is no version to look at"));
            if site.scenario.slots.idle_limit_search {
                observer.looks_at("the idle limit", None);
            }
            // Of several servers, which are alike, the first one shows it.
            let site = Site { scenario: &alone[0], ..site };
            let idle_limit = idle_search::search(site, &slots, &mut of_the_search).await;
            (pending, (slots, idle_limit))
        };
        let looked = tokio::select! {
            looked = looked => Some(looked),
            Some(()) = interrupts.recv() => None,
        };
        let facts = ModelFacts::of(&shared.preflight.model);
        let mut seen: Vec<_> = trails.into_iter().flat_map(|trail| trail.explained(&facts)).collect();
        seen.append(&mut of_the_search);
        match looked {
            Some((pending, (slots, idle_limit))) => {
                seen.extend(pending.violation(shared.clock.now(), &result.tally, &slots));
                seen.extend(slots.violation(shared.clock.now()));
                (result.pending, result.slots, result.idle_limit) = (pending, slots, idle_limit);
                result.revise_causes(&shared.setup.scenario);
            }
            None => result.interrupted = Interrupted(true),
        }
        for violation in seen {
            result.add(violation, observer);
        }
    }
}

/// Why a run says nothing of what it left, where it was not carried out.
fn ended_early(result: &RunResult) -> Option<String> {
    if result.interrupted.0 {
        return Some("the run was interrupted".to_owned());
    }
    result.broken_off.is_some().then(|| "the run could not go on".to_owned())
}

/// Why no slot of the server can be looked at, or need be.
fn stopped(shared: &Shared, result: &RunResult) -> Option<String> {
    let why = if shared.liveness.gone.get().is_some() {
        "the server died"
    } else if result.tally.violations.contains_key(&ViolationKind::Hang) {
        ANSWERS_NOBODY
    } else if shared.ended_by_violation() {
        "the run was ended at its first violation"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Why what is found may be another client's doing.
fn others_may_use_the_model(shared: &Shared, result: &RunResult) -> Option<String> {
    let Accounting::NotCheckable { why } = &result.accounting else { return None };
    // Where the server was disturbed its counts tell nothing of others.
    if shared.disturbances.any() {
        return None;
    }
    let is_unknown = result.lost_rank().is_some() || !shared.preflight.has_statistics;
    Some(if is_unknown { why.clone() } else { format!("others may use the model: {why}") })
}

fn server_died(endpoint: String, at: Nanos, reason: &str, tally: &Tally) -> Result<Violation, RunError> {
    let sent = tally.total().sent();
    if sent.answered == 0 {
        return Err(RunError::Endpoint(format!("the server stopped answering before its first response: {reason}")));
    }
    let evidence = Evidence::Died { sent, endpoint, reason: reason.to_owned() };
    Ok(Violation::of_the_run(ViolationKind::ServerDied, at, evidence))
}
