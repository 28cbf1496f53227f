//! `sequence-stress --find-limit`: runs at one load after the other, until it is known how much a server takes.

use std::{
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    Failure as CommandFailure, WRONG_INPUT, github,
    golden::expected,
    metrics::{Exported, metered},
    output::{ResultFile, check_different, print, say_error, say_interrupted},
    prepare::{check_measured, load_words, planted_faults, replay_line, server_memory, setup, start_server},
    progress::Display,
    ranks::Party,
    resolve, runtime,
    stress::interrupts,
};
use crate::{
    cli::{StressArgs, with_hints},
    limit::{Load, Range, Search, Trial},
    preflight::Preflight,
    report::{
        Ended, Extent, Format, LimitResult, Summary, to_junit, write_limit_header, write_preflight, write_ranks,
        write_text, write_trial,
    },
    run::{Observer, Progress, RunError, Setup},
};
use oracle::{Violation, golden::Golden};
use reference::Server;
use workload::{
    scenario::{Scenario, Source},
    seed::Seed,
    share::{Share, reserved},
};

/// For how long iterations begin in each trial, where no flag says it.
const LASTS: NonZeroU64 = NonZeroU64::new(10).expect("not zero");
/// A shorter trial says nothing of a backlog.
const LASTS_LEAST: u64 = 4;

/// Searches for the limit and returns the exit code.
pub(super) fn find_limit(args: &StressArgs, range: Range, party: Option<&Party>) -> Result<u8, CommandFailure> {
    let lasts = args.duration.unwrap_or(LASTS);
    if lasts.get() < LASTS_LEAST {
        return Err(CommandFailure::wrong_input(format!(
            "--find-limit needs trials of {LASTS_LEAST} s or more: give -d {LASTS_LEAST}s, or leave -d out for 10 s"
        )));
    }
    let loads = range.loads();
    let lowest = at(args, range.of, loads[0], lasts)?;
    let (source, scenario, seed) = resolve(&lowest.plan, lowest.overrides())?;
    let has_threshold = !scenario.thresholds().is_empty() || scenario.limits.response_ms.is_some();
    if range.of == Load::Workers && !has_threshold {
        return Err(CommandFailure::wrong_input(format!(
            "--find-limit {range} needs a threshold (--fail-if 'step.p99 > 50ms'): more workers only make a server slower"
        )));
    }
    check_different(args.files.named().chain(args.expect.files())).map_err(CommandFailure::wrong_input)?;
    let files = files(args).map_err(CommandFailure::wrong_input)?;
    for note in args.endpoint.check_server(&scenario.target.model).map_err(CommandFailure::wrong_input)? {
        say_error(&note);
    }
    let exported = Exported::start(&args.metrics)?;
    let server = args.endpoint.embedded.then(|| start_server(&args.endpoint, seed)).transpose()?;
    let golden = expected(&args.expect, &scenario, &args.endpoint, scenario.longest())?;
    let mut searching = Searching {
        args,
        party,
        range,
        lasts,
        source,
        seed,
        server,
        golden,
        replay: String::new(),
        trials: Vec::new(),
        exported,
        saw_violation: Arc::default(),
    };
    let (search, ended) = searching.search(Search::among(loads))?;
    let result = LimitResult {
        range,
        scenario,
        scenario_name: searching.source.name().to_owned(),
        seed,
        lasts: Duration::from_secs(lasts.get()),
        replay: searching.replay,
        trials: searching.trials,
        bracket: search.bracket(),
        ended,
    };
    print(|out| result.write_end(out));
    github::show(|| result.written());
    let mut code = result.exit_code();
    for (format, file) in files {
        let bytes = match format {
            Format::Csv => result.to_csv(),
            Format::Html => result.to_html(),
            Format::Junit => to_junit(&[result.written()]),
            Format::Json | Format::HdrLog => result.to_json(),
        };
        if let Err(problem) = file.write(&bytes) {
            say_error(&problem);
            // What was found counts for more than a file that cannot be written.
            code = if code == 1 { code } else { WRONG_INPUT };
        }
    }
    searching.exported.finish();
    Ok(code)
}

/// The files of a search.
fn files(args: &StressArgs) -> Result<Vec<(Format, ResultFile)>, String> {
    let mut files = Vec::new();
    for (format, path) in &args.files.results.0 {
        if *format == Format::HdrLog {
            return Err("--hdr-log is of one run: --find-limit has --json, --csv, --junit and --html".to_owned());
        }
        files.push((*format, ResultFile::check(format.name(), "the trials", path)?));
    }
    Ok(files)
}

/// The flags of a run at this load.
fn at(args: &StressArgs, of: Load, load: f64, lasts: NonZeroU64) -> Result<StressArgs, CommandFailure> {
    let mut args = StressArgs { find_limit: None, duration: Some(lasts), fail_fast: true, ..args.clone() };
    match of {
        Load::Rate => args.pacing.rate = Some(format!("{load}/s").parse().map_err(CommandFailure::wrong_input)?),
        Load::Workers => {
            args.plan.concurrency = Some(format!("{load}").parse().map_err(CommandFailure::wrong_input)?);
        }
    }
    Ok(args)
}

struct Searching<'a> {
    args: &'a StressArgs,
    /// The other ranks, where there are some.
    party: Option<&'a Party>,
    range: Range,
    lasts: NonZeroU64,
    source: Source,
    seed: Seed,
    /// The one in this process, which all trials meet.
    server: Option<Server>,
    golden: Option<Arc<Golden>>,
    replay: String,
    trials: Vec<Trial>,
    exported: Exported,
    saw_violation: Arc<AtomicBool>,
}

impl Searching<'_> {
    /// Makes one trial after the other.
    fn search(&mut self, mut search: Search) -> Result<(Search, Ended), CommandFailure> {
        while let Some(load) = search.next() {
            let summary = match self.trial(load) {
                Ok(summary) => summary,
                // Where nothing was tried there is nothing to tell but that.
                Err(failure) if self.trials.is_empty() => return Err(failure),
                Err(failure) if failure.exit_code == super::UNKNOWN => return Ok((search, Ended::Interrupted)),
                Err(failure) => return Ok((search, Ended::NotTested(failure.problem))),
            };
            if summary.result.interrupted.0 {
                return Ok((search, Ended::Interrupted));
            }
            if let Some((rank, why)) = summary.result.lost_rank() {
                return Ok((search, Ended::NotTested(format!("rank {rank} was lost: {why}"))));
            }
            if let Some(found) = summary.result.thresholds.iter().find(|found| !found.measured) {
                let load = self.range.of.shown(load);
                let why = format!("the threshold '{}' was not measured at {load}", found.threshold);
                return Ok((search, Ended::NotMeasured(why)));
            }
            let trial = Trial::of(load, &summary.scenario, &summary.result, Duration::from_secs(self.lasts.get()));
            let is_sustained = trial.is_sustained();
            let is_excused = trial.excuses(&summary.result.violations);
            if !self.args.quiet {
                print(|out| write_trial(self.range.of, &trial, out));
            }
            self.trials.push(trial);
            if !is_excused {
                print(|out| write_text(&summary, self.args.extent(), out));
                return Ok((search, Ended::Violation(Box::new(summary))));
            }
            search.tell(load, is_sustained);
        }
        Ok((search, Ended::Found))
    }

    /// A run at this load. Its end is when every response has come and the slots are free, so the next one meets a server without load.
    fn trial(&mut self, load: f64) -> Result<Summary, CommandFailure> {
        let Self { source, server, .. } = self;
        let args = &at(self.args, self.range.of, load, self.lasts)?;
        let mut scenario = Scenario::resolve(source, args.overrides())?;
        if let Some(party) = self.party {
            scenario = party.fit(scenario)?;
        }
        if let Some(server) = server {
            scenario.target.embed(server.address, server.http);
            scenario.target.metrics = Some(server.metrics.into());
        }
        if let Some(golden) = self.golden.as_ref().filter(|_| args.endpoint.model.is_none()) {
            scenario.target.model.clone_from(&golden.identity.model);
        }
        // Other choices at each trial, so that chance does not favour a load each time.
        let seed = Seed(self.seed.0.wrapping_add(self.trials.len() as u64));
        let words = load_words(args, &scenario);
        let replay = replay_line(&args.endpoint, source, &words, seed, &scenario.target);
        let setup = Setup {
            fail_fast: args.fail_fast,
            server_memory: server_memory(&args.endpoint, &scenario.target),
            golden: self.golden.clone(),
            pace: args.expect.pace,
            share: self.party.map_or(Share::WHOLE, Party::share),
            lead: self.party.map(|party| party.lead(source.name(), &replay)),
            ..setup(&args.endpoint, server.as_ref(), scenario.clone(), seed)
        };
        check_measured(&setup)?;
        let asked_for = setup.clone();
        let mut onlooker = Onlooker {
            display: Display::new(args.quiet, false),
            is_first: self.trials.is_empty() && !args.quiet,
            trial: format!("trial {}, {}: ", self.trials.len() + 1, self.range.of.shown(load)),
            header: (self.range, Duration::from_secs(self.lasts.get())),
            of: (scenario.clone(), source.name().to_owned(), seed),
            ranks: self.party.map(|party| (party.share().of.get(), reserved(&scenario))),
            saw_violation: Arc::clone(&self.saw_violation),
        };
        let ended = runtime()?.block_on(async {
            let interrupts = interrupts(Arc::clone(&self.saw_violation))?;
            let ended = metered(self.exported.metrics(), source.name(), setup, &mut onlooker, interrupts).await;
            ended.map_err(|error: RunError| CommandFailure::of_run(error, &scenario.target.endpoint))
        });
        onlooker.display.finish();
        let result = ended?;
        if let Some(party) = self.party {
            party.write(&asked_for, &result);
        }
        let replay = with_hints(&replay, &result.preflight.told);
        if self.replay.is_empty() {
            let words = load_words(self.args, &scenario);
            let line = replay_line(&args.endpoint, source, &words, self.seed, &scenario.target);
            self.replay = with_hints(&line, &result.preflight.told);
        }
        let embedded = self.server.as_ref().map(|server| planted_faults(&args.endpoint, server, &result));
        Ok(Summary { scenario, scenario_name: self.source.name().to_owned(), seed, replay, embedded, result })
    }
}

/// Shows a trial to a person while it goes on.
struct Onlooker {
    display: Display,
    /// Whether the model and the head of the table are still to be told.
    is_first: bool,
    /// Which one it is, in words.
    trial: String,
    header: (Range, Duration),
    of: (Scenario, String, Seed),
    /// How many ranks hold it, and which correlation IDs are theirs, where they are several.
    ranks: Option<(u32, [u64; 2])>,
    saw_violation: Arc<AtomicBool>,
}

impl Observer for Onlooker {
    fn found(&mut self, preflight: &Preflight) {
        if self.is_first {
            let (scenario, name, seed) = &self.of;
            let (range, lasts) = &self.header;
            print(|out| {
                write_preflight(scenario, name, *seed, preflight, Extent::Usual, out)?;
                self.ranks.map_or(Ok(()), |(of, ids)| write_ranks(of, ids, out))?;
                write_limit_header(range, *lasts, out)
            });
        }
    }

    fn violation(&mut self, _: &Violation) {
        self.saw_violation.store(true, Relaxed);
    }

    fn progress(&mut self, progress: &Progress) {
        self.display.show(&self.trial, &self.of.0, progress);
    }

    fn trouble(&mut self, what: &str) {
        self.display.suspend(|| say_error(what));
    }

    fn interrupted(&mut self, drain: Duration) {
        self.display.suspend(|| say_interrupted(drain));
    }
}
