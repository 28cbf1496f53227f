//! `sequence-stress golden`: what a model without a formula answers.

use std::{
    env, fs,
    io::Write as _,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Failure, UNKNOWN,
    output::{ResultFile, check_different, print, say_error},
    prepare::start_server,
    resolve, runtime,
};
use crate::{
    cli::{CalibrateArgs, EndpointArgs, ExpectArgs, Expected, GoldenArgs, GoldenCommand, PlanArgs, VerifyArgs},
    golden::{Asked, LEAST_STEPS, Phase, Subject, read_file},
    report::{write_differences, write_golden},
    run::RunError,
};
use oracle::golden::Golden;
use reference::Server;
use workload::{
    scenario::{Overrides, Scenario},
    seed::Seed,
    whole_file::write_whole,
};

/// Where golden files of `--golden auto` are kept, as the scripts' downloads are.
const CACHE: &str = "SEQUENCE_STRESS_CACHE";
/// How many golden files are kept: those that were written last.
const KEPT: usize = 32;
/// How many tracks tell whether a server still answers what a kept file has.
const TRACKS_TRIED: usize = 2;
/// After how long the user learns what a calibration does.
const QUIET: Duration = Duration::from_secs(2);
/// After how long at the most they learn it again.
const LATER: Duration = Duration::from_secs(60);

pub(super) fn golden(args: &GoldenArgs) -> Result<u8, Failure> {
    match &args.command {
        Some(GoldenCommand::Verify(args)) => verify(args),
        None => calibrate(&args.calibrate),
    }
}

fn calibrate(args: &CalibrateArgs) -> Result<u8, Failure> {
    let path = args.output.as_deref().ok_or_else(|| {
        Failure::wrong_input(
            "golden needs the file to write: -o model.golden (golden verify FILE asks whether one still holds)",
        )
    })?;
    let named = args.inputs.file().into_iter().chain([("output", path)]);
    check_different(named).map_err(Failure::wrong_input)?;
    let file = ResultFile::check("output", "the golden outputs", path).map_err(Failure::wrong_input)?;
    let (_server, scenario) = target(&args.endpoint)?;
    let golden = made(&scenario, &args.endpoint, &args.inputs.asked())?;
    print(|out| write_golden(&golden, out));
    file.write_by(|file| golden.write_to(file)).map_err(Failure::wrong_input)?;
    print(|out| writeln!(out, "written: {}", path.display()));
    Ok(if golden.is_enough() { 0 } else { UNKNOWN })
}

fn verify(args: &VerifyArgs) -> Result<u8, Failure> {
    let golden = Arc::new(read_file(&args.file).map_err(Failure::wrong_input)?);
    let (_server, mut scenario) = target(&args.endpoint)?;
    if args.endpoint.model.is_none() {
        scenario.target.model.clone_from(&golden.identity.model);
    }
    let (compared, differ) = runtime()?
        .block_on(async {
            Subject::of(scenario.clone(), args.endpoint.hints(), &golden)?.verify(&golden, usize::MAX).await
        })
        .map_err(|error| Failure::of_run(error, &scenario.target.endpoint))?;
    print(|out| write_differences(compared, &differ, out));
    Ok(if compared == 0 { UNKNOWN } else { u8::from(!differ.is_empty()) })
}

/// The endpoint as a scenario has it, and the embedded server, if there is one.
fn target(endpoint: &EndpointArgs) -> Result<(Option<Server>, Scenario), Failure> {
    let plan = PlanArgs { concurrency: None, iterations: None, random_seed: Some(0), scenario: None };
    let (_, mut scenario, seed) = resolve(&plan, Overrides { ..endpoint.overrides() })?;
    let server = endpoint.embedded.then(|| start_server(endpoint, seed)).transpose()?;
    if let Some(server) = &server {
        scenario.target.embed(server.address, server.http);
    }
    Ok((server, scenario))
}

/// Calibrates, and says what takes long.
fn made(scenario: &Scenario, endpoint: &EndpointArgs, asked: &Asked) -> Result<Golden, Failure> {
    let made = async {
        let subject = Subject::new(scenario.clone(), endpoint.hints(), asked).await?;
        subject.notes.iter().for_each(|note| say_error(note));
        subject.calibrate(&mut said()).await
    };
    runtime()?.block_on(made).map_err(|error| Failure::of_run(error, &scenario.target.endpoint))
}

/// Says how far a calibration has come when it takes a while.
fn said() -> impl FnMut(Phase) {
    let (mut began, mut said) = (("", Instant::now()), Instant::now());
    move |Phase { what, done, of }| {
        if began.0 != what {
            began = (what, Instant::now());
        }
        let so_far = began.1.elapsed();
        if done > 0 && so_far > QUIET && said.elapsed() > QUIET {
            let left = so_far.mul_f64(count(of - done) / count(done)).as_secs() + 1;
            say_error(&format!("calibrating: {what}, {done} of {of}, {left} s left of these"));
            // Less often, the longer it takes.
            said = Instant::now() + so_far.min(LATER);
        }
    }
}

fn count(of: usize) -> f64 {
    u32::try_from(of).unwrap_or(u32::MAX).into()
}

/// What a run expects of its model; none where a formula says it.
///
/// `longest` is how many steps the run's sequences have at the most. An embedded server with planted faults is not asked: one without is.
pub(super) fn expected(
    args: &ExpectArgs,
    scenario: &Scenario,
    endpoint: &EndpointArgs,
    longest: u32,
) -> Result<Option<Arc<Golden>>, Failure> {
    match args.expected() {
        Expected::Formula if !args.inputs.is_empty() => {
            return Err(Failure::wrong_input(
                "the flags for inputs, and --compare, say what a calibration sends and compares: they need --golden auto or --expect none",
            ));
        }
        Expected::Formula => return Ok(None),
        Expected::File(_) if !args.inputs.is_empty() => {
            return Err(Failure::wrong_input(
                "a golden file has its inputs and its rules: leave the flags for inputs and --compare out, or use --golden auto",
            ));
        }
        Expected::File(_) | Expected::Nothing | Expected::Auto if scenario.has_several_versions() => {
            return Err(Failure::wrong_input(
                "--golden and --expect none are for one version of the model, and the scenario's populations name several: use a \
                 scenario without population.version, and --model-version",
            ));
        }
        Expected::File(path) => return Ok(Some(Arc::new(read_file(path).map_err(Failure::wrong_input)?))),
        Expected::Nothing | Expected::Auto => {}
    }
    let mut scenario = scenario.clone();
    let server = endpoint.embedded.then(|| start_sound_server(endpoint)).transpose()?;
    if let Some(server) = &server {
        scenario.target.embed(server.address, server.http);
    }
    let mut asked = args.inputs.asked();
    asked.options.steps = asked.options.steps.or_else(|| NonZeroUsize::new(longest.max(LEAST_STEPS) as usize));
    let of_run = |error: RunError| Failure::of_run(error, &scenario.target.endpoint);
    match args.expected() {
        Expected::Formula | Expected::File(_) => Ok(None),
        Expected::Nothing => {
            let subject = Subject::new(scenario.clone(), endpoint.hints(), &asked);
            let subject = runtime()?.block_on(subject).map_err(of_run)?;
            subject.notes.iter().for_each(|note| say_error(note));
            Ok(Some(subject.blind()))
        }
        Expected::Auto => {
            let subject = Subject::new(scenario.clone(), endpoint.hints(), &asked);
            // The connection lives as long as the runtime that made it.
            let runtime = runtime()?;
            let subject = runtime.block_on(subject).map_err(of_run)?;
            let path = cache()?.join(format!("{}.golden", subject.key()));
            if let Some(golden) = read_file(&path).ok().filter(Golden::is_enough).map(Arc::new) {
                // A model's weights are in no configuration.
                let (_, differ) = runtime.block_on(subject.verify(&golden, TRACKS_TRIED)).map_err(of_run)?;
                if differ.is_empty() {
                    say_error(&format!("the golden file is that of an earlier run: {}", path.display()));
                    return Ok(Some(golden));
                }
                say_error(
                    "the server answers otherwise than the golden file that was kept of this model: it is calibrated anew",
                );
            }
            subject.notes.iter().for_each(|note| say_error(note));
            let golden = runtime.block_on(subject.calibrate(&mut said())).map_err(of_run)?;
            // Another calibration may find out more.
            let is_kept = golden.is_enough();
            if is_kept {
                keep(&path, &golden)?;
            }
            print(|out| {
                write_golden(&golden, out)?;
                if is_kept { writeln!(out, "kept: {}", path.display()) } else { Ok(()) }
            });
            Ok(Some(Arc::new(golden)))
        }
    }
}

/// The embedded server without its planted faults.
fn start_sound_server(endpoint: &EndpointArgs) -> Result<Server, Failure> {
    let mut sound = endpoint.clone();
    sound.server.scheduler.fault.clear();
    start_server(&sound, Seed(0))
}

fn cache() -> Result<PathBuf, Failure> {
    let own = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache/sequence-stress"));
    let folder = env::var_os(CACHE).filter(|folder| !folder.is_empty()).map(PathBuf::from).or_else(own);
    let none = || {
        format!("--golden auto needs a folder for golden files: set {CACHE}, or write one with sequence-stress golden")
    };
    Ok(folder.ok_or_else(none).map_err(Failure::wrong_input)?.join("golden"))
}

/// Writes a golden file whole, or not at all.
fn keep(path: &Path, golden: &Golden) -> Result<(), Failure> {
    let problem = |error: std::io::Error| {
        Failure::wrong_input(format!("cannot keep the golden file {}: {error}", path.display()))
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(problem)?;
        forget_oldest(folder);
    }
    write_whole(path, |file| golden.write_to(file)).map_err(problem)
}

/// Makes room for a golden file.
fn forget_oldest(folder: &Path) {
    let Ok(files) = fs::read_dir(folder) else { return };
    let dated = |file: fs::DirEntry| Some((file.metadata().ok()?.modified().ok()?, file.path()));
    let mut files: Vec<_> = files.filter_map(Result::ok).filter_map(dated).collect();
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(KEPT);
    for (_, path) in files.into_iter().take(surplus) {
        // Another process may have been faster.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn of_many_golden_files_the_latest_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let written = |number: u64| {
            let path = folder.path().join(format!("{number}.golden"));
            let file = fs::File::create(&path).expect("a file");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number)).expect("a time");
            path
        };
        let paths: Vec<_> = (1..=40).map(written).collect();
        forget_oldest(folder.path());
        let left = paths.iter().filter(|path| path.exists()).count();
        assert!(left == KEPT - 1 && paths[39].exists() && !paths[0].exists(), "{left}");
    }
}
