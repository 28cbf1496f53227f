//! The Direct strategy: a slot is a row of the batch from START to END.

use std::collections::VecDeque;

use super::{
    Batch, Event, Item, Lane, Moment, Row, Settings, Strategy, cancel_lane,
    seats::{Seat, Seats},
};
use crate::reference::fault::Fault;

#[derive(Debug)]
pub(super) struct Direct<T> {
    lanes: Vec<Lane<T>>,
    is_executing: bool,
    /// When a batch that waits for more slots may go.
    batch_due: Option<Moment>,
    hangs: bool,
}

impl<T> Direct<T> {
    pub(super) fn new(slots: u32) -> Self {
        let lanes = (0..slots).map(|_| VecDeque::new()).collect();
        Self { lanes, is_executing: false, batch_due: None, hangs: false }
    }

    pub(super) fn lane(&mut self, slot: u32) -> &mut Lane<T> {
        let slot = slot as usize;
        if slot >= self.lanes.len() {
            self.lanes.resize_with(slot + 1, VecDeque::new);
        }
        &mut self.lanes[slot]
    }

    pub(super) fn queued(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    pub(super) fn finished(&mut self) {
        self.is_executing = false;
    }

    pub(super) fn wake(&self) -> Option<Moment> {
        self.batch_due
    }

    pub(super) fn advance(
        &mut self,
        instance: u32,
        settings: &Settings,
        seats: &mut Seats<T>,
        now: Moment,
        out: &mut Vec<Event<T>>,
    ) {
        if !self.hangs && !self.is_executing {
            self.clear_released(instance, seats, out);
            let ready = self.ready(settings);
            self.batch_due = self.waits_until(&ready, settings).filter(|due| *due > now);
            let Some(highest) = ready.iter().rposition(|ready| *ready).filter(|_| self.batch_due.is_none()) else {
                return;
            };
            if seats.faults().happens(Fault::HangInstance) {
                self.hangs = true;
                return;
            }
            let batch = self.batch(instance, &ready[..=highest], seats);
            self.is_executing = true;
            out.push(Event::Execute { instance, batch });
        }
    }

    /// Gives the slots away whose sequence was reaped or cancelled.
    fn clear_released(&mut self, instance: u32, seats: &mut Seats<T>, out: &mut Vec<Event<T>>) {
        for (slot, lane) in (0..).zip(&mut self.lanes) {
            let seat = Seat { slot, instance };
            loop {
                if let Some(id) = cancel_lane(lane, out) {
                    seats.release_at_cancel(seat, lane, &id);
                } else if matches!(lane.front(), Some(Item::Release)) {
                    lane.pop_front();
                    seats.release_at_idle(seat, lane);
                } else {
                    break;
                }
            }
        }
    }

    /// Which slots have a request that can be executed with that of the first one.
    fn ready(&self, settings: &Settings) -> Vec<bool> {
        let mut shape = None;
        let mut fits = |lane: &Lane<T>| match lane.front() {
            Some(Item::Step(first)) => {
                settings.ragged || shape.get_or_insert_with(|| first.request.shape.clone()) == &first.request.shape
            }
            _ => false,
        };
        self.lanes.iter().map(&mut fits).collect()
    }

    /// Until when a batch waits because too few slots are ready.
    fn waits_until(&self, ready: &[bool], settings: &Settings) -> Option<Moment> {
        let Strategy::Direct { minimum_slot_utilization, queue_delay } = settings.strategy else { return None };
        let count = ready.iter().filter(|ready| **ready).count();
        #[expect(clippy::cast_precision_loss, reason = "slots are few")]
        let utilization = count as f64 / f64::from(settings.slots());
        if count == 0 || utilization >= minimum_slot_utilization {
            return None;
        }
        let oldest = self.lanes.iter().zip(ready).filter_map(|(lane, ready)| match lane.front() {
            Some(Item::Step(first)) if *ready => Some(first.arrived),
            _ => None,
        });
        oldest.min().map(|arrived| arrived + queue_delay)
    }

    /// Takes a batch of these slots' first requests; what is not ready among them is padding.
    fn batch(&mut self, instance: u32, ready: &[bool], seats: &mut Seats<T>) -> Batch<T> {
        let mut rows = Vec::with_capacity(ready.len());
        for ((slot, lane), ready) in (0..).zip(&mut self.lanes).zip(ready) {
            let first = if *ready { lane.pop_front() } else { None };
            let Some(Item::Step(first)) = first else {
                rows.push(Row { slot, request: None, arrived: Moment::ZERO });
                continue;
            };
            if first.request.end {
                seats.release_at_end(Seat { slot, instance }, lane);
            }
            rows.push(Row { slot, request: Some(first.request), arrived: first.arrived });
        }
        Batch { rows }
    }
}
