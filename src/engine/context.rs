//! A stream context: one correlation ID, and what is under way on it. No input or output happens here.

use std::{collections::VecDeque, time::Duration};

use crate::{
    event::{ContextId, Nanos},
    scenario::Window,
    sequence::{Pattern, RequestId, Sequence, Step},
};

/// What a context sends without waiting in between: one sequence, or two back to back.
#[derive(Debug)]
pub(super) struct StreamContext {
    pub(super) id: ContextId,
    window: Window,
    pattern: Pattern,
    sequences: VecDeque<Sequence>,
    /// The next step of the first of `sequences`.
    next: RequestId,
    in_flight: VecDeque<(RequestId, Nanos)>,
}

impl StreamContext {
    pub(super) fn new(id: ContextId, window: Window) -> Self {
        let next = RequestId { worker: id.worker, context: id.context, sequence: 0, step: 0 };
        Self { id, window, pattern: Pattern::Valid, sequences: VecDeque::new(), next, in_flight: VecDeque::new() }
    }

    /// Takes sequences to send, the first of which is the worker's `serial`-th.
    pub(super) fn begin(&mut self, pattern: Pattern, sequences: impl IntoIterator<Item = Sequence>, serial: u32) {
        debug_assert!(self.is_done(), "a context runs one burst at a time");
        self.pattern = pattern;
        self.sequences.extend(sequences);
        self.next = RequestId { sequence: serial, step: 0, ..self.next };
    }

    /// The step to send next; none where all are sent, or the window is full.
    pub(super) fn next_request(&self) -> Option<Step> {
        let sequence = self.sequences.front().filter(|_| self.window.has_room(self.in_flight.len()))?;
        let (step, of) = (self.next.step as usize, sequence.values.len());
        Some(Step {
            request: self.next,
            pattern: self.pattern,
            start: sequence.start && step == 0,
            end: sequence.end && step + 1 == of,
            value: sequence.values[step],
            of: u32::try_from(of).expect("a length is a 32-bit number"),
        })
    }

    /// The step that [`Self::next_request`] named was sent.
    pub(super) fn on_sent(&mut self, step: &Step, now: Nanos) {
        self.in_flight.push_back((step.request, now));
        self.next.step += 1;
        if step.is_last() {
            self.sequences.pop_front();
            self.next = RequestId { sequence: self.next.sequence + 1, step: 0, ..self.next };
        }
    }

    /// A request was answered, in whatever way.
    pub(super) fn on_outcome(&mut self, request: RequestId) {
        if let Some(index) = self.in_flight.iter().position(|(waiting, _)| *waiting == request) {
            self.in_flight.remove(index);
        }
    }

    /// Forgets what is not sent and not answered.
    pub(super) fn abandon(&mut self) {
        self.sequences.clear();
        self.in_flight.clear();
    }

    /// When to give up, where each answer is lost after `limit`; none while nothing is in flight.
    pub(super) fn deadline(&self, limit: Duration) -> Option<Nanos> {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.in_flight.front().map(|(_, sent)| sent.saturating_add(limit))
    }

    /// Whether all is sent and answered.
    pub(super) fn is_done(&self) -> bool {
        self.sequences.is_empty() && self.in_flight.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn context(window: Window) -> StreamContext {
        let mut context = StreamContext::new(ContextId { worker: 3, context: 1 }, window);
        let first = Sequence { start: true, end: true, values: vec![10, 11] };
        let second = Sequence { start: true, end: false, values: vec![12, 13] };
        context.begin(Pattern::ValidNoEnd, [first, second], 7);
        context
    }

    fn send_all(context: &mut StreamContext, now: Nanos) -> Vec<Step> {
        let mut sent = Vec::new();
        while let Some(step) = context.next_request() {
            context.on_sent(&step, now);
            sent.push(step);
        }
        sent
    }

    #[test]
    fn two_sequences_go_out_back_to_back() {
        let mut context = context(Window::All);
        let seen: Vec<_> =
            send_all(&mut context, 0).iter().map(|s| (s.request.to_string(), s.start, s.end, s.value, s.of)).collect();
        let expected = [
            ("3-1-7-0", true, false, 10),
            ("3-1-7-1", false, true, 11),
            ("3-1-8-0", true, false, 12),
            ("3-1-8-1", false, false, 13),
        ];
        assert_eq!(seen, expected.map(|(id, start, end, value)| (id.to_owned(), start, end, value, 2)));
    }

    #[test]
    fn a_window_holds_steps_back_until_answers_come() {
        let mut context = context(Window::Steps(NonZeroU32::new(2).expect("not zero")));
        let sent = send_all(&mut context, 0);
        assert_eq!(sent.len(), 2);
        context.on_outcome(sent[1].request);
        assert_eq!(send_all(&mut context, 1).len(), 1);
        assert!(!context.is_done());
    }

    #[test]
    fn the_deadline_is_that_of_the_oldest_request() {
        let mut context = context(Window::All);
        assert_eq!(context.deadline(Duration::from_nanos(100)), None);
        let first = context.next_request().expect("a step");
        context.on_sent(&first, 5);
        let second = context.next_request().expect("a step");
        context.on_sent(&second, 8);
        assert_eq!(context.deadline(Duration::from_nanos(100)), Some(105));
        context.on_outcome(first.request);
        assert_eq!(context.deadline(Duration::from_nanos(100)), Some(108));
    }

    #[test]
    fn what_was_abandoned_is_neither_sent_nor_waited_for() {
        let mut context = context(Window::All);
        let step = context.next_request().expect("a step");
        context.on_sent(&step, 0);
        context.abandon();
        assert!(context.is_done());
        assert_eq!(context.next_request(), None);
    }
}
