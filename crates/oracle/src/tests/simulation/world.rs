//! Clients that hold conversations with a simulated server over a simulated network, in virtual time.
//!
//! Every stream has its own delays in both directions and keeps its order; streams do not keep each other's. The cancellation of
//! a stream travels by itself: data that it overtakes is dropped unread.

mod clients;
mod server;

pub(super) use self::server::received;

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

use super::conversation::{IDLE_US, STRAGGLING_US};
use crate::{Doubt, Oracle, Rules, Ruling, Words};
use reference::{
    ServerSetup,
    fault::{Fault, Planted},
    simulated::{self, Blueprint, Simulated},
};
use workload::{
    arithmetic::Arithmetic,
    controls::{Controls, Told},
    conversation::{Act, Lane},
    event::{ContextId, Event, EventKind},
    number::{Datatype, Number},
    seed::Seed,
    sequence::{CorrelationId, IdForm, Step},
};

/// Nothing takes longer, in µs.
const FOR_EVER_US: u64 = 3_600_000_000;

/// What a world is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) model: &'static str,
    /// Whether the model keeps its state by correlation ID.
    pub(super) mixes: bool,
    pub(super) told: Told,
    /// What the model computes. The simulated server adds numbers of 32 bits, and each stands for so many times itself in the
    /// model's own type, which keeps sums as long as they do not wrap in 32 bits alone.
    pub(super) arithmetic: Arithmetic,
    pub(super) times: i64,
    /// Whether the server speaks as is expected.
    pub(super) words: Words,
}

impl Kind {
    /// What the simulated server is given for a value.
    fn given(&self, value: i64) -> i32 {
        let value = i32::try_from(value).expect("values of 32 bits are drawn");
        match self.arithmetic.datatype {
            // Few enough for no sum to wrap, and to be exact.
            Datatype::Int64 | Datatype::Uint64 | Datatype::Fp32 | Datatype::Fp64 => value % (1 << 14),
            Datatype::Fp16 => value % 4,
            _ => value,
        }
    }

    /// Whether its type has so few numbers that another one may be a right one, too.
    fn has_few_numbers(&self) -> bool {
        matches!(self.arithmetic.datatype, Datatype::Int8 | Datatype::Uint8 | Datatype::Fp16)
    }

    /// What one of the simulated server's numbers stands for.
    pub(super) fn number(&self, simulated: i32) -> Number {
        self.arithmetic.datatype.number(self.times.wrapping_mul(simulated.into()))
    }

    /// Whether the last answer tells the sum that a sequence has.
    fn keeps_sums(&self) -> bool {
        !self.mixes && !self.arithmetic.formula.is_stateless()
    }
}

/// The outputs that are asked for.
pub(super) const ASKED: [&str; 2] = ["OUTPUT", "SEEN"];

/// The bytes of what the model saw.
const SEEN_BYTES: usize = 5 * size_of::<i64>();

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The sum, and the elements of what the model saw.
    Sum(i32, [u8; SEEN_BYTES]),
    /// Rejected for want of START.
    NoStart,
    /// Rejected for its batch size.
    Flawed,
    /// Rejected because its sequence waited for too long.
    Expired,
    /// Neither outputs nor an error text.
    Cancelled,
}

impl From<simulated::Answer> for Answer {
    fn from(answer: simulated::Answer) -> Self {
        match answer {
            Ok(responses) => {
                let last = responses.into_iter().next_back().expect("a response");
                let [sum, seen] = last.try_into().expect("both outputs");
                let sum = i32::from_le_bytes(sum.data.try_into().expect("an element"));
                Self::Sum(sum, seen.data.try_into().expect("its elements"))
            }
            Err(refused) if refused.is_cancelled() => Self::Cancelled,
            Err(refused) if refused.text.contains("START") => Self::NoStart,
            Err(refused) if refused.text.contains("batch-size") => Self::Flawed,
            Err(refused) if refused.text.contains("expired") => Self::Expired,
            Err(refused) => panic!("{refused:?} was given no cause for"),
        }
    }
}

/// What is done to the answer with this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tampering {
    pub(super) answer: u64,
}

/// What the simulated server does wrong by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A sequence goes on after its END, which is executed.
    LosesEnds,
    /// It takes all correlation IDs for one.
    FoldsIds,
}

/// How an answer is altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alteration {
    /// A step with START is rejected for a missing START.
    Rejected,
    /// The model says that it saw other controls.
    Controls,
    /// The sum has the step's own value twice.
    Doubled,
    /// The sum is another one.
    OtherSum,
    /// A step that has to be rejected is answered with a sum.
    Accepted,
}

impl Alteration {
    pub(super) const ALL: [Self; 5] = [Self::Rejected, Self::Controls, Self::Doubled, Self::OtherSum, Self::Accepted];
}

/// What was seen of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) conversations: u64,
    pub(super) answers: u64,
    pub(super) sums: u64,
    pub(super) unjudged: HashMap<Doubt, u64>,
    pub(super) checks_of_the_state: u64,
    pub(super) states_max: usize,
    pub(super) requests_max: usize,
    /// A determined answer was altered: how, and how many violations the altered answer had.
    pub(super) tampered: Option<(Alteration, usize)>,
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
    /// What the simulated server is given.
    given: i32,
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
    wrong: Option<Wrong>,
    pub(super) seen: Seen,
    /// What happened, for whoever has to find out why a test fails.
    pub(super) log: Option<Vec<String>>,
}

pub(super) fn id(client: usize) -> CorrelationId {
    CorrelationId(NonZeroU64::new(client as u64 + 5).expect("not zero"))
}

/// What a server of this kind may do.
pub(super) fn rules(kind: &Kind) -> Rules {
    Rules {
        model: "m".into(),
        calls: None,
        version: None,
        output: "OUTPUT".into(),
        shape: vec![1, -1].into(),
        arithmetic: kind.arithmetic,
        idle_limit: Some(Duration::from_micros(IDLE_US)),
        straggling: Duration::from_micros(STRAGGLING_US),
        mixes: kind.mixes,
        restarts: true,
        words: kind.words,
        controls: Some(Controls { output: "SEEN".into(), shape: vec![1, 5], told: kind.told, slots: Some(4) }),
        golden: None,
    }
}

impl World {
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        Self::with(kind, seed, None)
    }

    /// A world with a server that does this.
    pub(super) fn wrong(kind: Kind, seed: u64, wrong: Wrong) -> Self {
        Self::with(kind, seed, Some(wrong))
    }

    fn with(kind: Kind, seed: u64, wrong: Option<Wrong>) -> Self {
        let planted = match wrong {
            Some(Wrong::LosesEnds) => vec![Planted::always(Fault::LoseEnd)],
            Some(Wrong::FoldsIds) | None => Vec::new(),
        };
        let mut random = Seed(seed).generator(0);
        let clients = random.random_range(1..=4);
        let setup = ServerSetup {
            instances: random.random_range(1..=2),
            max_batch_size: random.random_range(1..=2),
            candidates: Some(random.random_range(1..=2)),
            idle_limit: Duration::from_micros(IDLE_US),
            execution_time: Duration::ZERO,
            ..ServerSetup::default()
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
            server: Blueprint::new(kind.model, setup).expect("a built-in model").serve(&planted, Seed(seed), &ASKED),
            wakes_at: u64::MAX,
            streams: Vec::new(),
            sent: Vec::new(),
            clients: (0..clients).map(client).collect(),
            oracle: Oracle::new(rules(&kind), u32::try_from(clients).expect("few"), 1, |context| {
                (id(context.worker as usize), IdForm::Integer)
            }),
            small_values: random.random_bool(0.2),
            tampering: None,
            wrong,
            seen: Seen::default(),
            log: None,
            random,
        };
        for client in 0..clients {
            world.schedule(0, What::Client(client));
        }
        world
    }

    /// The ID that the server takes a client's for.
    fn id_on_the_server(&self, client: usize) -> u64 {
        let client = if self.wrong == Some(Wrong::FoldsIds) { 0 } else { client };
        id(client).0.get()
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.len()
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
                    self.server.cancelled(Duration::from_micros(self.now));
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
        let event = self.oracle.read(event);
        let ruling = self.oracle.observe(event);
        let (states, requests) = self.oracle.ids[client].size();
        self.seen.states_max = self.seen.states_max.max(states);
        self.seen.requests_max = self.seen.requests_max.max(requests);
        self.seen.violations.extend(ruling.violations.iter().map(|violation| format!("{violation:?}")));
        if let Some(log) = &mut self.log {
            log.extend(ruling.violations.iter().map(|violation| format!("{violation:?}")));
        }
        ruling
    }

    fn event(&self, client: usize, lane: Lane, kind: EventKind) -> Event {
        let context = ContextId { worker: u32::try_from(client).expect("few"), context: 0 };
        Event { at: self.now * 1000, context, lane, kind }
    }
}
