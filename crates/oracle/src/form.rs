//! What an answer looks like that is as it should be, and how it is read.

use super::{Rules, golden::Reading, response};
use workload::{
    controls::{self, Controls, Seen},
    event::{Received, Response, Series},
    number::Number,
    sequence::RequestId,
    tensor::{Tensor, TensorData},
};

impl Rules {
    /// The request and the sum of an answer that is exactly as it should be, and what the model saw, where that is asked for. This is the
    /// only place where the elements of a right answer are looked at. `expected` are the sums that a right one may have.
    pub(super) fn told_by_all(
        &self,
        received: &Received,
        expected: impl FnOnce() -> [Option<Number>; 2],
    ) -> Option<(RequestId, Number, Option<Seen>)> {
        let first = received.result.as_ref().ok()?;
        let request = received.request()?;
        if let Some(golden) = &self.golden {
            let is_right = !first.series.is_unfinished && first.all().all(|response| self.is_of_the_model(response));
            let expected = is_right.then(expected)?;
            // What is compared with other answers of the run needs its outputs.
            if expected.into_iter().flatten().any(|answer| !golden.knows(answer)) {
                return None;
            }
            return match golden.read(expected.into_iter().flatten(), first.all()) {
                Reading::State(sum) => Some((request, sum, None)),
                Reading::Ambiguous | Reading::Unlike(_) | Reading::Malformed => None,
            };
        }
        let (sum, seen) = self.told_by(first)?;
        let Series { further, is_unfinished, .. } = &first.series;
        let is_right = |(number, response)| {
            self.told_by(response)
                .is_some_and(|(its, saw)| (its, its.elements(), saw) == (self.nth(number, sum), sum.elements(), seen))
        };
        let is_whole = !is_unfinished && further.len() + 1 == self.arithmetic.answers.count() as usize;
        (is_whole && (1..).zip(further).all(is_right)).then_some((request, sum, seen))
    }

    /// The sum of a response that is as it should be, and what the model saw, where that is asked for.
    fn told_by(&self, response: &Response) -> Option<(Number, Option<Seen>)> {
        let (output, seen) = match (response.outputs.as_slice(), &self.controls) {
            ([output], None) => (output, None),
            // An ensemble gives its outputs in an order of its own.
            ([seen, output] | [output, seen], Some(controls)) if seen.name == controls.output => {
                (output, Some(seen_of(seen, controls)?))
            }
            _ => return None,
        };
        let is_right = self.is_of_the_model(response)
            && output.name == self.output
            && output.datatype == self.arithmetic.datatype.name();
        let size = self.shape.size_in(&output.shape).filter(|_| is_right)?;
        let sum = output.data.alike(self.arithmetic.datatype, self.shape.elements(size))?.ok()?;
        Some((sum.of_elements(size), seen))
    }

    /// Whether a response says that it is of the model, and of its version. A server need not tell the version in its answers.
    pub(super) fn is_of_the_model(&self, response: &Response) -> bool {
        response.model == self.model && (response.version == self.version() || response.version.is_empty())
    }

    fn version(&self) -> &str {
        self.version.as_deref().unwrap_or_default()
    }

    /// What the answer with this number is where the first one is this. To an iterative model the request's own INPUT is what the
    /// first answer has besides the initial state, if it is right.
    fn nth(&self, number: u32, first: Number) -> Number {
        let input = first.wrapping_sub(self.arithmetic.datatype.number(self.arithmetic.initial_state));
        first.wrapping_add(self.arithmetic.answers.besides(number, input)).of_elements(first.elements())
    }

    /// The answer that has been read as this.
    pub(super) fn answer(&self, request: RequestId, sum: Number, seen: Option<Seen>) -> Received {
        let seen = seen.zip(self.controls.as_ref()).map(|(seen, controls)| Tensor {
            name: controls.output.clone(),
            datatype: controls::DATATYPE.to_owned(),
            shape: controls.shape.clone(),
            data: TensorData::Raw(seen.to_bytes()),
        });
        let response = |sum: Number| {
            let output = Tensor {
                name: self.output.clone(),
                datatype: self.arithmetic.datatype.name().to_owned(),
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
        let further = (1..self.arithmetic.answers.count()).map(|number| response(self.nth(number, sum))).collect();
        let series = Series { further, ..Series::default() };
        Received { id: request.to_string(), result: Ok(Response { series, ..response(sum) }), code: None, outputs: 0 }
    }
}

/// What an output says that the model saw, where it has the right name and shape.
fn seen_of(output: &Tensor, controls: &Controls) -> Option<Seen> {
    let is_right = output.name == controls.output && output.shape == controls.shape;
    response::read(output).filter(|_| is_right)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Words;
    use workload::event::EventKind;
    use workload::{answers::Answers, arithmetic::Arithmetic, controls::Told, number::Datatype};

    fn rules() -> Rules {
        Rules {
            model: "m".into(),
            calls: None,
            version: None,
            output: "OUTPUT".into(),
            shape: vec![1, 1].into(),
            arithmetic: Arithmetic::default(),
            idle_limit: None,
            straggling: Duration::ZERO,
            mixes: false,
            restarts: false,
            words: Words::Known,
            controls: None,
            golden: None,
        }
    }

    /// What a message is read as.
    fn read(rules: &Rules, message: Received) -> EventKind {
        match rules.told_by_all(&message, Default::default) {
            Some((request, sum, seen)) => EventKind::Answered(request, sum, seen),
            None => EventKind::Received(message.into()),
        }
    }

    const REQUEST: RequestId = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };

    #[test]
    fn an_answer_of_several_elements_is_read_with_their_number() {
        let (datatype, shape) = (Datatype::Uint64, vec![1, -1].into());
        let arithmetic = Arithmetic { datatype, answers: Answers::Several(2), ..Arithmetic::default() };
        let rules = Rules { shape, arithmetic, ..rules() };
        let sum = datatype.number(-5).of_elements(9.try_into().expect("not 0"));
        let right = rules.answer(REQUEST, sum, None);
        let read = rules.told_by_all(&right, Default::default).expect("it is as it should be");
        assert_eq!((read.1.elements(), rules.answer(REQUEST, read.1, None)), (sum.elements(), right.clone()));
        let mut other = right;
        other.result.as_mut().expect("a response").outputs[0].shape = vec![1, 8];
        assert_eq!(rules.told_by_all(&other, Default::default), None);
    }

    #[test]
    fn an_answer_that_is_as_it_should_be_is_read_and_any_other_message_left_as_it_came() {
        let (bare, sum) = (rules(), Number::from(-5));
        let controls = Controls { output: "SEEN".into(), shape: vec![1, 5], told: Told::default(), slots: None };
        let rules = Rules { controls: Some(controls), ..bare.clone() };
        let seen = Some(Seen::new([Some(true), None, Some(false)], -1, Some(7)));
        let (right, not_seen) = (rules.answer(REQUEST, sum, seen), rules.answer(REQUEST, sum, None));
        assert_eq!(read(&rules, right.clone()), EventKind::Answered(REQUEST, sum, seen));
        assert_eq!(read(&bare, not_seen.clone()), EventKind::Answered(REQUEST, sum, None));
        let mut in_another_order = right.clone();
        in_another_order.result.as_mut().expect("a response").outputs.reverse();
        assert_eq!(read(&rules, in_another_order), EventKind::Answered(REQUEST, sum, seen));
        let other_id = Received { id: "+1-2-3-4".into(), ..right.clone() };
        let error = Received { id: String::new(), result: Err("no".into()), code: None, outputs: 0 };
        for (rules, other) in [(&rules, other_id), (&rules, error), (&rules, not_seen), (&bare, right)] {
            assert_eq!(read(rules, other.clone()), EventKind::Received(other.into()));
        }
    }
}
