//! Whether a response is what was asked for.

use super::{ViolationKind, observation::Observation};
use crate::{event::Response, sequence::Step, tensor::INT32};

impl Observation<'_> {
    /// The sum that a response holds; none, and a violation, where it is not as it should be.
    pub(super) fn sum_of(&mut self, step: &Step, response: &Response) -> Option<i32> {
        if response.model != self.rules.model {
            let expected = format!("an answer of model '{}'", self.rules.model);
            self.violation(ViolationKind::WrongModel, Some(step), expected, format!("one of '{}'", response.model));
        }
        let [output] = response.outputs.as_slice() else {
            let names: Vec<_> = response.outputs.iter().map(|output| output.name.as_str()).collect();
            let expected = format!("one output, '{}'", self.rules.output);
            self.violation(
                ViolationKind::WrongOutputName,
                Some(step),
                expected,
                format!("{} outputs {names:?}", names.len()),
            );
            return None;
        };
        if output.name != self.rules.output {
            let expected = format!("the output '{}'", self.rules.output);
            self.violation(ViolationKind::WrongOutputName, Some(step), expected, format!("'{}'", output.name));
        }
        if output.datatype != INT32 {
            self.violation(ViolationKind::WrongOutputType, Some(step), INT32.to_owned(), output.datatype.clone());
            return None;
        }
        if output.shape != self.rules.shape {
            let expected = format!("the shape {:?}", self.rules.shape);
            self.violation(ViolationKind::WrongOutputShape, Some(step), expected, format!("{:?}", output.shape));
        }
        let sum = output.data.single_int32();
        if sum.is_none() {
            self.violation(ViolationKind::WrongOutputSize, Some(step), "4 bytes".to_owned(), output.data.to_string());
        }
        sum
    }
}
