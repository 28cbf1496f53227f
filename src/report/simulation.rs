//! What simulated seeds came to, as a text and as JSON.

use std::{collections::BTreeMap, io, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    counted,
    json::{Stamp, document_to_json},
};
use crate::{probe::SlotFinding, simulate::Held};
use oracle::ViolationKind;
use reference::Planted;
use workload::claim::Claims;

/// So many seeds with violations are named.
const NAMED_MAX: usize = 100;

/// What the seeds of some scenarios came to.
#[derive(Debug, Default)]
pub(crate) struct SimulationResult {
    /// The first seed and the last that was asked for.
    pub(crate) seeds: (u64, u64),
    /// The scenarios that were begun, in their order.
    pub(crate) scenarios: Vec<SimulatedScenario>,
    /// Whether it was ended before it was done.
    pub(crate) interrupted: bool,
    /// CPU time of this process for it.
    pub(crate) cpu: Duration,
}

/// What the seeds of a scenario came to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SimulatedScenario {
    /// The scenario's name.
    pub(crate) name: String,
    /// How many seeds were simulated.
    pub(crate) seeds: u64,
    /// Requests that were sent.
    pub(crate) requests: u64,
    /// Iterations that were finished.
    pub(crate) iterations: u64,
    /// How long the runs took in their own time, in µs.
    pub(crate) simulated_us: u64,
    /// In how many seeds the slots could be counted.
    pub(crate) slots_counted: u64,
    /// Why not in another; null where they could in all.
    pub(crate) slots_not_counted: Option<String>,
    /// How many seeds had a violation.
    pub(crate) violating: u64,
    /// The least of these seeds, at most 100.
    pub(crate) violating_seeds: Vec<u64>,
    /// How many violations there were, by kind.
    pub(crate) violations_by_kind: BTreeMap<ViolationKind, u64>,
    /// The claims of the scenario that seeds without a violation did not reach, with the number of these seeds.
    pub(crate) claims_missed: BTreeMap<&'static str, u64>,
    /// Iterations at a rate that were due, and did not begin, because all workers had one.
    pub(crate) iterations_not_begun: u64,
    /// The planted faults, in the order of the flags.
    pub(crate) planted_faults: Vec<SimulatedFault>,
    /// What each seed is to reach, and from how many iterations on.
    #[serde(skip)]
    claims: (Claims, u64),
}

/// A planted fault in the seeds of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SimulatedFault {
    /// The fault, and when it was to be committed.
    pub(crate) fault: String,
    /// How often it was committed.
    pub(crate) committed: u64,
    /// In how many seeds it was.
    pub(crate) seeds: u64,
    /// How many of these seeds had a violation.
    pub(crate) found: u64,
}

/// The result for machines.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'r> {
    #[serde(flatten)]
    stamp: Stamp,
    /// The first seed and the last that was asked for.
    seeds: [u64; 2],
    /// CPU time of the process, in s.
    cpu_s: f64,
    /// The scenarios that were begun, in their order.
    scenarios: &'r [SimulatedScenario],
}

impl SimulatedScenario {
    pub(crate) fn new(name: &str, faults: &[Planted], claims: &(Claims, u64)) -> Self {
        let fault = |planted: &Planted| SimulatedFault { fault: planted.to_string(), committed: 0, seeds: 0, found: 0 };
        Self {
            name: name.to_owned(),
            seeds: 0,
            requests: 0,
            iterations: 0,
            simulated_us: 0,
            slots_counted: 0,
            slots_not_counted: None,
            violating: 0,
            violating_seeds: Vec::new(),
            violations_by_kind: BTreeMap::new(),
            claims_missed: BTreeMap::new(),
            iterations_not_begun: 0,
            planted_faults: faults.iter().map(fault).collect(),
            claims: *claims,
        }
    }

    /// Adds what one seed came to.
    pub(crate) fn add(&mut self, seed: u64, held: &Held) {
        let violations = &held.tally.violations;
        self.seeds += 1;
        self.requests += held.requests;
        self.iterations += held.iterations;
        self.simulated_us += u64::try_from(held.took.as_micros()).unwrap_or(u64::MAX);
        match &held.slots.finding {
            SlotFinding::NotCheckable { why } => _ = self.slots_not_counted.get_or_insert_with(|| why.clone()),
            _ => self.slots_counted += 1,
        }
        for (fault, committed) in self.planted_faults.iter_mut().zip(&held.committed) {
            let is_committed = committed.times > 0;
            fault.committed += committed.times;
            fault.seeds += u64::from(is_committed);
            fault.found += u64::from(is_committed && !violations.is_empty());
        }
        self.iterations_not_begun += held.arrived.iter().map(|arrived| arrived.not_begun).sum::<u64>();
        if violations.is_empty() {
            let (claims, from) = &self.claims;
            let missed = claims.iter().filter(|(claim, least)| held.tally.reached.of(*claim) < *least);
            for (claim, _) in missed.filter(|_| held.iterations >= *from) {
                *self.claims_missed.entry(claim.name()).or_default() += 1;
            }
            return;
        }
        self.violating += 1;
        for (kind, count) in violations {
            *self.violations_by_kind.entry(*kind).or_default() += count;
        }
        // Seeds come in nearly their order.
        let place = self.violating_seeds.partition_point(|other| *other < seed);
        self.violating_seeds.insert(place, seed);
        self.violating_seeds.truncate(NAMED_MAX);
    }

    /// The claims that no seed reached.
    fn unreached(&self) -> impl Iterator<Item = &'static str> {
        let in_all = self.seeds - self.violating;
        self.claims_missed.iter().filter(move |(_, seeds)| **seeds >= in_all).map(|(claim, _)| *claim)
    }

    fn simulated_s(&self) -> f64 {
        Duration::from_micros(self.simulated_us).as_secs_f64()
    }

    /// Writes its row.
    pub(crate) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let Self { name, seeds, requests, violating, .. } = self;
        let simulated_s = self.simulated_s();
        let seeds = counted(*seeds, "seed");
        let found = if *violating == 0 { "no violation".to_owned() } else { format!("{violating} with violations") };
        writeln!(out, "{name:<28} {seeds:>12} {requests:>11} requests {simulated_s:>11.1} s  {found}")?;
        if let Some(why) = &self.slots_not_counted {
            writeln!(out, "{:<28} the slots were counted in {} of them: {why}", "", self.slots_counted)?;
        }
        for (claim, missed) in &self.claims_missed {
            writeln!(out, "{:<28} {claim} was not reached in {}", "", counted(*missed, "seed"))?;
        }
        if self.iterations_not_begun > 0 {
            let iterations = counted(self.iterations_not_begun, "iteration");
            writeln!(out, "{:<28} {iterations} did not begin when due, because all workers had one", "")?;
        }
        for SimulatedFault { fault, committed, seeds, found } in &self.planted_faults {
            let (times, seeds) = (counted(*committed, "time"), counted(*seeds, "seed"));
            writeln!(out, "{:<28} {fault} was committed {times}, in {seeds}; {found} of these have violations", "")?;
        }
        Ok(())
    }
}

impl SimulationResult {
    /// The exit code that it stands for.
    pub(crate) fn exit_code(&self) -> u8 {
        match () {
            () if self.violating() > 0 => 1,
            () if self.interrupted || self.scenarios.iter().any(|its| its.unreached().next().is_some()) => 3,
            () => 0,
        }
    }

    fn violating(&self) -> u64 {
        self.scenarios.iter().map(|scenario| scenario.violating).sum()
    }

    /// The place of the first scenario with a violation, and its least such seed.
    pub(crate) fn first_violating(&self) -> Option<(usize, u64)> {
        self.scenarios.iter().enumerate().find_map(|(place, its)| Some((place, *its.violating_seeds.first()?)))
    }

    /// Writes the verdict.
    pub(crate) fn write_verdict(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let seeds: u64 = self.scenarios.iter().map(|scenario| scenario.seeds).sum();
        let (simulated, violating) = (counted(seeds, "run"), self.violating());
        match self.exit_code() {
            1 => writeln!(out, "INVALID: {}", with_violations(violating, &simulated)),
            3 if seeds == 0 => writeln!(out, "UNKNOWN: interrupted before a run was over"),
            3 if self.interrupted => writeln!(out, "UNKNOWN: interrupted; {simulated} had no violation"),
            3 => {
                let unreached =
                    self.scenarios.iter().flat_map(|its| its.unreached().map(move |claim| (&its.name, claim)));
                let unreached: Vec<_> = unreached.map(|(name, claim)| format!("{claim} ({name})")).collect();
                writeln!(out, "UNKNOWN: {simulated}, no violation; no seed reached {}", unreached.join(", "))
            }
            _ => writeln!(out, "VALID: {simulated}, no violation"),
        }
    }

    /// Writes how fast that was.
    pub(crate) fn write_speed(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let simulated: f64 = self.scenarios.iter().map(SimulatedScenario::simulated_s).sum();
        let cpu = self.cpu.as_secs_f64().max(f64::EPSILON);
        writeln!(
            out,
            "{simulated:.1} s simulated in {cpu:.1} s of CPU: {:.0} simulated s in one s of CPU",
            simulated / cpu
        )
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        document_to_json(&Document {
            stamp: Stamp::of(self.exit_code()),
            seeds: self.seeds.into(),
            cpu_s: self.cpu.as_secs_f64(),
            scenarios: &self.scenarios,
        })
    }
}

/// How many of these runs have violations.
pub(super) fn with_violations(violating: u64, runs: &str) -> String {
    format!("{violating} of {runs} {} violations", if violating == 1 { "has" } else { "have" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(violating_seeds: Vec<u64>) -> SimulatedScenario {
        let violating = violating_seeds.len() as u64;
        SimulatedScenario {
            seeds: 10,
            violating,
            violating_seeds,
            ..SimulatedScenario::new("test", &[], &Default::default())
        }
    }

    fn text(result: &SimulationResult) -> String {
        let mut out = Vec::new();
        result.write_verdict(&mut out).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn the_verdict_counts_the_seeds_of_all_scenarios() {
        let of = |scenarios, interrupted| SimulationResult { scenarios, interrupted, ..SimulationResult::default() };
        let valid = of(vec![scenario(vec![]), scenario(vec![])], false);
        assert_eq!((text(&valid).as_str(), valid.exit_code()), ("VALID: 20 runs, no violation\n", 0));
        let interrupted = of(vec![scenario(vec![])], true);
        assert_eq!(text(&interrupted), "UNKNOWN: interrupted; 10 runs had no violation\n");
        assert_eq!(interrupted.exit_code(), 3);
        assert_eq!(text(&of(Vec::new(), true)), "UNKNOWN: interrupted before a run was over\n");
        let missed = BTreeMap::from([("backlog", 10), ("idle-reap", 9)]);
        let unreached =
            of(vec![scenario(vec![]), SimulatedScenario { claims_missed: missed, ..scenario(vec![]) }], false);
        let says = "UNKNOWN: 20 runs, no violation; no seed reached backlog (test)\n";
        assert_eq!((text(&unreached).as_str(), unreached.exit_code()), (says, 3));
        // What was found counts for more than what was not done.
        let one = SimulatedScenario { seeds: 1, ..scenario(vec![7]) };
        assert_eq!(text(&of(vec![one], false)), "INVALID: 1 of 1 run has violations\n");
        let invalid = of(vec![scenario(vec![]), scenario(vec![7, 9])], true);
        assert_eq!(text(&invalid), "INVALID: 2 of 20 runs have violations\n");
        assert_eq!((invalid.exit_code(), invalid.first_violating()), (1, Some((1, 7))));
    }
}
