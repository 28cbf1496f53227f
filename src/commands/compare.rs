//! `sequence-stress compare`: what differs between runs by more than noise.

mod turns;

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use self::turns::Turns;
use super::{
    Failure, WRONG_INPUT,
    output::{ResultFile, print, say_error},
    resolve, runtime, seed_from_the_clock,
};
use crate::{
    cli::{CompareArgs, Compared, Side},
    compare::{Asked, Comparison, Ran, difference, what_is_sent},
    report::Compare,
};
use reference::Options;
use serde_json::Value;
use workload::{scenario::Scenario, seed::Seed};

/// Compares results, or the runs that it holds for that, and returns the exit code.
pub(super) fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let compared = args.compared().map_err(Failure::wrong_input)?;
    let file = args.json.as_deref().map(|path| ResultFile::check("json", "the comparison", path));
    let file = file.transpose().map_err(Failure::wrong_input)?;
    if let (Some(json), Compared::Results(old, new)) = (&args.json, &compared) {
        let names_one = old.iter().chain(new.iter().flatten()).any(|result| is_same(result, json));
        if names_one {
            let problem = format!("--json would overwrite {}, which is compared; name another file", json.display());
            return Err(Failure::wrong_input(problem));
        }
    }
    let (old, new, held) = match &compared {
        Compared::Results(old, new) => {
            let read = |files: &Vec<PathBuf>| files.iter().map(|file| Ran::read(file)).collect::<Result<Vec<_>, _>>();
            let old = read(old).map_err(Failure::wrong_input)?;
            (old, new.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(Failure::wrong_input)?, false)
        }
        Compared::Runs(rounds, sides) => {
            let [old, new] = hold(args, rounds.get(), sides)?;
            (old, vec![new], true)
        }
    };
    let asked = Asked { least: args.least, warm_up_s: args.warm_up };
    let comparisons = new.iter().map(|new| Comparison::of(&old, new, asked)).collect::<Result<_, _>>();
    let comparisons: Vec<_> = comparisons.map_err(Failure::wrong_input)?;
    // Only results that could be compared are told to be the same.
    if let Compared::Results(old, new) = &compared {
        for side in std::iter::once(old).chain(new) {
            let is_again = |(place, file): &(usize, &PathBuf)| side[..*place].iter().any(|other| is_same(other, file));
            if let Some((_, file)) = side.iter().enumerate().find(is_again) {
                let problem = format!("{} is named twice on one side: name each result once", file.display());
                return Err(Failure::wrong_input(problem));
            }
        }
    }
    let result = Compare { comparisons, least: args.least, warm_up_s: args.warm_up, held };
    print(|out| result.write(args.quiet, out));
    let code = result.exit_code();
    let Some(Err(problem)) = file.map(|file| file.write(&result.to_json())) else { return Ok(code) };
    say_error(&problem);
    // What was found counts for more than a file that cannot be written.
    Ok(if [1, 5].contains(&code) { code } else { WRONG_INPUT })
}

/// Whether two paths lead to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| fs::canonicalize(path).ok());
    one.is_some() && one == other
}

/// Holds the runs of both sides in turn.
fn hold(args: &CompareArgs, rounds: u32, sides: &[Side; 2]) -> Result<[Vec<Ran>; 2], Failure> {
    check_alike(sides)?;
    let kept = args.keep.as_deref().map(new_folder).transpose().map_err(Failure::wrong_input)?;
    let scratch = kept.is_none().then(tempfile::tempdir).transpose().map_err(|error| {
        let problem = format!("cannot make a folder for the results: {error}; name one that takes files (--keep DIR)");
        Failure::could_not_test(problem)
    })?;
    let turns = Turns {
        rounds,
        seed: Seed(args.random_seed.unwrap_or_else(seed_from_the_clock)),
        sides,
        folder: kept.or(scratch.as_ref().map(tempfile::TempDir::path)).expect("there is one of them"),
        is_kept: kept.is_some(),
        quiet: args.quiet,
    };
    let ran = runtime()?.block_on(turns.hold());
    if let Some(folder) = kept {
        say_error(&format!("the results are in {}", folder.display()));
    }
    ran
}

/// Makes sure before anything is sent that both sides have arguments that a run takes, and that what they send can be compared.
fn check_alike([old, new]: &[Side; 2]) -> Result<(), Failure> {
    let [old, new] = [(old, "old"), (new, "new")].map(|(side, name)| {
        let of_side = |why: String| Failure::wrong_input(format!("the arguments of the {name} run are wrong: {why}"));
        let endpoint = &side.args.endpoint;
        let (_, scenario, _) =
            resolve(&side.args.plan, side.args.overrides()).map_err(|failure| of_side(failure.problem))?;
        endpoint.check_server(&scenario.target.model).map_err(of_side)?;
        if let Some(setup) = endpoint.server_setup(Seed(0)) {
            Options::from(setup).check().map_err(of_side)?;
        }
        Ok::<_, Failure>((scenario, endpoint.embedded))
    });
    let ((old, old_embedded), (new, new_embedded)) = (old?, new?);
    let unlike =
        if old_embedded == new_embedded { unlike(&old, &new) } else { Some("--embedded is on one side".to_owned()) };
    let Some(unlike) = unlike else { return Ok(()) };
    Err(Failure::wrong_input(format!(
        "cannot compare these runs: {unlike}; both sides need the same model and the same load"
    )))
}

/// What two scenarios send differently.
fn unlike(old: &Scenario, new: &Scenario) -> Option<String> {
    if old.target.model != new.target.model {
        return Some(format!("target.model: '{}' and '{}'", old.target.model, new.target.model));
    }
    let [old, new] = [old, new].map(|scenario| match serde_json::to_value(scenario) {
        Ok(Value::Object(keys)) => what_is_sent(keys),
        _ => unreachable!("a scenario is written as a table"),
    });
    difference("", &old, &new)
}

/// Makes a folder, which has to be empty where it is there: results of other runs would be read with these.
fn new_folder(path: &Path) -> Result<&Path, String> {
    let cannot = |error: &dyn std::fmt::Display| {
        format!("cannot keep results in {}: {error}; name a new folder", path.display())
    };
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(cannot(&"it is not empty"));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path).map_err(|error| cannot(&error))?;
        }
        Err(error) => return Err(cannot(&error)),
    }
    // Whether it takes files shows before the runs.
    tempfile::tempfile_in(path).map_err(|error| cannot(&error))?;
    Ok(path)
}
