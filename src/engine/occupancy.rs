//! Counts what was exercised on all correlation IDs together: how the slots were taken, as far as that is certain.
//!
//! A sequence certainly has a slot from the answer to its START until its END is sent, or until its idle limit may have passed
//! since a step was sent that was answered. One that was never ended keeps it unless the server ends it itself.

mod merge;

use std::{collections::BTreeSet, time::Duration};

use self::merge::Merge;
use crate::{
    claim::{Claim, Claims},
    event::Nanos,
    history::{Entry, What},
    scenario::Scenario,
    sequence::RequestId,
};

/// How the slots of a run are taken.
pub(super) struct Occupancy {
    /// None where it is not known how many slots there are, so that nothing is counted.
    slots: Option<usize>,
    idle_limit: Option<Nanos>,
    contexts_per_worker: u32,
    /// By worker, then context.
    contexts: Vec<Context>,
    moves: Merge<Move>,
    board: Board,
}

/// What one correlation ID does, in its own order.
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    /// The START that is unanswered, and when it was sent.
    start: Option<(RequestId, Nanos)>,
    /// Whether the sequence that was started last may have been ended.
    may_be_ended: bool,
    /// Whether it was told that the ID has a slot, and not yet that it may be without.
    has_slot: bool,
    unanswered: u32,
    /// When the first step was sent of those that went out since nothing was under way.
    since: Nanos,
    /// Until when its idle limit is certainly not reached.
    until: Nanos,
}

/// What a correlation ID does to the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Move {
    /// A START is sent, with or without END.
    Asks { ends: bool },
    /// It is answered. There is a time where the sequence certainly keeps its slot: until then.
    Starts(Option<Nanos>),
    /// A further step was answered, so it certainly keeps it until then.
    Stays(Nanos),
    /// It may be without a slot.
    Leaves,
}

/// What is certain of the slots, in the order of time.
#[derive(Debug, Default)]
struct Board {
    /// Sequences that certainly have a slot, by until when.
    certain: BTreeSet<(Nanos, u32)>,
    /// By worker and context: until when the sequence certainly has its slot, where it may still have it.
    until: Vec<Option<Nanos>>,
    /// By worker and context: where its START was sent when every slot was certainly taken, how many had left before.
    waits: Vec<Option<u64>>,
    /// How often a sequence that had a slot may have been ended by the client.
    left: u64,
    claims: Claims,
}

impl Occupancy {
    pub(super) fn new(scenario: &Scenario, slots: Option<u32>, idle_limit: Option<Duration>) -> Self {
        let contexts_per_worker = scenario.contexts.count();
        let contexts = slots.map_or(0, |_| scenario.load.workers.get() as usize * contexts_per_worker as usize);
        Self {
            slots: slots.map(|slots| slots as usize),
            idle_limit: idle_limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
            contexts_per_worker,
            contexts: vec![Context::default(); contexts],
            moves: Merge::default(),
            board: Board { until: vec![None; contexts], waits: vec![None; contexts], ..Board::default() },
        }
    }

    /// Takes in what happened next on a context; those of several threads may be a little out of order.
    pub(super) fn take(&mut self, entry: &Entry) {
        let Some(slots) = self.slots else { return };
        let index = entry.context.worker * self.contexts_per_worker + entry.context.context;
        let Some(context) = self.contexts.get_mut(index as usize) else { return };
        if let Some(its) = context.take(entry, self.idle_limit) {
            self.moves.add(entry.at, index, its);
            while let Some((at, index, its)) = self.moves.next(false) {
                self.board.make(its, index, at, slots);
            }
        }
    }

    /// Entries are missing, so that nothing is certain any more.
    pub(super) fn forget(&mut self) {
        self.make_all();
        self.contexts.fill(Context::default());
        self.board.forget();
    }

    /// How often what was reached.
    pub(super) fn reached(mut self) -> Claims {
        self.make_all();
        self.board.claims
    }

    fn make_all(&mut self) {
        let Some(slots) = self.slots else { return };
        while let Some((at, index, its)) = self.moves.next(true) {
            self.board.make(its, index, at, slots);
        }
    }
}

impl Context {
    fn take(&mut self, entry: &Entry, idle_limit: Option<Nanos>) -> Option<Move> {
        match &entry.what {
            What::Sent(step) => {
                if self.unanswered == 0 {
                    self.since = entry.at;
                }
                self.unanswered += 1;
                if step.start {
                    self.start = Some((step.request, entry.at));
                    self.may_be_ended = step.end;
                    self.has_slot &= !step.end;
                    return Some(Move::Asks { ends: step.end });
                }
                self.may_be_ended |= step.end;
                step.end.then(|| self.leave()).flatten()
            }
            What::Answered(request, _) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                if let Some((_, sent_at)) = self.start.take_if(|(start, _)| start == request) {
                    self.until = sent_at.saturating_add(idle_limit.unwrap_or(0));
                    self.has_slot = !self.may_be_ended;
                    return Some(Move::Starts(self.has_slot.then_some(self.until)));
                }
                let until = self.since.saturating_add(idle_limit.unwrap_or(0));
                if !self.has_slot || self.start.is_some() || until <= self.until {
                    return None;
                }
                self.until = until;
                Some(Move::Stays(until))
            }
            // What else comes, and what does not, may mean that the sequence is gone.
            What::Received(_) | What::GaveUp => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.lose()
            }
            What::Cut(_) => {
                self.unanswered = 0;
                self.lose()
            }
            What::Opened(_) | What::HalfClosed | What::Closed | What::NotClosed => None,
        }
    }

    /// Nothing is certain of the sequence any more, nor of one whose START is under way.
    fn lose(&mut self) -> Option<Move> {
        self.may_be_ended = true;
        self.leave()
    }

    fn leave(&mut self) -> Option<Move> {
        std::mem::take(&mut self.has_slot).then_some(Move::Leaves)
    }
}

impl Board {
    fn make(&mut self, its: Move, context: u32, at: Nanos, slots: usize) {
        self.lapse(at);
        let were_certain = self.certain.len();
        let index = context as usize;
        match its {
            Move::Asks { ends } => {
                // A sequence that is started anew keeps its slot, if it still has one.
                if let Some(until) = self.until[index] {
                    self.certain.remove(&(until, context));
                }
                if ends {
                    self.leave(context);
                }
                self.waits[index] = (self.certain.len() >= slots).then_some(self.left);
            }
            Move::Starts(until) => {
                if let Some(left_before) = self.waits[index].take().filter(|_| self.certain.len() < slots) {
                    self.claims.reach(Claim::Backlog);
                    if left_before == self.left {
                        self.claims.reach(Claim::SlotReclaim);
                    }
                }
                if let Some(until) = until {
                    self.stay(context, until);
                }
            }
            Move::Stays(until) => self.stay(context, until),
            Move::Leaves => self.leave(context),
        }
        self.lapse(at);
        if were_certain < slots && self.certain.len() >= slots {
            self.claims.reach(Claim::AllSlotsBusy);
        }
    }

    fn stay(&mut self, context: u32, until: Nanos) {
        if let Some(before) = self.until[context as usize].replace(until) {
            self.certain.remove(&(before, context));
        }
        self.certain.insert((until, context));
    }

    fn leave(&mut self, context: u32) {
        if let Some(until) = self.until[context as usize].take() {
            self.certain.remove(&(until, context));
            self.left += 1;
        }
    }

    /// What may have been idle for too long by now is not certain any more.
    fn lapse(&mut self, now: Nanos) {
        while self.certain.first().is_some_and(|(until, _)| *until <= now) {
            self.certain.pop_first();
        }
    }

    fn forget(&mut self) {
        self.certain.clear();
        self.until.fill(None);
        self.waits.fill(None);
    }
}

#[cfg(test)]
mod tests;
