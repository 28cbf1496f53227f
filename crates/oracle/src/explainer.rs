//! What was going on around a violation: the last events of all contexts, and what came after it.

use std::{collections::VecDeque, time::Duration};

use crate::{
    Violation,
    diagnosis::{Explanation, ModelFacts, explain},
    history::{Begun, Entry, Scene},
    nanos,
};
use workload::{
    event::{EventKind, Nanos},
    sequence::RequestId,
};

/// How many violations are kept with their evidence; all are counted.
pub const VIOLATIONS_KEPT: usize = 1000;
/// How long a violation waits for what is answered next, on its context and others: that tells what became of the states.
const FOLLOW_UP: Duration = Duration::from_millis(300);
/// What happened in this time, and in three idle limits, may have to do with a violation.
const WINDOW: Duration = Duration::from_secs(10);
const IDLE_LIMITS: u32 = 3;
/// The most that is kept of it: at the highest rates there is less than the time says.
const ENTRIES: usize = 200_000;
const BYTES: usize = 32 << 20;
/// The most violations that are explained; by then everything is said.
const EXPLAINED: usize = 200;
/// Of so many sequences it is known when they began although nothing else is kept of them: more messages are in no failure file.
const BEGUN: usize = 10_000;

type Explain = fn(&Violation, &[Entry], &ModelFacts) -> Vec<Explanation>;

/// The last events of all contexts, and the violations that wait for more of them.
///
/// Where nothing is wrong events come and go by the batch, and none of them is looked at.
pub struct Explainer {
    explain: Explain,
    known: ModelFacts,
    /// What came before the last look, in order of time.
    sorted: VecDeque<Entry>,
    /// What came after it, as it came.
    fresh: VecDeque<Vec<Entry>>,
    entries: usize,
    bytes: usize,
    span: Nanos,
    /// From when until when some of what happened is missing, as far as what is kept goes back.
    gaps: VecDeque<(Nanos, Nanos)>,
    /// Violations that wait, and since when.
    accused: VecDeque<(Violation, Duration)>,
    taken: usize,
    begun: VecDeque<Begun>,
    /// Around the first violation, once it is explained.
    scene: Option<Scene>,
}

impl Explainer {
    /// Of a server of which so much is known; answers are waited for so long.
    pub fn new(known: ModelFacts, patience: Duration) -> Self {
        // A lost answer's request was sent that long before.
        let span =
            patience.saturating_add(WINDOW).max(known.idle_limit.unwrap_or_default().saturating_mul(IDLE_LIMITS));
        Self {
            explain,
            known,
            sorted: VecDeque::new(),
            fresh: VecDeque::new(),
            entries: 0,
            bytes: 0,
            span: nanos(span),
            gaps: VecDeque::new(),
            accused: VecDeque::new(),
            taken: 0,
            begun: VecDeque::new(),
            scene: None,
        }
    }

    /// Takes in what happened next, on whatever contexts; `bytes` is what it takes of the memory.
    pub fn take(&mut self, entries: Vec<Entry>, bytes: usize) {
        let Some(latest) = entries.last().map(|last| last.at) else { return };
        let tells_server = |entry: &Entry| matches!(entry.what, EventKind::ServedBy(Some(_)));
        if self.known.untold_servers.is_some() && entries.iter().any(tells_server) {
            self.known.untold_servers = None;
        }
        self.entries += entries.len();
        self.bytes += bytes;
        self.fresh.push_back(entries);
        self.forget(latest.saturating_sub(self.span));
    }

    /// Whether steps may have gone to several servers, and nothing told so far which of them answered one.
    pub fn misses_server(&self) -> bool {
        self.known.untold_servers.is_some()
    }

    /// Takes in that some of what happened in this time is not known.
    pub fn gap(&mut self, since: Nanos, until: Nanos) {
        // Those of several threads come together where the collector does not keep up.
        match self.gaps.back_mut().filter(|last| since <= last.1) {
            Some(last) => *last = (last.0.min(since), last.1.max(until)),
            None => self.gaps.push_back((since, until)),
        }
    }

    /// Takes in a violation, at this time by the clock that [`Self::explained`] goes by.
    pub fn accuse(&mut self, violation: Violation, now: Duration) {
        if self.taken >= VIOLATIONS_KEPT {
            return;
        }
        self.taken += 1;
        self.accused.push_back((violation, now));
    }

    /// The next violation of which all is known that will be waited for.
    pub fn explained(&mut self, now: Duration, is_over: bool) -> Option<Violation> {
        let (_, since) = self.accused.front()?;
        if !is_over && now.saturating_sub(*since) < FOLLOW_UP {
            return None;
        }
        let (mut violation, _) = self.accused.pop_front()?;
        if self.taken - self.accused.len() <= EXPLAINED {
            violation.explanations = self.causes(&violation);
        }
        if self.scene.is_none() {
            self.sort();
            let entries = self.sorted.iter().cloned().collect();
            self.scene = Some(Scene { entries, before: self.begun.iter().copied().collect() });
        }
        Some(violation)
    }

    /// What was sent of the sequence that a violation concerns, and what was received, in order of time and as far as it is kept. Nothing where
    /// no request is concerned.
    pub fn sequence_of(&mut self, violation: &Violation) -> Vec<Entry> {
        let Some(request) = violation.request().filter(|_| violation.aside().is_none()) else { return Vec::new() };
        self.sort();
        let is_its = |id: RequestId| RequestId { step: request.step, ..id } == request;
        let concerns = |entry: &&Entry| match &entry.what {
            EventKind::Sent(step) => is_its(step.request),
            EventKind::Answered(id, ..) => is_its(*id),
            EventKind::Received(received) => received.request().is_some_and(is_its),
            _ => false,
        };
        self.sorted.iter().filter(concerns).cloned().collect()
    }

    /// What happened around the first violation; without one, at the end.
    pub fn into_scene(mut self) -> Scene {
        self.sort();
        self.scene.unwrap_or_else(|| Scene { entries: self.sorted.into(), before: self.begun.into() })
    }

    /// How long the next violation waits at most; none where there is none.
    pub fn waits(&self, now: Duration) -> Option<Duration> {
        self.accused.front().map(|(_, since)| (*since + FOLLOW_UP).saturating_sub(now))
    }

    fn causes(&mut self, violation: &Violation) -> Vec<Explanation> {
        self.sort();
        // What is missing would look as if it had not been sent, or not answered.
        let (before, after): (Vec<_>, Vec<_>) = self.gaps.iter().partition(|(since, _)| *since <= violation.at_ns);
        let since = before.iter().map(|(_, until)| until.saturating_add(1)).max().unwrap_or(0);
        let next = after.iter().map(|(since, _)| since.saturating_sub(1)).min().unwrap_or(Nanos::MAX);
        let until = violation.at_ns.saturating_add(nanos(FOLLOW_UP)).min(next);
        let window = self.sorted.make_contiguous();
        let place = |at| window.partition_point(|entry| entry.at < at);
        (self.explain)(violation, &window[place(since)..place(until.saturating_add(1)).max(place(since))], &self.known)
    }

    fn sort(&mut self) {
        if !self.fresh.is_empty() {
            self.sorted.extend(self.fresh.drain(..).flatten());
            // Each thread's events come in order, so this merges a few runs.
            self.sorted.make_contiguous().sort_by_key(|entry| entry.at);
        }
    }

    fn forget(&mut self, before: Nanos) {
        while self.gaps.front().is_some_and(|(_, until)| *until < before) {
            self.gaps.pop_front();
        }
        let is_too_much = |entries, bytes| entries > ENTRIES || bytes > BYTES;
        while let Some(first) = self.sorted.front() {
            if first.at >= before && !is_too_much(self.entries, self.bytes) {
                break;
            }
            self.entries -= 1;
            self.bytes = self.bytes.saturating_sub(first.memory());
            self.begun.extend(Begun::of(first));
            self.sorted.pop_front();
        }
        while let Some(first) = self.fresh.front() {
            let is_old = first.last().is_none_or(|last| last.at < before);
            let is_last = self.fresh.len() == 1 || !self.sorted.is_empty();
            if is_last || !(is_old || is_too_much(self.entries, self.bytes)) {
                break;
            }
            self.entries -= first.len();
            self.bytes = self.bytes.saturating_sub(first.iter().map(Entry::memory).sum());
            self.begun.extend(first.iter().filter_map(Begun::of));
            self.fresh.pop_front();
        }
        self.begun.drain(..self.begun.len().saturating_sub(BEGUN));
    }
}

/// A violation that concerns the whole run, with what it may come from.
pub fn explained_alone(violation: Violation, known: &ModelFacts) -> Violation {
    let explanations = explain(&violation, &[], known);
    Violation { explanations, ..violation }
}

#[cfg(test)]
mod tests;
