//! Accumulators: a sequence's state is the sum of its inputs.

use std::sync::Arc;

use tonic::Status;

use super::{
    super::{
        fault::{Fault, Faults},
        number::Number,
        parameters::Sum,
        spec::{Spec, first_number},
        tensor::Tensor,
    },
    Computes, ModelRow, Outputs, Told,
};

#[derive(Debug)]
pub(super) struct Accumulator {
    spec: Arc<Spec>,
    sum: Sum,
}

/// What a step adds, and the tensor that it came in.
#[derive(Debug)]
pub(super) struct Input {
    value: Number,
    elements: usize,
    shape: Vec<i64>,
}

impl Accumulator {
    pub(super) fn new(spec: Arc<Spec>, sum: Sum) -> Self {
        Self { spec, sum }
    }
}

impl Computes for Accumulator {
    type State = Number;
    type Input = Input;

    fn blank(&self) -> Number {
        self.spec.number(0)
    }

    fn begin(&self) -> Number {
        self.spec.parameters.initial.unwrap_or_else(|| self.blank())
    }

    fn stateless(&self, start: bool) -> Option<Number> {
        // A START that the model is told is a one that it adds.
        self.sum.is_stateless.then(|| self.spec.number(start.into()))
    }

    fn load(&self, tensors: &[&Tensor]) -> Option<Number> {
        tensors.first().and_then(|tensor| first_number(tensor.datatype, &tensor.data))
    }

    fn store(&self, state: &Number) -> Vec<Vec<u8>> {
        self.spec.states.iter().map(|kept| state.to_le_bytes().repeat(kept.tensor.elements())).collect()
    }

    fn read(&self, row: &ModelRow) -> Result<Input, Status> {
        let (name, zero) = (&self.spec.inputs[0].name, self.spec.number(0));
        let input = row.tensor(name);
        let values = input.map_or(Ok(Vec::new()), Tensor::numbers);
        let values = values.map_err(|problem| Status::invalid_argument(format!("tensor '{name}': {problem}")))?;
        // First the elements, in their order, because with FP32 and FP64 that makes a difference.
        let value = values.iter().fold(zero, |value, element| value.plus(*element));
        if let Some(rejected) = self.spec.parameters.error_on.filter(|rejected| *rejected == value) {
            return Err(Status::internal(format!("the model takes no {rejected}")));
        }
        let shape = input.map(|input| input.shape.clone()).unwrap_or_default();
        Ok(Input { value, elements: values.len(), shape })
    }

    fn advance(&self, state: &Number, input: &Input) -> Number {
        state.plus(input.value)
    }

    fn answer(&self, row: &ModelRow, told: &Told, state: &Number, input: &Input, faults: &Faults) -> Vec<Outputs> {
        let mut result = if told.ready { *state } else { self.blank() };
        if told.end && self.sum.adds_id_at_end {
            result = result.plus(self.spec.number(told.id_bits));
        }
        if faults.happens(Fault::OffByOne) {
            result = result.plus(self.spec.number(1));
        }
        let name = &self.spec.outputs[0].name;
        let response = |number: u32| {
            let result = result.plus(self.spec.number(number.into()));
            let mut elements = vec![result; input.elements];
            if let [_, .., last] = elements.as_mut_slice()
                && faults.happens(Fault::WrongElement)
            {
                *last = last.plus(self.spec.number(1));
            }
            let output = || Tensor::of(self.spec.datatype(), input.shape.clone(), &elements);
            row.wants.has(0).then(|| (name.clone(), output())).into_iter().collect()
        };
        (0..self.spec.parameters.responses).map(response).collect()
    }
}
