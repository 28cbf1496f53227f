//! Plants every fault, always and once with many seeds, in the reference server and, where a model can commit it, in the native
//! models on a real tritonserver, and prints as Markdown whether the tool found it, after how many requests, and whether it named
//! it rightly, beside what a plain checker comes to. `scripts/detection` keeps that in `docs/`.
//!
//! With `--correct N` it runs the same scenarios against correct servers for N requests, and tells what was accused.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod harness;
mod real;
mod smallest;
mod soak;
mod table;

use std::{collections::BTreeMap, env, error::Error, path::PathBuf, process::ExitCode, time::Instant};

use clap::Parser;
use rand::RngExt as _;
use reference::{Fault, Planted};
use workload::seed::Seed;

use harness::{
    for_each, meant,
    rows::{ROWS, Row, not_found_because},
    trial::{Outcome, chance, in_reference, once},
};
use smallest::smallest;
use table::{BuiltIn, Of, Paired, Table};

/// With so many seeds a built-in scenario is tried that finds nothing.
const SEEDS_MAX: u64 = 4;

/// Print a table of what the tool finds.
#[derive(Debug, Parser)]
struct Args {
    /// Runs at a time; most of a run is waiting
    #[arg(long, default_value_t = 6)]
    at_a_time: usize,
    /// Seeds with which each fault happens once
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Pairs of faults
    #[arg(long, default_value_t = 100)]
    pairs: usize,
    /// Only faults with this in their names
    #[arg(long, default_value = "")]
    only: String,
    /// Leave the real tritonserver out
    #[arg(long)]
    without_real: bool,
    /// Run correct servers for so many requests, in place of the table
    #[arg(long)]
    correct: Option<u64>,
    /// The correct server is the real tritonserver
    #[arg(long, requires = "correct")]
    real: bool,
    /// The first seed of the runs against correct servers
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    match args.correct {
        Some(requests) => correct(&args, requests),
        None => detect(&args),
    }
}

/// Runs correct servers, and says what was accused.
fn correct(args: &Args, requests: u64) -> Result<ExitCode, Box<dyn Error>> {
    let folder = tempfile::TempDir::new()?;
    let server = if args.real { Some(real::Real::start(None, &folder.path().join("log"))?) } else { None };
    let soaked = soak::soak(requests, args.first_seed, args.at_a_time, server.as_ref().map(|server| server.address));
    if let Some(server) = server {
        server.stop()?;
    }
    println!("{}", soaked.told());
    Ok(ExitCode::from(u8::from(!soaked.accused.is_empty() || !soaked.failed.is_empty())))
}

fn detect(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let began = Instant::now();
    let rows: Vec<_> = ROWS.iter().filter(|row| row.fault.name().contains(&args.only)).copied().collect();
    eprintln!("the reference server: {} faults, always and with {} seeds once", rows.len(), args.seeds);
    let reference = in_the_reference(&rows, args);
    eprintln!("{} s; the smallest counterexamples", began.elapsed().as_secs());
    let smallest = smallest_of_all(&rows, &reference, args.at_a_time);
    eprintln!("{} s; pairs", began.elapsed().as_secs());
    let pairs = pairs(&rows, args);
    eprintln!("{} s; the built-in scenarios", began.elapsed().as_secs());
    let built_in = in_built_in_scenarios(args);
    let real_rows = if args.without_real { Vec::new() } else { real::rows(&args.only) };
    eprintln!("{} s; tritonserver", began.elapsed().as_secs());
    let real = in_tritonserver(&real_rows, args)?;
    let table =
        Table { rows: &rows, reference, real, smallest, pairs, built_in, seeds: args.seeds, took: began.elapsed() };
    print!("{}", table.markdown());
    Ok(ExitCode::SUCCESS)
}

/// What came of each fault.
type Outcomes = BTreeMap<Fault, Of>;

fn in_the_reference(rows: &[Row], args: &Args) -> Outcomes {
    // What is not to be found need not be looked for so often.
    let seeds = |row: &Row| if not_found_because(row.fault, false).is_some() { args.seeds.min(2) } else { args.seeds };
    let runs: Vec<_> = rows.iter().flat_map(|row| (0..=seeds(row)).map(move |seed| (*row, seed))).collect();
    let done = for_each(&runs, args.at_a_time, |(row, seed)| match seed {
        0 => in_reference(row, &[Planted::always(row.fault)], 1),
        _ => once(row, *seed, in_reference).1,
    });
    let mut all = Outcomes::new();
    for ((row, seed), outcome) in runs.iter().zip(done) {
        if outcome.found().is_some() && !outcome.is_named_rightly(&[Planted::always(row.fault)]) {
            eprintln!("{}, seed {seed}, is not named rightly: {}", row.fault.name(), outcome.told());
        }
        gather(&mut all, row.fault, *seed == 0, outcome);
    }
    all
}

fn gather(all: &mut Outcomes, fault: Fault, always: bool, outcome: Outcome) {
    let of = all.entry(fault).or_default();
    if always {
        of.always = Some(outcome);
    } else {
        of.once.push(outcome);
    }
}

fn in_tritonserver(rows: &[Row], args: &Args) -> Result<Outcomes, Box<dyn Error>> {
    let trials = real::trials(rows, args.seeds);
    let mut all = Outcomes::new();
    if !trials.is_empty() {
        for (trial, outcome) in trials.iter().zip(real::run_all(&trials, args.at_a_time)?) {
            gather(&mut all, trial.row.fault, trial.always, outcome);
        }
    }
    Ok(all)
}

fn smallest_of_all(rows: &[Row], found: &Outcomes, at_a_time: usize) -> BTreeMap<Fault, (usize, bool)> {
    let small = for_each(rows, at_a_time, |row| {
        found.get(&row.fault)?.always.as_ref()?.found()?;
        smallest(row, 1)
    });
    rows.iter().map(|row| row.fault).zip(small).filter_map(|(fault, small)| Some((fault, small?))).collect()
}

/// The built-in scenarios with the faults that they are meant for, each always there; some take a race that not every run has.
fn in_built_in_scenarios(args: &Args) -> Vec<BuiltIn> {
    let meant: Vec<_> = meant::all().into_iter().filter(|meant| meant.row.fault.name().contains(&args.only)).collect();
    let outcomes = for_each(&meant, args.at_a_time, |meant| {
        (1..=SEEDS_MAX).map(|seed| meant.run(true, seed, program())).find(Outcome::is_noticed)
    });
    meant.into_iter().zip(outcomes).map(|(meant, outcome)| BuiltIn { meant, outcome }).collect()
}

/// The tool itself, which is built beside this.
fn program() -> Option<PathBuf> {
    let tool = env::current_exe().ok()?.parent()?.with_file_name("sequence-stress");
    tool.is_file().then_some(tool)
}

/// Two faults that show in the same scenario and model, each once, as a generator picks them.
fn pairs(rows: &[Row], args: &Args) -> Vec<Paired> {
    let findable: Vec<_> = rows.iter().filter(|row| not_found_because(row.fault, false).is_none()).collect();
    let goes_with = |one: &Row, other: &Row| {
        (one.scene, one.model, one.execution_ms) == (other.scene, other.model, other.execution_ms)
    };
    let mut all: Vec<_> = (0..findable.len())
        .flat_map(|one| (0..one).map(move |other| (one, other)))
        .map(|(one, other)| (findable[one], findable[other]))
        .filter(|(one, other)| goes_with(one, other))
        .collect();
    let mut generator = Seed(42).generator(0);
    let picked: Vec<_> = (0..args.pairs.min(all.len()))
        .map(|_| all.swap_remove(generator.random_range(0..all.len())))
        .zip(1..)
        .collect();
    for_each(&picked, args.at_a_time, |((one, other), seed)| {
        let planted = [one, other].map(|row| Planted::once(row.fault, chance(row, *seed)));
        Paired { faults: planted, outcome: in_reference(one, &planted, *seed) }
    })
}
