//! What is certain of the slots, in the order of time.

use std::collections::BTreeSet;

use super::{
    Move,
    full::Full,
    seats::Seats,
    turns::Turns,
    wait::{Held, Holds, Waited},
    withheld::Withheld,
};
use workload::{
    claim::{Claim, Claims},
    event::Nanos,
};

/// What is certain of the slots, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Board {
    slots: usize,
    /// Sequences that certainly have a slot, by until when.
    certain: BTreeSet<(Nanos, u32)>,
    /// By worker and context: until when the sequence certainly has its slot, where it may still have it.
    until: Vec<Option<Nanos>>,
    /// By worker and context: where its START was sent when every slot was certainly taken, how many had left before, and when.
    waits: Vec<Option<(u64, Nanos)>>,
    pub(super) seats: Seats,
    pub(super) full: Full,
    holds: Holds,
    pub(super) withheld: Withheld,
    pub(super) turns: Turns,
    pub(super) longest: Option<Waited>,
    /// How often a sequence that had a slot may have been ended by the client.
    left: u64,
    pub(super) claims: Claims,
}

impl Board {
    /// Of so many slots and contexts.
    pub(super) fn new(slots: usize, contexts: usize, withheld: Withheld, turns: Turns) -> Self {
        Self { slots, until: vec![None; contexts], waits: vec![None; contexts], withheld, turns, ..Self::default() }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// How many sequences certainly have a slot.
    pub(super) fn taken(&self) -> usize {
        self.certain.len()
    }

    /// The sequences that certainly have a slot, those first that lose it first if they do nothing: what is known of each, and until when
    /// it is certain.
    pub(super) fn seated(&self) -> impl Iterator<Item = (&Held, Nanos)> {
        self.certain.iter().filter_map(|(until, context)| Some((self.holds.of(*context)?, *until)))
    }

    pub(super) fn make(&mut self, its: Move, context: u32, at: Nanos) {
        let slots = self.slots;
        // It is seen only now that they were not all taken any more, and may have been so for long.
        if let Some(ended_at) = self.lapses_at(at) {
            self.full.is(false, ended_at);
        }
        self.lapse(at);
        let were_certain = self.certain.len();
        let index = context as usize;
        match its {
            Move::Asks { ends, limit } => {
                // A sequence that is started anew keeps its slot, if it still has one.
                if let Some(until) = self.until[index] {
                    self.certain.remove(&(until, context));
                }
                self.seats.leaves(context);
                self.holds.end(context, at);
                if ends {
                    self.leave(context);
                }
                self.waits[index] = (self.certain.len() >= slots).then_some((self.left, at));
                self.full.asks(context, limit);
            }
            Move::MayWaitUntil(deadline) => self.full.may_wait_until(context, deadline),
            Move::Forgoes => self.full.asks(context, None),
            Move::Shares(its) => self.withheld.take(its, context, at),
            Move::Turns(its) => self.turns.take(its, context, self.certain.len(), at, &mut self.claims),
            Move::Visits(visit) => self.seats.visited(context, visit, at),
            Move::Starts(until, slot, pattern) => {
                self.full.starts(context, at);
                if let Some((left_before, since)) = self.waits[index].take() {
                    if self.certain.len() < slots {
                        self.claims.reach(Claim::Backlog);
                        if left_before == self.left {
                            self.claims.reach(Claim::SlotReclaim);
                        }
                    }
                    if self.longest.as_ref().is_none_or(|longest| longest.until - longest.since < at - since) {
                        self.longest = Some(self.holds.waited(context, since, at));
                    }
                }
                if let Some(until) = until {
                    self.stay(context, until);
                    self.holds.begin(context, (slot.map(|(slot, _)| slot), pattern), at);
                    if let Some(slot) = slot {
                        self.seats.takes(context, slot, at, until);
                    }
                }
            }
            Move::Stays(until) => {
                self.seats.stays(context, until);
                self.holds.goes_on(context);
                self.stay(context, until);
            }
            Move::Disturbed => {
                self.forget();
                self.full.give_up();
                self.turns.give_up();
            }
            Move::Leaves => {
                self.seats.leaves(context);
                self.holds.end(context, at);
                self.leave(context);
            }
        }
        self.lapse(at);
        if were_certain < slots && self.certain.len() >= slots {
            self.claims.reach(Claim::AllSlotsBusy);
        }
        self.full.is(self.certain.len() >= slots, at);
        self.turns.look(self.certain.len(), at);
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
            if let Some((until, context)) = self.certain.pop_first() {
                self.holds.end(context, until);
            }
        }
    }

    /// When fewer than all slots were certainly taken, if that is so by now because sequences may have been idle for too long.
    fn lapses_at(&self, now: Nanos) -> Option<Nanos> {
        let index = self.certain.len().checked_sub(self.slots)?;
        self.certain.iter().nth(index).map(|(until, _)| *until).filter(|until| *until <= now)
    }

    pub(super) fn forget(&mut self) {
        self.full.forget();
        self.turns.forget();
        self.certain.clear();
        self.until.fill(None);
        self.waits.fill(None);
        self.seats.forget();
        self.holds.forget();
    }
}
