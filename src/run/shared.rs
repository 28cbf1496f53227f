//! What the threads of a run share.

use std::{
    cell::RefCell,
    iter,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    Origin, PhaseSpan, Progress, Setup,
    absences::Absences,
    alarm::Alarms,
    arrivals::{Arrivals, Arrived},
    disturbance::Disturbances,
    gate::Gate,
    phases::Phases,
    progress::{Others, ThreadProgress, of_all},
    resources::ran_short,
    threads::thread_count,
};
use crate::{
    preflight::{PATIENCE_MAX, Preflight},
    probe::site::{Clock, Liveness, Site},
    recorder::{Glances, Recorder, Seconds, Snapshots, trace},
};
use oracle::Ruling;
use wire::{
    proxy::Path,
    transport::{Access, CallError, Dialer, Link},
};
use workload::{
    conversation::Lane,
    endpoint::Protocol,
    event::{ContextId, Event, EventKind, Nanos},
    scenario::Population,
};

pub(super) struct Shared {
    pub(super) setup: Setup,
    pub(super) preflight: Preflight,
    pub(super) origin: Origin,
    /// How many sequences certainly have a slot, as the collector says.
    pub(super) slots_taken: Arc<AtomicU64>,
    pub(super) access: Access,
    /// Whether a network takes connections away.
    pub(super) network_takes: bool,
    /// Starts when all connections stand.
    pub(super) clock: Clock,
    pub(super) gate: Gate,
    pub(super) liveness: Liveness,
    pub(super) phases: Phases,
    /// By population: the iterations that begin at a rate. None of those that are given do.
    pub(super) arrivals: Vec<Option<Arrivals>>,
    pub(super) disturbances: Disturbances,
    /// How often another model was loaded so far.
    pub(super) loads: Arc<AtomicU64>,
    pub(super) absences: Absences,
    pub(super) seconds: Seconds,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) glances: Arc<Glances>,
    pub(super) threads: Vec<ThreadProgress>,
    /// How far other ranks are, where this one leads them.
    pub(super) others: Others,
    /// The first connection of each worker, once it is needed.
    lent: Vec<OnceLock<Link>>,
}

impl Shared {
    /// `executed` is how many requests the model had executed before, where it tells.
    pub(super) fn new(
        setup: Setup,
        (preflight, origin): (Preflight, Origin),
        access: Access,
        executed: Option<u64>,
    ) -> Self {
        let scenario = &setup.scenario;
        let threads = thread_count(&setup);
        let others = setup.lead.as_ref().map_or(0, |lead| lead.members.all().len());
        Self {
            network_takes: scenario.has_network_that_takes(),
            phases: Phases::new(scenario),
            arrivals: if setup.given.is_some() { Vec::new() } else { Arrivals::of(&setup) },
            lent: (0..scenario.workers()).map(|_| OnceLock::new()).collect(),
            gate: Gate::new(threads, setup.share.is_one_of_several()),
            others: Others::default(),
            setup,
            preflight,
            origin,
            access,
            slots_taken: Arc::default(),
            clock: Clock::default(),
            liveness: Liveness::default(),
            disturbances: Disturbances::default(),
            loads: Arc::default(),
            absences: Absences::new(executed),
            seconds: Seconds::default(),
            snapshots: Arc::new(Snapshots::new(threads + others)),
            glances: Arc::new(Glances::new(threads + others)),
            threads: (0..threads).map(|_| ThreadProgress::default()).collect(),
        }
    }

    /// The server, with the model as this preflight found it.
    pub(super) fn site<'r>(&'r self, preflight: &'r Preflight) -> Site<'r> {
        let Self { setup, access, clock, liveness, .. } = self;
        Site { scenario: &setup.scenario, access, preflight, clock, liveness }
    }

    /// How a worker makes the connections of one of its contexts: endpoints are taken in turn by both.
    pub(super) fn dialer(&self, worker: u32, context: u32) -> Dialer {
        let Setup { scenario, seed, program, .. } = &self.setup;
        let network = &scenario.population_of(worker).network;
        // Longer than a sequence lives without a request, so that the server meets a client that is silent, and not gone.
        let patience = (self.preflight.manner().idle_limit * 2).min(PATIENCE_MAX);
        let path = (!network.is_clear()).then(|| Arc::new(Path::new(network.clone(), Some(patience), *seed, worker)));
        let place = worker as usize + context as usize;
        let limit = scenario.limits.connect_ms.duration();
        let dialer = Dialer::to(&scenario.target.endpoint, place, &self.access, limit);
        Dialer { path, program: program.clone(), ..dialer }
    }

    /// The first connection of a worker, which its neighbour uses, too.
    pub(super) fn connection_of(&self, worker: u32) -> Result<&Link, CallError> {
        let its = &self.lent[worker as usize];
        if its.get().is_none() {
            // Where another thread was quicker, that one counts.
            let _ = its.set(self.dialer(worker, 0).link()?);
        }
        Ok(its.get().expect("it is there now"))
    }

    /// The connection of a context's neighbour, which is another worker. With a rate that one may not have been needed so far. Where endpoints
    /// are different servers it leads to the context's own, so there may be none.
    pub(super) fn neighbour(&self, worker: u32, own: &Dialer) -> Option<&Link> {
        let Setup { share, scenario, .. } = &self.setup;
        let at = |worker: u32| Protocol::ALL.map(|its| scenario.target.endpoint.of(its, worker as usize));
        let own = [own.grpc.as_ref(), own.http.as_ref()];
        let is_its = |worker: &u32| scenario.target.servers().is_empty() || at(*worker) == own;
        let others = iter::successors(Some(worker), |worker| Some(share.next_to(*worker, scenario.workers()))).skip(1);
        self.connection_of(others.take(scenario.workers() as usize).find(is_its)?).ok()
    }

    /// After how long a missing response is lost, where no more iterations were under way at a time than so far.
    pub(super) fn lost_after(&self) -> Duration {
        let scenario = &self.setup.scenario;
        let busy = |(population, arrivals): (&Population, &Option<Arrivals>)| {
            let most = arrivals.as_ref()?.most_at_a_time();
            // What others have under way is not known here.
            Some(if self.setup.share.is_one_of_several() { population.load.workers.get() } else { most })
        };
        let busy: Vec<_> = scenario.populations.iter().zip(&self.arrivals).map(busy).collect();
        self.preflight.limits.lost_after_of(scenario, &busy)
    }

    /// How much is left of the time that something may take for which the server is waited since then. While it is disturbed
    /// that is all, and begins anew when it serves again.
    pub(super) fn time_left(&self, since: Nanos, limit: Duration) -> Duration {
        self.disturbances.due_since(since).map_or(limit, |since| {
            let waited = Duration::from_nanos(self.clock.now().saturating_sub(since));
            limit.saturating_sub(waited)
        })
    }

    /// Waits until every thread has its connections; without them the run does not start.
    pub(super) async fn ready_to_start(&self, connected: bool) {
        if !connected {
            self.gate.stop();
        }
        self.gate.pass().await;
        self.clock.start();
        self.gate.open();
    }

    /// Whether a phase of now has the server unload and load another model.
    pub(super) fn others_load(&self) -> bool {
        let current = self.phases.current().and_then(|phase| self.setup.scenario.phases.get(phase));
        current.is_some_and(|phase| phase.other_model.is_some())
    }

    pub(super) fn stop_at_violation(&self) {
        if self.setup.fail_fast {
            self.gate.stop();
        }
    }

    /// Whether a violation ended the run before it was done.
    pub(super) fn ended_by_violation(&self) -> bool {
        self.setup.fail_fast && self.progress().violations > 0
    }

    pub(super) fn progress(&self) -> Progress {
        let mut progress = self.own_progress();
        self.others.add_to(&mut progress);
        progress
    }

    /// The same of this process alone.
    pub(super) fn own_progress(&self) -> Progress {
        Progress {
            phases_begun: self.phases.count(),
            is_exchanging: self.disturbances.is_under_way(),
            ..of_all(&self.threads, self.clock.elapsed(), self.slots_taken.load(Relaxed))
        }
    }

    /// What became of iterations that begin at a rate, where the phases were these and the load ended at this time.
    pub(super) fn arrived(&self, phases: &[PhaseSpan], ended: Duration) -> Vec<Arrived> {
        let its = self.setup.scenario.populations.iter().zip(&self.arrivals);
        let with_a_rate = its.filter_map(|(population, arrivals)| Some((population, arrivals.as_ref()?)));
        let arrived = |(population, arrivals): (&Population, &Arrivals)| {
            let phase = phases.iter().find(|phase| Some(&phase.name) == population.phase.as_ref());
            let span = |phase: &PhaseSpan| Duration::from_micros(phase.ended_us.saturating_sub(phase.began_us));
            // A phase that was not begun has begun nothing.
            let lasted = if population.phase.is_none() { ended } else { phase.map(span).unwrap_or_default() };
            arrivals.arrived(population, lasted)
        };
        with_a_rate.map(arrived).collect()
    }

    /// What is said where this machine could make no more connections.
    pub(super) fn ran_short(&self) -> Option<String> {
        self.access.shortage().map(ran_short)
    }

    /// Whether the server still answers after a stream broke for `reason`; if not, the run is over.
    pub(super) async fn server_is_there(&self, reason: &str) -> bool {
        let is_there = self.site(&self.preflight).server_is_there(reason).await;
        if !is_there {
            self.gate.stop();
        }
        is_there
    }
}

/// Where a worker's events go, and what it shares with the rest of the run.
pub(super) struct Out {
    pub(super) shared: Arc<Shared>,
    pub(super) recorder: Rc<RefCell<Recorder>>,
    pub(super) thread: usize,
    pub(super) alarms: Rc<Alarms>,
}

impl Out {
    /// Waits until this time; false where the run is stopping before that.
    pub(super) async fn reaches(&self, at: Nanos) -> bool {
        tokio::select! {
            biased;
            () = self.alarms.at(at, &self.shared.clock) => true,
            () = self.shared.gate.stopped() => false,
        }
    }

    /// Tells what happened just now.
    pub(super) fn tell(&self, context: ContextId, lane: Lane, kind: EventKind) -> Ruling {
        self.tell_at(self.shared.clock.now(), context, lane, kind)
    }

    pub(super) fn tell_at(&self, at: Nanos, context: ContextId, lane: Lane, kind: EventKind) -> Ruling {
        let progress = &self.shared.threads[self.thread];
        if let EventKind::Sent(step) = &kind {
            progress.sent(step.is_first());
            trace::sent(context, step);
        }
        let ruling = self.recorder.borrow_mut().record(Event { at, context, lane, kind });
        if let Some(settled) = &ruling.settled {
            trace::settled(context, at, settled);
        }
        progress.noticed(at, &ruling);
        if !ruling.violations.is_empty() {
            self.shared.stop_at_violation();
        }
        ruling
    }
}
