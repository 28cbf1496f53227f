//! The verdict on a run, and what it rests on.

pub(crate) mod claims;

use std::time::Duration;

use crate::{
    recorder::Found,
    run::{End, Interrupted, Ranks, RunResult},
};
use oracle::golden::Fingerprints;
use workload::{claim::Claim, scenario::Scenario};

/// A run in which a greater share of the answers could not be judged says too little.
const UNJUDGED_PERCENT_MAX: u64 = 50;
/// If more of the requests than this got no answer at all, a run says too little, whoever cut their streams.
const UNANSWERED_PERCENT_MAX: u64 = 90;

workload::table! {
    /// Whether the server behaved.
    pub enum Verdict {
        /// Every check passed.
        Valid = "valid";
        /// A check failed.
        Invalid = "invalid";
        /// Nothing failed, and not enough was tested to say more.
        Unknown = "unknown";
    }
}

/// Why a run cannot be called valid although nothing failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doubt {
    Interrupted,
    /// This threshold ended it when it was missed.
    EndedByThreshold(Found),
    /// It goes on, or nobody learned its end.
    NotEnded,
    /// It could not go on, for this reason.
    BrokenOff(String),
    /// This rank was lost, for this reason.
    RankLost(usize, String),
    /// No sequence ran to its end with answers that could be judged.
    NothingJudged,
    /// No output of a model without a formula is deterministic enough to be judged.
    NoOutputJudged,
    /// No fault in a state shows in the outputs of a model without a formula.
    NoStateShown,
    /// Too few states of a model without a formula can be told apart.
    Fingerprints {
        distinct: u64,
        pairs: u64,
    },
    /// Too many answers could not be judged.
    Unjudged {
        unjudged: u64,
        answered: u64,
    },
    /// Too many requests got no answer.
    Unanswered {
        unanswered: u64,
        requests: u64,
    },
    /// A threshold of which nothing was measured.
    NotMeasured(Found),
    NotReached(Vec<Claim>),
}

/// A threshold that a run missed.
#[derive(Clone, Debug, PartialEq)]
pub enum Missed {
    /// Answers took longer than they may.
    Answers {
        /// How many.
        slow: u64,
        /// What they may take.
        limit: Duration,
    },
    /// A threshold of the scenario.
    Threshold(Found),
}

/// How far a run came with a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) claim: Claim,
    /// How often it has to be reached; zero where the run does not claim it.
    pub(crate) least: u64,
    pub(crate) times: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged<'r> {
    pub(crate) scenario: &'r Scenario,
    pub(crate) result: &'r RunResult,
}

impl Judged<'_> {
    pub(crate) fn verdict(&self) -> Verdict {
        if self.result.tally.violation_count() > 0 {
            Verdict::Invalid
        } else if self.doubts().is_empty() {
            Verdict::Valid
        } else {
            Verdict::Unknown
        }
    }

    /// The verdict, and its doubts, of a run that goes on, if nothing changed any more; of one that has ended the verdict itself.
    pub(crate) fn so_far(&self) -> (Verdict, Vec<Doubt>) {
        let mut doubts = self.doubts();
        doubts.retain(|doubt| *doubt != Doubt::NotEnded);
        let is_valid = doubts.is_empty() && self.verdict() != Verdict::Invalid;
        (if is_valid { Verdict::Valid } else { self.verdict() }, doubts)
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.verdict() {
            Verdict::Invalid => 1,
            _ if !self.missed_thresholds().is_empty() => 5,
            Verdict::Unknown => 3,
            Verdict::Valid => 0,
        }
    }

    pub(crate) fn doubts(&self) -> Vec<Doubt> {
        let RunResult { interrupted, broken_off, tally, thresholds, .. } = self.result;
        let total = tally.total();
        let (answered, unjudged) = (total.answered(), total.unjudged);
        let mut doubts = Vec::new();
        if self.result.end == End::NotYet {
            doubts.push(Doubt::NotEnded);
        }
        if *interrupted == Interrupted(true) {
            doubts.push(Doubt::Interrupted);
        }
        doubts.extend(thresholds.iter().find(|found| found.ended_the_run).cloned().map(Doubt::EndedByThreshold));
        doubts.extend(broken_off.clone().map(Doubt::BrokenOff));
        let lost = self.result.ranks.iter().flat_map(Ranks::lost);
        doubts.extend(lost.map(|(number, _, why)| Doubt::RankLost(number, why.to_owned())));
        // What the client cuts short by itself does not run to its end.
        let none_ended = total.sequences_as_designed == 0 && !tally.cut;
        if none_ended || answered <= unjudged {
            doubts.push(Doubt::NothingJudged);
        } else if self.unjudged_percent() > UNJUDGED_PERCENT_MAX {
            doubts.push(Doubt::Unjudged { unjudged, answered });
        }
        // Where nobody expects anything of outputs, there are no golden ones.
        if let Some(golden) = self.result.preflight.golden.as_ref().filter(|golden| !golden.words().is_empty()) {
            let Fingerprints { distinct, pairs } = golden.facts.fingerprints;
            if !golden.judges() {
                doubts.push(Doubt::NoOutputJudged);
            } else if !golden.facts.show_states() {
                doubts.push(Doubt::NoStateShown);
            } else if !golden.facts.fingerprints.are_enough() {
                doubts.push(Doubt::Fingerprints { distinct, pairs });
            }
        }
        let unanswered = total.requests.saturating_sub(answered);
        if unanswered * 100 > total.requests * UNANSWERED_PERCENT_MAX {
            doubts.push(Doubt::Unanswered { unanswered, requests: total.requests });
        }
        let unmeasured = thresholds.iter().filter(|found| !found.measured && !found.missed);
        doubts.extend(unmeasured.cloned().map(Doubt::NotMeasured));
        let missed = self.missed_claims();
        if self.are_claims_required() && !missed.is_empty() {
            doubts.push(Doubt::NotReached(missed.iter().map(|missed| missed.claim).collect()));
        }
        doubts
    }

    /// Whether the run is as large as its scenario, so that a claim that it did not reach is a doubt.
    pub(crate) fn are_claims_required(&self) -> bool {
        self.result.iterations >= self.scenario.claims_from
    }

    /// The share of the answers of which more than one was lawful, in percent.
    pub(crate) fn unjudged_percent(&self) -> u64 {
        let total = self.result.tally.total();
        (total.unjudged * 100).checked_div(total.answered()).unwrap_or(0)
    }

    /// All claims, and how far the run came with them.
    pub(crate) fn claims(&self) -> Vec<Reached> {
        let RunResult { preflight, tally, .. } = self.result;
        let least = claims::in_force(self.scenario, preflight);
        let reached = |claim| Reached { claim, least: least.of(claim), times: tally.reached.of(claim) };
        Claim::ALL.into_iter().map(reached).collect()
    }

    /// The claims that the run did not reach. They say nothing where it found something, was ended before it was done, or may
    /// have gone on for longer than is known.
    pub(crate) fn missed_claims(&self) -> Vec<Reached> {
        let RunResult { interrupted, broken_off, end, tally, thresholds, .. } = self.result;
        let is_cut_short = broken_off.is_some()
            || self.result.lost_rank().is_some()
            || thresholds.iter().any(|found| found.ended_the_run);
        let is_done = *end == End::Known && *interrupted == Interrupted(false) && !is_cut_short;
        if !is_done || tally.violation_count() > 0 {
            return Vec::new();
        }
        self.claims().into_iter().filter(|reached| reached.times < reached.least).collect()
    }

    pub(crate) fn missed_thresholds(&self) -> Vec<Missed> {
        let RunResult { preflight, tally, thresholds, .. } = self.result;
        let limit = preflight.limits.threshold.filter(|_| tally.slow > 0);
        let answers = limit.map(|limit| Missed::Answers { slow: tally.slow, limit });
        let missed = thresholds.iter().filter(|found| found.missed).cloned().map(Missed::Threshold);
        answers.into_iter().chain(missed).collect()
    }
}
