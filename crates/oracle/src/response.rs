//! Whether a response is what was asked for.

use super::{Evidence, ViolationKind, observation::Observation, stream::Request};
use workload::{
    controls::{self, Controls, Seen},
    event::Response,
    number::Number,
    sequence::Step,
    tensor::{Tensor, TensorData},
};

impl Observation<'_> {
    /// The number that a response holds; none, and a violation, where it is not as it should be, or cannot be.
    pub(super) fn sum_of(&mut self, request: &Request, response: &Response) -> Option<Number> {
        let step = &request.step;
        if response.model != self.rules.model {
            let (expected, seen) = (self.rules.model.clone(), response.model.clone());
            self.violation(ViolationKind::WrongModel, Some(step), Evidence::Model { expected, seen });
        }
        let rules = self.rules;
        // Not every server tells the version in its answers.
        if let Some(version) = rules.version.as_ref().filter(|_| !response.version.is_empty())
            && response.version != *version
        {
            let (expected, seen) = (version.clone(), response.version.clone());
            self.violation(ViolationKind::WrongVersion, Some(step), Evidence::Version { expected, seen });
        }
        let controls = rules.controls.as_ref();
        let is_seen = |output: &&Tensor| controls.is_some_and(|controls| controls.output == output.name);
        let seen = response.outputs.iter().find(is_seen);
        let mut outputs = response.outputs.iter().filter(|output| !is_seen(output));
        let alone = outputs.next().filter(|_| outputs.next().is_none());
        if let (Some(controls), Some(seen)) = (controls, seen)
            && !self.is_right_in(request, controls, seen, alone)
        {
            return None;
        }
        let Some(output) = alone.filter(|_| seen.is_some() == controls.is_some()) else {
            let expected = [Some(&rules.output), controls.map(|controls| &controls.output)];
            let expected = expected.into_iter().flatten().cloned().collect();
            let seen = response.outputs.iter().map(|output| output.name.clone()).collect();
            self.violation(ViolationKind::WrongOutputName, Some(step), Evidence::Outputs { expected, seen });
            let datatype = self.rules.arithmetic.datatype;
            let alone = alone.filter(|output| output.datatype == datatype.name());
            let count = self.rules.shape.elements(step.value.elements());
            return alone.and_then(|output| output.data.alike(datatype, count)?.ok());
        };
        self.sum_in(step, output)
    }

    fn sum_in(&mut self, step: &Step, output: &Tensor) -> Option<Number> {
        if output.name != self.rules.output {
            let (expected, seen) = (self.rules.output.clone(), output.name.clone());
            self.violation(ViolationKind::WrongOutputName, Some(step), Evidence::OutputName { expected, seen });
        }
        let datatype = self.rules.arithmetic.datatype;
        if output.datatype != datatype.name() {
            let evidence = Evidence::OutputType { expected: datatype, seen: output.datatype.clone() };
            self.violation(ViolationKind::WrongOutputType, Some(step), evidence);
            return None;
        }
        let size = step.value.elements();
        if output.shape != self.rules.shape.of(size) {
            let (expected, seen) = (self.rules.shape.of(size), output.shape.clone());
            self.violation(ViolationKind::WrongOutputShape, Some(step), Evidence::OutputShape { expected, seen });
        }
        let count = self.rules.shape.elements(size);
        match output.data.alike(datatype, count) {
            Some(Ok(answer)) => Some(answer),
            Some(Err(seen)) => {
                self.violation(ViolationKind::WrongSum, Some(step), Evidence::Elements { datatype, count, seen });
                None
            }
            None => {
                let evidence = Evidence::OutputSize { datatype, count, seen: output.data.held() };
                self.violation(ViolationKind::WrongOutputSize, Some(step), evidence);
                None
            }
        }
    }

    /// The same as [`Self::is_right`], by the output that tells what the model saw, and the one that has the sum.
    fn is_right_in(&mut self, request: &Request, controls: &Controls, seen: &Tensor, sum: Option<&Tensor>) -> bool {
        let step = &request.step;
        let Some(told) = read(seen) else {
            let Tensor { name, datatype, shape, data } = seen.clone();
            let evidence = Evidence::ControlsUnreadable { output: name, datatype, shape, seen: data.held() };
            self.violation(ViolationKind::WrongControl, Some(step), evidence);
            return true;
        };
        let count = self.rules.shape.elements(step.value.elements());
        let sum = sum.and_then(|sum| sum.data.alike(self.rules.arithmetic.datatype, count)?.ok());
        self.is_right(request, controls, told, sum)
    }

    /// Whether the model saw what was sent, in a slot in which it can be. Where not, one fault is one violation: the sum that
    /// came of it tells nothing more.
    pub(super) fn is_right(
        &mut self,
        request: &Request,
        controls: &Controls,
        told: Seen,
        answer: Option<Number>,
    ) -> bool {
        let step = &request.step;
        let slot = told.slot();
        let earlier = slot.and_then(|slot| self.id.seat.executed(request, slot));
        // Where no sequence is there it has to be rejected, whatever the model was told.
        if self.id.has_to_reject(step) {
            return true;
        }
        let differences = controls.told.differences(step, self.id.correlation_id.told(self.id.form), told);
        if !differences.is_empty() {
            self.violation(ViolationKind::WrongControl, Some(step), Evidence::Controls { differences, answer });
            return false;
        }
        let Some(seen) = slot else { return true };
        let evidence = match (earlier, controls.slots) {
            (_, Some(slots)) if seen >= slots => Evidence::NoSuchSlot { slots, seen },
            (Some(expected), _) => Evidence::OtherSlot { expected, seen },
            _ => return true,
        };
        self.violation(ViolationKind::WrongSlot, Some(step), evidence);
        false
    }
}

/// What an output says that the model saw.
pub(super) fn read(output: &Tensor) -> Option<Seen> {
    match &output.data {
        TensorData::Raw(bytes) if output.datatype == controls::DATATYPE => Seen::from_bytes(bytes),
        _ => None,
    }
}
