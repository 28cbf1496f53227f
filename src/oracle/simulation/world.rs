//! Clients that hold conversations with a simulated server over a simulated network, in virtual time.
//!
//! Every stream has its own delays in both directions and keeps its order; streams do not keep each other's. The cancellation of
//! a stream travels by itself: data that it overtakes is dropped unread.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::conversation::{IDLE_US, STRAGGLING_US, Script};
use crate::{
    controls::{self, Controls, Told},
    conversation::{Act, Connection, Lane},
    event::{ContextId, Cut, Event, EventKind, Received, Response},
    oracle::{Doubt, Oracle, Rules, Ruling, states::State},
    reference::{
        ModelOptions,
        fault::Faults,
        simulated::{Answer, SEEN_BYTES, Simulated, Submitted},
    },
    seed::Seed,
    sequence::{CorrelationId, IdForm, Pattern, RequestId, Special, Step},
    tensor::{Tensor, TensorData},
};

/// Conversations that each client holds.
const CONVERSATIONS: u32 = 8;
/// Nothing takes longer, in µs.
const FOR_EVER_US: u64 = 3_600_000_000;

/// What a world is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) model: &'static str,
    /// Whether the model keeps its state by correlation ID.
    pub(super) mixes: bool,
    pub(super) told: Told,
}

/// What is done to the answer with this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tampering {
    pub(super) answer: u64,
}

/// What was seen of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) conversations: u64,
    pub(super) answers: u64,
    pub(super) sums: u64,
    pub(super) undetermined: HashMap<Doubt, u64>,
    pub(super) checks_of_the_state: u64,
    pub(super) states_max: usize,
    pub(super) requests_max: usize,
    /// The answer was altered although it was determined; how many violations there were.
    pub(super) tampered: Option<usize>,
    pub(super) violations: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A client goes on.
    Client(usize),
    /// A request comes to the server.
    Arrives(usize),
    /// The server sees that a stream is cancelled.
    Cancelled(usize),
    Server,
    /// An answer comes to the client.
    Delivered(usize),
}

struct Sent {
    stream: usize,
    step: Step,
    answer: Option<Answer>,
}

struct Stream {
    client: usize,
    lane: Lane,
    last_up: u64,
    last_down: u64,
    /// The slowest that it is, in µs.
    slowness: u64,
    cancelled: Arc<AtomicBool>,
    /// What the server has read and not answered.
    order: VecDeque<usize>,
    /// Requests that are under way to the server.
    under_way: usize,
    is_open: bool,
    unanswered: u32,
}

struct Client {
    acts: VecDeque<Act>,
    conversations: u32,
    lanes: [Option<usize>; Lane::MAX as usize],
    sequences: u32,
    /// It waits for time to pass and not for answers.
    pauses: bool,
    /// What the server accepted last of its ID.
    last_accepted: Option<usize>,
}

pub(super) struct World {
    random: ChaCha8Rng,
    kind: Kind,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    scheduled: u64,
    server: Simulated,
    wakes_at: u64,
    streams: Vec<Stream>,
    sent: Vec<Sent>,
    clients: Vec<Client>,
    oracle: Oracle,
    small_values: bool,
    tampering: Option<Tampering>,
    pub(super) seen: Seen,
    /// What happened, for whoever has to find out why a test fails.
    pub(super) log: Option<Vec<String>>,
}

fn id(client: usize) -> CorrelationId {
    CorrelationId(NonZeroU64::new(client as u64 + 5).expect("not zero"))
}

impl World {
    pub(super) fn new(kind: Kind, seed: u64, faults: Faults) -> Self {
        let mut random = Seed(seed).generator(0);
        let clients = random.random_range(1..=4);
        let options = ModelOptions {
            instances: random.random_range(1..=2),
            max_batch_size: random.random_range(1..=2),
            candidates: random.random_range(1..=2),
            idle_limit: Duration::from_micros(IDLE_US),
            ..ModelOptions::default()
        };
        let rules = Rules {
            model: "m".into(),
            output: "OUTPUT".into(),
            shape: vec![1, 1],
            idle_limit: Some(Duration::from_micros(IDLE_US)),
            straggling: Duration::from_micros(STRAGGLING_US),
            mixes: kind.mixes,
            controls: Some(Controls { output: "SEEN".into(), shape: vec![1, 5], told: kind.told, slots: Some(4) }),
        };
        let client = |_| Client {
            acts: VecDeque::new(),
            conversations: 0,
            lanes: [None; Lane::MAX as usize],
            sequences: 0,
            pauses: false,
            last_accepted: None,
        };
        let mut world = Self {
            kind,
            now: 0,
            queue: BinaryHeap::new(),
            scheduled: 0,
            server: Simulated::new(kind.model, &options, faults),
            wakes_at: u64::MAX,
            streams: Vec::new(),
            sent: Vec::new(),
            clients: (0..clients).map(client).collect(),
            oracle: Oracle::new(rules, u32::try_from(clients).expect("few"), 1, |context| {
                (id(context.worker as usize), IdForm::Integer)
            }),
            small_values: random.random_bool(0.2),
            tampering: None,
            seen: Seen::default(),
            log: None,
            random,
        };
        for client in 0..clients {
            world.schedule(0, What::Client(client));
        }
        world
    }

    /// Alters the answer with this number.
    pub(super) fn tampering(mut self, tampering: Tampering) -> Self {
        self.tampering = Some(tampering);
        self
    }

    pub(super) fn run(&mut self) {
        while let Some(Reverse((at, _, what))) = self.queue.pop() {
            assert!(at < FOR_EVER_US, "it does not end");
            self.now = self.now.max(at);
            match what {
                What::Client(client) => {
                    self.clients[client].pauses = false;
                    self.go_on(client);
                }
                What::Arrives(request) => self.arrives(request),
                What::Cancelled(stream) => {
                    self.streams[stream].cancelled.store(true, Relaxed);
                    self.server.cancelled();
                    self.serve();
                }
                What::Server => {
                    self.wakes_at = u64::MAX;
                    self.serve();
                }
                What::Delivered(request) => self.delivered(request),
            }
        }
        assert!(self.clients.iter().all(|client| client.acts.is_empty()), "answers are missing");
    }

    fn schedule(&mut self, at: u64, what: What) {
        self.scheduled += 1;
        self.queue.push(Reverse((at, self.scheduled, what)));
    }

    fn tell(&mut self, client: usize, lane: Lane, kind: EventKind) -> Ruling {
        if let Some(log) = &mut self.log {
            log.push(format!("{} µs, client {client} {lane:?}: {kind:?}", self.now));
        }
        let event = self.event(client, lane, kind);
        let ruling = self.oracle.observe(event);
        let (states, requests) = self.oracle.ids[client].size();
        self.seen.states_max = self.seen.states_max.max(states);
        self.seen.requests_max = self.seen.requests_max.max(requests);
        self.seen.violations.extend(ruling.violations.iter().map(ToString::to_string));
        if let Some(log) = &mut self.log {
            log.extend(ruling.violations.iter().map(ToString::to_string));
        }
        ruling
    }

    fn event(&self, client: usize, lane: Lane, kind: EventKind) -> Event {
        let context = ContextId { worker: u32::try_from(client).expect("few"), context: 0 };
        Event { at: self.now * 1000, context, lane, kind }
    }

    fn go_on(&mut self, client: usize) {
        if self.clients[client].pauses {
            return;
        }
        loop {
            let Some(act) = self.clients[client].acts.front().copied() else {
                if self.clients[client].conversations == CONVERSATIONS {
                    return;
                }
                self.check_state(client);
                self.clients[client].conversations += 1;
                self.seen.conversations += 1;
                self.clients[client].acts = Script::conversation(&mut self.random, self.small_values).into();
                continue;
            };
            if !self.act(client, act) {
                return;
            }
            self.clients[client].acts.pop_front();
            if let Act::Pause { us } = act {
                self.clients[client].pauses = true;
                self.schedule(self.now + us, What::Client(client));
                return;
            }
            self.now += self.random.random_range(0..20);
        }
    }

    /// Does something; returns false where it has to wait.
    fn act(&mut self, client: usize, act: Act) -> bool {
        match act {
            Act::Open { lane, over } => self.open(client, lane, over),
            Act::Send { lane, start, end, value, special, .. } => {
                let request = self.next_request(client);
                let step = Step { request, pattern: Pattern::Valid, start, end, value, of: 1, special };
                self.send(client, lane, step);
            }
            Act::Await { lane, unanswered } => {
                let stream = self.clients[client].lanes[lane.index()];
                return stream.is_none_or(|stream| self.streams[stream].unanswered <= unanswered);
            }
            Act::Close { lane } => {
                if let Some(stream) = self.clients[client].lanes[lane.index()].take() {
                    self.streams[stream].is_open = false;
                    self.tell(client, lane, EventKind::Closed);
                }
            }
            Act::Cancel { lane } => self.cut(client, lane, Cut::Cancelled),
            Act::Reset { lane } => self.cut(client, lane, Cut::Reset),
            Act::Kill { lane } => self.cut(client, lane, Cut::Killed),
            Act::HalfClose { .. } | Act::Pause { .. } | Act::StopReading { .. } => {}
        }
        true
    }

    fn open(&mut self, client: usize, lane: Lane, over: Connection) {
        let slowness = if self.random.random_bool(0.1) { IDLE_US } else { self.random.random_range(1..5000) };
        self.streams.push(Stream {
            client,
            lane,
            last_up: 0,
            last_down: 0,
            slowness,
            cancelled: Arc::default(),
            order: VecDeque::new(),
            under_way: 0,
            is_open: true,
            unanswered: 0,
        });
        self.clients[client].lanes[lane.index()] = Some(self.streams.len() - 1);
        self.tell(client, lane, EventKind::Opened(over));
    }

    fn next_request(&mut self, client: usize) -> RequestId {
        let worker = u32::try_from(client).expect("few");
        let sequence = self.clients[client].sequences;
        self.clients[client].sequences += 1;
        RequestId { worker, context: 0, sequence, step: 0 }
    }

    fn send(&mut self, client: usize, lane: Lane, step: Step) {
        if self.clients[client].lanes[lane.index()].is_none() {
            self.open(client, lane, Connection::Own);
        }
        self.tell(client, lane, EventKind::Sent(step));
        let stream = self.clients[client].lanes[lane.index()].expect("it was opened");
        self.sent.push(Sent { stream, step, answer: None });
        let delay = self.random.random_range(0..self.streams[stream].slowness);
        let stream = &mut self.streams[stream];
        stream.unanswered += 1;
        stream.under_way += 1;
        stream.last_up = stream.last_up.max(self.now + delay) + 1;
        let at = stream.last_up;
        self.schedule(at, What::Arrives(self.sent.len() - 1));
    }

    fn cut(&mut self, client: usize, lane: Lane, cut: Cut) {
        let Some(stream) = self.clients[client].lanes[lane.index()].take() else { return };
        self.streams[stream].is_open = false;
        self.tell(client, lane, EventKind::Cut(cut));
        let delay = self.random.random_range(0..self.streams[stream].slowness * 2);
        self.schedule(self.now + delay, What::Cancelled(stream));
    }

    fn arrives(&mut self, request: usize) {
        let Sent { stream, step, .. } = self.sent[request];
        let Stream { client, ref mut under_way, ref mut order, ref cancelled, .. } = self.streams[stream];
        *under_way -= 1;
        if cancelled.load(Relaxed) {
            return;
        }
        order.push_back(request);
        let submitted = Submitted {
            name: request,
            id: id(client).0.get(),
            start: step.start,
            end: step.end,
            value: step.value,
            is_flawed: step.flaw().is_some(),
            timeout: match step.special {
                Some(Special::TimeoutUs(us)) => Some(Duration::from_micros(us)),
                _ => None,
            },
            cancelled: Arc::clone(cancelled),
        };
        let lag = Duration::from_micros(self.random.random_range(0..IDLE_US / 2));
        let refused = self.server.submit(submitted, Duration::from_micros(self.now), lag);
        match refused {
            Some(answer) => self.answered(request, answer),
            None => self.clients[client].last_accepted = Some(request),
        }
        self.serve();
    }

    fn serve(&mut self) {
        let mut answers = Vec::new();
        let random = &mut self.random;
        let takes = || Duration::from_micros(random.random_range(0..3000));
        self.server.advance(Duration::from_micros(self.now), takes, &mut answers);
        for (request, answer) in answers {
            self.answered(request, answer);
        }
        let wake = self.server.next_wake().map(|at| u64::try_from(at.as_nanos().div_ceil(1000)).expect("soon"));
        if let Some(wake) = wake.map(|wake| wake.max(self.now)).filter(|wake| *wake < self.wakes_at) {
            self.wakes_at = wake;
            self.schedule(wake, What::Server);
        }
    }

    fn answered(&mut self, request: usize, answer: Answer) {
        if let Some(log) = &mut self.log {
            log.push(format!(
                "{} µs: the server answers {} with {answer:?}",
                self.now, self.sent[request].step.request
            ));
        }
        self.sent[request].answer = Some(answer);
        let at = self.sent[request].stream;
        while let Some(&first) = self.streams[at].order.front().filter(|first| self.sent[**first].answer.is_some()) {
            let delay = self.random.random_range(0..self.streams[at].slowness);
            let stream = &mut self.streams[at];
            stream.order.pop_front();
            stream.last_down = stream.last_down.max(self.now + delay) + 1;
            let when = stream.last_down;
            self.schedule(when, What::Delivered(first));
        }
    }

    fn delivered(&mut self, request: usize) {
        let Sent { stream, step, answer } = self.sent[request];
        let Stream { client, lane, is_open, ref mut unanswered, .. } = self.streams[stream];
        if !is_open {
            return;
        }
        *unanswered -= 1;
        let answer = answer.expect("it was answered");
        let answer = self.tampered(client, lane, &step, answer);
        let ruling = self.tell(client, lane, received(client, &step, answer));
        self.seen.answers += 1;
        self.seen.sums += u64::from(matches!(answer, Answer::Sum(..)));
        if let Some(doubt) = ruling.settled.expect("it is settled").doubt {
            *self.seen.undetermined.entry(doubt).or_default() += 1;
        }
        self.go_on(client);
    }

    /// The answer, altered where it is the one to be altered and is determined.
    fn tampered(&mut self, client: usize, lane: Lane, step: &Step, answer: Answer) -> Answer {
        if self.tampering.is_none_or(|tampering| self.seen.answers < tampering.answer) || self.seen.tampered.is_some() {
            return answer;
        }
        let right = self.oracle.clone().observe(self.event(client, lane, received(client, step, answer)));
        let is_determined = right.settled.is_some_and(|settled| settled.judged) && !self.small_values;
        let altered = match answer {
            Answer::Sum(..) if step.start && self.random.random_bool(0.2) => Answer::NoStart,
            Answer::Sum(sum, seen) if self.random.random_bool(0.3) => Answer::Sum(sum, self.mistaken(seen)),
            Answer::Sum(sum, seen) if self.random.random_bool(0.5) => Answer::Sum(sum.wrapping_add(step.value), seen),
            Answer::Sum(sum, seen) => Answer::Sum(sum.wrapping_add(self.random.random()), seen),
            Answer::NoStart if !step.start => {
                let seen = controls::Seen::new(
                    [Some(false), Some(step.end), Some(true)],
                    id(client).0.get().cast_signed(),
                    None,
                );
                Answer::Sum(self.random.random(), seen.to_bytes().try_into().expect("its elements"))
            }
            Answer::NoStart | Answer::Flawed | Answer::Expired | Answer::Cancelled => return answer,
        };
        if !is_determined {
            return answer;
        }
        let wrong = self.oracle.clone().observe(self.event(client, lane, received(client, step, altered)));
        self.seen.tampered = Some(wrong.violations.len());
        altered
    }

    /// What the model saw, with one of the controls that it is told another than it was.
    fn mistaken(&mut self, seen: [u8; SEEN_BYTES]) -> [u8; SEEN_BYTES] {
        let mut seen = controls::Seen::from_bytes(&seen).expect("it is right");
        match self.random.random_range(0..4) {
            0 if self.kind.told.corrid_bits.is_some() => seen.corrid += 1,
            1 if self.kind.told.end => seen.end = seen.end.map(|end| !end),
            2 => seen.ready = Some(false),
            _ => seen.start = seen.start.map(|start| !start),
        }
        seen.to_bytes().try_into().expect("its elements")
    }

    /// Where nothing of an ID is under way, what the server holds has to be among what it may hold.
    fn check_state(&mut self, client: usize) {
        let is_quiet = |stream: &Stream| stream.order.is_empty() && stream.under_way == 0 && stream.unanswered == 0;
        let of_client = self.streams.iter().filter(|stream| {
            stream.client == client && (stream.is_open || stream.under_way > 0 || !stream.order.is_empty())
        });
        if !of_client
            .clone()
            .all(|stream| is_quiet(stream) || (!stream.is_open && stream.order.is_empty() && stream.under_way == 0))
        {
            return;
        }
        let held = if self.server.is_live(id(client).0.get()) {
            let last = self.clients[client].last_accepted.expect("a sequence began");
            let Some(Answer::Sum(sum, _)) = self.sent[last].answer else { return };
            // Where the model mixes two sequences its sum is not that of the last step that was accepted.
            State::Live(Some(sum).filter(|_| !self.kind.mixes))
        } else {
            State::Absent
        };
        self.seen.checks_of_the_state += 1;
        assert!(
            self.oracle.ids[client].may_hold(held, self.now * 1000, &self.oracle.rules),
            "at {} µs client {client}: {held:?} is not among {:#?}",
            self.now,
            self.oracle.ids[client]
        );
    }
}

fn received(client: usize, step: &Step, answer: Answer) -> EventKind {
    let outputs = |sum: i32, seen: [u8; SEEN_BYTES]| {
        let output = |name: &str, datatype: &str, elements, bytes: &[u8]| Tensor {
            name: name.into(),
            datatype: datatype.into(),
            shape: vec![1, elements],
            data: TensorData::Raw(bytes.into()),
        };
        vec![output("OUTPUT", "INT32", 1, &sum.to_le_bytes()), output("SEEN", "INT64", 5, &seen)]
    };
    let response = |outputs| Ok(Response { model: "m".into(), outputs });
    let result = match answer {
        Answer::Sum(sum, seen) => response(outputs(sum, seen)),
        Answer::Cancelled => response(Vec::new()),
        Answer::Flawed => Err("… must specify batch-size 1 due to requirements of sequence batcher".to_owned()),
        Answer::Expired => Err("timeout of the corresponding sequence has been expired".to_owned()),
        Answer::NoStart => Err(format!(
            "inference request for sequence {} to model 'm' must specify the START flag on the first request of the sequence",
            id(client)
        )),
    };
    EventKind::Received(Received { id: step.request.to_string(), result })
}
