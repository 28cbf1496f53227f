//! Plants every fault, always and once, in the reference server and, where a model can commit it, in the native models on a real
//! tritonserver; runs the default scenario against it, and prints as Markdown whether the tool found it, after how many requests,
//! and what it called it. `scripts/detection` keeps that in `docs/`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt, fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use clap::Parser;
use sequence_stress::{
    engine::{Hints, Observer, RunResult, Setup, run},
    oracle::ViolationKind,
    reference::{Fault, ModelOptions, Options, Planted, Server},
    report::counted,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The faults that the native models can commit stand here by their names.
const NATIVE_FAULTS: &str = include_str!("../backend/src/fault.rs");
/// A real server that runs for longer is ended, with what runs against it.
const SERVER_SECONDS: &str = "300";
/// The exit code that tells so.
const TIME_IS_UP: i32 = 124;

/// Chances at which a fault is committed once: the first that comes up in the scenario counts.
const CHANCES: [u64; 4] = [300, 30, 3, 1];

/// Print a table of what the tool finds.
#[derive(Debug, Parser)]
struct Args {
    /// Runs at a time against reference servers; most of a run is waiting
    #[arg(long, default_value_t = 6)]
    at_a_time: usize,
    /// Runs at a time against real servers
    #[arg(long, default_value_t = 2)]
    real_at_a_time: usize,
    /// The seed of the plans and of the faults
    #[arg(short, long, default_value_t = 42)]
    random_seed: u64,
    /// Only faults with this in their names
    #[arg(long, default_value = "")]
    only: String,
}

/// What came of one run.
#[derive(Clone, Debug)]
enum Outcome {
    Found {
        kinds: BTreeSet<ViolationKind>,
        requests: u64,
    },
    Missed {
        committed: u64,
        requests: u64,
    },
    /// It never came to that.
    NoChance,
    /// Nothing was found, and the server did not tell how often it happened.
    NotTold {
        requests: u64,
    },
    CouldNotTest(String),
}

struct Silent;
impl Observer for Silent {}

/// The model in which the fault can be committed; the scenario's own where it can be.
fn model(fault: Fault) -> &'static str {
    match fault {
        Fault::StateNotSaved | Fault::StateOfAnotherSlot => "implicit_sequence_int32",
        Fault::CorridZero | Fault::CorridOther | Fault::EndMissing | Fault::EndSpurious => "oldest_sequence_int32",
        _ => "custom_sequence_int32",
    }
}

/// Where a fault is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Reference,
    /// The native models, on a real server.
    Native,
}

impl Place {
    fn has(self, fault: Fault) -> bool {
        self == Self::Reference || NATIVE_FAULTS.contains(&format!(" \"{fault}\" "))
    }

    fn test(self, planted: Planted, seed: u64) -> Outcome {
        match self {
            Self::Reference => test_reference(planted, seed),
            Self::Native => test_native(planted, seed).unwrap_or_else(|error| Outcome::CouldNotTest(error.to_string())),
        }
    }
}

fn options(planted: Planted, seed: u64) -> Options {
    // Shorter than the defaults, so that less of the time is waiting.
    let models = ModelOptions {
        max_batch_size: 4,
        idle_limit: Duration::from_millis(250),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    Options { models, faults: vec![planted], fault_seed: Seed(seed), threads: 1, ..Options::default() }
}

fn test_reference(planted: Planted, seed: u64) -> Outcome {
    let server = Server::start(options(planted, seed)).expect("a free port");
    match stress(server.address, planted.fault, seed) {
        Err(error) => Outcome::CouldNotTest(error),
        Ok(result) => judge(&result, Some(server.committed(planted.fault))),
    }
}

/// A real server, as `options` has the reference server; ended by the end of its input.
struct Real {
    process: Child,
    address: SocketAddr,
}

impl Real {
    fn start(planted: Planted, seed: u64, log: &Path) -> Result<Self, Box<dyn Error>> {
        let hold = Options::default().fault_hold.as_millis().to_string();
        let mut process = Command::new(format!("{ROOT}/scripts/with-triton"))
            .args(["--shape", "1x4", "--idle-limit-ms", "250", "--execute-delay-ms", "1"])
            .args(["--fault", &planted.to_string(), "--fault-seed", &seed.to_string(), "--fault-hold-ms", &hold])
            .args(["--time-limit", SERVER_SECONDS, "--log"])
            .arg(log)
            .args(["--", "sh", "-c", "echo $TRITON_GRPC; read line || true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().ok_or("no pipe")?).read_line(&mut address)?;
        let address = address.trim().parse().map_err(|_| "with-triton starts no server");
        match address {
            Ok(address) => Ok(Self { process, address }),
            Err(error) => {
                process.wait()?;
                Err(error.into())
            }
        }
    }

    /// Ends it; whether its time was up before.
    fn stop(mut self) -> Result<bool, Box<dyn Error>> {
        drop(self.process.stdin.take());
        Ok(self.process.wait()?.code() == Some(TIME_IS_UP))
    }
}

fn test_native(planted: Planted, seed: u64) -> Result<Outcome, Box<dyn Error>> {
    let folder = TempDir::new()?;
    let log = folder.path().join("server.log");
    let server = Real::start(planted, seed, &log)?;
    let result = stress(server.address, planted.fault, seed);
    let time_is_up = server.stop()?;
    // A server that goes in good order tells how often its models did it.
    let told = format!("model '{}': planted fault {}: committed ", model(planted.fault), planted.fault);
    let log = fs::read_to_string(log)?;
    let committed = log.lines().find_map(|line| line.split_once(&told)?.1.split(' ').next()?.parse().ok());
    Ok(match result {
        Err(error) => Outcome::CouldNotTest(error),
        Ok(_) if time_is_up => Outcome::CouldNotTest(format!("it took over {SERVER_SECONDS} s")),
        Ok(result) => judge(&result, committed),
    })
}

/// Runs the default scenario until the first violation.
fn stress(address: SocketAddr, fault: Fault, seed: u64) -> Result<RunResult, String> {
    let overrides =
        Overrides { endpoint: Some(address.into()), model: Some(model(fault).to_owned()), ..Overrides::default() };
    let scenario = Scenario::resolve(&Source::default_scenario(), overrides).expect("the built-in scenario");
    let setup = Setup {
        scenario,
        seed: Seed(seed),
        hints: Hints::default(),
        fail_fast: true,
        embedded: false,
        recording: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // The sender stays: a closed channel would bring no interrupts either.
    let (_interrupt, interrupts) = mpsc::channel(1);
    runtime.block_on(run(setup, &mut Silent, interrupts)).map_err(|error| error.to_string())
}

fn judge(result: &RunResult, committed: Option<u64>) -> Outcome {
    let kinds: BTreeSet<_> = result.tally.violations.keys().copied().collect();
    let requests = result.tally.total().requests;
    match (kinds.is_empty(), committed) {
        (false, _) => Outcome::Found { kinds, requests },
        (true, Some(0)) => Outcome::NoChance,
        (true, Some(committed)) => Outcome::Missed { committed, requests },
        (true, None) => Outcome::NotTold { requests },
    }
}

/// The fault once, at the first of the chances that comes up.
fn test_once(place: Place, fault: Fault, seed: u64) -> (Outcome, u64) {
    for chance in CHANCES {
        let outcome = place.test(Planted::once(fault, chance), seed);
        if !matches!(outcome, Outcome::NoChance) {
            return (outcome, chance);
        }
    }
    (Outcome::NoChance, 1)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { kinds, requests } => {
                let kinds: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
                write!(f, "{} after {requests}", kinds.join(", "))
            }
            Self::Missed { committed, requests } => {
                write!(f, "**not found**: happened {} in {requests} requests", counted(*committed, "time"))
            }
            Self::NotTold { requests } => {
                write!(f, "**not found** in {requests} requests; the server did not tell how often it happened")
            }
            Self::NoChance => f.write_str("**not found**: the scenario gives it no chance"),
            Self::CouldNotTest(why) => write!(f, "not testable: {why}"),
        }
    }
}

/// What came of a fault in one place.
struct Found {
    always: Outcome,
    once: Outcome,
    chance: u64,
}

impl Found {
    fn test(place: Place, fault: Fault, seed: u64) -> Self {
        eprintln!("{fault} ({place:?})");
        let always = place.test(Planted::always(fault), seed);
        let (once, chance) = test_once(place, fault, seed);
        Self { always, once, chance }
    }
}

/// All faults that can be planted there, and what came of each.
fn test_all(place: Place, faults: &[Fault], at_a_time: usize, seed: u64) -> BTreeMap<Fault, Found> {
    let faults: Vec<_> = faults.iter().copied().filter(|fault| place.has(*fault)).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.max(1) {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Relaxed)).copied() {
                    let of_fault = Found::test(place, fault, seed);
                    found.lock().expect("no thread panics with it").insert(fault, of_fault);
                }
            });
        }
    });
    found.into_inner().expect("all threads are done")
}

fn count(found: &BTreeMap<Fault, Found>) -> String {
    let is_found = |outcome: &Outcome| matches!(outcome, Outcome::Found { .. });
    let always = found.values().filter(|found| is_found(&found.always)).count();
    let once = found.values().filter(|found| is_found(&found.once)).count();
    format!("{always} of {} where the fault is always there, {once} where it happens once", found.len())
}

/// The cells of one place.
fn cells(found: Option<&Found>) -> String {
    found.map_or_else(|| "| |".to_owned(), |found| format!("| {} | @{}: {} |", found.always, found.chance, found.once))
}

fn main() {
    let args = Args::parse();
    let faults: Vec<_> =
        Fault::TABLE.iter().map(|info| info.fault).filter(|fault| fault.info().name.contains(&args.only)).collect();
    let reference = test_all(Place::Reference, &faults, args.at_a_time, args.random_seed);
    let native = test_all(Place::Native, &faults, args.real_at_a_time, args.random_seed);
    println!("# What the tool finds\n");
    println!(
        "Every fault that can be planted, always and exactly once, against the default scenario (`-r {}`), ended at the first \
         violation: in the reference server and, where a model can commit it, in the native models on tritonserver 24.10. \
         Written by `scripts/detection`; the number of requests depends a little on timing.\n",
        args.random_seed
    );
    println!("Found in the reference server: {}.\n", count(&reference));
    println!("Found on tritonserver: {}.\n", count(&native));
    let mut group = "";
    for fault in &faults {
        let info = fault.info();
        if group != fault.group() {
            group = fault.group();
            println!("\n## {}{} faults\n", group[..1].to_uppercase(), &group[1..]);
            println!(
                "| fault | what the server does | stands for | like | reference server, always: called, after requests | once \
                 | tritonserver, always | once |"
            );
            println!("|---|---|---|---|---|---|---|---|");
        }
        let both = [cells(reference.get(fault)), cells(native.get(fault))];
        println!(
            "| `{}` | {} | {} | {} {}{}",
            info.name,
            info.does,
            info.class,
            info.resembles,
            both[0].trim_end_matches('|'),
            both[1]
        );
    }
    println!("\nFaults of the implicit state were planted in `implicit_sequence_int32`, those of END and CORRID in");
    println!(
        "`oldest_sequence_int32`, all others in the scenario's own `custom_sequence_int32`. Native models compare what their"
    );
    println!(
        "controls say with what the request says, and answer a difference with an error: that is what the control faults are"
    );
    println!("found by on tritonserver.");
}
