//! Counts what was exercised on all correlation IDs together: how the slots were taken, as far as that is certain.
//!
//! A sequence certainly has a slot from the answer to its START until its END is sent, or until its idle limit may have passed
//! since a step was sent that was answered. One that was never ended keeps it unless the server ends it itself.

mod board;
mod full;
mod merge;
mod offered;
mod seating;
mod seats;
mod turns;
mod wait;
mod withheld;

use std::{mem::take, time::Duration};

use self::{
    board::Board,
    full::Limited,
    merge::Merge,
    offered::{Has, Offer},
    seats::Visit,
    turns::{Queuer, Turn, Turns},
    withheld::{Share, Shares, Withheld},
};
pub use self::{
    offered::Offered,
    seating::{SEATED_MAX, Seated, Seating, WAITING_MAX, WaitingStart},
    wait::{Holder, LongestWait},
};
use crate::{Evidence, Place, Violation, ViolationKind, history::Entry, ms, nanos};
use workload::{
    claim::Claims,
    controls::Seen,
    conversation::Lane,
    event::{ContextId, EventKind, Nanos},
    model::Batching,
    plan::correlation_id,
    scenario::Scenario,
    sequence::{Pattern, RequestId, Special, Step, Trait},
};

/// How the slots of a run are taken.
pub struct Occupancy {
    /// The idle limit; nought where it is not known.
    idle: Nanos,
    /// How long requests of a stream that is gone may still come.
    straggling: Nanos,
    scenario: Scenario,
    contexts_per_worker: u32,
    /// By worker: whether no slow network is between it and the server.
    near: Vec<bool>,
    /// By worker, then context; none where it is not known how many slots there are, so that nothing is counted.
    contexts: Vec<Context>,
    moves: Merge<Move>,
    /// What each has in the server, apart from these because it changes with each request.
    haves: Merge<Has>,
    offer: Offer,
    board: Board,
    /// By context; none where the check of free slots is off: the idle limit is unknown, the server changes, or entries are missing.
    shares: Option<Vec<Share>>,
    /// By context: what says something of the order of the backlog.
    queuers: Vec<Queuer>,
    /// Whether IDs shared a stream: without that nothing is known of the order.
    share_streams: bool,
    /// How much is known to have been done to the server; none where entries are missing, which may have told it.
    disturbed: Option<u32>,
    /// Whether the entries' times are those of one clock; else nothing is violated by their order.
    has_one_clock: bool,
}

/// What one correlation ID does, in its own order.
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    /// The START that is unanswered, and when it was sent.
    start: Option<(RequestId, Nanos)>,
    /// The same time, while somebody waits for its answer.
    waits_since: Option<Nanos>,
    /// The pattern of the START that was sent last.
    pattern: Option<Pattern>,
    /// Whether the sequence that was started last may have been ended.
    may_be_ended: bool,
    /// Whether it was told that the ID has a slot, and not yet that it may be without.
    has_slot: bool,
    unanswered: u32,
    /// When the first step was sent of those that went out since nothing was under way.
    since: Nanos,
    /// Until when its idle limit is certainly not reached.
    until: Nanos,
    /// Where the steps that are unanswered went, and whether some went elsewhere, so that their order is not certain.
    lane: Lane,
    is_spread: bool,
    /// Until then steps of a stream that is gone may come in between.
    unclear_until: Nanos,
    /// How often it was told that something is done to the server, or was.
    disturbed: u32,
    /// The last sequence that was started, where its time limit can be judged.
    limited: Option<u32>,
}

/// What a correlation ID does to the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Move {
    /// A START is sent, with or without END, and until when it may wait, where that can be judged.
    Asks {
        ends: bool,
        limit: Option<Limited>,
    },
    /// The sequence whose START is under way may wait no longer than until then.
    MayWaitUntil(Nanos),
    /// The time limit of the START that is under way cannot be judged after all.
    Forgoes,
    Visits(Visit),
    /// A START is answered. There is a time where the sequence certainly keeps its slot: until then. The slot, where that is
    /// certain too, and the sequence's number. And its pattern.
    Starts(Option<Nanos>, Option<(u32, u32)>, Option<Pattern>),
    /// A further step was answered, so it certainly keeps it until then.
    Stays(Nanos),
    /// It may be without a slot.
    Leaves,
    /// Something is done to the server: all may be without one.
    Disturbed,
    /// What it may have of the slots.
    Shares(Shares),
    Turns(Turn),
}

/// What a request of a context gives rise to.
#[derive(Clone, Debug)]
struct Accusation {
    context: u32,
    request: RequestId,
    kind: ViolationKind,
    at: Nanos,
    evidence: Evidence,
}

impl Occupancy {
    /// Of a run of this scenario; without `slots`, how they are executed together, or `idle_limit` what needs them is not judged. `straggling` is how long steps may be
    /// under way behind a stream's end.
    pub fn new(
        scenario: &Scenario,
        (slots, batching): (Option<u32>, Option<Batching>),
        idle_limit: Option<Duration>,
        straggling: Duration,
    ) -> Self {
        let contexts_per_worker = scenario.most_contexts();
        let is_steady = idle_limit.is_some() && scenario.phases.iter().all(|phase| phase.server.is_none());
        let idle = idle_limit.map_or(0, nanos);
        let contexts = slots.map_or(0, |_| scenario.workers() as usize * contexts_per_worker as usize);
        let slots = slots.map_or(0, |slots| slots as usize);
        Self {
            idle,
            straggling: nanos(straggling),
            near: (0..scenario.workers()).map(|worker| scenario.population_of(worker).network.is_clear()).collect(),
            scenario: scenario.clone(),
            contexts_per_worker,
            contexts: vec![Context::default(); contexts],
            disturbed: Some(0),
            has_one_clock: true,
            moves: Merge::default(),
            haves: Merge::default(),
            offer: Offer::new(slots, batching, contexts),
            shares: is_steady.then(|| vec![Share::default(); contexts]),
            queuers: vec![Queuer::default(); contexts],
            share_streams: false,
            board: Board::new(
                slots,
                contexts,
                Withheld::new(slots, idle, nanos(scenario.limits.step_ms.duration())),
                Turns::new(slots, idle),
            ),
        }
    }

    /// The same for a run whose entries are told at most so late: nought where one thread tells them all, in the order of time.
    #[must_use]
    pub fn told_within(mut self, late: Duration) -> Self {
        self.moves.hold_back(nanos(late));
        self.haves.hold_back(nanos(late));
        self
    }

    /// The same where the entries' times are those of several clocks, which may be a little apart. What would be violated by the order of
    /// entries is not told.
    #[must_use]
    pub fn of_several_clocks(self) -> Self {
        Self { has_one_clock: false, ..self }
    }

    /// Takes in what happened next on a context; those of several threads may be a little out of order.
    pub fn take(&mut self, entry: &Entry) {
        let index = entry.context.worker * self.contexts_per_worker + entry.context.context;
        let Some(context) = self.contexts.get_mut(index as usize) else { return };
        let visit = context.visit(entry);
        let is_near = self.near.get(entry.context.worker as usize).is_some_and(|near| *near);
        let share = self.shares.as_mut().and_then(|shares| {
            let share = &mut shares[index as usize];
            let its = share.take(entry, self.idle, self.straggling, is_near).map(Move::Shares);
            if let Some(has) = share.has(entry, self.idle) {
                self.haves.add(entry.at, index, has);
            }
            its
        });
        let mut its = context.take(entry, self.idle, self.straggling, is_near);
        // Each context tells it when it does something, and the first one for all of them.
        if matches!(entry.what, EventKind::Disturbed(_)) && self.disturbed.is_none_or(|known| known < context.disturbed)
        {
            self.disturbed = self.disturbed.map(|_| context.disturbed);
            its = Some(Move::Disturbed);
        }
        self.share_streams |= matches!(&entry.what, EventKind::Sent(step) if step.pattern.has(Trait::SharesStream));
        let turn = self.queuers[index as usize].take(entry, self.straggling).filter(|_| self.share_streams);
        // Who had a slot before, and not this ID, matters to its turn.
        let (asks, begins) = if matches!(turn, Some(Turn::Asks(_))) { (turn, None) } else { (None, turn) };
        let moves = begins.map(Move::Turns).into_iter().chain(visit.map(Move::Visits)).chain(its).chain(share);
        for its in moves.chain(asks.map(Move::Turns)) {
            self.moves.add(entry.at, index, its);
        }
        self.make(false);
    }

    /// Steps that were executed in a slot that another sequence certainly had, STARTs that waited while a later one got a slot, and
    /// sequences that were executed although they waited beyond their time limit, since the last time.
    pub fn violations(&mut self) -> Vec<Violation> {
        let (shown, overdue) = (take(&mut self.board.seats.shown), take(&mut self.board.full.overdue));
        let passed_over = take(&mut self.board.turns.found);
        if !self.has_one_clock {
            return Vec::new();
        }
        let id = |context| self.place(context).correlation_id;
        let intrusions = shown.iter().map(|its| its.accusation(id));
        let out_of_turn = passed_over.iter().map(|its| its.accusation(self.board.slots(), id));
        intrusions.chain(out_of_turn).chain(overdue).map(|accusation| self.violation(accusation)).collect()
    }

    /// A START that waited although no sequence of the run had one of the slots. Another client may have had it.
    pub fn withheld(&self) -> Option<Violation> {
        self.shares.as_ref().filter(|_| self.has_one_clock)?;
        let (_, accusation) = self.board.withheld.worst.as_ref()?;
        Some(self.violation(accusation.clone()))
    }

    fn violation(&self, accusation: Accusation) -> Violation {
        let Accusation { context, request, kind, at, evidence } = accusation;
        Violation::at(self.place(context).of_request(request), kind, at, evidence)
    }

    /// Nothing more comes.
    pub fn conclude(&mut self) {
        self.make(true);
    }

    fn place(&self, index: u32) -> Place {
        let (worker, context) = (index / self.contexts_per_worker, index % self.contexts_per_worker);
        let correlation_id = correlation_id(&self.scenario, worker, context);
        Place::new(ContextId { worker, context }, correlation_id, None)
    }

    /// The longest wait for a slot of a START that was sent when every slot was certainly taken, and who had the slots meanwhile.
    pub fn longest_wait(&self) -> Option<LongestWait> {
        let waited = self.board.longest.as_ref()?;
        let name = |place: &Place| self.scenario.population_of(place.worker).name.clone();
        let place = self.place(waited.context);
        let holder = |(held, shared): &(wait::Held, Nanos)| {
            let place = self.place(held.context);
            Holder {
                population: name(&place),
                correlation_id: place.correlation_id,
                slot: held.slot,
                held_ms: ms(*shared),
            }
        };
        Some(LongestWait {
            population: name(&place),
            correlation_id: place.correlation_id,
            at_ns: waited.since,
            waited_ms: ms(waited.until.saturating_sub(waited.since)),
            holders: waited.holders.iter().map(holder).collect(),
        })
    }

    /// How many sequences certainly have a slot, as far as the entries of all contexts are there.
    pub fn taken(&self) -> usize {
        self.board.taken()
    }

    /// Entries are missing, so that nothing is certain any more.
    pub fn forget(&mut self) {
        self.make(true);
        self.contexts.fill(Context::default());
        (self.disturbed, self.shares) = (None, None);
        self.board.forget();
        self.board.turns.give_up();
        self.offer.forget();
    }

    /// What was there to be executed in the seconds that were over since the last time; in the last one, too, after `conclude`.
    pub fn offered(&mut self) -> Vec<(u64, Offered)> {
        self.offer.over()
    }

    /// How often what was reached.
    pub fn reached(&self) -> Claims {
        self.board.claims
    }

    /// Makes the moves that are due, or all.
    fn make(&mut self, is_over: bool) {
        while let Some((at, index, its)) = self.moves.next(is_over) {
            self.board.make(its, index, at);
        }
        while let Some((at, index, has)) = self.haves.next(is_over) {
            self.offer.take(has, index, at);
        }
        if is_over {
            self.offer.end_second();
        }
    }
}

impl Context {
    /// The slot in which the step was executed that is answered, where the model tells it.
    fn visit(&self, entry: &Entry) -> Option<Visit> {
        let EventKind::Answered(request, _, seen) = &entry.what else { return None };
        Some(Visit { request: *request, slot: (*seen)?.slot()?, since: self.since })
    }

    /// Until when a START may wait that the server has at once: nothing of its ID is before it, and no slow network.
    fn limit(&self, step: &Step, at: Nanos, is_near: bool) -> Option<Limited> {
        let is_had_at_once = is_near && self.unanswered == 0 && at >= self.unclear_until;
        let deadline = deadline(step, at).filter(|_| is_had_at_once)?;
        Some(Limited { request: step.request, deadline, since: at })
    }

    /// A further step of a sequence that may still wait as a whole: until when, because of this step.
    fn shorter_limit(&self, step: &Step, at: Nanos) -> Option<Move> {
        let may_wait = self.start.is_some() && self.limited == Some(step.request.sequence);
        deadline(step, at).filter(|_| may_wait && !self.is_spread).map(Move::MayWaitUntil)
    }

    fn take(&mut self, entry: &Entry, idle: Nanos, straggling: Nanos, is_near: bool) -> Option<Move> {
        match &entry.what {
            EventKind::Sent(step) => {
                let limit = self.limit(step, entry.at, is_near).filter(|_| step.start);
                if self.unanswered == 0 {
                    self.since = entry.at;
                    (self.lane, self.is_spread) = (entry.lane, false);
                }
                self.is_spread |= self.lane != entry.lane;
                self.unanswered += 1;
                if step.start {
                    self.start = Some((step.request, entry.at));
                    (self.waits_since, self.pattern) = (Some(entry.at), Some(step.pattern));
                    self.may_be_ended = step.end;
                    self.has_slot &= !step.end;
                    self.limited = limit.map(|limited| limited.request.sequence);
                    return Some(Move::Asks { ends: step.end, limit });
                }
                self.may_be_ended |= step.end;
                step.end.then(|| self.leave()).flatten().or_else(|| self.shorter_limit(step, entry.at))
            }
            EventKind::Answered(request, _, seen) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                // Where a step behind START was executed, START was. Its response may still be held back on its stream.
                if let Some((_, sent_at)) = self.start.take_if(|(start, _)| start.sequence == request.sequence) {
                    self.until = sent_at.saturating_add(idle);
                    self.has_slot = !self.may_be_ended;
                    let is_certain = self.has_slot && !self.is_spread && sent_at >= self.unclear_until;
                    let slot = seen.filter(|_| is_certain).and_then(Seen::slot).map(|slot| (slot, request.sequence));
                    self.waits_since = None;
                    return Some(Move::Starts(self.has_slot.then_some(self.until), slot, self.pattern));
                }
                let until = self.since.saturating_add(idle);
                if !self.has_slot || self.start.is_some() || until <= self.until {
                    return None;
                }
                self.until = until;
                Some(Move::Stays(until))
            }
            // What else comes, and what does not, may mean that the sequence is gone.
            EventKind::Received(_) | EventKind::GaveUp => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.waits_since = self.waits_since.filter(|_| !self.settles_start(&entry.what));
                if entry.what == EventKind::GaveUp {
                    self.unclear_until = entry.at.saturating_add(straggling);
                }
                self.lose()
            }
            EventKind::Cut(_) => {
                if self.unanswered > 0 {
                    self.unclear_until = entry.at.saturating_add(straggling);
                }
                self.unanswered = 0;
                self.waits_since = None;
                self.lose()
            }
            EventKind::Disturbed(_) => {
                self.disturbed += 1;
                self.lose()
            }
            // Its answer may lie there unread.
            EventKind::StoppedReading(_) => self.limited.take().map(|_| Move::Forgoes),
            EventKind::Due(_)
            | EventKind::Opened(..)
            | EventKind::HalfClosed
            | EventKind::Closed
            | EventKind::ServedBy(_)
            | EventKind::NotClosed => None,
        }
    }

    /// Whether nobody waits any more for the answer to the START after this.
    fn settles_start(&self, what: &EventKind) -> bool {
        match what {
            EventKind::Received(received) => received.request() == self.start.map(|(request, _)| request),
            _ => true,
        }
    }

    /// Nothing is certain of the sequence any more, nor of one whose START is under way.
    fn lose(&mut self) -> Option<Move> {
        self.may_be_ended = true;
        self.leave()
    }

    fn leave(&mut self) -> Option<Move> {
        take(&mut self.has_slot).then_some(Move::Leaves)
    }
}

/// When the time limit of a step has passed.
fn deadline(step: &Step, at: Nanos) -> Option<Nanos> {
    match step.special {
        Some(Special::TimeoutUs(us @ 1..)) => Some(at.saturating_add(us.saturating_mul(1000))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
