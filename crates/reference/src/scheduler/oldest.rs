//! The Oldest strategy: each sequence has at most one request in its instance's queue, and batches are taken from that
//! queue, oldest first.

use std::collections::VecDeque;

use super::{
    Batch, Drained, Event, Item, Lane, Moment, Request, Row, Settings, Strategy, cancel_lane, drain,
    seats::{Seat, Seats},
};

#[derive(Debug)]
pub(super) struct Oldest<T> {
    /// As many as were used so far.
    slots: Vec<Slot<T>>,
    /// What can be executed, with its slot.
    pending: VecDeque<(u32, Request<T>)>,
    /// The slots whose requests are executed.
    executing: Vec<u32>,
    /// Slots of which the next request may be able to go.
    touched: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    lane: Lane<T>,
    /// One of its requests is pending or executed; the next one waits for it, even if it is of the slot's next sequence.
    in_flight: bool,
}

impl<T> Oldest<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), pending: VecDeque::new(), executing: Vec::new(), touched: Vec::new() }
    }

    fn slot(&mut self, slot: u32) -> &mut Slot<T> {
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || Slot { lane: VecDeque::new(), in_flight: false });
        }
        &mut self.slots[slot]
    }

    /// A slot's queue, to be changed.
    pub(super) fn lane(&mut self, slot: u32) -> &mut Lane<T> {
        self.touched.push(slot);
        &mut self.slot(slot).lane
    }

    /// Takes away what is queued; what is executed stays in flight.
    pub(super) fn drain(&mut self) -> Drained<T> {
        let (mut queued, slots) = drain(self.slots.iter_mut().map(|slot| &mut slot.lane));
        for (slot, step) in self.pending.drain(..) {
            self.slots[slot as usize].in_flight = false;
            queued.push(step);
        }
        (queued, slots)
    }

    pub(super) fn queued(&self) -> usize {
        self.pending.len() + self.slots.iter().map(|slot| slot.lane.len()).sum::<usize>()
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The batch is executed: the requests in it are not in flight any more.
    pub(super) fn finished(&mut self) {
        for slot in std::mem::take(&mut self.executing) {
            self.slot(slot).in_flight = false;
            self.touched.push(slot);
        }
    }

    /// When the next batch may go; none where nothing is pending.
    pub(super) fn due(&self, settings: &Settings) -> Option<Moment> {
        let (size, due) = self.batch_size(settings);
        (size > 0).then_some(due)
    }

    /// Takes a batch of what has been pending for longest.
    pub(super) fn take(&mut self, settings: &Settings) -> Batch<T> {
        let (size, _) = self.batch_size(settings);
        let batch: Batch<T> =
            self.pending.drain(..size).map(|(slot, step)| Row { slot, request: Some(step) }).collect();
        self.executing = batch.iter().map(|row| row.slot).collect();
        batch
    }

    /// Makes the next request of each touched slot pending, where none is in flight.
    pub(super) fn move_on(&mut self, instance: u32, seats: &mut Seats<T>, out: &mut Vec<Event<T>>) {
        for number in std::mem::take(&mut self.touched) {
            let seat = Seat { slot: number, instance };
            let slot = &mut self.slots[number as usize];
            while !slot.in_flight {
                if let Some(id) = cancel_lane(&mut slot.lane, out) {
                    seats.release_at_cancel(seat, &mut slot.lane, &id);
                    continue;
                }
                match slot.lane.pop_front() {
                    None => break,
                    Some(Item::Release) => seats.release_at_idle(seat, &mut slot.lane),
                    Some(Item::Step(step)) => {
                        slot.in_flight = true;
                        if step.ends() {
                            seats.release_at_end(seat, &mut slot.lane);
                        }
                        self.pending.push_back((number, step));
                    }
                }
            }
        }
    }

    /// How many pending requests make the next batch, and when it may go.
    fn batch_size(&self, settings: &Settings) -> (usize, Moment) {
        let Strategy::Oldest { preferred, queue_delay, .. } = &settings.strategy else { return (0, Moment::ZERO) };
        let Some((_, first)) = self.pending.front() else { return (0, Moment::ZERO) };
        let alike = |(_, step): &&(u32, Request<T>)| settings.ragged || step.shape == first.shape;
        let alike = self.pending.iter().take_while(alike).count();
        let most = preferred.iter().copied().max().unwrap_or(settings.batch) as usize;
        if alike >= most || alike < self.pending.len() {
            return (alike.min(most), Moment::ZERO);
        }
        let preferred = preferred.iter().map(|size| *size as usize).filter(|size| *size <= alike).max();
        preferred.map_or((alike, first.arrived + *queue_delay), |size| (size, Moment::ZERO))
    }
}
