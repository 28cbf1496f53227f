//! Small worlds, gone through as a whole: three correlation IDs on two slots, each with a script of four events, in every order.
//!
//! A world has neither a network nor chance. Every request arrives when it is sent, and an execution takes the same time always. What
//! is left is the order of arrivals, answers, cancellations and idle times, and each order is one world.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    KINDS,
    conversation::IDLE_US,
    world::{ASKED, Answer, Kind, id, received, rules},
};
use crate::{Oracle, Ruling, Violation, rounds::rounds};
use reference::{
    ServerSetup,
    fault::{Fault, Planted},
    simulated::{Blueprint, SequenceId, Simulated, Submitted},
};
use workload::{
    conversation::{Connection, Lane, Transport},
    event::{ContextId, Cut, Event, EventKind},
    number::Number,
    seed::Seed,
    sequence::{IdForm, Pattern, RequestId, Step},
};

const CLIENTS: usize = 3;
const EVENTS: usize = 4;
const SLOTS: u32 = 2;
/// How long an execution takes.
const EXECUTION: Duration = Duration::from_millis(10);
/// How long nothing happens where it is idle.
const IDLE: Duration = Duration::from_micros(IDLE_US + 20_000);

/// One of the events of a correlation ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    /// A START arrives.
    Start,
    /// A step arrives that is neither the first nor the last.
    Step,
    /// An END arrives.
    End,
    /// A START arrives that is an END, too.
    Both,
    /// An execution passes, and the answers that are there come to the client.
    Answer,
    /// The client cancels the stream, and opens another when it sends again.
    Cancel,
    /// Nothing happens anywhere for longer than the idle limit.
    Idle,
}

use Happens::{Answer as A, Both as B, Cancel as X, End as E, Idle as I, Start as S, Step as C};

/// What a correlation ID may go through.
const SCRIPTS: [[Happens; EVENTS]; 13] = [
    [S, A, E, A],
    [S, A, C, A],
    [S, E, A, A],
    [B, A, B, A],
    [B, A, C, A],
    [S, A, I, C],
    [S, I, A, E],
    [S, S, A, E],
    [C, A, S, A],
    [S, A, X, S],
    [S, X, S, A],
    [S, E, X, S],
    [S, C, X, I],
];

/// Each way to put so many events of each client into one order.
fn orders() -> Vec<[usize; CLIENTS * EVENTS]> {
    fn go_on(left: [usize; CLIENTS], so_far: &mut Vec<usize>, all: &mut Vec<[usize; CLIENTS * EVENTS]>) {
        if let Ok(order) = so_far.as_slice().try_into() {
            all.push(order);
            return;
        }
        for client in 0..CLIENTS {
            if left[client] > 0 {
                let mut rest = left;
                rest[client] -= 1;
                so_far.push(client);
                go_on(rest, so_far, all);
                so_far.pop();
            }
        }
    }
    let mut all = Vec::new();
    go_on([EVENTS; CLIENTS], &mut Vec::new(), &mut all);
    all
}

/// Each choice of scripts. Clients are alike, so their order does not count.
fn choices() -> Vec<[usize; CLIENTS]> {
    let all = 0..SCRIPTS.len();
    let pairs = all.clone().flat_map(|first| (first..SCRIPTS.len()).map(move |second| (first, second)));
    pairs.flat_map(|(first, second)| (second..SCRIPTS.len()).map(move |third| [first, second, third])).collect()
}

struct Client {
    is_open: bool,
    cancelled: Arc<AtomicBool>,
    /// What was sent and is not answered, in its order.
    waiting: VecDeque<(usize, Step)>,
    sent: u32,
}

struct World<'k> {
    kind: &'k Kind,
    now: Duration,
    server: Simulated,
    oracle: Oracle,
    clients: Vec<Client>,
    answers: HashMap<usize, Answer>,
    names: usize,
    judged: u64,
    violations: Vec<Violation>,
}

impl<'k> World<'k> {
    fn new(kind: &'k Kind, server: Simulated) -> Self {
        let ids = |context: ContextId| (id(context.worker as usize), IdForm::Integer);
        let client = || Client { is_open: false, cancelled: Arc::default(), waiting: VecDeque::new(), sent: 0 };
        Self {
            kind,
            now: Duration::ZERO,
            server,
            oracle: Oracle::new(rules(kind), u32::try_from(CLIENTS).expect("few"), 1, ids),
            clients: (0..CLIENTS).map(|_| client()).collect(),
            answers: HashMap::new(),
            names: 0,
            judged: 0,
            violations: Vec::new(),
        }
    }

    fn tell(&mut self, client: usize, kind: EventKind) -> Ruling {
        let context = ContextId { worker: u32::try_from(client).expect("few"), context: 0 };
        let at = u64::try_from(self.now.as_nanos()).expect("soon");
        let event = self.oracle.read(Event { at, context, lane: Lane::FIRST, kind });
        let ruling = self.oracle.observe(event);
        self.violations.extend(ruling.violations.iter().cloned());
        ruling
    }

    fn serve(&mut self) {
        let mut answers = Vec::new();
        self.server.advance(self.now, || Duration::ZERO, &mut answers);
        self.answers.extend(answers.into_iter().map(|(name, answer)| (name, answer.into())));
    }

    /// Lets time pass, and the server do what is due meanwhile.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(wake) = self.server.next_wake().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.serve();
        }
        self.now = until;
        self.serve();
    }

    fn happens(&mut self, client: usize, what: Happens) {
        match what {
            S => self.send(client, true, false),
            C => self.send(client, false, false),
            E => self.send(client, false, true),
            B => self.send(client, true, true),
            A => {
                self.pass(EXECUTION);
                self.take_answers(client);
            }
            X => self.cancel(client),
            I => self.pass(IDLE),
        }
    }

    fn send(&mut self, client: usize, start: bool, end: bool) {
        if !self.clients[client].is_open {
            self.clients[client].is_open = true;
            self.clients[client].cancelled = Arc::default();
            self.tell(client, EventKind::Opened(Connection::Own, Transport::GrpcStream));
        }
        let its = &mut self.clients[client];
        // Sums of these tell whose values are in them, and how often.
        let value = 1 << (2 * its.sent + 8 * u32::try_from(client).expect("few"));
        let worker = u32::try_from(client).expect("few");
        let request = RequestId { worker, context: 0, sequence: its.sent, step: 0 };
        its.sent += 1;
        let number: Number = self.kind.number(value);
        let step = Step { request, pattern: Pattern::Valid, start, end, value: number, of: 1, special: None };
        let name = self.names;
        self.names += 1;
        its.waiting.push_back((name, step));
        let cancelled = Arc::clone(&its.cancelled);
        self.tell(client, EventKind::Sent(step));
        let submitted = Submitted {
            name,
            version: None,
            id: &SequenceId::Number(id(client).0.get()),
            start,
            end,
            shape: vec![1, 1],
            data: value.to_le_bytes().into(),
            batch_size: 1,
            timeout: None,
            cancelled,
        };
        if let Some(answer) = self.server.submit(submitted, self.now, Duration::ZERO) {
            self.answers.insert(name, answer.into());
        }
        self.serve();
        // No two events are at once.
        self.now += Duration::from_micros(1);
    }

    fn take_answers(&mut self, client: usize) {
        while let Some(&(name, step)) = self.clients[client].waiting.front() {
            let Some(answer) = self.answers.remove(&name) else { return };
            self.clients[client].waiting.pop_front();
            let ruling = self.tell(client, received(self.kind, client, &step, answer));
            self.judged += u64::from(ruling.settled.is_some_and(|settled| settled.doubt.is_none()));
        }
    }

    fn cancel(&mut self, client: usize) {
        let its = &mut self.clients[client];
        if std::mem::take(&mut its.is_open) {
            its.cancelled.store(true, Relaxed);
            its.waiting.clear();
            self.tell(client, EventKind::Cut(Cut::Cancelled));
            self.server.cancelled(self.now);
            self.serve();
        }
    }

    /// Waits for what is not answered: a sequence without END may have to go idle first.
    fn conclude(&mut self) {
        for _ in 0..2 * CLIENTS * EVENTS {
            (0..CLIENTS).for_each(|client| self.take_answers(client));
            if self.clients.iter().all(|client| client.waiting.is_empty()) {
                return;
            }
            self.pass(IDLE);
        }
        panic!("answers are missing: {:?}", self.clients.iter().map(|client| &client.waiting).collect::<Vec<_>>());
    }
}

fn blueprint(kind: &Kind) -> Blueprint {
    let setup = ServerSetup {
        max_batch_size: SLOTS,
        candidates: Some(SLOTS),
        idle_limit: Duration::from_micros(IDLE_US),
        execution_time: EXECUTION,
        ..ServerSetup::default()
    };
    Blueprint::new(kind.model, setup).expect("a built-in model")
}

/// What worlds came to.
#[derive(Debug, Default)]
struct Seen {
    worlds: u64,
    judged: u64,
    committed: u64,
    /// Worlds in which the fault was committed, and in which something was found.
    with_fault: u64,
    found: u64,
}

/// Goes through each `stride`-th world, whose server commits this fault at each chance. One that is not to commit any must not be accused.
fn go_through(kind: &Kind, stride: u64, fault: Option<Fault>) -> Seen {
    let (blueprint, orders) = (blueprint(kind), orders());
    let planted: Vec<_> = fault.map(Planted::always).into_iter().collect();
    let mut seen = Seen::default();
    let worlds = choices().into_iter().flat_map(|scripts| orders.iter().map(move |order| (scripts, order)));
    for (scripts, order) in worlds.step_by(usize::try_from(stride).expect("it is small")) {
        let mut world = World::new(kind, blueprint.serve(&planted, Seed(0), &ASKED));
        let mut next = [0; CLIENTS];
        for &client in order {
            world.happens(client, SCRIPTS[scripts[client]][next[client]]);
            next[client] += 1;
        }
        world.conclude();
        let committed = fault.map_or(0, |fault| world.server.committed(fault));
        let is_found = !world.violations.is_empty();
        let its_scripts = scripts.map(|script| SCRIPTS[script]);
        assert!(committed > 0 || !is_found, "{its_scripts:?} in the order {order:?}: {:#?}", world.violations);
        seen.worlds += 1;
        seen.judged += world.judged;
        seen.committed += committed;
        seen.with_fault += u64::from(committed > 0);
        seen.found += u64::from(is_found);
    }
    seen
}

// The worlds are always the same. The gate has each 1,009th, and as that is a prime number no order is left out for every choice of scripts.
fn accuses_nobody(kind: &Kind) {
    let stride = rounds(1009, 1);
    assert_eq!((orders().len(), choices().len()), (34_650, 455));
    let seen = go_through(kind, stride, None);
    assert_eq!(seen.worlds, (34_650 * 455_u64).div_ceil(stride), "{seen:?}");
    assert!(seen.judged > seen.worlds, "{}: {seen:?}", kind.model);
}

#[test]
fn in_no_order_is_a_correct_server_accused_with_direct() {
    accuses_nobody(&KINDS[0]);
}

#[test]
fn in_no_order_is_a_correct_server_accused_with_implicit_state() {
    accuses_nobody(&KINDS[1]);
}

#[test]
fn in_no_order_is_a_correct_server_accused_with_oldest() {
    accuses_nobody(&KINDS[2]);
}

#[test]
fn faults_are_found_in_some_order() {
    let stride = rounds(10_007, 101);
    for fault in [
        Fault::OffByOne,
        Fault::KeepState,
        Fault::LoseEnd,
        Fault::DoubleRelease,
        Fault::AcceptNoStart,
        Fault::RejectStart,
    ] {
        let seen = go_through(&KINDS[0], stride, Some(fault));
        assert!(seen.found > 0, "{fault}: {seen:?}");
    }
}
