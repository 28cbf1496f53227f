//! Runs of a search in virtual time, each with a server of its own.

use std::sync::atomic::AtomicBool;

use super::{Held, Holding, One};
use crate::{
    cli::{SearchArgs, quoted},
    commands::{Failure, simulate::Run},
    report::Summary,
    search::Recipe,
    simulate::Plan,
};
use reference::ServerSetup;
use workload::seed::Seed;

/// Simulates runs.
pub(super) struct Simulated<'a> {
    args: &'a SearchArgs,
    seed: Seed,
    interrupted: &'a AtomicBool,
    first: Option<Violating>,
    /// Runs so far.
    runs: u64,
}

/// A run with a violation.
struct Violating {
    run: u64,
    plan: Plan,
    seed: Seed,
    server: ServerSetup,
}

impl<'a> Simulated<'a> {
    pub(super) fn new(args: &'a SearchArgs, seed: Seed, interrupted: &'a AtomicBool) -> Self {
        Self { args, seed, interrupted, first: None, runs: 0 }
    }

    /// The command that finds the same again.
    fn replay(&self, run: u64) -> String {
        let Self { args, seed, .. } = self;
        let server = &args.endpoint.server.scheduler;
        let faults = server.fault.iter().map(|planted| format!(" --fault {planted}"));
        let hold = server.fault_hold.map(|hold| format!(" --fault-hold {}ns", hold.as_nanos()));
        let without: Vec<_> = args.without.iter().map(ToString::to_string).collect();
        let without = (!without.is_empty()).then(|| format!(" --without {}", without.join(",")));
        let reloads = args.reloads.then(|| " --reloads".to_owned());
        let flags: String = faults.chain(hold).chain(without).chain(reloads).collect();
        // What was known before may be another by now.
        let is_its_own = args.corpus.is_none() && args.known.is_empty();
        match &args.failure {
            _ if is_its_own => {
                format!("sequence-stress search --simulated -r {seed} --runs {run}{flags}")
            }
            Some(file) => format!("sequence-stress replay {}", quoted(&file.display().to_string())),
            None => "add --failure FILE to a search that goes on from others".to_owned(),
        }
    }
}

impl Holding for Simulated<'_> {
    fn hold(&mut self, recipe: &Recipe, number: u64) -> Result<Held, Failure> {
        let drawn = format!("run {} of the search cannot be held", self.runs + 1);
        let cannot = |why: String| Failure::could_not_test(format!("{drawn}: {why}"));
        let mut server = recipe.server(self.args.endpoint.server.scheduler.fault.clone());
        server.fault_hold = self.args.endpoint.server.scheduler.fault_hold.unwrap_or(server.fault_hold);
        let scenario = recipe.scenario().map_err(|error| cannot(error.to_string()))?;
        let plan = Plan::new(scenario, server.clone()).map_err(cannot)?.watched();
        let seed = Seed(self.seed.0.wrapping_add(number));
        let Some(held) = plan.hold_unless(self.interrupted, seed, false) else { return Ok(Held::Interrupted) };
        self.runs += 1;
        let violations: Vec<_> = held.tally.violations.iter().map(|(kind, count)| (*kind, *count)).collect();
        if !violations.is_empty() {
            self.first.get_or_insert(Violating { run: self.runs, plan, seed, server });
        }
        Ok(Held::Run(One { requests: held.requests, pairs: Some(held.pairs), violations, is_valid: true }))
    }

    fn first(&self) -> Option<Result<(Summary, Option<ServerSetup>), String>> {
        let Violating { run, plan, seed, server } = self.first.as_ref()?;
        let run = Run { plan, name: "search", seed: *seed, server: server.clone(), replay: self.replay(*run) };
        Some(run.explained().map(|summary| (summary, Some(server.clone()))))
    }

    fn ends_with_a_violation(&self) -> bool {
        false
    }
}
