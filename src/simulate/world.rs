//! What the clients of a simulation share: its time, the network, the server, and who watches.

mod answers;
mod disturbances;
mod network;
mod streams;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use slab::Slab;

pub(super) use self::streams::Message;
use self::{
    disturbances::Disturbances,
    network::Connections,
    streams::{Request, Stream},
};
use super::{Committed, Plan, arrivals::Crew, nanos, phases::Phases};
use crate::{
    recorder::{Recorder, Seconds, Tally},
    run::Arrived,
};
use oracle::{Occupancy, Ruling, Violation, ViolationKind, history::Entry};
use reference::{
    simulated::{Answer, SequenceId, Simulated, Submitted},
    transitions::Pair,
};
use wire::{proto::ModelInferRequest, transport::RequestTemplate};
use workload::{
    conversation::Lane,
    event::{ContextId, Event, EventKind, Nanos},
    model::Model,
    plan::correlation_id,
    scenario::Scenario,
    seed::Seed,
    sequence::{CorrelationId, IdForm, RequestId, Special, Step, WireId},
    version::ModelVersion,
};

/// The most events of a run that are kept, to be explained.
const KEPT_MAX: usize = 1_000_000;
/// After so many events what the recorder left is dropped.
const DROP_SECONDS_EVERY: u64 = 1 << 16;
/// By how much an execution may take longer than the model says, in ns.
const LONGER: Range<Nanos> = 0..200_000;

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
    /// A faulty network cuts a connection.
    Cut(usize),
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
    connections: Connections,
    requests: Slab<Request>,
    /// When each worker wakes, at the latest.
    wakes: Vec<Nanos>,
    pub(super) phases: Phases,
    pub(super) crews: Vec<Option<Crew>>,
    disturbances: Disturbances,
    /// The version whose slots are counted.
    pub(super) counted: Option<ModelVersion>,
    /// That the server answers nobody any more, if it does not.
    pub(super) hang: Option<Violation>,
    /// How often another model was loaded.
    loads: Arc<AtomicU64>,
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
    /// Each planted fault.
    pub(super) committed: Vec<Committed>,
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
        let loads = Arc::default();
        let mut world = Self {
            plan,
            now: 0,
            queue: BinaryHeap::new(),
            scheduled: 0,
            random: seed.of_simulation(),
            server: server.serve(faults, plan.fault_seed.unwrap_or(seed), &preflight.model.outputs()),
            server_wakes: Nanos::MAX,
            answers: Vec::new(),
            streams: Slab::new(),
            connections: Connections::default(),
            requests: Slab::new(),
            wakes: vec![Nanos::MAX; workers as usize + 2 + scenario.populations.len()],
            phases: Phases::new(scenario),
            crews: Crew::of(scenario, seed),
            disturbances: Disturbances::default(),
            counted: None,
            hang: None,
            recorder: recorder.beside(Arc::clone(&loads)),
            loads,
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
        if plan.watches {
            world.server.watch();
        }
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
            // What is not the next of its kind was overtaken by an earlier one, behind which it came again if it was needed.
            What::Worker(worker) => is_next(&mut self.wakes[worker as usize], at).then_some(worker),
            What::Server => {
                if is_next(&mut self.server_wakes, at) {
                    self.serve();
                }
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
            What::Cut(connection) => {
                self.cut_in_time(connection);
                None
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

    /// Has a worker look what there is to do, at this time or before.
    pub(super) fn wake(&mut self, worker: u32, at: Nanos) {
        if at < self.wakes[worker as usize] {
            self.wakes[worker as usize] = at;
            self.schedule(at, What::Worker(worker));
        }
    }

    /// Has the helper look what there is to do.
    pub(super) fn wake_helper(&mut self) {
        self.wake(self.helper(), self.now);
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

    /// The number behind those of all workers: of who conducts the phases, and then counts the slots.
    pub(super) fn helper(&self) -> u32 {
        self.plan.scenario.workers()
    }

    /// The number of who begins the iterations of a population, behind that of the helper.
    pub(super) fn dispatcher(&self, population: usize) -> u32 {
        self.helper() + 1 + u32::try_from(population).expect("populations are few")
    }

    /// The number of who listens whether the server answers, behind all others.
    pub(super) fn listener(&self) -> u32 {
        self.dispatcher(self.plan.scenario.populations.len())
    }

    /// The version that a worker's requests name; those of the helper name the one whose slots are counted.
    fn version(&self, worker: u32) -> Option<i64> {
        let scenario = &self.plan.scenario;
        let is_helper = worker == self.helper();
        let version = if is_helper { self.counted } else { scenario.version_of(worker) };
        version.map(ModelVersion::signed)
    }

    fn submit(&mut self, name: usize, step: &Step, id: usize, cancelled: Arc<AtomicBool>) -> Option<Answer> {
        let model = &self.plan.preflight.model;
        let version = self.version(step.request.worker);
        let (_, id) = &self.ids[id];
        let now = Duration::from_nanos(self.now);
        if step.flaw().is_some() {
            return self.server.submit_message(name, flawed(&self.plan.scenario, model, step), cancelled, now);
        }
        let mut data = Vec::with_capacity(usize::from(step.value.elements().get()) * size_of::<u64>());
        model.shape.spread(step.value).for_each(|part| part.put(&mut data));
        let submitted = Submitted {
            name,
            version,
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

    /// After how long a missing response is lost, where no more iterations were under way at a time than so far.
    pub(super) fn lost_after(&self) -> Duration {
        let busy: Vec<_> = self.crews.iter().map(|crew| crew.as_ref().map(Crew::most_at_a_time)).collect();
        self.plan.preflight.limits.lost_after_of(&self.plan.scenario, &busy)
    }

    /// What became of iterations that begin at a rate.
    pub(super) fn arrived(&self) -> impl Iterator<Item = Arrived> {
        let crews = self.plan.scenario.populations.iter().zip(&self.crews);
        crews.filter_map(|(population, crew)| Some(crew.as_ref()?.arrived(population)))
    }

    /// What was counted so far.
    pub(super) fn tally(&self) -> &Tally {
        self.recorder.tally()
    }

    /// The transitions of the server that followed each other so far, where they are wanted.
    pub(super) fn pairs(&self) -> BTreeSet<Pair> {
        self.server.pairs()
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
        let faults = self.plan.faults.iter().map(|planted| Committed {
            times: self.server.committed(planted.fault),
            chances: self.server.chances(planted.fault),
        });
        Concluded {
            tally,
            entries: self.kept.unwrap_or_default(),
            left_out: self.left_out,
            committed: faults.collect(),
        }
    }
}

/// Whether somebody was to wake at this time; now nobody is.
fn is_next(wakes: &mut Nanos, at: Nanos) -> bool {
    let is_next = *wakes == at;
    if is_next {
        *wakes = Nanos::MAX;
    }
    is_next
}

/// A step with a flaw as the server receives it.
pub(crate) fn flawed(scenario: &Scenario, model: &Model, step: &Step) -> ModelInferRequest {
    let RequestId { worker, context, .. } = step.request;
    let id = correlation_id(scenario, worker, context).on_the_wire(scenario.id_form(worker));
    RequestTemplate::of(&scenario.model_of(worker, model), id).flawed(step, &step.request.to_string())
}

/// A correlation ID as the server receives it.
pub(crate) fn on_the_wire(id: CorrelationId, form: IdForm) -> SequenceId {
    match id.on_the_wire(form) {
        WireId::Number(number) => SequenceId::Number(number.cast_unsigned()),
        WireId::Text(text) => SequenceId::Text(text.into()),
    }
}
