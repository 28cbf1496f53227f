//! One event, as it is kept.

use serde::{Deserialize, Serialize};

use crate::{
    conversation::{Connection, Lane},
    event::{ContextId, Cut, Event, EventKind, Nanos, Received},
    sequence::{CorrelationId, RequestId, Step},
    tensor::INT32,
};

/// One event of a run, in a form that costs little to keep: of an answer that is as it should be there is only the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When the client saw it.
    pub at: Nanos,
    /// On which context.
    pub context: ContextId,
    /// The context's correlation ID.
    pub correlation_id: CorrelationId,
    /// On which of the context's streams.
    pub lane: Lane,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A stream was opened.
    Opened(Connection),
    /// A step was sent.
    Sent(Step),
    /// A request was answered with a sum, in the form that was asked for.
    Answered(RequestId, i32),
    /// Anything else that a stream brought: errors, and answers in another form.
    Received(Box<Received>),
    /// The client gave up waiting for the oldest request in flight.
    GaveUp,
    /// The client said that no further step follows.
    HalfClosed,
    /// The stream ended early.
    Cut(Cut),
    /// The stream ended in good order.
    Closed,
    /// The stream did not end.
    NotClosed,
}

/// The form of an answer that is as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// The model's name.
    pub model: String,
    /// The output's name.
    pub output: String,
    /// The output's shape.
    pub shape: Vec<i64>,
}

impl Entry {
    /// What is kept of an event.
    #[must_use]
    pub fn new(event: &Event, correlation_id: CorrelationId, form: &Form) -> Self {
        let what = match &event.kind {
            EventKind::Opened(connection) => What::Opened(*connection),
            EventKind::Sent(step) => What::Sent(*step),
            EventKind::Received(received) => match form.sum_of(received) {
                Some((request, sum)) => What::Answered(request, sum),
                None => What::Received(Box::new(received.clone())),
            },
            EventKind::GaveUp => What::GaveUp,
            EventKind::HalfClosed => What::HalfClosed,
            EventKind::Cut(cut) => What::Cut(cut.clone()),
            EventKind::Closed => What::Closed,
            EventKind::NotClosed => What::NotClosed,
        };
        Self { at: event.at, context: event.context, correlation_id, lane: event.lane, what }
    }
}

impl Form {
    /// The request and the sum of an answer that is exactly as it should be.
    fn sum_of(&self, received: &Received) -> Option<(RequestId, i32)> {
        let response = received.result.as_ref().ok()?;
        let [output] = response.outputs.as_slice() else { return None };
        let is_right = response.model == self.model
            && output.name == self.output
            && output.datatype == INT32
            && output.shape == self.shape;
        let request = received.request().filter(|request| is_right && request.to_string() == received.id)?;
        Some((request, output.data.single_int32()?))
    }
}
