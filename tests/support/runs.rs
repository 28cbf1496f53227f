//! Runs in this process, and what they need.

#![allow(unreachable_pub, dead_code, reason = "it is a module of tests, of which each uses its part")]

use std::{net::SocketAddr, time::Duration};

use reference::{ModelOptions, Options, Planted, Server};
use sequence_stress::run::{RunError, RunResult, Setup, run};
use tokio::{runtime::Runtime, sync::mpsc};
use wire::simulation;
use workload::scenario::{Overrides, Scenario, Source};

/// A runtime such as one of the tool's threads has.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A reference server with these models, which commits these faults.
pub fn reference_server(models: ModelOptions, faults: &[Planted]) -> Server {
    let options = Options { models, faults: faults.to_vec(), threads: 1, ..Options::default() };
    Server::start(options).expect("a free port")
}

/// A reference server of one instance of batch 4, with this idle limit and executions that take so long.
pub fn server_of_four(idle_limit: Duration, execution: Duration, faults: &[Planted]) -> Server {
    let models = ModelOptions { max_batch_size: 4, candidates: 4, idle_limit, execution, ..ModelOptions::default() };
    reference_server(models, faults)
}

/// The same, with an idle limit of 1 s and executions of 1 ms.
pub fn quick_server(faults: &[Planted]) -> Server {
    server_of_four(Duration::from_secs(1), Duration::from_millis(1), faults)
}

/// A reference server of two instances of batch 4, with an idle limit of 300 ms, which commits this fault.
pub fn server_with(fault: Option<&str>) -> Server {
    let models = ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(300),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    let faults: Vec<_> = fault.map(|fault| fault.parse::<Planted>().expect("a fault")).into_iter().collect();
    reference_server(models, &faults)
}

/// What a scenario file with this text says.
pub fn scenario(text: &str) -> Scenario {
    Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario")
}

/// The same, for the endpoint at this address.
pub fn scenario_at(address: SocketAddr, text: &str) -> Scenario {
    let overrides = Overrides { endpoint: Some(address.into()), ..Overrides::default() };
    Scenario::resolve(&Source::from_text("test", text), overrides).expect("a scenario")
}

/// Makes a run that nobody watches and nothing interrupts.
pub fn run_alone(setup: Setup) -> Result<RunResult, RunError> {
    // The sender stays: a closed channel would bring no interrupts either.
    let (_interrupt, interrupts) = mpsc::channel(1);
    let mut nobody = ();
    block_on(run(setup, &mut nobody, interrupts))
}

/// Waits for something in the simulation of this thread, or else on a runtime of its own.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    if simulation::is_on() { simulation::wait_for(work) } else { runtime().block_on(work) }
}
