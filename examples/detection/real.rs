//! Models on a real tritonserver: as many as there are runs, each with its own fault, side by side on few servers.

use std::{
    error::Error,
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use reference::{Fault, Planted};
use sequence_stress::run::Setup;
use tempfile::TempDir;
use workload::seed::Seed;

use crate::harness::{
    for_each,
    rows::{IDLE_LIMIT, ROWS, Row},
    trial::{HOLD, Outcome, Seen, chance, run_and_judge, scenario},
};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The faults that the native models can commit stand here by their names.
const NATIVE_FAULTS: &str = include_str!("../../backend/src/fault.rs");
/// A real server that runs for longer is ended, with what runs against it.
const SERVER_SECONDS: &str = "1800";
/// What stands for a fault in the models that others are made after.
const PATTERN: &str = "off-by-one:once@777777777";

/// One run, and the model that it has for itself.
pub(crate) struct Trial {
    pub(crate) row: Row,
    pub(crate) planted: Planted,
    pub(crate) seed: u64,
    pub(crate) always: bool,
    pub(crate) model: String,
}

/// The models that runs have on a real server.
pub(crate) trait Models: Sync {
    /// How many of them one server has: more load slowly.
    const OF_A_SERVER: usize;

    /// Writes the one that a run has.
    fn write(&self, repository: &Path, trial: &Trial) -> Result<()>;

    /// What starts a server of a repository; what it runs is to be added.
    fn server(&self, repository: &Path) -> Command;

    /// The run against a server.
    fn setup(&self, trial: &Trial, address: SocketAddr) -> Setup;
}

/// The native models.
pub(crate) struct Native {
    /// What each of them is made after.
    base: TempDir,
}

impl Native {
    pub(crate) fn new() -> Result<Self> {
        let base = TempDir::new()?;
        let models = base.path().join(Self::MODELS);
        of_native_models().args(["--fault", PATTERN, "--write-models"]).arg(models).status()?;
        Ok(Self { base })
    }

    const MODELS: &str = "models";

    /// The rows of the faults that native models can commit.
    pub(crate) fn rows(only: &str) -> Vec<Row> {
        let has =
            |row: &&Row| NATIVE_FAULTS.contains(&format!(" \"{}\" ", row.fault)) && row.fault.name().contains(only);
        ROWS.iter().filter(has).copied().collect()
    }
}

impl Models for Native {
    const OF_A_SERVER: usize = 150;

    fn write(&self, repository: &Path, trial: &Trial) -> Result<()> {
        let Trial { row, planted, model, .. } = trial;
        let config = fs::read_to_string(self.base.path().join(Self::MODELS).join(row.model).join("config.pbtxt"))?;
        let delay = |ms: u64| format!("key: \"execute_delay_ms\" value {{ string_value: \"{ms}\" }}");
        let config = config.replace(&format!("\"{}\"", row.model), &format!("\"{model}\""));
        let config = config.replace(PATTERN, &planted.to_string()).replace(&delay(1), &delay(row.execution_ms));
        fs::create_dir_all(repository.join(model).join("1"))?;
        Ok(fs::write(repository.join(model).join("config.pbtxt"), config)?)
    }

    fn server(&self, repository: &Path) -> Command {
        let mut command = of_native_models();
        command.arg(format!("--server-arg=--model-repository={}", repository.display()));
        command
    }

    fn setup(&self, trial: &Trial, address: SocketAddr) -> Setup {
        Setup::new(scenario(trial.row.scene, address, &trial.model), Seed(trial.seed))
    }
}

/// All runs: each fault always, and once with so many seeds.
pub(crate) fn trials(rows: &[Row], seeds: u64) -> Vec<Trial> {
    let new = |row: &Row, planted, seed, always: bool| {
        let model = format!("{}_{}_{seed}_{}", row.fault.name().replace('-', "_"), u8::from(always), row.model);
        Trial { row: *row, planted, seed, always, model }
    };
    let of_row = |row: &Row| {
        let mut all = vec![new(row, Planted::always(row.fault), 1, true)];
        all.extend((1..=seeds).map(|seed| new(row, Planted::once(row.fault, chance(row, seed)), seed, false)));
        all
    };
    rows.iter().flat_map(of_row).collect()
}

/// Has all runs, and gives what came of each in their order.
pub(crate) fn run_all<M: Models>(models: &M, trials: &[Trial], at_a_time: usize) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Option<Outcome>> = trials.iter().map(|_| None).collect();
    let mut shares = shares(trials, M::OF_A_SERVER);
    // A server that dies of one run takes what shares it along: each of these gets another server, for itself.
    for _ in 0..2 {
        let mut untested = Vec::new();
        for share in shares {
            eprintln!("a server with {} models", share.len());
            let of_share: Vec<&Trial> = share.iter().map(|index| &trials[*index]).collect();
            for (index, outcome) in share.iter().zip(on_one_server(models, &of_share, at_a_time)?) {
                if matches!(outcome.seen, Seen::CouldNotTest(_)) {
                    untested.push(vec![*index]);
                }
                outcomes[*index] = Some(outcome);
            }
        }
        shares = untested;
    }
    Ok(outcomes.into_iter().flatten().collect())
}

/// Which runs share a server: those that end it have one each, those that keep it from ending in good order one for all.
fn shares(trials: &[Trial], of_a_server: usize) -> Vec<Vec<usize>> {
    let is = |faults: &'static [Fault]| {
        (0..trials.len()).filter(move |index| faults.contains(&trials[*index].row.fault)).collect::<Vec<_>>()
    };
    let hanging =
        is(&[Fault::HangInstance, Fault::SlowExecution, Fault::LateRelease, Fault::LateResponse, Fault::DropResponse]);
    // 24.10 may die of requests whose last response never comes, too.
    let crashing = is(&[Fault::Crash, Fault::LoseFinalMark]);
    let others: Vec<_> =
        (0..trials.len()).filter(|index| !hanging.contains(index) && !crashing.contains(index)).collect();
    let mut shares: Vec<Vec<usize>> = others.chunks(of_a_server).map(<[_]>::to_vec).collect();
    shares.extend(hanging.chunks(of_a_server).map(<[_]>::to_vec));
    shares.extend(crashing.into_iter().map(|index| vec![index]));
    shares
}

fn on_one_server(models: &impl Models, trials: &[&Trial], at_a_time: usize) -> Result<Vec<Outcome>> {
    let folder = TempDir::new()?;
    let repository = folder.path().join("models");
    for trial in trials {
        models.write(&repository, trial)?;
    }
    let log = folder.path().join("server.log");
    let mut command = models.server(&repository);
    command.args(["--time-limit", SERVER_SECONDS]);
    let server = Real::start(command, &log)?;
    let mut outcomes = for_each(trials, at_a_time, |trial| run_and_judge(models.setup(trial, server.address)));
    server.stop()?;
    // A server that goes in good order tells how often its models did it.
    let log = fs::read_to_string(log).unwrap_or_default();
    for (outcome, trial) in outcomes.iter_mut().zip(trials) {
        let told = format!("model '{}': planted fault {}: committed ", trial.model, trial.row.fault);
        outcome.committed = log.lines().find_map(|line| line.split_once(&told)?.1.split(' ').next()?.parse().ok());
    }
    Ok(outcomes)
}

/// What starts a server of the native models.
pub(crate) fn of_native_models() -> Command {
    let mut command = with_triton();
    command.args(["--shape", "2x4", "--execute-delay-ms", "1"]);
    command.args(["--idle-limit-ms", &IDLE_LIMIT.as_millis().to_string()]);
    command.args(["--fault-hold-ms", &HOLD.as_millis().to_string()]);
    command
}

pub(crate) fn with_triton() -> Command {
    let mut command = Command::new(PathBuf::from(ROOT).join("scripts/with-triton"));
    command.stderr(Stdio::null());
    command
}

/// A real server; ended by the end of its input.
pub(crate) struct Real {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Real {
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
        command.arg("--log").arg(log).args(["--", "sh", "-c", "echo $TRITON_GRPC; read line || true"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().ok_or("no pipe")?).read_line(&mut address)?;
        let Ok(address) = address.trim().parse() else {
            process.wait()?;
            return Err("with-triton starts no server: run `scripts/with-triton -- true` to see why".into());
        };
        Ok(Self { process, address })
    }

    pub(crate) fn stop(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        self.process.wait()?;
        Ok(())
    }
}
