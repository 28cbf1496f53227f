//! One event, as it is kept.

use serde::{Deserialize, Serialize};

use crate::{
    conversation::{Connection, Lane},
    event::{ContextId, Cut, Event, EventKind, Nanos, Received, Response},
    sequence::{CorrelationId, RequestId, Step},
    tensor::{INT32, Tensor, TensorData},
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

    /// The event that the entry is of: one that the oracle takes as it took the first.
    #[must_use]
    pub fn event(&self, form: &Form) -> Event {
        let kind = match &self.what {
            What::Opened(connection) => EventKind::Opened(*connection),
            What::Sent(step) => EventKind::Sent(*step),
            What::Answered(request, sum) => EventKind::Received(form.answer(*request, *sum)),
            What::Received(received) => EventKind::Received((**received).clone()),
            What::GaveUp => EventKind::GaveUp,
            What::HalfClosed => EventKind::HalfClosed,
            What::Cut(cut) => EventKind::Cut(cut.clone()),
            What::Closed => EventKind::Closed,
            What::NotClosed => EventKind::NotClosed,
        };
        Event { at: self.at, context: self.context, lane: self.lane, kind }
    }

    /// About how many bytes of memory the entry takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.what {
                What::Received(received) => received_bytes(received),
                What::Cut(Cut::Broken(reason)) => reason.len(),
                _ => 0,
            }
    }
}

fn received_bytes(received: &Received) -> usize {
    let tensor = |tensor: &Tensor| {
        let data = match &tensor.data {
            TensorData::Raw(bytes) => bytes.len(),
            TensorData::Int32(elements) => elements.len() * size_of::<i32>(),
            TensorData::Absent => 0,
        };
        size_of::<Tensor>() + tensor.name.len() + tensor.datatype.len() + tensor.shape.len() * size_of::<i64>() + data
    };
    let result = match &received.result {
        Ok(response) => response.model.len() + response.outputs.iter().map(tensor).sum::<usize>(),
        Err(text) => text.len(),
    };
    size_of::<Received>() + received.id.len() + result
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
        let request = received.request().filter(|_| is_right && is_written_as_sent(&received.id))?;
        Some((request, output.data.single_int32()?))
    }

    /// The answer of this form.
    fn answer(&self, request: RequestId, sum: i32) -> Received {
        let output = Tensor {
            name: self.output.clone(),
            datatype: INT32.to_owned(),
            shape: self.shape.clone(),
            data: TensorData::Raw(sum.to_le_bytes().into()),
        };
        Received { id: request.to_string(), result: Ok(Response { model: self.model.clone(), outputs: vec![output] }) }
    }
}

/// Whether the text of a request's ID is the one that this tool writes, so that the numbers alone tell it: no sign, and no
/// zero before other digits.
fn is_written_as_sent(id: &str) -> bool {
    let mut before = b'-';
    let mut zero_leads = false;
    id.bytes().all(|byte| {
        let is_digit = byte.is_ascii_digit();
        let follows_a_leading_zero = zero_leads && is_digit;
        zero_leads = byte == b'0' && before == b'-';
        before = byte;
        (is_digit || byte == b'-') && !follows_a_leading_zero
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_that_the_numbers_tell_are_kept_as_numbers() {
        for id in ["0-0-0-0", "7-10-4000000000-100"] {
            let request: RequestId = id.parse().expect("an ID");
            assert!(is_written_as_sent(id) && request.to_string() == id, "{id}");
        }
        for id in ["00-0-0-0", "1-01-0-0", "+1-0-0-0", "1-0-0-00"] {
            let request: RequestId = id.parse().expect("an ID, as the standard library reads numbers");
            assert!(!is_written_as_sent(id) && request.to_string() != id, "{id}");
        }
    }

    #[test]
    fn an_entry_gives_the_event_back() {
        let form = Form { model: "m".into(), output: "OUTPUT".into(), shape: vec![1, 1] };
        let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
        let right = form.answer(request, -5);
        let other_id = Received { id: "+1-2-3-4".into(), ..right.clone() };
        let error = Received { id: String::new(), result: Err("no".into()) };
        let context = ContextId { worker: 1, context: 2 };
        let id = CorrelationId(7.try_into().expect("not zero"));
        for (received, is_short) in [(right, true), (other_id, false), (error, false)] {
            let event = Event { at: 9, context, lane: Lane(1), kind: EventKind::Received(received) };
            let entry = Entry::new(&event, id, &form);
            assert_eq!(matches!(entry.what, What::Answered(..)), is_short, "{entry:?}");
            assert_eq!(entry.event(&form), event);
        }
    }
}
