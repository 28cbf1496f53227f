//! Accumulators: a sequence's state is the sum of its inputs.

use std::sync::Arc;

use tonic::Status;

use super::{
    super::{
        fault::{Fault, Faults},
        number::Number,
        parameters::Sum,
        spec::{Spec, StateSpec, Tells, first_number},
        tensor::{Datatype, Tensor},
    },
    Computes, ModelRow, Outputs, Told, states,
};

#[derive(Debug)]
pub(super) struct Accumulator {
    spec: Arc<Spec>,
    sum: Sum,
}

/// What a sequence has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Total {
    sum: Number,
    /// The number of steps, where the server keeps it; else 0.
    count: Number,
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

impl Accumulator {
    /// A sum of which no step was counted.
    fn total(&self, sum: Number) -> Total {
        let counter = self.spec.states.get(1).filter(|_| self.spec.counts());
        let datatype = counter.map_or(self.spec.datatype(), |state| state.tensor.datatype);
        Total { sum, count: Number::of_bits(datatype, 0).expect("it was checked that states have numbers") }
    }
}

impl Computes for Accumulator {
    type State = Total;
    type Input = Input;

    fn blank(&self) -> Total {
        self.total(self.spec.number(0))
    }

    fn begin(&self) -> Total {
        self.total(self.spec.parameters.initial.unwrap_or_else(|| self.spec.number(0)))
    }

    fn stateless(&self, start: bool) -> Option<Total> {
        // A START that the model is told is a one that it adds.
        self.sum.is_stateless.then(|| self.total(self.spec.number(start.into())))
    }

    fn load(&self, tensors: &[&Tensor]) -> Option<Total> {
        let mut numbers = tensors.iter().map(|tensor| first_number(tensor.datatype, &tensor.data));
        let total = self.total(numbers.next()??);
        let count = if self.spec.counts() { numbers.next()?? } else { total.count };
        Some(Total { count, ..total })
    }

    fn check(&self, tensors: &[&Tensor], start: bool) -> Result<(), Status> {
        states::check(&self.spec, tensors, start).map_err(Status::invalid_argument)
    }

    fn open_size(&self, state: &Total) -> i64 {
        states::open_size(state.sum)
    }

    fn store(&self, state: &Total) -> Vec<Vec<u8>> {
        let bytes = |(place, kept): (usize, &StateSpec)| {
            let number = if place == 1 && self.spec.counts() {
                state.count
            } else {
                states::multiple(&self.spec, place, state.sum)
            };
            let is_open = kept.tensor.dims.contains(&-1);
            let open = if is_open { usize::try_from(self.open_size(state)).unwrap_or(1) } else { 1 };
            number.to_le_bytes().repeat(kept.tensor.elements() * open)
        };
        self.spec.states.iter().enumerate().map(bytes).collect()
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

    fn advance(&self, state: &Total, input: &Input) -> Total {
        let count = if self.spec.counts() { state.count.plus(one(state.count)) } else { state.count };
        Total { sum: state.sum.plus(input.value), count }
    }

    fn answer(&self, row: &ModelRow, told: &Told, state: &Total, input: &Input, faults: &Faults) -> Vec<Outputs> {
        let mut result = if told.ready { state.sum } else { self.spec.number(0) };
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
            row.wants.has(0).then(|| (name.clone(), output())).into_iter().chain(self.count(row, state)).collect()
        };
        (0..self.spec.parameters.responses).map(response).collect()
    }
}

impl Accumulator {
    /// The output that tells the number of steps, where it is asked for.
    fn count(&self, row: &ModelRow, state: &Total) -> Option<(Arc<str>, Tensor)> {
        let index = self.spec.tells.iter().position(|tells| *tells == Tells::Count).filter(|at| row.wants.has(*at))?;
        let output = &self.spec.outputs[index];
        let count = state.count.times(output.datatype, 1)?;
        Some((output.name.clone(), Tensor::of(output.datatype, self.spec.shape(1, &output.dims), &[count])))
    }
}

/// One, in the type of another number.
fn one(like: Number) -> Number {
    let datatype = match like {
        Number::Whole(datatype, _) => datatype,
        Number::Fp16(_) => Datatype::Fp16,
        Number::Fp32(_) => Datatype::Fp32,
        Number::Fp64(_) => Datatype::Fp64,
    };
    Number::of_bits(datatype, 1).expect("its type has numbers")
}
