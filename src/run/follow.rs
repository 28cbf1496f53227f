//! A rank's share of a run that another rank leads.

use std::{
    mem,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

use super::{
    Memory, Origin, Part, Setup, TICK,
    resources::{OpenFiles, cpu_us, ensure_program},
    shared::Shared,
    so_far::{SoFar, Timetable},
    threads::work,
};
use crate::{
    preflight::{Preflight, RunLimits},
    ranks::{FromLeader, FromMember, Leader, Order, Outbox, RankFile, SILENCE},
    recorder::{BATCHES, BYTES, Batch, Batches, Tally, Taps, Together},
};
use oracle::{
    VIOLATIONS_KEPT, Violation,
    diagnosis::ModelFacts,
    explained_alone,
    golden::{Expectation, Golden},
};
use wire::transport::Access;
use workload::{event::ContextId, inputs::Sent, model::Tensors, plan::correlation_id, share::Share};

/// How often rank 0 hears how far this rank is.
const TELL: Duration = Duration::from_millis(200);
/// How often it gets what was counted: it has that if this rank is lost.
const COUNT: Duration = Duration::from_secs(1);
/// How often that is written to the rank's file.
const WRITE: Duration = Duration::from_secs(60);
/// How long the last write may take.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
/// How long responses are waited for when rank 0 is gone.
const ORPHANED: Duration = Duration::from_secs(3);
const NO_FAILURE: &str = "no thread fails while it has it";
/// How long the relay may take to send the last batches.
const RELAYING: Duration = Duration::from_secs(10);

/// What became of a rank's share of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It is done, and rank 0 has it.
    Done {
        /// Why the rank's file could not be written, where it could not.
        problem: Option<String>,
    },
    /// It could not be carried out, for this reason; rank 0 knows it.
    Failed(String),
    /// Rank 0 is gone, for this reason. The rank's file has what was measured, unless that could not be written.
    Orphaned {
        /// Why.
        why: String,
        /// The file, or why there is none.
        file: Result<PathBuf, String>,
    },
}

/// Carries out this rank's share of a run. `interrupts` brings something each time that the run is to be ended before it is done.
pub async fn follow(
    order: Order,
    leader: &mut Leader,
    program: Option<PathBuf>,
    interrupts: &mut mpsc::Receiver<()>,
) -> Followed {
    let outbox = leader.outbox();
    let failed = |why: String| async {
        outbox.say(&FromMember::Failed { why: why.clone() }).await;
        Followed::Failed(why)
    };
    let (setup, mut preflight) = match setup(&order, leader.share, program) {
        Ok(setup) => (setup, order.preflight.clone()),
        Err(why) => return failed(why).await,
    };
    restore(&mut preflight, &order, setup.golden.as_ref());
    preflight.limits = RunLimits::new(&setup.scenario, &preflight.model);
    if let Some(times) = setup.pace
        && let Err(why) = preflight.send_at(times, &setup.scenario)
    {
        return failed(why).await;
    }
    let _files = match OpenFiles::take(&setup).await {
        Ok(files) => files,
        Err(why) => return failed(why).await,
    };
    let access = match Access::new(&setup.scenario.target) {
        Ok(access) => access,
        Err(why) => return failed(why).await,
    };
    let shared = Arc::new(Shared::new(setup, (preflight, Origin::here()), access, None));
    let mut share = OwnShare::new(&shared, order, outbox.clone());
    let ids = Arc::clone(&shared);
    let id = move |ContextId { worker, context }| correlation_id(&ids.setup.scenario, worker, context);
    let (taps, batches) = Taps::new(id, BATCHES, BYTES);
    let mut relay = Relay::start(batches, outbox.clone());
    let (abort, aborted) = watch::channel(false);
    let mut joined = match work(&shared, &taps, &aborted) {
        Ok(joined) => joined,
        Err(why) => return failed(why).await,
    };
    // The relay comes to its end when the threads' taps are gone.
    drop(taps);
    let (mut ticks, mut is_ready, mut has_begun, mut orphaned) = (tokio::time::interval(TICK), false, false, None);
    let done = loop {
        tokio::select! {
            done = &mut joined => break done,
            said = leader.next(), if orphaned.is_none() => match said {
                Ok(FromLeader::Start { zero }) => {
                    shared.clock.start_at(zero.instant().map_or_else(Instant::now, Into::into));
                    shared.gate.let_in();
                }
                Ok(FromLeader::Stop | FromLeader::Done { .. }) => shared.gate.stop(),
                Ok(FromLeader::Abort) => _ = abort.send_replace(true),
                Ok(FromLeader::Refused { why }) => {
                    orphaned = Some(why);
                    shared.gate.stop();
                }
                Err(why) => {
                    orphaned = Some(format!("rank 0 is gone ({why})"));
                    shared.gate.stop();
                }
                Ok(_) => {}
            },
            () = shared.gate.ready(), if !is_ready => {
                is_ready = true;
                outbox.say(&FromMember::Ready).await;
            }
            () = shared.gate.opened(), if !has_begun => {
                has_begun = true;
                share.began(&shared).await;
            }
            Some(()) = interrupts.recv() => {
                shared.gate.stop();
                outbox.say(&FromMember::Interrupted).await;
            }
            _ = ticks.tick() => {
                share.tick(&shared).await;
                if share.waited_long_enough(&shared, orphaned.is_some()) {
                    abort.send_replace(true);
                }
            }
        }
    };
    // Where a thread failed the others have nothing to wait for.
    abort.send_replace(done.is_err());
    let relayed = relay.end().await;
    let tally = match done {
        Ok(tally) => tally,
        Err(why) => return failed(shared.ran_short().unwrap_or(why)).await,
    };
    Box::pin(share.conclude(&shared, tally, relayed, orphaned)).await
}

/// Puts back what of a preflight is in no file.
fn restore(preflight: &mut Preflight, order: &Order, golden: Option<&Arc<Golden>>) {
    preflight.model.turn = order.turn;
    preflight.golden = golden.cloned().map(Expectation::of);
    preflight.model.tensors = golden.map(|golden| {
        let sent = Sent { pace: None, inputs: Arc::clone(&golden.inputs) };
        Arc::new(Tensors { sent, outputs: golden.asked().map(str::to_owned).collect() })
    });
}

fn setup(order: &Order, share: Share, program: Option<PathBuf>) -> Result<Setup, String> {
    let golden = order.golden.as_ref().map(|file| {
        let bytes = BASE64_STANDARD.decode(file).map_err(|error| error.to_string())?;
        Golden::read_from(bytes.as_slice(), bytes.len() as u64).map(Arc::new).map_err(|damaged| damaged.0)
    });
    let setup = Setup {
        share,
        program,
        hints: order.hints,
        fail_fast: order.fail_fast,
        pace: order.pace,
        golden: golden.transpose().map_err(|why| format!("the golden outputs of rank 0: {why}"))?,
        ..Setup::new(order.scenario.clone(), order.seed)
    };
    ensure_program(&setup)?;
    Ok(setup)
}

/// What passed on its way to rank 0.
#[derive(Default)]
struct Relayed {
    violations: Vec<Violation>,
    lost_entries: u64,
}

impl Relayed {
    /// Takes in a batch that is not sent yet.
    fn take_in(&mut self, batch: &Batch) {
        let room = VIOLATIONS_KEPT - self.violations.len();
        self.violations.extend(batch.violations.iter().take(room).cloned());
        self.lost_entries += batch.lost() + batch.entries.len() as u64;
    }
}

/// Sends what the threads hand over, on a thread of its own. Where rank 0 does not keep up, the threads lose entries, which are counted.
struct Relay {
    /// Whether to send nothing more, and to count what is left.
    gives_up: Arc<AtomicBool>,
    relayed: Arc<Mutex<Relayed>>,
    done: oneshot::Receiver<()>,
}

impl Relay {
    fn start(batches: Batches, outbox: Outbox) -> Self {
        let (sender, done) = oneshot::channel();
        let (gives_up, relayed) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Relayed::default())));
        let (told, passed) = (Arc::clone(&gives_up), Arc::clone(&relayed));
        thread::spawn(move || {
            while let Some(batch) = batches.wait() {
                let entries = batch.entries.len() as u64;
                // Until it is sent it is lost: nobody may wait for that.
                passed.lock().expect(NO_FAILURE).take_in(&batch);
                if !told.load(Relaxed) && outbox.send_batch(&batch) {
                    passed.lock().expect(NO_FAILURE).lost_entries -= entries;
                }
            }
            passed.lock().expect(NO_FAILURE).lost_entries += batches.lost_at_end();
            // Nobody waits for it where the run was given up.
            let _ = sender.send(());
        });
        Self { gives_up, relayed, done }
    }

    /// What passed, when the threads hand over nothing more. What rank 0 does not take within a while is lost, and counted.
    async fn end(&mut self) -> Relayed {
        for limit in [RELAYING, SILENCE] {
            if tokio::time::timeout(limit, &mut self.done).await.is_ok() {
                break;
            }
            self.gives_up.store(true, Relaxed);
        }
        mem::take(&mut *self.relayed.lock().expect(NO_FAILURE))
    }
}

/// What this rank has measured so far, and to whom it tells that.
struct OwnShare {
    /// What it will write.
    file: RankFile,
    folder: PathBuf,
    outbox: Outbox,
    cpu_before: u64,
    memory: Memory,
    timetable: Timetable,
    told_at: Instant,
    began_ns: u64,
    stopping_since: Option<Instant>,
    told_gone: bool,
    written_at: Instant,
    /// The write that is under way, or is over.
    writing: Option<JoinHandle<Result<PathBuf, String>>>,
}

impl OwnShare {
    fn new(shared: &Shared, order: Order, outbox: Outbox) -> Self {
        let so_far = SoFar { judged_every: Some(COUNT), ..SoFar::default() };
        Self {
            folder: order.results.clone(),
            file: RankFile::of_follower(order, shared.setup.share, shared.origin.clone()),
            outbox,
            cpu_before: cpu_us(),
            memory: Memory::default(),
            timetable: Timetable::new(&so_far),
            told_at: Instant::now(),
            began_ns: 0,
            stopping_since: None,
            told_gone: false,
            written_at: Instant::now(),
            writing: None,
        }
    }

    async fn began(&mut self, shared: &Shared) {
        self.began_ns = shared.clock.now();
        self.outbox.say(&FromMember::Began { at_ns: self.began_ns }).await;
    }

    /// Tells what is due.
    async fn tick(&mut self, shared: &Shared) {
        self.memory.look(shared.clock.elapsed());
        // There is no collector here that would answer.
        shared.snapshots.leave_together(Together::default);
        if self.told_at.elapsed() < TELL {
            return;
        }
        self.told_at = Instant::now();
        // Where rank 0 does not keep up, it hears the next time.
        self.outbox.try_say(&FromMember::Progress(Box::new(shared.own_progress())));
        self.tell_seconds(shared).await;
        if let Some((_, tally, _)) = self.timetable.look(shared.clock.elapsed(), &shared.snapshots) {
            self.outbox.try_say(&FromMember::Counted(Box::new(tally.clone())));
            if self.written_at.elapsed() >= WRITE {
                self.written_at = Instant::now();
                let part = self.part(shared, tally);
                self.checkpoint(part);
            }
        }
        self.tell_whether_the_server_is_gone(shared).await;
    }

    async fn tell_whether_the_server_is_gone(&mut self, shared: &Shared) {
        if let Some((_, why)) = shared.liveness.gone.get().filter(|_| !self.told_gone) {
            self.told_gone = true;
            self.outbox.say(&FromMember::ServerGone { why: why.clone() }).await;
        }
    }

    async fn tell_seconds(&mut self, shared: &Shared) {
        let seconds = shared.seconds.take();
        if !seconds.is_empty() {
            for second in &seconds {
                self.file.series.add(second.number, &second.interval);
            }
            self.outbox.say(&FromMember::Seconds { seconds }).await;
        }
    }

    /// Whether to wait no longer for responses.
    fn waited_long_enough(&mut self, shared: &Shared, is_orphaned: bool) -> bool {
        if !shared.gate.is_stopping() {
            return false;
        }
        let since = self.stopping_since.get_or_insert_with(Instant::now);
        let drain = shared.setup.scenario.limits.drain_ms.duration();
        let limit = if is_orphaned { drain.min(ORPHANED) } else { drain };
        since.elapsed() >= limit || shared.liveness.gone.get().is_some()
    }

    fn part(&self, shared: &Shared, tally: Tally) -> Part {
        let elapsed = shared.clock.elapsed();
        Part {
            tally,
            iterations: shared.own_progress().iterations,
            cpu_us: cpu_us().saturating_sub(self.cpu_before),
            memory: self.memory,
            go_aways: shared.access.gone_away(),
            arrived: shared.arrived(&[], elapsed),
            began_ns: self.began_ns,
            elapsed,
            lost_entries: 0,
            ran_short: shared.ran_short(),
        }
    }

    async fn conclude(mut self, shared: &Shared, tally: Tally, relayed: Relayed, orphaned: Option<String>) -> Followed {
        self.memory.look_at_end();
        self.tell_seconds(shared).await;
        self.tell_whether_the_server_is_gone(shared).await;
        self.outbox.say(&FromMember::Progress(Box::new(shared.own_progress()))).await;
        let Relayed { violations, lost_entries } = relayed;
        // Without rank 0 nobody looks at entries, and all that they show alone is known.
        let lost_entries = if orphaned.is_none() { lost_entries } else { 0 };
        let facts = ModelFacts::of(&shared.preflight.model);
        let violations = violations.into_iter().map(|violation| explained_alone(violation, &facts)).collect();
        let part = Part { lost_entries, ..self.part(shared, tally) };
        match &orphaned {
            // It may stand still, and wonder later.
            Some(why) => _ = self.outbox.try_say(&FromMember::Failed { why: format!("it went on alone: {why}") }),
            None => self.outbox.say(&FromMember::Ended(Box::new(part.clone()))).await,
        }
        let file = RankFile { part, violations, complete: orphaned.is_none(), ..self.file.clone() };
        let written = async {
            if let Some(before) = self.writing.take() {
                // The last write says what is wrong.
                let _ = before.await;
            }
            self.write(file).await.unwrap_or_else(|error| Err(error.to_string()))
        };
        let took_too_long = |_| Err(format!("its disk took longer than {} s", WRITTEN_WITHIN.as_secs()));
        let file = tokio::time::timeout(WRITTEN_WITHIN, written).await.unwrap_or_else(took_too_long);
        match orphaned {
            Some(why) => Followed::Orphaned { why, file },
            None => Followed::Done { problem: file.err() },
        }
    }

    /// Writes what was measured so far, unless the disk has not taken what was written before. Nobody waits for that.
    fn checkpoint(&mut self, part: Part) {
        if self.writing.as_ref().is_none_or(JoinHandle::is_finished) {
            self.writing = Some(self.write(RankFile { part, ..self.file.clone() }));
        }
    }

    /// Writes the rank's file, on a thread of its own, because a disk may take long; returns where it is.
    fn write(&self, file: RankFile) -> JoinHandle<Result<PathBuf, String>> {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || file.write_to(&folder))
    }
}
