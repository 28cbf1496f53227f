//! The flags of `compare`.

use std::{
    ffi::OsString,
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use clap::Args;

use super::{
    Cli, StressArgs, problem,
    values::{percent, seconds, whole, whole_seconds},
};
use crate::compare::RUNS_MIN;

/// What stands below the options.
const FOOTER: &str = "\
Examples:
  sequence-stress compare old.json new.json
  sequence-stress compare old-*.json --vs new-*.json
  sequence-stress compare --run 5 -- -u HOST:8001 -m MODEL vs -u HOST:9001 -m MODEL

Exit codes:
  0  no regression
  1  with --run: a run found violations
  2  the command line or a file is wrong, or the runs cannot be compared
  3  unknown: interrupted, or too little was measured
  4  with --run: could not test
  5  regression";

/// The word between the arguments of both sides.
const BETWEEN: &str = "vs";
/// How long a run is where its arguments do not say that.
const DURATION: &str = "10s";
/// How much longer than its load a run may take, with all that is looked at before and after it.
const BESIDES: Duration = Duration::from_secs(600);
/// How long a run may take that ends after a number of iterations.
const WITHOUT_DURATION: Duration = Duration::from_secs(3600);

/// What is compared.
#[derive(Clone, Debug, Args)]
#[command(after_help = FOOTER, next_help_heading = "Comparison")]
pub struct CompareArgs {
    /// Results that --json of a run wrote: the old one, and each new one to compare with it
    #[arg(value_name = "RESULT", help_heading = "Comparison", conflicts_with = "run")]
    pub results: Vec<PathBuf>,
    /// The results before --vs are runs of the old server, and these are runs of the new one
    #[arg(long, value_name = "RESULT", num_args = 1.., conflicts_with = "run")]
    pub vs: Vec<PathBuf>,
    /// Hold N runs of each side in turn, and compare them
    ///
    /// The arguments behind -- are those of two runs: the old one's, the word vs, and the new one's. Both runs of a round have the same seed.
    /// A run is 10 s long, unless its arguments have -d, -i, --scenario or a rate that ends.
    #[arg(long, value_name = "N", value_parser = whole::<NonZeroU32>, allow_negative_numbers = true)]
    pub run: Option<NonZeroU32>,
    /// The least difference that is a regression, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5%", allow_negative_numbers = true)]
    pub least: f64,
    /// This time at the beginning of each run does not count
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "2s")]
    pub warm_up: u64,
    /// With --run: the seed of the first round [default: from the clock]
    #[arg(short, long, alias = "seed", value_name = "SEED", value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// With --run: end a run that takes longer [default: ten minutes more than its -d; without -d, an hour]
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    pub run_limit: Option<NonZeroU64>,
    /// With --run: keep the results in DIR, a new folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub keep: Option<PathBuf>,
    /// Write the comparison to FILE as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Print only the verdict and the notes
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// With --run: the old run's arguments, the word vs, and the new run's arguments
    #[arg(last = true, value_name = "ARGUMENTS vs ARGUMENTS", help_heading = "Comparison")]
    pub sides: Vec<OsString>,
}

/// What `compare` is asked for.
#[derive(Debug)]
pub enum Compared {
    /// Results that are there: the old ones, and each group of new ones.
    Results(Vec<PathBuf>, Vec<Vec<PathBuf>>),
    /// So many rounds of an old and a new run.
    Runs(NonZeroU32, Box<[Side; 2]>),
}

/// The runs of one side.
#[derive(Debug)]
pub struct Side {
    /// Their arguments, but for those that differ from run to run.
    pub words: Vec<OsString>,
    /// The same as a run takes them.
    pub args: StressArgs,
    /// How long each may take.
    pub limit: Duration,
}

impl CompareArgs {
    /// What is compared.
    ///
    /// # Errors
    /// In one line, when the arguments do not go together.
    pub fn compared(&self) -> Result<Compared, String> {
        if let Some(rounds) = self.run {
            if rounds.get() > 1 && (rounds.get() as usize) < RUNS_MIN {
                let problem = "runs of each side are too few to say how much runs vary: hold 3 or more, or a long one";
                return Err(format!("--run {rounds}: {rounds} {problem}"));
            }
            let mut parts = self.sides.split(|word| word == BETWEEN);
            let (Some(old), Some(new), None) = (parts.next(), parts.next(), parts.next()) else {
                return Err("--run needs the arguments of two runs with the word vs between them: \
                            compare --run 5 -- -u OLD vs -u NEW"
                    .to_owned());
            };
            let sides = [self.side("old", old)?, self.side("new", new)?];
            return Ok(Compared::Runs(rounds, Box::new(sides)));
        }
        if let Some(flag) = self.of_runs() {
            return Err(format!("{flag} is for runs that compare holds: add --run N, or leave it out"));
        }
        match (&self.results[..], &self.vs[..]) {
            ([], _) | ([_], []) => Err("compare needs two results or more: compare OLD.json NEW.json; \
                                        or runs to hold: compare --run 5 -- -u OLD vs -u NEW"
                .to_owned()),
            ([old, new @ ..], []) => {
                Ok(Compared::Results(vec![old.clone()], new.iter().map(|its| vec![its.clone()]).collect()))
            }
            (old, new) => Ok(Compared::Results(old.to_vec(), vec![new.to_vec()])),
        }
    }

    /// The first argument that says something of runs. (clap does not ask for `--run` where something that is there conflicts with it.)
    fn of_runs(&self) -> Option<&'static str> {
        let flags = [
            (self.random_seed.is_some(), "--random-seed"),
            (self.run_limit.is_some(), "--run-limit"),
            (self.keep.is_some(), "--keep"),
            (!self.sides.is_empty(), "--"),
        ];
        flags.into_iter().find(|(is_there, _)| *is_there).map(|(_, flag)| flag)
    }

    fn side(&self, name: &str, words: &[OsString]) -> Result<Side, String> {
        let wrong = |problem: String| format!("the arguments of the {name} run are wrong: {problem}");
        let program = OsString::from("sequence-stress");
        let read = Cli::of(std::iter::once(&program).chain(words).cloned());
        let cli = read.map_err(|error| {
            let asks_for_help = !error.use_stderr();
            wrong(if asks_for_help { "--help and --version are no load".to_owned() } else { problem(&error) })
        })?;
        if cli.command.is_some() {
            return Err(wrong("a subcommand is no run; leave it out".to_owned()));
        }
        let args = cli.stress;
        if let Some(flag) = of_its_own(&args) {
            return Err(wrong(format!("compare sets {flag} itself; leave it out")));
        }
        let no_runs = [(args.find_limit.is_some(), "--find-limit"), (args.tui, "--tui")];
        if let Some((_, flag)) = no_runs.into_iter().find(|(is_there, _)| *is_there) {
            return Err(wrong(format!("{flag} is not for runs that compare holds; leave it out")));
        }
        if args.plan.random_seed.is_some() {
            return Err(wrong(
                "compare gives each round a seed; set that of the first round with compare -r SEED".to_owned(),
            ));
        }
        let mut words = words.to_vec();
        let has_an_end = args.duration.is_some()
            || args.plan.iterations.is_some()
            || args.plan.scenario.is_some()
            || args.pacing.rate.as_ref().is_some_and(|rate| rate.lasts().is_some());
        let default = (!has_an_end).then(|| whole_seconds(DURATION).expect("it is a time"));
        if default.is_some() {
            words.splice(..0, ["-d".into(), DURATION.into()]);
        }
        let args = StressArgs { duration: args.duration.or(default), ..args };
        let own = args.duration.map_or(WITHOUT_DURATION, |seconds| Duration::from_secs(seconds.get()) + BESIDES);
        let limit = self.run_limit.map_or(own, |limit| Duration::from_secs(limit.get()));
        Ok(Side { words, args, limit })
    }
}

/// The first of the flags that a run of a comparison cannot have.
fn of_its_own(args: &StressArgs) -> Option<String> {
    let named = args.files.named().next().map(|(flag, _)| format!("--{flag}"));
    let flags = [
        (args.history.history.is_some(), "--history"),
        (args.quiet, "--quiet"),
        (args.verbose, "--verbose"),
        (args.wide, "--wide"),
    ];
    named.or_else(|| flags.into_iter().find(|(is_there, _)| *is_there).map(|(_, flag)| flag.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;

    fn compared(words: &[&str]) -> Result<Compared, String> {
        let words = ["sequence-stress", "compare"].iter().chain(words).map(OsString::from);
        let Ok(Cli { command: Some(Command::Compare(args)), .. }) = Cli::of(words) else { panic!("no comparison") };
        args.compared()
    }

    fn sides(words: &[&str]) -> [Side; 2] {
        let Ok(Compared::Runs(_, sides)) = compared(&[&["--run=5"], words].concat()) else { panic!("no runs") };
        *sides
    }

    #[test]
    fn results_before_vs_are_old_and_without_it_the_first_is() {
        let groups = |words: &[&str]| {
            let Ok(Compared::Results(old, new)) = compared(words) else { panic!("no results") };
            let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<String>();
            (names(&old), new.iter().map(|new| names(new)).collect::<Vec<_>>())
        };
        assert_eq!(groups(&["a", "b"]), ("a".to_owned(), vec!["b".to_owned()]));
        assert_eq!(groups(&["a", "b", "c"]), ("a".to_owned(), vec!["b".to_owned(), "c".to_owned()]));
        assert_eq!(groups(&["a", "b", "--vs", "c", "d"]), ("ab".to_owned(), vec!["cd".to_owned()]));
    }

    #[test]
    fn a_run_that_does_not_say_how_long_it_is_takes_ten_seconds() {
        for (words, own, limit) in [
            (&[][..], &["-d", "10s"][..], 610),
            (&["-t4"], &["-d", "10s", "-t4"], 610),
            (&["--rate=5/s"], &["-d", "10s", "--rate=5/s"], 610),
            (&["-d60s"], &["-d60s"], 660),
            (&["-i9"], &["-i9"], 3600),
            (&["--scenario=soak"], &["--scenario=soak"], 3600),
            (&["--rate=5/s:3s"], &["--rate=5/s:3s"], 3600),
        ] {
            for side in sides(&[&["--"], words, &["vs"], words].concat()) {
                assert_eq!(
                    (&side.words[..], side.limit.as_secs()),
                    (&own.iter().map(OsString::from).collect::<Vec<_>>()[..], limit)
                );
                assert_eq!(side.args.duration.is_some(), own[0].starts_with("-d"), "{words:?}");
            }
        }
        let [side, _] = sides(&["--run-limit=5s", "--", "vs"]);
        assert_eq!(side.limit.as_secs(), 5);
    }
}
