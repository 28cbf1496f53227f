//! One event, as it is kept.

use serde::{Deserialize, Serialize};

use crate::{
    answers::Answers,
    controls::{self, Seen},
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, Disturbance, Event, EventKind, Nanos, Received, Response, Series},
    number::{Datatype, Number},
    sequence::{CorrelationId, RequestId, Step},
    tensor::{Shape, Tensor, TensorData},
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
    Opened(Connection, Transport),
    /// A step was sent.
    Sent(Step),
    /// A request was answered with a sum, in the form that was asked for; and with what the model saw, where that was, too.
    Answered(RequestId, Number, Option<Seen>),
    /// Anything else that a stream brought: errors, and answers in another form.
    Received(Box<Received>),
    /// The client gave up waiting for the oldest request in flight.
    GaveUp,
    /// The client said that no further step follows.
    HalfClosed,
    /// The client read nothing for so many microseconds.
    StoppedReading(u64),
    /// The stream ended early.
    Cut(Cut),
    /// The stream ended in good order.
    Closed,
    /// The stream did not end.
    NotClosed,
    /// The model or the server is being exchanged.
    Disturbed(Disturbance),
}

/// The form of an answer that is as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// The model's name.
    pub model: String,
    /// The model's version, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The output's name.
    pub output: String,
    /// The output's type.
    #[serde(default)]
    pub datatype: Datatype,
    /// The output's shape.
    pub shape: Shape,
    /// How often a request is answered.
    #[serde(default)]
    pub answers: Answers,
    /// What a new sequence's state begins with.
    #[serde(default)]
    pub initial_state: i64,
    /// The name and the shape of the output that tells what the model saw, where it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<(String, Vec<i64>)>,
}

impl Entry {
    /// What is kept of an event.
    #[must_use]
    pub fn new(event: &Event, correlation_id: CorrelationId, form: &Form) -> Self {
        let what = match &event.kind {
            EventKind::Opened(connection, transport) => What::Opened(*connection, *transport),
            EventKind::Sent(step) => What::Sent(*step),
            EventKind::Received(received) => match form.sum_of(received) {
                Some((request, sum, seen)) => What::Answered(request, sum, seen),
                None => What::Received(Box::new(received.clone())),
            },
            EventKind::GaveUp => What::GaveUp,
            EventKind::HalfClosed => What::HalfClosed,
            EventKind::StoppedReading(us) => What::StoppedReading(*us),
            EventKind::Cut(cut) => What::Cut(cut.clone()),
            EventKind::Closed => What::Closed,
            EventKind::NotClosed => What::NotClosed,
            EventKind::Disturbed(disturbance) => What::Disturbed(*disturbance),
        };
        Self { at: event.at, context: event.context, correlation_id, lane: event.lane, what }
    }

    /// The event that the entry is of: one that the oracle takes as it took the first.
    #[must_use]
    pub fn event(&self, form: &Form) -> Event {
        let kind = match &self.what {
            What::Opened(connection, transport) => EventKind::Opened(*connection, *transport),
            What::Sent(step) => EventKind::Sent(*step),
            What::Answered(request, sum, seen) => EventKind::Received(form.answer(*request, *sum, *seen)),
            What::Received(received) => EventKind::Received((**received).clone()),
            What::GaveUp => EventKind::GaveUp,
            What::HalfClosed => EventKind::HalfClosed,
            What::StoppedReading(us) => EventKind::StoppedReading(*us),
            What::Cut(cut) => EventKind::Cut(cut.clone()),
            What::Closed => EventKind::Closed,
            What::NotClosed => EventKind::NotClosed,
            What::Disturbed(disturbance) => EventKind::Disturbed(*disturbance),
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
    let response = |response: &Response| {
        size_of::<Response>()
            + response.model.len()
            + response.version.len()
            + response.outputs.iter().map(tensor).sum::<usize>()
    };
    let result = match &received.result {
        Ok(first) => response(first) + first.series.further.iter().map(response).sum::<usize>(),
        Err(text) => text.len(),
    };
    size_of::<Received>() + received.id.len() + result
}

impl Form {
    /// The request and the sum of an answer that is exactly as it should be, and what the model saw, where that is asked for.
    fn sum_of(&self, received: &Received) -> Option<(RequestId, Number, Option<Seen>)> {
        let first = received.result.as_ref().ok()?;
        let request = received.request()?;
        let (sum, seen) = self.told_by(first)?;
        let Series { further, is_unfinished } = &first.series;
        let is_right = |(number, response)| {
            self.told_by(response)
                .is_some_and(|(its, saw)| (its, its.elements(), saw) == (self.nth(number, sum), sum.elements(), seen))
        };
        let is_whole = !is_unfinished && further.len() + 1 == self.answers.count() as usize;
        (is_whole && (1..).zip(further).all(is_right)).then_some((request, sum, seen))
    }

    /// The sum of a response that is as it should be, and what the model saw, where that is asked for.
    fn told_by(&self, response: &Response) -> Option<(Number, Option<Seen>)> {
        let (output, seen) = match (response.outputs.as_slice(), &self.seen) {
            ([output], None) => (output, None),
            ([output, seen], Some(form)) => (output, Some(seen_of(seen, form)?)),
            _ => return None,
        };
        let is_right = response.model == self.model
            && response.version == self.version()
            && output.name == self.output
            && output.datatype == self.datatype.name();
        let size = self.shape.size_in(&output.shape).filter(|_| is_right)?;
        let sum = output.data.alike(self.datatype, self.shape.elements(size))?.ok()?;
        Some((sum.of_elements(size), seen))
    }

    fn version(&self) -> &str {
        self.version.as_deref().unwrap_or_default()
    }

    /// What the answer with this number is where the first one is this. To an iterative model the request's own INPUT is what the
    /// first answer has besides the initial state, if it is right.
    fn nth(&self, number: u32, first: Number) -> Number {
        let input = first.wrapping_sub(self.datatype.number(self.initial_state));
        first.wrapping_add(self.answers.besides(number, input)).of_elements(first.elements())
    }

    /// The answer of this form.
    fn answer(&self, request: RequestId, sum: Number, seen: Option<Seen>) -> Received {
        let seen = seen.zip(self.seen.as_ref()).map(|(seen, (name, shape))| Tensor {
            name: name.clone(),
            datatype: controls::DATATYPE.to_owned(),
            shape: shape.clone(),
            data: TensorData::Raw(seen.to_bytes()),
        });
        let response = |sum: Number| {
            let output = Tensor {
                name: self.output.clone(),
                datatype: self.datatype.name().to_owned(),
                shape: self.shape.of(sum.elements()),
                data: TensorData::Raw(sum.to_bytes().repeat(self.shape.elements(sum.elements()))),
            };
            let outputs = std::iter::once(output).chain(seen.clone()).collect();
            Response {
                model: self.model.clone(),
                version: self.version().to_owned(),
                outputs,
                series: Series::default(),
            }
        };
        let further = (1..self.answers.count()).map(|number| response(self.nth(number, sum))).collect();
        let series = Series { further, is_unfinished: false };
        Received { id: request.to_string(), result: Ok(Response { series, ..response(sum) }), code: None }
    }
}

/// What an output of this name and shape says that the model saw.
fn seen_of(output: &Tensor, (name, shape): &(String, Vec<i64>)) -> Option<Seen> {
    let is_right = output.name == *name && output.shape == *shape && output.datatype == controls::DATATYPE;
    match &output.data {
        TensorData::Raw(bytes) if is_right => Seen::from_bytes(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_several_elements_is_kept_with_their_number() {
        let form = Form {
            model: "m".into(),
            version: None,
            output: "OUTPUT".into(),
            datatype: Datatype::Uint64,
            shape: vec![1, -1].into(),
            answers: Answers::Several(2),
            initial_state: 0,
            seen: None,
        };
        let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
        let sum = Datatype::Uint64.number(-5).of_elements(9.try_into().expect("not 0"));
        let right = form.answer(request, sum, None);
        let kept = form.sum_of(&right).expect("it is as it should be");
        assert_eq!((kept.1.elements(), form.answer(request, kept.1, None)), (sum.elements(), right.clone()));
        let mut other = right;
        other.result.as_mut().expect("a response").outputs[0].shape = vec![1, 8];
        assert_eq!(form.sum_of(&other), None);
    }

    #[test]
    fn an_entry_gives_the_event_back() {
        let bare = Form {
            model: "m".into(),
            version: None,
            output: "OUTPUT".into(),
            datatype: Datatype::Int32,
            shape: vec![1, 1].into(),
            answers: Answers::One,
            initial_state: 0,
            seen: None,
        };
        let form = Form { seen: Some(("SEEN".into(), vec![1, 5])), ..bare.clone() };
        let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
        let seen = Seen::new([Some(true), None, Some(false)], -1, Some(7));
        let right = form.answer(request, (-5).into(), Some(seen));
        let other_id = Received { id: "+1-2-3-4".into(), ..right.clone() };
        let not_seen = form.answer(request, (-5).into(), None);
        let error = Received { id: String::new(), result: Err("no".into()), code: None };
        let context = ContextId { worker: 1, context: 2 };
        let id = CorrelationId(7.try_into().expect("not zero"));
        let received = [(right.clone(), true), (other_id, false), (error, false), (not_seen.clone(), false)];
        let of_bare = [(right, false), (not_seen, true)];
        let all = received.map(|each| (&form, each)).into_iter().chain(of_bare.map(|each| (&bare, each)));
        for (form, (received, is_short)) in all {
            let event = Event { at: 9, context, lane: Lane(1), kind: EventKind::Received(received) };
            let entry = Entry::new(&event, id, form);
            assert_eq!(matches!(entry.what, What::Answered(..)), is_short, "{entry:?}");
            assert_eq!(entry.event(form), event);
        }
    }
}
