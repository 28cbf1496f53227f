//! The smallest conversations that show a fault which is always there.

use std::time::{Duration, Instant};

use reference::{Planted, Server};
use sequence_stress::{
    failure::{Failure, Run, shrink},
    report::describe,
    run::{Setup, run},
};
use tokio::sync::mpsc;
use workload::seed::Seed;

use crate::harness::{
    rows::Row,
    trial::{options, run_scenario, scenario},
};

/// How often, and for how long, smaller ones are tried out.
const TRIALS: u32 = 400;
const TIME: Duration = Duration::from_secs(25);

/// How many messages the smallest conversations have, and whether none can be left out; none where it did not show again.
pub(crate) fn smallest(row: &Row, seed: u64) -> Option<(usize, bool)> {
    let server = Server::start(options(row.scene, row.execution_ms, vec![Planted::always(row.fault)], seed)).ok()?;
    let scenario = scenario(row.scene, server.address, row.model);
    let manner = workload::plan::Manner {
        after_answers: false,
        idle_limit: row.scene.idle_limit(),
        batches: true,
        one_step: false,
    };
    let result = run_scenario(scenario.clone(), None, seed).ok()?;
    drop(server);
    let arithmetic = result.preflight.model.arithmetic;
    let run = Run {
        scenario: &scenario,
        seed: Seed(seed),
        manner,
        arithmetic,
        scene: &result.scene,
        embedded: None,
        inputs: None,
    };
    let first = result.violations.first()?;
    let failure = Failure::found(first, describe(first), &run)?;
    let began = Instant::now();
    if !shows(row, &failure, seed) {
        return None;
    }
    let shrunk = shrink(failure, TRIALS, &mut |smaller| began.elapsed() < TIME && shows(row, smaller, seed));
    Some((shrunk.failure.messages(), shrunk.is_minimal && began.elapsed() < TIME))
}

/// Whether the same kind of violation shows again on a server that commits the fault always.
fn shows(row: &Row, failure: &Failure, seed: u64) -> bool {
    let planted = vec![Planted::always(row.fault)];
    let Ok(server) = Server::start(options(row.scene, row.execution_ms, planted, seed)) else { return false };
    let Ok(mut scenario) = failure.fitted_scenario() else { return false };
    scenario.target.endpoint = server.address.into();
    let given = Some(failure.conversations.clone());
    let setup = Setup { fail_fast: true, given, ..Setup::new(scenario, Seed(seed)) };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return false };
    // The sender stays: a closed channel would bring no interrupts either.
    let (_interrupt, interrupts) = mpsc::channel(1);
    let result = runtime.block_on(run(setup, &mut (), interrupts));
    result.is_ok_and(|result| result.tally.violations.contains_key(&failure.kind))
}
