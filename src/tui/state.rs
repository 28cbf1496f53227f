//! What is shown of a run, as a plain value.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    report::{Verdict, violation_line},
    run::{Glance, PastSecond, Progress},
};
use oracle::{VIOLATIONS_KEPT, Violation};
use workload::scenario::Phase;

/// The seconds that are kept for the charts.
pub(super) const HISTORY: usize = 600;
/// After so long without a response the view says so.
const SILENT: Duration = Duration::from_secs(3);

/// What does not change during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// The model, and the server with its version where it is known.
    pub(crate) target: String,
    /// How many slots the model has, where that is known.
    pub(crate) slots: Option<u32>,
    /// The scenario's phases.
    pub(crate) phases: Vec<Phase>,
    /// The command that sends the same requests again.
    pub(crate) replay: String,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connections are made.
    #[default]
    Connects,
    /// Workers work.
    Load,
    /// The user stopped it; it waits for responses.
    Stopping,
    /// No worker works any more; the server is looked at.
    Checks,
}

/// What of the server is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) what: String,
    /// How long that takes at most, where that is known.
    pub(super) up_to: Option<Duration>,
    began: Instant,
    /// How long it has taken.
    pub(super) lasts: Duration,
}

/// The verdict if nothing changed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) why: String,
    /// The thresholds that are missed so far.
    pub(crate) missed: Vec<String>,
}

/// What has happened since the last look. It is bounded, however long nobody looks.
#[derive(Debug, Default)]
pub(crate) struct News {
    progress: Option<(Progress, String)>,
    glance: Option<Glance>,
    seconds: VecDeque<PastSecond>,
    violations: Vec<Violation>,
    judged: Option<Judged>,
    note: Option<String>,
    stage: Option<Stage>,
    check: Option<Check>,
}

impl News {
    /// How far the run is, and how long it still takes in words.
    pub(crate) fn progress(&mut self, progress: Progress, left: String) {
        self.progress = Some((progress, left));
    }

    pub(crate) fn glance(&mut self, mut glance: Glance) {
        self.seconds.extend(glance.seconds.drain(..));
        let too_many = self.seconds.len().saturating_sub(HISTORY);
        self.seconds.drain(..too_many);
        self.glance = Some(glance);
    }

    pub(crate) fn violation(&mut self, violation: Violation) {
        if self.violations.len() < VIOLATIONS_KEPT {
            self.violations.push(violation);
        }
    }

    pub(crate) fn judged(&mut self, judged: Judged) {
        self.judged = Some(judged);
    }

    /// Something that the user should know; the latest takes the place of those before.
    pub(crate) fn note(&mut self, note: String) {
        self.note = Some(note);
    }

    /// From then on this of the server is looked at.
    pub(crate) fn check(&mut self, what: String, up_to: Option<Duration>, began: Instant) {
        self.check = Some(Check { what, up_to, began, lasts: Duration::ZERO });
    }

    /// The run goes on to this stage. None goes back.
    pub(crate) fn stage(&mut self, stage: Stage) {
        if self.stage.is_none_or(|before| before as u8 <= stage as u8) {
            self.stage = Some(stage);
        }
    }

    fn is_empty(&self) -> bool {
        let Self { progress, glance, seconds, violations, judged, note, stage, check } = self;
        progress.is_none()
            && glance.is_none()
            && seconds.is_empty()
            && violations.is_empty()
            && judged.is_none()
            && note.is_none()
            && stage.is_none()
            && check.is_none()
    }
}

/// A violation in the list.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) line: String,
    pub(super) violation: Violation,
}

/// What the user looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The violation that is selected; without one the list follows the latest.
    pub(super) selected: Option<usize>,
    /// Whether it is shown in full.
    pub(super) is_unfolded: bool,
    /// How many lines of it are above the screen.
    pub(super) scrolled: usize,
    pub(super) shows_help: bool,
    /// How many lines the list had when it was drawn last, and how far it can be scrolled.
    pub(super) rows: usize,
    pub(super) most_scrolled: usize,
}

/// What is shown of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(super) about: About,
    pub(super) stage: Stage,
    pub(super) progress: Progress,
    /// How long the run still takes, in words.
    pub(super) left: String,
    /// When the last response came, and how many there were by then.
    answered: (Duration, u64),
    pub(super) glance: Glance,
    pub(super) history: VecDeque<PastSecond>,
    pub(super) violations: Vec<Listed>,
    pub(super) judged: Option<Judged>,
    pub(super) check: Option<Check>,
    pub(super) note: Option<String>,
    pub(super) view: View,
}

impl State {
    pub(crate) fn new(about: About) -> Self {
        Self { about, ..Self::default() }
    }

    /// Takes in what has happened. Returns whether that changes what is shown.
    pub(crate) fn take(&mut self, news: News) -> bool {
        if news.is_empty() {
            return false;
        }
        let News { progress, glance, seconds, violations, judged, note, stage, check } = news;
        if let Some((progress, left)) = progress {
            if progress.answered != self.answered.1 {
                self.answered = (progress.elapsed, progress.answered);
            }
            let begun = self.about.phases.get(self.progress.phases_begun..progress.phases_begun).unwrap_or_default();
            if let Some(action) = begun.iter().filter_map(|phase| phase.server).next_back() {
                self.note = Some(format!("{} before {} s", action.done(), progress.elapsed.as_secs() + 1));
            }
            (self.progress, self.left) = (progress, left);
            if self.stage == Stage::Connects && !self.progress.elapsed.is_zero() {
                self.stage = Stage::Load;
            }
        }
        if let Some(glance) = glance {
            self.glance = glance;
        }
        self.history.extend(seconds);
        let too_many = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..too_many);
        let room = VIOLATIONS_KEPT.saturating_sub(self.violations.len());
        let listed = |violation: Violation| Listed { line: violation_line(&violation), violation };
        self.violations.extend(violations.into_iter().take(room).map(listed));
        self.check = check.or(self.check.take());
        self.judged = judged.or(self.judged.take());
        self.note = note.or(self.note.take());
        self.stage = stage.filter(|stage| *stage as u8 > self.stage as u8).unwrap_or(self.stage);
        true
    }

    /// Lets the time go on for what of the server is looked at. Returns whether that changes what is shown.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let Some(check) = &mut self.check else { return false };
        let before = check.lasts.as_secs();
        check.lasts = now.saturating_duration_since(check.began);
        before != check.lasts.as_secs()
    }

    /// How many violations there were so far. The first thousand are listed.
    pub(super) fn violation_count(&self) -> u64 {
        self.progress.violations.max(self.violations.len() as u64)
    }

    /// For how many seconds nobody has had a response, if that is long and somebody waits for one.
    pub(super) fn silent_s(&self) -> Option<u64> {
        let silent = self.progress.elapsed.saturating_sub(self.answered.0);
        let is_long = self.stage == Stage::Load && silent >= SILENT && self.progress.waiting() > 0;
        is_long.then_some(silent.as_secs())
    }
}
