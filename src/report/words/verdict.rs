//! The words of a verdict's reasons.

use crate::verdict::{Doubt, Measured, Missed};
use workload::wording::counted;

/// Why a run cannot be called valid.
pub(in crate::report) fn doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Interrupted => "the run was interrupted".to_owned(),
        Doubt::BrokenOff(why) => why.clone(),
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
        Doubt::NotMeasured(of) => format!("the threshold for the {} was not measured: there were none", measured(of)),
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
        Missed::Times { of, percentile, found, limit } => {
            let (percentile, ms) = (percentile.name().replace('_', "."), found.as_secs_f64() * 1000.0);
            format!("{percentile} of the {} is {ms:.1} ms, above {} ms", measured(of), limit.as_millis())
        }
    }
}

fn measured(Measured { what, population }: &Measured) -> String {
    if population.is_empty() { what.to_string() } else { format!("{what} of {population}") }
}
