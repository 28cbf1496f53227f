//! The verdict on a run, and what it rests on.

use std::fmt;

use serde::Serialize;

use super::claims::{self, Claimed};
use crate::{
    engine::{Interrupted, RunResult},
    scenario::Scenario,
    seed::Seed,
};

/// Whether the server behaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check passed.
    Valid,
    /// A check failed.
    Invalid,
    /// Nothing failed, and not enough was tested to say more.
    Unknown,
}

/// A fault of the embedded server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedFault {
    /// Its name.
    pub fault: String,
    /// How often it happened.
    pub committed: u64,
}

/// A run, its verdict, and how to have it again.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What was asked for.
    pub scenario: Scenario,
    /// The scenario's name.
    pub scenario_name: String,
    /// What fixed every choice.
    pub seed: Seed,
    /// The command line that sends the same again.
    pub replay: String,
    /// Where the server was in this process: the faults that were planted in it.
    pub embedded: Option<Vec<PlantedFault>>,
    /// What came of it.
    pub result: RunResult,
}

impl Summary {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.result.tally.violation_count() > 0 {
            Verdict::Invalid
        } else if self.doubts().is_empty() {
            Verdict::Valid
        } else {
            Verdict::Unknown
        }
    }

    /// Why the run cannot be called valid although nothing failed.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let total = self.result.tally.total();
        let mut doubts = Vec::new();
        if self.result.interrupted == Interrupted(true) {
            doubts.push("the run was interrupted".to_owned());
        }
        // What the client cuts short by itself does not run to its end.
        let none_ended = total.sequences_as_planned == 0 && !self.result.tally.cut;
        if none_ended || total.answered() <= total.undetermined {
            doubts.push("no sequence ran to its end with answers that could be judged".to_owned());
        }
        let missed: Vec<_> = self.missed_claims().iter().map(|missed| missed.claim.name()).collect();
        if !missed.is_empty() {
            doubts.push(format!("not reached: {}", missed.join(", ")));
        }
        doubts
    }

    /// All claims, and how far the run came with them.
    #[must_use]
    pub fn claims(&self) -> Vec<Claimed> {
        let RunResult { preflight, tally, .. } = &self.result;
        claims::judge(&self.scenario, preflight, &tally.reached)
    }

    /// The claims that the run did not reach. They say nothing where it found something, or was ended before it was done.
    #[must_use]
    pub fn missed_claims(&self) -> Vec<Claimed> {
        if self.result.interrupted == Interrupted(true) || self.result.tally.violation_count() > 0 {
            return Vec::new();
        }
        self.claims().into_iter().filter(|claimed| claimed.hint.is_some()).collect()
    }

    /// What the threshold says, where there is one and it was missed.
    #[must_use]
    pub fn missed_threshold(&self) -> Option<String> {
        let limit = self.result.preflight.limits.threshold?;
        let slow = self.result.tally.slow;
        (slow > 0).then(|| format!("{slow} answers took longer than {} ms", limit.as_millis()))
    }

    /// The process's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.verdict() {
            Verdict::Invalid => 1,
            _ if self.missed_threshold().is_some() => 5,
            Verdict::Unknown => 3,
            Verdict::Valid => 0,
        }
    }

    /// Requests sent in a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss)]
    pub fn requests_per_second(&self) -> f64 {
        self.result.tally.total().requests as f64 / self.result.elapsed.as_secs_f64().max(1e-9)
    }

    /// CPU time of this process for each request, in µs.
    #[must_use]
    #[expect(clippy::cast_precision_loss)]
    pub fn client_cpu_us_per_request(&self) -> f64 {
        self.result.cpu_us as f64 / self.result.tally.total().requests.max(1) as f64
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
        })
    }
}
