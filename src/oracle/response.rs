//! Whether a response is what was asked for.

use super::{ViolationKind, observation::Observation, stream::Request};
use crate::{
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
            let expected = format!("an answer of model '{}'", self.rules.model);
            self.violation(ViolationKind::WrongModel, Some(step), expected, format!("one of '{}'", response.model));
        }
        let rules = self.rules;
        // Not every server tells the version in its answers.
        if let Some(version) = rules.version.as_ref().filter(|_| !response.version.is_empty())
            && response.version != *version
        {
            let expected = format!("an answer of version {version} of the model");
            self.violation(
                ViolationKind::WrongVersion,
                Some(step),
                expected,
                format!("version '{}'", response.version),
            );
        }
        let controls = rules.controls.as_ref();
        let is_seen = |output: &&Tensor| controls.is_some_and(|controls| controls.output == output.name);
        let seen = response.outputs.iter().find(is_seen);
        let mut outputs = response.outputs.iter().filter(|output| !is_seen(output));
        let alone = outputs.next().filter(|_| outputs.next().is_none());
        if let (Some(controls), Some(seen)) = (controls, seen)
            && !self.is_right(request, controls, seen, alone)
        {
            return None;
        }
        let Some(output) = alone.filter(|_| seen.is_some() == controls.is_some()) else {
            let names: Vec<_> = response.outputs.iter().map(|output| output.name.as_str()).collect();
            let seen = format!("{} outputs {names:?}", names.len());
            self.violation(ViolationKind::WrongOutputName, Some(step), self.outputs(), seen);
            let datatype = self.rules.arithmetic.datatype;
            let alone = alone.filter(|output| output.datatype == datatype.name());
            let count = self.rules.shape.elements(step.value.elements());
            return alone.and_then(|output| output.data.alike(datatype, count)?.ok());
        };
        self.sum_in(step, output)
    }

    /// What a response has to hold.
    fn outputs(&self) -> String {
        let output = &self.rules.output;
        match &self.rules.controls {
            None => format!("one output, '{output}'"),
            Some(controls) => format!("the outputs '{output}' and '{}'", controls.output),
        }
    }

    fn sum_in(&mut self, step: &Step, output: &Tensor) -> Option<Number> {
        if output.name != self.rules.output {
            let expected = format!("the output '{}'", self.rules.output);
            self.violation(ViolationKind::WrongOutputName, Some(step), expected, format!("'{}'", output.name));
        }
        let datatype = self.rules.arithmetic.datatype;
        if output.datatype != datatype.name() {
            let expected = datatype.to_string();
            self.violation(ViolationKind::WrongOutputType, Some(step), expected, output.datatype.clone());
            return None;
        }
        let size = step.value.elements();
        if output.shape != self.rules.shape.of(size) {
            let expected = format!("the shape {:?}", self.rules.shape.of(size));
            self.violation(ViolationKind::WrongOutputShape, Some(step), expected, format!("{:?}", output.shape));
        }
        let count = self.rules.shape.elements(size);
        match output.data.alike(datatype, count) {
            Some(Ok(answer)) => Some(answer),
            Some(Err(seen)) => {
                let each = if count > 1 { " in all elements" } else { "" };
                let expected = format!("{}{each}", datatype.what());
                self.violation(ViolationKind::WrongSum, Some(step), expected, seen);
                None
            }
            None => {
                let size = datatype.size();
                let expected = if count > 1 { format!("{count} elements of {size}") } else { size.to_owned() };
                self.violation(ViolationKind::WrongOutputSize, Some(step), expected, output.data.to_string());
                None
            }
        }
    }

    /// Whether the model saw what was sent, in a slot in which it can be. Where not, one fault is one violation: the sum that
    /// came of it tells nothing more.
    fn is_right(&mut self, request: &Request, controls: &Controls, seen: &Tensor, sum: Option<&Tensor>) -> bool {
        let step = &request.step;
        let Some(told) = read(seen) else {
            let expected = format!("the {} elements of '{}', {}", controls::ELEMENTS, seen.name, controls::DATATYPE);
            let came = format!("{}{:?} of {}", seen.datatype, seen.shape, seen.data);
            self.violation(ViolationKind::WrongControl, Some(step), expected, came);
            return true;
        };
        let slot = told.slot();
        let earlier = slot.and_then(|slot| self.id.executed_in(request, slot));
        // Where no sequence is there it has to be refused, whatever the model was told.
        if self.id.has_to_refuse(step) {
            return true;
        }
        let differences = controls.told.differences(step, self.id.correlation_id.told(self.id.form), told);
        if !differences.is_empty() {
            let count = self.rules.shape.elements(step.value.elements());
            let answer = match sum.and_then(|sum| sum.data.alike(self.rules.arithmetic.datatype, count)) {
                Some(Ok(sum)) => format!("the answer is {sum}"),
                Some(Err(_)) | None => "the answer has no sum".to_owned(),
            };
            let came = format!("{}; {answer}", differences.join("; "));
            self.violation(ViolationKind::WrongControl, Some(step), "the model to see what was sent".to_owned(), came);
            return false;
        }
        let expected = match (slot, earlier, controls.slots) {
            (Some(slot), _, Some(slots)) if slot >= slots => {
                format!("one of the {slots} slots, 0 to {}", slots.max(1) - 1)
            }
            (_, Some(earlier), _) => format!("slot {earlier}, in which the sequence's step before was"),
            _ => return true,
        };
        let came = slot.map_or_else(String::new, |slot| format!("slot {slot}"));
        self.violation(ViolationKind::WrongSlot, Some(step), expected, came);
        false
    }
}

/// What an output says that the model saw.
fn read(output: &Tensor) -> Option<Seen> {
    match &output.data {
        TensorData::Raw(bytes) if output.datatype == controls::DATATYPE => Seen::from_bytes(bytes),
        _ => None,
    }
}
