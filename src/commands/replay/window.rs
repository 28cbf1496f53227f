//! `sequence-stress replay --window`: in which gaps a failure fails.

use std::{
    collections::BTreeMap,
    env,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use super::{Stage, TOGETHER};
use crate::{
    cli::quoted,
    commands::{
        Failure as CommandFailure,
        output::{ResultFile, print, say_error},
        prepare::STARTER,
    },
    failure::Failure,
    probe::Accounting,
    report::{WindowEnded, WindowResult, counted, write_gaps},
    run::RunResult,
    window::{Came, Count, Gap, Search, Trial, gaps},
};
use oracle::ViolationKind;

/// How often each length is run where nothing else is asked for.
const RUNS: NonZeroU32 = NonZeroU32::new(10).expect("it is not zero");
/// A failure with more gaps is not small.
const GAPS_MAX: usize = 40;
/// How long after one run the next one begins that goes on at the same time, so that what they send does not make each other late.
const APART: Duration = Duration::from_millis(150);
/// About so many lengths of a gap are tried.
const LENGTHS: u32 = 15;
/// How often a measurement tells where it is.
const TELL_EACH: Duration = Duration::from_secs(10);

/// What the runs of a measurement have shown besides the lengths.
#[derive(Default)]
struct Beside {
    otherwise: BTreeMap<ViolationKind, u32>,
    /// How long the model executed requests, and how many.
    executed: (u64, u64),
}

impl Beside {
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    fn execution_us(&self, failure: &Failure) -> Option<f64> {
        let (ns, requests) = self.executed;
        let measured = (requests > 0).then(|| ns as f64 / requests as f64 / 1000.0);
        let told = || failure.embedded.as_ref().map(|server| server.execution_time.as_micros() as f64);
        measured.or_else(told)
    }
}

impl Stage<'_> {
    /// Measures the gaps of a failure, says what was found, and returns the exit code.
    pub(super) fn window(&mut self, failure: &Failure) -> Result<u8, CommandFailure> {
        let args = self.args;
        let file = args.json.as_deref().map(|path| ResultFile::check("json", "the measurement", path)).transpose();
        let file = file.map_err(CommandFailure::wrong_input)?;
        let gaps = chosen(failure, args.gap).map_err(|problem| {
            CommandFailure::wrong_input(format!("cannot measure the gaps of {}: {problem}", args.file.display()))
        })?;
        if !args.quiet {
            print(|out| write_gaps(&gaps, out));
            if self.is_shared(failure) {
                say_error("the server is the same for all runs: --reload keeps damage of one run from the next ones");
            }
        }
        let began = Instant::now();
        let runs = args.runs.unwrap_or(RUNS).get();
        let mut beside = Beside::default();
        let (before, ended) = self.fails_at_all(failure, runs.saturating_mul(2), began, &mut beside)?;
        if ended.is_none() {
            self.tell_how_long(failure, gaps.len(), runs, began.elapsed() / before.runs.max(1));
        }
        let execution_us = beside.execution_us(failure);
        let mut search = Search::new(gaps.clone(), runs, execution_us, failure.seed);
        let ended = match ended {
            None => self.measure(failure, &gaps, &mut search, began, &mut beside),
            Some(ended) => ended,
        };
        let result = WindowResult {
            kind: failure.kind,
            file: args.file.display().to_string(),
            one_server: self.is_shared(failure),
            server: self.facts.as_ref().and_then(|facts| facts.server.clone()),
            model: failure.scenario.target.model.clone(),
            execution_us: beside.execution_us(failure),
            runs,
            before,
            as_recorded: search.as_recorded(),
            all: search.all(),
            otherwise: beside.otherwise,
            curves: search.curves(),
            took: began.elapsed(),
            ended,
            replay: self.again(),
        };
        print(|out| result.write(!args.quiet, out));
        if let Some(file) = file {
            file.write(&result.to_json()).map_err(CommandFailure::wrong_input)?;
        }
        Ok(result.exit_code())
    }

    /// Says how long the measurement takes where that is longer than it may, and what shortens it.
    fn tell_how_long(&self, failure: &Failure, gaps: usize, runs: u32, each: Duration) {
        let together = if self.may_run_together(failure) { TOGETHER } else { 1 };
        let all = u32::try_from(gaps).unwrap_or(u32::MAX).saturating_mul(LENGTHS).saturating_mul(runs) / together;
        let (takes, limit) = (each.saturating_mul(all), self.args.time_limit);
        if !self.args.quiet && takes > limit {
            let minutes = |time: Duration| time.as_secs().div_ceil(60);
            say_error(&format!(
                "a run takes {:.1} s, so {} take about {} min, and --time-limit is {} min: measure one gap (--gap N), or with fewer runs (-n)",
                each.as_secs_f64(),
                counted(gaps as u64, "gap"),
                minutes(takes),
                minutes(limit)
            ));
        }
    }

    /// Whether all runs meet the same server, with what the ones before have left in it.
    fn is_shared(&self, failure: &Failure) -> bool {
        !self.args.reload && (failure.embedded.is_none() || !self.args.url.is_empty())
    }

    /// Runs the failure as it is until it fails, at most so often. Returns what ended the measurement, where it ends there.
    fn fails_at_all(
        &mut self,
        failure: &Failure,
        most: u32,
        began: Instant,
        beside: &mut Beside,
    ) -> Result<(Count, Option<WindowEnded>), CommandFailure> {
        let mut count = Count::default();
        while count.runs < most {
            let result = self.run_each(&[failure], Duration::ZERO)?.pop().flatten();
            if self.was_interrupted {
                return Ok((count, Some(WindowEnded::Interrupted)));
            }
            let came = self.came(failure, result.as_ref(), beside);
            count.runs += 1;
            count.failed += u32::from(came == Came::Failed);
            count.otherwise += u32::from(came == Came::Otherwise);
            if came == Came::Failed {
                return Ok((count, None));
            }
            if began.elapsed() >= self.args.time_limit {
                return Ok((count, Some(WindowEnded::TimeLimit)));
            }
        }
        Ok((count, Some(WindowEnded::NeverFailed)))
    }

    /// Makes trials until there are no more, or the time is over.
    fn measure(
        &mut self,
        failure: &Failure,
        gaps: &[Gap],
        search: &mut Search,
        began: Instant,
        beside: &mut Beside,
    ) -> WindowEnded {
        let together = if self.may_run_together(failure) { TOGETHER as usize } else { 1 };
        let mut told = Instant::now();
        loop {
            if began.elapsed() >= self.args.time_limit {
                return WindowEnded::TimeLimit;
            }
            let trials = search.next(together);
            if trials.is_empty() {
                return WindowEnded::Done;
            }
            let failures: Vec<_> = trials.iter().map(|trial| changed(failure, gaps, *trial)).collect();
            let results = match self.run_each(&failures.iter().collect::<Vec<_>>(), APART) {
                Ok(results) => results,
                Err(problem) => return WindowEnded::NotTested(problem.problem),
            };
            if self.was_interrupted {
                return WindowEnded::Interrupted;
            }
            for (trial, result) in trials.into_iter().zip(&results) {
                let came = self.came(failure, result.as_ref(), beside);
                search.tell(trial, came);
            }
            if !self.args.quiet && told.elapsed() >= TELL_EACH {
                told = Instant::now();
                let ((round, left), all) = (search.left(), search.all());
                let runs = counted(all.runs.into(), "run");
                say_error(&format!("round {round}: {} of {runs} failed; {left} more in this round", all.failed));
            }
        }
    }

    /// What came of a run.
    fn came(&mut self, failure: &Failure, result: Option<&RunResult>, beside: &mut Beside) -> Came {
        let Some(result) = result else { return Came::Passed };
        if let Accounting::Agrees { rose, spent, .. } = &result.accounting {
            beside.executed.0 += spent.compute_ns();
            beside.executed.1 += rose.success;
        }
        if self.fails(failure, result) {
            return Came::Failed;
        }
        let Some(kind) = result.tally.violations.keys().next() else { return Came::Passed };
        *beside.otherwise.entry(*kind).or_default() += 1;
        Came::Otherwise
    }

    /// The command line that measures again.
    fn again(&self) -> String {
        let this = env::args().next().unwrap_or_else(|| "sequence-stress".to_owned());
        // What started a server for these runs starts one for the next ones, at another address.
        let starter = env::var(STARTER).ok().filter(|_| self.args.is_of_the_environment());
        let words = self.args.window_words(starter.is_some());
        starter.into_iter().chain([quoted(&this)]).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// The gaps that are asked for.
fn chosen(failure: &Failure, number: Option<NonZeroU32>) -> Result<Vec<Gap>, String> {
    let all = gaps(failure);
    let count = all.len();
    if count == 0 {
        return Err("it has one act alone; a gap is between two".to_owned());
    }
    match number.map(|number| number.get() as usize) {
        Some(number) if number > count => {
            Err(format!("it has {}: give --gap 1 to {count}", counted(count as u64, "gap")))
        }
        Some(number) => Ok(all.into_iter().filter(|gap| gap.number == number).collect()),
        None if count > GAPS_MAX => Err(format!(
            "it has {count} gaps, and at most {GAPS_MAX} are measured: make it smaller (--shrink), or give --gap N"
        )),
        None => Ok(all),
    }
}

/// The failure that a trial runs.
fn changed(failure: &Failure, gaps: &[Gap], trial: Trial) -> Failure {
    match trial {
        Trial::AsRecorded => failure.clone(),
        Trial::Changed { gap, us } => gaps[gap].set(failure, us),
    }
}
