//! `sequence-stress simulate`: runs in virtual time, many seeds of each scenario.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    Failure, WRONG_INPUT,
    output::{Files, ResultFile, check_different, print, print_beside, say_error},
    runtime,
    stress::interrupts,
};
use crate::{
    cli::{FileArgs, ResultArgs, SimulateArgs, quoted},
    report::{Extent, Pictured, PlantedFault, SimulatedScenario, SimulationResult, Summary, counted, write_text},
    run::cpu_us,
    simulate::{Held, Plan},
};
use reference::ServerSetup;
use workload::{
    scenario::{BUILTIN, Scenario, Source},
    seed::Seed,
};

/// Simulates each seed of each scenario, and returns the exit code.
pub(super) fn simulate(args: &SimulateArgs) -> Result<u8, Failure> {
    let outputs = outputs(args).map_err(Failure::wrong_input)?;
    let plans = plans(args)?;
    let saw_violation = Arc::<AtomicBool>::default();
    interruptible(Arc::clone(&saw_violation), |interrupted| {
        if !args.quiet {
            let of = counted(plans.len() as u64, "scenario");
            print_beside(|out| writeln!(out, "simulating seeds {} of {of}, {} at a time", args.seeds, jobs(args)));
        }
        let result = work(args, &plans, interrupted, &saw_violation);
        Ok(conclude(args, &plans, &result, outputs))
    })
}

/// Does work that an interrupt ends, with what is known by then; a second one ends the process.
pub(super) fn interruptible(
    saw_violation: Arc<AtomicBool>,
    work: impl FnOnce(&AtomicBool) -> Result<u8, Failure> + Send,
) -> Result<u8, Failure> {
    let interrupted = AtomicBool::new(false);
    let runtime = runtime()?;
    let mut interrupts = runtime.block_on(async { interrupts(saw_violation) })?;
    thread::scope(|scope| {
        let (done, mut is_done) = oneshot::channel();
        let interrupted = &interrupted;
        let working = scope.spawn(move || {
            let code = work(interrupted);
            // The receiver lives until then.
            let _ = done.send(());
            code
        });
        // The second interrupt ends the process.
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = &mut is_done => return,
                    Some(()) = interrupts.recv() => interrupted.store(true, Relaxed),
                }
            }
        });
        working.join().expect("no run panics")
    })
}

/// Where the result goes, and the first violation.
type Outputs = (Option<ResultFile>, Files);

fn outputs(args: &SimulateArgs) -> Result<Outputs, String> {
    let files = FileArgs { results: ResultArgs::default(), failure: args.failure.clone() };
    check_different(args.json.iter().map(|path| ("json", path.as_path())).chain(files.named()))?;
    let json = args.json.as_deref().map(|path| ResultFile::check("json", "the result", path)).transpose()?;
    Ok((json, Files::check(&files)?))
}

/// A scenario and what it is called.
struct Named {
    name: String,
    argument: Option<String>,
    plan: Plan,
}

fn plans(args: &SimulateArgs) -> Result<Vec<Named>, Failure> {
    let of_suite = BUILTIN.iter().filter(|builtin| builtin.in_suite).map(|builtin| PathBuf::from(builtin.name));
    let names: Vec<_> = if args.suite { of_suite.collect() } else { args.scenario.clone() };
    let sources = names.iter().map(|name| Source::named(Path::new(name))).collect::<Result<Vec<_>, _>>()?;
    let sources = if sources.is_empty() { vec![Source::default_scenario()] } else { sources };
    let mut plans = Vec::new();
    for source in sources {
        let scenario = Scenario::resolve(&source, args.overrides())?;
        let name = source.name().to_owned();
        if plans.is_empty() {
            for note in args.check_server(&scenario.target.model).map_err(Failure::wrong_input)? {
                say_error(&note);
            }
        }
        match Plan::new(scenario, args.server_setup(Seed(0))) {
            Ok(plan) => {
                let plan = plan.with_fault_seed(args.server.fault_seed.map(Seed));
                plans.push(Named { argument: source.argument(), name, plan });
            }
            Err(why) if args.suite => say_error(&format!("{name} is left out: {why}")),
            Err(why) => return Err(Failure::wrong_input(format!("{name}: {why}"))),
        }
    }
    if plans.is_empty() {
        return Err(Failure::wrong_input("no scenario of the suite can be simulated with these flags"));
    }
    Ok(plans)
}

/// How many seeds are simulated at a time.
fn jobs(args: &SimulateArgs) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    args.jobs.map_or_else(cores, |jobs| usize::try_from(jobs.get()).unwrap_or(usize::MAX))
}

/// So many seeds may be done before one of less is.
const EARLY_MAX: usize = 1000;
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What seeds came to, counted in their order, so that the same is counted for any number of jobs.
struct InOrder {
    simulated: SimulatedScenario,
    /// The seed that is counted next.
    next: u64,
    /// Seeds that were done before one of less.
    early: BTreeMap<u64, Held>,
    /// Whether no more are counted.
    is_over: bool,
}

impl InOrder {
    fn take(&mut self, seed: u64, held: Held, fails_fast: bool) {
        self.early.insert(seed, held);
        while let Some(held) = self.early.remove(&self.next).filter(|_| !self.is_over) {
            self.simulated.add(self.next, &held);
            self.is_over = fails_fast && self.simulated.violating > 0;
            self.next = self.next.saturating_add(1);
        }
    }

    /// An interrupt may have ended seeds before others that are done.
    fn concluded(mut self, fails_fast: bool) -> Self {
        while let Some((seed, held)) = self.early.pop_first().filter(|_| !self.is_over) {
            self.next = seed;
            self.take(seed, held, fails_fast);
        }
        self
    }
}

fn work(
    args: &SimulateArgs,
    plans: &[Named],
    interrupted: &AtomicBool,
    saw_violation: &AtomicBool,
) -> SimulationResult {
    let cpu_before = cpu_us();
    let mut scenarios = Vec::new();
    for of in plans {
        let simulated = SimulatedScenario::new(&of.name, of.plan.faults(), &of.plan.claims());
        let in_order = InOrder { simulated, next: args.seeds.first, early: BTreeMap::new(), is_over: false };
        let in_order = Mutex::new(in_order);
        let lock = || in_order.lock().unwrap_or_else(PoisonError::into_inner);
        let next = AtomicU64::new(0);
        let work = || {
            while !interrupted.load(Relaxed) && !lock().is_over {
                if lock().early.len() > EARLY_MAX {
                    thread::sleep(LOOK_AGAIN);
                    continue;
                }
                let place = next.fetch_add(1, Relaxed);
                let Some(seed) = args.seeds.first.checked_add(place).filter(|seed| *seed <= args.seeds.last) else {
                    return;
                };
                let Some(held) = of.plan.hold_unless(interrupted, Seed(seed), false) else { return };
                let mut in_order = lock();
                in_order.take(seed, held, args.fail_fast);
                saw_violation.fetch_or(in_order.simulated.violating > 0, Relaxed);
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs(args) {
                scope.spawn(work);
            }
        });
        let InOrder { simulated, is_over, .. } =
            in_order.into_inner().unwrap_or_else(PoisonError::into_inner).concluded(args.fail_fast);
        if !args.quiet {
            print(|out| simulated.write(out));
        }
        scenarios.push(simulated);
        if is_over || interrupted.load(Relaxed) {
            break;
        }
    }
    SimulationResult {
        seeds: (args.seeds.first, args.seeds.last),
        scenarios,
        interrupted: interrupted.load(Relaxed),
        cpu: Duration::from_micros(cpu_us().saturating_sub(cpu_before)),
    }
}

/// Shows and writes what was found, and returns the exit code.
fn conclude(args: &SimulateArgs, plans: &[Named], result: &SimulationResult, (json, failure): Outputs) -> u8 {
    if !args.quiet {
        print_beside(|out| result.write_speed(out));
    }
    let mut code = result.exit_code();
    match result.first_violating() {
        Some((place, seed)) => {
            let (of, seed) = (&plans[place], Seed(seed));
            let run = Run {
                plan: &of.plan,
                name: &of.name,
                seed,
                server: args.server_setup(seed),
                replay: replay(args, of, seed),
            };
            match run.explained() {
                Ok(summary) => {
                    let title = format!("Seed {seed} of {}", of.name);
                    show(&title, &summary, Some(&run.server), &failure, args.quiet);
                }
                Err(why) => say_unexplained(&why),
            }
        }
        None => failure.leave_failure(),
    }
    print(|out| result.write_verdict(out));
    if let Some(Err(problem)) = json.map(|file| file.write(&result.to_json())) {
        say_error(&problem);
        // What was found counts for more than a file that cannot be written.
        code = if code == 1 { code } else { WRONG_INPUT };
    }
    code
}

/// A simulated run with a violation.
pub(super) struct Run<'r> {
    pub(super) plan: &'r Plan,
    pub(super) name: &'r str,
    pub(super) seed: Seed,
    pub(super) server: ServerSetup,
    /// The command that finds the same again.
    pub(super) replay: String,
}

/// Shows a run with a violation as the report of a run does, and writes the failure.
pub(super) fn show(title: &str, summary: &Summary, server: Option<&ServerSetup>, failure: &Files, is_quiet: bool) {
    print(|out| {
        writeln!(out, "\n{title}:")?;
        write_text(summary, if is_quiet { Extent::Short } else { Extent::Usual }, out)
    });
    failure.write(summary, &Pictured::default(), server, is_quiet);
}

/// Says that a violation cannot be explained. The violation is known all the same, so the exit code stays.
pub(super) fn say_unexplained(why: &str) {
    say_error(&format!("{why}; it is not explained, and no failure is written"));
}

impl Run<'_> {
    /// Simulates the run once more: all that happened, judged and explained as a history is.
    pub(super) fn explained(&self) -> Result<Summary, String> {
        let Self { plan, name, seed, server, replay } = self;
        let (checked, held) = plan.explain(*seed, (name, replay), server.clone())?;
        let planted = plan.faults().iter().zip(&held.committed);
        let embedded = planted.map(|(planted, committed)| PlantedFault {
            fault: planted.fault.to_string(),
            chances: committed.chances,
            committed: committed.times,
            committed_at_us: Vec::new(),
        });
        Ok(Summary {
            scenario: checked.header.scenario.clone(),
            scenario_name: (*name).to_owned(),
            seed: *seed,
            replay: replay.clone(),
            embedded: Some(embedded.collect()),
            result: checked.result,
        })
    }
}

/// The command line that simulates one seed again.
fn replay(args: &SimulateArgs, of: &Named, seed: Seed) -> String {
    let mut words = vec!["sequence-stress simulate".to_owned(), format!("--seeds {seed}")];
    words.extend(of.argument.iter().map(|scenario| format!("--scenario {}", quoted(scenario))));
    words.extend(args.words(seed));
    words.join(" ")
}
