//! What a model's configuration asks for, checked.

#![forbid(unsafe_code)]

mod config;

use config::{Config, Control, ControlInput, StateConfig, TensorConfig};

use crate::{
    name::Name,
    parameters::{Parameters, StateKey},
    tensor::{Arithmetic, Datatype, text_element},
};

/// The output that tells all that the model saw, and what parameter `sequence_stress_controls` has to name.
pub(crate) const SEEN_OUTPUT: &str = "SEEN";
/// The output that tells the second of two states.
const COUNT_OUTPUT: &str = "COUNT";
/// The outputs that tell what the model saw, and the types that they may have.
const SEEN: [(&str, Seen); 8] = [
    ("SAW_START", Seen::Start),
    ("SAW_END", Seen::End),
    ("SAW_READY", Seen::Ready),
    ("SAW_CORRID", Seen::Corrid),
    ("SLOT", Seen::Slot),
    ("INSTANCE", Seen::Instance),
    (SEEN_OUTPUT, Seen::All),
    (COUNT_OUTPUT, Seen::Count),
];

/// How often an iterative request is executed, where the configuration does not say.
const ITERATIONS: u32 = 3;
/// The most states that hold multiples of the sum: each order of them is looked at where something is wrong.
const COPIES_MAX: usize = 4;
/// The sizes of a tensor of one element, without the batch dimension.
const ONE_ELEMENT: [i64; 1] = [1];
/// Those of [`SEEN_OUTPUT`].
const ALL_SEEN: [i64; 1] = [5];

/// A model, as its configuration has it.
#[derive(Debug)]
pub(crate) struct Spec {
    /// The model's name.
    pub(crate) name: String,
    /// Whether tensors have a batch dimension.
    pub(crate) batches: bool,
    /// The most requests of an execution, which with Direct are the slots of an instance.
    places: i64,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) input: Name,
    /// The names of all outputs: the result's first, then in the order of [`Self::seen`].
    pub(crate) outputs: Vec<Name>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) controls: Controls,
    pub(crate) state: Option<State>,
    pub(crate) key: StateKey,
    /// Whether the strategy is Oldest, and not Direct.
    is_oldest: bool,
    /// A request may have any number of answers.
    pub(crate) decoupled: bool,
    /// How many answers an execution gives.
    pub(crate) responses: u32,
    /// How often a request is executed.
    pub(crate) iterations: u32,
    pub(crate) parameters: Parameters,
}

/// A control that is true or false.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) tensor: Name,
    pub(crate) datatype: Datatype,
    /// An element for false, and one for true.
    pub(crate) false_true: [Vec<u8>; 2],
}

/// The control that tells the correlation ID.
#[derive(Debug)]
pub(crate) struct Corrid {
    pub(crate) tensor: Name,
    pub(crate) datatype: Datatype,
}

/// State that the server keeps.
#[derive(Debug)]
pub(crate) struct State {
    /// In the order in which the configuration has them: that of the sum, and what it holds besides.
    pub(crate) tensors: Vec<StateTensor>,
    pub(crate) holds: Holds,
    /// Whether a new sequence finds one; else what it finds is not defined.
    pub(crate) has_initial: bool,
}

/// What the states are that come after that of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The number of steps, where there is a second one.
    Count,
    /// Multiples of the sum, by which a model sees whether all states are its sequence's own, and of one step.
    Copies,
}

/// One state that the server keeps, each of whose elements is the same number.
#[derive(Debug)]
pub(crate) struct StateTensor {
    pub(crate) input: Name,
    pub(crate) output: Name,
    pub(crate) arithmetic: Arithmetic,
    /// The sizes without the batch dimension; -1 is any size.
    dims: Vec<i64>,
}

impl StateTensor {
    /// Whether the server may give it in this shape.
    pub(crate) fn may_be(&self, shape: &[i64], batches: bool) -> bool {
        let dims = shape.get(usize::from(batches)..).unwrap_or_default();
        let fits = |(size, wanted): (&i64, &i64)| *wanted < 0 || size == wanted;
        dims.len() == self.dims.len() && dims.iter().zip(&self.dims).all(fits)
    }

    /// The sizes that the configuration says.
    pub(crate) fn dims(&self) -> &[i64] {
        &self.dims
    }
}

impl State {
    /// That of the number of steps, where there is one.
    pub(crate) fn count(&self) -> Option<&StateTensor> {
        self.tensors.get(1).filter(|_| self.holds == Holds::Count)
    }
}

/// What an output tells of what the model saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// START, END, READY, CORRID and the number of the slot among those of all instances; -1 is what the model does not know.
    All,
    Start,
    End,
    Ready,
    Corrid,
    /// The place in the batch, which with Direct is the slot.
    Slot,
    /// The instance's number, in the order in which they were made.
    Instance,
    /// The number of steps, which is the second of two states.
    Count,
}

impl Spec {
    /// Reads a configuration, as JSON.
    ///
    /// # Errors
    /// What a model of this backend cannot be, with the name of the tensor or parameter.
    pub(crate) fn read(json: &str) -> Result<Self, String> {
        let config: Config =
            serde_json::from_str(json).map_err(|error| format!("the configuration cannot be read: {error}"))?;
        let batching =
            config.sequence_batching.ok_or("sequence_batching is missing: the models work on sequences alone")?;
        let [input] = &config.input[..] else {
            return Err(format!("input: one is wanted, and there are {}", config.input.len()));
        };
        let arithmetic = datatype(&input.name, &input.data_type)?;
        let arithmetic = Arithmetic::of(arithmetic)
            .ok_or_else(|| format!("input '{}': {} has no sum; take a type of numbers", input.name, input.data_type))?;
        let parameters = Parameters::read(&config.parameters, arithmetic)?;
        let controls = Controls::read(&batching.control_input)?;
        let decoupled = config.model_transaction_policy.decoupled;
        let (outputs, seen) = outputs(&config.output, arithmetic.datatype(), &controls)?;
        for output in &config.output {
            let dims = match told_in(&output.name) {
                None => &input.dims[..],
                Some(Seen::All) => &ALL_SEEN,
                Some(_) => &ONE_ELEMENT,
            };
            check_dims(output, dims, input.reshape.is_some())?;
        }
        let state = state(&batching.state, arithmetic.datatype(), parameters.states)?;
        let several = |wanted: Option<u32>, name: &str, may: bool, what: &str| match wanted {
            Some(_) if !may => Err(format!("parameter 'sequence_stress_{name}': the model is not {what}")),
            wanted => Ok(wanted),
        };
        let iterative = batching.iterative_sequence;
        let responses =
            several(parameters.responses, "responses", decoupled && !iterative, "decoupled, or is iterative")?;
        let iterations = several(parameters.iterations, "iterations", iterative, "iterative")?;
        let by_controls = if controls.corrid.is_some() { StateKey::Corrid } else { StateKey::Slot };
        let spec = Self {
            name: config.name,
            batches: config.max_batch_size > 0,
            places: config.max_batch_size.max(1),
            arithmetic,
            input: Name::new(&input.name)?,
            outputs,
            seen,
            key: parameters.state_key.unwrap_or(by_controls),
            controls,
            state,
            is_oldest: batching.oldest.is_some(),
            decoupled,
            responses: responses.unwrap_or(1),
            iterations: iterations.unwrap_or(if iterative { ITERATIONS } else { 1 }),
            parameters,
        };
        spec.check().map(|()| spec)
    }

    /// Whether the parts fit each other.
    fn check(&self) -> Result<(), String> {
        let missing = |kind: &str, why: &str| Err(format!("control_input: CONTROL_SEQUENCE_{kind} is missing: {why}"));
        if self.controls.start.is_none() && self.state.as_ref().is_none_or(|state| !state.has_initial) {
            return missing("START", "the model could not tell where a sequence begins");
        }
        if !self.is_oldest && self.controls.ready.is_none() {
            return missing("READY", "with Direct, the model could not tell a request from an idle slot");
        }
        let count = self.state.as_ref().and_then(State::count);
        if self.seen.contains(&Seen::Count) && count.is_none() {
            return Err(format!("output '{COUNT_OUTPUT}': the model has no second state, which it would tell"));
        }
        if self.parameters.reverses_states && self.state.as_ref().is_none_or(|state| state.tensors.len() < 2) {
            return Err("parameter 'state_update_order': the model has no two states".to_owned());
        }
        if self.parameters.states == Holds::Copies && self.state.is_none() {
            return Err("parameter 'sequence_stress_states': the server keeps no state of this model".to_owned());
        }
        let formula = self.parameters.formula;
        if self.parameters.tells_controls && !self.seen.contains(&Seen::All) {
            return Err(format!("parameter 'sequence_stress_controls': there is no output '{SEEN_OUTPUT}'"));
        }
        for (kind, is_there) in [("END", self.controls.end.is_some()), ("CORRID", self.controls.corrid.is_some())] {
            if formula.adds_corrid && !is_there {
                return missing(kind, &format!("sequence_stress_formula '{}' needs it", formula.name()));
            }
        }
        if formula.is_stateless {
            return self.check_stateless();
        }
        if let Some(state) = &self.state {
            return self.check_implicit(state);
        }
        if self.key == StateKey::Corrid && self.controls.corrid.is_none() {
            return missing("CORRID", "parameter 'state_key' is 'corrid'");
        }
        if self.key == StateKey::Slot && self.is_oldest {
            return if self.controls.corrid.is_some() {
                Err("parameter 'state_key': with Oldest a place in the batch is no slot, so it must be 'corrid'"
                    .to_owned())
            } else {
                missing("CORRID", "with Oldest, a model that keeps its own state knows a sequence by nothing else")
            };
        }
        Ok(())
    }

    /// Whether there is nothing about state where there is none.
    fn check_stateless(&self) -> Result<(), String> {
        let of_state = [
            (self.state.is_some(), "state"),
            (self.parameters.state_key.is_some(), "parameter 'state_key'"),
            (self.parameters.initial != self.arithmetic.zero(), "parameter 'sequence_stress_initial_state'"),
            (self.is_iterative(), "iterative_sequence"),
        ];
        let of_state = of_state.into_iter().find(|(is_there, _)| *is_there);
        let formula = self.parameters.formula.name();
        of_state.map_or(Ok(()), |(_, what)| Err(format!("{what}: with '{formula}' the model keeps nothing")))
    }

    /// Whether the rest fits a state that the server keeps.
    fn check_implicit(&self, state: &State) -> Result<(), String> {
        if self.parameters.state_key.is_some() {
            return Err("parameter 'state_key': the server keeps this model's state".to_owned());
        }
        if self.parameters.initial != self.arithmetic.zero() && !state.has_initial {
            return Err(
                "parameter 'sequence_stress_initial_state': the server keeps this model's state, which has no \
                        initial_state"
                    .to_owned(),
            );
        }
        if self.is_iterative() {
            return Err(
                "iterative_sequence: the model counts its executions by itself, so it can have no implicit state"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Whether a request may be executed more than once.
    pub(crate) fn is_iterative(&self) -> bool {
        self.iterations > 1
    }

    /// The shape of an output that tells what the model saw.
    pub(crate) fn shape_of(&self, seen: Seen) -> Vec<i64> {
        let dims = if seen == Seen::All { ALL_SEEN } else { ONE_ELEMENT };
        self.batches.then_some(1).into_iter().chain(dims).collect()
    }

    /// The number of the slot that is at a place of an instance's batch; with Oldest, which has no such places, none.
    pub(crate) fn slot(&self, instance: i32, place: usize) -> Option<i64> {
        let place = i64::try_from(place).ok().filter(|_| !self.is_oldest)?;
        Some(i64::from(instance) * self.places + place)
    }
}

/// What the output of this name tells of what the model saw; of any other one nothing.
fn told_in(output: &str) -> Option<Seen> {
    SEEN.iter().find(|(name, _)| *name == output).map(|(_, tells)| *tells)
}

/// Whether an output's sizes allow the shape that it will have; `dims` are the sizes that are known of that.
fn check_dims(output: &TensorConfig, dims: &[i64], is_reshaped: bool) -> Result<(), String> {
    let may_be = output.dims.is_empty() || output.dims == dims || (dims == ONE_ELEMENT && output.dims == [-1]);
    // Where the server changes shapes on the way, it has to know.
    if may_be || is_reshaped || output.reshape.is_some() {
        return Ok(());
    }
    Err(format!("output '{}': its dims are {:?} and have to be {dims:?}", output.name, output.dims))
}

fn datatype(tensor: &str, name: &str) -> Result<Datatype, String> {
    Datatype::of_name(name).ok_or_else(|| {
        let why = if name == "TYPE_BF16" { ", because its sums are exact up to 256 alone" } else { "" };
        format!("tensor '{tensor}': data type {name} is not served{why}")
    })
}

/// The outputs' names, the result's first, and what the others tell.
fn outputs(config: &[TensorConfig], result: Datatype, controls: &Controls) -> Result<(Vec<Name>, Vec<Seen>), String> {
    let (mut names, mut seen) = (Vec::new(), Vec::new());
    for output in config {
        let given = datatype(&output.name, &output.data_type)?;
        let tells = told_in(&output.name);
        let (wanted, control, is_there) = match tells {
            None => (result, "", true),
            Some(Seen::All | Seen::Count) => (Datatype::Int64, "", true),
            Some(Seen::Slot | Seen::Instance) => (Datatype::Int32, "", true),
            Some(Seen::Start) => (Datatype::Int32, "START", controls.start.is_some()),
            Some(Seen::End) => (Datatype::Int32, "END", controls.end.is_some()),
            Some(Seen::Ready) => (Datatype::Int32, "READY", controls.ready.is_some()),
            Some(Seen::Corrid) => {
                let datatype = controls.corrid.as_ref().map_or(given, |corrid| corrid.datatype);
                (datatype, "CORRID", controls.corrid.is_some())
            }
        };
        if given != wanted {
            return Err(format!("output '{}': it is {given} and has to be {wanted}", output.name));
        }
        if !is_there {
            return Err(format!(
                "output '{}': control_input has no CONTROL_SEQUENCE_{control} to tell of",
                output.name
            ));
        }
        match tells {
            Some(tells) => {
                names.push(Name::new(&output.name)?);
                seen.push(tells);
            }
            None if names.len() == seen.len() => names.insert(0, Name::new(&output.name)?),
            None => {
                let known: Vec<_> = SEEN.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "outputs '{}' and '{}': one of them is the result, and the other one none of {}",
                    names[0],
                    output.name,
                    known.join(", ")
                ));
            }
        }
    }
    if names.len() == seen.len() {
        return Err("output: one for the result is wanted".to_owned());
    }
    Ok((names, seen))
}

fn state(config: &[StateConfig], wanted: Datatype, holds: Holds) -> Result<Option<State>, String> {
    let Some((first, others)) = config.split_first() else { return Ok(None) };
    let (most, in_words) = match holds {
        Holds::Count => (2, "one or two are served"),
        Holds::Copies => (COPIES_MAX, "one to four are served"),
    };
    if config.len() > most {
        return Err(format!("state: {in_words}, and there are {}", config.len()));
    }
    let tensors = config.iter().map(state_tensor).collect::<Result<Vec<_>, _>>()?;
    let given = tensors[0].arithmetic.datatype();
    if given != wanted {
        return Err(format!("state '{}': it is {given} and has to be {wanted}, as the input is", first.input_name));
    }
    let has_initial = !first.initial_state.is_empty();
    if let Some(other) = others.iter().find(|other| other.initial_state.is_empty() == has_initial) {
        return Err(format!(
            "states '{}' and '{}': one of them has an initial_state; give it to all or to none",
            first.input_name, other.input_name
        ));
    }
    let is_open = |tensor: &&StateTensor| tensor.dims.iter().filter(|size| **size < 0).count() > 1;
    if let Some(open) = tensors.iter().find(is_open).filter(|_| holds == Holds::Copies) {
        return Err(format!("state '{}': one of its dims may be -1, and not several", open.input));
    }
    Ok(Some(State { tensors, holds, has_initial }))
}

fn state_tensor(state: &StateConfig) -> Result<StateTensor, String> {
    let given = datatype(&state.input_name, &state.data_type)?;
    let arithmetic = Arithmetic::of(given)
        .ok_or_else(|| format!("state '{}': {given} has no sum; take a type of numbers", state.input_name))?;
    let (input, output) = (Name::new(&state.input_name)?, Name::new(&state.output_name)?);
    Ok(StateTensor { input, output, arithmetic, dims: state.dims.clone() })
}

/// The controls that are declared.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    pub(crate) start: Option<Flag>,
    pub(crate) end: Option<Flag>,
    pub(crate) ready: Option<Flag>,
    pub(crate) corrid: Option<Corrid>,
}

impl Controls {
    fn read(config: &[ControlInput]) -> Result<Self, String> {
        let mut controls = Self::default();
        for (tensor, control) in config.iter().flat_map(|input| input.control.iter().map(|c| (&input.name, c))) {
            // Without a kind it is of the enum's first.
            match control.kind.as_deref().unwrap_or("CONTROL_SEQUENCE_START") {
                "CONTROL_SEQUENCE_START" => controls.start = Some(flag(tensor, control)?),
                "CONTROL_SEQUENCE_END" => controls.end = Some(flag(tensor, control)?),
                "CONTROL_SEQUENCE_READY" => controls.ready = Some(flag(tensor, control)?),
                "CONTROL_SEQUENCE_CORRID" => controls.corrid = Some(corrid(tensor, control)?),
                other => return Err(format!("control '{tensor}': {other} is not known")),
            }
        }
        Ok(controls)
    }
}

fn flag(tensor: &str, control: &Control) -> Result<Flag, String> {
    let (datatype, false_true) = if let [off, on] = control.int32_false_true[..] {
        (Datatype::Int32, [off, on].map(|value| value.to_le_bytes().to_vec()))
    } else if let [off, on] = control.fp32_false_true[..] {
        (Datatype::Fp32, [off, on].map(|value| value.to_le_bytes().to_vec()))
    } else if let [off, on] = control.bool_false_true[..] {
        (Datatype::Bool, [off, on].map(|value| vec![u8::from(value)]))
    } else {
        return Err(format!("control '{tensor}': it needs two values, for false and for true"));
    };
    if false_true[0] == false_true[1] {
        return Err(format!("control '{tensor}': its values for false and true are the same"));
    }
    Ok(Flag { tensor: Name::new(tensor)?, datatype, false_true })
}

fn corrid(tensor: &str, control: &Control) -> Result<Corrid, String> {
    use Datatype::{Bytes, Int32, Int64, Uint32, Uint64};
    let given = datatype(tensor, &control.data_type)?;
    if !matches!(given, Bytes | Int32 | Int64 | Uint32 | Uint64) {
        return Err(format!("control '{tensor}': {given} cannot hold a correlation ID"));
    }
    Ok(Corrid { tensor: Name::new(tensor)?, datatype: given })
}

impl Flag {
    /// What an element says.
    ///
    /// # Errors
    /// When it is neither of the two values.
    pub(crate) fn says(&self, element: &[u8]) -> Result<bool, String> {
        let place = self.false_true.iter().position(|value| value == element);
        place
            .map(|place| place == 1)
            .ok_or_else(|| format!("control '{}' is {element:?}, which is neither its false nor its true", self.tensor))
    }
}

impl Corrid {
    /// The element that stands for this ID: of a number the low bits that fit, of none 0 or an empty text.
    pub(crate) fn element(&self, id: u64) -> Vec<u8> {
        match self.datatype {
            Datatype::Bytes if id == 0 => text_element(""),
            Datatype::Bytes => text_element(&id.to_string()),
            Datatype::Int32 | Datatype::Uint32 => id.to_le_bytes()[..4].to_vec(),
            _ => id.to_le_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
