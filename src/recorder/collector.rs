//! Takes in what all threads see, on a thread of its own: it has violations explained, and writes the history.

use std::{
    collections::BTreeMap,
    fmt,
    sync::mpsc::RecvTimeoutError,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    Patterns,
    series::Seconds,
    snapshots::Snapshots,
    tap::{Batch, Batches, Gap},
};
use oracle::{
    Explainer, LongestWait, Occupancy, Seating, Violation, ViolationKind,
    history::{Entry, Scene, Spool},
};
use wire::simulation;
use workload::{claim::Claims, event::Nanos, share::Share};

/// How often the history is looked after when nothing comes.
const LOOK: Duration = Duration::from_millis(500);
/// How often it is looked for batches in a simulation, whose one thread must not wait for them.
const LOOK_IN_SIMULATION: Duration = Duration::from_millis(20);

/// Where the threads leave little, for whoever looks a few times a second.
pub(crate) type Glances = Snapshots<Patterns, Seating>;

/// Takes a violation that is explained, with what happened in its sequence as far as it is kept. It has to be quick, and waits for nobody.
#[derive(Clone)]
pub struct Violating(Arc<TakeSequence>);

type TakeSequence = dyn Fn(&Violation, Vec<Entry>) + Send + Sync;

impl Violating {
    /// Has this take them.
    pub fn new(take: impl Fn(&Violation, Vec<Entry>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for Violating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Violating")
    }
}

/// What collects, until all taps are gone.
pub(crate) struct Collector {
    batches: Batches,
    explainer: Explainer,
    occupancy: Occupancy,
    /// How many sequences certainly have a slot, for whoever looks while the run goes on.
    slots_taken: Arc<AtomicU64>,
    /// Where it leaves what was there for the model to execute.
    seconds: Seconds,
    spool: Option<Spool>,
    violating: Option<Violating>,
    /// Which of several processes this one is.
    share: Share,
    snapshots: Arc<Snapshots>,
    glances: Arc<Glances>,
    /// Where violations go. When it is full enough are kept already; all are counted.
    seen: mpsc::Sender<Violation>,
    began: Instant,
    /// The latest that was taken in.
    latest: Nanos,
    lost_entries: u64,
    /// Of the violations that only all contexts together show, by kind.
    of_all: BTreeMap<ViolationKind, u64>,
}

#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) spool: Option<Spool>,
    pub(crate) scene: Scene,
    pub(crate) together: Together,
    /// A START that waited although a slot was free, unless another client had it.
    pub(crate) withheld: Option<Violation>,
}

/// What only all contexts together show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together {
    /// What was reached on all correlation IDs together.
    pub(crate) reached: Claims,
    /// How many violations there were, by kind.
    pub(crate) of_all: BTreeMap<ViolationKind, u64>,
    /// Who had the slots while a START waited longest for one.
    pub(crate) longest_wait: Option<LongestWait>,
    /// Whether steps may have gone to several servers, and nothing tells which of them answered one.
    pub(crate) misses_server: bool,
    /// Entries that nobody looked at, because this process did not keep up.
    pub(crate) lost_entries: u64,
}

impl Collector {
    pub(crate) fn new(
        batches: Batches,
        explainer: Explainer,
        occupancy: Occupancy,
        (slots_taken, seconds, snapshots, glances): (Arc<AtomicU64>, Seconds, Arc<Snapshots>, Arc<Glances>),
        spool: Option<Spool>,
        seen: mpsc::Sender<Violation>,
    ) -> Self {
        Self {
            batches,
            explainer,
            occupancy,
            slots_taken,
            seconds,
            snapshots,
            glances,
            spool,
            violating: None,
            share: Share::WHOLE,
            seen,
            began: Instant::now(),
            latest: 0,
            lost_entries: 0,
            of_all: BTreeMap::new(),
        }
    }

    /// The same, where somebody takes the sequences of violations.
    pub(crate) fn telling(self, violating: Option<Violating>) -> Self {
        Self { violating, ..self }
    }

    /// The same for the threads of several processes, of which this is one.
    pub(crate) fn of_all(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Begins. It comes back when all is collected.
    pub(crate) fn start(self) -> oneshot::Receiver<Collected> {
        let (done, collected) = oneshot::channel();
        // Nobody waits for it where nothing could be tested.
        if simulation::is_on() {
            tokio::spawn(async move { drop(done.send(self.collect_in_simulation().await)) });
        } else {
            thread::spawn(move || drop(done.send(self.collect())));
        }
        collected
    }

    fn collect(mut self) -> Collected {
        loop {
            let wait = self.explainer.waits(self.began.elapsed()).unwrap_or(LOOK).min(LOOK);
            if self.look(wait).is_none() {
                return self.conclude();
            }
        }
    }

    async fn collect_in_simulation(mut self) -> Collected {
        loop {
            match self.look(Duration::ZERO) {
                Some(true) => {}
                Some(false) => tokio::time::sleep(LOOK_IN_SIMULATION).await,
                None => return self.conclude(),
            }
        }
    }

    /// Takes in the next batch, if there comes one in this time, and hands on what is due. Returns whether there was one; none where all
    /// taps are gone.
    fn look(&mut self, wait: Duration) -> Option<bool> {
        let batch = self.batches.next(wait);
        if let Err(RecvTimeoutError::Disconnected) = batch {
            return None;
        }
        let was_there = batch.is_ok();
        if let Ok(batch) = batch {
            self.take_in(batch);
        }
        // One at a time: while a violation is explained nothing is taken in.
        self.hand_on(false);
        if let Some(spool) = &mut self.spool {
            spool.write_what_is_due();
        }
        self.snapshots.leave_together(|| self.together());
        self.glances.leave_together(|| self.occupancy.seating());
        Some(was_there)
    }

    fn conclude(mut self) -> Collected {
        self.occupancy.conclude();
        self.seconds.leave_offered(self.occupancy.offered());
        self.accuse(Vec::new());
        while self.hand_on(true) {}
        let lost = self.batches.lost_at_end();
        self.lost_entries += lost;
        if let Some(spool) = self.spool.as_mut().filter(|_| lost > 0) {
            spool.gap(lost, self.latest);
        }
        let together = self.together();
        let Self { explainer, occupancy, spool, .. } = self;
        Collected { spool, scene: explainer.into_scene(), together, withheld: occupancy.withheld() }
    }

    /// What all contexts together have shown so far.
    fn together(&self) -> Together {
        let (reached, longest_wait) = (self.occupancy.reached(), self.occupancy.longest_wait());
        let (misses_server, lost_entries) = (self.explainer.misses_server(), self.lost_entries);
        Together { reached, of_all: self.of_all.clone(), longest_wait, misses_server, lost_entries }
    }

    fn take_in(&mut self, Batch { gap, entries, violations, bytes }: Batch) {
        if let Some(spool) = &mut self.spool {
            for violation in &violations {
                spool.violation(violation.at_ns);
            }
            if let Some(Gap { lost, until, .. }) = gap {
                spool.gap(lost, entries.first().map_or(until, |entry| entry.at));
            }
            for entry in &entries {
                spool.entry(entry);
            }
        }
        if let Some(gap) = gap {
            self.lost_entries += gap.lost;
            self.occupancy.forget();
            self.explainer.gap(gap.since, gap.until);
        }
        for entry in &entries {
            self.latest = self.latest.max(entry.at);
            self.occupancy.take(entry);
        }
        self.slots_taken.store(self.occupancy.taken() as u64, Relaxed);
        self.seconds.leave_offered(self.occupancy.offered());
        self.explainer.take(entries, bytes);
        self.accuse(violations);
    }

    /// Takes in violations that the threads found, and those that only all of them together show.
    fn accuse(&mut self, violations: Vec<Violation>) {
        let now = self.began.elapsed();
        let of_all = self.occupancy.violations();
        for violation in &of_all {
            *self.of_all.entry(violation.kind).or_default() += 1;
            if let Some(spool) = &mut self.spool {
                spool.violation(violation.at_ns);
            }
        }
        for violation in violations.into_iter().chain(of_all) {
            self.explainer.accuse(violation, now);
        }
    }

    /// Hands on the next violation, if it is time for one.
    fn hand_on(&mut self, is_over: bool) -> bool {
        let Some(mut violation) = self.explainer.explained(self.began.elapsed(), is_over) else { return false };
        if let Some(place) = violation.place.as_ref().filter(|place| place.aside.is_none()) {
            let rank_of = |worker| self.share.rank_of(worker);
            violation.explanations.iter_mut().for_each(|its| its.name_ranks(place.worker, rank_of));
        }
        if let Some(Violating(take)) = &self.violating {
            take(&violation, self.explainer.sequence_of(&violation));
        }
        let _ = self.seen.try_send(violation);
        true
    }
}
