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
pub(super) struct StreamContext {
    pub(super) id: ContextId,
    window: Window,
    arithmetic: Arithmetic,
    /// What steps travel over where nothing else is said.
    pub(super) transport: Transport,
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
pub(super) enum Next {
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
    pub(super) fn new(id: ContextId, window: Window, transport: Transport, arithmetic: Arithmetic) -> Self {
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
    pub(super) fn begin(&mut self, pattern: Pattern, acts: Vec<Act>, serial: u32, due: Option<Due>) {
        debug_assert!(self.is_done(), "a context holds one conversation at a time");
        self.pattern = pattern;
        self.transports = [self.transport; Lane::MAX as usize];
        self.deadlines = [None; Lane::MAX as usize];
        self.acts = acts.into();
        self.serial = serial;
        (self.began, self.due) = (due.map(|due| due.at), due);
        self.is_behind = due.is_some_and(|due| !due.waited);
    }

    pub(super) fn next(&mut self, now: Nanos) -> Next {
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
    pub(super) fn waits_for_server(&mut self) {
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
    pub(super) fn reopens_over(&self, lane: Lane) -> Connection {
        self.deadlines[lane.index()].map_or(Connection::Own, |(over, _)| over)
    }

    /// How long what is opened on a lane may take.
    pub(super) fn deadline(&self, lane: Lane) -> Option<Duration> {
        self.deadlines[lane.index()].map(|(_, us)| Duration::from_micros(us.get().into()))
    }

    /// When the step that [`Self::next`] named was due, where it has a time of its own.
    pub(super) fn due(&self) -> Option<Due> {
        self.due
    }

    /// The step that [`Self::next`] named was sent.
    pub(super) fn on_sent(&mut self, lane: Lane, step: &Step, now: Nanos) {
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
    pub(super) fn on_outcome(&mut self, lane: Lane, request: RequestId) {
        let in_flight = &mut self.in_flight[lane.index()];
        if let Some(index) = in_flight.iter().position(|its| its.request == request) {
            in_flight.remove(index);
            burst::forget(in_flight);
        }
    }

    /// Nothing was read up to now: what is unanswered is waited for from now on.
    pub(super) fn read_on(&mut self, now: Nanos) {
        for its in self.in_flight.iter_mut().flatten() {
            its.since = now;
        }
    }

    /// Forgets what is unanswered on a lane.
    pub(super) fn forget(&mut self, lane: Lane) {
        self.in_flight[lane.index()].clear();
    }

    /// Forgets what is not done and not answered.
    pub(super) fn abandon(&mut self) {
        self.acts.clear();
        self.pause_ends = None;
        self.in_flight.iter_mut().for_each(VecDeque::clear);
    }

    /// Since when the oldest unanswered request is waited for.
    pub(super) fn waits_since(&self) -> Option<Nanos> {
        self.in_flight.iter().filter_map(|lane| lane.front()).map(|its| its.since).min()
    }

    /// The lane whose oldest request has waited for longest.
    pub(super) fn slowest(&self) -> Lane {
        let fronts =
            (0..).zip(&self.in_flight).filter_map(|(lane, waiting)| Some((waiting.front()?.since, Lane(lane))));
        fronts.min().map_or(Lane::FIRST, |(_, lane)| lane)
    }

    /// The request of a lane that has waited for longest.
    pub(super) fn oldest(&self, lane: Lane) -> Option<RequestId> {
        Some(self.in_flight[lane.index()].front()?.request)
    }

    /// Whether a request is waited for that a server that is right answers with a response.
    pub(super) fn is_to_be_answered(&self, lane: Lane, request: RequestId) -> bool {
        self.in_flight[lane.index()].iter().any(|its| its.request == request && !its.may_be_rejected)
    }

    /// The requests of a lane that are unanswered, the oldest first: as many as two.
    pub(super) fn under_way(&self, lane: Lane) -> Vec<RequestId> {
        self.in_flight[lane.index()].iter().take(2).map(|its| its.request).collect()
    }

    pub(super) fn unanswered(&self, lane: Lane) -> usize {
        self.in_flight[lane.index()].len()
    }

    pub(super) fn is_at_rest(&self) -> bool {
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
mod tests {
    use std::num::NonZeroU32;

    use std::num::NonZeroU16;

    use super::*;

    const SECOND: Lane = Lane(1);

    fn send(lane: Lane, sequence: u32, step: u32) -> Act {
        let value = (10 * sequence + step).into();
        Act::Send {
            lane,
            id: 0,
            sequence,
            step,
            of: 2,
            start: step == 0,
            end: step == 1,
            value,
            elements: NonZeroU16::MIN,
            special: None,
        }
    }

    fn context(window: Window, acts: Vec<Act>) -> StreamContext {
        let id = ContextId { worker: 3, context: 1 };
        let mut context = StreamContext::new(id, window, Transport::GrpcStream, Arithmetic::default());
        context.begin(Pattern::ValidValid, acts, 7, None);
        context
    }

    fn two_sequences(window: Window) -> StreamContext {
        context(window, vec![send(Lane::FIRST, 0, 0), send(Lane::FIRST, 0, 1), send(Lane::FIRST, 1, 0)])
    }

    fn send_all(context: &mut StreamContext, now: Nanos) -> Vec<Step> {
        let mut sent = Vec::new();
        while let Next::Send(lane, step) = context.next(now) {
            context.on_sent(lane, &step, now);
            sent.push(step);
        }
        sent
    }

    #[test]
    fn steps_go_out_back_to_back_with_their_names() {
        let mut context = two_sequences(Window::All);
        let seen: Vec<_> = send_all(&mut context, 0)
            .iter()
            .map(|s| (s.request.to_string(), s.start, s.end, s.value.value()))
            .collect();
        let expected = [("3-1-7-0", true, false, 0), ("3-1-7-1", false, true, 1), ("3-1-8-0", true, false, 10)];
        assert_eq!(seen, expected.map(|(id, start, end, value)| (id.to_owned(), start, end, value)));
        assert_eq!(context.next(0), Next::Wait(None));
    }

    #[test]
    fn what_needs_a_queue_has_it_whatever_the_window() {
        let mut context = two_sequences(Window::Steps(NonZeroU32::MIN));
        context.pattern = Pattern::CancelQueued;
        assert_eq!(send_all(&mut context, 0).len(), 3);
    }

    #[test]
    fn a_window_holds_steps_back_until_answers_come() {
        let mut context = two_sequences(Window::Steps(NonZeroU32::new(2).expect("not zero")));
        let sent = send_all(&mut context, 0);
        assert_eq!((sent.len(), context.next(0)), (2, Next::Wait(None)));
        context.on_outcome(Lane::FIRST, sent[1].request);
        assert_eq!(send_all(&mut context, 1).len(), 1);
        assert!(!context.is_done());
    }

    #[test]
    fn calls_are_made_one_by_one_whatever_the_window() {
        let acts = [
            send(Lane::FIRST, 0, 0),
            Act::Open { lane: SECOND, over: Connection::Own, by: Some(Transport::Http), within_us: None },
        ];
        let acts: Vec<_> = acts.into_iter().chain([send(SECOND, 0, 1), send(SECOND, 1, 0)]).collect();
        let mut context = context(Window::All, acts);
        context.pattern = Pattern::Burst;
        // The act in between ends the first of them.
        assert_eq!((send_all(&mut context, 0).len(), send_all(&mut context, 0).len()), (1, 1));
        assert_eq!(context.next(0), Next::Wait(None), "the lane of calls carries one");
    }

    #[test]
    fn answers_are_awaited_and_pauses_kept() {
        let acts = vec![
            send(Lane::FIRST, 0, 0),
            send(Lane::FIRST, 0, 1),
            Act::Await { lane: Lane::FIRST, unanswered: 1 },
            Act::Pause { us: 5 },
            Act::Cancel { lane: Lane::FIRST },
        ];
        let mut context = context(Window::All, acts);
        let sent = send_all(&mut context, 0);
        assert_eq!(context.next(10), Next::Wait(None));
        context.on_outcome(Lane::FIRST, sent[0].request);
        assert_eq!(context.next(100), Next::Wait(Some(5100)));
        assert_eq!(context.next(5099), Next::Wait(Some(5100)));
        assert_eq!(context.next(5100), Next::End(Lane::FIRST, Cut::Cancelled));
        assert_eq!(context.next(5100), Next::Wait(None), "until the lane is forgotten");
        context.forget(Lane::FIRST);
        assert_eq!(context.next(5100), Next::Done);
    }

    #[test]
    fn a_pause_before_a_step_begins_when_the_window_has_room_for_it() {
        let acts = vec![send(Lane::FIRST, 0, 0), Act::Pause { us: 5 }, send(Lane::FIRST, 0, 1)];
        let mut alone = context(Window::Steps(NonZeroU32::MIN), acts.clone());
        let sent = send_all(&mut alone, 0);
        assert_eq!(alone.next(100), Next::Wait(None));
        alone.on_outcome(Lane::FIRST, sent[0].request);
        assert_eq!(alone.next(20_000), Next::Wait(Some(25_000)));
        assert!(matches!(alone.next(25_000), Next::Send(..)));
        let mut pipelined = context(Window::All, acts);
        send_all(&mut pipelined, 0);
        assert_eq!(pipelined.next(100), Next::Wait(Some(5000)));
    }

    #[test]
    fn steps_are_due_at_their_times_whether_or_not_those_before_them_have_answers() {
        let at = |us| Act::At { us };
        let acts = vec![send(Lane::FIRST, 0, 0), at(10), send(Lane::FIRST, 0, 1), at(20), send(Lane::FIRST, 1, 0)];
        let due = |at, waited| Some(Due { at, waited });
        let mut one_by_one = context(Window::Steps(NonZeroU32::MIN), Vec::new());
        one_by_one.begin(Pattern::Valid, acts.clone(), 0, due(500, true));
        let first = send_all(&mut one_by_one, 700);
        assert_eq!(one_by_one.next(700), Next::Wait(Some(10_500)), "after the time at which it was due");
        assert_eq!((one_by_one.next(10_600), one_by_one.due()), (Next::Wait(None), due(10_500, false)), "no room");
        one_by_one.on_outcome(Lane::FIRST, first[0].request);
        let second = send_all(&mut one_by_one, 30_000);
        one_by_one.on_outcome(Lane::FIRST, second[0].request);
        assert!(matches!(one_by_one.next(30_000), Next::Send(..)));
        assert_eq!(one_by_one.due(), due(20_500, false), "it could not be sent in time");
        // A pause before a step that is due begins when the step could be sent.
        let acts_with_pause = vec![send(Lane::FIRST, 0, 0), Act::Pause { us: 5 }, at(1), send(Lane::FIRST, 0, 1)];
        let mut thinking = context(Window::Steps(NonZeroU32::MIN), acts_with_pause);
        let first = send_all(&mut thinking, 0);
        assert_eq!(thinking.next(0), Next::Wait(None));
        thinking.on_outcome(Lane::FIRST, first[0].request);
        assert_eq!(thinking.next(80_000), Next::Wait(Some(85_000)));
        // A client that did nothing for too long is late by itself, and on time again when it waits again.
        let mut slow = context(Window::All, Vec::new());
        slow.begin(Pattern::Valid, acts.clone(), 0, due(0, true));
        send_all(&mut slow, 0);
        assert!(matches!(slow.next(15_000), Next::Send(..)));
        assert_eq!(slow.due(), due(10_000, true));
        let mut refused = context(Window::All, Vec::new());
        refused.begin(Pattern::Valid, acts.clone(), 0, due(0, false));
        send_all(&mut refused, 12_000);
        assert_eq!(refused.next(12_000), Next::Wait(Some(20_000)), "it caught up");
        refused.waits_for_server();
        assert!(matches!(refused.next(21_000), Next::Send(..)));
        assert_eq!(refused.due(), due(20_000, false), "its stream had no room");
        // Where nothing is due before, it is when it begins, and a pause is none of the server's.
        let mut alone = context(Window::All, acts);
        assert_eq!((send_all(&mut alone, 700).len(), alone.next(800)), (1, Next::Wait(Some(10_700))));
        let acts = vec![send(Lane::FIRST, 0, 0), Act::Pause { us: 5 }, at(10), send(Lane::FIRST, 0, 1)];
        let mut pausing = context(Window::All, acts);
        send_all(&mut pausing, 0);
        assert_eq!((pausing.next(0), pausing.next(5_000)), (Next::Wait(Some(5_000)), Next::Wait(Some(15_000))));
    }

    #[test]
    fn an_id_that_shares_a_stream_waits_for_its_own_responses_alone() {
        let step = |lane, id, step| match send(lane, id, step) {
            Act::Send { lane, sequence, step, of, start, end, value, elements, special, .. } => {
                Act::Send { lane, id, sequence, step, of, start, end, value, elements, special }
            }
            other => other,
        };
        let acts =
            [step(SECOND, 0, 0), step(SECOND, 1, 0), step(Lane(2), 0, 1), step(Lane(2), 0, 2), step(SECOND, 1, 1)];
        let mut context = context(Window::Steps(NonZeroU32::MIN), acts.into());
        context.pattern = Pattern::SharedStream;
        let sent = send_all(&mut context, 0);
        let of = |step: &Step| (step.request.context, step.request.step);
        assert_eq!(sent.iter().map(of).collect::<Vec<_>>(), [(1, 0), (2, 0), (1, 1)], "START and the step behind it");
        context.on_outcome(Lane(2), sent[2].request);
        assert_eq!(context.next(0), Next::Wait(None), "the response to START is still to come");
        context.on_outcome(SECOND, sent[0].request);
        assert_eq!(send_all(&mut context, 0).iter().map(of).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
    }

    #[test]
    fn the_lane_that_waits_for_longest_is_known() {
        let acts = vec![
            send(SECOND, 0, 0),
            Act::Open { lane: SECOND, over: Connection::Fresh, by: None, within_us: None },
            send(Lane::FIRST, 0, 1),
            send(SECOND, 1, 0),
        ];
        let mut context = context(Window::All, acts);
        assert_eq!(context.waits_since(), None);
        let first = send_all(&mut context, 5);
        // The act in between was done with.
        send_all(&mut context, 8);
        assert_eq!((context.waits_since(), context.slowest()), (Some(5), SECOND));
        context.on_outcome(SECOND, first[0].request);
        assert_eq!((context.waits_since(), context.slowest()), (Some(8), Lane::FIRST));
    }

    #[test]
    fn what_was_abandoned_is_neither_sent_nor_waited_for() {
        let mut context = two_sequences(Window::All);
        let Next::Send(lane, step) = context.next(0) else { panic!("a step") };
        context.on_sent(lane, &step, 0);
        context.abandon();
        assert_eq!(context.next(0), Next::Done);
    }
}
