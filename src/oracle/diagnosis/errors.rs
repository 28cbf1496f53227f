//! Errors that nothing gave cause for.

use super::{
    Cause, Question,
    hypothesis::{Fit, Hypothesis},
    story::{Said, Spot},
};

/// What may explain an error.
pub(super) fn explain(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let Some((_, Said::Error(text))) = asked.answer else { return Vec::new() };
    let told = format!("the error says '{text}'");
    let new = |cause, tried| Hypothesis::of_rank(cause, tried, Fit::NotKnown, told.clone());
    if let Some(cause) = of_control(text) {
        return vec![Hypothesis::of_rank(cause, 1, Fit::Yes, told)];
    }
    // A sequence that begins without START has to be refused.
    if asked.step.is_first() && !asked.step.start {
        return vec![new(Cause::ErrorText, 1), new(Cause::ModelError, 2)];
    }
    if text.contains("must specify the START flag") {
        return vec![new(Cause::ErrorText, 1), new(Cause::SpuriousRefusal, 2)];
    }
    if text.contains("output") {
        return vec![new(Cause::OutputRefused, 1), new(Cause::ModelError, 2)];
    }
    vec![new(Cause::ModelError, 1)]
}

/// What a native model says of a control that is not as its request is: `control 'NAME' says TOLD to the model and the
/// request says SAID`.
fn of_control(text: &str) -> Option<Cause> {
    let (_, rest) = text.split_once("control '")?;
    let (name, rest) = rest.split_once("' says ")?;
    let (told, _) = rest.split_once(" to the model and the request says ")?;
    let is_told = told == "true";
    Some(match name {
        _ if name.contains("START") => {
            if is_told {
                Cause::StartTold
            } else {
                Cause::StartNotTold
            }
        }
        _ if name.contains("END") => {
            if is_told {
                Cause::EndTold
            } else {
                Cause::EndNotTold
            }
        }
        _ if name.contains("READY") => {
            if is_told {
                Cause::ReadyTold
            } else {
                Cause::ReadyNotTold
            }
        }
        _ => Cause::CorridWrong,
    })
}
