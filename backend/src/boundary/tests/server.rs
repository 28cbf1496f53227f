//! A server for tests: what Triton does with a backend and its requests, on the mock's C functions.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_uint},
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use half::f16;
use serde_json::{Value, json};

use super::{
    super::{c, entry},
    mock::{self, Account, Ask, Id, Instance, Model, StatePointer, Tensor, World, world},
};

/// One test at a time has the world.
static TURN: Mutex<()> = Mutex::new(());

pub(super) const MID: u32 = 0;
pub(super) const START: u32 = c::FLAG_START;
pub(super) const END: u32 = c::FLAG_END;

/// An error that the backend returned.
pub(super) type Said = (c_uint, String);

/// A model's configuration, as far as tests differ in it.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// The strategy: `direct` or `oldest`.
    pub(super) strategy: &'static str,
    pub(super) max_batch_size: i64,
    pub(super) datatype: &'static str,
    /// The data type of CORRID, where there is one.
    pub(super) corrid: Option<&'static str>,
    /// The server keeps the state; whether it has an initial one.
    pub(super) state: Option<bool>,
    /// It keeps several: `ZETA_STATE` of two elements, which comes first, `ALPHA_STATE` of five, and perhaps one of any number.
    pub(super) states: Several,
    /// The server gives one buffer for both the old and the new state.
    pub(super) one_buffer: bool,
    pub(super) decoupled: bool,
    pub(super) iterative: bool,
    /// The outputs that tell what the model saw.
    pub(super) seen: &'static [(&'static str, &'static str)],
    pub(super) parameters: Vec<(&'static str, &'static str)>,
}

/// A state as the server gives it and gets it back, how many elements it has, and its type if that is not the model's.
type StateOf = (&'static str, &'static str, i64, Option<&'static str>);

/// Several states that the server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Several {
    No,
    /// The sum and the number of steps.
    Two,
    /// The sum, three times and five times the sum.
    Copies,
}

/// The server, with a model of which instances may be made. It has to be ended by [`Server::end`].
pub(super) struct Server {
    model: usize,
    instances: Vec<usize>,
    is_ended: bool,
    _turn: MutexGuard<'static, ()>,
}

/// The server's number of a data type, and the bytes of its elements.
pub(super) fn encoded(datatype: &str, numbers: &[i64]) -> (c_uint, Vec<u8>) {
    #[expect(clippy::cast_precision_loss, reason = "tests have small numbers")]
    let element = |number: &i64| match datatype {
        "TYPE_BOOL" => vec![u8::from(*number != 0)],
        "TYPE_INT8" | "TYPE_UINT8" => number.to_le_bytes()[..1].to_vec(),
        "TYPE_INT16" | "TYPE_UINT16" => number.to_le_bytes()[..2].to_vec(),
        "TYPE_INT32" | "TYPE_UINT32" => number.to_le_bytes()[..4].to_vec(),
        "TYPE_INT64" | "TYPE_UINT64" => number.to_le_bytes().to_vec(),
        "TYPE_FP16" => f16::from_f32(*number as f32).to_le_bytes().to_vec(),
        "TYPE_FP32" => (*number as f32).to_le_bytes().to_vec(),
        "TYPE_FP64" => (*number as f64).to_le_bytes().to_vec(),
        "TYPE_STRING" => text_element(&number.to_string()),
        other => panic!("tests have no {other}"),
    };
    let code = match datatype {
        "TYPE_BOOL" => 1,
        "TYPE_UINT8" => 2,
        "TYPE_UINT16" => 3,
        "TYPE_UINT32" => 4,
        "TYPE_UINT64" => 5,
        "TYPE_INT8" => 6,
        "TYPE_INT16" => 7,
        "TYPE_INT32" => 8,
        "TYPE_INT64" => 9,
        "TYPE_FP16" => 10,
        "TYPE_FP32" => 11,
        "TYPE_FP64" => 12,
        _ => 13,
    };
    (code, numbers.iter().flat_map(element).collect())
}

pub(super) fn text_element(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("it is short").to_le_bytes();
    length.into_iter().chain(text.bytes()).collect()
}

impl Config {
    /// INT32 on Direct, with START, END and READY.
    pub(super) fn direct() -> Self {
        Self {
            strategy: "direct",
            max_batch_size: 4,
            datatype: "TYPE_INT32",
            corrid: None,
            state: None,
            states: Several::No,
            one_buffer: false,
            decoupled: false,
            iterative: false,
            seen: &[],
            parameters: Vec::new(),
        }
    }

    /// INT32 on Oldest, with CORRID besides.
    pub(super) fn oldest() -> Self {
        Self { strategy: "oldest", corrid: Some("TYPE_UINT64"), ..Self::direct() }
    }

    /// INT32 on Direct, with two states that the server keeps from zeros on, and the output that tells the second.
    pub(super) fn two_states() -> Self {
        Self { state: Some(true), states: Several::Two, seen: &[("COUNT", "TYPE_INT64")], ..Self::direct() }
    }

    /// INT32 on Direct, with three states that the server keeps, which hold multiples of the sum.
    pub(super) fn copies(has_initial: bool) -> Self {
        let parameters = vec![("sequence_stress_states", "copies")];
        Self { state: Some(has_initial), states: Several::Copies, parameters, ..Self::direct() }
    }

    fn states(&self) -> &'static [StateOf] {
        match (self.state, self.states) {
            (None, _) => &[],
            (_, Several::No) => &[("INPUT_STATE", "OUTPUT_STATE", 1, None)],
            (_, Several::Two) => {
                &[("ZETA_STATE", "ZETA_STATE_OUT", 2, None), ("ALPHA_STATE", "ALPHA_STATE_OUT", 5, None)]
            }
            (_, Several::Copies) => &[
                ("ZETA_STATE", "ZETA_STATE_OUT", 2, None),
                ("ALPHA_STATE", "ALPHA_STATE_OUT", 5, Some("TYPE_INT64")),
                ("MIDDLE_STATE", "MIDDLE_STATE_OUT", -1, Some("TYPE_UINT32")),
            ],
        }
    }

    pub(super) fn value(&self) -> Value {
        let output = |(name, datatype): &(&str, &str)| {
            let dims = if *name == "SEEN" { "5" } else { "1" };
            json!({ "name": name, "data_type": datatype, "dims": [dims] })
        };
        let control = |name: &str, control: Value| json!({ "name": name, "control": [control] });
        let mut controls = vec![
            control("START", json!({ "kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1] })),
            control("END", json!({ "kind": "CONTROL_SEQUENCE_END", "fp32_false_true": [-1.0, 1.0] })),
            control("READY", json!({ "kind": "CONTROL_SEQUENCE_READY", "bool_false_true": [false, true] })),
        ];
        if let Some(datatype) = self.corrid {
            controls.push(control("CORRID", json!({ "kind": "CONTROL_SEQUENCE_CORRID", "data_type": datatype })));
        }
        let state = |(input, output, size, datatype): &StateOf| {
            let datatype = datatype.unwrap_or(self.datatype);
            let dims = json!([size.to_string()]);
            let initial = json!({ "name": "begin", "data_type": datatype, "dims": [size.max(&1)], "zero_data": true });
            json!({
                "input_name": input, "output_name": output, "data_type": datatype, "dims": dims,
                "initial_state": if self.state == Some(true) { vec![initial] } else { vec![] },
            })
        };
        let parameter = |(name, value): &(&str, &str)| ((*name).to_owned(), json!({ "string_value": value }));
        let outputs: Vec<_> = [("OUTPUT", self.datatype)].iter().chain(self.seen).map(output).collect();
        let mut batching = json!({
            "control_input": controls,
            "state": self.states().iter().map(state).collect::<Vec<_>>(),
            "iterative_sequence": self.iterative,
        });
        batching[self.strategy] = json!({});
        json!({
            "name": "sum",
            "max_batch_size": self.max_batch_size,
            "input": [output(&("INPUT", self.datatype))],
            "output": outputs,
            "sequence_batching": batching,
            "model_transaction_policy": { "decoupled": self.decoupled },
            "parameters": self.parameters.iter().map(parameter).collect::<serde_json::Map<_, _>>(),
        })
    }

    /// As the server tells it: some releases have a NUL at the end.
    pub(super) fn json(&self) -> String {
        format!("{}\0", self.value())
    }

    fn tensor(&self, name: &str, datatype: &str, numbers: &[i64]) -> Tensor {
        let (code, data) = encoded(datatype, numbers);
        let length = i64::try_from(numbers.len()).expect("it is short");
        let shape = if self.max_batch_size > 0 { vec![1, length] } else { vec![length] };
        Tensor { name: name.to_owned(), code, shape, data, cuts: Vec::new(), memory: c::MEMORY_CPU }
    }

    /// A request, with the controls that go with its flags and ID.
    pub(super) fn ask(&self, flags: u32, id: u64, numbers: &[i64]) -> Ask {
        let signed = |flag: u32| if flags & flag == 0 { -1 } else { 1 };
        let mut inputs = vec![
            self.tensor("INPUT", self.datatype, numbers),
            self.tensor("START", "TYPE_INT32", &[i64::from(flags & START != 0)]),
            self.tensor("END", "TYPE_FP32", &[signed(END)]),
            self.tensor("READY", "TYPE_BOOL", &[i64::from(id != 0)]),
        ];
        if let Some(datatype) = self.corrid {
            inputs.push(self.tensor("CORRID", datatype, &[id.cast_signed()]));
        }
        for (name, _, size, datatype) in self.states() {
            // Without an initial state, this is whatever was there.
            let content = if self.state == Some(true) { 0 } else { 77 };
            let size = usize::try_from(*size).unwrap_or(1);
            inputs.push(self.tensor(name, datatype.unwrap_or(self.datatype), &vec![content; size]));
        }
        let wants = ["OUTPUT"].into_iter().chain(self.seen.iter().map(|(name, _)| *name));
        let wants = wants.map(|name| CString::new(name).expect("it has no NUL")).collect();
        let state_in = self.one_buffer.then_some("INPUT_STATE");
        Ask { id: Id::Number(id), flags, inputs, wants, is_padding: false, state_in }
    }

    /// A batch of requests of one number each; ID 0 stands for an idle slot.
    pub(super) fn batch(&self, rows: &[(u32, u64, i64)]) -> Vec<Ask> {
        let ask = |(flags, id, number): &(u32, u64, i64)| match id {
            0 => self.padding(),
            id => self.ask(*flags, *id, &[*number]),
        };
        rows.iter().map(ask).collect()
    }

    /// What stands for an idle slot.
    pub(super) fn padding(&self) -> Ask {
        let mut ask = self.ask(MID, 0, &[-559_038_737]);
        if self.corrid == Some("TYPE_STRING") {
            ask.set("CORRID", text_element(""));
        }
        Ask { wants: Vec::new(), is_padding: true, ..ask }
    }
}

impl Ask {
    pub(super) fn input(&mut self, name: &str) -> &mut Tensor {
        self.inputs.iter_mut().find(|tensor| tensor.name == name).expect("there is such an input")
    }

    pub(super) fn set(&mut self, name: &str, data: Vec<u8>) {
        self.input(name).data = data;
    }

    /// With other bytes in an input.
    pub(super) fn with(mut self, name: &str, data: Vec<u8>) -> Self {
        self.set(name, data);
        self
    }
}

impl Account {
    /// The numbers of the output `OUTPUT` in each answer; nothing where there is an error.
    pub(super) fn sums(&self) -> Vec<i64> {
        let outputs = self.answers.iter().flat_map(|answer| &answer.outputs);
        outputs.filter(|output| output.name == "OUTPUT").flat_map(decoded).collect()
    }

    /// The number in the output `COUNT` of each answer.
    pub(super) fn counts(&self) -> Vec<i64> {
        let outputs = self.answers.iter().flat_map(|answer| &answer.outputs);
        outputs.filter(|output| output.name == "COUNT").flat_map(decoded).collect()
    }

    /// The one answer's error.
    pub(super) fn error(&self) -> &str {
        match &self.answers[..] {
            [answer] => answer.error.as_ref().map_or("", |(_, text)| text),
            several => panic!("there are {} answers: {several:?}", several.len()),
        }
    }

    /// The state that the server was given last.
    pub(super) fn state(&self) -> Option<Vec<u8>> {
        self.states.last().map(|state| state.data.clone())
    }

    pub(super) fn output(&self, name: &str) -> &Tensor {
        let outputs = self.answers.iter().flat_map(|answer| &answer.outputs);
        outputs.into_iter().find(|output| output.name == name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// The elements of a tensor.
#[expect(clippy::cast_possible_truncation, reason = "tests have small numbers")]
pub(super) fn decoded(tensor: &Tensor) -> Vec<i64> {
    let mut rest = &tensor.data[..];
    let mut numbers = Vec::new();
    while !rest.is_empty() {
        let length = match tensor.code {
            2 | 6 => 1,
            3 | 7 | 10 => 2,
            4 | 8 | 11 => 4,
            5 | 9 | 12 => 8,
            _ => 4 + u32::from_le_bytes(*rest.first_chunk().expect("a length")) as usize,
        };
        let (element, behind) = rest.split_at_checked(length).expect("an element is whole");
        rest = behind;
        let two = || *element.first_chunk().expect("it has two bytes");
        let four = || *element.first_chunk().expect("it has four bytes");
        let eight = || *element.first_chunk().expect("it has eight bytes");
        numbers.push(match tensor.code {
            2 => element[0].into(),
            6 => element[0].cast_signed().into(),
            3 => u16::from_le_bytes(two()).into(),
            7 => i16::from_le_bytes(two()).into(),
            10 => f16::from_le_bytes(two()).to_f64() as i64,
            4 => u32::from_le_bytes(four()).into(),
            8 => i32::from_le_bytes(four()).into(),
            5 | 9 => i64::from_le_bytes(eight()),
            11 => f32::from_le_bytes(four()) as i64,
            12 => f64::from_le_bytes(eight()) as i64,
            _ => String::from_utf8_lossy(&element[4..]).parse().expect("a number"),
        });
    }
    numbers
}

impl Server {
    /// A server whose model has this configuration. Nothing is called yet.
    pub(super) fn new(config: &str) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut world = world();
        *world = World::new();
        let model = Model { config: config.as_bytes().to_vec(), state: StatePointer(ptr::null_mut()) };
        let model = world.models.add(model);
        Self { model, instances: Vec::new(), is_ended: false, _turn: turn }
    }

    /// A server that has loaded the model and made an instance.
    pub(super) fn running(config: &Config) -> Self {
        let mut server = Self::new(&config.json());
        Self::initialize().expect("it is opened");
        server.load().expect("it is loaded");
        server.make_instance().expect("it has an instance");
        server
    }

    /// Opens the library.
    pub(super) fn initialize() -> Result<(), Said> {
        // SAFETY: it is called as the server does; the backend does not look at what it gets.
        taken(unsafe { entry::TRITONBACKEND_Initialize(ptr::null_mut()) })
    }

    pub(super) fn load(&self) -> Result<(), Said> {
        // SAFETY: the model is the world's.
        taken(unsafe { entry::TRITONBACKEND_ModelInitialize(mock::handle(self.model)) })
    }

    pub(super) fn make_instance(&mut self) -> Result<(), Said> {
        self.make_instance_of_kind(c::KIND_CPU)
    }

    pub(super) fn make_instance_of_kind(&mut self, kind: c_uint) -> Result<(), Said> {
        let instance = Instance { model: self.model, kind, state: StatePointer(ptr::null_mut()) };
        let instance = world().instances.add(instance);
        self.instances.push(instance);
        // SAFETY: the instance is the world's.
        taken(unsafe { entry::TRITONBACKEND_ModelInstanceInitialize(mock::handle(instance)) })
    }

    /// What the backend keeps of the model.
    pub(super) fn model(&self) -> Arc<crate::model::Model> {
        let world = world();
        let model = world.models.peek(self.model).expect("it is there");
        // SAFETY: the model is loaded, and its state is what `ModelInitialize` made.
        unsafe { model.state.0.cast::<Arc<crate::model::Model>>().as_ref() }.map(Arc::clone).expect("it is loaded")
    }

    /// Executes requests on an instance, once.
    pub(super) fn execute_once(&self, instance: usize, requests: &[usize]) -> Result<(), Said> {
        world().give(requests);
        let mut handles: Vec<_> = requests.iter().map(|number| mock::handle(*number)).collect();
        let count = c_uint::try_from(handles.len()).expect("they are few");
        let instance = mock::handle(self.instances[instance]);
        // SAFETY: instance and requests are the world's, and it does not execute on another thread.
        let error = unsafe { entry::TRITONBACKEND_ModelInstanceExecute(instance, handles.as_mut_ptr(), count) };
        let outcome = taken(error);
        if let Err((_, text)) = &outcome {
            let mut world = world();
            world.returned.push(text.clone());
            world.take_back(requests);
        }
        outcome
    }

    /// Executes requests on the first instance until none of them is given back. What became of them, in their order.
    pub(super) fn execute(&self, asks: impl IntoIterator<Item = Ask>) -> Vec<Account> {
        self.execute_on(0, asks)
    }

    pub(super) fn execute_on(&self, instance: usize, asks: impl IntoIterator<Item = Ask>) -> Vec<Account> {
        let requests: Vec<_> = asks.into_iter().map(|ask| world().arrive(ask)).collect();
        let mut next = requests.clone();
        for _turn in 0..100 {
            // What it comes to stands in the accounts, and in `wrongs` where it should not be.
            let _ = self.execute_once(instance, &next);
            let mut world = world();
            next = std::mem::take(&mut world.rescheduled);
            for request in &next {
                // They are neither START nor END any more.
                world.tell(*request, "START", &encoded("TYPE_INT32", &[0]).1);
                world.tell(*request, "END", &encoded("TYPE_FP32", &[-1]).1);
            }
            if next.is_empty() {
                break;
            }
        }
        assert!(next.is_empty(), "requests are given back for ever");
        let accounts = &world().accounts;
        requests.iter().map(|number| accounts[number].clone()).collect()
    }

    /// Executes one batch after the other; the implicit state that a place in the batch got is given to the next one there.
    pub(super) fn converse(&self, batches: Vec<Vec<Ask>>) -> Vec<Account> {
        let mut states = BTreeMap::new();
        let mut accounts = Vec::new();
        for mut batch in batches {
            for (place, ask) in batch.iter_mut().enumerate().filter(|(_, ask)| !ask.is_padding) {
                for tensor in &mut ask.inputs {
                    let kept = states.get(&(place, given_back(&tensor.name)));
                    if let Some(state) = kept.filter(|_| ask.flags & START == 0) {
                        (tensor.shape, tensor.data) = Clone::clone(state);
                    }
                }
            }
            let done = self.execute(batch);
            for (place, done) in done.iter().enumerate() {
                let kept = |state: &Tensor| ((place, state.name.clone()), (state.shape.clone(), state.data.clone()));
                let kept = done.states.iter().map(kept);
                states.extend(kept);
            }
            accounts.extend(done);
        }
        accounts
    }

    /// Finalizes what there is; what had failed before is tried again.
    pub(super) fn finalize(&mut self) -> Vec<Said> {
        let mut errors = Vec::new();
        for instance in std::mem::take(&mut self.instances) {
            for _ in 0..2 {
                // SAFETY: the instance is the world's, and does not execute.
                let error = unsafe { entry::TRITONBACKEND_ModelInstanceFinalize(mock::handle(instance)) };
                match taken(error) {
                    Ok(()) => break,
                    Err(error) => errors.push(error),
                }
            }
        }
        for _ in 0..2 {
            // SAFETY: the model is the world's, and its instances are gone.
            match taken(unsafe { entry::TRITONBACKEND_ModelFinalize(mock::handle(self.model)) }) {
                Ok(()) => break,
                Err(error) => errors.push(error),
            }
        }
        // SAFETY: it is called as the server does; the backend does not look at what it gets.
        errors.extend(taken(unsafe { entry::TRITONBACKEND_Finalize(ptr::null_mut()) }).err());
        errors
    }

    /// Finalizes, and tells what was wrong.
    pub(super) fn end_with_wrongs(mut self) -> Vec<String> {
        self.finalize();
        self.is_ended = true;
        let mut world = world();
        let wrongs = world.wrongs_at_the_end();
        *world = World::new();
        wrongs
    }

    /// Finalizes; nothing may be wrong.
    pub(super) fn end(self) {
        let wrongs = self.end_with_wrongs();
        assert!(wrongs.is_empty(), "the server saw: {wrongs:#?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        assert!(self.is_ended || thread::panicking(), "the test has to end its server");
    }
}

/// What the server gets back a state as that it gives by this name.
fn given_back(state: &str) -> String {
    if state == "INPUT_STATE" { "OUTPUT_STATE".to_owned() } else { format!("{state}_OUT") }
}

/// What the backend returned, which is the server's to delete.
fn taken(error: *mut c::Error) -> Result<(), Said> {
    world().take_error(error)
}
