//! The models: accumulators, which see tensors and nothing else.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use tonic::Status;

use super::{
    execution::Wants,
    fault::{Fault, Faults},
    number::Number,
    scheduler::{SequenceId, Strategy},
    spec::{Signal, Spec, Tells, TensorSpec, first_number},
    tensor::{Datatype, Tensor, texts},
};

/// Sums that a model keeps in each of two generations; see [`Sums`].
const GENERATION: usize = 65_536;

/// One row of a batch, as the model gets it.
#[derive(Debug)]
pub(super) struct ModelRow {
    /// Its place, which is the slot with Direct.
    pub(super) slot: u32,
    /// Inputs, controls and state, by name.
    pub(super) tensors: Vec<(Arc<str>, Tensor)>,
    pub(super) wants: Wants,
    /// The sequence that it is of, for the fault of mistaking sequences; a model is not told it.
    pub(super) id: Option<SequenceId>,
}

impl ModelRow {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|(its, _)| &**its == name).map(|(_, tensor)| tensor)
    }
}

/// What one row is answered with: outputs and state, by name; nothing where it was not ready.
pub(super) type Outputs = Vec<(Arc<str>, Tensor)>;

/// What came of one row: what it is answered with, and the state for the server to keep.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) responses: Vec<Outputs>,
    pub(super) state: Option<Tensor>,
}

/// What became of one row, or why the model rejects it.
pub(super) type RowResult = Result<Step, Status>;

#[derive(Debug)]
pub(super) struct Accumulator {
    instance: u32,
    spec: Arc<Spec>,
    faults: Arc<Faults>,
    sums: Sums<Key, Number>,
    last_of_sequence: Sums<SequenceId, Number>,
}

/// By what a model of its own state knows a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Slot(u32),
    CorrelationId(Vec<u8>),
}

impl Key {
    fn new(slot: u32, id: Option<&Tensor>) -> Self {
        id.map_or(Self::Slot(slot), |id| Self::CorrelationId(id.data.clone()))
    }
}

/// What the control tensors say.
struct Told {
    start: bool,
    ready: bool,
    end: bool,
    key: Key,
    id_bits: u64,
}

impl Accumulator {
    pub(super) fn new(instance: u32, spec: Arc<Spec>, faults: Arc<Faults>) -> Self {
        Self { instance, spec, faults, sums: Sums::default(), last_of_sequence: Sums::default() }
    }

    /// Whether the model keeps a sum, other than zero, by which it knows the row.
    pub(super) fn has_sum(&self, slot: u32, id: Option<&Tensor>) -> bool {
        self.sums.get(&Key::new(slot, id)).is_some_and(|sum| !sum.is_zero())
    }

    pub(super) fn execute(&mut self, rows: &[ModelRow]) -> Vec<RowResult> {
        let told: Vec<_> = rows.iter().map(|row| self.told(row)).collect();
        let mut before: Vec<_> = rows.iter().zip(&told).map(|(row, told)| self.before(row, told)).collect();
        self.swap_states(&told, &mut before);
        let each = rows.iter().zip(&told).zip(before);
        each.map(|((row, told), before)| {
            // Without a state READY is a factor like any other.
            let steps = told.ready || (self.spec.parameters.formula.is_stateless && row.id.is_some());
            let unready = || Step { responses: vec![Outputs::new()], state: None };
            let mut step = if steps { self.step(row, told, before)? } else { unready() };
            step.responses.iter_mut().for_each(|outputs| outputs.extend(self.echoes(row)));
            Ok(step)
        })
        .collect()
    }

    /// What the model saw of a row, in the outputs that are asked for.
    fn echoes(&self, row: &ModelRow) -> Outputs {
        let outputs = self.spec.outputs.iter().zip(&self.spec.tells).enumerate();
        let asked = outputs.filter(|(index, (_, tells))| row.wants.has(*index) && **tells != Tells::Result);
        asked.map(|(_, (output, tells))| (output.name.clone(), self.echo(row, output, *tells))).collect()
    }

    fn echo(&self, row: &ModelRow, output: &TensorSpec, tells: Tells) -> Tensor {
        let values = match tells {
            Tells::Result | Tells::Seen => self.seen(row).to_vec(),
            Tells::Control(signal) => vec![self.saw(row, signal)],
            Tells::Slot => vec![row.slot.into()],
            Tells::Instance => vec![self.instance.into()],
        };
        let size = output.datatype.size().expect("echoes are whole numbers");
        let data = values.into_iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect();
        Tensor { datatype: output.datatype, shape: self.spec.shape(1, &output.dims), data }
    }

    /// START, END, READY, CORRID and the slot, -1 for what the model does not know.
    fn seen(&self, row: &ModelRow) -> [i64; 5] {
        let slot = match &self.spec.settings.strategy {
            Strategy::Direct { .. } => i64::from(self.instance * self.spec.settings.slots() + row.slot),
            Strategy::Oldest { .. } => -1,
        };
        let [start, end, ready, corrid] =
            [Signal::Start, Signal::End, Signal::Ready, Signal::CorrelationId].map(|signal| self.saw(row, signal));
        [start, end, ready, corrid, slot]
    }

    /// What a control tells the model, -1 where there is none.
    fn saw(&self, row: &ModelRow, signal: Signal) -> i64 {
        let Some(control) = self.spec.control(signal) else { return -1 };
        let Some(told) = row.tensor(&control.tensor) else { return -1 };
        match signal {
            Signal::CorrelationId => id_bits(told).map_or(-1, u64::cast_signed),
            _ => i64::from(told.data == control.false_true[1]),
        }
    }

    fn told(&self, row: &ModelRow) -> Told {
        let id = self.spec.control(Signal::CorrelationId).and_then(|control| row.tensor(&control.tensor));
        Told {
            start: self.saw(row, Signal::Start) == 1,
            ready: self.saw(row, Signal::Ready) != 0,
            end: self.saw(row, Signal::End) == 1,
            key: Key::new(row.slot, id),
            id_bits: id.and_then(id_bits).unwrap_or(0),
        }
    }

    /// The sum that a step adds to.
    fn before(&mut self, row: &ModelRow, told: &Told) -> Number {
        let zero = self.spec.number(0);
        if self.spec.parameters.formula.is_stateless {
            // A START that the model is told is a one that it adds.
            return self.spec.number(told.start.into());
        }
        let state = self.spec.state.as_ref();
        let kept = match state {
            Some(state) => {
                row.tensor(&state.tensor.name).and_then(|tensor| first_number(tensor.datatype, &tensor.data))
            }
            None => self.sums.get(&told.key),
        };
        let kept = kept.unwrap_or(zero);
        if !told.start || state.is_some_and(|state| state.initial.is_some()) {
            let resets = told.ready && !kept.is_zero() && !told.start && self.faults.happens(Fault::ResetState);
            return if resets { zero } else { kept };
        }
        if state.is_none() && !kept.is_zero() && self.faults.happens(Fault::KeepState) {
            return kept;
        }
        let last = row.id.as_ref().and_then(|id| self.last_of_sequence.get(id)).filter(|last| !last.is_zero());
        last.filter(|_| self.faults.happens(Fault::StaleState)).or(self.spec.parameters.initial).unwrap_or(zero)
    }

    fn swap_states(&self, told: &[Told], before: &mut [Number]) {
        let going_on = |index: &usize| told[*index].ready && !told[*index].start;
        let Some(one) = (0..told.len()).find(going_on) else { return };
        let other = (one + 1..told.len()).filter(going_on).find(|other| before[*other] != before[one]);
        if let Some(other) = other.filter(|_| self.faults.happens(Fault::SwapStates)) {
            before.swap(one, other);
        }
    }

    fn step(&mut self, row: &ModelRow, told: &Told, before: Number) -> RowResult {
        let (name, zero) = (&self.spec.inputs[0].name, self.spec.number(0));
        let input = row.tensor(name);
        let values = input.map_or(Ok(Vec::new()), Tensor::numbers);
        let values = values.map_err(|problem| Status::invalid_argument(format!("tensor '{name}': {problem}")))?;
        // First the elements, in their order, because with FP32 and FP64 that makes a difference.
        let value = values.iter().fold(zero, |value, element| value.plus(*element));
        if let Some(rejected) = self.spec.parameters.error_on.filter(|rejected| *rejected == value) {
            return Err(Status::internal(format!("the model takes no {rejected}")));
        }
        let mut sum = before.plus(value);
        if !value.is_zero() && self.faults.happens(Fault::ExecuteTwice) {
            sum = sum.plus(value);
        }
        if !value.is_zero() && self.faults.happens(Fault::SkipStep) {
            sum = before;
        }
        let state = self.keep(row, told, sum);
        let mut result = if told.ready { sum } else { zero };
        if told.end && self.spec.parameters.formula.adds_id_at_end {
            result = result.plus(self.spec.number(told.id_bits));
        }
        if self.faults.happens(Fault::OffByOne) {
            result = result.plus(self.spec.number(1));
        }
        let shape = input.map(|input| input.shape.clone()).unwrap_or_default();
        let name = &self.spec.outputs[0].name;
        let response = |number: u32| {
            let result = result.plus(self.spec.number(number.into()));
            let mut elements = vec![result; values.len()];
            if let [_, .., last] = elements.as_mut_slice()
                && self.faults.happens(Fault::WrongElement)
            {
                *last = last.plus(self.spec.number(1));
            }
            let output = || Tensor::of(self.spec.datatype(), shape.clone(), &elements);
            row.wants.has(0).then(|| (name.clone(), output())).into_iter().collect()
        };
        Ok(Step { responses: (0..self.spec.parameters.responses).map(response).collect(), state })
    }

    /// Keeps the sum, or gives it to the server to keep.
    fn keep(&mut self, row: &ModelRow, told: &Told, sum: Number) -> Option<Tensor> {
        if self.spec.parameters.formula.is_stateless {
            return None;
        }
        if self.faults.has(Fault::StaleState)
            && let Some(id) = &row.id
        {
            self.last_of_sequence.set(id.clone(), sum);
        }
        if let Some(state) = &self.spec.state {
            let TensorSpec { name, datatype, dims } = &state.tensor;
            let input = row.tensor(name)?;
            let count = usize::try_from(dims.iter().product::<i64>()).expect("sizes are above 0");
            return Some(Tensor::filled(*datatype, input.shape.clone(), count, sum));
        }
        if told.end && matches!(told.key, Key::CorrelationId(_)) {
            self.sums.remove(&told.key);
        } else {
            self.sums.set(told.key.clone(), sum);
        }
        None
    }
}

/// The low 64 bits of a correlation ID; of a text its decimal number, where it is one.
fn id_bits(id: &Tensor) -> Option<u64> {
    match id.datatype {
        Datatype::Bytes => str::from_utf8(texts(&id.data).next()??).ok()?.parse().ok(),
        Datatype::Int32 => Some(i64::from(i32::from_le_bytes(*id.data.first_chunk()?)).cast_unsigned()),
        Datatype::Uint32 => Some(u32::from_le_bytes(*id.data.first_chunk()?).into()),
        _ => Some(u64::from_le_bytes(*id.data.first_chunk()?)),
    }
}

/// Sums by key, bounded: a model is not told of sequences that the server reaps, so what was not used while 65,536 others
/// were is forgotten.
#[derive(Debug)]
struct Sums<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Sums<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Copy> Sums<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn set(&mut self, key: K, sum: V) {
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, sum);
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_are_used_are_kept_and_the_rest_is_bounded() {
        let mut sums = Sums::default();
        sums.set(-1, 7);
        for key in 0..1_000_000 {
            sums.set(key, key);
            if key % 1000 == 0 {
                let kept = sums.get(&-1).expect("it is in use");
                sums.set(-1, kept);
            }
        }
        assert_eq!((sums.get(&-1), sums.get(&999_999), sums.get(&0)), (Some(7), Some(999_999), None));
        assert!(sums.young.len() + sums.old.len() <= 2 * GENERATION);
        sums.remove(&999_999);
        assert_eq!(sums.get(&999_999), None);
    }
}
