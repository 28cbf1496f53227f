//! The time in which the workers work.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};

use super::{
    super::{
        Accounting, IdleSearch, Memory, PendingRequests, SlotCheck,
        collector::Collected,
        phases::{Conducted, conduct},
        resources::cpu_us,
        threads::work,
        watch::Watch,
    },
    Interrupted, Observer, Prepared, Result, RunError, TICK, keep,
};
use crate::{
    history::Spool,
    oracle::{
        Violation,
        diagnosis::{Known, explain},
    },
    transport::GoAways,
};

/// How long the collector may take to come to its end when the run is over.
const COLLECTING: Duration = Duration::from_secs(60);

/// What the workers have shown.
pub(super) struct Driven {
    pub(super) result: Result,
    /// A START that waited although a slot was free, if nobody else had it.
    pub(super) withheld: Option<Violation>,
    pub(super) history: Option<Spool>,
}

impl Prepared {
    /// Lets the workers work, and watches them.
    pub(super) async fn drive(
        &self,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> std::result::Result<Driven, RunError> {
        let shared = &self.shared;
        let drain = shared.scenario.limits.drain_ms.duration();
        let (taps, collector, mut seen) = self.collector()?;
        let cpu_before = cpu_us();
        let collected = collector.start();
        let (abort, aborted) = watch::channel(false);
        let mut joined = work(shared, &taps, &aborted).map_err(RunError::Endpoint)?;
        // The collector comes to its end when the threads' taps are gone.
        drop(taps);
        let mut kept = Vec::new();
        let mut watch = Watch::new();
        let mut ticks = tokio::time::interval(TICK);
        let mut memory = Memory::default();
        let mut conducted = Box::pin(conduct(shared, &self.hands));
        let mut phases = None;
        let mut ended = None;
        let (done, elapsed) = loop {
            // Phases may go on when no worker is left, and what is done to the server is not left half done.
            if let Some(ended) = ended.take_if(|_| phases.is_some()) {
                break ended;
            }
            tokio::select! {
                done = &mut joined, if ended.is_none() => ended = Some((done, shared.elapsed())),
                done = &mut conducted, if phases.is_none() => phases = Some(done),
                Some(violation) = seen.recv() => {
                    keep(violation, &mut kept, observer);
                    shared.stop_at_violation();
                }
                Some(()) = interrupts.recv() => {
                    watch.interrupted = true;
                    observer.interrupted(drain);
                    shared.stop();
                }
                _ = ticks.tick() => {
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
        let rest = async {
            while let Some(violation) = seen.recv().await {
                keep(violation, &mut kept, observer);
            }
            collected.await.unwrap_or_default()
        };
        // Longer than this only a disk takes that does not answer.
        let Collected { spool: history, scene, reached, of_all, longest_wait, withheld } =
            tokio::time::timeout(COLLECTING, rest).await.unwrap_or_default();
        let mut tally = done.map_err(RunError::Endpoint)?;
        let Conducted { spans: phases, broken_off } = phases.unwrap_or_default();
        tally.reached.add(&reached);
        for (kind, count) in of_all {
            (0..count).for_each(|_| tally.violation(kind));
        }
        let mut result = Result {
            preflight: shared.preflight.clone(),
            accounting: Accounting::NotCheckable { why: "the server's statistics cannot be read".to_owned() },
            passes: shared.progress().passes,
            pending: PendingRequests::NotChecked { why: "the run was interrupted".to_owned() },
            slots: SlotCheck::not_checkable("the run was interrupted"),
            idle_limit: IdleSearch::NotAsked,
            elapsed,
            cpu_us: cpu_us().saturating_sub(cpu_before),
            memory,
            interrupted: Interrupted(watch.interrupted),
            is_end_known: true,
            tally,
            violations: kept,
            beside: Vec::new(),
            recorded: None,
            scene: Arc::new(scene),
            phases,
            broken_off,
            longest_wait,
            go_aways: GoAways::default(),
        };
        if let Some(mut hang) = watch.hang {
            // What is kept is what happened around the first violation.
            if result.violations.is_empty() {
                hang.explanations = explain(&hang, &result.scene.entries, &Known::of(&shared.preflight.model));
            }
            result.add(hang, observer);
        }
        Ok(Driven { result, withheld, history })
    }
}
