//! What stands between scheduler and model: control tensors, and the state that the server keeps.

use std::{collections::BTreeMap, sync::Arc};

use tonic::Status;

use super::{
    fault::{Fault, Faults},
    model::{self, Model, ModelRow, Outputs, Step},
    number::Number,
    scheduler::{Batch, Request, Row, SequenceId},
    spec::{ControlSpec, Signal, Spec, StateSpec, TensorSpec},
    tensor::{Datatype, Tensor, text_element},
};

/// The bits that a new sequence finds in a state that has no initial one: they are not defined, so nobody should use them.
const UNDEFINED: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// A request's inputs, by name.
pub(super) type Inputs = Vec<(Arc<str>, Tensor)>;

/// Which outputs a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// A bit for each.
    pub(super) outputs: u32,
    /// Whether the last answer of a decoupled model is wanted where there is nothing in it.
    pub(super) empty_final: bool,
}

impl Wants {
    pub(super) const ALL: Self = Self { outputs: u32::MAX, empty_final: false };

    /// The outputs of a model with these numbers.
    pub(super) fn of(indices: Vec<usize>) -> Self {
        Self { outputs: indices.into_iter().fold(0, |bits, index| bits | 1 << index), empty_final: false }
    }

    pub(super) fn has(self, index: usize) -> bool {
        self.outputs & (1 << index) != 0
    }
}

/// What a request asks of the model, and where the answer goes.
#[derive(Debug)]
pub(super) struct Ticket<R> {
    /// The client's name for it.
    pub(super) request_id: String,
    /// The version of the model that it is to.
    pub(super) version: i64,
    pub(super) inputs: Inputs,
    pub(super) wants: Wants,
    pub(super) reply: R,
}

#[derive(Debug)]
pub(super) struct Instance {
    number: u32,
    spec: Arc<Spec>,
    faults: Arc<Faults>,
    model: Box<dyn Model>,
    /// The implicit states of each slot, in the order of the configuration.
    states: BTreeMap<u32, Vec<Tensor>>,
    /// The sequences of the last rows, for the fault of taking one for the other.
    recent: [Option<SequenceId>; 2],
}

/// A request that was executed, and what came of it.
#[derive(Debug)]
pub(super) struct Executed<R> {
    pub(super) request: Request<Ticket<R>>,
    pub(super) outcome: RequestResult,
    /// Whether the model itself executed it, which a program also does that passes on the error of a model that it calls.
    pub(super) succeeded: bool,
}

impl<R> Executed<R> {
    fn new(request: Request<Ticket<R>>, outcome: RequestResult) -> Self {
        Self { request, succeeded: outcome.is_ok(), outcome }
    }
}

pub(super) type RequestResult = Result<Vec<Outputs>, Status>;

impl Instance {
    pub(super) fn new(number: u32, spec: Arc<Spec>, faults: Arc<Faults>) -> Self {
        let model = model::instance(number, &spec, &faults);
        Self { number, spec, faults, model, states: BTreeMap::new(), recent: [None, None] }
    }

    /// Begins anew: what the model kept is gone, and what the server keeps is not.
    pub(super) fn restart(&mut self) {
        self.model = model::instance(self.number, &self.spec, &self.faults);
    }

    /// What becomes of a batch whose instance failed.
    pub(super) fn fail<R>(rows: Batch<Ticket<R>>, why: &Status) -> Vec<Executed<R>> {
        let requests = rows.into_iter().filter_map(|row| row.request);
        requests.map(|request| Executed::new(request, Err(why.clone()))).collect()
    }

    /// Executes a batch; padding is not among what comes back.
    pub(super) fn execute<R>(&mut self, mut rows: Batch<Ticket<R>>) -> Vec<Executed<R>> {
        let mut inputs: Vec<_> = rows
            .iter_mut()
            .map(|row| row.request.as_mut().map(|request| std::mem::take(&mut request.payload.inputs)))
            .collect();
        self.redo_cancelled(&rows, &inputs);
        let ends: Vec<_> = rows.iter().map(|row| row.request.as_ref().is_none_or(|request| request.end)).collect();
        let mut outcomes: Vec<RequestResult> = rows.iter().map(|_| Ok(Vec::new())).collect();
        for left in (0..self.spec.parameters.iterations).rev() {
            let given = if left == 0 { std::mem::take(&mut inputs) } else { inputs.clone() };
            for (request, ends) in rows.iter_mut().map(|row| row.request.as_mut()).zip(&ends) {
                _ = request.map(|request| request.end = *ends && left == 0);
            }
            for (all, outcome) in outcomes.iter_mut().zip(self.execute_once(&rows, given)) {
                match (&mut *all, outcome) {
                    (Ok(all), Ok(responses)) => all.extend(responses),
                    (all @ Ok(_), failed) => *all = failed,
                    (Err(_), _) => {}
                }
            }
            rows.iter_mut().filter_map(|row| row.request.as_mut()).for_each(|request| request.start = false);
        }
        if !self.spec.is_decoupled {
            // Of an iterative model that answers once it is the last answer.
            let all_but_one = |all: &mut Vec<Outputs>| _ = all.drain(..all.len().saturating_sub(1));
            outcomes.iter_mut().flatten().for_each(all_but_one);
        }
        let executed = rows.into_iter().zip(outcomes);
        executed.filter_map(|(row, outcome)| row.request.map(|request| Executed::new(request, outcome))).collect()
    }

    /// Executes those rows once too often that nobody waits for any more, where that is planted.
    fn redo_cancelled<R>(&mut self, rows: &[Row<Ticket<R>>], inputs: &[Option<Inputs>]) {
        if !self.faults.has(Fault::RedoCancelled) {
            return;
        }
        for (row, inputs) in rows.iter().zip(inputs) {
            // A START begins anew, however often.
            let goes_on = row.request.as_ref().is_some_and(|request| request.is_cancelled() && !request.start);
            if goes_on && self.faults.happens(Fault::RedoCancelled) {
                self.execute_once(std::slice::from_ref(row), vec![inputs.clone()]);
            }
        }
    }

    fn execute_once<R>(&mut self, rows: &[Row<Ticket<R>>], mut inputs: Vec<Option<Inputs>>) -> Vec<RequestResult> {
        // READY says that padding is not to be looked at, so it has an input only where the fault is planted that it is.
        let looks_at_padding = self.faults.has(Fault::ReadySpurious);
        let padding = looks_at_padding.then(|| inputs.iter().flatten().next().cloned()).flatten().unwrap_or_default();
        let model_rows: Vec<_> = rows
            .iter()
            .zip(&mut inputs)
            .map(|(row, inputs)| self.model_row(row, inputs.take().unwrap_or_else(|| padding.clone())))
            .collect();
        let outcomes = self.model.execute(&model_rows);
        let each = rows.iter().zip(outcomes).map(|(row, outcome)| {
            let ends = row.request.as_ref().is_none_or(|request| request.end);
            outcome.map(|step| self.save_state(row.slot, ends, step))
        });
        each.collect()
    }

    fn model_row<R>(&mut self, row: &Row<Ticket<R>>, mut tensors: Inputs) -> ModelRow {
        let request = row.request.as_ref();
        let keeps_state = request.is_some_and(|request| request.start && self.keeps_state(row.slot));
        let id = self.spec.control(Signal::CorrelationId).map(|control| {
            let id = request.map(|request| self.told_id(&request.id));
            id_tensor(control, id.as_ref(), self.spec.shape(1, &[1]))
        });
        let goes_on = self.goes_on(row.slot, id.as_ref(), request.is_none());
        for control in &self.spec.controls {
            let tensor = match (control.signal, &id) {
                (Signal::CorrelationId, Some(id)) => id.clone(),
                (signal, _) => {
                    let says = self.told(signal, request, goes_on) && !(keeps_state && signal == Signal::Start);
                    let data = control.false_true[usize::from(says)].clone();
                    Tensor { datatype: control.datatype, shape: self.spec.shape(1, &[1]), data }
                }
            };
            tensors.push((control.tensor.clone(), tensor));
        }
        if request.is_some() || self.faults.has(Fault::ReadySpurious) {
            let is_new = request.is_some_and(|request| request.start) && !keeps_state;
            let states = if self.spec.states.is_empty() { Vec::new() } else { self.states(row.slot, is_new) };
            tensors.extend(self.spec.states.iter().map(|state| state.tensor.name.clone()).zip(states));
        }
        if let Some(request) = request {
            self.remember(&request.id);
        }
        let wants = request.map(|request| request.payload.wants).unwrap_or_default();
        ModelRow { slot: row.slot, tensors, wants, id: request.map(|request| request.id.clone()) }
    }

    /// Whether a row that is not a START would go on from something, so that mistaking it for one or the other shows.
    fn goes_on(&self, slot: u32, id: Option<&Tensor>, is_padding: bool) -> bool {
        match (self.spec.states.is_empty(), is_padding) {
            (true, _) => self.model.goes_on(slot, id),
            (false, true) => self.has_state(slot),
            // At START there is something, although it is not defined.
            (false, false) => !self.spec.begins_with_given_states(),
        }
    }

    /// What a control tensor says of a row.
    fn told<T>(&self, signal: Signal, request: Option<&Request<T>>, goes_on: bool) -> bool {
        let Some(request) = request else {
            return signal == Signal::Ready && goes_on && self.faults.happens(Fault::ReadySpurious);
        };
        if signal == Signal::Start && request.start && !goes_on {
            return true;
        }
        let (is_so, missing, spurious) = match signal {
            Signal::Start => (request.start, Fault::StartMissing, Some(Fault::StartSpurious)),
            Signal::End => (request.end, Fault::EndMissing, Some(Fault::EndSpurious)),
            Signal::Ready | Signal::CorrelationId => (true, Fault::ReadyMissing, None),
        };
        let is_wrong = if is_so { Some(missing) } else { spurious }.is_some_and(|fault| self.faults.happens(fault));
        is_so != is_wrong
    }

    fn told_id(&self, id: &SequenceId) -> SequenceId {
        if self.faults.happens(Fault::CorridZero) {
            return SequenceId::Number(0);
        }
        let other = self.recent.iter().flatten().find(|other| *other != id);
        other.filter(|_| self.faults.happens(Fault::CorridOther)).unwrap_or(id).clone()
    }

    fn remember(&mut self, id: &SequenceId) {
        if self.faults.has(Fault::CorridOther) && self.recent[0].as_ref() != Some(id) {
            self.recent.swap(0, 1);
            self.recent[0] = Some(id.clone());
        }
    }

    /// Whether a fault keeps the slot's implicit state over a START.
    fn keeps_state(&self, slot: u32) -> bool {
        self.has_state(slot) && self.faults.happens(Fault::KeepState)
    }

    fn has_state(&self, slot: u32) -> bool {
        let states = self.states.get(&slot).into_iter().flatten();
        let mut numbers = states.flat_map(|state| state.numbers().unwrap_or_default());
        numbers.any(|number| !number.is_zero())
    }

    fn states(&mut self, slot: u32, is_new: bool) -> Vec<Tensor> {
        let spec = &self.spec;
        let new = || spec.states.iter().map(|state| new_state(state, spec)).collect();
        if is_new {
            self.states.insert(slot, new());
        }
        let own = self.states.entry(slot).or_insert_with(new).clone();
        let other = self.states.iter().find(|(its, states)| **its != slot && **states != own).map(|(_, states)| states);
        let mut given = match other {
            Some(other) if !is_new && self.faults.happens(Fault::StateOfAnotherSlot) => other.clone(),
            _ => own,
        };
        // What computes no sum mistakes its own states for each other.
        if let [first, second, ..] = &given[..]
            && !is_new
            && first != second
            && spec.parameters.formula.is_sum()
            && self.faults.happens(Fault::ExchangeStates)
        {
            given.swap(0, 1);
        }
        given
    }

    /// Keeps the state that a row gave back, and leaves the responses.
    fn save_state(&mut self, slot: u32, ends: bool, step: Step) -> Vec<Outputs> {
        if let Some(mut states) = step.states
            && (ends || !self.faults.happens(Fault::StateNotSaved))
        {
            let before = self.states.get(&slot).and_then(|before| before.last()).filter(|_| states.len() > 1 && !ends);
            if let (Some(before), Some(last)) = (before, states.last_mut())
                && before != last
                && self.faults.happens(Fault::StateHalfSaved)
            {
                last.clone_from(before);
            }
            self.states.insert(slot, states);
        }
        step.responses
    }
}

/// The state that a new sequence finds.
fn new_state(state: &StateSpec, spec: &Spec) -> Tensor {
    let TensorSpec { datatype, dims, .. } = &state.tensor;
    // Of an open shape it has one element.
    let dims: Vec<_> = dims.iter().map(|size| (*size).max(1)).collect();
    let (datatype, shape, count) = (*datatype, spec.shape(1, &dims), state.tensor.elements());
    match (&state.initial, Number::of_bits(datatype, UNDEFINED)) {
        (Some(data), _) => Tensor { datatype, shape, data: data.clone() },
        (None, Some(undefined)) => Tensor::filled(datatype, shape, count, undefined),
        // No served model has a state of such a type.
        (None, None) => Tensor { datatype, shape, data: vec![0; count * datatype.size().unwrap_or_default()] },
    }
}

/// What a model reads that is told a text where it declares a number: the text's length, and its first four bytes.
fn text_as_number(text: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = u32::try_from(text.len()).expect("at most 128 bytes");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    for (byte, of_text) in bytes[4..].iter_mut().zip(text.bytes()) {
        *byte = of_text;
    }
    u64::from_le_bytes(bytes)
}

/// A correlation ID as the tensor that the model declares; none and padding are 0.
fn id_tensor(control: &ControlSpec, id: Option<&SequenceId>, shape: Vec<i64>) -> Tensor {
    let (number, text) = match id {
        Some(SequenceId::Number(number)) => (*number, number.to_string()),
        Some(SequenceId::Text(text)) => (text_as_number(text), text.to_string()),
        None => (0, String::new()),
    };
    let data = match control.datatype {
        Datatype::Bytes => text_element(text.as_bytes()),
        Datatype::Int32 | Datatype::Uint32 => number.to_le_bytes()[..4].to_vec(),
        _ => number.to_le_bytes().to_vec(),
    };
    Tensor { datatype: control.datatype, shape, data }
}
