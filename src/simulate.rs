//! Runs in virtual time: plans, clients and oracle as in a run, and the scheduler and the models of the reference server, without
//! sockets and threads. The same seed gives the same run to the byte.

mod arrivals;
mod client;
mod phases;
mod silence;
mod slots;
mod world;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    mem,
    num::NonZeroU64,
    pin::Pin,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::{Context, Waker},
    time::Duration,
};

pub(crate) use self::world::{flawed, on_the_wire};
use self::{
    arrivals::dispatch,
    client::Client,
    phases::conduct,
    silence::listen,
    world::{Concerns, Concluded, World},
};
use crate::{
    check::{Checked, check_entries},
    frame::Header,
    preflight::{Hints, Preflight},
    probe::{
        Accounting, PendingRequests, SlotCheck,
        slots::{Aftermath, Terms, free_ids},
    },
    recorder::Tally,
    run::{ANSWERS_NOBODY, Arrived, End, Origin, Setup, iterations::Iterations},
    verdict::claims,
};
use oracle::{Violation, history::Entry};
use reference::{
    Models, Options, Planted, Server, ServerSetup, models_without_formula,
    simulated::{Blueprint, Simulated},
    transitions::Pair,
};
use wire::{
    simulation::Simulation,
    transport::{Access, Client as Asking, Configuration},
};
use workload::{
    claim::Claims,
    event::Nanos,
    scenario::{Scenario, ServerAction},
    seed::Seed,
    sequence::CorrelationId,
};

const DAY_S: u64 = 24 * 60 * 60;
/// The longest that a response may take: thousands of such waits are below the largest time.
const WAIT_MAX: Duration = Duration::from_secs(30 * DAY_S);

/// What is simulated: a scenario, sent to the reference server.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) preflight: Preflight,
    server: Blueprint,
    /// The server as each action of the scenario loads its model.
    loads: Vec<(ServerAction, Blueprint)>,
    faults: Vec<Planted>,
    /// What decides when faults happen, where that is not the seed of the run.
    fault_seed: Option<Seed>,
    /// Whether the server's transitions are wanted.
    watches: bool,
}

/// What became of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// How often the server committed it.
    pub times: u64,
    /// How often it could have.
    pub chances: u64,
}

/// What one seed came to.
#[derive(Clone, Debug)]
pub struct Held {
    /// What was counted.
    pub tally: Tally,
    /// Requests that were sent.
    pub requests: u64,
    /// Iterations that were finished.
    pub iterations: u64,
    /// How long it took in its own time.
    pub took: Duration,
    /// What was found when the slots were counted after it.
    pub slots: SlotCheck,
    /// Each planted fault, in the order of the setup.
    pub committed: Vec<Committed>,
    /// The transitions of the server that followed each other in it, where they were wanted.
    pub pairs: BTreeSet<Pair>,
    /// What became of iterations that begin at a rate, by population.
    pub(crate) arrived: Vec<Arrived>,
    /// That the server answered nobody any more, if it did not.
    pub(crate) hang: Option<Violation>,
    /// All that happened, where that was to be kept.
    pub(crate) entries: Vec<Entry>,
    /// How much of that there was no room for.
    left_out: u64,
}

impl Plan {
    /// What is to be simulated.
    ///
    /// # Errors
    /// Why it cannot be, in one line.
    pub fn new(mut scenario: Scenario, setup: ServerSetup) -> Result<Self, String> {
        Self::check_faults(&setup.fault)?;
        let server = Blueprint::new(&scenario.target.model, setup.clone())?;
        if models_without_formula().contains(&&*scenario.target.model) {
            return Err(format!(
                "what model '{}' answers follows from no formula, and a simulation has no golden file: hold it as a run \
                 (--embedded --golden auto)",
                scenario.target.model
            ));
        }
        for phase in &scenario.phases {
            let other = phase.other_model.as_ref().map(|other| Blueprint::new(other, setup.clone()));
            if let Some(Err(why)) = other {
                return Err(format!("phase '{}' is not possible: {why}", phase.name));
            }
        }
        let missing = scenario.versions().into_iter().flatten().find(|version| !server.has_version(version.signed()));
        if let Some(version) = missing {
            return Err(format!(
                "requests name version {version} of the model, which the simulated server does not have: --versions N gives it \
                 versions 1 to N"
            ));
        }
        let actions = scenario.phases.iter().filter_map(|phase| phase.server).filter(|action| action.loads());
        let configuration = Configuration::of(server.configuration().clone());
        let loaded = |action| Ok((action, server.configured(&configuration.as_loaded_by(action).into_inner())?));
        let loads = actions.map(loaded).collect::<Result<_, String>>()?;
        let faults = setup.fault.clone();
        // What is known of the model is what a run would find out, from a server that is asked over a simulated network.
        let simulation = Simulation::begin();
        let options = Options { faults: Vec::new(), ..setup.into() };
        // Each model takes time to start, and nobody asks for the others.
        let alone = Models::built_in_alone(&options.models, &scenario.target.model)?;
        let asked = Server::start(Options { repository: Some(alone), ..options })?;
        scenario.target.embed(asked.address, asked.http);
        let preflight = simulation.run(async {
            let access = Access::new(&scenario.target)?;
            let client = Asking::of(&scenario.target, &access, scenario.limits.connect_ms.duration())
                .map_err(|error| error.to_string())?;
            Preflight::ask(&client, &scenario, Hints::default(), None).await
        })?;
        if let Some(why) = preflight.cannot_be_sent(&scenario) {
            return Err(why);
        }
        if preflight.limits.lost_after > WAIT_MAX {
            return Err(format!(
                "the scenario cannot be simulated, because a response may lawfully take {} days, more than {}: give smaller limits or \
                 times",
                preflight.limits.lost_after.as_secs() / DAY_S,
                WAIT_MAX.as_secs() / DAY_S
            ));
        }
        Ok(Self { scenario, preflight, server, loads, faults, fault_seed: None, watches: false })
    }

    /// Rejects faults that a simulated server does not commit.
    ///
    /// # Errors
    /// Which fault that is, and what to do, in one line.
    pub fn check_faults(faults: &[Planted]) -> Result<(), String> {
        let Some(planted) = faults.iter().find(|planted| !Simulated::commits(planted.fault)) else { return Ok(()) };
        Err(format!(
            "the fault '{}' is not simulated: plant it in a run (--embedded), or choose one of the groups state, control and \
             scheduling (sequence-stress faults)",
            planted.fault
        ))
    }

    /// The same with a seed of its own for the faults.
    #[must_use]
    pub fn with_fault_seed(self, fault_seed: Option<Seed>) -> Self {
        Self { fault_seed, ..self }
    }

    /// The same, where each run says which transitions its server went through.
    #[must_use]
    pub fn watched(self) -> Self {
        Self { watches: true, ..self }
    }

    /// The claims that a run of the scenario is to reach, and from how many iterations on.
    pub(crate) fn claims(&self) -> (Claims, u64) {
        (claims::in_force(&self.scenario, &self.preflight), self.scenario.claims_from)
    }

    /// The faults that its server commits.
    pub(crate) fn faults(&self) -> &[Planted] {
        &self.faults
    }

    /// Simulates the run of one seed, and judges and explains all that happened as `check` does with a history. The names are the scenario's,
    /// and the command line that simulates the same again.
    pub(crate) fn explain(
        &self,
        seed: Seed,
        (name, replay): (&str, &str),
        server: ServerSetup,
    ) -> Result<(Checked, Held), String> {
        let held = self.hold_unless(&AtomicBool::new(false), seed, true);
        let mut held = held.expect("nobody stops it");
        if held.left_out > 0 {
            return Err(format!(
                "seed {seed} of {name} has a violation, and {} events, too many to be explained: give fewer iterations (-i) or workers (-t)",
                held.entries.len() as u64 + held.left_out
            ));
        }
        let setup = Setup { embedded: true, ..Setup::new(self.scenario.clone(), seed) };
        let header = Header::new((name, replay, Some(server)), &setup, &self.preflight, &Origin::here());
        let mut checked = check_entries(header, mem::take(&mut held.entries))?;
        let unknown = || "the run was simulated".to_owned();
        let result = &mut checked.result;
        (result.end, result.elapsed, result.iterations) = (End::Known, held.took, held.iterations);
        // The entries do not tell when another model was loaded.
        result.tally.reached = held.tally.reached;
        result.arrived.clone_from(&held.arrived);
        result.accounting = Accounting::NotCheckable { why: unknown() };
        result.pending = PendingRequests::NotChecked { why: unknown() };
        result.slots = held.slots.clone();
        result.revise_causes(&self.scenario);
        if let Some(hang) = &held.hang {
            result.add_hang(hang.clone(), &mut ());
        }
        if let Some(violation) = held.slots.violation(nanos(held.took)) {
            result.add(violation, &mut ());
        }
        Ok((checked, held))
    }

    /// The correlation IDs with which the slots are counted after a run.
    fn ids_of_count(&self) -> impl Iterator<Item = CorrelationId> {
        let slots = self.preflight.model.slots.unwrap_or_default();
        let first = free_ids(&self.scenario, slots, 0).map_or(u64::MAX, NonZeroU64::get);
        (first..).take(slots as usize + 1).filter_map(|id| NonZeroU64::new(id).map(CorrelationId))
    }

    /// Simulates the run of one seed.
    pub fn hold(&self, seed: Seed) -> Held {
        self.hold_unless(&AtomicBool::new(false), seed, false).expect("nobody stops it")
    }

    /// The same, where all that happens may be kept, unless somebody stops it; then none.
    pub(crate) fn hold_unless(&self, stopped: &AtomicBool, seed: Seed, keeps: bool) -> Option<Held> {
        let world = Rc::new(RefCell::new(World::new(self, seed, keeps)));
        let manner = self.preflight.manner();
        let client = |worker| -> Doing<'_> {
            let iterations = Iterations::drawn(&self.scenario, seed, None, manner, worker);
            Box::pin(Client::new(Rc::clone(&world), worker, iterations).run())
        };
        let clients = (0..self.scenario.workers()).map(client).map(Some);
        let conductor =
            (!self.scenario.phases.is_empty()).then(|| -> Doing<'_> { Box::pin(conduct(Rc::clone(&world))) });
        world.borrow_mut().wake_all();
        let dispatchers = (0..self.scenario.populations.len()).map(|population| {
            let is_paced = world.borrow().crews[population].is_some();
            is_paced.then(|| -> Doing<'_> { Box::pin(dispatch(Rc::clone(&world), population)) })
        });
        let listener: Doing<'_> = Box::pin(listen(Rc::clone(&world)));
        run(clients.chain([conductor]).chain(dispatchers), Some(listener), &world, stopped);
        let hang = world.borrow_mut().hang.take();
        // What the count of the slots has the server do is none of the run's.
        let (requests, iterations, took, pairs, arrived) = {
            let world = world.borrow();
            let took = Duration::from_nanos(world.now);
            (world.requests_sent, world.iterations, took, world.pairs(), world.arrived().collect())
        };
        world.borrow_mut().put_back();
        let counts = self.scenario.versions().into_iter().map(|version| {
            world.borrow_mut().counted = version;
            self.count_slots(&world, took, stopped)
        });
        let slots = if hang.is_some() { None } else { counts.reduce(SlotCheck::and) };
        let slots = slots.unwrap_or_else(|| SlotCheck::not_checkable(ANSWERS_NOBODY));
        if stopped.load(Relaxed) {
            return None;
        }
        let world = Rc::into_inner(world).expect("the clients are gone").into_inner();
        let Concluded { mut tally, entries, left_out, committed } = world.conclude();
        for violation in hang.iter().cloned().chain(slots.violation(nanos(took))) {
            tally.violation(violation.kind);
        }
        Some(Held { tally, requests, iterations, took, slots, committed, pairs, arrived, hang, entries, left_out })
    }

    fn count_slots(&self, world: &Rc<RefCell<World<'_>>>, took: Duration, stopped: &AtomicBool) -> SlotCheck {
        let terms = {
            let world = world.borrow();
            let after = Aftermath { tally: world.tally(), elapsed: took, is_given: false };
            let terms = Terms::new(&self.scenario, &self.preflight, after);
            terms.map(|terms| (terms, after.gone_idle(terms.idle_limit)))
        };
        let (terms, gone_idle) = match terms {
            Ok(terms) => terms,
            Err(why) => return SlotCheck::not_checkable(why),
        };
        let found = Rc::new(Cell::new(None));
        let (counting, its) = (Rc::clone(world), Rc::clone(&found));
        let count = async move { its.set(Some(slots::count(counting, terms, gone_idle).await)) };
        let workers = (0..self.scenario.workers()).map(|_| None);
        world.borrow_mut().wake_helper();
        run(workers.chain([Some(Box::pin(count) as Doing<'_>)]), None, world, stopped);
        found.take().unwrap_or_else(|| SlotCheck::not_checkable("the count did not end"))
    }
}

/// What a client does.
type Doing<'p> = Pin<Box<dyn Future<Output = ()> + 'p>>;

/// Lets all that clients do happen, until each is done, somebody stops it, or who listens hears nothing any more.
fn run<'p>(
    clients: impl Iterator<Item = Option<Doing<'p>>>,
    listener: Option<Doing<'p>>,
    world: &RefCell<World<'p>>,
    stopped: &AtomicBool,
) {
    let mut clients: Vec<_> = clients.collect();
    let mut left = clients.iter().flatten().count();
    clients.extend([listener]);
    let mut context = Context::from_waker(Waker::noop());
    while left > 0 && !stopped.load(Relaxed) && world.borrow().hang.is_none() {
        let next = world.borrow_mut().next().expect("a client that waits has a time until which it waits");
        let Concerns::Worker(worker) = next else { continue };
        // The worker of the count has no client before.
        let Some(its) = clients.get_mut(worker as usize) else { continue };
        if its.as_mut().is_some_and(|client| client.as_mut().poll(&mut context).is_ready()) {
            *its = None;
            left -= 1;
        }
    }
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
