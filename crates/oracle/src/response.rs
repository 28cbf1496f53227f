//! Whether a response is what was asked for.

use super::{
    Evidence, ViolationKind,
    golden::{FormProblem, Golden},
    observation::Observation,
    stream::Request,
};
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
        self.is_of_the_model(step, response);
        let rules = self.rules;
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

    /// Looks whether a response is of the model that was asked for.
    pub(super) fn is_of_the_model(&mut self, step: &Step, response: &Response) {
        if response.model != self.rules.model {
            let (expected, seen) = (self.rules.model.clone(), response.model.clone());
            self.violation(ViolationKind::WrongModel, Some(step), Evidence::Model { expected, seen });
        }
        // Not every server tells the version in its answers.
        if let Some(version) = self.rules.version.as_ref().filter(|_| !response.version.is_empty())
            && response.version != *version
        {
            let (expected, seen) = (version.clone(), response.version.clone());
            self.violation(ViolationKind::WrongVersion, Some(step), Evidence::Version { expected, seen });
        }
    }

    /// Whether a response of a model without a formula has the outputs that were asked for, each of its type, of a shape that the model
    /// declares, and with as many elements.
    pub(super) fn has_outputs_of(&mut self, step: &Step, response: &Response, golden: &Golden) -> bool {
        let mut names: Vec<_> = response.outputs.iter().map(|output| output.name.clone()).collect();
        let mut asked: Vec<_> = golden.asked().map(str::to_owned).collect();
        if response.outputs.len() != asked.len() || golden.asked().any(|asked| names.iter().all(|name| name != asked)) {
            names.sort_unstable();
            asked.sort_unstable();
            let evidence = Evidence::Outputs { expected: asked, seen: names };
            self.violation(ViolationKind::WrongOutputName, Some(step), evidence);
            return false;
        }
        let mut is_right = true;
        for output in &golden.outputs {
            let Some(tensor) = response.outputs.iter().find(|tensor| tensor.name == output.spec.name) else { continue };
            let found = match output.problem(tensor) {
                None => continue,
                Some(FormProblem::Datatype) => {
                    let evidence = Evidence::OutputType { expected: output.datatype, seen: tensor.datatype.clone() };
                    (ViolationKind::WrongOutputType, evidence)
                }
                Some(FormProblem::Shape) => {
                    let (expected, seen) = (output.spec.shape.clone(), tensor.shape.clone());
                    (ViolationKind::WrongOutputShape, Evidence::OutputShape { expected, seen })
                }
                Some(FormProblem::Size(count)) => {
                    let (datatype, seen) = (output.datatype, tensor.data.held());
                    (ViolationKind::WrongOutputSize, Evidence::OutputSize { datatype, count, seen })
                }
            };
            self.violation(found.0, Some(step), found.1);
            is_right = false;
        }
        is_right
    }

    fn sum_in(&mut self, step: &Step, output: &Tensor) -> Option<Number> {
        if output.name != self.rules.output {
            let (expected, seen) = (self.rules.output.clone(), output.name.clone());
            self.violation(ViolationKind::WrongOutputName, Some(step), Evidence::OutputName { expected, seen });
        }
        let datatype = self.rules.arithmetic.datatype;
        if output.datatype != datatype.name() {
            let expected = datatype.into();
            let evidence = Evidence::OutputType { expected, seen: output.datatype.clone() };
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
                let evidence = Evidence::OutputSize { datatype: datatype.into(), count, seen: output.data.held() };
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
