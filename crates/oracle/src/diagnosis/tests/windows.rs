//! Windows that are written by hand.

use std::num::NonZeroU64;

use super::super::{Cause, Explanation, ModelFacts, explain};
use crate::{Evidence, Place, Violation, ViolationKind, history::Entry};
use workload::{
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, EventKind, Nanos, Received, Response},
    sequence::{CorrelationId, Flaw, IdForm, Pattern, RequestId, Special, Step},
    tensor::{Tensor, TensorData},
};

pub(super) const MS: Nanos = 1_000_000;

/// What the hand-made windows know of the model: two slots, 500 ms, Direct.
pub(super) fn known() -> ModelFacts {
    ModelFacts {
        arithmetic: workload::arithmetic::Arithmetic::default(),
        idle_limit: Some(std::time::Duration::from_millis(500)),
        slots: Some(2),
        keyed_by_id: false,
        keeps_count: false,
        controls: Some("SEEN".to_owned()),
        id_forms: vec![IdForm::default()],
        untold_servers: None,
    }
}

pub(super) fn keyed() -> ModelFacts {
    ModelFacts { keyed_by_id: true, ..known() }
}

/// A window that is told event by event. Each worker has one context.
pub(super) struct Tale {
    pub(super) entries: Vec<Entry>,
    pub(super) now: Nanos,
    /// The time from one event to the next.
    apart: Nanos,
}

impl Default for Tale {
    fn default() -> Self {
        Self { entries: Vec::new(), now: 0, apart: MS }
    }
}

pub(super) fn request(worker: u32, sequence: u32, step: u32) -> RequestId {
    RequestId { worker, context: 0, sequence, step }
}

impl Tale {
    /// A window in which no time passes but by [`Tale::wait`], as in a simulation.
    pub(super) fn at_once() -> Self {
        Self { apart: 0, ..Self::default() }
    }

    pub(super) fn tell(&mut self, worker: u32, what: EventKind) -> &mut Self {
        self.now += self.apart;
        let correlation_id = CorrelationId(NonZeroU64::new(u64::from(worker) + 1).expect("not zero"));
        let context = ContextId { worker, context: 0 };
        self.entries.push(Entry { at: self.now, context, correlation_id, lane: Lane::FIRST, what });
        self
    }

    pub(super) fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self
    }

    pub(super) fn open(&mut self, worker: u32) -> &mut Self {
        self.tell(worker, EventKind::Opened(Connection::Own, Transport::GrpcStream))
    }

    /// Opens its next stream over a connection that is made for it.
    pub(super) fn open_elsewhere(&mut self, worker: u32) -> &mut Self {
        self.tell(worker, EventKind::Opened(Connection::Fresh, Transport::GrpcStream))
    }

    /// Sends steps `from..` of a sequence; the first has START, the last END.
    pub(super) fn send(&mut self, worker: u32, sequence: u32, values: &[i32]) -> &mut Self {
        let of = u32::try_from(values.len()).expect("short");
        self.send_part(worker, sequence, 0, of, values)
    }

    /// Sends a step in the middle of a sequence, with a flaw.
    pub(super) fn send_flawed(&mut self, worker: u32, sequence: u32, step: u32, flaw: Flaw) -> &mut Self {
        let request = request(worker, sequence, step);
        let special = Some(Special::Flaw(flaw));
        let step = Step {
            request,
            pattern: Pattern::Malformed,
            start: false,
            end: false,
            value: 1.into(),
            of: step + 2,
            special,
        };
        self.tell(worker, EventKind::Sent(step))
    }

    pub(super) fn send_part(&mut self, worker: u32, sequence: u32, from: u32, of: u32, values: &[i32]) -> &mut Self {
        for (step, &value) in (from..).zip(values) {
            let (start, end, value) = (step == 0, step + 1 == of, value.into());
            let request = request(worker, sequence, step);
            self.tell(
                worker,
                EventKind::Sent(Step { request, pattern: Pattern::Valid, start, end, value, of, special: None }),
            );
        }
        self
    }

    /// Answers steps from the first on.
    pub(super) fn answer(&mut self, worker: u32, sequence: u32, from: u32, sums: &[i32]) -> &mut Self {
        for (step, &sum) in (from..).zip(sums) {
            self.tell(worker, EventKind::Answered(request(worker, sequence, step), sum.into(), None));
        }
        self
    }

    pub(super) fn error(&mut self, worker: u32, sequence: u32, step: u32, text: &str) -> &mut Self {
        let id = request(worker, sequence, step).to_string();
        self.tell(
            worker,
            EventKind::Received(Box::new(Received { id, result: Err(text.to_owned()), code: None, outputs: 0 })),
        )
    }

    pub(super) fn malformed(&mut self, worker: u32, sequence: u32, step: u32, outputs: Vec<Tensor>) -> &mut Self {
        let id = request(worker, sequence, step).to_string();
        let result = Ok(Response { model: "m".to_owned(), outputs, ..Response::default() });
        self.tell(worker, EventKind::Received(Box::new(Received { id, result, code: None, outputs: 0 })))
    }

    pub(super) fn broken(&mut self, worker: u32, reason: &str) -> &mut Self {
        self.tell(worker, EventKind::Cut(Cut::Broken(reason.to_owned())))
    }

    pub(super) fn ended(&mut self, worker: u32) -> &mut Self {
        self.tell(worker, EventKind::Cut(Cut::Ended))
    }

    pub(super) fn explain(
        &self,
        known: &ModelFacts,
        kind: ViolationKind,
        (worker, sequence, step): (u32, u32, u32),
        evidence: Evidence,
    ) -> Vec<Explanation> {
        let asked = request(worker, sequence, step);
        let about = |entry: &&Entry| match &entry.what {
            EventKind::Answered(request, ..) => *request == asked,
            EventKind::Received(received) => received.request() == Some(asked),
            EventKind::Cut(_) | EventKind::NotClosed => entry.context.worker == worker,
            _ => false,
        };
        let at_ns = self.entries.iter().find(about).map_or(self.now, |entry| entry.at);
        let correlation_id = CorrelationId(NonZeroU64::new(u64::from(worker) + 1).expect("not zero"));
        let place = Place::new(ContextId { worker, context: 0 }, correlation_id, None).of_request(asked);
        explain(&Violation::at(place, kind, at_ns, evidence), &self.entries, known)
    }

    /// What a wrong sum is put down to.
    pub(super) fn wrong_sum(&self, known: &ModelFacts, at: (u32, u32, u32), expected: i32) -> Vec<Explanation> {
        let evidence = Evidence::Sum { expected: vec![expected.into()], seen: 0.into(), disorder: None };
        self.explain(known, ViolationKind::WrongSum, at, evidence)
    }

    /// What another violation is put down to.
    pub(super) fn other(&self, kind: ViolationKind, at: (u32, u32, u32)) -> Vec<Explanation> {
        self.explain(&known(), kind, at, Evidence::Overtaken)
    }

    /// What a stream's end is put down to.
    pub(super) fn of_break(&self, cut: Cut) -> Vec<Explanation> {
        let evidence = if let Cut::Broken(reason) = cut { Evidence::Broken { reason } } else { Evidence::Ended };
        self.explain(&known(), ViolationKind::StreamBroken, (0, 0, 0), evidence)
    }
}

pub(super) fn causes(explanations: &[Explanation]) -> Vec<Cause> {
    explanations.iter().map(|explanation| explanation.cause).collect()
}

/// An output as it should be, to be spoilt.
pub(super) fn output(bytes: usize) -> Tensor {
    let data = TensorData::Raw(vec![0; bytes]);
    Tensor { name: "OUTPUT".to_owned(), datatype: "INT32".to_owned(), shape: vec![1, 1], data }
}
