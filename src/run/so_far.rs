//! When a run that goes on tells what it has shown so far.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::recorder::{Snapshots, Tally, Together};

/// When the observer gets what a run has shown so far.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    /// How often it gets a checkpoint, if at all.
    pub checkpoint_every: Option<Duration>,
    /// How often it gets a verdict, if at all.
    pub verdict_every: Option<Duration>,
    /// Whoever asks gets a verdict, too.
    pub verdict_asked: Asked,
}

/// A question that is answered once, however often it was asked meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Relaxed)
    }
}

/// What the observer is to get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) checkpoint: bool,
    pub(super) verdict: bool,
}

/// What is wanted at present, and what will be.
#[derive(Debug)]
pub(super) struct Timetable {
    setup: SoFar,
    next_checkpoint: Option<Duration>,
    next_verdict: Option<Duration>,
    /// What the threads were asked for, and have not answered.
    wanted: Wanted,
}

impl Timetable {
    pub(super) fn new(setup: &SoFar) -> Self {
        Self {
            next_checkpoint: setup.checkpoint_every,
            next_verdict: setup.verdict_every,
            setup: setup.clone(),
            wanted: Wanted::default(),
        }
    }

    /// To be called some times a second. Asks the threads when something is due, and returns what they counted when all have answered.
    pub(super) fn look(&mut self, elapsed: Duration, snapshots: &Snapshots) -> Option<(Wanted, Tally, Together)> {
        let before = self.wanted;
        self.wanted.checkpoint |= is_due(&mut self.next_checkpoint, self.setup.checkpoint_every, elapsed);
        self.wanted.verdict |= is_due(&mut self.next_verdict, self.setup.verdict_every, elapsed);
        self.wanted.verdict |= self.setup.verdict_asked.take();
        if self.wanted != before {
            snapshots.ask();
        }
        if self.wanted == Wanted::default() {
            return None;
        }
        let (tally, together) = snapshots.answered()?;
        Some((mem::take(&mut self.wanted), tally, together))
    }
}

/// Whether the next time has come; those that were missed are left out.
fn is_due(next: &mut Option<Duration>, every: Option<Duration>, elapsed: Duration) -> bool {
    let (Some(at), Some(every)) = (next, every) else { return false };
    if elapsed < *at {
        return false;
    }
    while *at <= elapsed {
        *at += every.max(Duration::from_millis(1));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_due_at_its_times_and_when_it_is_asked_for() {
        let seconds = Duration::from_secs;
        let asked = Asked::default();
        let mut timetable = Timetable::new(&SoFar {
            checkpoint_every: Some(seconds(60)),
            verdict_every: Some(seconds(150)),
            verdict_asked: asked.clone(),
        });
        let snapshots = Snapshots::new(0);
        let mut look = |at| {
            // The second look finds the answers.
            let first = timetable.look(seconds(at), &snapshots).map(|(wanted, ..)| wanted);
            assert_eq!(first, None, "the collector has not answered");
            snapshots.leave_together(Together::default);
            let wanted = timetable.look(seconds(at), &snapshots).map(|(wanted, ..)| wanted).unwrap_or_default();
            (wanted.checkpoint, wanted.verdict)
        };
        assert_eq!(look(59), (false, false));
        assert_eq!(look(60), (true, false));
        assert_eq!(look(61), (false, false));
        assert_eq!(look(300), (true, true), "what was missed comes once");
        assert_eq!(look(359), (false, false));
        asked.ask();
        asked.ask();
        assert_eq!(look(359), (false, true));
        assert_eq!(look(360), (true, false));
    }
}
