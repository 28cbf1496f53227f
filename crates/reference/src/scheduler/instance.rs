//! One instance: its slots, and whether it can execute a batch now.

use super::{Batch, Event, Lane, Moment, Settings, Strategy, direct::Direct, oldest::Oldest, seats::Seats};
use crate::fault::Fault;

#[derive(Debug)]
pub(super) struct Instance<T> {
    slots: Slots<T>,
    is_executing: bool,
    /// When a batch that waits for more requests may go.
    batch_due: Option<Moment>,
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
    pub(super) fn new(settings: &Settings) -> Self {
        let slots = match &settings.strategy {
            Strategy::Direct { .. } => Slots::Direct(Direct::new(settings.slots())),
            Strategy::Oldest { .. } => Slots::Oldest(Oldest::new(settings.slots())),
        };
        Self { slots, is_executing: false, batch_due: None, hangs: false }
    }

    /// Changes what is queued in a slot.
    pub(super) fn change(&mut self, slot: u32, change: impl FnOnce(&mut Lane<T>)) {
        match &mut self.slots {
            Slots::Direct(direct) => change(direct.lane(slot)),
            Slots::Oldest(oldest) => {
                change(oldest.lane(slot));
                oldest.touch(slot);
            }
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
    pub(super) fn move_on(&mut self, instance: u32, seats: &mut Seats<T>, out: &mut Vec<Event<T>>) {
        if let Slots::Oldest(oldest) = &mut self.slots {
            oldest.move_on(instance, seats, out);
        }
    }

    /// Hands a batch out when one may go and none is executed.
    pub(super) fn advance(
        &mut self,
        instance: u32,
        settings: &Settings,
        seats: &mut Seats<T>,
        now: Moment,
        out: &mut Vec<Event<T>>,
    ) {
        if self.hangs || self.is_executing {
            return;
        }
        let due = match &mut self.slots {
            Slots::Direct(direct) => direct.due(instance, settings, seats, out),
            Slots::Oldest(oldest) => oldest.due(settings),
        };
        self.batch_due = due.filter(|due| *due > now);
        if due.is_none() || self.batch_due.is_some() {
            return;
        }
        if seats.faults().happens(Fault::HangInstance) {
            self.hangs = true;
            return;
        }
        let batch: Batch<T> = match &mut self.slots {
            Slots::Direct(direct) => direct.take(instance, settings, seats),
            Slots::Oldest(oldest) => oldest.take(settings),
        };
        self.is_executing = true;
        out.push(Event::Execute { instance, batch });
    }

    /// The batch is executed.
    pub(super) fn finished(&mut self) {
        self.is_executing = false;
        if let Slots::Oldest(oldest) = &mut self.slots {
            oldest.finished();
        }
    }

    /// When a batch may go that waits.
    pub(super) fn wake(&self) -> Option<Moment> {
        self.batch_due
    }
}
