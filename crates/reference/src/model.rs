//! The models: they see tensors and nothing else.
//!
//! [`Host`] has what models have in common: what they are told, the state of their sequences, and the faults of both. What a model
//! [computes](Computes) of a state and an input is a file of its own.

mod accumulator;
mod any_tensors;
mod gru;
mod kept;
mod noise;
mod outputs;
mod states;
#[cfg(test)]
mod tests;
mod two_state;

use std::{fmt, sync::Arc};

use tonic::Status;

use super::{
    execution::Wants,
    fault::{Fault, Faults},
    parameters::Formula,
    scheduler::{SequenceId, Strategy},
    spec::{Signal, Spec, Tells, TensorSpec},
    tensor::{Datatype, Tensor, texts},
};
use accumulator::Accumulator;
use any_tensors::AnyTensors;
use gru::Gru;
use kept::Kept;
use noise::{Noise, Place};
use two_state::TwoState;

pub(super) use gru::Weights;
pub(super) use states::STATES_MAX;

/// One row of a batch, as the model gets it.
#[derive(Debug)]
pub(super) struct ModelRow {
    /// Its place, which is the slot with Direct.
    pub(super) slot: u32,
    /// Inputs, controls and states, by name.
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

/// What one row is answered with: outputs, by name; nothing where it was not ready.
pub(super) type Outputs = Vec<(Arc<str>, Tensor)>;

/// What came of one row: what it is answered with, and the states for the server to keep.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) responses: Vec<Outputs>,
    /// One for each [state of the configuration](Spec::states), in their order.
    pub(super) states: Option<Vec<Tensor>>,
}

/// What became of one row, or why the model rejects it.
pub(super) type RowResult = Result<Step, Status>;

/// A loaded model, in one instance.
pub(super) trait Model: fmt::Debug + Send {
    /// Whether the model keeps a state, other than nothing, by which it knows the row.
    fn goes_on(&self, slot: u32, id: Option<&Tensor>) -> bool;

    /// Executes a batch: what becomes of each of its rows.
    fn execute(&mut self, rows: &[ModelRow]) -> Vec<RowResult>;
}

/// An instance of the model that a configuration describes.
pub(super) fn instance(number: u32, spec: &Arc<Spec>, faults: &Arc<Faults>) -> Box<dyn Model> {
    fn host<C: Computes + 'static>(number: u32, spec: &Arc<Spec>, faults: &Arc<Faults>, computes: C) -> Box<dyn Model> {
        Box::new(Host {
            instance: number,
            spec: Arc::clone(spec),
            faults: Arc::clone(faults),
            computes,
            kept: Kept::default(),
            last_of_sequence: Kept::default(),
            noise: Noise::new(spec.parameters.noise),
        })
    }
    let its = || Arc::clone(spec);
    match spec.parameters.formula {
        Formula::Sum(sum) => host(number, spec, faults, Accumulator::new(its(), sum)),
        Formula::Gru => host(number, spec, faults, Gru::new(its())),
        Formula::TwoState => host(number, spec, faults, TwoState::new(its())),
        Formula::AnyTensors => host(number, spec, faults, AnyTensors::new(its())),
    }
}

/// What a model computes: of a sequence's state and an input the next state, and of that state the outputs.
trait Computes: fmt::Debug + Send {
    /// What is known of a sequence between its steps.
    type State: Clone + PartialEq + fmt::Debug + Send;
    /// What a step's tensors are to the model.
    type Input;

    /// The state of a sequence of which there is none.
    fn blank(&self) -> Self::State;

    /// The state of a sequence that begins.
    fn begin(&self) -> Self::State {
        self.blank()
    }

    /// What stands in place of a state in models that have none.
    fn stateless(&self, _start: bool) -> Option<Self::State> {
        None
    }

    /// The state that the server kept, in the order of the [states of the configuration](Spec::states); none where it is none.
    fn load(&self, tensors: &[&Tensor]) -> Option<Self::State>;

    /// Looks at the states that the server gives with a step.
    ///
    /// # Errors
    /// Why they are none that the model gave to it.
    fn check(&self, _tensors: &[&Tensor], _start: bool) -> Result<(), Status> {
        Ok(())
    }

    /// How many elements states of open shape have.
    fn open_size(&self, _state: &Self::State) -> i64 {
        1
    }

    /// The bytes of each of those states, for the server to keep.
    fn store(&self, state: &Self::State) -> Vec<Vec<u8>>;

    /// The state with the bytes of one of its tensors in the place of another's; none where it has one alone.
    fn exchanged(&self, _state: &Self::State) -> Option<Self::State> {
        None
    }

    /// The numbers of a state that noise changes.
    fn floats<'a>(&self, _state: &'a mut Self::State) -> Vec<&'a mut [f32]> {
        Vec::new()
    }

    /// Takes a step's tensors.
    ///
    /// # Errors
    /// Why the model rejects the step, which then changes nothing.
    fn read(&self, row: &ModelRow) -> Result<Self::Input, Status>;

    /// The state after an input.
    fn advance(&self, state: &Self::State, input: &Self::Input) -> Self::State;

    /// The responses to a step that led to this state, with the faults of single elements.
    fn answer(
        &self,
        row: &ModelRow,
        told: &Told,
        state: &Self::State,
        input: &Self::Input,
        faults: &Faults,
    ) -> Vec<Outputs>;
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

/// What models have in common, around what one computes.
#[derive(Debug)]
struct Host<C: Computes> {
    instance: u32,
    spec: Arc<Spec>,
    faults: Arc<Faults>,
    computes: C,
    kept: Kept<Key, C::State>,
    last_of_sequence: Kept<SequenceId, C::State>,
    noise: Noise,
}

impl<C: Computes> Model for Host<C> {
    fn goes_on(&self, slot: u32, id: Option<&Tensor>) -> bool {
        self.kept.get(&Key::new(slot, id)).is_some_and(|state| !self.is_blank(state))
    }

    fn execute(&mut self, rows: &[ModelRow]) -> Vec<RowResult> {
        let told: Vec<_> = rows.iter().map(|row| self.told(row)).collect();
        let mut before: Vec<_> = rows.iter().zip(&told).map(|(row, told)| self.before(row, told)).collect();
        self.swap_states(&told, &mut before);
        let each = rows.iter().zip(&told).zip(before).enumerate();
        each.map(|(place, ((row, told), before))| {
            // Without a state READY is a factor like any other.
            let is_stateless = self.computes.stateless(told.start).is_some();
            let steps = told.ready || (is_stateless && row.id.is_some());
            let unready = || Step { responses: vec![Outputs::new()], states: None };
            let place = Place { row: place, rows: rows.len() };
            let mut step = if steps { self.step(row, told, &before, place)? } else { unready() };
            step.responses.iter_mut().for_each(|outputs| outputs.extend(self.echoes(row)));
            Ok(step)
        })
        .collect()
    }
}

impl<C: Computes> Host<C> {
    fn is_blank(&self, state: &C::State) -> bool {
        *state == self.computes.blank()
    }

    /// What the model saw of a row, in the outputs that are asked for.
    fn echoes(&self, row: &ModelRow) -> Outputs {
        let outputs = self.spec.outputs.iter().zip(&self.spec.tells).enumerate();
        let asked = outputs
            .filter(|(index, (_, tells))| row.wants.has(*index) && !matches!(tells, Tells::Result | Tells::Count));
        asked.map(|(_, (output, tells))| (output.name.clone(), self.echo(row, output, *tells))).collect()
    }

    fn echo(&self, row: &ModelRow, output: &TensorSpec, tells: Tells) -> Tensor {
        let values = match tells {
            Tells::Result | Tells::Count | Tells::Seen => self.seen(row).to_vec(),
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

    /// The states that the server gives with a row; none where it gives none.
    fn given<'a>(&self, row: &'a ModelRow) -> Option<Vec<&'a Tensor>> {
        self.spec.states.iter().map(|state| row.tensor(&state.tensor.name)).collect()
    }

    /// The state that a step goes on from.
    fn before(&mut self, row: &ModelRow, told: &Told) -> C::State {
        if let Some(state) = self.computes.stateless(told.start) {
            return state;
        }
        let is_given = !self.spec.states.is_empty();
        let kept = if is_given {
            self.given(row).and_then(|tensors| self.computes.load(&tensors))
        } else {
            self.kept.get(&told.key).cloned()
        };
        let kept = kept.unwrap_or_else(|| self.computes.blank());
        if !told.start || self.spec.begins_with_given_states() {
            let goes_on = told.ready && !told.start && !self.is_blank(&kept);
            if goes_on && self.faults.happens(Fault::ResetState) {
                return self.computes.blank();
            }
            let exchanged = self.computes.exchanged(&kept).filter(|exchanged| goes_on && *exchanged != kept);
            return exchanged.filter(|_| self.faults.happens(Fault::ExchangeStates)).unwrap_or(kept);
        }
        if !is_given && !self.is_blank(&kept) && self.faults.happens(Fault::KeepState) {
            return kept;
        }
        let last = row.id.as_ref().and_then(|id| self.last_of_sequence.get(id)).filter(|last| !self.is_blank(last));
        last.filter(|_| self.faults.happens(Fault::StaleState)).cloned().unwrap_or_else(|| self.computes.begin())
    }

    fn swap_states(&self, told: &[Told], before: &mut [C::State]) {
        let going_on = |index: &usize| told[*index].ready && !told[*index].start;
        let Some(one) = (0..told.len()).find(going_on) else { return };
        let other = (one + 1..told.len()).filter(going_on).find(|other| before[*other] != before[one]);
        if let Some(other) = other.filter(|_| self.faults.happens(Fault::SwapStates)) {
            before.swap(one, other);
        }
    }

    fn step(&mut self, row: &ModelRow, told: &Told, before: &C::State, place: Place) -> RowResult {
        if let Some(given) = self.given(row).filter(|given| !given.is_empty()) {
            self.computes.check(&given, told.start)?;
        }
        let input = self.computes.read(row)?;
        let mut after = self.computes.advance(before, &input);
        if self.faults.has(Fault::ExecuteTwice) {
            let twice = self.computes.advance(&after, &input);
            if twice != after && self.faults.happens(Fault::ExecuteTwice) {
                after = twice;
            }
        }
        if after != *before && self.faults.happens(Fault::SkipStep) {
            after = before.clone();
        }
        self.noise.disturb_state(self.computes.floats(&mut after), place);
        let states = self.keep(row, told, &after);
        let mut responses = self.computes.answer(row, told, &after, &input, &self.faults);
        self.noise.disturb_outputs(&mut responses, place);
        Ok(Step { responses, states })
    }

    /// Keeps the state, or gives it to the server to keep.
    fn keep(&mut self, row: &ModelRow, told: &Told, after: &C::State) -> Option<Vec<Tensor>> {
        if self.computes.stateless(told.start).is_some() {
            return None;
        }
        if self.faults.has(Fault::StaleState)
            && let Some(id) = &row.id
        {
            self.last_of_sequence.set(id.clone(), after.clone());
        }
        if !self.spec.states.is_empty() {
            self.given(row)?;
            let open_size = self.computes.open_size(after);
            let kept = self.spec.states.iter().zip(self.computes.store(after)).map(|(state, data)| {
                let TensorSpec { datatype, dims, .. } = &state.tensor;
                let dims: Vec<_> = dims.iter().map(|size| if *size < 0 { open_size } else { *size }).collect();
                Tensor { datatype: *datatype, shape: self.spec.shape(1, &dims), data }
            });
            return Some(kept.collect());
        }
        if told.end && matches!(told.key, Key::CorrelationId(_)) {
            self.kept.remove(&told.key);
        } else {
            self.kept.set(told.key.clone(), after.clone());
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
