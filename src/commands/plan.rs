//! `sequence-stress plan`.

use std::io::{self, BufWriter, Write};
use std::num::NonZeroU64;

use super::{Failure, output::say_error, resolve};
use crate::cli::PlanArgs;
use workload::plan::WorkerPlan;

/// Prints the plan, a JSON line for each iteration, worker by worker.
pub(super) fn print(args: &PlanArgs) -> Result<u8, Failure> {
    let (_, scenario, seed) = resolve(args, args.overrides())?;
    if scenario.populations.iter().any(|population| population.load.iterations.is_none()) {
        return Err(Failure::wrong_input(
            "the scenario has no load.iterations, so its plan has no end: give a number of iterations with -i",
        ));
    }
    if scenario.populations.iter().any(|population| population.load.rate.is_some()) {
        return Err(Failure::wrong_input(
            "the scenario has load.rate: only a run decides which worker has an iteration; leave the rate out",
        ));
    }
    if args.random_seed.is_none() {
        say_error(&format!("the seed is {seed}"));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut print = || -> io::Result<()> {
        for worker in 0..scenario.workers() {
            let mut plan = WorkerPlan::new(&scenario, seed, worker);
            let iterations = scenario.population_of(worker).load.iterations.map_or(0, NonZeroU64::get);
            for _ in 0..iterations {
                serde_json::to_writer(&mut out, &plan.next_iteration())?;
                writeln!(out)?;
            }
        }
        out.flush()
    };
    match print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::wrong_input(format!("cannot write the plan: {error}")))
        }
        // A reader that has seen enough, such as head, is no error.
        _ => Ok(0),
    }
}
