//! Plants every fault, always and once with many seeds, in the reference server and, where a model can commit it, in the native
//! models on a real tritonserver, and prints as Markdown whether the tool found it, after how many requests, and whether it named
//! it rightly, beside what a plain checker comes to. `scripts/detection` keeps that in `docs/`.
//!
//! With `--golden` it does that with models without a formula, in the reference server and in the host on tritonserver, where golden
//! outputs judge them. With `--simulated N` it simulates the built-in scenarios with N seeds, for docs/SIMULATION.md. With `--correct N` it runs the same scenarios against correct servers for N requests, and tells what was accused.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod harness;
mod real;
mod searched;
mod silero;
mod simulated;
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
    rows::{MODELS, NOISY, ROWS, Row, golden_rows},
    trial::{Outcome, chance, in_reference, once},
};
use real::{Models, Native};
use silero::Silero;
use smallest::smallest;
use table::{BuiltIn, ByGolden, Of, Paired, Table};

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
    /// The same on the real tritonserver, where that is fewer
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    real_seeds: u64,
    /// Pairs of faults
    #[arg(long, default_value_t = 100)]
    pairs: usize,
    /// Only faults with this in their names
    #[arg(long, default_value = "")]
    only: String,
    /// Leave the real tritonserver out
    #[arg(long)]
    without_real: bool,
    /// Models without a formula, which golden outputs judge
    #[arg(long)]
    golden: bool,
    /// Simulate the built-in scenarios with so many seeds, in place of the table, each fault at one of 1,000 chances
    #[arg(long)]
    simulated: Option<u64>,
    /// After how many requests so many searches find each scheduling fault, in place of the table
    #[arg(long)]
    searched: Option<u64>,
    /// At which share of the chances the fault is committed then
    #[arg(long, default_value_t = 0.000_1, requires = "searched")]
    share: f64,
    /// Run correct servers for so many requests, in place of the table
    #[arg(long)]
    correct: Option<u64>,
    /// The correct server is the real tritonserver
    #[arg(long, requires = "correct", conflicts_with = "golden")]
    real: bool,
    /// The first seed of the runs against correct servers
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    if let Some(seeds) = args.simulated {
        print!("{}", simulated::table(&args.only, seeds, args.at_a_time));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(searches) = args.searched {
        print!("{}", searched::table(&args.only, (searches, args.share), args.at_a_time));
        return Ok(ExitCode::SUCCESS);
    }
    match args.correct {
        Some(requests) => correct(&args, requests),
        None if args.golden => detect_by_golden(&args),
        None => detect(&args),
    }
}

/// Runs correct servers, and says what was accused.
fn correct(args: &Args, requests: u64) -> Result<ExitCode, Box<dyn Error>> {
    let folder = tempfile::TempDir::new()?;
    let log = folder.path().join("log");
    let server = if args.real { Some(real::Real::start(real::of_native_models(), &log)?) } else { None };
    let models = if args.golden { &[NOISY] } else { MODELS };
    let address = server.as_ref().map(|server| server.address);
    let soaked = soak::soak(models, requests, args.first_seed, args.at_a_time, address);
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
    let real_rows = if args.without_real { Vec::new() } else { Native::rows(&args.only) };
    eprintln!("{} s; tritonserver", began.elapsed().as_secs());
    let real = in_tritonserver(Native::new, &real_rows, args)?;
    let table =
        Table { rows: &rows, reference, real, smallest, pairs, built_in, seeds: args.seeds, took: began.elapsed() };
    print!("{}", table.markdown());
    Ok(ExitCode::SUCCESS)
}

fn detect_by_golden(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let began = Instant::now();
    let rows: Vec<_> = golden_rows().into_iter().filter(|row| row.fault.name().contains(&args.only)).collect();
    eprintln!("the reference server: {} faults, always and with {} seeds once", rows.len(), args.seeds);
    let reference = in_the_reference(&rows, args);
    let real_rows = if args.without_real { Vec::new() } else { Silero::rows(&args.only) };
    eprintln!("{} s; tritonserver", began.elapsed().as_secs());
    let real = in_tritonserver(Silero::new, &real_rows, args)?;
    let seeds = [args.seeds, args.seeds.min(args.real_seeds)];
    print!("{}", ByGolden { rows: &rows, reference, real, seeds, took: began.elapsed() }.markdown());
    Ok(ExitCode::SUCCESS)
}

/// What came of each fault.
type Outcomes = BTreeMap<Fault, Of>;

fn in_the_reference(rows: &[Row], args: &Args) -> Outcomes {
    // What is not to be found need not be looked for so often.
    let seeds = |row: &Row| if row.not_found_because(false).is_some() { args.seeds.min(2) } else { args.seeds };
    let runs: Vec<_> = rows.iter().flat_map(|row| (0..=seeds(row)).map(move |seed| (*row, seed))).collect();
    let done = for_each(&runs, args.at_a_time, |(row, seed)| match seed {
        0 => in_reference(row, &[Planted::always(row.fault)], 1),
        _ => once(row, *seed, in_reference).1,
    });
    let mut all = Outcomes::new();
    for ((row, seed), outcome) in runs.iter().zip(done) {
        gather(&mut all, row, *seed, *seed == 0, outcome);
    }
    all
}

fn gather(all: &mut Outcomes, row: &Row, seed: u64, always: bool, outcome: Outcome) {
    if row.not_found_because(always).is_none() && !outcome.is_named_rightly(row, always) {
        let when = if always { "always" } else { "once" };
        eprintln!("{} {when}, seed {seed}, is not named rightly: {}", row.fault, outcome.told());
    }
    let of = all.entry(row.fault).or_insert_with(|| Of { row: *row, always: None, once: Vec::new() });
    if always {
        of.always = Some(outcome);
    } else {
        of.once.push(outcome);
    }
}

fn in_tritonserver<M: Models>(
    models: impl FnOnce() -> real::Result<M>,
    rows: &[Row],
    args: &Args,
) -> Result<Outcomes, Box<dyn Error>> {
    let trials = real::trials(rows, args.seeds.min(args.real_seeds));
    let mut all = Outcomes::new();
    if !trials.is_empty() {
        for (trial, outcome) in trials.iter().zip(real::run_all(&models()?, &trials, args.at_a_time)?) {
            gather(&mut all, &trial.row, trial.seed, trial.always, outcome);
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
    let findable: Vec<_> = rows.iter().filter(|row| row.not_found_because(false).is_none()).collect();
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
        let outcome = in_reference(one, &planted, *seed);
        let is_named_rightly = [one, other].iter().any(|row| outcome.is_named_rightly(row, false));
        Paired { faults: planted, outcome, is_named_rightly }
    })
}
