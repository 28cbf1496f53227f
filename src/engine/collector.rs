//! Takes in what all threads see, on a thread of its own: it has violations explained, and writes the history.

use std::{
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, oneshot};

use super::{evidence::Evidence, occupancy::Occupancy};
use crate::{
    claim::Claims,
    history::{Scene, Spool},
    oracle::Violation,
    recorder::{Batch, Batches, TapsAreGone},
};

/// How often the history is looked after when nothing comes.
const LOOK: Duration = Duration::from_millis(500);

/// What collects, until all taps are gone.
pub(super) struct Collector {
    pub(super) batches: Batches,
    pub(super) evidence: Evidence,
    pub(super) occupancy: Occupancy,
    pub(super) spool: Option<Spool>,
    /// Where violations go. When it is full enough are kept already; all are counted.
    pub(super) seen: mpsc::Sender<Violation>,
    began: Instant,
}

/// What was collected.
#[derive(Default)]
pub(super) struct Collected {
    /// The history that was written so far.
    pub(super) spool: Option<Spool>,
    pub(super) scene: Scene,
    /// What was reached on all correlation IDs together.
    pub(super) reached: Claims,
}

impl Collector {
    pub(super) fn new(
        batches: Batches,
        evidence: Evidence,
        occupancy: Occupancy,
        spool: Option<Spool>,
        seen: mpsc::Sender<Violation>,
    ) -> Self {
        Self { batches, evidence, occupancy, spool, seen, began: Instant::now() }
    }

    /// Begins. It comes back when all is collected.
    pub(super) fn start(self) -> oneshot::Receiver<Collected> {
        let (done, collected) = oneshot::channel();
        thread::spawn(move || {
            // Nobody waits for it where nothing could be tested.
            let _ = done.send(self.collect());
        });
        collected
    }

    fn collect(mut self) -> Collected {
        loop {
            let wait = self.evidence.waits(self.began.elapsed()).unwrap_or(LOOK).min(LOOK);
            match self.batches.next(wait) {
                Ok(batch) => batch.into_iter().for_each(|batch| self.take_in(batch)),
                Err(TapsAreGone) => break,
            }
            self.hand_on(false);
            if let Some(spool) = &mut self.spool {
                spool.write_what_is_due();
            }
        }
        self.hand_on(true);
        let Self { evidence, occupancy, spool, .. } = self;
        Collected { spool, scene: evidence.into_scene(), reached: occupancy.reached() }
    }

    fn take_in(&mut self, Batch { lost, entries, violations, bytes }: Batch) {
        if let Some(spool) = &mut self.spool {
            for violation in &violations {
                spool.violation(violation.at_ns);
            }
            let from = entries.first().map(|entry| entry.at).or(violations.first().map(|violation| violation.at_ns));
            if lost > 0 {
                spool.gap(lost, from.unwrap_or(0));
            }
            for entry in &entries {
                spool.entry(entry);
            }
        }
        if lost > 0 {
            self.occupancy.forget();
        }
        for entry in &entries {
            self.occupancy.take(entry);
        }
        self.evidence.take(entries, bytes);
        let now = self.began.elapsed();
        for violation in violations {
            self.evidence.accuse(violation, now);
        }
    }

    fn hand_on(&mut self, is_over: bool) {
        while let Some(violation) = self.evidence.explained(self.began.elapsed(), is_over) {
            let _ = self.seen.try_send(violation);
        }
    }
}
