//! Plants every fault of the reference server, always and once, runs the default scenario against it, and prints as Markdown
//! whether the tool found it, after how many requests, and what it called it. `scripts/detection` keeps that in `docs/`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::{
    collections::BTreeSet,
    fmt,
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
use tokio::sync::mpsc;

/// Chances at which a fault is committed once: the first that comes up in the scenario counts.
const CHANCES: [u64; 4] = [300, 30, 3, 1];

/// Print a table of what the tool finds.
#[derive(Debug, Parser)]
struct Args {
    /// Runs at a time; most of a run is waiting
    #[arg(long, default_value_t = 6)]
    at_a_time: usize,
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

fn test(planted: Planted, seed: u64) -> Outcome {
    let server = Server::start(options(planted, seed)).expect("a free port");
    let scenario = Scenario::resolve(
        &Source::default_scenario(),
        Overrides {
            endpoint: Some(server.address.into()),
            model: Some(model(planted.fault).to_owned()),
            ..Overrides::default()
        },
    );
    let scenario = scenario.expect("the built-in scenario");
    let setup = Setup { scenario, seed: Seed(seed), hints: Hints::default(), fail_fast: true, embedded: true };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // The sender stays: a closed channel would bring no interrupts either.
    let (_interrupt, interrupts) = mpsc::channel(1);
    let result = runtime.block_on(run(setup, &mut Silent, interrupts));
    let committed = server.committed(planted.fault);
    match result {
        Err(error) => Outcome::CouldNotTest(error.to_string()),
        Ok(result) => judge(&result, committed),
    }
}

fn judge(result: &RunResult, committed: u64) -> Outcome {
    let kinds: BTreeSet<_> = result.tally.violations.keys().copied().collect();
    let requests = result.tally.total().requests;
    match (kinds.is_empty(), committed) {
        (false, _) => Outcome::Found { kinds, requests },
        (true, 0) => Outcome::NoChance,
        (true, committed) => Outcome::Missed { committed, requests },
    }
}

/// The fault once, at the first of the chances that comes up.
fn test_once(fault: Fault, seed: u64) -> (Outcome, u64) {
    for chance in CHANCES {
        let outcome = test(Planted::once(fault, chance), seed);
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
            Self::NoChance => f.write_str("**not found**: the scenario gives it no chance"),
            Self::CouldNotTest(why) => write!(f, "not testable: {why}"),
        }
    }
}

struct Row {
    fault: Fault,
    always: Outcome,
    once: Outcome,
    chance: u64,
}

fn rows(args: &Args) -> Vec<Row> {
    let faults: Vec<_> =
        Fault::TABLE.iter().map(|info| info.fault).filter(|fault| fault.info().name.contains(&args.only)).collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..args.at_a_time.max(1) {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Relaxed)).copied() {
                    eprintln!("{fault}");
                    let always = test(Planted::always(fault), args.random_seed);
                    let (once, chance) = test_once(fault, args.random_seed);
                    rows.lock().expect("no thread panics with it").push(Row { fault, always, once, chance });
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("all threads are done");
    rows.sort_by_key(|row| row.fault);
    rows
}

fn main() {
    let args = Args::parse();
    let rows = rows(&args);
    let found = |outcome: &Outcome| matches!(outcome, Outcome::Found { .. });
    println!("# What the tool finds\n");
    println!(
        "Every fault that can be planted in the reference server, always and exactly once, against the default scenario \
         (`-r {}`), ended at the first violation. Written by `scripts/detection`; the number of requests depends a little \
         on timing.\n",
        args.random_seed
    );
    println!(
        "Found: {} of {} where the fault is always there, {} where it happens once.\n",
        rows.iter().filter(|row| found(&row.always)).count(),
        rows.len(),
        rows.iter().filter(|row| found(&row.once)).count()
    );
    let mut group = "";
    for row in &rows {
        let info = row.fault.info();
        if group != row.fault.group() {
            group = row.fault.group();
            println!("\n## {}{} faults\n", group[..1].to_uppercase(), &group[1..]);
            println!("| fault | what the server does | stands for | like | always: called, after requests | once |");
            println!("|---|---|---|---|---|---|");
        }
        println!(
            "| `{}` | {} | {} | {} | {} | @{}: {} |",
            info.name, info.does, info.class, info.resembles, row.always, row.chance, row.once
        );
    }
    println!("\nFaults of the implicit state were planted in `implicit_sequence_int32`, those of END and CORRID in");
    println!("`oldest_sequence_int32`, all others in the scenario's own `custom_sequence_int32`.");
}
