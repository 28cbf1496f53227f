//! The time in which the workers work.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    End, Glance, Interrupted, Memory, Observer, Prepared, RunError, RunResult, TICK,
    health::{Concluded, Look, Watched},
    keep,
    phases::{Conducted, conduct},
    resources::cpu_us,
    shared::Shared,
    so_far::Timetable,
    team::Team,
    threads::work,
    watch::Watch,
};
use crate::{
    preflight::Note,
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    recorder::{Collected, Tally, Together},
};
use oracle::{
    Violation, ViolationKind,
    diagnosis::{ModelFacts, explain},
    history::{Scene, Spool},
};

/// How long the collector may take to come to its end when the run is over.
const COLLECTING: Duration = Duration::from_secs(60);

/// Why nothing was looked at after a run that goes on.
const GOES_ON: &str = "the run goes on";

pub(super) struct Driven {
    pub(super) result: RunResult,
    /// A START that waited although a slot was free, unless another client had it.
    pub(super) withheld: Option<Violation>,
    pub(super) history: Option<Spool>,
}

impl Prepared {
    /// Lets the workers work, and watches them.
    pub(super) async fn drive(
        &self,
        spool: Option<Spool>,
        observer: &mut dyn Observer,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<Driven, RunError> {
        let shared = &*self.shared;
        if let Some(lead) = &shared.setup.lead {
            lead.begin().map_err(RunError::Ranks)?;
        }
        let (taps, collector, mut seen) = self.collector(spool);
        let mut course = Course::new(self);
        let collected = collector.start();
        let (abort, aborted) = watch::channel(false);
        let mut joined = work(&self.shared, &taps, &aborted).map_err(RunError::Endpoint)?;
        // The collector comes to its end when the threads' taps are gone.
        let mut team = Team::new(shared, &taps).await;
        drop(taps);
        let mut ticks = tokio::time::interval(TICK);
        let mut looking = Box::pin(self.looker.look(shared));
        let mut conducted = Box::pin(conduct(shared, &self.hands));
        let mut phases = None;
        let mut ended = None;
        let (done, elapsed) = loop {
            // Phases may go on when no worker is left, and what is done to the server is not left half done.
            if let Some(ended) = ended.take_if(|_| phases.is_some() && team.is_over()) {
                break ended;
            }
            tokio::select! {
                done = &mut joined, if ended.is_none() => ended = Some((done, shared.clock.elapsed())),
                (index, said) = team.next() => {
                    team.take(index, said);
                    team.begin_if_all_are_ready().await;
                }
                () = shared.gate.stopped(), if !team.was_told_to_stop() => team.stop().await,
                done = &mut conducted, if phases.is_none() => phases = Some(done),
                Some(violation) = seen.recv() => course.found(violation, observer),
                look = &mut looking => {
                    looking.set(self.looker.look(shared));
                    course.looked(look, observer);
                }
                Some(()) = interrupts.recv() => course.interrupted(observer),
                _ = ticks.tick() => {
                    team.begin_if_all_are_ready().await;
                    team.look();
                    if course.tick(observer) && !*aborted.borrow() {
                        abort.send_replace(true);
                        team.abort().await;
                    }
                }
            }
        };
        // Where a thread failed the others have nothing to wait for.
        abort.send_replace(done.is_err());
        let Collected { spool: history, scene, together, withheld } =
            rest(collected, &mut seen, |violation| keep(violation, &mut course.kept, observer)).await;
        if let Some(why) = team.failure {
            return Err(RunError::Ranks(format!("{why}; nothing was sent")));
        }
        let tally = done.map_err(|why| shared.ran_short().map_or(RunError::Endpoint(why), RunError::Resources))?;
        let lost_entries = together.lost_entries;
        let counted = Counted { tally, together, scene };
        let mut result = course.concluded(counted, phases.unwrap_or_default(), elapsed, observer);
        team.conclude(&mut result, lost_entries);
        Ok(Driven { result, withheld, history })
    }
}

/// What was counted by the threads, and what the collector saw.
struct Counted {
    tally: Tally,
    together: Together,
    scene: Scene,
}

/// A run in which workers work, as the main thread sees it.
struct Course<'r> {
    shared: &'r Shared,
    /// The violations of the sequence before the run.
    alone: &'r [Violation],
    /// The CPU time of the process before it, in µs.
    cpu_before: u64,
    kept: Vec<Violation>,
    /// Those of them that the events do not show.
    beside: Vec<Violation>,
    watch: Watch,
    memory: Memory,
    watched: Watched,
    timetable: Timetable,
    /// Whether the server was away at the last look, and how often it had come back.
    absence: (bool, u64),
}

impl<'r> Course<'r> {
    fn new(prepared: &'r Prepared) -> Self {
        let Prepared { shared, alone, .. } = prepared;
        Self {
            shared,
            alone,
            cpu_before: cpu_us(),
            kept: Vec::new(),
            beside: Vec::new(),
            watch: Watch::new(),
            memory: Memory::default(),
            watched: Watched::of(&shared.setup.scenario, shared.reconnects().is_some(), &shared.setup.so_far),
            timetable: Timetable::new(&shared.setup.so_far),
            absence: (false, 0),
        }
    }

    fn found(&mut self, violation: Violation, observer: &mut dyn Observer) {
        keep(violation, &mut self.kept, observer);
        self.shared.stop_at_violation();
    }

    /// Takes in what the server said of itself.
    fn looked(&mut self, look: Look, observer: &mut dyn Observer) {
        let shared = self.shared;
        for violation in self.watched.take(look, shared.clock.now(), &shared.progress()) {
            self.beside.push(violation.clone());
            self.found(violation, observer);
        }
    }

    fn interrupted(&mut self, observer: &mut dyn Observer) {
        // Each of several ranks may be interrupted, and says so.
        if !mem::replace(&mut self.watch.interrupted, true) {
            observer.interrupted(self.shared.setup.scenario.limits.drain_ms.duration());
        }
        self.shared.gate.stop();
    }

    /// Looks how far the run is; returns whether to wait no longer for what is under way.
    fn tick(&mut self, observer: &mut dyn Observer) -> bool {
        self.watched.look_at_thresholds(self.shared);
        let progress = self.shared.progress();
        observer.progress(&progress);
        self.memory.look(progress.elapsed);
        self.tell_absences(observer);
        self.tell_what_is_wanted(progress.elapsed, observer);
        self.tell_at_a_glance(progress.elapsed, observer);
        self.watch.should_abort(self.shared, &progress)
    }

    /// Tells that the server went away, and that it came back.
    fn tell_absences(&mut self, observer: &mut dyn Observer) {
        let Some(within) = self.shared.reconnects() else { return };
        let (was_away, told) = self.absence;
        let (is_away, restarts) = (self.shared.absences.away_since().is_some(), self.shared.absences.restarts());
        if let Some(absence) = restarts.absences.last().filter(|_| restarts.count > told && !restarts.is_cut_short()) {
            observer.back(*absence);
        }
        if is_away && !was_away {
            observer.away(within);
        }
        self.absence = (is_away, restarts.count);
    }

    /// Tells what the run has shown so far, where that is wanted and the threads have said what they counted.
    fn tell_what_is_wanted(&mut self, elapsed: Duration, observer: &mut dyn Observer) {
        let Some((wanted, tally, together)) = self.timetable.look(elapsed, &self.shared.snapshots) else { return };
        let counted = Counted { tally, together, scene: Scene::default() };
        let (result, left) = self.result(counted, Conducted::default(), elapsed, GOES_ON);
        let accounting = Accounting::NotCheckable { why: GOES_ON.to_owned() };
        let mut result = RunResult { end: End::NotYet, accounting, ..result };
        for violation in self.alone.iter().cloned().chain(left) {
            result.add(violation, &mut ());
        }
        if wanted.judged {
            observer.judged(&result);
        }
        if wanted.verdict {
            observer.verdict(result.clone());
        }
        if wanted.checkpoint {
            observer.checkpoint(result);
        }
    }

    /// Tells a little of what the run has shown so far, where somebody looks at it.
    fn tell_at_a_glance(&mut self, elapsed: Duration, observer: &mut dyn Observer) {
        let shared = self.shared;
        let Some((patterns, seating)) = self.timetable.look_for_glance(elapsed, &shared.glances) else { return };
        let now = shared.clock.now();
        let (seconds, measured) = (self.watched.past_seconds(now), self.watched.measured());
        let server_memory = self.watched.server_memory();
        observer.glance(Glance { now, patterns, seating, seconds, measured, server_memory });
    }

    /// What the run has shown when no worker works any more.
    fn concluded(
        mut self,
        counted: Counted,
        conducted: Conducted,
        elapsed: Duration,
        observer: &mut dyn Observer,
    ) -> RunResult {
        self.watched.collect(&self.shared.seconds);
        // What is looked at after it is as in one that was interrupted, until it is looked at.
        let (mut result, left) = self.result(counted, conducted, elapsed, "the run was interrupted");
        for violation in left {
            result.add(violation, observer);
        }
        if let Some(hang) = self.watch.hang {
            result.add_hang(hang, observer);
        }
        result
    }

    /// A result of what was counted, in which nothing was looked at after the run, for this reason; and the violations that are not in it.
    fn result(
        &self,
        Counted { mut tally, together, scene }: Counted,
        Conducted { spans: phases, broken_off }: Conducted,
        elapsed: Duration,
        why: &str,
    ) -> (RunResult, Vec<Violation>) {
        let Self { shared, watched, beside, .. } = self;
        let Together { reached, of_all, longest_wait, misses_server, .. } = together;
        tally.reached.add(&reached);
        count_others(&mut tally, beside, of_all);
        let mut memory = self.memory;
        memory.look_at_end();
        let concluded = watched.clone().conclude(shared.clock.now(), &shared.progress(), elapsed);
        let Concluded { health, series, thresholds, left } = concluded;
        let mut result = RunResult {
            origin: shared.origin.clone(),
            preflight: shared.preflight.clone(),
            accounting: Accounting::NotCheckable { why: "the server's statistics cannot be read".to_owned() },
            iterations: shared.progress().iterations,
            pending: PendingRequests::NotChecked { why: why.to_owned() },
            slots: SlotCheck::not_checkable(why),
            idle_limit: IdleSearch::NotAsked,
            end: End::Known,
            recorded: None,
            restarts: shared.absences.restarts(),
            go_aways: shared.access.gone_away(),
            began: shared.clock.began(),
            elapsed,
            cpu_us: cpu_us().saturating_sub(self.cpu_before),
            memory,
            interrupted: Interrupted(self.watch.interrupted),
            tally,
            violations: self.kept.clone(),
            beside: beside.clone(),
            scene: Arc::new(scene),
            arrived: shared.arrived(&phases, elapsed),
            phases,
            broken_off: broken_off.or_else(|| shared.ran_short()),
            longest_wait,
            health: Some(health),
            series,
            thresholds,
            ranks: None,
            own: None,
        };
        result.preflight.notes.extend(Note::unaddressed(shared.progress().unaddressed));
        result.miss_server_header(shared.setup.scenario.target.server_header.as_ref().filter(|_| misses_server));
        (result, left)
    }
}

/// What the collector comes to when no thread hands it anything more.
async fn rest(
    collected: oneshot::Receiver<Collected>,
    seen: &mut mpsc::Receiver<Violation>,
    mut keep: impl FnMut(Violation),
) -> Collected {
    let rest = async {
        while let Some(violation) = seen.recv().await {
            keep(violation);
        }
        collected.await.unwrap_or_default()
    };
    // Longer than this only a disk takes that does not answer.
    tokio::time::timeout(COLLECTING, rest).await.unwrap_or_default()
}

/// Counts what no thread does: violations beside the events, and those that only all contexts together show.
fn count_others(tally: &mut Tally, beside: &[Violation], of_all: BTreeMap<ViolationKind, u64>) {
    for violation in beside {
        tally.violation(violation.kind);
    }
    for (kind, count) in of_all {
        *tally.violations.entry(kind).or_default() += count;
    }
}

impl RunResult {
    pub(crate) fn add_hang(&mut self, mut hang: Violation, observer: &mut dyn Observer) {
        // What is kept is what happened around the first violation.
        if self.violations.is_empty() {
            hang.explanations = explain(&hang, &self.scene.entries, &ModelFacts::of(&self.preflight.model));
        }
        self.add(hang, observer);
    }
}
