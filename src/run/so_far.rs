//! When a run that goes on tells what it has shown so far.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::recorder::{Glances, Measured, PastSecond, Patterns, Snapshots, Tally, Together, Violating};
use oracle::Seating;
use workload::event::Nanos;

/// When the observer gets what a run has shown so far.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    /// How often it gets a checkpoint, if at all.
    pub checkpoint_every: Option<Duration>,
    /// How often it gets a verdict, if at all.
    pub verdict_every: Option<Duration>,
    /// Whoever asks gets a verdict, too.
    pub verdict_asked: Asked,
    /// How often it gets a glance, if at all.
    pub glance_every: Option<Duration>,
    /// Whether a glance has what was measured since the run began, too.
    pub measures: bool,
    /// How often it gets a result to judge by itself, if at all.
    pub judged_every: Option<Duration>,
    /// Who takes the sequence of each violation, if anybody does.
    pub violating: Option<Violating>,
}

/// A part of what a run has shown so far that is small, so that somebody can look at it a few times a second.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// The time of the run, in nanoseconds since it began.
    pub now: Nanos,
    /// What was counted of each pattern.
    pub patterns: Patterns,
    /// Who has a slot, and who waits for one.
    pub seating: Seating,
    /// The seconds that are over since the glance before, the oldest first.
    pub seconds: Vec<PastSecond>,
    /// What was measured so far, where that is wanted.
    pub(crate) measured: Option<Box<Measured>>,
    /// The server's memory at the last look, in bytes, where its source is known.
    pub server_memory: Option<u64>,
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
    pub(super) judged: bool,
}

/// What is wanted at present, and what will be.
#[derive(Debug)]
pub(super) struct Timetable {
    setup: SoFar,
    next_checkpoint: Option<Duration>,
    next_verdict: Option<Duration>,
    next_judged: Option<Duration>,
    /// What the threads were asked for, and have not answered.
    wanted: Wanted,
    next_glance: Option<Duration>,
    /// Whether the threads were asked for a glance, and have not answered.
    is_glance_wanted: bool,
}

impl Timetable {
    pub(super) fn new(setup: &SoFar) -> Self {
        Self {
            next_checkpoint: setup.checkpoint_every,
            next_verdict: setup.verdict_every,
            next_judged: setup.judged_every,
            next_glance: setup.glance_every,
            setup: setup.clone(),
            wanted: Wanted::default(),
            is_glance_wanted: false,
        }
    }

    /// To be called some times a second. Asks the threads when something is due, and returns what they counted when all have answered.
    pub(super) fn look(&mut self, elapsed: Duration, snapshots: &Snapshots) -> Option<(Wanted, Tally, Together)> {
        let before = self.wanted;
        self.wanted.checkpoint |= is_due(&mut self.next_checkpoint, self.setup.checkpoint_every, elapsed);
        self.wanted.verdict |= is_due(&mut self.next_verdict, self.setup.verdict_every, elapsed);
        self.wanted.verdict |= self.setup.verdict_asked.take();
        self.wanted.judged |= is_due(&mut self.next_judged, self.setup.judged_every, elapsed);
        if self.wanted != before {
            snapshots.ask();
        }
        if self.wanted == Wanted::default() {
            return None;
        }
        let (tally, together) = snapshots.answered()?;
        Some((mem::take(&mut self.wanted), tally, together))
    }

    /// The same for a glance.
    pub(super) fn look_for_glance(&mut self, elapsed: Duration, glances: &Glances) -> Option<(Patterns, Seating)> {
        if !self.is_glance_wanted {
            if !is_due(&mut self.next_glance, self.setup.glance_every, elapsed) {
                return None;
            }
            self.is_glance_wanted = true;
            glances.ask();
        }
        let answered = glances.answered()?;
        self.is_glance_wanted = false;
        Some(answered)
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
            ..SoFar::default()
        });
        let snapshots: Snapshots = Snapshots::new(0);
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
    #[test]
    fn a_glance_is_asked_for_again_only_when_it_was_answered() {
        let ms = Duration::from_millis;
        let mut timetable = Timetable::new(&SoFar { glance_every: Some(ms(250)), ..SoFar::default() });
        let glances = Glances::new(1);
        let mut look = |at, is_answered: bool| {
            if is_answered {
                glances.leave(0, Patterns::default);
                glances.leave_together(Seating::default);
            }
            timetable.look_for_glance(ms(at), &glances).is_some()
        };
        assert!(!look(200, true), "nobody asked");
        assert!(!look(250, false));
        assert!(!look(900, false), "it is waited for");
        assert!(look(1000, true));
        assert!(!look(1100, true), "what was left answers the question before");
        assert!(!look(1250, false));
        assert!(look(1250, true));
    }

    #[test]
    fn nobody_is_asked_for_a_glance_that_nobody_wants() {
        let mut timetable = Timetable::new(&SoFar::default());
        let glances = Glances::new(1);
        assert!(timetable.look_for_glance(Duration::from_secs(100), &glances).is_none());
        glances.leave(0, || panic!("a copy is made"));
    }
}
