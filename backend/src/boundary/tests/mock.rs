//! The server's C functions, for tests: they keep account of who owns what, and may be told to fail.
//!
//! What the backend gets as pointers are numbers that are never given twice, so what is used after its end, or ended twice, is
//! told in words and harms nobody. The memory behind them (inputs, names, texts, buffers to write to) is allocated for each
//! object alone and freed with it, so that a sanitizer sees what is read or written too late or too far. No buffer is aligned.

mod accounts;
mod call;
mod models;
mod requests;
mod responses;

use std::{
    collections::BTreeMap,
    ffi::{CString, c_uint, c_void},
    ptr,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::super::c;

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
/// The backend made a call, began to sleep, or hung: [`wait_until`] looks again.
static CHANGED: Condvar = Condvar::new();

/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the backend does where it has to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleeping {
    /// It sleeps.
    Real,
    /// It goes on at once.
    Skipped,
    /// It sleeps until the test calls [`wake`].
    Held,
}

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
    pub(super) sleeping: Sleeping,
    /// For how long the backend was to sleep, each time that it began to.
    pub(super) slept: Vec<Duration>,
    /// An execution hangs for good.
    pub(super) has_hung: bool,
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
enum Rejection {
    Error(String),
    Wrong(String),
}

fn rejected(text: impl Into<String>) -> Rejection {
    Rejection::Error(text.into())
}

fn wrong(text: impl Into<String>) -> Rejection {
    Rejection::Wrong(text.into())
}

/// What the backend knows an object by.
pub(super) fn handle<T>(number: usize) -> *mut T {
    ptr::without_provenance_mut(number)
}

pub(super) fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the backend has done something. Panics after a minute.
pub(super) fn wait_until(has_happened: impl Fn(&World) -> bool) -> MutexGuard<'static, World> {
    let waited = CHANGED.wait_timeout_while(world(), PATIENCE, |world| !has_happened(world));
    let (world, result) = waited.unwrap_or_else(PoisonError::into_inner);
    assert!(!result.timed_out(), "the backend did not do it within a minute");
    world
}

/// Ends the sleeps that are held.
pub(super) fn wake() {
    world().sleeping = Sleeping::Skipped;
    CHANGED.notify_all();
}

/// Records that the backend begins to sleep. Returns whether the sleep is over; else the backend has to sleep.
pub(in crate::boundary) fn sleep(time: Duration) -> bool {
    let mut world = world();
    world.slept.push(time);
    CHANGED.notify_all();
    if world.sleeping == Sleeping::Real {
        return false;
    }
    drop(world);
    drop(wait_until(|world| world.sleeping != Sleeping::Held));
    true
}

/// Records that an execution hangs.
pub(in crate::boundary) fn hangs() {
    world().has_hung = true;
    CHANGED.notify_all();
}

/// The clock was read.
pub(in crate::boundary) fn tick() {
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

    fn get(&mut self, number: usize) -> Result<&mut T, Rejection> {
        let Self { kind, alive, ended } = self;
        alive.get_mut(&number).ok_or_else(|| match ended.get(&number) {
            Some(how) => wrong(format!("{kind} {number} is used after it was {how}")),
            None => wrong(format!("there is no {kind} {number}")),
        })
    }

    pub(super) fn peek(&self, number: usize) -> Option<&T> {
        self.alive.get(&number)
    }

    fn end(&mut self, number: usize, how: &'static str) -> Result<T, Rejection> {
        self.get(number)?;
        self.ended.insert(number, how);
        self.alive.remove(&number).ok_or_else(|| wrong("it was just there"))
    }

    fn left(&self, what: &str) -> Vec<String> {
        self.alive.keys().map(|number| format!("{} {number} {what}", self.kind)).collect()
    }
}
