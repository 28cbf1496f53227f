//! What the clients of a simulation share: its time, the network, the server, and who watches.
//!
//! Each stream keeps its order in both directions, with delays of its own. The cancellation of a stream travels by itself: what it
//! overtakes is dropped unread.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use slab::Slab;

use super::{Plan, nanos, phases::Phases};
use crate::recorder::{Recorder, Seconds, Tally};
use oracle::{Occupancy, Ruling, ViolationKind, history::Entry};
use reference::simulated::{Answer, Output, SequenceId, Simulated, Submitted};
use wire::transport::RequestTemplate;
use workload::{
    conversation::{Lane, Transport},
    event::{Code, ContextId, Event, EventKind, Nanos, Received, Response, Series},
    plan::correlation_id,
    seed::Seed,
    sequence::{CorrelationId, IdForm, RequestId, Special, Step, WireId},
    tensor::{Tensor, TensorData},
};

/// The most events of a run that are kept, to be explained.
const KEPT_MAX: usize = 1_000_000;
/// After so many events what the recorder left is dropped.
const DROP_SECONDS_EVERY: u64 = 1 << 16;
/// The shortest and the longest that the fastest message of a stream is under way, in ns, on a machine of its own.
const UNDER_WAY: std::ops::Range<Nanos> = 20_000..200_000;
/// By how much an execution may take longer than the model says, in ns.
const LONGER: std::ops::Range<Nanos> = 0..200_000;
/// What a stream brings its client.
#[derive(Debug)]
pub(super) enum Message {
    Received(Box<Received>),
    End,
    DeadlinePassed,
}

/// What a client sends on a stream.
#[derive(Debug)]
enum Up {
    /// A step, and the place of its correlation ID among all.
    Request(Step, usize),
    HalfClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A worker looks what there is to do.
    Worker(u32),
    /// What a stream's client sent next comes to the server.
    Arrives(usize),
    /// The server sees that a stream is cancelled.
    Cancelled(usize),
    /// Something is due in the server.
    Server,
    /// What the server sent next on a stream comes to its client.
    Delivered(usize),
    /// A deadline may have passed on a stream.
    Deadline(usize),
}

/// A stream, or calls that are made one after the other.
#[derive(Debug)]
struct Stream {
    worker: u32,
    by: Transport,
    deadline: Option<Duration>,
    /// When the stream's deadline passes, or that of the call that is under way.
    deadline_at: Option<Nanos>,
    /// How long its fastest message is under way.
    fastest: Nanos,
    up: VecDeque<Up>,
    down: VecDeque<Message>,
    inbox: VecDeque<Message>,
    last_up: Nanos,
    last_down: Nanos,
    /// What the server has read and not answered, by name.
    order: VecDeque<usize>,
    cancelled: Arc<AtomicBool>,
    /// Whether the server knows that nothing more comes.
    is_half_closed: bool,
    has_ended: bool,
    is_dropped: bool,
    /// Events to come that name it.
    to_come: u32,
}

/// A request that the server has read.
#[derive(Debug)]
struct Request {
    stream: usize,
    step: Step,
    /// The place of its correlation ID among all.
    id: usize,
    answer: Option<Answer>,
}

pub(super) struct World<'p> {
    pub(super) plan: &'p Plan,
    pub(super) now: Nanos,
    queue: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    scheduled: u64,
    random: ChaCha8Rng,
    server: Simulated,
    server_wakes: Nanos,
    answers: Vec<(usize, Answer)>,
    streams: Slab<Stream>,
    requests: Slab<Request>,
    /// When each worker wakes, at the latest.
    wakes: Vec<Nanos>,
    pub(super) phases: Phases,
    recorder: Recorder,
    /// What the recorder leaves of each second, which nobody wants here.
    seconds: Seconds,
    occupancy: Occupancy,
    /// Of the violations that only all contexts together show, by kind.
    of_all: BTreeMap<ViolationKind, u64>,
    contexts_per_worker: u32,
    /// By worker, then context.
    ids: Vec<(CorrelationId, SequenceId)>,
    /// All that happened, where that is wanted.
    kept: Option<Vec<Entry>>,
    /// How much of that there was no room for.
    left_out: u64,
    pub(super) requests_sent: u64,
    pub(super) iterations: u64,
}

/// Whom something concerns that happened.
pub(super) enum Concerns {
    Worker(u32),
    Nobody,
}

/// What a run came to.
pub(super) struct Concluded {
    pub(super) tally: Tally,
    pub(super) entries: Vec<Entry>,
    pub(super) left_out: u64,
    /// How often each planted fault was committed.
    pub(super) committed: Vec<u64>,
}

impl<'p> World<'p> {
    pub(super) fn new(plan: &'p Plan, seed: Seed, keeps: bool) -> Self {
        let Plan { scenario, preflight, server, faults, .. } = plan;
        let (workers, contexts_per_worker) = (scenario.workers(), scenario.most_contexts());
        let id = |worker: u32, context: u32| {
            let id = correlation_id(scenario, worker, context);
            (id, on_the_wire(id, scenario.id_form(worker)))
        };
        let ids = (0..workers).flat_map(|worker| (0..contexts_per_worker).map(move |context| id(worker, context)));
        let form = scenario.correlation_ids.form;
        let of_count = plan.ids_of_count().map(|id| (id, on_the_wire(id, form)));
        let seconds = Seconds::default();
        let recorder =
            Recorder::of(scenario, preflight.rules(scenario), preflight.limits.threshold, None, seconds.clone());
        let mut world = Self {
            plan,
            now: 0,
            queue: BinaryHeap::new(),
            scheduled: 0,
            random: seed.of_simulation(),
            server: server.serve(faults, seed, &preflight.model.outputs()),
            server_wakes: Nanos::MAX,
            answers: Vec::new(),
            streams: Slab::new(),
            requests: Slab::new(),
            wakes: vec![Nanos::MAX; workers as usize + 1],
            phases: Phases::new(scenario),
            recorder,
            seconds,
            occupancy: preflight.occupancy(scenario).told_within(Duration::ZERO),
            of_all: BTreeMap::new(),
            contexts_per_worker,
            ids: ids.chain(of_count).collect(),
            kept: keeps.then(Vec::new),
            left_out: 0,
            requests_sent: 0,
            iterations: 0,
        };
        for worker in 0..workers {
            world.wake(worker, 0);
        }
        world
    }

    /// Lets the next thing happen, and says whom it concerns; nothing when nothing happens any more.
    pub(super) fn next(&mut self) -> Option<Concerns> {
        let Reverse((at, number, what)) = self.queue.pop()?;
        self.now = at;
        if number.is_multiple_of(DROP_SECONDS_EVERY) {
            drop(self.seconds.take());
        }
        let worker = match what {
            What::Worker(worker) => {
                let wakes = &mut self.wakes[worker as usize];
                // It was woken before, and will be later.
                if *wakes == at {
                    *wakes = Nanos::MAX;
                }
                Some(worker)
            }
            What::Server => {
                self.server_wakes = Nanos::MAX;
                self.serve();
                None
            }
            What::Arrives(stream) => {
                self.arrives(stream);
                self.happened(stream);
                None
            }
            What::Cancelled(stream) => {
                self.cancelled(stream);
                self.happened(stream);
                None
            }
            What::Delivered(stream) => {
                let worker = self.delivered(stream);
                self.happened(stream);
                worker
            }
            What::Deadline(stream) => {
                let worker = self.deadline(stream);
                self.happened(stream);
                worker
            }
        };
        Some(worker.map_or(Concerns::Nobody, Concerns::Worker))
    }

    fn schedule(&mut self, at: Nanos, what: What) {
        self.scheduled += 1;
        self.queue.push(Reverse((at, self.scheduled, what)));
    }

    fn schedule_on(&mut self, stream: usize, at: Nanos, what: fn(usize) -> What) {
        self.streams[stream].to_come += 1;
        self.schedule(at, what(stream));
    }

    /// Something happened on a stream. One on which nothing more can happen is forgotten.
    fn happened(&mut self, stream: usize) {
        self.streams[stream].to_come -= 1;
        self.forget_if_over(stream);
    }

    fn forget_if_over(&mut self, stream: usize) {
        let its = &self.streams[stream];
        if its.is_dropped && its.to_come == 0 && its.order.is_empty() {
            self.streams.remove(stream);
        }
    }

    /// Has a worker look what there is to do, at this time or before.
    pub(super) fn wake(&mut self, worker: u32, at: Nanos) {
        if at < self.wakes[worker as usize] {
            self.wakes[worker as usize] = at;
            self.schedule(at, What::Worker(worker));
        }
    }

    /// Tells what happened just now.
    pub(super) fn tell(&mut self, context: ContextId, lane: Lane, kind: EventKind) -> Ruling {
        let event = self.recorder.read(Event { at: self.now, context, lane, kind });
        let entry = Entry::new(event.clone(), self.ids[self.place(context)].0);
        self.occupancy.take(&entry);
        if let Some(kept) = &mut self.kept {
            if kept.len() < KEPT_MAX {
                kept.push(entry);
            } else {
                self.left_out += 1;
            }
        }
        for violation in self.occupancy.violations() {
            *self.of_all.entry(violation.kind).or_default() += 1;
        }
        self.recorder.record(event)
    }

    /// The place of a context's correlation ID among all.
    fn place(&self, ContextId { worker, context }: ContextId) -> usize {
        (worker * self.contexts_per_worker + context) as usize
    }

    /// The number behind those of all workers, which the count of the slots has.
    pub(super) fn count_worker(&self) -> u32 {
        self.plan.scenario.workers()
    }

    /// Opens a stream.
    pub(super) fn open(&mut self, worker: u32, by: Transport, deadline: Option<Duration>) -> usize {
        let stream = Stream {
            worker,
            by,
            deadline,
            deadline_at: None,
            fastest: self.random.random_range(UNDER_WAY),
            up: VecDeque::new(),
            down: VecDeque::new(),
            inbox: VecDeque::new(),
            last_up: 0,
            last_down: 0,
            order: VecDeque::new(),
            cancelled: Arc::default(),
            is_half_closed: false,
            has_ended: false,
            is_dropped: false,
            to_come: 0,
        };
        let place = self.streams.insert(stream);
        if by.is_stream() {
            self.start_deadline(place);
        }
        place
    }

    fn start_deadline(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        if let Some(deadline) = its.deadline {
            let at = self.now + nanos(deadline);
            its.deadline_at = Some(at);
            self.schedule_on(stream, at, What::Deadline);
        }
    }

    pub(super) fn send(&mut self, stream: usize, step: Step) {
        self.requests_sent += 1;
        let RequestId { worker, context, .. } = step.request;
        let id = self.place(ContextId { worker, context });
        if !self.streams[stream].by.is_stream() {
            self.start_deadline(stream);
        }
        self.sends(stream, Up::Request(step, id));
    }

    /// Sends a step of the count of the slots, with the ID of this number.
    pub(super) fn send_for_count(&mut self, stream: usize, step: Step, number: usize) {
        let workers = (self.plan.scenario.workers() * self.contexts_per_worker) as usize;
        self.sends(stream, Up::Request(step, workers + number));
    }

    /// Says that nothing more follows on a stream.
    pub(super) fn half_close(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        if its.by.is_stream() {
            return self.sends(stream, Up::HalfClose);
        }
        its.is_half_closed = true;
        self.end_calls(stream);
    }

    /// Of calls nothing comes behind the answer to the last.
    fn end_calls(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        let is_done = its.up.is_empty() && its.order.is_empty() && its.down.is_empty();
        if !its.by.is_stream() && its.is_half_closed && is_done && !its.has_ended {
            its.has_ended = true;
            its.inbox.push_back(Message::End);
            let worker = its.worker;
            self.wake(worker, self.now);
        }
    }

    fn sends(&mut self, stream: usize, what: Up) {
        let its = &mut self.streams[stream];
        its.up.push_back(what);
        let arrives = self.now + its.fastest + self.random.random_range(0..its.fastest);
        its.last_up = its.last_up.max(arrives);
        let at = its.last_up;
        self.schedule_on(stream, at, What::Arrives);
    }

    /// The client has nothing more to do with a stream, which cancels it unless it has ended.
    pub(super) fn leave(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        its.is_dropped = true;
        its.deadline_at = None;
        its.inbox.clear();
        if its.has_ended {
            self.forget_if_over(stream);
        } else {
            let at = self.now + its.fastest + self.random.random_range(0..its.fastest);
            self.schedule_on(stream, at, What::Cancelled);
        }
    }

    /// What a stream brought next, if anything did.
    pub(super) fn take(&mut self, stream: usize) -> Option<Message> {
        self.streams[stream].inbox.pop_front()
    }

    fn arrives(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        let Some(what) = its.up.pop_front() else { return };
        if its.cancelled.load(Relaxed) {
            return;
        }
        match what {
            Up::HalfClose => {
                its.is_half_closed = true;
                self.end_if_done(stream);
            }
            Up::Request(step, id) => {
                let cancelled = Arc::clone(&its.cancelled);
                let request = Request { stream, step, id, answer: None };
                let name = self.requests.insert(request);
                self.streams[stream].order.push_back(name);
                if let Some(answer) = self.submit(name, &step, id, cancelled) {
                    self.answered(name, answer);
                }
                self.serve();
            }
        }
    }

    fn submit(&mut self, name: usize, step: &Step, id: usize, cancelled: Arc<AtomicBool>) -> Option<Answer> {
        let model = &self.plan.preflight.model;
        let (_, id) = &self.ids[id];
        let now = Duration::from_nanos(self.now);
        if step.flaw().is_some() {
            let context = step.request.context;
            let id = correlation_id(&self.plan.scenario, step.request.worker, context);
            let id = id.on_the_wire(self.plan.scenario.id_form(step.request.worker));
            let message = RequestTemplate::of(model, id).flawed(step, &step.request.to_string());
            return self.server.submit_message(name, message, cancelled, now);
        }
        let mut data = Vec::with_capacity(usize::from(step.value.elements().get()) * size_of::<u64>());
        model.shape.spread(step.value).for_each(|part| part.put(&mut data));
        let submitted = Submitted {
            name,
            id,
            start: step.start,
            end: step.end,
            shape: model.shape.of(step.value.elements()),
            data,
            batch_size: 1,
            timeout: match step.special {
                Some(Special::TimeoutUs(us)) => Some(Duration::from_micros(us)),
                _ => None,
            },
            cancelled,
        };
        self.server.submit(submitted, now, Duration::ZERO)
    }

    fn serve(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        let random = &mut self.random;
        let longer = || Duration::from_nanos(random.random_range(LONGER));
        self.server.advance(Duration::from_nanos(self.now), longer, &mut answers);
        for (name, answer) in answers.drain(..) {
            self.answered(name, answer);
        }
        self.answers = answers;
        let wake = self.server.next_wake().map(|at| nanos(at).max(self.now));
        if let Some(wake) = wake.filter(|wake| *wake < self.server_wakes) {
            self.server_wakes = wake;
            self.schedule(wake, What::Server);
        }
    }

    fn answered(&mut self, name: usize, answer: Answer) {
        self.requests[name].answer = Some(answer);
        let stream = self.requests[name].stream;
        while let Some(&first) = self.streams[stream].order.front() {
            let request = &mut self.requests[first];
            let Some(answer) = request.answer.take() else { break };
            let step = request.step;
            self.requests.remove(first);
            self.streams[stream].order.pop_front();
            if !self.streams[stream].cancelled.load(Relaxed) {
                let received = self.received(&step, answer, self.streams[stream].by);
                self.bring(stream, Message::Received(Box::new(received)));
            }
        }
        self.end_if_done(stream);
        self.forget_if_over(stream);
    }

    fn bring(&mut self, stream: usize, message: Message) {
        let its = &mut self.streams[stream];
        its.down.push_back(message);
        let comes = self.now + its.fastest + self.random.random_range(0..its.fastest);
        its.last_down = its.last_down.max(comes);
        let at = its.last_down;
        self.schedule_on(stream, at, What::Delivered);
    }

    /// Ends a half-closed stream on which nothing is unanswered.
    fn end_if_done(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        let goes_on = its.has_ended || its.cancelled.load(Relaxed) || !its.by.is_stream();
        if its.is_half_closed && its.order.is_empty() && !goes_on {
            its.has_ended = true;
            self.bring(stream, Message::End);
        }
    }

    fn cancelled(&mut self, stream: usize) {
        let its = &self.streams[stream];
        if its.has_ended || its.cancelled.swap(true, Relaxed) {
            return;
        }
        for &name in &its.order {
            self.server.disconnected(&self.ids[self.requests[name].id].1);
        }
        self.server.cancelled(Duration::from_nanos(self.now));
        self.serve();
    }

    /// What a stream brings comes to its client. Returns whose that is, if he waits for it.
    fn delivered(&mut self, stream: usize) -> Option<u32> {
        let its = &mut self.streams[stream];
        let message = its.down.pop_front()?;
        if its.is_dropped {
            return None;
        }
        if !its.by.is_stream() {
            its.deadline_at = None;
        }
        its.inbox.push_back(message);
        let worker = its.worker;
        self.end_calls(stream);
        Some(worker)
    }

    fn deadline(&mut self, stream: usize) -> Option<u32> {
        let its = &mut self.streams[stream];
        if its.is_dropped || its.deadline_at != Some(self.now) {
            return None;
        }
        its.deadline_at = None;
        its.inbox.push_back(Message::DeadlinePassed);
        Some(its.worker)
    }

    fn received(&self, step: &Step, answer: Answer, by: Transport) -> Received {
        let mut received =
            Received { id: step.request.to_string(), result: Ok(Response::default()), code: None, outputs: 0 };
        match answer {
            Ok(responses) => {
                let mut all = responses.into_iter().map(|outputs| self.response(outputs));
                // Where there is none the last message is empty.
                let first = all.next().unwrap_or_else(|| self.nothing());
                let series = Series { further: all.collect(), is_unfinished: false, spread: Some(Duration::ZERO) };
                received.result = Ok(Response { series, ..first });
            }
            Err(refused) if refused.is_cancelled() && by.is_stream() => received.result = Ok(self.nothing()),
            Err(refused) => {
                received.code = match by {
                    Transport::GrpcStream | Transport::GrpcStatus => None,
                    Transport::GrpcUnary => Some(Code::Grpc(refused.code)),
                    Transport::Http | Transport::HttpBinary => Some(Code::Http(refused.over_http())),
                };
                received.result = Err(refused.text);
            }
        }
        received
    }

    fn response(&self, outputs: Vec<Output>) -> Response {
        let model = &self.plan.preflight.model;
        let tensor = |Output { name, datatype, shape, data }: Output| Tensor {
            name: name.as_ref().into(),
            datatype: datatype.into(),
            shape,
            data: TensorData::Raw(data),
        };
        Response {
            model: model.name.clone(),
            version: model.version.clone().unwrap_or_default(),
            outputs: outputs.into_iter().map(tensor).collect(),
            ..Response::default()
        }
    }

    fn nothing(&self) -> Response {
        Response { model: self.plan.preflight.model.name.clone(), ..Response::default() }
    }

    /// What was counted so far.
    pub(super) fn tally(&self) -> &Tally {
        self.recorder.tally()
    }

    /// What was counted, and what happened where that was kept.
    pub(super) fn conclude(mut self) -> Concluded {
        self.occupancy.conclude();
        for violation in self.occupancy.violations() {
            *self.of_all.entry(violation.kind).or_default() += 1;
        }
        let mut tally = self.recorder.close();
        for (kind, count) in &self.of_all {
            *tally.violations.entry(*kind).or_default() += count;
        }
        tally.reached.add(&self.occupancy.reached());
        let committed = self.plan.faults.iter().map(|planted| self.server.committed(planted.fault)).collect();
        Concluded { tally, entries: self.kept.unwrap_or_default(), left_out: self.left_out, committed }
    }
}

/// A correlation ID as the server receives it.
fn on_the_wire(id: CorrelationId, form: IdForm) -> SequenceId {
    match id.on_the_wire(form) {
        WireId::Number(number) => SequenceId::Number(number.cast_unsigned()),
        WireId::Text(text) => SequenceId::Text(text.into()),
    }
}
