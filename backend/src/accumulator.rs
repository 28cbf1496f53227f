//! The sums: where they are kept, and what a step makes of them.

#![forbid(unsafe_code)]

use std::{collections::HashMap, hash::Hash, sync::Arc};

use crate::{
    boundary::{CorrelationId, Failure, caught},
    controls::Told,
    fault::Fault,
    model::Model,
    parameters::StateKey,
    spec::State,
    tensor::{Number, Tensor},
};

/// Sums that are kept in each of two generations; see [`Sums`].
const GENERATION: usize = 65_536;

/// One request of an execution, as the model sees it.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its place in the batch, which with Direct is the slot.
    pub(crate) slot: usize,
    pub(crate) told: Told,
    /// The sequence as the client named it; a right model does not need it.
    pub(crate) id: CorrelationId,
    /// The input; nothing where the row is not ready.
    pub(crate) elements: Vec<Number>,
    pub(crate) shape: Vec<i64>,
    /// The implicit state that the server gave, where it keeps one.
    pub(crate) state: Option<GivenState>,
}

/// Implicit state as it was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GivenState {
    pub(crate) total: Total,
    /// The tensors, in the order of the configuration: each goes back in the same shape, if that is not open.
    pub(crate) tensors: Vec<Tensor>,
}

/// What a sequence has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Total {
    pub(crate) sum: Number,
    /// How many steps were executed, where the server keeps their number; else 0.
    pub(crate) count: Number,
}

impl Row {
    /// What the server kept.
    fn given(&self) -> Option<Total> {
        self.state.as_ref().map(|state| state.total)
    }
}

/// What comes of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Step {
    /// What it is answered with: one for each answer; none where the row was not ready, or its turn has not come.
    pub(crate) results: Vec<Number>,
    /// The number of steps that it is answered with; none where the model does not count them.
    pub(crate) count: Option<Number>,
    /// The implicit state for the server to keep.
    pub(crate) state: Option<Total>,
    /// It is to be executed again.
    pub(crate) again: bool,
}

/// The sums of one instance.
#[derive(Debug)]
pub(crate) struct Accumulator {
    model: Arc<Model>,
    sums: Sums<Key, Kept>,
    last_of_sequence: Sums<CorrelationId, Total>,
}

/// By what a sequence is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Slot(usize),
    Corrid(Vec<u8>),
}

/// What is kept of a sequence.
#[derive(Clone, Copy, Debug)]
struct Kept {
    total: Total,
    /// How often its request was executed, where that is to be executed again.
    at: u32,
}

impl Accumulator {
    pub(crate) fn new(model: Arc<Model>) -> Self {
        Self { model, sums: Sums::default(), last_of_sequence: Sums::default() }
    }

    /// Whether a row that is not a START would go on from something, so that mistaking it for one or the other shows. Between
    /// the executions of a request there is no mistake: it would begin again and again, and never end.
    pub(crate) fn goes_on(&self, slot: usize, told: &Told, given: Option<&GivenState>) -> bool {
        let spec = &self.model.spec;
        if spec.parameters.formula.is_stateless {
            // START itself is in the answer.
            return true;
        }
        let initial = spec.parameters.initial;
        let Some(state) = &spec.state else {
            let goes_on = |kept: Kept| kept.total.sum != initial && kept.at == 0;
            return self.sums.get(&self.key(slot, told)).is_some_and(goes_on);
        };
        // A START adds to an initial state, if there is one, whether it is told to be a START or not.
        !(told.start && state.has_initial) && given.is_some_and(|given| given.total.sum != initial)
    }

    /// Executes a batch. A row that panics fails alone.
    pub(crate) fn execute(&mut self, rows: &[Result<Row, Failure>]) -> Vec<Result<Step, Failure>> {
        let mistaken = self.mistaken_states(rows);
        let each = rows.iter().zip(mistaken).map(|(row, mistaken)| {
            let row = row.as_ref().map_err(Clone::clone)?;
            if !row.told.ready {
                return Ok(Step::default());
            }
            // What a step keeps it keeps at its end, so that there is nothing half done.
            caught("the model", || self.step(row, mistaken))
        });
        each.collect()
    }

    fn key(&self, slot: usize, told: &Told) -> Key {
        match (self.model.spec.key, &told.corrid) {
            (StateKey::Corrid, Some(corrid)) => Key::Corrid(corrid.clone()),
            _ => Key::Slot(slot),
        }
    }

    /// From what the row goes on, where there is something.
    fn kept(&self, row: &Row) -> Option<Total> {
        row.given().or_else(|| self.sums.get(&self.key(row.slot, &row.told)).map(|kept| kept.total))
    }

    /// For each row what another one goes on from, where a planted fault makes this one go on from that.
    fn mistaken_states(&self, rows: &[Result<Row, Failure>]) -> Vec<Option<Total>> {
        let faults = &self.model.faults;
        let mut mistaken = vec![None; rows.len()];
        if !faults.has(Fault::SwapStates) && !faults.has(Fault::StateOfAnotherSlot) {
            return mistaken;
        }
        let kept: Vec<_> = rows
            .iter()
            .map(|row| row.as_ref().ok().filter(|row| row.told.ready && !row.told.start).and_then(|row| self.kept(row)))
            .collect();
        let sum = |one: usize| kept[one].map(|total| total.sum);
        let other = |one: usize| (0..kept.len()).find(|other| kept[*other].is_some() && sum(*other) != sum(one));
        if let Some(one) = kept.iter().position(Option::is_some)
            && let Some(other) = other(one)
            && faults.happens(Fault::SwapStates)
        {
            (mistaken[one], mistaken[other]) = (kept[other], kept[one]);
        }
        if self.model.spec.state.is_some() {
            for one in (0..kept.len()).filter(|one| kept[*one].is_some()) {
                if let Some(other) = other(one)
                    && faults.happens(Fault::StateOfAnotherSlot)
                {
                    mistaken[one] = kept[other];
                }
            }
        }
        mistaken
    }

    /// What a step adds to.
    fn before(&self, row: &Row, mistaken: Option<Total>) -> Total {
        let spec = &self.model.spec;
        let faults = &self.model.faults;
        if spec.parameters.formula.is_stateless {
            return self.total(spec.arithmetic.integer(row.told.start.into()));
        }
        let initial = self.total(spec.parameters.initial);
        if !row.told.start {
            let kept = mistaken.or_else(|| self.kept(row)).unwrap_or(initial);
            return if kept.sum != initial.sum && faults.happens(Fault::ResetState) { initial } else { kept };
        }
        let last_here = self.sums.get(&self.key(row.slot, &row.told)).map(|kept| kept.total);
        let last_of_sequence = self.last_of_sequence.get(&row.id);
        for (last, fault) in [(last_here, Fault::KeepState), (last_of_sequence, Fault::StaleState)] {
            if let Some(last) = last.filter(|last| last.sum != initial.sum)
                && faults.happens(fault)
            {
                return last;
            }
        }
        let has_initial = spec.state.as_ref().is_some_and(|state| state.has_initial);
        row.given().filter(|_| has_initial).unwrap_or(initial)
    }

    /// A sum of which no step was counted.
    fn total(&self, sum: Number) -> Total {
        let spec = &self.model.spec;
        let count = spec.state.as_ref().and_then(State::count);
        Total { sum, count: count.map_or(spec.arithmetic, |count| count.arithmetic).zero() }
    }

    fn step(&mut self, row: &Row, mistaken: Option<Total>) -> Result<Step, Failure> {
        let model = Arc::clone(&self.model);
        let (spec, faults) = (&model.spec, &model.faults);
        let value = spec.arithmetic.sum(&row.elements);
        if spec.parameters.error_on == Some(value) {
            return Err(Failure::internal(format!("the model takes no {value}")));
        }
        assert!(spec.parameters.panic_on != Some(value), "the input is {value}, the value of panic_on_value");
        if faults.happens(Fault::ModelError) {
            return Err(Failure::internal("a planted fault: this step is answered with an error"));
        }
        let before = self.before(row, mistaken);
        let times = self.times(value);
        let counts = spec.state.as_ref().and_then(State::count).map(|count| count.arithmetic);
        let total = (0..times).fold(before, |Total { sum, count }, _| Total {
            sum: spec.arithmetic.add(sum, value),
            count: counts.map_or(count, |arithmetic| arithmetic.add(count, arithmetic.integer(1))),
        });
        let is_first = row.told.start || !spec.is_iterative();
        let at = if is_first { 0 } else { self.sums.get(&self.key(row.slot, &row.told)).map_or(0, |kept| kept.at) };
        // An idle slot that is told to be ready has nothing to come back for.
        let again = !row.id.is_none() && at + 1 < spec.iterations;
        let state = self.keep(row, Kept { total, at: if again { at + 1 } else { 0 } });
        Ok(Step { results: self.results(row, total.sum, again), count: counts.map(|_| total.count), state, again })
    }

    /// How often a value is added: once, but for a planted fault that shows.
    fn times(&self, value: Number) -> u32 {
        let faults = &self.model.faults;
        if value == self.model.spec.arithmetic.zero() {
            return 1;
        }
        let times = u32::from(!faults.happens(Fault::SkipStep));
        times * if faults.happens(Fault::ExecuteTwice) { 2 } else { 1 }
    }

    /// What a step with this sum is answered with.
    fn results(&self, row: &Row, sum: Number, again: bool) -> Vec<Number> {
        let (spec, faults, arithmetic) = (&self.model.spec, &self.model.faults, self.model.spec.arithmetic);
        if again {
            return if spec.decoupled { vec![sum] } else { Vec::new() };
        }
        let mut result = sum;
        if row.told.end && spec.parameters.formula.adds_corrid {
            let id = spec.controls.corrid.as_ref().and_then(|corrid| row.told.number(corrid.datatype));
            result = arithmetic.add(result, arithmetic.id(id.unwrap_or(0)));
        }
        let responses = if spec.decoupled { spec.responses } else { 1 };
        let mut results: Vec<_> =
            (0..responses).map(|which| arithmetic.add(result, arithmetic.integer(which.into()))).collect();
        if let Some(last) = results.last_mut()
            && faults.happens(Fault::OffByOne)
        {
            *last = arithmetic.add(*last, arithmetic.integer(1));
        }
        results
    }

    /// Keeps what the sequence has come to, or gives it to the server to keep.
    fn keep(&mut self, row: &Row, kept: Kept) -> Option<Total> {
        let model = Arc::clone(&self.model);
        let faults = &model.faults;
        if model.spec.parameters.formula.is_stateless {
            return None;
        }
        if faults.has(Fault::StaleState) {
            self.last_of_sequence.set(row.id.clone(), kept.total);
        }
        let key = self.key(row.slot, &row.told);
        if let Some(given) = row.given() {
            // The server keeps it; only the fault needs to know what was here.
            if faults.has(Fault::KeepState) {
                self.sums.set(key, kept);
            }
            let is_lost = !row.told.end && given.sum != kept.total.sum && faults.happens(Fault::StateNotSaved);
            return (!is_lost).then_some(kept.total);
        }
        let is_over = row.told.end && kept.at == 0;
        if is_over && matches!(key, Key::Corrid(_)) && !faults.has(Fault::KeepState) {
            self.sums.remove(&key);
        } else {
            self.sums.set(key, kept);
        }
        None
    }
}

/// What is kept by key, bounded: a model is not told of sequences that the server reaps, so what was not used while 65,536
/// others were is forgotten.
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

    fn set(&mut self, key: K, value: V) {
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
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
    fn what_is_used_is_kept_and_the_rest_is_bounded() {
        let mut sums = Sums::default();
        sums.set(-1, 7);
        for key in 0..300_000 {
            sums.set(key, key);
            if key % 1000 == 0 {
                let kept = sums.get(&-1).expect("it is in use");
                sums.set(-1, kept);
            }
        }
        assert_eq!((sums.get(&-1), sums.get(&299_999), sums.get(&0)), (Some(7), Some(299_999), None));
        assert!(sums.young.len() + sums.old.len() <= 2 * GENERATION);
        sums.remove(&299_999);
        assert_eq!(sums.get(&299_999), None);
        let mut sums = Sums::default();
        (0..300_000).for_each(|key| sums.set(key, key));
        assert!(sums.young.len() + sums.old.len() <= 2 * GENERATION);
    }
}
