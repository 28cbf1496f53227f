//! Who has which slot, who waits for one, and how long each may.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{Event, Item, Lane, Moment, Rejection, Request, SequenceId};
use crate::{
    fault::{Fault, Faults},
    transitions::Crowd,
};

/// How often a sequence that is past its idle limit and still in the backlog is looked at.
const BACKLOG_LOOK: Duration = Duration::from_millis(50);

/// The part of the idle limit after which the fault of reaping too early does.
const EARLY: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seat {
    pub(crate) slot: u32,
    pub(crate) instance: u32,
}

/// Where a live sequence is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Seat(Seat),
    /// The queue with this number.
    Backlog(u64),
}

/// A sequence to which a step without START belongs.
#[derive(Debug)]
pub(super) struct Live {
    place: Place,
    /// The key of its entry in `Seats::deadlines`, if it has one.
    deadline: Option<(Moment, u64)>,
    /// The deadline is that of reaping too early (a fault), not the right one.
    looks_early: bool,
    /// When it was seen to be past its idle limit in the backlog, where nobody can reap it.
    overdue: Option<Moment>,
    /// Its client is gone (kept for a fault alone).
    pub(super) disconnected: bool,
}

/// A sequence that waits for a slot.
#[derive(Debug)]
struct Waiting<T> {
    id: SequenceId,
    steps: VecDeque<Request<T>>,
    /// The earliest of its steps' time limits.
    expires: Option<Moment>,
}

#[derive(Debug)]
pub(super) struct Seats<T> {
    idle_limit: Duration,
    pub(super) faults: Arc<Faults>,
    pub(super) live: HashMap<SequenceId, Live>,
    /// When each of them will have been idle for too long; the number tells those of one moment apart.
    deadlines: BTreeMap<(Moment, u64), SequenceId>,
    /// When idle sequences were looked for last.
    looked: Moment,
    /// By slot, and then by the time since which it is free, as a number; with the instance.
    free: BTreeSet<(u32, u64, u32)>,
    /// The free slots of each instance that gets no new sequences any more.
    retired: BTreeMap<u32, Vec<Seat>>,
    /// By age.
    backlog: BTreeMap<u64, Waiting<T>>,
    /// When those of its entries that have a time limit expire.
    limits: BTreeSet<(Moment, u64)>,
    numbers: u64,
    /// The slots of one instance, those that a fault added included.
    slots: u32,
    /// A request was cancelled since the backlog was looked through, which is done when a slot is released.
    pub(super) has_cancelled: bool,
    /// The last cancel came when an execution was nearly over (kept for a fault alone), and released no slot so far.
    pub(super) cancelled_late: bool,
    /// Cancelled while a slot was released.
    cancelled: Vec<Request<T>>,
    /// A fault made the reaper hang, and with it everything.
    pub(super) stuck: bool,
    /// Whom the idle limit ended since it was asked last, where somebody watches.
    pub(super) reaped: Option<Vec<(SequenceId, Seat, Crowd)>>,
}

impl<T> Seats<T> {
    pub(super) fn new(instances: u32, slots: u32, idle_limit: Duration, faults: Arc<Faults>) -> Self {
        let mut seats = Self {
            idle_limit,
            faults,
            live: HashMap::new(),
            deadlines: BTreeMap::new(),
            looked: Moment::ZERO,
            free: BTreeSet::new(),
            retired: BTreeMap::new(),
            backlog: BTreeMap::new(),
            limits: BTreeSet::new(),
            numbers: 0,
            slots,
            has_cancelled: false,
            cancelled_late: false,
            cancelled: Vec::new(),
            stuck: false,
            reaped: None,
        };
        // As with the real server, the last instance's slots come first.
        for instance in (0..instances).rev() {
            seats.add_instance(instance, slots);
        }
        seats
    }

    fn set_free(&mut self, Seat { slot, instance }: Seat) {
        self.numbers += 1;
        self.free.insert((slot, self.numbers, instance));
    }

    pub(super) fn queued_in_backlog(&self) -> usize {
        self.backlog.values().map(|waiting| waiting.steps.len()).sum()
    }

    /// The slot that an accepted request goes to; none where it belongs in the backlog.
    pub(super) fn take(&mut self, request: &Request<T>) -> Option<Seat> {
        let place = match self.live.get(&request.id) {
            Some(live) => live.place,
            None => Place::Seat(self.free_seat()?),
        };
        let Place::Seat(seat) = place else { return None };
        self.record(request, place);
        Some(seat)
    }

    fn free_seat(&mut self) -> Option<Seat> {
        if let Some((slot, _, instance)) = self.free.pop_first() {
            return Some(Seat { slot, instance });
        }
        if self.faults.happens(Fault::ExtraSlot) {
            self.slots += 1;
            return Some(Seat { slot: self.slots - 1, instance: 0 });
        }
        None
    }

    /// Remembers where the request's sequence is, and that it was not idle when the request came; END forgets it.
    fn record(&mut self, request: &Request<T>, place: Place) {
        let before = self.forget(&request.id);
        if request.ends() {
            return;
        }
        let looks_early = self.faults.has(Fault::ReapEarly);
        let limit = if looks_early { self.idle_limit / EARLY } else { self.idle_limit };
        let live = Live { place, deadline: None, looks_early, overdue: None, disconnected: false };
        self.live.insert(request.id.clone(), live);
        let has_seat = matches!(place, Place::Seat(_));
        let kept = before.filter(|_| has_seat && !request.start && self.faults.happens(Fault::ClockFromStart));
        self.set_deadline(&request.id, kept.unwrap_or(request.arrived + limit));
    }

    fn set_deadline(&mut self, id: &SequenceId, at: Moment) {
        self.numbers += 1;
        let key = (at, self.numbers);
        if let Some(live) = self.live.get_mut(id) {
            live.deadline = Some(key);
            self.deadlines.insert(key, id.clone());
        }
    }

    /// Queues a request that has no slot to go to.
    pub(super) fn queue_in_backlog(&mut self, request: Request<T>) {
        let number = match self.live.get(&request.id) {
            Some(Live { place: Place::Backlog(number), .. }) => *number,
            _ => self.new_queue(&request.id),
        };
        self.record(&request, Place::Backlog(number));
        let waiting = self.backlog.get_mut(&number).expect("a live sequence's queue is there until it gets a slot");
        let is_expired = request.start && request.timeout.is_none() && self.faults.happens(Fault::ExpireEarly);
        let limit = request.timeout.or(is_expired.then_some(Duration::ZERO));
        if let Some(limit) = limit.map(|limit| request.arrived + limit) {
            let earliest = waiting.expires.map_or(limit, |earlier| earlier.min(limit));
            if let Some(earlier) = waiting.expires.replace(earliest) {
                self.limits.remove(&(earlier, number));
            }
            self.limits.insert((earliest, number));
        }
        waiting.steps.push_back(request);
    }

    fn new_queue(&mut self, id: &SequenceId) -> u64 {
        self.numbers += 1;
        self.backlog.insert(self.numbers, Waiting { id: id.clone(), steps: VecDeque::new(), expires: None });
        self.numbers
    }

    /// Gives this instance no new sequences from now on.
    pub(super) fn retire(&mut self, instance: u32) {
        let free = self.free.iter().filter(|(_, _, of)| *of == instance);
        self.retired.insert(instance, free.map(|(slot, ..)| Seat { slot: *slot, instance }).collect());
        self.free.retain(|(_, _, of)| *of != instance);
    }

    /// Gives one that was retired new sequences again; returns whether there was one. The backlog has to wait for a slot
    /// that is released.
    pub(super) fn call_back(&mut self) -> bool {
        let Some((_, seats)) = self.retired.pop_first() else { return false };
        for seat in seats {
            self.set_free(seat);
        }
        true
    }

    /// Adds an instance with all its slots free.
    pub(super) fn add_instance(&mut self, instance: u32, slots: u32) {
        for slot in 0..slots {
            self.set_free(Seat { slot, instance });
        }
    }

    /// Whether the instance gets new sequences.
    pub(super) fn is_active(&self, instance: u32) -> bool {
        !self.retired.contains_key(&instance)
    }

    /// A slot's sequence is over: the slot goes to the backlog's oldest sequence, whose steps are put into `lane`, or is free.
    pub(super) fn release(&mut self, seat: Seat, lane: &mut Lane<T>) {
        self.cancel_waiting();
        if let Some(aside) = self.retired.get_mut(&seat.instance) {
            aside.push(seat);
        } else if !self.backlog.is_empty() && !self.faults.happens(Fault::StarveBacklog) {
            self.seat_waiting(seat, lane);
        } else {
            self.set_free(seat);
        }
    }

    /// As [`Self::release`], for a slot whose sequence ended.
    pub(super) fn release_at_end(&mut self, seat: Seat, lane: &mut Lane<T>) {
        if self.faults.happens(Fault::LeakSlotAtEnd) {
            return;
        }
        self.release(seat, lane);
        if self.faults.happens(Fault::DoubleRelease) {
            self.set_free(seat);
        }
    }

    /// As [`Self::release`], for a slot whose sequence was reaped.
    pub(super) fn release_at_idle(&mut self, seat: Seat, lane: &mut Lane<T>) {
        if !self.faults.happens(Fault::LeakSlotAtIdle) {
            self.release(seat, lane);
        }
    }

    /// As [`Self::release`], for a slot whose queued steps were cancelled; the sequence that has it is forgotten.
    pub(super) fn release_at_cancel(&mut self, seat: Seat, lane: &mut Lane<T>, id: &SequenceId) {
        if let Some(live) = self.live.get(id)
            && (matches!(live.place, Place::Seat(its) if its == seat) || self.faults.happens(Fault::OrphanAtCancel))
        {
            self.forget(id);
        }
        let was_late = std::mem::take(&mut self.cancelled_late);
        let leaks = self.faults.happens(Fault::LeakSlotAtCancel)
            || (was_late && self.faults.happens(Fault::LeakSlotAtLateCancel));
        if !leaks {
            self.release(seat, lane);
        }
    }

    fn seat_waiting(&mut self, seat: Seat, lane: &mut Lane<T>) {
        let newest_first = self.backlog.len() > 1 && self.faults.happens(Fault::BacklogOrder);
        let next = if newest_first { self.backlog.keys().next_back() } else { self.backlog.keys().next() };
        let number = *next.expect("somebody waits");
        let waiting = self.take_waiting(number);
        if let Some(live) = self.live.get_mut(&waiting.id)
            && matches!(live.place, Place::Backlog(its) if its == number)
        {
            live.place = Place::Seat(seat);
            if let Some(since) = live.overdue.take() {
                self.set_deadline(&waiting.id, next_look(since, self.looked));
            }
        }
        lane.extend(waiting.steps.into_iter().map(Item::Step));
    }

    fn take_waiting(&mut self, number: u64) -> Waiting<T> {
        self.drop_limit(number);
        self.backlog.remove(&number).expect("it waits")
    }

    /// The limits of a waiting sequence that there are so far do not count any more.
    fn drop_limit(&mut self, number: u64) {
        let limit = self.backlog.get_mut(&number).and_then(|waiting| waiting.expires.take());
        if let Some(limit) = limit {
            self.limits.remove(&(limit, number));
        }
    }

    /// Forgets a sequence, and tells when it would have been idle for too long.
    fn forget(&mut self, id: &SequenceId) -> Option<Moment> {
        let deadline = self.live.remove(id)?.deadline?;
        self.deadlines.remove(&deadline);
        Some(deadline.0)
    }

    /// Forgets the sequences that were idle for too long, and tells whose slots have to be released.
    pub(super) fn reap(&mut self, now: Moment) -> Vec<Seat> {
        self.looked = now;
        let mut reaped = Vec::new();
        while let Some(entry) = self.deadlines.first_entry().filter(|entry| entry.key().0 <= now) {
            let id = entry.remove();
            let live = self.live.get_mut(&id).expect("what has a deadline is live");
            live.deadline = None;
            // In the backlog there is no slot to be lost.
            let has_seat = matches!(live.place, Place::Seat(_));
            let is_early = std::mem::take(&mut live.looks_early);
            if is_early && !(has_seat && self.faults.happens(Fault::ReapEarly)) {
                self.set_deadline(&id, now + self.idle_limit / EARLY * (EARLY - 1));
                continue;
            }
            match live.place {
                // Thousands may wait there, so only the fault that each look may commit has them looked at again.
                Place::Backlog(_) if self.faults.has(Fault::ReaperLivelock) => {
                    self.set_deadline(&id, next_look(now, now));
                    self.stuck |= self.faults.happens(Fault::ReaperLivelock);
                }
                Place::Backlog(_) => live.overdue = Some(now),
                Place::Seat(seat) => {
                    let stays = self.faults.happens(Fault::NeverReap)
                        || (live.disconnected && self.faults.happens(Fault::LeakSlotAtDisconnect));
                    if !stays {
                        let crowd = self.crowd();
                        self.live.remove(&id);
                        reaped.push(seat);
                        if let Some(watched) = &mut self.reaped {
                            watched.push((id, seat, crowd));
                        }
                    }
                }
            }
        }
        reaped
    }

    /// Where a live sequence is.
    pub(super) fn place(&self, id: &SequenceId) -> Option<Place> {
        self.live.get(id).map(|live| live.place)
    }

    /// How crowded it is.
    pub(super) fn crowd(&self) -> Crowd {
        if !self.backlog.is_empty() {
            Crowd::Waiting
        } else if self.free.is_empty() {
            Crowd::Full
        } else {
            Crowd::Room
        }
    }

    /// The sequences that have a slot of an instance, with it.
    fn of_instance(&self, instance: u32) -> impl Iterator<Item = (&SequenceId, u32)> {
        self.live.iter().filter_map(move |(id, live)| match live.place {
            Place::Seat(seat) if seat.instance == instance => Some((id, seat.slot)),
            Place::Seat(_) | Place::Backlog(_) => None,
        })
    }

    /// Whether a sequence has a slot of this instance.
    pub(super) fn has_seated(&self, instance: u32) -> bool {
        self.of_instance(instance).next().is_some()
    }

    /// Forgets the sequences of an instance, and tells which slots have to be released.
    pub(super) fn forget_all_of(&mut self, instance: u32) -> Vec<u32> {
        let (ids, slots): (Vec<_>, _) = self.of_instance(instance).map(|(id, slot)| (id.clone(), slot)).unzip();
        for id in &ids {
            self.forget(id);
        }
        slots
    }

    /// A step was rejected: as a fault its sequence, if it has a slot, is forgotten; the slot has to be released.
    pub(super) fn rejected(&mut self, step: &Request<T>) -> Option<Seat> {
        let Place::Seat(seat) = self.live.get(&step.id)?.place else { return None };
        let ends = !step.start && self.faults.happens(Fault::RejectionEndsSequence);
        ends.then(|| {
            self.forget(&step.id);
            seat
        })
    }

    /// Rejects the waiting sequences of which a time limit has passed.
    pub(super) fn expire(&mut self, now: Moment, out: &mut Vec<Event<T>>) {
        while let Some((_, number)) = self.limits.first().copied().filter(|(limit, _)| *limit <= now) {
            if self.faults.happens(Fault::IgnoreTimeout) {
                self.drop_limit(number);
                continue;
            }
            let expired = self.remove_waiting(number);
            out.extend(expired.map(|request| Event::Reject(Rejection::Expired, request)));
        }
    }

    /// Takes the waiting sequences out of which a request was cancelled.
    fn cancel_waiting(&mut self) {
        if std::mem::take(&mut self.has_cancelled) {
            let is_cancelled = |waiting: &Waiting<T>| waiting.steps.iter().any(Request::is_cancelled);
            let cancelled = self.backlog.iter().filter(|(_, waiting)| is_cancelled(waiting));
            let numbers: Vec<_> = cancelled.map(|(number, _)| *number).collect();
            for number in numbers {
                let cancelled = self.remove_waiting(number);
                self.cancelled.extend(cancelled);
            }
        }
    }

    /// What was cancelled in the backlog since it was asked last.
    pub(super) fn take_cancelled(&mut self, out: &mut Vec<Event<T>>) {
        out.extend(self.cancelled.drain(..).map(|request| Event::Reject(Rejection::Cancelled, request)));
    }

    fn remove_waiting(&mut self, number: u64) -> impl Iterator<Item = Request<T>> + use<T> {
        let waiting = self.take_waiting(number);
        if matches!(self.live.get(&waiting.id), Some(Live { place: Place::Backlog(its), .. }) if *its == number) {
            self.forget(&waiting.id);
        }
        waiting.steps.into_iter()
    }

    /// When something is due here.
    pub(super) fn wake(&self) -> Option<Moment> {
        let idle = self.deadlines.keys().next();
        idle.into_iter().chain(self.limits.first()).map(|(at, _)| *at).min()
    }
}

/// When a sequence that is in the backlog past its idle limit since then is looked at next.
fn next_look(since: Moment, now: Moment) -> Moment {
    let looks = now.saturating_sub(since).as_nanos() / BACKLOG_LOOK.as_nanos() + 1;
    since + BACKLOG_LOOK * u32::try_from(looks).unwrap_or(u32::MAX)
}
