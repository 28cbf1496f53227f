//! The server's C functions, for tests: they keep account of who owns what, and may be told to fail.
//!
//! What the backend gets as pointers are numbers that are never given twice, so what is used after its end, or ended twice, is
//! told in words and harms nobody. The memory behind them (inputs, names, texts, buffers to write to) is allocated for each
//! object alone and freed with it, so that a sanitizer sees what is read or written too late or too far. No buffer is aligned.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::c;

/// What a function says that was told to fail.
pub(super) const TOLD_TO_FAIL: &str = "this call was told to fail";
pub(super) const MEMORY_GPU: c_uint = 2;
pub(super) const KIND_GPU: c_uint = 2;
const INTERNAL: c_uint = 1;
const INVALID_ARGUMENT: c_uint = 3;

/// They take what they are given even when they fail. (Of a release, that is so with `RELEASE_ALL` alone.)
const TAKES_ANYWAY: [&str; 5] = [
    "TRITONSERVER_MessageDelete",
    "TRITONBACKEND_ResponseDelete",
    "TRITONBACKEND_ResponseFactoryDelete",
    "TRITONBACKEND_ResponseSend",
    "TRITONBACKEND_RequestRelease",
];

static WORLD: Mutex<World> = Mutex::new(World::new());

/// All that there is. One test at a time uses it.
pub(super) struct World {
    pub(super) api: (u32, u32),
    /// Where the buffers are that it gives for outputs and for states.
    pub(super) output_memory: c_uint,
    pub(super) state_memory: c_uint,
    /// A function and which of its calls is to fail, counted from 1.
    pub(super) to_fail: Option<(&'static str, usize)>,
    /// A function that succeeds and gives nothing.
    pub(super) gives_nothing: Option<&'static str>,
    /// Which reading of the clock panics, counted from 1.
    pub(super) clock_panics_at: Option<usize>,
    clock_readings: usize,
    /// How often each function was called.
    pub(super) calls: BTreeMap<&'static str, usize>,
    /// What the backend did wrong.
    pub(super) wrongs: Vec<String>,
    pub(super) log: Vec<String>,
    /// What executions that failed said.
    pub(super) returned: Vec<String>,
    /// What became of each request.
    pub(super) accounts: BTreeMap<usize, Account>,
    /// Requests that were given back to be executed again.
    pub(super) rescheduled: Vec<usize>,
    /// The sizes of the executions that were reported.
    pub(super) batches: Vec<u64>,
    pub(super) errors: Table<Error>,
    pub(super) models: Table<Model>,
    pub(super) instances: Table<Instance>,
    messages: Table<Vec<u8>>,
    requests: Table<Request>,
    inputs: Table<Input>,
    responses: Table<Response>,
    /// Factories are for one request each.
    factories: Table<usize>,
    outputs: Table<Output>,
    states: Table<State>,
    is_failing: bool,
}

/// Objects of a kind: those that are, and how the others ended.
pub(super) struct Table<T> {
    kind: &'static str,
    alive: BTreeMap<usize, T>,
    ended: BTreeMap<usize, &'static str>,
}

#[derive(Clone)]
pub(super) struct Error {
    pub(super) code: c_uint,
    pub(super) text: CString,
}

pub(super) struct Model {
    /// Its configuration as JSON.
    pub(super) config: Vec<u8>,
    pub(super) state: StatePointer,
}

pub(super) struct Instance {
    pub(super) model: usize,
    pub(super) kind: c_uint,
    pub(super) state: StatePointer,
}

pub(super) struct StatePointer(pub(super) *mut c_void);

// SAFETY: the mock keeps it and gives it back, and never looks at what it points to.
unsafe impl Send for StatePointer {}

/// A request, as a test describes it.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) id: Id,
    pub(super) flags: u32,
    pub(super) inputs: Vec<Tensor>,
    /// The outputs that the client wants.
    pub(super) wants: Vec<CString>,
    /// It stands for an idle slot.
    pub(super) is_padding: bool,
    /// The input in whose buffer the new state is to be written, where both have one.
    pub(super) state_in: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum Id {
    Number(u64),
    Text(CString),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) code: c_uint,
    pub(super) shape: Vec<i64>,
    pub(super) data: Vec<u8>,
    /// As an input: the lengths of its buffers, as far as they are not the last one.
    pub(super) cuts: Vec<usize>,
    pub(super) memory: c_uint,
}

/// What became of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) answers: Vec<Answer>,
    /// The states that the server was given to keep.
    pub(super) states: Vec<Tensor>,
    /// Whether it was reported as a success, each time that it was reported.
    pub(super) reports: Vec<bool>,
    pub(super) reschedules: usize,
    pub(super) releases: usize,
    /// Final answers, those that got lost included because sending them failed.
    finals: usize,
    /// An execution ended with an error, so that it stayed the server's.
    pub(super) is_left: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) outputs: Vec<Tensor>,
    /// Code and text.
    pub(super) error: Option<(c_uint, String)>,
    pub(super) is_final: bool,
}

struct Request {
    ask: Ask,
    inputs: Vec<usize>,
    /// It is the backend's, and not the server's to execute.
    is_given: bool,
    /// The answers that it had got when it was given.
    answers: usize,
}

struct Input {
    tensor: Tensor,
    buffers: Vec<Memory>,
}

struct Response {
    request: usize,
    outputs: Vec<usize>,
}

struct Output {
    tensor: Tensor,
    buffer: Option<Memory>,
}

struct State {
    request: usize,
    tensor: Tensor,
    place: Place,
}

/// Where a state is written.
enum Place {
    Nowhere,
    InInput(usize),
    Own(Memory),
}

/// Bytes at an odd address.
struct Memory(Vec<u8>);

impl Memory {
    fn of(bytes: &[u8]) -> Self {
        let mut memory = Vec::with_capacity(bytes.len() + 1);
        memory.push(0xEE);
        memory.extend_from_slice(bytes);
        Self(memory)
    }

    fn bytes(&self) -> &[u8] {
        &self.0[1..]
    }

    fn pointer(&mut self) -> *mut c_void {
        self.0[1..].as_mut_ptr().cast()
    }
}

/// Why a function fails: the server cannot do it, or the backend must not ask for it.
enum Refusal {
    Error(String),
    Wrong(String),
}

fn refused(text: impl Into<String>) -> Refusal {
    Refusal::Error(text.into())
}

fn wrong(text: impl Into<String>) -> Refusal {
    Refusal::Wrong(text.into())
}

/// What the backend knows an object by.
pub(super) fn handle<T>(number: usize) -> *mut T {
    ptr::without_provenance_mut(number)
}

pub(super) fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock was read.
pub(super) fn tick() {
    let mut world = world();
    world.clock_readings += 1;
    let panics = world.clock_panics_at == Some(world.clock_readings);
    drop(world);
    assert!(!panics, "this reading of the clock was told to panic");
}

impl<T> Table<T> {
    const fn new(kind: &'static str) -> Self {
        Self { kind, alive: BTreeMap::new(), ended: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, object: T) -> usize {
        let number = self.alive.len() + self.ended.len() + 1;
        self.alive.insert(number, object);
        number
    }

    fn get(&mut self, number: usize) -> Result<&mut T, Refusal> {
        let Self { kind, alive, ended } = self;
        alive.get_mut(&number).ok_or_else(|| match ended.get(&number) {
            Some(how) => wrong(format!("{kind} {number} is used after it was {how}")),
            None => wrong(format!("there is no {kind} {number}")),
        })
    }

    pub(super) fn peek(&self, number: usize) -> Option<&T> {
        self.alive.get(&number)
    }

    fn end(&mut self, number: usize, how: &'static str) -> Result<T, Refusal> {
        self.get(number)?;
        self.ended.insert(number, how);
        self.alive.remove(&number).ok_or_else(|| wrong("it was just there"))
    }

    fn left(&self, what: &str) -> Vec<String> {
        self.alive.keys().map(|number| format!("{} {number} {what}", self.kind)).collect()
    }
}

impl World {
    pub(super) const fn new() -> Self {
        Self {
            api: (1, 19),
            output_memory: c::MEMORY_CPU,
            state_memory: c::MEMORY_CPU,
            to_fail: None,
            gives_nothing: None,
            clock_panics_at: None,
            clock_readings: 0,
            calls: BTreeMap::new(),
            wrongs: Vec::new(),
            log: Vec::new(),
            returned: Vec::new(),
            accounts: BTreeMap::new(),
            rescheduled: Vec::new(),
            batches: Vec::new(),
            errors: Table::new("error"),
            models: Table::new("model"),
            instances: Table::new("instance"),
            messages: Table::new("message"),
            requests: Table::new("request"),
            inputs: Table::new("input"),
            responses: Table::new("response"),
            factories: Table::new("factory"),
            outputs: Table::new("output"),
            states: Table::new("state"),
            is_failing: false,
        }
    }

    /// A new request, which is the server's yet.
    pub(super) fn arrive(&mut self, ask: Ask) -> usize {
        let inputs = ask.inputs.iter().map(|tensor| {
            let mut rest = &tensor.data[..];
            let mut buffers = Vec::new();
            for cut in &tensor.cuts {
                let (buffer, behind) = rest.split_at(*cut);
                buffers.push(Memory::of(buffer));
                rest = behind;
            }
            buffers.push(Memory::of(rest));
            self.inputs.add(Input { tensor: tensor.clone(), buffers })
        });
        let inputs = inputs.collect();
        let number = self.requests.add(Request { ask, inputs, is_given: false, answers: 0 });
        self.accounts.insert(number, Account::default());
        number
    }

    /// Writes another content into an input of a request.
    pub(super) fn tell(&mut self, request: usize, name: &str, data: &[u8]) {
        let request = self.requests.alive.get(&request).filter(|request| !request.is_given);
        let place = request.and_then(|request| request.ask.inputs.iter().position(|tensor| tensor.name == name));
        if let (Some(request), Some(place)) = (request, place)
            && let Some(input) = self.inputs.alive.get_mut(&request.inputs[place])
        {
            input.buffers = vec![Memory::of(data)];
        }
    }

    /// Gives requests to the backend, to be executed.
    pub(super) fn give(&mut self, requests: &[usize]) {
        for number in requests {
            if let (Some(request), Some(account)) = (self.requests.alive.get_mut(number), self.accounts.get(number)) {
                (request.is_given, request.answers) = (true, account.answers.len());
            }
        }
    }

    /// The execution of these requests failed: they are the server's, untouched, and it ends them.
    pub(super) fn take_back(&mut self, requests: &[usize]) {
        for number in requests {
            let account = self.accounts.entry(*number).or_default();
            account.is_left = true;
            let before = self.requests.peek(*number).map(|request| request.answers);
            if account.finals > 0 || Some(account.answers.len()) != before {
                self.wrongs.push(format!("request {number} was answered and left to the server"));
            }
            let left = self.responses.alive.values().any(|response| response.request == *number)
                || self.factories.alive.values().any(|request| request == number);
            if left {
                self.wrongs.push(format!("request {number} was left to the server with a response"));
            }
            if let Err(Refusal::Wrong(what)) = self.release(*number, "left to the server") {
                self.wrongs.push(what);
            }
        }
    }

    /// What is wrong when nothing goes on any more.
    pub(super) fn wrongs_at_the_end(&self) -> Vec<String> {
        let mut wrongs = self.wrongs.clone();
        wrongs.extend(self.errors.left("was not deleted"));
        wrongs.extend(self.messages.left("was not deleted"));
        wrongs.extend(self.responses.left("was neither sent nor deleted"));
        wrongs.extend(self.factories.left("was not deleted"));
        for (number, account) in self.accounts.iter().filter(|(_, account)| !account.is_left) {
            if account.finals != 1 {
                wrongs.push(format!("request {number} got {} final answers", account.finals));
            }
            if account.releases != 1 {
                wrongs.push(format!("request {number} was released {} times", account.releases));
            }
        }
        let models = self.models.alive.values().filter(|model| !model.state.0.is_null());
        let instances = self.instances.alive.values().filter(|instance| !instance.state.0.is_null());
        if models.count() + instances.count() > 0 {
            wrongs.push("a model or an instance still has its state".to_owned());
        }
        wrongs
    }

    /// Takes an error that the backend returned.
    pub(super) fn take_error(&mut self, error: *mut c::Error) -> Result<(), (c_uint, String)> {
        if error.is_null() {
            return Ok(());
        }
        match self.errors.end(error.addr(), "returned") {
            Ok(error) => Err((error.code, error.text.to_string_lossy().into_owned())),
            Err(Refusal::Wrong(what) | Refusal::Error(what)) => {
                self.wrongs.push(what.clone());
                Err((INTERNAL, what))
            }
        }
    }

    fn error(&mut self, code: c_uint, text: &str) -> *mut c::Error {
        let text = CString::new(text).unwrap_or_default();
        handle(self.errors.add(Error { code, text }))
    }

    /// A request that is the backend's.
    fn request(&mut self, request: *mut c::Request) -> Result<&mut Request, Refusal> {
        let number = request.addr();
        let request = self.requests.get(number)?;
        if request.is_given {
            Ok(request)
        } else {
            Err(wrong(format!("request {number} is used while it is the server's")))
        }
    }

    fn release(&mut self, number: usize, how: &'static str) -> Result<(), Refusal> {
        for input in self.requests.end(number, how)?.inputs {
            self.inputs.end(input, "released with its request")?;
        }
        let states: Vec<_> = self.states.alive.iter().filter(|(_, state)| state.request == number).collect();
        for state in states.into_iter().map(|(state, _)| *state).collect::<Vec<_>>() {
            self.states.end(state, "released with its request")?;
        }
        Ok(())
    }

    fn answer(&mut self, request: usize, answer: Answer) {
        let account = self.accounts.entry(request).or_default();
        if account.finals > 0 {
            self.wrongs.push(format!("request {request} is answered after its final answer"));
        }
        account.finals += usize::from(answer.is_final);
        if !self.is_failing {
            account.answers.push(answer);
        }
    }

    fn end_outputs(&mut self, outputs: Vec<usize>) -> Result<Vec<Output>, Refusal> {
        outputs.into_iter().map(|output| self.outputs.end(output, "sent or deleted with its response")).collect()
    }

    fn check_times(&mut self, times: [u64; 4]) {
        if times[0] == 0 || !times.is_sorted() {
            self.wrongs.push(format!("the reported times are {times:?}"));
        }
    }
}

/// Does what a function does, unless it is told to fail.
fn serve(name: &'static str, act: impl FnOnce(&mut World) -> Result<(), Refusal>) -> *mut c::Error {
    let mut world = world();
    let calls = world.calls.entry(name).or_default();
    *calls += 1;
    let call = (name, *calls);
    world.is_failing = world.to_fail == Some(call);
    let acts = world.gives_nothing != Some(name) && (!world.is_failing || TAKES_ANYWAY.contains(&name));
    let outcome = if acts { act(&mut world) } else { Ok(()) };
    match outcome {
        Ok(()) if world.is_failing => world.error(INTERNAL, TOLD_TO_FAIL),
        Ok(()) => ptr::null_mut(),
        Err(Refusal::Error(text)) => world.error(INVALID_ARGUMENT, &text),
        Err(Refusal::Wrong(text)) => {
            world.wrongs.push(format!("{name}: {text}"));
            world.error(INTERNAL, &text)
        }
    }
}

/// Defines C functions that return an error; each has to have the signature by which it is called.
macro_rules! serve {
    ($(fn $name:ident($world:ident, $($argument:ident: $type:ty),*) $body:block)*) => {$(
        #[allow(unused_unsafe, reason = "some give no place to write to")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> *mut c::Error {
            // SAFETY: what the backend gives are texts that end, shapes of that length, and places for what is asked for.
            serve(stringify!($name), |$world| unsafe { $body; Ok(()) })
        }
        const _: [unsafe extern "C" fn($($type),*) -> *mut c::Error; 2] = [c::$name, $name];
    )*};
}

unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller says that it is a text that ends.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A tensor without its data.
unsafe fn tensor(name: *const c_char, code: c_uint, shape: *const i64, dims: u32) -> Tensor {
    // SAFETY: the caller says that these are a text that ends, and a shape of that length.
    let (name, shape) = unsafe { (text(name), std::slice::from_raw_parts(shape, dims as usize).to_vec()) };
    Tensor { name, code, shape, data: Vec::new(), cuts: Vec::new(), memory: c::MEMORY_CPU }
}

/// What a buffer is asked for with: its size, and the memory that would be best.
fn asked(size: u64, memory: c_uint) -> Result<Vec<u8>, Refusal> {
    if memory != c::MEMORY_CPU {
        return Err(wrong(format!("a buffer in memory {memory} is asked for")));
    }
    usize::try_from(size)
        .map(|size| vec![0xDD; size])
        .map_err(|_| wrong(format!("a buffer of {size} bytes is asked for")))
}

/// An address that nobody may touch.
fn elsewhere() -> *mut c_void {
    ptr::without_provenance_mut(0xBAD_0000)
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorNew(code: c_uint, message: *const c_char) -> *mut c::Error {
    // SAFETY: the backend gives a text that ends.
    let text = unsafe { text(message) };
    world().error(code, &text)
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorDelete(error: *mut c::Error) {
    let mut world = world();
    if let Err(Refusal::Wrong(what)) = world.errors.end(error.addr(), "deleted") {
        world.wrongs.push(what);
    }
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorCode(error: *mut c::Error) -> c_uint {
    look_at_error(error).map_or(0, |(code, _)| code)
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_ErrorMessage(error: *mut c::Error) -> *const c_char {
    look_at_error(error).map_or(ptr::null(), |(_, text)| text)
}

fn look_at_error(error: *mut c::Error) -> Option<(c_uint, *const c_char)> {
    let mut world = world();
    match world.errors.get(error.addr()) {
        Ok(error) => Some((error.code, error.text.as_ptr())),
        Err(Refusal::Wrong(what) | Refusal::Error(what)) => {
            world.wrongs.push(what);
            None
        }
    }
}

serve! {
    fn TRITONSERVER_LogMessage(world, _level: c_uint, _file: *const c_char, _line: c_int, message: *const c_char) {
        world.log.push(text(message));
    }

    fn TRITONSERVER_MessageSerializeToJson(
        world, message: *mut c::Message, base: *mut *const c_char, byte_size: *mut usize
    ) {
        let message = world.messages.get(message.addr())?;
        *base = message.as_ptr().cast();
        *byte_size = message.len();
    }

    fn TRITONSERVER_MessageDelete(world, message: *mut c::Message) {
        world.messages.end(message.addr(), "deleted")?;
    }

    fn TRITONBACKEND_ApiVersion(world, major: *mut u32, minor: *mut u32) {
        (*major, *minor) = world.api;
    }

    fn TRITONBACKEND_ModelConfig(world, model: *mut c::Model, version: u32, config: *mut *mut c::Message) {
        if version != 1 {
            return Err(wrong(format!("there is no version {version} of a configuration")));
        }
        let text = world.models.get(model.addr())?.config.clone();
        *config = handle(world.messages.add(text));
    }

    fn TRITONBACKEND_ModelState(world, model: *mut c::Model, state: *mut *mut c_void) {
        *state = world.models.get(model.addr())?.state.0;
    }

    fn TRITONBACKEND_ModelSetState(world, model: *mut c::Model, state: *mut c_void) {
        world.models.get(model.addr())?.state = StatePointer(state);
    }

    fn TRITONBACKEND_ModelInstanceModel(world, instance: *mut c::ModelInstance, model: *mut *mut c::Model) {
        *model = handle(world.instances.get(instance.addr())?.model);
    }

    fn TRITONBACKEND_ModelInstanceKind(world, instance: *mut c::ModelInstance, kind: *mut c_uint) {
        *kind = world.instances.get(instance.addr())?.kind;
    }

    fn TRITONBACKEND_ModelInstanceState(world, instance: *mut c::ModelInstance, state: *mut *mut c_void) {
        *state = world.instances.get(instance.addr())?.state.0;
    }

    fn TRITONBACKEND_ModelInstanceSetState(world, instance: *mut c::ModelInstance, state: *mut c_void) {
        world.instances.get(instance.addr())?.state = StatePointer(state);
    }

    fn TRITONBACKEND_ModelInstanceReportStatistics(
        world, instance: *mut c::ModelInstance, request: *mut c::Request, success: bool, exec_start_ns: u64,
        compute_start_ns: u64, compute_end_ns: u64, exec_end_ns: u64
    ) {
        world.instances.get(instance.addr())?;
        world.request(request)?;
        world.check_times([exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns]);
        world.accounts.entry(request.addr()).or_default().reports.push(success);
    }

    fn TRITONBACKEND_ModelInstanceReportBatchStatistics(
        world, instance: *mut c::ModelInstance, batch_size: u64, exec_start_ns: u64, compute_start_ns: u64,
        compute_end_ns: u64, exec_end_ns: u64
    ) {
        world.instances.get(instance.addr())?;
        world.check_times([exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns]);
        world.batches.push(batch_size);
    }

    fn TRITONBACKEND_RequestFlags(world, request: *mut c::Request, flags: *mut u32) {
        *flags = world.request(request)?.ask.flags;
    }

    fn TRITONBACKEND_RequestCorrelationId(world, request: *mut c::Request, id: *mut u64) {
        match &world.request(request)?.ask.id {
            Id::Number(number) => *id = *number,
            Id::Text(_) => return Err(refused("the correlation ID is a text")),
        }
    }

    fn TRITONBACKEND_RequestCorrelationIdString(world, request: *mut c::Request, id: *mut *const c_char) {
        match &world.request(request)?.ask.id {
            Id::Text(text) => *id = text.as_ptr(),
            Id::Number(_) => return Err(refused("the correlation ID is a number")),
        }
    }

    fn TRITONBACKEND_RequestInput(
        world, request: *mut c::Request, name: *const c_char, input: *mut *mut c::Input
    ) {
        let name = text(name);
        let request = world.request(request)?;
        let place = request.ask.inputs.iter().position(|tensor| tensor.name == name);
        let place = place.ok_or_else(|| refused(format!("input '{name}' does not exist in request")))?;
        *input = handle(request.inputs[place]);
    }

    fn TRITONBACKEND_RequestOutputCount(world, request: *mut c::Request, count: *mut u32) {
        *count = u32::try_from(world.request(request)?.ask.wants.len()).unwrap_or(u32::MAX);
    }

    fn TRITONBACKEND_RequestOutputName(
        world, request: *mut c::Request, index: u32, name: *mut *const c_char
    ) {
        let wanted = world.request(request)?.ask.wants.get(index as usize);
        *name = wanted.ok_or_else(|| wrong(format!("no output {index} is wanted")))?.as_ptr();
    }

    fn TRITONBACKEND_RequestRelease(world, request: *mut c::Request, flags: u32) {
        let number = request.addr();
        world.request(request)?;
        match flags {
            c::RELEASE_ALL => {
                world.release(number, "released")?;
                world.accounts.entry(number).or_default().releases += 1;
            }
            c::RELEASE_RESCHEDULE if world.is_failing => {}
            c::RELEASE_RESCHEDULE => {
                let request = world.request(request)?;
                request.is_given = false;
                request.ask.flags = 0;
                world.rescheduled.push(number);
                world.accounts.entry(number).or_default().reschedules += 1;
            }
            other => return Err(wrong(format!("a release has the flags {other}"))),
        }
    }

    fn TRITONBACKEND_InputProperties(
        world, input: *mut c::Input, name: *mut *const c_char, datatype: *mut c_uint, shape: *mut *const i64,
        dims_count: *mut u32, byte_size: *mut u64, buffer_count: *mut u32
    ) {
        let Input { tensor, buffers } = world.inputs.get(input.addr())?;
        if !name.is_null() {
            return Err(wrong("nobody needs the name of an input that was asked for by its name"));
        }
        *datatype = tensor.code;
        *shape = tensor.shape.as_ptr();
        *dims_count = u32::try_from(tensor.shape.len()).unwrap_or(u32::MAX);
        *byte_size = tensor.data.len() as u64;
        *buffer_count = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
    }

    fn TRITONBACKEND_InputBuffer(
        world, input: *mut c::Input, index: u32, buffer: *mut *const c_void, byte_size: *mut u64,
        memory_type: *mut c_uint, memory_type_id: *mut i64
    ) {
        let Input { tensor, buffers } = world.inputs.get(input.addr())?;
        let memory = buffers.get_mut(index as usize).ok_or_else(|| wrong(format!("there is no buffer {index}")))?;
        *buffer = if tensor.memory == MEMORY_GPU { elsewhere() } else { memory.pointer() };
        *byte_size = memory.bytes().len() as u64;
        (*memory_type, *memory_type_id) = (tensor.memory, 0);
    }

    fn TRITONBACKEND_ResponseNew(world, response: *mut *mut c::Response, request: *mut c::Request) {
        world.request(request)?;
        *response = handle(world.responses.add(Response { request: request.addr(), outputs: Vec::new() }));
    }

    fn TRITONBACKEND_ResponseFactoryNew(world, factory: *mut *mut c::ResponseFactory, request: *mut c::Request) {
        world.request(request)?;
        *factory = handle(world.factories.add(request.addr()));
    }

    fn TRITONBACKEND_ResponseFactoryDelete(world, factory: *mut c::ResponseFactory) {
        world.factories.end(factory.addr(), "deleted")?;
    }

    fn TRITONBACKEND_ResponseFactorySendFlags(world, factory: *mut c::ResponseFactory, flags: u32) {
        let request = *world.factories.get(factory.addr())?;
        if flags != c::COMPLETE_FINAL {
            return Err(wrong(format!("the flags {flags} are sent alone")));
        }
        world.answer(request, Answer { outputs: Vec::new(), error: None, is_final: true });
    }

    fn TRITONBACKEND_ResponseNewFromFactory(
        world, response: *mut *mut c::Response, factory: *mut c::ResponseFactory
    ) {
        let request = *world.factories.get(factory.addr())?;
        *response = handle(world.responses.add(Response { request, outputs: Vec::new() }));
    }

    fn TRITONBACKEND_ResponseDelete(world, response: *mut c::Response) {
        let response = world.responses.end(response.addr(), "deleted")?;
        world.end_outputs(response.outputs)?;
    }

    fn TRITONBACKEND_ResponseOutput(
        world, response: *mut c::Response, output: *mut *mut c::Output, name: *const c_char, datatype: c_uint,
        shape: *const i64, dims_count: u32
    ) {
        let tensor = tensor(name, datatype, shape, dims_count);
        let request = world.responses.get(response.addr())?.request;
        if world.requests.peek(request).is_some_and(|request| request.ask.is_padding) {
            return Err(wrong(format!("request {request} is padding and gets the output '{}'", tensor.name)));
        }
        let number = world.outputs.add(Output { tensor, buffer: None });
        world.responses.get(response.addr())?.outputs.push(number);
        *output = handle(number);
    }

    fn TRITONBACKEND_ResponseSend(world, response: *mut c::Response, flags: u32, error: *mut c::Error) {
        let response = world.responses.end(response.addr(), "sent")?;
        let error = if error.is_null() { None } else { Some(world.errors.get(error.addr())?.clone()) };
        let mut outputs = Vec::new();
        for output in world.end_outputs(response.outputs)? {
            match output.buffer {
                Some(memory) => outputs.push(Tensor { data: memory.bytes().into(), ..output.tensor }),
                None if error.is_some() => {}
                None => return Err(wrong(format!("output '{}' is sent without a buffer", output.tensor.name))),
            }
        }
        let error = error.map(|error| (error.code, error.text.to_string_lossy().into_owned()));
        world.answer(response.request, Answer { outputs, error, is_final: flags & c::COMPLETE_FINAL != 0 });
    }

    fn TRITONBACKEND_OutputBuffer(
        world, output: *mut c::Output, buffer: *mut *mut c_void, byte_size: u64, memory_type: *mut c_uint,
        memory_type_id: *mut i64
    ) {
        let bytes = asked(byte_size, *memory_type)?;
        let memory = world.output_memory;
        let output = world.outputs.get(output.addr())?;
        let pointer = output.buffer.insert(Memory::of(&bytes)).pointer();
        *buffer = if memory == MEMORY_GPU { elsewhere() } else { pointer };
        (*memory_type, *memory_type_id) = (memory, 0);
    }

    fn TRITONBACKEND_StateNew(
        world, state: *mut *mut c::State, request: *mut c::Request, name: *const c_char, datatype: c_uint,
        shape: *const i64, dims_count: u32
    ) {
        world.request(request)?;
        let tensor = tensor(name, datatype, shape, dims_count);
        let place = Place::Nowhere;
        *state = handle(world.states.add(State { request: request.addr(), tensor, place }));
    }

    fn TRITONBACKEND_StateBuffer(
        world, state: *mut c::State, buffer: *mut *mut c_void, byte_size: u64, memory_type: *mut c_uint,
        memory_type_id: *mut i64
    ) {
        let bytes = asked(byte_size, *memory_type)?;
        let memory = world.state_memory;
        let state = world.states.get(state.addr())?;
        let request = world.requests.get(state.request)?;
        let shared = request.ask.inputs.iter().position(|tensor| Some(&tensor.name[..]) == request.ask.state_in);
        let shared = shared.map(|place| request.inputs[place]);
        let shared = shared.filter(|input| {
            world.inputs.peek(*input).is_some_and(|input| input.buffers[0].bytes().len() == bytes.len())
        });
        let pointer = if let Some(input) = shared {
            state.place = Place::InInput(input);
            world.inputs.get(input)?.buffers[0].pointer()
        } else {
            let mut memory = Memory::of(&bytes);
            let pointer = memory.pointer();
            state.place = Place::Own(memory);
            pointer
        };
        *buffer = if memory == MEMORY_GPU { elsewhere() } else { pointer };
        (*memory_type, *memory_type_id) = (memory, 0);
    }

    fn TRITONBACKEND_StateUpdate(world, state: *mut c::State) {
        let state = world.states.end(state.addr(), "updated")?;
        let data = match &state.place {
            Place::Nowhere => return Err(wrong(format!("state '{}' is updated without a buffer", state.tensor.name))),
            Place::InInput(input) => world.inputs.get(*input)?.buffers[0].bytes().to_vec(),
            Place::Own(memory) => memory.bytes().to_vec(),
        };
        let account = world.accounts.entry(state.request).or_default();
        account.states.push(Tensor { data, ..state.tensor });
    }
}
