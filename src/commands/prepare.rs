//! What the commands that run scenarios make of their flags: a server, the setup of a run, and the command line that sends the same again.

use std::{env, time::Duration};

use tokio::time::Instant;

use super::{Failure as CommandFailure, output::say_error};
use crate::{
    cli::{EndpointArgs, PID_VARIABLE, StressArgs, quoted},
    frame::HistoryPlan,
    report::PlantedFault,
    run::{MemorySource, Restart, RunResult, Setup},
};
use oracle::history;
use reference::{Options, Planted, Server};
use workload::{
    scenario::{Measure, Scenario, Source, Target},
    seed::Seed,
};

/// The environment variable in which whatever started the server says how it is started again.
pub(super) const STARTER: &str = "SEQUENCE_STRESS_STARTER";
/// The history of a run.
pub(super) fn recording(
    options: history::Options,
    endpoint: &EndpointArgs,
    (scenario_name, replay): (&str, &str),
    seed: Seed,
) -> HistoryPlan {
    HistoryPlan {
        options,
        scenario_name: scenario_name.to_owned(),
        replay: replay.to_owned(),
        server: endpoint.server_setup(seed),
    }
}

/// What the faults that are planted in a server did in a run.
pub(super) fn planted_faults(endpoint: &EndpointArgs, server: &Server, run: &RunResult) -> Vec<PlantedFault> {
    let since = |at: &Instant| {
        let since = at.checked_duration_since(run.began?)?;
        u64::try_from(since.as_micros()).ok()
    };
    let committed = |planted: &Planted| PlantedFault {
        fault: planted.fault.to_string(),
        chances: server.chances(planted.fault),
        committed: server.committed(planted.fault),
        committed_at_us: server.committed_at(planted.fault).iter().filter_map(since).collect(),
    };
    endpoint.server.scheduler.fault.iter().map(committed).collect()
}

pub(super) fn start_server(endpoint: &EndpointArgs, seed: Seed) -> Result<Server, CommandFailure> {
    let options = Options::from(endpoint.server_setup(seed).unwrap_or_default());
    options.check().map_err(CommandFailure::wrong_input)?;
    Server::start(options).map_err(CommandFailure::could_not_test)
}

/// Makes sure that a run knows where to read what its thresholds are of.
pub(super) fn check_measured(setup: &Setup) -> Result<(), CommandFailure> {
    let Some(threshold) = setup.cannot_measure() else { return Ok(()) };
    let measure = threshold.measure;
    let flags = match measure {
        Measure::Pending => "--metrics-url",
        Measure::ServerCpu => "--server-pid",
        _ => "--server-pid or --server-memory",
    };
    Err(CommandFailure::wrong_input(format!(
        "the threshold '{threshold}' needs {flags}: without it {measure} is not measured"
    )))
}

/// A run of this scenario, with what the flags say of the endpoint.
pub(super) fn setup(endpoint: &EndpointArgs, server: Option<&Server>, scenario: Scenario, seed: Seed) -> Setup {
    Setup {
        hints: endpoint.hints(),
        embedded: endpoint.embedded,
        restart: restart(endpoint, server),
        instance_failure: server.map(|server| Restart::by(server.failure_of_an_instance())),
        program: env::current_exe().ok(),
        ..Setup::new(scenario, seed)
    }
}

/// How the server is restarted, where that is known.
pub(super) fn restart(endpoint: &EndpointArgs, server: Option<&Server>) -> Option<Restart> {
    match server {
        Some(server) => Some(Restart::by(server.restarter())),
        None => endpoint.restart_command.as_deref().map(Restart::by_command),
    }
}

/// Where the server's memory is read. What the environment says may be of a server that is gone, and then a message says so.
pub(super) fn server_memory(endpoint: &EndpointArgs, target: &Target) -> Option<MemorySource> {
    let of_environment = || {
        let text = endpoint.pid_of_environment.as_ref()?;
        let parsed = text.parse().map_err(|_| format!("'{text}' is no process ID")).map(MemorySource::Process);
        let checked = parsed.and_then(|source| source.check(target.endpoint.all()).map(|()| source));
        let unusable = |why| say_error(&format!("the server's memory is not read ({PID_VARIABLE}): {why}"));
        checked.map_err(unusable).ok()
    };
    endpoint.server_memory().or_else(of_environment)
}

/// A time as people write it in a flag: in the largest unit of which it is a whole number.
pub(super) fn spelled(time: Duration) -> String {
    match time.as_millis() {
        ms if ms > 0 && ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// The words that say how much is sent, and what else a run's flags say of it.
pub(super) fn load_words(args: &StressArgs, scenario: &Scenario) -> Vec<String> {
    // Of several populations each has its own numbers, which only flags replace.
    let (workers, iterations) = match &scenario.populations[..] {
        _ if args.find_limit.is_some() => (args.plan.concurrency, None),
        [alone] => (Some(alone.load.workers), alone.load.iterations),
        _ => (args.plan.concurrency, args.plan.iterations),
    };
    let words = [
        workers.map(|workers| format!("-t {workers}")),
        iterations.map(|iterations| format!("-i {iterations}")),
        args.find_limit.map(|range| format!("--find-limit {range}")),
        args.duration.map(|seconds| format!("--duration {}", spelled(Duration::from_secs(seconds.get())))),
        args.response_limit.map(|limit| format!("--response-limit {}", spelled(limit.duration()))),
        args.soak.reconnect.map(|limit| format!("--reconnect {}", spelled(limit.duration()))),
        args.require_claims.then(|| "--require-claims".to_owned()),
    ];
    let thresholds = args.fail_if.iter().map(|threshold| format!("--fail-if {}", quoted(&threshold.to_string())));
    words.into_iter().flatten().chain(thresholds).chain(args.pacing.words()).chain(args.expect.words()).collect()
}

/// The command line that sends the same again; what the preflight takes of the hints is added to it.
pub(super) fn replay_line(
    endpoint: &EndpointArgs,
    source: &Source,
    load: &[String],
    seed: Seed,
    target: &Target,
) -> String {
    let this = env::args().next().unwrap_or_else(|| "sequence-stress".to_owned());
    // What started a server for this run starts one for the next, at another address.
    let starter = env::var(STARTER).ok().filter(|_| endpoint.url_from_environment && !endpoint.embedded);
    let mut words: Vec<_> = starter.iter().cloned().collect();
    words.push(quoted(&this));
    words.extend(load.iter().cloned());
    words.push(format!("-r {seed}"));
    if endpoint.embedded {
        words.push("--embedded".to_owned());
        words.extend(endpoint.server_flags(seed));
    } else if starter.is_none() {
        words.extend(target.endpoint.all().iter().map(|endpoint| format!("-u {endpoint}")));
    }
    if !endpoint.embedded {
        words.extend(target.servers().iter().map(|server| format!("--replicas {server}")));
        words.extend(target.sequence_header.iter().map(|name| format!("--sequence-header {name}")));
        words.extend(target.server_header.iter().map(|name| format!("--server-header {name}")));
    }
    if let (Some(metrics), false) = (&endpoint.metrics_url, endpoint.metrics_from_environment && starter.is_some()) {
        words.push(format!("--metrics-url {metrics}"));
    }
    if let (Some(source), None) = (endpoint.server_memory().filter(|_| !endpoint.embedded), &starter) {
        words.push(source.to_string());
    }
    words.extend(endpoint.access.words().into_iter().map(|(flag, value)| format!("{flag} {}", quoted(&value))));
    words.extend(endpoint.transport.map(|transport| format!("--transport {transport}")));
    words.push(format!("-m {}", quoted(&target.model)));
    words.extend(endpoint.model_version.map(|version| format!("--model-version {version}")));
    words.extend(source.argument().map(|scenario| format!("--scenario {}", quoted(&scenario))));
    words.join(" ")
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
