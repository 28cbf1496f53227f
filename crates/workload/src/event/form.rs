//! What an answer looks like that is as it should be, and how it is read.

use super::{EventKind, Received, Response, Series};
use crate::{
    answers::Answers,
    controls::{self, Seen},
    number::{Datatype, Number},
    sequence::RequestId,
    tensor::{Shape, Tensor, TensorData},
};

/// The form of an answer that is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The model's name.
    pub model: String,
    /// The model's version, where it is known.
    pub version: Option<String>,
    /// The output's name.
    pub output: String,
    /// The output's type.
    pub datatype: Datatype,
    /// The output's shape.
    pub shape: Shape,
    /// How often a request is answered.
    pub answers: Answers,
    /// What a new sequence's state begins with.
    pub initial_state: i64,
    /// The name and the shape of the output that tells what the model saw, where it is asked for.
    pub seen: Option<(String, Vec<i64>)>,
}

impl Form {
    /// Reads a message: the only place where the elements of a right answer are looked at.
    pub fn read(&self, kind: EventKind) -> EventKind {
        match &kind {
            EventKind::Received(received) => match self.sum_of(received) {
                Some((request, sum, seen)) => EventKind::Answered(request, sum, seen),
                None => kind,
            },
            _ => kind,
        }
    }

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
            // A server need not tell the version in its answers.
            && (response.version == self.version() || response.version.is_empty())
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

    /// The answer that has been read as this.
    pub fn answer(&self, request: RequestId, sum: Number, seen: Option<Seen>) -> Received {
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
        Received { id: request.to_string(), result: Ok(Response { series, ..response(sum) }), code: None, outputs: 0 }
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

    fn form() -> Form {
        Form {
            model: "m".into(),
            version: None,
            output: "OUTPUT".into(),
            datatype: Datatype::Int32,
            shape: vec![1, 1].into(),
            answers: Answers::One,
            initial_state: 0,
            seen: None,
        }
    }

    const REQUEST: RequestId = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };

    #[test]
    fn an_answer_of_several_elements_is_read_with_their_number() {
        let (datatype, shape) = (Datatype::Uint64, vec![1, -1].into());
        let form = Form { datatype, shape, answers: Answers::Several(2), ..form() };
        let sum = datatype.number(-5).of_elements(9.try_into().expect("not 0"));
        let right = form.answer(REQUEST, sum, None);
        let read = form.sum_of(&right).expect("it is as it should be");
        assert_eq!((read.1.elements(), form.answer(REQUEST, read.1, None)), (sum.elements(), right.clone()));
        let mut other = right;
        other.result.as_mut().expect("a response").outputs[0].shape = vec![1, 8];
        assert_eq!(form.sum_of(&other), None);
    }

    #[test]
    fn an_answer_that_is_as_it_should_be_is_read_and_any_other_message_left_as_it_came() {
        let (bare, sum) = (form(), Number::from(-5));
        let form = Form { seen: Some(("SEEN".into(), vec![1, 5])), ..bare.clone() };
        let seen = Some(Seen::new([Some(true), None, Some(false)], -1, Some(7)));
        let (right, not_seen) = (form.answer(REQUEST, sum, seen), form.answer(REQUEST, sum, None));
        assert_eq!(form.read(EventKind::Received(right.clone().into())), EventKind::Answered(REQUEST, sum, seen));
        assert_eq!(bare.read(EventKind::Received(not_seen.clone().into())), EventKind::Answered(REQUEST, sum, None));
        let other_id = Received { id: "+1-2-3-4".into(), ..right.clone() };
        let error = Received { id: String::new(), result: Err("no".into()), code: None, outputs: 0 };
        for (form, other) in [(&form, other_id), (&form, error), (&form, not_seen), (&bare, right)] {
            let other = EventKind::Received(other.into());
            assert_eq!(form.read(other.clone()), other);
        }
        assert_eq!(form.read(EventKind::Closed), EventKind::Closed);
    }
}
