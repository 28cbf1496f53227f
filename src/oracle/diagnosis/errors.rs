//! Errors that nothing gave cause for.

use super::{
    Cause, Question,
    hypothesis::{Fit, Hypothesis},
    story::{Said, Spot, Told},
};
use crate::oracle::Violation;

/// What may explain an error.
pub(super) fn explain(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let Some((_, Said::Error(text))) = asked.answer else { return Vec::new() };
    let told = format!("the error says '{text}'");
    let new = |cause, tried| Hypothesis::of_rank(cause, tried, Fit::NotKnown, told.clone());
    if let Some(cause) = of_control(text) {
        return vec![Hypothesis::of_rank(cause, 1, Fit::Yes, told)];
    }
    let wants_start = text.contains("must specify the START flag");
    if asked.step.flaw().is_some() && wants_start {
        // Its sequence was over by then, and that is looked at after what is wrong with the request by itself.
        return vec![new(Cause::FlawTaken, 1), new(Cause::ErrorText, 2)];
    }
    if asked.step.is_to_be_refused() {
        return vec![new(Cause::ErrorText, 1), new(Cause::ModelError, 2)];
    }
    if wants_start {
        let named =
            text.split_once("for sequence ").and_then(|(_, rest)| rest.split_once(" to model")).map(|(id, _)| id);
        let own = question.story.told(spot).correlation_id;
        let is_named = |told: &Told| told.correlation_id != own && named == Some(&told.correlation_id.to_string());
        if question.story.sequences.iter().any(is_named) {
            return vec![new(Cause::IdTakenForAnother, 1), new(Cause::ErrorText, 2)];
        }
        return vec![new(Cause::ErrorText, 1), new(Cause::SpuriousRefusal, 2)];
    }
    if text.contains("output") {
        return vec![new(Cause::OutputRefused, 1), new(Cause::ModelError, 2)];
    }
    vec![new(Cause::ModelError, 1)]
}

/// What may explain that the model saw another control than the request has: nothing but that.
pub(super) fn control(question: &Question) -> Vec<Hypothesis> {
    let seen = &question.violation.seen;
    let told = format!("the model tells what it saw: {seen}");
    of_control(seen).map(|cause| Hypothesis::of_rank(cause, 1, Fit::Yes, told)).into_iter().collect()
}

/// What may explain that a sequence was executed in a slot that is not its own.
pub(super) fn slot(question: &Question) -> Vec<Hypothesis> {
    let Violation { expected, seen, .. } = question.violation;
    let new = |cause, tried| {
        Hypothesis::of_rank(cause, tried, Fit::NotKnown, format!("the model tells {seen}; it had to be {expected}"))
    };
    match () {
        // There is no such slot.
        () if expected.starts_with("one of") => vec![new(Cause::ExtraSlot, 1)],
        // Another sequence has it.
        () if expected.starts_with("not ") => vec![new(Cause::SharedState, 1), new(Cause::SlotWrong, 2)],
        () => vec![new(Cause::SlotWrong, 1)],
    }
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
