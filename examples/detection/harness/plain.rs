//! A plain checker, to compare with: after the fact it compares each sum with the expected one, as Triton's own stress test does.

use std::collections::{BTreeMap, VecDeque};

use oracle::history::Entry;
use workload::{
    event::{ContextId, Cut, EventKind, Received},
    number::{Datatype, Number},
    sequence::{Pattern, Step},
};

/// What the plain checker comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plain {
    /// It fails: a sum is another, an answer is an error or unreadable, or a step without START is not rejected.
    Fails,
    /// It waits for ever: an answer does not come, and it has no limit for that.
    Hangs,
    /// It passes.
    Passes,
}

/// What has to come back.
#[derive(Clone, Copy)]
enum Expected {
    Sum(Number),
    Rejection,
    /// What the patterns do not determine: it was not made for clients that fail.
    Anything,
}

#[derive(Default)]
struct Context {
    sum: Option<Number>,
    /// A stream was cut by the client: what it left may still arrive.
    is_in_doubt: bool,
    /// What each lane's stream waits for, in the order sent.
    waiting: BTreeMap<u8, VecDeque<Expected>>,
}

/// Judges a run by what was sent and what came, in the order of each stream; no look at IDs of requests, or at time.
pub fn judge(entries: &[Entry]) -> Plain {
    let mut contexts: BTreeMap<ContextId, Context> = BTreeMap::new();
    let mut verdict = Plain::Passes;
    for entry in entries {
        let context = contexts.entry(entry.context).or_default();
        if !context.takes(entry.lane.0, &entry.what) {
            return Plain::Fails;
        }
        if matches!(entry.what, EventKind::GaveUp | EventKind::NotClosed) {
            verdict = Plain::Hangs;
        }
    }
    verdict
}

impl Context {
    /// Takes in what happened; whether it is right.
    fn takes(&mut self, lane: u8, what: &EventKind) -> bool {
        let waiting = self.waiting.entry(lane).or_default();
        match what {
            EventKind::Opened(..) => waiting.clear(),
            EventKind::Sent(step) => {
                let expected = self.expect(step);
                self.waiting.entry(lane).or_default().push_back(expected);
            }
            EventKind::Answered(_, sum, _) => {
                return match waiting.pop_front() {
                    Some(Expected::Sum(expected)) => expected == *sum,
                    Some(Expected::Rejection) => false,
                    // It reads as many answers as it sent requests.
                    Some(Expected::Anything) | None => true,
                };
            }
            EventKind::Received(received) => {
                return match waiting.pop_front() {
                    Some(Expected::Sum(expected)) => is_sum(received, expected),
                    Some(Expected::Rejection) => is_rejection(received),
                    Some(Expected::Anything) | None => true,
                };
            }
            EventKind::Cut(Cut::Broken(_) | Cut::Status(..) | Cut::Ended) => {
                return waiting.iter().all(|its| matches!(its, Expected::Anything));
            }
            EventKind::Cut(cut) => self.is_in_doubt |= cut.is_blameless(),
            EventKind::Due(_)
            | EventKind::ServedBy(_)
            | EventKind::GaveUp
            | EventKind::HalfClosed
            | EventKind::StoppedReading(_)
            | EventKind::Disturbed(_)
            | EventKind::Closed
            | EventKind::NotClosed => {}
        }
        true
    }

    fn expect(&mut self, step: &Step) -> Expected {
        let is_known = !self.is_in_doubt && step.pattern.index() <= Pattern::NoEnd.index();
        if step.pattern == Pattern::NoStart {
            return if is_known { Expected::Rejection } else { Expected::Anything };
        }
        let before = if step.start { Some(Number::default()) } else { self.sum };
        self.sum = before.map(|before| before.wrapping_add(step.value));
        match self.sum {
            Some(sum) if is_known => Expected::Sum(sum),
            _ => Expected::Anything,
        }
    }
}

/// Whether a client that looks at the output's number alone reads this sum in an answer of another form than was asked for.
fn is_sum(received: &Received, expected: Number) -> bool {
    received.result.as_ref().is_ok_and(|response| match response.outputs.as_slice() {
        [output] => {
            // Where the type is another, the same bytes are another number.
            let is_form = output.name == "OUTPUT" && output.datatype == "INT32" && output.shape.len() == 2;
            is_form && output.data.alike(Datatype::Int32, 1) == Some(Ok(expected))
        }
        _ => false,
    })
}

fn is_rejection(received: &Received) -> bool {
    received.result.as_ref().is_err_and(|text| text.contains("must specify the START flag"))
}
