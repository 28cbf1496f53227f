//! A stream context: one correlation ID, and what is under way on it and on those that share its stream. No input or output happens here.

use std::{collections::VecDeque, num::NonZeroU32, time::Duration};

use workload::{
    arithmetic::Arithmetic,
    burst,
    conversation::{Act, Connection, Lane, Transport},
    event::{ContextId, Cut, Due, Nanos},
    scenario::Window,
    sequence::{Pattern, RequestId, Step, Trait},
};

/// A context and the conversation that it holds.
#[derive(Debug)]
pub(crate) struct StreamContext {
    pub(crate) id: ContextId,
    window: Window,
    arithmetic: Arithmetic,
    /// What steps travel over where nothing else is said.
    pub(crate) transport: Transport,
    /// What they travel over, by lane.
    transports: [Transport; Lane::MAX as usize],
    /// The deadline in microseconds of what is opened on a lane, and over what, as often as it passes.
    deadlines: [Option<(Connection, NonZeroU32)>; Lane::MAX as usize],
    pattern: Pattern,
    /// The number of the conversation's first sequence among the worker's.
    serial: u32,
    acts: VecDeque<Act>,
    pause_ends: Option<Nanos>,
    /// When the conversation was due, or began; pauses are counted in.
    began: Option<Nanos>,
    /// When the next step is due, where it has a time of its own.
    due: Option<Due>,
    /// Whether the client waited for the server, or began late because no worker was free, and is not on time again.
    is_behind: bool,
    /// The unanswered requests of each lane, oldest first.
    in_flight: [VecDeque<Unanswered>; Lane::MAX as usize],
    /// The latest sequence that began without START.
    without_start: Option<u32>,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    request: RequestId,
    /// Since when it is waited for.
    since: Nanos,
    /// Whether a server that is right may reject it.
    may_be_rejected: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Open(Lane, Connection, Transport),
    /// To be told with [`StreamContext::on_sent`] when it is done; all others count as done.
    Send(Lane, Step),
    HalfClose(Lane),
    Close(Lane),
    End(Lane, Cut),
    /// Nothing for so many microseconds, and what comes is not read.
    StopReading(u64),
    /// Nothing until an answer comes, or this time.
    Wait(Option<Nanos>),
    Done,
}

impl StreamContext {
    pub(crate) fn new(id: ContextId, window: Window, transport: Transport, arithmetic: Arithmetic) -> Self {
        Self {
            id,
            window,
            arithmetic,
            transport,
            transports: [transport; Lane::MAX as usize],
            deadlines: [None; Lane::MAX as usize],
            pattern: Pattern::Valid,
            serial: 0,
            acts: VecDeque::new(),
            pause_ends: None,
            began: None,
            due: None,
            is_behind: false,
            in_flight: Default::default(),
            without_start: None,
        }
    }

    /// Takes a conversation, the first sequence of which is the worker's `serial`-th. Where it has a time of its own, that is when it was due.
    pub(crate) fn begin(&mut self, pattern: Pattern, acts: Vec<Act>, serial: u32, due: Option<Due>) {
        debug_assert!(self.is_done(), "a context holds one conversation at a time");
        self.pattern = pattern;
        self.transports = [self.transport; Lane::MAX as usize];
        self.deadlines = [None; Lane::MAX as usize];
        self.acts = acts.into();
        self.serial = serial;
        (self.began, self.due) = (due.map(|due| due.at), due);
        self.is_behind = due.is_some_and(|due| !due.waited);
    }

    pub(crate) fn next(&mut self, now: Nanos) -> Next {
        loop {
            let Some(act) = self.acts.front() else {
                if !self.is_at_rest() {
                    return Next::Wait(None);
                }
                burst::forget(&mut self.acts);
                return Next::Done;
            };
            let next = match *act {
                Act::Send { lane, id, step, .. } if !self.has_room(lane, id, step) => return self.held_back(),
                Act::Send { lane, id, sequence, step, of, start, end, value, elements, special } => {
                    let ContextId { worker, context } = self.id;
                    let context = context + id;
                    let request = RequestId { worker, context, sequence: self.serial + sequence, step };
                    let value = self.arithmetic.number(value).of_elements(elements);
                    // A request that is a whole sequence ends it, too.
                    let end = end || (start && self.arithmetic.answers.are_iterative());
                    return Next::Send(lane, Step { request, pattern: self.pattern, start, end, value, of, special });
                }
                Act::Await { lane, unanswered } if self.unanswered(lane) > unanswered as usize => {
                    return self.held_back();
                }
                // A pause before a step begins when the step could be sent.
                Act::Pause { .. } if self.pause_ends.is_none() && self.next_step_has_no_room() => {
                    return Next::Wait(None);
                }
                Act::Pause { us } => {
                    let ends = *self.pause_ends.get_or_insert(now.saturating_add(us.saturating_mul(1000)));
                    if now < ends {
                        return Next::Wait(Some(ends));
                    }
                    self.shift(us);
                    None
                }
                Act::At { us } => {
                    let began = *self.began.get_or_insert(now);
                    let at = began.saturating_add(us.saturating_mul(1000));
                    if now < at {
                        self.due = Some(Due { at, waited: true });
                        self.is_behind = false;
                        return Next::Wait(Some(at));
                    }
                    // It may have been waited for.
                    self.due = self.due.filter(|due| due.at == at).or(Some(Due { at, waited: !self.is_behind }));
                    None
                }
                Act::Await { .. } => None,
                Act::Open { lane, over, by, within_us } => {
                    let by = by.unwrap_or(self.transport);
                    self.transports[lane.index()] = by;
                    self.deadlines[lane.index()] = within_us.map(|us| (over, us));
                    Some(Next::Open(lane, over, by))
                }
                Act::HalfClose { lane } => Some(Next::HalfClose(lane)),
                Act::Close { lane } => Some(Next::Close(lane)),
                Act::Cancel { lane } => Some(Next::End(lane, Cut::Cancelled)),
                Act::Reset { lane } => Some(Next::End(lane, Cut::Reset)),
                Act::Kill { lane } => Some(Next::End(lane, Cut::Killed)),
                Act::StopReading { us } => {
                    self.shift(us);
                    Some(Next::StopReading(us))
                }
            };
            self.pause_ends = None;
            self.acts.pop_front();
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Waits for what the server does. Where a step is due already, it is the server that is late.
    fn held_back(&mut self) -> Next {
        self.waits_for_server();
        Next::Wait(None)
    }

    /// What is sent late from now on is late because of the server.
    pub(crate) fn waits_for_server(&mut self) {
        self.is_behind = true;
        self.due = self.due.map(|due| Due { waited: false, ..due });
    }

    /// What is done at times of its own is done so much later, because the conversation has it so.
    fn shift(&mut self, us: u64) {
        let later = |at: Nanos| at.saturating_add(us.saturating_mul(1000));
        self.began = self.began.map(later);
        self.due = self.due.map(|due| Due { at: later(due.at), ..due });
    }

    /// Over what a step opens a lane that is not open.
    pub(crate) fn reopens_over(&self, lane: Lane) -> Connection {
        self.deadlines[lane.index()].map_or(Connection::Own, |(over, _)| over)
    }

    /// How long what is opened on a lane may take.
    pub(crate) fn deadline(&self, lane: Lane) -> Option<Duration> {
        self.deadlines[lane.index()].map(|(_, us)| Duration::from_micros(us.get().into()))
    }

    /// When the step that [`Self::next`] named was due, where it has a time of its own.
    pub(crate) fn due(&self) -> Option<Due> {
        self.due
    }

    /// The step that [`Self::next`] named was sent.
    pub(crate) fn on_sent(&mut self, lane: Lane, step: &Step, now: Nanos) {
        self.began.get_or_insert(now);
        self.due = None;
        let sequence = step.request.sequence;
        if step.is_first() && !step.start {
            self.without_start = Some(sequence);
        }
        let may_be_rejected = step.special.is_some() || self.without_start == Some(sequence);
        self.in_flight[lane.index()].push_back(Unanswered { request: step.request, since: now, may_be_rejected });
        self.acts.pop_front();
    }

    /// A request was answered, in whatever way.
    pub(crate) fn on_outcome(&mut self, lane: Lane, request: RequestId) {
        let in_flight = &mut self.in_flight[lane.index()];
        if let Some(index) = in_flight.iter().position(|its| its.request == request) {
            in_flight.remove(index);
            burst::forget(in_flight);
        }
    }

    /// Nothing was read up to now: what is unanswered is waited for from now on.
    pub(crate) fn read_on(&mut self, now: Nanos) {
        for its in self.in_flight.iter_mut().flatten() {
            its.since = now;
        }
    }

    /// Forgets what is unanswered on a lane.
    pub(crate) fn forget(&mut self, lane: Lane) {
        self.in_flight[lane.index()].clear();
    }

    /// Forgets what is not done and not answered.
    pub(crate) fn abandon(&mut self) {
        self.acts.clear();
        self.pause_ends = None;
        self.in_flight.iter_mut().for_each(VecDeque::clear);
    }

    /// Since when the oldest unanswered request is waited for.
    pub(crate) fn waits_since(&self) -> Option<Nanos> {
        self.in_flight.iter().filter_map(|lane| lane.front()).map(|its| its.since).min()
    }

    /// The lane whose oldest request has waited for longest.
    pub(crate) fn slowest(&self) -> Lane {
        let fronts =
            (0..).zip(&self.in_flight).filter_map(|(lane, waiting)| Some((waiting.front()?.since, Lane(lane))));
        fronts.min().map_or(Lane::FIRST, |(_, lane)| lane)
    }

    /// The request of a lane that has waited for longest.
    pub(crate) fn oldest(&self, lane: Lane) -> Option<RequestId> {
        Some(self.in_flight[lane.index()].front()?.request)
    }

    /// Whether a request is waited for that a server that is right answers with a response.
    pub(crate) fn is_to_be_answered(&self, lane: Lane, request: RequestId) -> bool {
        self.in_flight[lane.index()].iter().any(|its| its.request == request && !its.may_be_rejected)
    }

    /// The requests of a lane that are unanswered, the oldest first: as many as two.
    pub(crate) fn under_way(&self, lane: Lane) -> Vec<RequestId> {
        self.in_flight[lane.index()].iter().take(2).map(|its| its.request).collect()
    }

    pub(crate) fn unanswered(&self, lane: Lane) -> usize {
        self.in_flight[lane.index()].len()
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.in_flight.iter().all(VecDeque::is_empty)
    }

    /// Whether the act behind the next one is a step for which the window has no room.
    fn next_step_has_no_room(&self) -> bool {
        let next = self.acts.iter().skip(1).find(|act| !matches!(act, Act::At { .. }));
        matches!(next, Some(Act::Send { lane, id, step, .. }) if !self.has_room(*lane, *id, *step))
    }

    fn has_room(&self, lane: Lane, id: u32, step: u32) -> bool {
        if self.pattern.has(Trait::SharesStream) {
            let mut of_the_id =
                self.in_flight.iter().flatten().filter(|its| its.request.context == self.id.context + id);
            // START may still wait for its slot when the step behind it is sent.
            return of_the_id.all(|its| its.request.step == 0 && step == 1);
        }
        if self.transports[lane.index()].is_stream() {
            self.pattern.has(Trait::Queues) || self.window.has_room(self.unanswered(lane))
        } else {
            // Nothing but the answer of the one before it orders a call.
            self.unanswered(lane) == 0
        }
    }

    fn is_done(&self) -> bool {
        self.acts.is_empty() && self.is_at_rest()
    }
}

#[cfg(test)]
mod tests;
