//! `sequence-stress search`: runs that are drawn, each with what the ones before it have reached in mind.

mod live;
mod simulated;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use self::{live::Live, simulated::Simulated};
use super::{
    Failure, WRONG_INPUT,
    output::{Files, ResultFile, check_different, check_history_file, print, print_beside, say_error},
    prepare::spelled,
    seed_from_the_clock,
    simulate::{interruptible, say_unexplained, show},
};
use crate::{
    check::check_by,
    cli::{FileArgs, ResultArgs, SearchArgs},
    report::{BrokenOff, CoverageRow, SearchResult, Summary, counted},
    search::{Recipe, Retraced, Search, Terms},
    simulate::Plan,
};
use oracle::{ViolationKind, golden::Golden};
use reference::{ServerSetup, transitions::Pair};
use workload::seed::Seed;

/// More than a search writes that has reached each pair there is.
const CORPUS_BYTES_MAX: u64 = 256 << 20;
/// How often what was learnt is written while the search goes on.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// So many drawn runs one after the other that do not suit the server are no chance.
const UNSUITED_MAX: u32 = 1000;

/// What holds the runs of a search.
trait Holding {
    /// Holds a run; the search knows of so many others.
    fn hold(&mut self, recipe: &Recipe, number: u64) -> Result<Held, Failure>;
    /// The first run with a violation, and how the server was, where that is known.
    fn first(&self) -> Option<Result<(Summary, Option<ServerSetup>), String>>;
    /// Whether a violation may have left something behind for the runs after it.
    fn ends_with_a_violation(&self) -> bool;
}

/// What came of a run.
enum Held {
    Run(One),
    /// The server cannot do it, for this reason.
    Unsuited(String),
    Interrupted,
}

/// A run.
struct One {
    requests: u64,
    /// What its server went through, where that is known.
    pairs: Option<BTreeSet<Pair>>,
    /// How many violations of each kind it has.
    violations: Vec<(ViolationKind, u64)>,
    /// Whether it was valid, where it has no violation.
    is_valid: bool,
}

/// Where the search leaves what it found.
struct Outputs {
    json: Option<ResultFile>,
    failure: Files,
    corpus: Option<ResultFile>,
}

/// Draws runs and holds them, and returns the exit code.
pub(super) fn search(args: &SearchArgs) -> Result<u8, Failure> {
    Plan::check_faults(if args.simulated { &args.endpoint.server.scheduler.fault } else { &[] })
        .map_err(Failure::wrong_input)?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    let terms = Terms { without: args.without.iter().copied().collect(), reloads: args.reloads, ..Terms::default() };
    terms.check().map_err(|why| Failure::wrong_input(format!("--without: {why}")))?;
    let outputs = outputs(args).map_err(Failure::wrong_input)?;
    let saw_violation = Arc::<AtomicBool>::default();
    interruptible(Arc::clone(&saw_violation), move |interrupted| {
        let its = (args, seed, outputs, &*saw_violation);
        if args.simulated {
            work(its, interrupted, Search::new(seed, terms), Simulated::new(args, seed, interrupted), None)
        } else {
            let live = Live::begin(args, seed, interrupted, &saw_violation)?;
            let terms = Terms { given_idle: live.idle_limit(), ..terms };
            let (search, golden) = (Search::new(seed, terms), live.golden());
            work(its, interrupted, search, live, golden.as_ref())
        }
    })
}

fn outputs(args: &SearchArgs) -> Result<Outputs, String> {
    let files = FileArgs { results: ResultArgs::default(), failure: args.failure.clone() };
    let named = [("corpus", &args.corpus), ("json", &args.json), ("history", &args.history)].into_iter();
    let named = named.filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    check_different(named.chain(files.named()).chain(args.expect.files()))?;
    args.history.as_deref().map(check_history_file).transpose()?;
    let file =
        |flag, what, path: &Option<_>| path.as_deref().map(|path| ResultFile::check(flag, what, path)).transpose();
    Ok(Outputs {
        json: file("json", "the result", &args.json)?,
        corpus: file("corpus", "the corpus", &args.corpus)?,
        failure: Files::check(&files)?,
    })
}

/// Searches, and returns the exit code.
fn work(
    (args, seed, outputs, saw_violation): (&SearchArgs, Seed, Outputs, &AtomicBool),
    interrupted: &AtomicBool,
    mut search: Search,
    mut holding: impl Holding,
    golden: Option<&Arc<Golden>>,
) -> Result<u8, Failure> {
    args.corpus.as_deref().map(|path| take_in(path, &mut search)).transpose().map_err(Failure::wrong_input)?;
    for path in &args.known {
        let pairs = retraced(path, golden).map_err(|why| {
            Failure::wrong_input(format!("cannot tell from the history '{}' what was reached: {why}", path.display()))
        })?;
        let new = search.know(&pairs) as u64;
        if !args.quiet {
            let all = counted(pairs.len() as u64, "pair");
            print(|out| writeln!(out, "{} reached {all}, {new} of them new", path.display()));
        }
    }
    if !args.quiet {
        let most = (args.most() < u64::MAX).then(|| counted(args.most(), "run"));
        let limit = args.duration.map(|limit| format!("for {}", spelled(limit)));
        let limits = most.into_iter().chain(limit).collect::<Vec<_>>().join(", ");
        print(|out| {
            writeln!(out, "search with seed {seed}: {limits}")?;
            CoverageRow::write_head(out)
        });
    }
    let mut result = SearchResult::new(seed, args.simulated);
    let ended = hold(args, &mut search, &mut holding, &mut result, (&outputs, interrupted, saw_violation));
    result.broken_off = match &ended {
        Err(_) => Some(BrokenOff::NotHeld),
        Ok(()) => interrupted.load(Relaxed).then_some(BrokenOff::Interrupted),
    };
    let code = conclude(args, &mut result, &holding, &search, &outputs);
    // What was found counts for more than a run that cannot be held.
    match ended {
        Err(problem) if code == 1 => {
            say_error(&problem.problem);
            Ok(code)
        }
        Err(problem) => Err(problem),
        Ok(()) => Ok(code),
    }
}

/// Takes in what a file has learnt, if it is there.
fn take_in(path: &Path, search: &mut Search) -> Result<(), String> {
    let Some(old) = std::fs::metadata(path).ok().filter(|its| its.is_file() && its.len() > 0) else { return Ok(()) };
    let cannot = |why: String| format!("cannot go on from '{}': {why}; name another file", path.display());
    if old.len() > CORPUS_BYTES_MAX {
        return Err(cannot(format!("it has over {} MiB", CORPUS_BYTES_MAX >> 20)));
    }
    let bytes = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
    search.take_in(&bytes).map_err(cannot)
}

/// What the server of a run went through, by the run's history.
fn retraced(path: &Path, golden: Option<&Arc<Golden>>) -> Result<BTreeSet<Pair>, String> {
    let mut retraced = Retraced::default();
    let checked = check_by(golden, path, &mut retraced).map_err(|damage| damage.to_string())?;
    match checked.damage {
        Some(damage) => Err(damage.to_string()),
        None => retraced.pairs(),
    }
}

/// Draws runs and holds them until the search is over. An error is why a run could not be held.
fn hold(
    args: &SearchArgs,
    search: &mut Search,
    holding: &mut impl Holding,
    result: &mut SearchResult,
    (outputs, interrupted, saw_violation): (&Outputs, &AtomicBool, &AtomicBool),
) -> Result<(), Failure> {
    let (began, mut written, mut unsuited) = (Instant::now(), Instant::now(), 0);
    let is_over = |result: &SearchResult| {
        let is_late = args.duration.is_some_and(|limit| began.elapsed() >= limit);
        result.runs >= args.most() || is_late || interrupted.load(Relaxed)
    };
    while !is_over(result) {
        let recipe = search.draw();
        let one = match holding.hold(&recipe, search.estimate().runs)? {
            Held::Run(one) => one,
            Held::Interrupted => break,
            Held::Unsuited(why) if unsuited == UNSUITED_MAX => {
                return Err(Failure::could_not_test(format!("none of {unsuited} drawn runs suits the server: {why}")));
            }
            Held::Unsuited(_) => {
                unsuited += 1;
                continue;
            }
        };
        unsuited = 0;
        result.runs += 1;
        result.requests += one.requests;
        result.unknown += u64::from(!one.is_valid && one.violations.is_empty());
        let is_violating = !one.violations.is_empty();
        if is_violating {
            result.violating += 1;
            saw_violation.store(true, Relaxed);
            if !args.quiet {
                let kinds: Vec<_> = one.violations.iter().map(|(kind, _)| kind.to_string()).collect();
                print(|out| writeln!(out, "run {}: {}", result.runs, kinds.join(", ")));
            }
        }
        for (kind, count) in one.violations {
            *result.violations_by_kind.entry(kind).or_default() += count;
        }
        // A run of which nothing is known is one all the same: the next has another number.
        search.learn(recipe, &one.pairs.unwrap_or_default());
        if written.elapsed() >= WRITTEN_EVERY {
            written = Instant::now();
            if let Some(Err(problem)) = outputs.corpus.as_ref().map(|file| file.write(&search.to_json())) {
                say_error(&problem);
            }
        }
        let row = result.coverage.add(began.elapsed(), result.requests, search.estimate());
        let ends = is_violating && (args.fail_fast || holding.ends_with_a_violation());
        if !args.quiet && (result.runs.is_power_of_two() || ends || is_over(result)) {
            print(|out| row.write(out));
        }
        if ends {
            break;
        }
    }
    Ok(())
}

/// Shows and writes what was found, and returns the exit code.
fn conclude(
    args: &SearchArgs,
    result: &mut SearchResult,
    holding: &impl Holding,
    search: &Search,
    outputs: &Outputs,
) -> u8 {
    match holding.first() {
        Some(Ok((summary, server))) => {
            show("The first run with a violation", &summary, server.as_ref(), &outputs.failure, args.quiet);
            result.first = Some(Box::new(summary));
        }
        Some(Err(why)) => say_unexplained(&why),
        None => {
            outputs.failure.leave_failure();
            if let Some(path) = args.history.as_deref().filter(|path| path.exists()) {
                say_error(&format!(
                    "no violation was found: {} is not written; the one that is there is from before",
                    path.display()
                ));
            }
        }
    }
    print(|out| result.write_verdict(out));
    print_beside(|out| writeln!(out, "{} sent", counted(result.requests, "request")));
    let code = result.exit_code();
    let json = outputs.json.as_ref().map(|file| file.write(&result.to_json()));
    let corpus = outputs.corpus.as_ref().map(|file| file.write(&search.to_json()));
    let problems: Vec<_> = json.into_iter().chain(corpus).filter_map(Result::err).collect();
    for problem in &problems {
        say_error(problem);
    }
    // What was found counts for more than a file that cannot be written.
    if problems.is_empty() || code == 1 { code } else { WRONG_INPUT }
}
