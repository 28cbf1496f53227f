//! What each of several ranks measured in a run, and what all of them come to.

use std::{collections::BTreeSet, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arrived, Memory, RunResult};
use crate::recorder::Tally;
use wire::transport::GoAways;
use workload::event::Nanos;

/// What one of several ranks measured in a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    /// What it counted.
    pub(crate) tally: Tally,
    /// Iterations that it finished.
    pub(crate) iterations: u64,
    /// CPU time of its process for the run, in µs.
    pub(crate) cpu_us: u64,
    pub(crate) memory: Memory,
    pub(crate) go_aways: GoAways,
    pub(crate) arrived: Vec<Arrived>,
    /// When its first request could go out.
    pub(crate) began_ns: Nanos,
    /// When its last stream had ended.
    pub(crate) elapsed: Duration,
    /// Entries that rank 0 did not get.
    pub(crate) lost_entries: u64,
    /// Why it could make no more connections, where it could not.
    pub(crate) ran_short: Option<String>,
}

/// The ranks of a run that was held by several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ranks {
    /// The name of all runs of these ranks.
    pub run_id: String,
    /// How often these ranks were started before. Each time has correlation IDs of its own.
    pub attempt: u32,
    /// The first and the last correlation ID that is reserved for this attempt.
    pub correlation_ids: [u64; 2],
    /// How long after the first rank the last one began, in µs; null where not all of them did.
    pub start_skew_us: Option<u64>,
    /// How far the clocks of the ranks may be apart beyond what was measured, in µs: 0 where all ranks have one clock.
    pub clock_uncertainty_us: u64,
    /// Each rank, by its number.
    pub ranks: Vec<Rank>,
}

/// One of the ranks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// The machine that it was on, where that tells its name.
    pub host: Option<String>,
    /// Requests that it sent.
    pub requests: u64,
    /// Iterations that it finished.
    pub iterations: u64,
    /// CPU time of its process for the run, in µs.
    pub cpu_us: u64,
    /// The most memory that its process had, in bytes.
    pub memory_peak: Option<u64>,
    /// When it began, in µs of the run; null where it did not.
    pub began_us: Option<u64>,
    /// Events that it could not hand over to rank 0.
    #[serde(default)]
    pub lost_events: u64,
    /// Why what it measured is not whole; null where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

impl Rank {
    /// A rank that measured this, and began at this time, in µs, if it did.
    pub(crate) fn of(host: Option<String>, part: &Part, began_us: Option<u64>) -> Self {
        Self {
            host,
            requests: part.tally.total().requests,
            iterations: part.iterations,
            cpu_us: part.cpu_us,
            memory_peak: part.memory.peak,
            began_us,
            lost_events: part.lost_entries,
            lost: None,
        }
    }
}

impl Ranks {
    /// The ranks of which not all is known, with the reason.
    pub fn lost(&self) -> impl Iterator<Item = (usize, &Rank, &str)> {
        self.ranks.iter().enumerate().filter_map(|(number, rank)| Some((number, rank, rank.lost.as_deref()?)))
    }

    /// On how many machines they were, as far as these tell their names.
    pub fn hosts(&self) -> usize {
        let hosts: BTreeSet<_> = self.ranks.iter().filter_map(|rank| rank.host.as_ref()).collect();
        hosts.len().max(1)
    }

    /// How long after the first rank the last one began, in µs.
    pub(crate) fn measure_skew(&mut self) {
        let began: Option<Vec<_>> = self.ranks.iter().map(|rank| rank.began_us).collect();
        self.start_skew_us = began.and_then(|began| Some(began.iter().max()? - began.iter().min()?));
    }
}

impl RunResult {
    /// Adds what another rank measured.
    pub(crate) fn add_part(&mut self, part: &Part) {
        self.tally.merge(&part.tally);
        self.cpu_us += part.cpu_us;
        self.go_aways.add(&part.go_aways);
        self.elapsed = self.elapsed.max(part.elapsed);
        for theirs in &part.arrived {
            match self.arrived.iter_mut().find(|its| its.population == theirs.population) {
                Some(its) => its.add(theirs),
                None => self.arrived.push(theirs.clone()),
            }
        }
        self.broken_off = self.broken_off.take().or_else(|| part.ran_short.clone());
    }

    /// The first rank of which not all is known, and why.
    pub fn lost_rank(&self) -> Option<(usize, &str)> {
        self.ranks.as_ref()?.lost().next().map(|(number, _, why)| (number, why))
    }

    /// What this rank measured itself.
    pub(crate) fn own_part(&self, iterations: u64) -> Part {
        Part {
            tally: self.tally.clone(),
            iterations,
            cpu_us: self.cpu_us,
            memory: self.memory,
            go_aways: self.go_aways,
            arrived: self.arrived.clone(),
            began_ns: 0,
            elapsed: self.elapsed,
            lost_entries: 0,
            ran_short: None,
        }
    }
}
