//! `sequence-stress search`: simulated runs that are drawn, each with what the ones before it have reached in mind.

use std::{
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{
    Failure, WRONG_INPUT,
    output::{Files, ResultFile, check_different, print, print_beside, say_error},
    seed_from_the_clock,
    simulate::{Run, interruptible},
};
use crate::{
    cli::{FileArgs, ResultArgs, SearchArgs, quoted},
    report::counted,
    search::Search,
    simulate::Plan,
};
use reference::ServerSetup;
use workload::seed::Seed;

/// More than a search writes that has reached each pair there is.
const CORPUS_BYTES_MAX: u64 = 256 << 20;

/// What the runs of this search came to.
#[derive(Default)]
struct Findings {
    runs: u64,
    violating: u64,
    first: Option<Violating>,
    requests: u64,
}

/// A run with a violation.
struct Violating {
    run: u64,
    plan: Plan,
    seed: Seed,
    server: ServerSetup,
}

/// Draws runs and holds them, and returns the exit code.
pub(super) fn search(args: &SearchArgs) -> Result<u8, Failure> {
    Plan::check_faults(&args.fault).map_err(Failure::wrong_input)?;
    let files = FileArgs { results: ResultArgs::default(), failure: args.failure.clone() };
    check_different(args.corpus.iter().map(|path| ("corpus", path.as_path())).chain(files.named()))
        .map_err(Failure::wrong_input)?;
    let failure = Files::check(&files).map_err(Failure::wrong_input)?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    let mut search = Search::new(seed);
    let corpus = args.corpus.as_deref().map(|path| opened(path, &mut search)).transpose()?;
    let saw_violation = Arc::<AtomicBool>::default();
    interruptible(Arc::clone(&saw_violation), move |interrupted| {
        if !args.quiet {
            print(|out| {
                writeln!(out, "search with seed {seed}: {}", counted(args.runs.get(), "run"))?;
                writeln!(
                    out,
                    "{:>8} {:>12} {:>8} {:>16} {:>18}",
                    "runs", "requests", "pairs", "new in next run", "unseen, at least"
                )
            });
        }
        let (result, problem) = hold(args, seed, &mut search, interrupted, &saw_violation);
        let written = corpus.map(|file| file.write(&search.to_json()));
        let why_unknown = match &problem {
            Some(_) => Some("a run could not be held"),
            None => interrupted.load(Relaxed).then_some("interrupted"),
        };
        let code = conclude(args, seed, &search, (&result, why_unknown), &failure);
        if let Some(Err(problem)) = &written {
            say_error(problem);
        }
        // What was found counts for more than a file that cannot be written, or a run that cannot be held.
        match problem {
            _ if code == 1 => Ok(code),
            Some(problem) => Err(problem),
            None => Ok(if matches!(written, Some(Err(_))) { WRONG_INPUT } else { code }),
        }
    })
}

/// Takes in what a file has learnt, if it is there, and makes sure that it can be written.
fn opened(path: &Path, search: &mut Search) -> Result<ResultFile, Failure> {
    let file = ResultFile::check("corpus", "the corpus", path).map_err(Failure::wrong_input)?;
    let old = std::fs::metadata(path).ok().filter(|its| its.is_file() && its.len() > 0);
    if let Some(old) = old {
        let cannot = |why: String| {
            Failure::wrong_input(format!("cannot go on from '{}': {why}; name another file", path.display()))
        };
        if old.len() > CORPUS_BYTES_MAX {
            return Err(cannot(format!("it has over {} MiB", CORPUS_BYTES_MAX >> 20)));
        }
        let bytes = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
        search.take_in(&bytes).map_err(cannot)?;
    }
    Ok(file)
}

fn hold(
    args: &SearchArgs,
    seed: Seed,
    search: &mut Search,
    interrupted: &AtomicBool,
    saw_violation: &AtomicBool,
) -> (Findings, Option<Failure>) {
    let mut result = Findings::default();
    while result.runs < args.runs.get() && !interrupted.load(Relaxed) {
        let recipe = search.draw();
        let drawn = format!("run {} of the search cannot be held", result.runs + 1);
        let cannot = |why: String| Failure::could_not_test(format!("{drawn}: {why}"));
        let server = recipe.server(args.fault.clone());
        let plan = recipe.scenario().map_err(|error| error.to_string());
        let plan = match plan.and_then(|scenario| Plan::new(scenario, server.clone())) {
            Ok(plan) => plan.watched(),
            Err(why) => return (result, Some(cannot(why))),
        };
        let of_run = Seed(seed.0.wrapping_add(search.estimate().runs));
        let Some(held) = plan.hold_unless(interrupted, of_run, false) else { break };
        result.runs += 1;
        result.requests += held.requests;
        if !held.tally.violations.is_empty() {
            result.violating += 1;
            saw_violation.store(true, Relaxed);
            if !args.quiet {
                let kinds: Vec<_> = held.tally.violations.keys().map(ToString::to_string).collect();
                print(|out| writeln!(out, "run {}: {}", result.runs, kinds.join(", ")));
            }
            result.first.get_or_insert(Violating { run: result.runs, plan, seed: of_run, server });
        }
        search.learn(recipe, &held.pairs);
        let is_last = result.runs == args.runs.get() || (args.fail_fast && result.violating > 0);
        if !args.quiet && (result.runs.is_power_of_two() || is_last) {
            write_row(search, result.requests);
        }
        if is_last {
            break;
        }
    }
    (result, None)
}

fn write_row(search: &Search, requests: u64) {
    let estimate = search.estimate();
    let (new, unseen) = (estimate.new_in_next().unwrap_or_default(), estimate.unseen_at_least().unwrap_or_default());
    print(|out| {
        writeln!(out, "{:>8} {requests:>12} {:>8} {new:>16.2} {unseen:>18.0}", estimate.runs, estimate.reached)
    });
}

/// Shows what was found, and returns the exit code.
fn conclude(
    args: &SearchArgs,
    seed: Seed,
    search: &Search,
    (result, why_unknown): (&Findings, Option<&str>),
    failure: &Files,
) -> u8 {
    match &result.first {
        Some(violating) => show(args, seed, violating, failure),
        None => failure.leave_failure(),
    }
    let runs = counted(result.runs, "run");
    let pairs = counted(search.estimate().reached, "pair");
    print(|out| match result.violating {
        0 => match why_unknown {
            Some(why) => {
                writeln!(out, "UNKNOWN: {why}; {runs} had no violation; {pairs} of transitions reached (seed {seed})")
            }
            None => writeln!(out, "VALID: {runs}, no violation; {pairs} of transitions reached (seed {seed})"),
        },
        violating => writeln!(
            out,
            "INVALID: {violating} of {runs} have violations; {pairs} of transitions reached (seed {seed})"
        ),
    });
    print_beside(|out| writeln!(out, "{} sent", counted(result.requests, "request")));
    match result.violating {
        0 if why_unknown.is_some() => 3,
        0 => 0,
        _ => 1,
    }
}

/// Shows a run with a violation, and writes the failure.
fn show(args: &SearchArgs, seed: Seed, violating: &Violating, failure: &Files) {
    let Violating { run, plan, seed: of_run, server } = violating;
    let faults: Vec<_> = args.fault.iter().map(|planted| format!(" --fault {planted}")).collect();
    let replay = match (&args.corpus, &args.failure) {
        (None, _) => format!("sequence-stress search -r {seed} --runs {run}{}", faults.concat()),
        // The corpus is another one by now.
        (Some(_), Some(file)) => format!("sequence-stress replay {}", quoted(&file.display().to_string())),
        (Some(_), None) => "add --failure FILE to a search with a corpus".to_owned(),
    };
    let its = Run { plan, name: "search", seed: *of_run, server: server.clone(), replay };
    its.show(&format!("Run {run} of the search"), failure, args.quiet);
}
