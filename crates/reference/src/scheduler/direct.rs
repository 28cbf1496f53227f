//! The Direct strategy: a slot is a row of the batch from START to END.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Batch, Drained, Event, Item, Lane, Moment, Request, Row, Settings, Strategy, cancel_lane, drain,
    seats::{Seat, Seats},
};

#[derive(Debug)]
pub(super) struct Direct<T> {
    /// Of as many slots as were used so far.
    lanes: Vec<Lane<T>>,
}

impl<T> Direct<T> {
    pub(super) fn new() -> Self {
        Self { lanes: Vec::new() }
    }

    pub(super) fn lane(&mut self, slot: u32) -> &mut Lane<T> {
        let slot = slot as usize;
        if slot >= self.lanes.len() {
            self.lanes.resize_with(slot + 1, VecDeque::new);
        }
        &mut self.lanes[slot]
    }

    /// Takes away what is queued.
    pub(super) fn drain(&mut self) -> Drained<T> {
        drain(self.lanes.iter_mut())
    }

    pub(super) fn queued(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    /// When the next batch may go; none where nothing is queued.
    pub(super) fn due(&self, settings: &Settings) -> Option<Moment> {
        let is_queued = self.lanes.iter().any(|lane| !lane.is_empty());
        is_queued.then(|| self.waits_until(settings).unwrap_or(Moment::ZERO))
    }

    /// Gives the slots away whose sequence was reaped or cancelled.
    pub(super) fn clear_released(&mut self, instance: u32, seats: &mut Seats<T>, out: &mut Vec<Event<T>>) {
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

    /// Until when a batch waits because too few slots are ready. A request's shape does not count here.
    fn waits_until(&self, settings: &Settings) -> Option<Moment> {
        let Strategy::Direct { minimum_slot_utilization, queue_delay } = settings.strategy else { return None };
        let arrivals = self.lanes.iter().filter_map(|lane| match lane.front() {
            Some(Item::Step(first)) => Some(first.arrived),
            _ => None,
        });
        #[expect(clippy::cast_precision_loss, reason = "slots are few")]
        let utilization = arrivals.clone().count() as f64 / f64::from(settings.slots());
        let oldest = arrivals.min().filter(|_| utilization < minimum_slot_utilization);
        oldest.map(|arrived| arrived + queue_delay)
    }

    /// Takes a batch of the first requests of the slots up to the highest busy one. Those whose shape is not that of the
    /// first are left for a later batch; like an idle slot's, their row is padding.
    pub(super) fn take(&mut self, instance: u32, settings: &Settings, seats: &mut Seats<T>) -> Batch<T> {
        let ragged = settings.ragged;
        let highest = self.lanes.iter().rposition(|lane| !lane.is_empty()).unwrap_or(0);
        let lanes = &mut self.lanes[..=highest];
        let mut rows = Vec::with_capacity(lanes.len());
        let mut shape = None;
        let mut fits =
            |request: &Request<T>| ragged || *shape.get_or_insert_with(|| Arc::clone(&request.shape)) == request.shape;
        for (slot, lane) in (0..).zip(lanes) {
            let request = match lane.front() {
                Some(Item::Step(first)) if fits(first) => lane.pop_front().and_then(Item::step),
                _ => None,
            };
            if request.as_ref().is_some_and(Request::ends) {
                seats.release_at_end(Seat { slot, instance }, lane);
            }
            rows.push(Row { slot, request });
        }
        rows
    }
}
