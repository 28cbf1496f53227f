//! One sequence of the slot check. No input or output happens here.

use std::time::Duration;

use rand::RngExt as _;

use workload::{
    event::Nanos,
    inputs::Values,
    seed::Seed,
    sequence::{Pattern, RequestId, Step},
};

/// How many steps of a sequence may be unanswered: where a step takes long, more would only make a queue.
const IN_FLIGHT_MAX: u32 = 3;
#[derive(Clone, Debug)]
pub(super) struct OpenSequence {
    values: Values,
    next: RequestId,
    in_flight: u32,
    last_sent: Nanos,
    /// When the last step that was accepted had been sent.
    accepted_sent: Option<Nanos>,
    end_sent: bool,
    /// Whether its END was answered.
    pub(super) ended: bool,
    /// The server has ended it by the idle limit.
    reaped: bool,
}

impl OpenSequence {
    pub(super) fn new(first: RequestId, values: Values) -> Self {
        Self {
            values,
            next: first,
            in_flight: 0,
            last_sent: 0,
            accepted_sent: None,
            end_sent: false,
            ended: false,
            reaped: false,
        }
    }

    /// The next step, which is handed to the stream now.
    pub(super) fn next_step(&mut self, end: bool, now: Nanos) -> Step {
        let request = self.next;
        self.next.step += 1;
        self.in_flight += 1;
        self.last_sent = now;
        self.end_sent |= end;
        let value = self.values.of(request, value(request).into());
        let of = if end { request.step + 1 } else { request.step + 2 };
        Step { request, pattern: Pattern::Valid, start: request.step == 0, end, value, of, special: None }
    }

    /// A step that had been sent at this time was executed.
    pub(super) fn accepted(&mut self, step: &Step, sent: Nanos) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.accepted_sent = self.accepted_sent.max(Some(sent));
        self.ended |= step.end;
    }

    /// A step was rejected, because the sequence had gone idle.
    pub(super) fn reaped(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.reaped = true;
    }

    /// Whether its START was answered.
    pub(super) fn is_started(&self) -> bool {
        self.accepted_sent.is_some()
    }

    /// Whether it is there, as far as is known, and no END was sent.
    pub(super) fn is_open(&self) -> bool {
        self.is_started() && !self.end_sent && !self.reaped
    }

    /// Whether nothing of it is under way but perhaps a START that waits for a slot.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_started() || self.ended || self.reaped
    }

    /// Whether a step that was sent then or later was accepted, and so the sequence was open all the time until then.
    pub(super) fn was_open_at(&self, time: Nanos) -> bool {
        self.accepted_sent.is_some_and(|sent| sent >= time)
    }

    pub(super) fn has_room(&self) -> bool {
        self.is_open() && self.in_flight < IN_FLIGHT_MAX
    }

    /// Whether a step is due, so that the sequence does not go idle.
    pub(super) fn is_due(&self, now: Nanos, every: Duration) -> bool {
        self.has_room() && Duration::from_nanos(now.saturating_sub(self.last_sent)) >= every
    }
}

/// What a step carries: like no other step's, so that sums which are mixed show, and tell of what.
fn value(request: RequestId) -> i32 {
    Seed(request.sequence.into()).generator(request.step).random()
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::arithmetic::Arithmetic;

    #[test]
    fn a_sequence_is_open_from_the_answer_to_its_start_to_its_end() {
        let first = RequestId { worker: 9, context: 2, sequence: 0, step: 0 };
        let mut line = OpenSequence::new(first, Values::new(Arithmetic::default(), None));
        let start = line.next_step(false, 5);
        assert!(start.start && !start.end);
        assert!(!line.is_open() && !line.has_room() && line.is_at_rest());
        line.accepted(&start, 5);
        assert!(line.is_open() && line.was_open_at(5) && !line.was_open_at(6) && !line.is_at_rest());

        assert!(line.is_due(25, Duration::from_nanos(20)) && !line.is_due(24, Duration::from_nanos(20)));
        let steps = [25, 26, 27].map(|now| line.next_step(false, now));
        assert!(steps.iter().all(|step| !step.start && step.value != start.value) && !line.has_room());
        line.accepted(&steps[0], 25);
        assert!(line.has_room() && line.was_open_at(25));

        let end = line.next_step(true, 30);
        assert!(end.end && end.is_last() && !line.is_open() && !line.ended);
        line.accepted(&end, 30);
        assert!(line.ended && line.is_at_rest());
    }
}
