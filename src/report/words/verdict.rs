//! The words of a verdict's reasons.

use std::collections::BTreeMap;

use crate::{
    recorder::{Counts, Found},
    verdict::{Doubt, Missed, Verdict},
};
use oracle::ViolationKind;
use workload::wording::counted;

/// Why a verdict is what it is.
pub(in crate::report) fn because(
    verdict: Verdict,
    total: &Counts,
    violations: &BTreeMap<ViolationKind, u64>,
    doubts: &[String],
) -> String {
    match verdict {
        Verdict::Valid => {
            let judged = total.answered().saturating_sub(total.unjudged);
            format!("{} checked, no violations", counted(judged, "response"))
        }
        Verdict::Invalid => {
            let kinds: Vec<_> = violations.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            format!("{}: {}", counted(violations.values().sum(), "violation"), kinds.join(", "))
        }
        Verdict::Unknown => doubts.join("; "),
    }
}

/// Why a run cannot be called valid.
pub(in crate::report) fn doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Interrupted => "the run was interrupted".to_owned(),
        Doubt::EndedByThreshold(found) => format!("the threshold '{}' ended the run", found.threshold),
        Doubt::NotEnded => "the run had not ended".to_owned(),
        Doubt::BrokenOff(why) => why.clone(),
        Doubt::RankLost(rank, why) => format!("rank {rank} was lost: {why}"),
        Doubt::NothingJudged => "no sequence ran to its end with responses that could be judged".to_owned(),
        Doubt::NoOutputJudged => {
            "no output is judged, because the same inputs did not have the same outputs when the golden file was \
             made: --expect none judges all else"
                .to_owned()
        }
        Doubt::NoStateShown => {
            "no other state showed in an output when the golden file was made: the model keeps none, the server loses it, or a rule \
             (--compare) is too wide; --expect none judges all else"
                .to_owned()
        }
        Doubt::Fingerprints { distinct, pairs } => format!(
            "only {distinct} of {pairs} pairs of states have outputs that tell them apart, so mixed states may not show: calibrate with other \
             inputs (--inputs)"
        ),
        Doubt::Unjudged { unjudged, answered } => format!(
            "{unjudged} of {} could not be judged: IDs that rest for longer than the idle limit clear that up (contexts.rare)",
            counted(*answered, "response")
        ),
        Doubt::Unanswered { unanswered, requests } => {
            format!("{unanswered} of {} got no response", counted(*requests, "request"))
        }
        Doubt::NotMeasured(found) => {
            let of = if found.population.is_empty() { String::new() } else { format!(" of {}", found.population) };
            format!("the threshold '{}'{of} was not measured: it had no values", found.threshold)
        }
        Doubt::NotReached(claims) => {
            format!("not reached: {}", claims.iter().map(|claim| claim.name()).collect::<Vec<_>>().join(", "))
        }
    }
}

/// What a threshold says that was missed.
pub(in crate::report) fn missed(missed: &Missed) -> String {
    match missed {
        Missed::Answers { slow, limit } => {
            format!("{} took longer than {} ms", counted(*slow, "response"), limit.as_millis())
        }
        Missed::Threshold(found) => threshold(found),
    }
}

/// A threshold, and what was measured.
pub(in crate::report) fn threshold(found: &Found) -> String {
    let Found { threshold, population, value, at_s, measured, .. } = found;
    let whose = if population.is_empty() { String::new() } else { format!("{population}: ") };
    let seen = match value {
        _ if !measured => "not measured".to_owned(),
        Some(value) => threshold.shown(*value),
        None => threshold.shown(f64::INFINITY),
    };
    let when = at_s.map(|at| format!(" from {at} s on")).unwrap_or_default();
    format!("{whose}{threshold}: {seen}{when}")
}
