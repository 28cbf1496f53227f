//! `sequence-stress`: stress an endpoint.

use std::{
    env,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    Failure as CommandFailure,
    output::{ResultFile, check_history_file, print, say_error, write_failure},
    progress::Display,
    resolve,
};
use crate::{
    cli::StressArgs,
    engine::{Observer, Preflight, Progress, Recording, RunError, Setup, run},
    history::Options,
    oracle::Violation,
    reference::{Planted, Server},
    report::{PlantedFault, Summary, violation_line, write_json, write_preflight, write_text, write_verdict},
    scenario::{Scenario, Source},
    seed::Seed,
};

/// How many violations are shown in full; the rest are counted by kind.
const VIOLATIONS_SHOWN: usize = 20;
/// The environment variable in which whatever started the server says how it is started again.
const STARTER: &str = "SEQUENCE_STRESS_STARTER";
/// What a second interrupt exits with: what is known by then.
const ENDED_WITH_VIOLATIONS: i32 = 1;
const ENDED_AT_ONCE: i32 = 3;

/// Runs a scenario and returns the exit code.
pub(super) fn stress(args: &StressArgs) -> Result<u8, CommandFailure> {
    let (source, mut scenario, seed) = resolve(&args.plan, args.overrides())?;
    let result_file = args.json.as_deref().map(ResultFile::check).transpose().map_err(CommandFailure::wrong_input)?;
    let failure_file =
        args.failure.as_deref().map(ResultFile::check).transpose().map_err(CommandFailure::wrong_input)?;
    let history = history(args)?;
    if args.verbose {
        show_each_step();
    }
    let server = args.embedded.then(|| start_server(args, seed)).transpose()?;
    if let Some(server) = &server {
        scenario.target.endpoint = server.address.into();
    }
    let replay = replay_line(args, &source, &scenario, seed);
    let mut terminal = Terminal::new(args, &source, &scenario, seed, replay.clone());
    let saw_violation = Arc::clone(&terminal.saw_violation);
    let recording = history.map(|options| Recording {
        options,
        scenario_name: source.name().to_owned(),
        replay: replay.clone(),
        server: args.server_words(seed),
    });
    let setup = Setup {
        scenario: scenario.clone(),
        seed,
        hints: args.hints(),
        fail_fast: args.fail_fast,
        embedded: args.embedded,
        recording,
    };
    let runtime =
        runtime::Builder::new_current_thread().enable_all().build().map_err(CommandFailure::could_not_test)?;
    let result = runtime.block_on(async {
        run(setup, &mut terminal, interrupts(saw_violation)?).await.map_err(|error| failure(&scenario, &error))
    });
    terminal.display.finish();
    let embedded = server.map(|server| {
        let committed = |planted: &Planted| PlantedFault {
            fault: planted.fault.to_string(),
            committed: server.committed(planted.fault),
        };
        args.server.fault.iter().map(committed).collect()
    });
    let scenario_name = source.name().to_owned();
    let summary = Summary { scenario_name, scenario, seed, replay, embedded, result: result? };
    terminal.summarize(&summary);
    if let Some(problem) = summary.result.recorded.as_ref().and_then(|recorded| recorded.kept.problem.as_ref()) {
        say_error(problem);
    }
    if let Some(file) = result_file {
        let mut bytes = Vec::new();
        write_json(&summary, &mut bytes).map_err(CommandFailure::wrong_input)?;
        file.write(&bytes).map_err(CommandFailure::wrong_input)?;
    }
    if let Some(file) = failure_file {
        write_failure(&summary, args.server_words(seed).as_deref(), file)?;
    }
    Ok(summary.exit_code())
}

/// How the history is to be written, if at all; it can be.
fn history(args: &StressArgs) -> Result<Option<Options>, CommandFailure> {
    let Some(options) = args.history.options() else { return Ok(None) };
    if args.json.as_ref() == Some(&options.path) {
        return Err(CommandFailure::wrong_input("--json and --history name the same file"));
    }
    check_history_file(&options.path).map_err(CommandFailure::wrong_input)?;
    Ok(Some(options))
}

fn start_server(args: &StressArgs, seed: Seed) -> Result<Server, CommandFailure> {
    let options = args.server_options(seed);
    options.check().map_err(CommandFailure::wrong_input)?;
    Server::start(options).map_err(CommandFailure::could_not_test)
}

fn failure(scenario: &Scenario, error: &RunError) -> CommandFailure {
    match error {
        RunError::Endpoint(why) => {
            CommandFailure::could_not_test(format!("cannot test {}: {why}", scenario.target.endpoint))
        }
        RunError::Resources(why) => CommandFailure::could_not_test(why),
        RunError::Interrupted => CommandFailure::unknown(error),
    }
}

/// Brings the first Ctrl-C or SIGTERM; the second one ends the process.
fn interrupts(saw_violation: Arc<AtomicBool>) -> Result<mpsc::Receiver<()>, CommandFailure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CommandFailure::could_not_test)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(CommandFailure::could_not_test)?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first {
                // The run may be over by now.
                let _ = sender.send(()).await;
            } else {
                say_error("interrupted twice: ended at once, without a summary");
                std::process::exit(if saw_violation.load(Relaxed) { ENDED_WITH_VIOLATIONS } else { ENDED_AT_ONCE });
            }
        }
    });
    Ok(receiver)
}

fn show_each_step() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_target(false)
        .with_level(false)
        .without_time()
        .with_ansi(false)
        .with_env_filter("sequence_stress=debug")
        .with_writer(std::io::stderr)
        .init();
}

/// The command line that sends the same again.
fn replay_line(args: &StressArgs, source: &Source, scenario: &Scenario, seed: Seed) -> String {
    let load = &scenario.load;
    let this = env::args().next().unwrap_or_else(|| "sequence-stress".to_owned());
    // What started a server for this run starts one for the next, at another address.
    let starter = env::var(STARTER).ok().filter(|_| args.url_from_environment && !args.embedded);
    let mut words: Vec<_> = starter.iter().cloned().collect();
    words.extend([quoted(&this), format!("-t {}", load.workers)]);
    words.extend(load.iterations.map(|passes| format!("-i {passes}")));
    words.push(format!("-r {seed}"));
    if args.embedded {
        words.push("--embedded".to_owned());
        words.extend(args.server.words());
    } else if starter.is_none() {
        words.push(format!("-u {}", scenario.target.endpoint));
    }
    if let (Some(metrics), false) = (&args.metrics_url, args.metrics_from_environment && starter.is_some()) {
        words.push(format!("--metrics-url {metrics}"));
    }
    words.push(format!("-m {}", quoted(&scenario.target.model)));
    words.extend(source.path().map(|path| format!("--scenario {}", quoted(&path.display().to_string()))));
    words.extend(load.duration_s.map(|seconds| format!("--duration {seconds}s")));
    words.extend(
        scenario.limits.response_ms.map(|limit| format!("--response-limit {}ms", limit.duration().as_millis())),
    );
    words.extend(args.slots.map(|slots| format!("--slots {slots}")));
    words.extend(args.idle_limit.map(|limit| format!("--idle-limit {}ms", limit.duration().as_millis())));
    words.extend(args.strategy.map(|strategy| format!("--strategy {}", strategy.to_string().to_lowercase())));
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows the run to a person.
struct Terminal {
    display: Display,
    quiet: bool,
    source_name: String,
    scenario: Scenario,
    seed: Seed,
    replay: String,
    violations: usize,
    saw_violation: Arc<AtomicBool>,
}

impl Terminal {
    fn new(args: &StressArgs, source: &Source, scenario: &Scenario, seed: Seed, replay: String) -> Self {
        Self {
            display: Display::new(args.quiet, args.verbose),
            quiet: args.quiet,
            source_name: source.name().to_owned(),
            scenario: scenario.clone(),
            seed,
            replay,
            violations: 0,
            saw_violation: Arc::default(),
        }
    }

    fn summarize(&self, summary: &Summary) {
        if self.violations > VIOLATIONS_SHOWN {
            let all = self.violations;
            print(|out| {
                writeln!(out, "the first {VIOLATIONS_SHOWN} of {all} violations were shown; --json keeps more")
            });
        }
        print(|out| if self.quiet { write_verdict(summary, out) } else { write_text(summary, out) });
    }
}

impl Observer for Terminal {
    fn found(&mut self, preflight: &Preflight) {
        if !self.quiet {
            print(|out| write_preflight(&self.scenario, &self.source_name, self.seed, preflight, out));
        }
    }

    fn violation(&mut self, violation: &Violation) {
        self.violations += 1;
        self.saw_violation.store(true, Relaxed);
        if self.violations <= VIOLATIONS_SHOWN || violation.place.is_none() {
            self.display.suspend(|| print(|out| violation_line(violation, &self.replay, out)));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        // One that is still to be explained is one, too.
        if progress.violations > 0 {
            self.saw_violation.store(true, Relaxed);
        }
        self.display.show(&self.scenario.load, progress);
    }

    fn interrupted(&mut self, drain: Duration) {
        self.display.suspend(|| {
            say_error(&format!(
                "interrupted: waiting up to {drain:?} for what is under way; interrupt again to end at once"
            ));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, expected) in
            [("model_1", "model_1"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }
}
