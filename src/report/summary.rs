//! The verdict on a run, and what it rests on.

use std::{collections::BTreeMap, fmt, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use super::claims::{self, Claimed};
use crate::{
    recorder::Times,
    run::{Interrupted, RunResult},
};
use workload::{
    scenario::{Millis, Percentile, Population, Scenario, Thresholds},
    seed::Seed,
    wording::counted,
};

/// A run in which a greater share of the answers could not be judged says too little.
const UNJUDGED_PERCENT_MAX: u64 = 50;
/// If more of the requests than this got no answer at all, a run says too little, whoever cut their streams.
const UNANSWERED_PERCENT_MAX: u64 = 90;

/// Whether the server behaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlantedFault {
    /// Its name.
    pub fault: String,
    /// How often it could have happened.
    pub chances: u64,
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
    /// Errors in words that are not known of this server, which were taken for refusals: a sentence each.
    pub fn other_words(&self) -> impl Iterator<Item = String> {
        let server = self.result.preflight.model.server.as_deref().unwrap_or("a server that does not tell its name");
        self.result.tally.other_words.iter().map(move |(of, text)| {
            format!("the words of {server} are not known here: '{text}' was taken for the refusal of {of}")
        })
    }

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
        doubts.extend(self.result.broken_off.clone());
        // What the client cuts short by itself does not run to its end.
        let none_ended = total.sequences_as_planned == 0 && !self.result.tally.cut;
        if none_ended || total.answered() <= total.undetermined {
            doubts.push("no sequence ran to its end with answers that could be judged".to_owned());
        } else if self.unjudged_percent() > UNJUDGED_PERCENT_MAX {
            doubts.push(format!(
                "{} of {} could not be judged: IDs that rest for longer than the idle limit clear that up (contexts.rare)",
                total.undetermined,
                counted(total.answered(), "answer")
            ));
        }
        let unanswered = total.requests.saturating_sub(total.answered());
        if unanswered * 100 > total.requests * UNANSWERED_PERCENT_MAX {
            doubts.push(format!("{unanswered} of {} got no answer", counted(total.requests, "request")));
        }
        doubts.extend(self.unmeasured_thresholds());
        let missed: Vec<_> = self.missed_claims().iter().map(|missed| missed.claim.name()).collect();
        if !missed.is_empty() {
            doubts.push(format!("not reached: {}", missed.join(", ")));
        }
        doubts
    }

    /// The share of the answers of which more than one was lawful, in percent.
    #[must_use]
    pub fn unjudged_percent(&self) -> u64 {
        let total = self.result.tally.total();
        (total.undetermined * 100).checked_div(total.answered()).unwrap_or(0)
    }

    /// All claims, and how far the run came with them.
    #[must_use]
    pub fn claims(&self) -> Vec<Claimed> {
        let RunResult { preflight, tally, .. } = &self.result;
        claims::judge(&self.scenario, preflight, &tally.reached)
    }

    /// The claims that the run did not reach. They say nothing where it found something, was ended before it was done, or may
    /// have gone on for longer than is known.
    #[must_use]
    pub fn missed_claims(&self) -> Vec<Claimed> {
        let RunResult { interrupted, broken_off, is_end_known, tally, .. } = &self.result;
        if *interrupted == Interrupted(true) || broken_off.is_some() || !is_end_known || tally.violation_count() > 0 {
            return Vec::new();
        }
        self.claims().into_iter().filter(|claimed| claimed.hint.is_some()).collect()
    }

    /// What the thresholds say that were missed, if any were.
    #[must_use]
    pub fn missed_threshold(&self) -> Option<String> {
        let RunResult { preflight, tally, .. } = &self.result;
        let of_answers = preflight.limits.threshold.filter(|_| tally.slow > 0);
        let took =
            |limit: Duration| format!("{} took longer than {} ms", counted(tally.slow, "answer"), limit.as_millis());
        let of_answers = of_answers.map(took);
        let populations = self.scenario.populations.iter().enumerate();
        let missed: Vec<_> =
            of_answers.into_iter().chain(populations.flat_map(|(i, p)| self.missed_by(i, p))).collect();
        (!missed.is_empty()).then(|| missed.join("; "))
    }

    /// How long a population's sequences took, and how long they waited for a slot.
    fn times_of(&self, index: usize) -> (&Times, &Times) {
        let tally = &self.result.tally;
        // One that is alone is not told apart.
        let waits = tally.populations.get(index);
        waits.map_or((&tally.sequence, &tally.slot_wait), |waits| (&waits.sequence, &waits.slot))
    }

    /// The thresholds of which nothing was measured, a sentence each.
    fn unmeasured_thresholds(&self) -> Vec<String> {
        let of = |(index, population): (usize, &Population)| {
            let Thresholds { sequence_ms, slot_wait_ms } = &population.thresholds;
            let (sequence, slot) = self.times_of(index);
            let of = if population.name.is_empty() { String::new() } else { format!(" of {}", population.name) };
            let unmeasured = |what: &str, limits: &BTreeMap<Percentile, Millis>, times: &Times| {
                (!limits.is_empty() && times.count() == 0)
                    .then(|| format!("the threshold for the {what}{of} was not measured: there were none"))
            };
            [unmeasured("sequences", sequence_ms, sequence), unmeasured("waits for a slot", slot_wait_ms, slot)]
        };
        self.scenario.populations.iter().enumerate().flat_map(of).flatten().collect()
    }

    /// What a population's thresholds say that were missed.
    fn missed_by(&self, index: usize, population: &Population) -> Vec<String> {
        let Population { name, thresholds: Thresholds { sequence_ms, slot_wait_ms }, .. } = population;
        let (sequence, slot) = self.times_of(index);
        let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
        let limits = |what: &'static str, limits: &BTreeMap<Percentile, Millis>, times: &Times| {
            let missed = limits.iter().filter_map(|(percentile, limit)| {
                let limit = limit.duration();
                let found = Duration::from_micros(times.at_quantile_us(percentile.share()));
                (times.count() > 0 && found > limit).then(|| {
                    let ms = found.as_secs_f64() * 1000.0;
                    format!("{percentile} of the {what}{of} is {ms:.1} ms, above {} ms", limit.as_millis())
                })
            });
            missed.collect::<Vec<_>>()
        };
        [limits("sequences", sequence_ms, sequence), limits("waits for a slot", slot_wait_ms, slot)].concat()
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
