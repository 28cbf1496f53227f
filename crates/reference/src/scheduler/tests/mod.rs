//! The scheduler in virtual time.

mod direct;
mod faults;
mod idle;
mod oldest;
mod sequences;
mod waiting;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    super::fault::{Faults, Planted},
    Batch, Event, HoldUntil, Moment, Rejection, Request, Scheduler, SequenceId, Settings, Strategy,
};
use workload::seed::Seed;

/// How long an execution takes, and how long a sequence may be idle.
const EXECUTION_MS: u64 = 10;
const IDLE_MS: u64 = 1000;

fn direct(instances: u32, slots: u32) -> Settings {
    Settings {
        instances,
        batch: slots,
        idle_limit: ms(IDLE_MS),
        strategy: Strategy::Direct { minimum_slot_utilization: 0.0, queue_delay: Duration::ZERO },
        ragged: false,
        hold_until: HoldUntil::default(),
    }
}

fn oldest(instances: u32, candidates: u32, batch: u32) -> Settings {
    let strategy = Strategy::Oldest { candidates, preferred: Vec::new(), queue_delay: Duration::ZERO };
    Settings { batch, strategy, ..direct(instances, batch) }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A scheduler with instances that execute, and a clock that goes only when told to.
struct World {
    scheduler: Scheduler<String>,
    now: Moment,
    execution: Duration,
    /// Of each instance, when the batch under way is done.
    busy: HashMap<u32, VecDeque<Moment>>,
    cancels: HashMap<String, Arc<AtomicBool>>,
    log: Vec<String>,
}

impl World {
    fn new(settings: Settings) -> Self {
        Self::with_faults(settings, &[])
    }

    fn with_faults(settings: Settings, planted: &[Planted]) -> Self {
        Self {
            scheduler: Scheduler::new(settings, Arc::new(Faults::new(planted, Seed(0)))),
            now: Moment::ZERO,
            execution: ms(EXECUTION_MS),
            busy: HashMap::new(),
            cancels: HashMap::new(),
            log: Vec::new(),
        }
    }

    /// Sends a request now. Its name says what it is: the correlation ID, `.` and anything, `S` for START, `E` for END.
    fn offer(&mut self, name: &str, change: impl FnOnce(&mut Request<String>)) -> Result<(), Rejection> {
        let mut request = request(name);
        self.cancels.insert(name.to_owned(), Arc::clone(&request.cancelled));
        change(&mut request);
        self.scheduler.enqueue(request, self.now)?;
        self.advance();
        Ok(())
    }

    /// Sends requests now, which are accepted.
    fn send(&mut self, names: &str) {
        for name in names.split_whitespace() {
            assert_eq!(self.offer(name, |_| {}), Ok(()), "{name} at {:?}", self.now);
        }
    }

    fn rejection(&mut self, name: &str) -> Option<Rejection> {
        self.offer(name, |_| {}).err()
    }

    fn cancel(&mut self, names: &str) {
        for name in names.split_whitespace() {
            self.cancels[name].store(true, Relaxed);
        }
        self.scheduler.cancelled();
        self.advance();
    }

    fn advance(&mut self) {
        let mut events = Vec::new();
        self.scheduler.advance(self.now, &mut events);
        self.take(events);
        let wake = self.scheduler.next_wake();
        assert!(wake.is_none_or(|wake| wake > self.now), "at {:?} it wants to be woken at {wake:?}", self.now);
    }

    fn take(&mut self, events: Vec<Event<String>>) {
        for event in events {
            match event {
                Event::Reject(why, request) => self.note(&format!("{} {why:?}", request.payload)),
                Event::Execute { instance, batch } => self.execute(instance, &batch),
            }
        }
    }

    fn execute(&mut self, instance: u32, batch: &Batch<String>) {
        let names: Vec<_> =
            batch.iter().map(|row| row.request.as_ref().map_or("-", |request| request.payload.as_str())).collect();
        self.note(&format!("{instance}[{}]", names.join(" ")));
        assert!(batch.iter().any(|row| row.request.is_some()), "a batch is not of padding alone");
        let done = self.now + self.execution;
        self.busy.entry(instance).or_default().push_back(done);
    }

    fn note(&mut self, what: &str) {
        self.log.push(format!("{} {what}", self.now.as_millis()));
    }

    /// Lets time pass until this many milliseconds since the beginning.
    fn run_to(&mut self, until_ms: u64) {
        let until = ms(until_ms);
        loop {
            let done = self.busy.iter().filter_map(|(i, batches)| batches.front().map(|at| (*at, *i))).min();
            let wake = self.scheduler.next_wake();
            let next = done.map(|(at, _)| at).into_iter().chain(wake).min().filter(|at| *at <= until);
            let Some(next) = next else { break };
            self.now = next;
            if let Some((_, instance)) = done.filter(|(at, _)| *at == next) {
                self.busy.get_mut(&instance).and_then(VecDeque::pop_front).expect("a batch");
                self.scheduler.finished(instance);
            }
            self.advance();
        }
        self.now = until;
    }

    /// What happened since it was asked last.
    #[track_caller]
    fn saw(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.log), expected);
    }
}

/// A request as its name says, of one element.
fn request(name: &str) -> Request<String> {
    let flags = name.trim_start_matches(|c: char| !"SE".contains(c));
    let id = name.split(['.', 'S', 'E']).next().expect("an ID");
    let id = id.parse().map_or_else(|_| SequenceId::Text(id.into()), SequenceId::Number);
    Request {
        id,
        start: flags.contains('S'),
        end: flags.contains('E'),
        goes_on: false,
        batch_size: 1,
        timeout: None,
        cancelled: Arc::default(),
        shape: [1, 1].into(),
        arrived: Moment::ZERO,
        payload: name.to_owned(),
    }
}

fn within(timeout_ms: u64) -> impl FnOnce(&mut Request<String>) {
    move |request| request.timeout = Some(ms(timeout_ms))
}

fn shaped(size: i64) -> impl FnOnce(&mut Request<String>) {
    move |request| request.shape = [1, size].into()
}
