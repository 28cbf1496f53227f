//! The sequence batcher's scheduler: which slot a request goes to, what waits for one, and what is executed together.
//!
//! It has no clock and no socket: time is passed in, and what it wants done comes out as [`Event`]s. `T` is what the caller
//! needs to know a request by.

mod direct;
mod instance;
mod oldest;
mod seats;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use instance::Instance;
use seats::Seats;
pub(crate) use seats::{Place, Seat};

use super::{
    fault::{Fault, Faults},
    transitions::Crowd,
};

/// A time, since whenever the caller began to count.
pub(crate) type Moment = Duration;

/// How a model's requests are scheduled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Model instances, at least one.
    pub(crate) instances: u32,
    /// The most requests of one execution, at least one.
    pub(crate) batch: u32,
    pub(crate) idle_limit: Duration,
    pub(crate) strategy: Strategy,
    /// Whether requests of unequal shapes may be executed together.
    pub(crate) ragged: bool,
    /// Hold executions back, once, until so many requests are queued in slots, and so many in the backlog.
    pub(crate) hold_until: HoldUntil,
}

/// For tests that need exact batches: executions begin when so many requests are queued, as with the real server's
/// `TRITONSERVER_DELAY_SCHEDULER` and `TRITONSERVER_BACKLOG_DELAY_SCHEDULER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldUntil {
    /// In slots; with Oldest, at most one of a sequence.
    pub queued: usize,
    /// In the backlog; with Oldest it does not count.
    pub backlog: usize,
}

/// How slots become batches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strategy {
    /// A slot is a row of the batch.
    Direct {
        /// The share of an instance's slots that has to be ready, or else a batch waits for `queue_delay`.
        minimum_slot_utilization: f64,
        /// How long a batch may wait for that.
        queue_delay: Duration,
    },
    /// Each sequence has at most one request in a queue of the instance, from which batches are taken, oldest first.
    Oldest {
        /// Slots of an instance.
        candidates: u32,
        /// Batch sizes that need not wait for more.
        preferred: Vec<u32>,
        /// How long a batch may wait for the largest of them.
        queue_delay: Duration,
    },
}

impl Settings {
    /// Slots of one instance.
    pub(crate) fn slots(&self) -> u32 {
        match self.strategy {
            Strategy::Oldest { candidates, .. } if candidates > 0 => candidates,
            _ => self.batch.max(1),
        }
    }
}

/// A request's correlation ID. Zero and the empty text mean that it has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SequenceId {
    /// A number.
    Number(u64),
    /// A text.
    Text(Arc<str>),
}

impl SequenceId {
    fn is_none(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.is_empty(),
        }
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A request as the scheduler sees it.
#[derive(Clone, Debug)]
pub(crate) struct Request<T> {
    pub(crate) id: SequenceId,
    pub(crate) start: bool,
    pub(crate) end: bool,
    /// Whether the sequence goes on all the same (a fault).
    pub(crate) goes_on: bool,
    /// How many requests are in it; only one is allowed.
    pub(crate) batch_size: u32,
    /// How long its sequence may wait in the backlog because of it.
    pub(crate) timeout: Option<Duration>,
    /// Set when the client does not want the answer any more.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// The shapes of its inputs.
    pub(crate) shape: Arc<[i64]>,
    /// When it came, which the scheduler notes.
    pub(crate) arrived: Moment,
    /// What the caller knows it by.
    pub(crate) payload: T,
}

impl<T> Request<T> {
    /// Whether the sequence is over with it.
    fn ends(&self) -> bool {
        self.end && !self.goes_on
    }

    /// Whether the client does not want the answer any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}

/// Why a request is not accepted, or not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// More than one request in it.
    BatchSize,
    /// It has no correlation ID.
    NoCorrelationId,
    /// It is a START, and the model stops.
    Stopping,
    /// It has no START, and its ID has no sequence.
    NoStart,
    /// A `timeout` of its sequence passed in the backlog.
    Expired,
    /// The client does not want it any more.
    Cancelled,
    /// The instance failed that had the state of its sequence.
    InstanceFailed,
}

/// What the caller has to do.
#[derive(Debug)]
pub(crate) enum Event<T> {
    /// Execute a batch; [`Scheduler::finished`] when it is done. An instance executes one at a time.
    Execute { instance: u32, batch: Batch<T> },
    /// Tell the client that its request is not executed.
    Reject(Rejection, Request<T>),
}

/// What is executed together, in the order in which the model sees it.
pub(crate) type Batch<T> = Vec<Row<T>>;

#[derive(Debug)]
pub(crate) struct Row<T> {
    /// The slot, of the instance.
    pub(crate) slot: u32,
    /// None: the row is padding; the slot is idle, or its request does not fit into the batch.
    pub(crate) request: Option<Request<T>>,
}

/// What stands in a slot's queue.
#[derive(Debug)]
enum Item<T> {
    Step(Request<T>),
    /// The sequence was reaped: the slot is free when all before this is done.
    Release,
}

impl<T> Item<T> {
    fn step(self) -> Option<Request<T>> {
        if let Self::Step(step) = self { Some(step) } else { None }
    }
}

type Lane<T> = VecDeque<Item<T>>;

/// What was queued, and the slots that had something queued.
type Drained<T> = (Vec<Request<T>>, BTreeSet<u32>);

/// Takes away what is queued in the lanes of slots.
fn drain<'l, T: 'l>(lanes: impl Iterator<Item = &'l mut Lane<T>>) -> Drained<T> {
    let queued = (0..).zip(lanes).filter(|(_, lane)| !lane.is_empty());
    let (slots, steps): (_, Vec<Vec<_>>) =
        queued.map(|(slot, lane)| (slot, lane.drain(..).filter_map(Item::step).collect())).unzip();
    (steps.into_iter().flatten().collect(), slots)
}

/// Drains a slot whose first request is cancelled, and tells whose that is.
fn cancel_lane<T>(lane: &mut Lane<T>, out: &mut Vec<Event<T>>) -> Option<SequenceId> {
    let id = match lane.front() {
        Some(Item::Step(first)) if first.is_cancelled() => first.id.clone(),
        _ => return None,
    };
    let steps = lane.drain(..).filter_map(Item::step);
    out.extend(steps.map(|step| Event::Reject(Rejection::Cancelled, step)));
    Some(id)
}

#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    settings: Settings,
    faults: Arc<Faults>,
    seats: Seats<T>,
    instances: Vec<Instance<T>>,
    holding: bool,
    stopping: bool,
}

impl<T> Scheduler<T> {
    /// A scheduler with all slots free.
    pub(crate) fn new(settings: Settings, faults: Arc<Faults>) -> Self {
        let instances = (0..settings.instances).map(|number| Instance::new(number, &settings.strategy)).collect();
        Self {
            seats: Seats::new(settings.instances, settings.slots(), settings.idle_limit, Arc::clone(&faults)),
            instances,
            holding: settings.hold_until != HoldUntil::default(),
            settings,
            faults,
            stopping: false,
        }
    }

    /// Takes a request in. What follows from it comes out of the next [`Self::advance`].
    /// One that is rejected at once is in no statistics. Returns the slot in which it is queued, or none where that is the backlog.
    pub(crate) fn enqueue(&mut self, mut request: Request<T>, now: Moment) -> Result<Option<Seat>, Rejection> {
        if let Some(rejection) = self.rejection(&request) {
            if rejection == Rejection::BatchSize {
                let reaped = self.seats.rejected(&request);
                self.release(reaped);
            }
            return Err(rejection);
        }
        request.arrived = now;
        request.goes_on = request.end && self.faults.happens(Fault::LoseEnd);
        let Some(seat) = self.seats.take(&request) else {
            self.seats.queue_in_backlog(request);
            return Ok(None);
        };
        push_step(self.instances[seat.instance as usize].lane(seat.slot), request, &self.faults);
        Ok(Some(seat))
    }

    fn rejection(&self, request: &Request<T>) -> Option<Rejection> {
        if request.batch_size > 1 && !self.faults.happens(Fault::AcceptBatch) {
            Some(Rejection::BatchSize)
        } else if request.id.is_none() {
            Some(Rejection::NoCorrelationId)
        } else if self.stopping && request.start {
            Some(Rejection::Stopping)
        } else if request.start {
            self.faults.happens(Fault::RejectStart).then_some(Rejection::NoStart)
        } else if self.is_live(&request.id) {
            self.faults.happens(Fault::RejectMidSequence).then_some(Rejection::NoStart)
        } else {
            (!self.faults.happens(Fault::AcceptNoStart)).then_some(Rejection::NoStart)
        }
    }

    /// Does what is due: reaps idle sequences, rejects what waited too long, and hands out batches.
    pub(crate) fn advance(&mut self, now: Moment, out: &mut Vec<Event<T>>) {
        if self.seats.stuck {
            return;
        }
        let reaped = self.seats.reap(now);
        self.release(reaped);
        self.seats.expire(now, out);
        for instance in &mut self.instances {
            instance.move_on(&mut self.seats, out);
        }
        self.seats.take_cancelled(out);
        if self.holding && !self.may_begin() {
            return;
        }
        self.holding = false;
        for instance in &mut self.instances {
            instance.advance(&self.settings, &mut self.seats, now, out);
        }
        self.seats.take_cancelled(out);
    }

    fn release(&mut self, reaped: impl IntoIterator<Item = Seat>) {
        for seat in reaped {
            self.instances[seat.instance as usize].lane(seat.slot).push_back(Item::Release);
        }
    }

    fn may_begin(&self) -> bool {
        let HoldUntil { queued, backlog } = self.settings.hold_until;
        let ready: usize = self.instances.iter().map(Instance::ready).sum();
        let is_direct = matches!(self.settings.strategy, Strategy::Direct { .. });
        ready >= queued && (!is_direct || self.seats.queued_in_backlog() >= backlog)
    }

    /// Some of the requests that are queued have been cancelled. What can be seen of that at once comes out of the next
    /// [`Self::advance`].
    pub(crate) fn cancelled(&mut self) {
        self.seats.has_cancelled = true;
        self.seats.cancelled_late = false;
    }

    /// The same of requests that were cancelled when an execution was nearly over.
    pub(crate) fn cancelled_late(&mut self) {
        self.cancelled();
        self.seats.cancelled_late = true;
    }

    /// The client of this sequence is gone. A correct server does nothing about it.
    pub(crate) fn disconnected(&mut self, id: &SequenceId) {
        if let Some(live) = self.seats.live.get_mut(id) {
            live.disconnected = true;
        }
    }

    /// The instance's batch is executed, and the next can be. With Oldest, the next request of each of its sequences can go.
    pub(crate) fn finished(&mut self, instance: u32) {
        self.instances[instance as usize].finished();
    }

    /// An instance fails that keeps the state of its sequences: they are over, and what they have queued is rejected. As a fault they go on.
    /// Returns whether the instance executes a batch.
    pub(crate) fn failed(&mut self, instance: u32, keeps_state: bool, out: &mut Vec<Event<T>>) -> bool {
        let failed = &mut self.instances[instance as usize];
        // A sequence whose END has arrived has no seat any more, and perhaps steps.
        let has_sequences = self.seats.has_seated(instance) || failed.queued() > 0;
        if keeps_state && has_sequences && !self.faults.happens(Fault::AnswerAfterLostState) {
            let (queued, mut slots) = failed.drain();
            out.extend(queued.into_iter().map(|step| Event::Reject(Rejection::InstanceFailed, step)));
            slots.extend(self.seats.forget_all_of(instance));
            for slot in slots {
                self.seats.release(Seat { slot, instance }, failed.lane(slot));
            }
        }
        failed.is_executing()
    }

    /// Changes how many instances get new sequences. Those that get none any more work off what they have.
    ///
    /// Returns how many instances there are in all, the first of which were there before.
    pub(crate) fn resize(&mut self, instances: u32) -> u32 {
        let all = || 0..u32::try_from(self.instances.len()).expect("instances are few");
        let active: Vec<_> = all().filter(|instance| self.seats.is_active(*instance)).collect();
        for instance in active.iter().skip(instances as usize) {
            self.seats.retire(*instance);
        }
        let mut all = all().end;
        for _ in active.len()..instances as usize {
            if !self.seats.call_back() {
                self.instances.push(Instance::new(all, &self.settings.strategy));
                self.seats.add_instance(all, self.settings.slots());
                all += 1;
            }
        }
        all
    }

    /// Rejects every START from now on.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// When [`Self::advance`] has something to do although nothing happens.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        if self.seats.stuck {
            return None;
        }
        let batches = self.instances.iter().filter_map(|instance| instance.batch_due);
        batches.chain(self.seats.wake()).min()
    }

    /// Sequences that have a slot or wait for one.
    pub(crate) fn live(&self) -> usize {
        self.seats.live.len()
    }

    /// Whether a step without START would be accepted.
    pub(crate) fn is_live(&self, id: &SequenceId) -> bool {
        self.seats.live.contains_key(id)
    }

    /// Where a live sequence is.
    pub(crate) fn place(&self, id: &SequenceId) -> Option<Place> {
        self.seats.place(id)
    }

    /// How crowded it is.
    pub(crate) fn crowd(&self) -> Crowd {
        self.seats.crowd()
    }

    /// Remembers from now on whom the idle limit ends.
    pub(crate) fn watch(&mut self) {
        self.seats.reaped = Some(Vec::new());
    }

    /// Whom the idle limit ended since it was asked last, with the slot, and how crowded it was then.
    pub(crate) fn reaped(&mut self) -> Vec<(SequenceId, Seat, Crowd)> {
        self.seats.reaped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether nothing is queued; what is executing does not count.
    pub(crate) fn is_idle(&self) -> bool {
        self.seats.queued_in_backlog() == 0 && self.instances.iter().all(|instance| instance.queued() == 0)
    }
}

/// Queues a step behind the others of its slot.
fn push_step<T>(lane: &mut Lane<T>, step: Request<T>, faults: &Faults) {
    let follows = !step.start && matches!(lane.back(), Some(Item::Step(last)) if last.id == step.id && !last.end);
    let ends = step.end;
    lane.push_back(Item::Step(step));
    if follows && ((ends && faults.happens(Fault::EndBeforeLast)) || (!ends && faults.happens(Fault::OutOfOrder))) {
        let last = lane.len() - 1;
        lane.swap(last - 1, last);
    }
}
