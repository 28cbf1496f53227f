//! The runs of `compare --run`: this tool as child processes, one after the other, so that what slows the machine down for a while slows both
//! sides.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use super::super::{Failure, UNKNOWN, output::say_error, signals::Signals};
use crate::{
    cli::{SUMMARY_VARIABLE, Side},
    compare::Ran,
};
use workload::seed::Seed;

/// The sides, as files and messages have them.
const NAMES: [&str; 2] = ["old", "new"];
/// How long a run may take to end when it is asked to: it waits for responses to requests already sent.
const END_WITHIN: Duration = Duration::from_secs(30);

/// The runs that are held.
pub(super) struct Turns<'a> {
    pub(super) rounds: u32,
    /// Of the first round; each round has another.
    pub(super) seed: Seed,
    /// The old side and the new one.
    pub(super) sides: &'a [Side; 2],
    /// Where the results go.
    pub(super) folder: &'a Path,
    /// Whether they stay there.
    pub(super) is_kept: bool,
    /// Whether nothing is said of how far they are.
    pub(super) quiet: bool,
}

/// How a run came to its end.
enum Ended {
    ByItself(ExitStatus),
    Overdue,
    Interrupted,
}

impl Turns<'_> {
    /// Holds the runs. Each round has one of each side, and the next round has them in the other order.
    pub(super) async fn hold(&self) -> Result<[Vec<Ran>; 2], Failure> {
        let mut signals = Signals::new().map_err(Failure::could_not_test)?;
        let mut ran = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                if !self.quiet {
                    say_error(&format!("round {} of {}: the {} run", round + 1, self.rounds, NAMES[side]));
                }
                ran[side].push(self.one(round, side, &mut signals).await?);
            }
            let [old, new] = &ran;
            if let (Some(old), Some(new)) = (old.last(), new.last())
                && let Some(unlike) = old.unlike(new)
            {
                return Err(Failure::wrong_input(format!(
                    "cannot compare these runs: {unlike}; both sides need the same model and the same load"
                )));
            }
        }
        Ok(ran)
    }

    async fn one(&self, round: u32, side: usize, signals: &mut Signals) -> Result<Ran, Failure> {
        let (name, limit) = (format!("{:02}-{}", round + 1, NAMES[side]), self.sides[side].limit);
        let of = format!("the {} run of round {}", NAMES[side], round + 1);
        let [result, log] = ["json", "log"].map(|ending| self.folder.join(format!("{name}.{ending}")));
        let seed = self.seed.0.wrapping_add(round.into());
        let cannot = |error: io::Error| Failure::could_not_test(format!("cannot start {of}: {error}"));
        let mut child = start(&self.sides[side], seed, &result, &log).map_err(cannot)?;
        let ended = tokio::select! {
            status = child.wait() => Ended::ByItself(status.map_err(cannot)?),
            () = sleep(limit) => Ended::Overdue,
            () = signals.recv() => Ended::Interrupted,
        };
        if !matches!(ended, Ended::ByItself(_)) {
            end(&mut child, signals).await;
        }
        match ended {
            Ended::Interrupted => {
                let problem = format!("interrupted in {of}: nothing is compared");
                Err(Failure { exit_code: UNKNOWN, problem })
            }
            Ended::Overdue => {
                let limit = humantime::format_duration(limit);
                Err(Failure::could_not_test(format!(
                    "{of} did not end within {limit}, and was ended; allow more with --run-limit"
                )))
            }
            Ended::ByItself(status) => match status.code() {
                // The result says what was found.
                Some(0 | 1 | 3 | 5) => {
                    let read = Ran::read(&result);
                    let mut ran = read.map_err(|why| Failure::could_not_test(format!("{of} left no result: {why}")))?;
                    if !self.is_kept {
                        // The file does not outlive this command.
                        ran.file = PathBuf::from(format!("{name}.json"));
                    }
                    Ok(ran)
                }
                Some(2) => Err(Failure::wrong_input(format!("{of} cannot begin: {}", last_line(&log)))),
                Some(_) => Err(Failure::could_not_test(format!("{of} could not test: {}", last_line(&log)))),
                None => {
                    Err(Failure::could_not_test(format!("{of} did not end by itself ({status}): {}", last_line(&log))))
                }
            },
        }
    }
}

fn start(side: &Side, seed: u64, result: &Path, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["-q", "-r", &seed.to_string(), "--json"]).arg(result).args(&side.words);
    // The comparison is the job's result, and no run of it.
    command.env_remove(SUMMARY_VARIABLE);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    // Ctrl-C is for this process, which ends the run then.
    #[cfg(unix)]
    command.process_group(0);
    command.spawn()
}

/// Asks a run to end, and ends it where it does not, or where that is asked for again.
async fn end(child: &mut Child, signals: &mut Signals) {
    terminate(child);
    let ended = async {
        tokio::select! {
            _ = child.wait() => {}
            () = signals.recv() => {}
        }
    };
    // Whether it has ended by now, the next call says.
    let _ = timeout(END_WITHIN, ended).await;
    // It may be gone.
    let _ = child.kill().await;
}

#[cfg(unix)]
fn terminate(child: &mut Child) {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
        // It may be gone.
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
    }
}

#[cfg(not(unix))]
fn terminate(child: &mut Child) {
    // It may be gone.
    let _ = child.start_kill();
}

/// What a run said last, without the program's name.
fn last_line(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    last.trim_start_matches("sequence-stress: ").to_owned()
}
