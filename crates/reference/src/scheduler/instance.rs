//! One instance: its slots, and whether it can execute a batch now.

use super::{Batch, Drained, Event, Lane, Moment, Settings, Strategy, direct::Direct, oldest::Oldest, seats::Seats};
use crate::fault::Fault;

#[derive(Debug)]
pub(super) struct Instance<T> {
    number: u32,
    slots: Slots<T>,
    is_executing: bool,
    /// When a batch that waits for more requests may go.
    pub(super) batch_due: Option<Moment>,
    /// A fault made it execute nothing any more.
    hangs: bool,
}

/// How its slots become batches.
#[derive(Debug)]
enum Slots<T> {
    Direct(Direct<T>),
    Oldest(Oldest<T>),
}

impl<T> Instance<T> {
    pub(super) fn new(number: u32, strategy: &Strategy) -> Self {
        let slots = match strategy {
            Strategy::Direct { .. } => Slots::Direct(Direct::new()),
            Strategy::Oldest { .. } => Slots::Oldest(Oldest::new()),
        };
        Self { number, slots, is_executing: false, batch_due: None, hangs: false }
    }

    /// What is queued in a slot, to be changed.
    pub(super) fn lane(&mut self, slot: u32) -> &mut Lane<T> {
        match &mut self.slots {
            Slots::Direct(direct) => direct.lane(slot),
            Slots::Oldest(oldest) => oldest.lane(slot),
        }
    }

    pub(super) fn is_executing(&self) -> bool {
        self.is_executing
    }

    /// Takes away what is queued.
    pub(super) fn drain(&mut self) -> Drained<T> {
        match &mut self.slots {
            Slots::Direct(direct) => direct.drain(),
            Slots::Oldest(oldest) => oldest.drain(),
        }
    }

    /// What waits to be executed.
    pub(super) fn queued(&self) -> usize {
        match &self.slots {
            Slots::Direct(direct) => direct.queued(),
            Slots::Oldest(oldest) => oldest.queued(),
        }
    }

    /// What holding executions back counts: with Oldest, only what could be in a batch.
    pub(super) fn ready(&self) -> usize {
        match &self.slots {
            Slots::Direct(direct) => direct.queued(),
            Slots::Oldest(oldest) => oldest.pending(),
        }
    }

    /// With Oldest, lets the next request of each sequence wait for a batch where none of its own is in flight.
    pub(super) fn move_on(&mut self, seats: &mut Seats<T>, out: &mut Vec<Event<T>>) {
        if let Slots::Oldest(oldest) = &mut self.slots {
            oldest.move_on(self.number, seats, out);
        }
    }

    /// Hands a batch out when one may go and none is executed.
    pub(super) fn advance(&mut self, settings: &Settings, seats: &mut Seats<T>, now: Moment, out: &mut Vec<Event<T>>) {
        if self.hangs || self.is_executing {
            return;
        }
        let due = match &mut self.slots {
            Slots::Direct(direct) => {
                direct.clear_released(self.number, seats, out);
                direct.due(settings)
            }
            Slots::Oldest(oldest) => oldest.due(settings),
        };
        self.batch_due = due.filter(|due| *due > now);
        if due.is_none() || self.batch_due.is_some() {
            return;
        }
        if seats.faults.happens(Fault::HangInstance) {
            self.hangs = true;
            return;
        }
        let batch: Batch<T> = match &mut self.slots {
            Slots::Direct(direct) => direct.take(self.number, settings, seats),
            Slots::Oldest(oldest) => oldest.take(settings),
        };
        self.is_executing = true;
        out.push(Event::Execute { instance: self.number, batch });
    }

    pub(super) fn finished(&mut self) {
        self.is_executing = false;
        if let Slots::Oldest(oldest) = &mut self.slots {
            oldest.finished();
        }
    }
}
