//! The models: accumulators of INT32, which see tensors and nothing else.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use super::{
    execution::Wants,
    fault::{Fault, Faults},
    request::SequenceId,
    scheduler::Strategy,
    spec::{Formula, SEEN_ELEMENTS, Signal, Spec},
    tensor::{Datatype, Tensor},
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
    /// Which outputs are asked for.
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

/// What became of one row, or why the model refuses it.
pub(super) type Outcome = Result<Outputs, String>;

/// The accumulator of one instance.
#[derive(Debug)]
pub(super) struct Accumulator {
    instance: u32,
    spec: Arc<Spec>,
    faults: Arc<Faults>,
    sums: Sums<Key>,
    last_of_sequence: Sums<SequenceId>,
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
    low_bits: i32,
}

impl Accumulator {
    /// The accumulator of the instance with this number.
    pub(super) fn new(instance: u32, spec: Arc<Spec>, faults: Arc<Faults>) -> Self {
        Self { instance, spec, faults, sums: Sums::default(), last_of_sequence: Sums::default() }
    }

    /// Whether the model keeps a sum, other than zero, by which it knows the row.
    pub(super) fn has_sum(&self, slot: u32, id: Option<&Tensor>) -> bool {
        self.sums.get(&Key::new(slot, id)).is_some_and(|sum| sum != 0)
    }

    /// Executes a batch.
    pub(super) fn execute(&mut self, rows: &[ModelRow]) -> Vec<Outcome> {
        let told: Vec<_> = rows.iter().map(|row| self.told(row)).collect();
        let mut before: Vec<_> = rows.iter().zip(&told).map(|(row, told)| self.before(row, told)).collect();
        self.swap_states(&told, &mut before);
        let each = rows.iter().zip(&told).zip(before);
        each.map(|((row, told), before)| {
            let outputs = if told.ready { self.step(row, told, before)? } else { Outputs::new() };
            Ok(outputs.into_iter().chain(self.seen(row)).collect())
        })
        .collect()
    }

    /// What the model saw of a row, where that is asked for: START, END, READY, CORRID and the slot, -1 for what it does not know.
    fn seen(&self, row: &ModelRow) -> Option<(Arc<str>, Tensor)> {
        let output = self.spec.seen().filter(|_| row.wants.seen)?;
        let control = |signal| {
            let control = self.spec.control(signal)?;
            Some((control, row.tensor(&control.tensor)?))
        };
        let flag = |signal| control(signal).map_or(-1, |(control, told)| i64::from(told.data == control.false_true[1]));
        let slot = match &self.spec.settings.strategy {
            Strategy::Direct { .. } => i64::from(self.instance * self.spec.settings.slots() + row.slot),
            Strategy::Oldest { .. } => -1,
        };
        let corrid = control(Signal::CorrelationId).map_or(-1, |(_, told)| as_number(told));
        let elements = [flag(Signal::Start), flag(Signal::End), flag(Signal::Ready), corrid, slot];
        let shape = self.spec.batches().then_some(1).into_iter().chain([SEEN_ELEMENTS]).collect();
        Some((output.name.clone(), Tensor::int64(shape, elements)))
    }

    fn told(&self, row: &ModelRow) -> Told {
        let signal = |signal, absent| {
            let Some(control) = self.spec.control(signal) else { return absent };
            row.tensor(&control.tensor).map_or(absent, |tensor| tensor.data == control.false_true[1])
        };
        let id = self.spec.control(Signal::CorrelationId).and_then(|control| row.tensor(&control.tensor));
        Told {
            start: signal(Signal::Start, false),
            ready: signal(Signal::Ready, true),
            end: signal(Signal::End, false),
            key: Key::new(row.slot, id),
            low_bits: id.map_or(0, low_bits),
        }
    }

    /// The sum that a step adds to.
    fn before(&mut self, row: &ModelRow, told: &Told) -> i32 {
        let state = self.spec.state.as_ref();
        let kept = match state {
            Some(state) => row.tensor(&state.input).and_then(|tensor| tensor.int32s().next()),
            None => self.sums.get(&told.key),
        };
        let kept = kept.unwrap_or(0);
        if !told.start || state.is_some_and(|state| state.has_initial) {
            let resets = told.ready && kept != 0 && !told.start && self.faults.happens(Fault::ResetState);
            return if resets { 0 } else { kept };
        }
        if state.is_none() && kept != 0 && self.faults.happens(Fault::KeepState) {
            return kept;
        }
        let last = row.id.as_ref().and_then(|id| self.last_of_sequence.get(id)).filter(|last| *last != 0);
        last.filter(|_| self.faults.happens(Fault::StaleState)).unwrap_or(0)
    }

    fn swap_states(&self, told: &[Told], before: &mut [i32]) {
        let going_on = |index: &usize| told[*index].ready && !told[*index].start;
        let Some(one) = (0..told.len()).find(going_on) else { return };
        let other = (one + 1..told.len()).filter(going_on).find(|other| before[*other] != before[one]);
        if let Some(other) = other.filter(|_| self.faults.happens(Fault::SwapStates)) {
            before.swap(one, other);
        }
    }

    fn step(&mut self, row: &ModelRow, told: &Told, before: i32) -> Outcome {
        let input = row.tensor(&self.spec.inputs[0].name);
        let value = input.map_or(0, |input| input.int32s().fold(0, i32::wrapping_add));
        if self.spec.error_on == Some(value) {
            return Err(format!("the model takes no {value}"));
        }
        let mut sum = before.wrapping_add(value);
        if value != 0 && self.faults.happens(Fault::ExecuteTwice) {
            sum = sum.wrapping_add(value);
        }
        if value != 0 && self.faults.happens(Fault::SkipStep) {
            sum = before;
        }
        let state = self.keep(row, told, sum);
        let mut result = sum;
        if told.end && self.spec.formula == Formula::RunningSumPlusCorrelationIdAtEnd {
            result = result.wrapping_add(told.low_bits);
        }
        if self.faults.happens(Fault::OffByOne) {
            result = result.wrapping_add(1);
        }
        let shape = input.map(|input| input.shape.clone()).unwrap_or_default();
        let count = input.map_or(0, |input| input.data.len() / 4);
        let output = Tensor::int32(shape, std::iter::repeat_n(result, count));
        let result = row.wants.result.then(|| (self.spec.outputs[0].name.clone(), output));
        Ok(result.into_iter().chain(state).collect())
    }

    /// Keeps the sum, or gives it to the server to keep.
    fn keep(&mut self, row: &ModelRow, told: &Told, sum: i32) -> Option<(Arc<str>, Tensor)> {
        if self.faults.has(Fault::StaleState)
            && let Some(id) = &row.id
        {
            self.last_of_sequence.set(id.clone(), sum);
        }
        if let Some(state) = &self.spec.state {
            let input = row.tensor(&state.input)?;
            let values = std::iter::repeat_n(sum, input.data.len() / 4);
            return Some((state.output.clone(), Tensor::int32(input.shape.clone(), values)));
        }
        if told.end && matches!(told.key, Key::CorrelationId(_)) {
            self.sums.remove(&told.key);
        } else {
            self.sums.set(told.key.clone(), sum);
        }
        None
    }
}

/// The low 64 bits of a correlation ID; of a text its decimal number, or -1 where it is none.
fn as_number(id: &Tensor) -> i64 {
    match id.datatype {
        Datatype::Bytes => text_of(id).and_then(|text| text.parse().ok()).map_or(-1, u64::cast_signed),
        Datatype::Int32 => id.int32s().next().map_or(-1, i64::from),
        Datatype::Uint32 => id.data.first_chunk().map_or(-1, |bytes| u32::from_le_bytes(*bytes).into()),
        _ => id.data.first_chunk().map_or(-1, |bytes| i64::from_le_bytes(*bytes)),
    }
}

/// The text of a correlation ID that is one; before it stands its length.
fn text_of(id: &Tensor) -> Option<&str> {
    id.data.get(size_of::<u32>()..).and_then(|text| std::str::from_utf8(text).ok())
}

/// The low 32 bits of a correlation ID; of a text those of its decimal number, or 0 where it is none.
fn low_bits(id: &Tensor) -> i32 {
    if id.datatype != Datatype::Bytes {
        return id.data.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    }
    let number: u64 = text_of(id).and_then(|text| text.parse().ok()).unwrap_or(0);
    i32::from_le_bytes(*number.to_le_bytes().first_chunk().expect("eight bytes"))
}

/// Sums by key, bounded: a model is not told of sequences that the server reaps, so what was not used while 65,536 others
/// were is forgotten.
#[derive(Debug)]
struct Sums<K> {
    young: HashMap<K, i32>,
    old: HashMap<K, i32>,
}

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash> Sums<K> {
    fn get(&self, key: &K) -> Option<i32> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn set(&mut self, key: K, sum: i32) {
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
