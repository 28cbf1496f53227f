//! The time in which the workers work.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Interrupted, Memory, Observer, Prepared, RunError, RunResult, TICK,
    health::{Concluded, Watched},
    keep,
    phases::{Conducted, conduct},
    resources::cpu_us,
    threads::work,
    watch::Watch,
};
use crate::{
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    recorder::{Collected, Tally},
};
use oracle::{
    Violation, ViolationKind,
    diagnosis::{ModelFacts, explain},
    history::Spool,
};
use wire::transport::GoAways;

/// How long the collector may take to come to its end when the run is over.
const COLLECTING: Duration = Duration::from_secs(60);

pub(super) struct Driven {
    pub(super) result: RunResult,
    /// A START that waited although a slot was free, unless another client had it.
    pub(super) withheld: Option<Violation>,
    pub(super) history: Option<Spool>,
}

impl Prepared {
    /// Lets the workers work, and watches them.
    pub(super) async fn drive(
        &self,
        spool: Option<Spool>,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<Driven, RunError> {
        let shared = &self.shared;
        let drain = shared.setup.scenario.limits.drain_ms.duration();
        let (taps, collector, mut seen) = self.collector(spool);
        let cpu_before = cpu_us();
        let collected = collector.start();
        let (abort, aborted) = watch::channel(false);
        let mut joined = work(shared, &taps, &aborted).map_err(RunError::Endpoint)?;
        // The collector comes to its end when the threads' taps are gone.
        drop(taps);
        let (mut kept, mut beside) = (Vec::new(), Vec::new());
        let mut watch = Watch::new();
        let mut ticks = tokio::time::interval(TICK);
        let (mut memory, mut watched) = (Memory::default(), Watched::of(&shared.setup.scenario));
        let mut looking = Box::pin(self.looker.look(shared));
        let mut conducted = Box::pin(conduct(shared, &self.hands));
        let mut phases = None;
        let mut ended = None;
        let (done, elapsed) = loop {
            // Phases may go on when no worker is left, and what is done to the server is not left half done.
            if let Some(ended) = ended.take_if(|_| phases.is_some()) {
                break ended;
            }
            tokio::select! {
                done = &mut joined, if ended.is_none() => ended = Some((done, shared.clock.elapsed())),
                done = &mut conducted, if phases.is_none() => phases = Some(done),
                Some(violation) = seen.recv() => {
                    keep(violation, &mut kept, observer);
                    shared.stop_at_violation();
                }
                look = &mut looking => {
                    looking.set(self.looker.look(shared));
                    for violation in watched.take(look, shared.clock.now(), &shared.progress()) {
                        keep(violation.clone(), &mut kept, observer);
                        beside.push(violation);
                        shared.stop_at_violation();
                    }
                }
                Some(()) = interrupts.recv() => {
                    watch.interrupted = true;
                    observer.interrupted(drain);
                    shared.gate.stop();
                }
                _ = ticks.tick() => {
                    watched.look_at_thresholds(shared);
                    let progress = shared.progress();
                    observer.progress(&progress);
                    memory.look(progress.elapsed);
                    if watch.should_abort(shared, &progress) {
                        abort.send_replace(true);
                    }
                }
            }
        };
        memory.look_at_end();
        // Where a thread failed the others have nothing to wait for.
        abort.send_replace(done.is_err());
        let Collected { spool: history, scene, reached, of_all, longest_wait, withheld } =
            rest(collected, &mut seen, |violation| keep(violation, &mut kept, observer)).await;
        let mut tally = done.map_err(|why| shared.ran_short().map_or(RunError::Endpoint(why), RunError::Resources))?;
        let Conducted { spans: phases, broken_off } = phases.unwrap_or_default();
        tally.reached.add(&reached);
        count_others(&mut tally, &beside, of_all);
        watched.collect(&shared.seconds);
        let Concluded { health, series, thresholds, left } =
            watched.conclude(shared.clock.now(), &shared.progress(), elapsed);
        // What is looked at after it is as in one that was interrupted, until it is looked at.
        let why = || "the run was interrupted".to_owned();
        let mut result = RunResult {
            origin: shared.origin.clone(),
            preflight: shared.preflight.clone(),
            accounting: Accounting::NotCheckable { why: "the server's statistics cannot be read".to_owned() },
            iterations: shared.progress().iterations,
            pending: PendingRequests::NotChecked { why: why() },
            slots: SlotCheck::not_checkable(why()),
            idle_limit: IdleSearch::NotAsked,
            is_end_known: true,
            recorded: None,
            go_aways: GoAways::default(),
            elapsed,
            cpu_us: cpu_us().saturating_sub(cpu_before),
            memory,
            interrupted: Interrupted(watch.interrupted),
            tally,
            violations: kept,
            beside,
            scene: Arc::new(scene),
            arrived: shared.arrived(&phases, elapsed),
            phases,
            broken_off: broken_off.or_else(|| shared.ran_short()),
            longest_wait,
            health: Some(health),
            series,
            thresholds,
        };
        for violation in left {
            result.add(violation, observer);
        }
        if let Some(hang) = watch.hang {
            result.add_hang(hang, observer);
        }
        Ok(Driven { result, withheld, history })
    }
}

/// What the collector comes to when no thread hands it anything more.
async fn rest(
    collected: oneshot::Receiver<Collected>,
    seen: &mut mpsc::Receiver<Violation>,
    mut keep: impl FnMut(Violation),
) -> Collected {
    let rest = async {
        while let Some(violation) = seen.recv().await {
            keep(violation);
        }
        collected.await.unwrap_or_default()
    };
    // Longer than this only a disk takes that does not answer.
    tokio::time::timeout(COLLECTING, rest).await.unwrap_or_default()
}

/// Counts what no thread does: violations beside the events, and those that only all contexts together show.
fn count_others(tally: &mut Tally, beside: &[Violation], of_all: BTreeMap<ViolationKind, u64>) {
    for violation in beside {
        tally.violation(violation.kind);
    }
    for (kind, count) in of_all {
        *tally.violations.entry(kind).or_default() += count;
    }
}

impl RunResult {
    fn add_hang(&mut self, mut hang: Violation, observer: &mut dyn Observer) {
        // What is kept is what happened around the first violation.
        if self.violations.is_empty() {
            hang.explanations = explain(&hang, &self.scene.entries, &ModelFacts::of(&self.preflight.model));
        }
        self.add(hang, observer);
    }
}
