//! Runs that several processes hold together: rank 0 leads, and the others follow.

use std::{
    cell::Cell,
    env, fs,
    io::{self, Write as _},
    path::{self, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::runtime::{Builder, Runtime};

use super::{Failure as CommandFailure, UNKNOWN, output::say_error, stress::interrupts};
use crate::{
    cli::RankArgs,
    ranks::{
        About, FromLeader, FromMember, Joined, Lead, Leader, Members, Place, RankError, RankFile, any_name,
        cannot_be_shared, join,
    },
    run::{Followed, RunResult, Setup, follow},
};
use workload::{
    scenario::Scenario,
    share::{Share, of_attempt},
    whole_file::write_whole,
    wording::counted,
};

/// What a rank's exit says of a run that another one leads: its own verdict is rank 0's.
const DONE: u8 = 0;
/// The file of a folder that says how often its ranks were started.
const ATTEMPT: &str = "attempt";

/// What this process is.
pub(super) enum Role {
    /// It is alone.
    Alone,
    /// It leads others.
    Leads(Box<Party>),
    /// It followed, and that is over.
    Followed(u8),
}

/// The ranks that rank 0 leads, and the runtime that hears them.
pub(super) struct Party {
    runtime: Runtime,
    place: Place,
    members: Members,
    folder: PathBuf,
    attempt: Attempt,
    /// When the ranks met, in ms since 1970, and how many runs they have begun.
    met_at_ms: u64,
    begun: Arc<AtomicU32>,
    /// Whether a run was cut short because a rank was lost.
    lost_a_rank: Cell<bool>,
}

impl From<RankError> for CommandFailure {
    fn from(error: RankError) -> Self {
        match error {
            RankError::WrongInput(why) => Self::wrong_input(why),
            RankError::CouldNotMeet(why) => Self::could_not_test(why),
            RankError::Refused(problem) => Self { exit_code: UNKNOWN, problem },
        }
    }
}

/// Finds out what this process is. A rank that follows does so, until rank 0 lets it go.
pub(super) fn role(args: &RankArgs) -> Result<Role, CommandFailure> {
    let place = args.place().map_err(CommandFailure::wrong_input)?;
    let Some(place) = place.filter(|place| place.share.is_one_of_several()) else { return Ok(Role::Alone) };
    // Connections are served while the process does something else.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(CommandFailure::could_not_test)?;
    let folder = args.folder(&place);
    let meeting = args.meeting(&place);
    let attempt = place.leads().then(|| Attempt::begin(args, &place, &folder)).transpose()?;
    let joined = runtime.block_on(join(&place, &meeting)).inspect_err(|_| {
        attempt.iter().for_each(Attempt::undo);
    })?;
    match (joined, attempt) {
        (Joined::Leads(members), Some(attempt)) => {
            // Each rank may have another folder to work in.
            let folder = path::absolute(&folder).map_err(|error| cannot_write(&folder, &error))?;
            let met_at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let met_at_ms = u64::try_from(met_at_ms).unwrap_or(u64::MAX);
            let (begun, lost_a_rank) = (Arc::default(), Cell::new(false));
            Ok(Role::Leads(Box::new(Party { runtime, place, members, folder, attempt, met_at_ms, begun, lost_a_rank })))
        }
        (Joined::Leads(_), None) => unreachable!("whoever leads counted its attempt"),
        (Joined::Follows(leader), _) => {
            let followed = runtime.block_on(follow_all(&place, leader));
            // A disk that does not answer is not waited for.
            runtime.shutdown_background();
            followed.map(Role::Followed)
        }
    }
}

/// How often these ranks were started before, by a file of their folder.
struct Attempt {
    path: PathBuf,
    /// What the file said before.
    before: Option<u32>,
    number: u32,
}

impl Attempt {
    /// Says that the ranks are started once more.
    fn begin(args: &RankArgs, place: &Place, folder: &Path) -> Result<Self, CommandFailure> {
        let path = folder.join(ATTEMPT);
        let before = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let number = args.attempt.unwrap_or_else(|| before.map_or(0, |before| before + 1).max(place.restarts));
        let attempt = Self { path, before, number };
        let written = fs::create_dir_all(folder).and_then(|()| attempt.write(number));
        written.map_err(|error| cannot_write(&attempt.path, &error))?;
        Ok(attempt)
    }

    fn write(&self, number: u32) -> io::Result<()> {
        write_whole(&self.path, |file| writeln!(file, "{number}"))
    }

    /// Nothing was sent, so it was none.
    fn undo(&self) {
        let _ = match self.before {
            Some(before) => self.write(before),
            None => fs::remove_file(&self.path),
        };
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::wrong_input(format!(
        "cannot write {}: {error}; name another folder (--results DIR)",
        path.display()
    ))
}

impl Party {
    /// The scenario as these ranks hold it.
    ///
    /// # Errors
    /// When several ranks cannot hold it, in one line.
    pub(super) fn fit(&self, scenario: Scenario) -> Result<Scenario, CommandFailure> {
        if let Some(why) = cannot_be_shared(&scenario) {
            return Err(CommandFailure::wrong_input(why));
        }
        if let Some(header) = scenario.target.headers.iter().find(|header| header.is_withheld_where_written()) {
            let name = header.name();
            return Err(CommandFailure::wrong_input(format!(
                "rank 0 does not pass the value of header '{name}' on to other ranks: give -H '{name}: $VARIABLE', and export \
                 VARIABLE for each rank"
            )));
        }
        of_attempt(scenario, self.attempt.number).ok_or_else(|| {
            CommandFailure::wrong_input(format!(
                "there are no correlation IDs left for attempt {}: set a smaller correlation_ids.first, or --attempt 0",
                self.attempt.number
            ))
        })
    }

    /// Makes sure that no rank would be there for nothing. Where nobody asked for a number of workers, a single population gets as many as
    /// there are ranks.
    pub(super) fn give_each_rank_a_worker(
        &self,
        scenario: &mut Scenario,
        is_asked: bool,
    ) -> Result<(), CommandFailure> {
        let ranks = self.place.share.of;
        if let [alone] = &mut scenario.populations[..]
            && !is_asked
        {
            alone.load.workers = alone.load.workers.max(ranks);
        }
        let (of, workers) = (ranks.get(), scenario.workers());
        if workers >= of {
            return Ok(());
        }
        Err(CommandFailure::wrong_input(format!(
            "{of} ranks share {}: give each at least one (-c {of} or more), or start fewer ranks",
            counted(workers.into(), "worker")
        )))
    }

    /// Which part of each run is rank 0's.
    pub(super) fn share(&self) -> Share {
        self.place.share
    }

    /// What a run is told of its ranks.
    pub(super) fn lead(&self, scenario_name: &str, replay: &str) -> Lead {
        let about = About {
            run_id: any_name(),
            attempt: self.attempt.number,
            order: (self.met_at_ms, self.begun.load(Relaxed)),
            scenario_name: scenario_name.to_owned(),
            replay: replay.to_owned(),
        };
        let (members, begun) = (self.members.clone(), Arc::clone(&self.begun));
        Lead { members, about, results: self.folder.clone(), begun }
    }

    /// Writes what rank 0 measured and found.
    pub(super) fn write(&self, setup: &Setup, result: &RunResult) {
        self.lost_a_rank.set(result.lost_rank().is_some());
        if let Some(Err(why)) = RankFile::of_leader(setup, result).map(|file| file.write_to(&self.folder)) {
            say_error(&format!("rank 0: {why}"));
        }
    }

    /// Lets the others go. `has_ended` says that the command did its work.
    pub(super) fn dismiss(self, has_ended: bool) {
        let is_whole = has_ended && !self.lost_a_rank.get();
        self.runtime.block_on(self.members.dismiss(is_whole));
        if is_whole {
            // No sequence of this attempt lives on.
            let _ = fs::remove_file(&self.attempt.path);
        } else if self.begun.load(Relaxed) == 0 {
            self.attempt.undo();
        }
    }
}

/// Follows rank 0 through its runs.
async fn follow_all(place: &Place, mut leader: Leader) -> Result<u8, CommandFailure> {
    let rank = place.share.rank;
    let program = env::current_exe().ok();
    let mut interrupts = interrupts(Arc::default())?;
    let gone = |why: &str, file: Result<PathBuf, String>| {
        let where_it_is = match file {
            Ok(path) => {
                let folder = path.parent().unwrap_or(&path).display().to_string();
                format!(
                    "what this rank measured is in {}: 'sequence-stress report --merge {folder}' shows it",
                    path.display()
                )
            }
            Err(why) => format!("what this rank measured is lost: {why}"),
        };
        CommandFailure { exit_code: UNKNOWN, problem: format!("rank {rank}: {why}; {where_it_is}") }
    };
    loop {
        let said = tokio::select! {
            said = leader.next() => said,
            // Rank 0 ends the run, and lets this rank go. Whoever left before would be a rank that is lost.
            Some(()) = interrupts.recv() => {
                leader.outbox().say(&FromMember::Interrupted).await;
                continue;
            }
        };
        match said {
            Ok(FromLeader::Run(order)) => {
                match Box::pin(follow(*order, &mut leader, program.clone(), &mut interrupts)).await {
                    Followed::Done { problem: None } => {}
                    Followed::Done { problem: Some(why) } => {
                        say_error(&format!("rank {rank}: {why}; rank 0 has what it measured"));
                    }
                    Followed::Failed(why) => say_error(&format!("rank {rank}: {why}")),
                    Followed::Orphaned { why, file } => return Err(gone(&why, file)),
                }
            }
            Ok(FromLeader::Done { is_whole }) => {
                leader.finish().await;
                return Ok(if is_whole { DONE } else { UNKNOWN });
            }
            Ok(FromLeader::Refused { why }) => {
                return Err(CommandFailure { exit_code: UNKNOWN, problem: format!("rank {rank}: {why}") });
            }
            Ok(_) => {}
            Err(why) => {
                let problem = format!("rank {rank}: rank 0 is gone ({why})");
                return Err(CommandFailure { exit_code: UNKNOWN, problem });
            }
        }
    }
}
