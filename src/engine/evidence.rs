//! What was going on around a violation: the last events of all contexts, and what came after it.

use std::{collections::VecDeque, time::Duration};

use super::run::VIOLATIONS_KEPT;
use crate::{
    event::{ContextId, Nanos},
    history::{Entry, What},
    oracle::{Explanation, Violation, explain},
    scenario::Scenario,
};

/// How long a violation waits for what its context is answered next.
const FOLLOW_UP: Duration = Duration::from_millis(300);
/// So many further answers tell what became of the state.
const FOLLOW_UP_ANSWERS: u32 = 2;
/// What happened in this time, and in three idle limits, may have to do with a violation.
const WINDOW: Duration = Duration::from_secs(10);
const IDLE_LIMITS: u32 = 3;
/// The most that is kept of it: at the highest rates there is less than the time says.
const ENTRIES: usize = 200_000;
const BYTES: usize = 32 << 20;
/// The most violations that are explained; by then everything is said.
const EXPLAINED: usize = 200;

/// Says what a violation may come from.
pub(super) type Explain = fn(&Violation, &[Entry]) -> Vec<Explanation>;

/// The last events of all contexts, and the violations that wait for more of them.
pub(super) struct Evidence {
    explain: Explain,
    window: VecDeque<Entry>,
    is_sorted: bool,
    bytes: usize,
    span: Nanos,
    /// By worker, then context, as far as anything happened there.
    in_flight: Vec<u32>,
    contexts_per_worker: u32,
    accused: VecDeque<Accused>,
    taken: usize,
}

struct Accused {
    violation: Violation,
    since: Duration,
    context: Option<ContextId>,
    answers: u32,
    /// Whether nothing is under way on its context.
    is_quiet: bool,
}

impl Evidence {
    pub(super) fn new(scenario: &Scenario, idle_limit: Option<Duration>) -> Self {
        let span = WINDOW.max(idle_limit.unwrap_or_default().saturating_mul(IDLE_LIMITS));
        Self {
            explain,
            window: VecDeque::new(),
            is_sorted: true,
            bytes: 0,
            span: u64::try_from(span.as_nanos()).unwrap_or(u64::MAX),
            in_flight: Vec::new(),
            contexts_per_worker: scenario.contexts.count(),
            accused: VecDeque::new(),
            taken: 0,
        }
    }

    /// Takes in what happened next on a context.
    pub(super) fn entry(&mut self, entry: Entry) {
        self.follow(&entry);
        self.is_sorted &= self.window.back().is_none_or(|last| last.at <= entry.at);
        self.bytes += entry.memory();
        let oldest = entry.at.saturating_sub(self.span);
        self.window.push_back(entry);
        while self.window.len() > ENTRIES
            || self.bytes > BYTES
            || self.window.front().is_some_and(|first| first.at < oldest)
        {
            let Some(entry) = self.window.pop_front() else { return };
            self.bytes -= entry.memory();
        }
    }

    /// Takes in a violation, at this time by the clock that [`Self::explained`] goes by.
    pub(super) fn accuse(&mut self, violation: Violation, now: Duration) {
        if self.taken >= VIOLATIONS_KEPT {
            return;
        }
        self.taken += 1;
        let place = violation.place.as_ref();
        let context = place.map(|place| ContextId { worker: place.worker, context: place.context });
        let is_quiet = context.is_none_or(|context| *self.in_flight_of(context) == 0);
        self.accused.push_back(Accused { violation, since: now, context, answers: 0, is_quiet });
    }

    /// The next violation of which all is known that will be waited for.
    pub(super) fn explained(&mut self, now: Duration, is_over: bool) -> Option<Violation> {
        let first = self.accused.front()?;
        let waited = now.saturating_sub(first.since) >= FOLLOW_UP;
        if !(is_over || waited || first.is_quiet || first.answers >= FOLLOW_UP_ANSWERS) {
            return None;
        }
        let Accused { mut violation, .. } = self.accused.pop_front()?;
        if self.taken - self.accused.len() <= EXPLAINED {
            let window = self.window.make_contiguous();
            if !self.is_sorted {
                // Each thread's events come in order, so this merges a few runs.
                window.sort_by_key(|entry| entry.at);
                self.is_sorted = true;
            }
            violation.explanations = (self.explain)(&violation, window);
        }
        Some(violation)
    }

    /// How long the next violation waits at most; none where there is none.
    pub(super) fn waits(&self, now: Duration) -> Option<Duration> {
        self.accused.front().map(|first| (first.since + FOLLOW_UP).saturating_sub(now))
    }

    fn follow(&mut self, entry: &Entry) {
        let in_flight = self.in_flight_of(entry.context);
        let is_answer = matches!(entry.what, What::Answered(..) | What::Received(_));
        *in_flight = match entry.what {
            What::Sent(_) => in_flight.saturating_add(1),
            What::Answered(..) | What::Received(_) | What::GaveUp => in_flight.saturating_sub(1),
            What::Cut(_) => 0,
            What::Opened(_) | What::HalfClosed | What::Closed | What::NotClosed => return,
        };
        let is_quiet = *in_flight == 0;
        for accused in self.accused.iter_mut().filter(|accused| accused.context == Some(entry.context)) {
            accused.answers += u32::from(is_answer);
            accused.is_quiet = is_quiet;
        }
    }

    fn in_flight_of(&mut self, ContextId { worker, context }: ContextId) -> &mut u32 {
        let index = worker as usize * self.contexts_per_worker as usize + context as usize;
        if index >= self.in_flight.len() {
            self.in_flight.resize(index + 1, 0);
        }
        &mut self.in_flight[index]
    }
}

#[cfg(test)]
mod tests;
