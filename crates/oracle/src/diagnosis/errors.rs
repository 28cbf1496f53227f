//! Errors that nothing gave cause for.

use super::{
    Cause, Clue, Evidence, Question,
    hypothesis::{Fit, Hypothesis},
    story::{Said, Spot},
};
use workload::{
    controls::{Difference, Flag},
    sequence::CorrelationId,
};

/// What may explain an error.
pub(super) fn explain(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let Some((_, Said::Error(text))) = asked.answer else { return Vec::new() };
    let clue = Clue::ErrorSays { error: (*text).to_owned() };
    let new = |cause, rank| Hypothesis::of_rank(cause, rank, Fit::NotKnown, [clue.clone()]);
    if let Some(cause) = of_control(text) {
        return vec![Hypothesis::of_rank(cause, 1, Fit::Yes, [clue])];
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
        let is = |id: CorrelationId| question.known.id_forms.iter().any(|form| named == Some(&id.written(*form)));
        let own = question.story.told(spot).correlation_id;
        let is_near = || {
            named.is_some_and(|named| question.known.id_forms.iter().any(|form| is_nearly(&own.written(*form), named)))
        };
        let is_of_another = || question.story.sequences.iter().any(|told| is(told.correlation_id));
        if !is(own) && (is_of_another() || is_near()) {
            return vec![new(Cause::IdTakenForAnother, 1), new(Cause::ErrorText, 2)];
        }
        return vec![new(Cause::ErrorText, 1), new(Cause::SpuriousRefusal, 2)];
    }
    if text.contains("output") {
        return vec![new(Cause::OutputRefused, 1), new(Cause::ModelError, 2)];
    }
    vec![new(Cause::ModelError, 1)]
}

/// Whether an ID as the server names it is nearly another one: the lower bits of a number, or a text that begins alike.
fn is_nearly(own: &str, named: &str) -> bool {
    if let (Ok(own), Ok(named)) = (own.parse::<u64>(), named.parse::<u64>()) {
        return (8..64).any(|bits| own & ((1 << bits) - 1) == named) && own != named;
    }
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (own, named) = (letters(own), letters(named));
    let alike = own.iter().zip(&named).take_while(|(own, named)| own == named).count();
    alike >= 8 && alike * 4 >= own.len().max(named.len()) * 3
}

/// What may explain that the model saw another control than the request has: nothing but that.
pub(super) fn control(question: &Question) -> Vec<Hypothesis> {
    let Evidence::Controls { differences, .. } = &question.violation.evidence else { return Vec::new() };
    let cause = differences.first().map(|difference| match *difference {
        Difference::Flag { control, told, .. } => of_flag(control, told == Some(true)),
        Difference::Corrid { .. } => Cause::CorridWrong,
    });
    cause.map(|cause| Hypothesis::of_rank(cause, 1, Fit::Yes, [Clue::Seen])).into_iter().collect()
}

/// What may explain that a sequence was executed in a slot that is not its own.
pub(super) fn slot(question: &Question) -> Vec<Hypothesis> {
    let new = |cause, rank| Hypothesis::of_rank(cause, rank, Fit::NotKnown, [Clue::SeenAndExpected]);
    match question.violation.evidence {
        Evidence::NoSuchSlot { .. } => vec![new(Cause::ExtraSlot, 1)],
        Evidence::TakenSlot { .. } => vec![new(Cause::SharedState, 1), new(Cause::SlotWrong, 2)],
        _ => vec![new(Cause::SlotWrong, 1)],
    }
}

fn of_flag(control: Flag, is_told: bool) -> Cause {
    match (control, is_told) {
        (Flag::Start, true) => Cause::StartTold,
        (Flag::Start, false) => Cause::StartNotTold,
        (Flag::End, true) => Cause::EndTold,
        (Flag::End, false) => Cause::EndNotTold,
        (Flag::Ready, true) => Cause::ReadyTold,
        (Flag::Ready, false) => Cause::ReadyNotTold,
    }
}

/// What the error of a native model says of a control that is not as its request is: `control 'NAME' says TOLD to the model and
/// the request says SAID`.
fn of_control(text: &str) -> Option<Cause> {
    let (_, rest) = text.split_once("control '")?;
    let (name, rest) = rest.split_once("' says ")?;
    let (told, _) = rest.split_once(" to the model and the request says ")?;
    let flags = [("START", Flag::Start), ("END", Flag::End), ("READY", Flag::Ready)];
    let flag = flags.into_iter().find(|(word, _)| name.contains(word));
    Some(flag.map_or(Cause::CorridWrong, |(_, flag)| of_flag(flag, told == "true")))
}

#[cfg(test)]
mod tests {
    use super::is_nearly;

    #[test]
    fn an_id_that_is_nearly_another_is_told_from_others() {
        for (own, named) in [
            ("4294967299", "3"),
            ("777", "9"),
            ("suite-1-cafe\u{301}", "suite-1-caf\u{e9}"),
            ("SUITE-1-CAF\u{c9}", "suite-1-caf\u{e9}"),
            ("suite-1-caf\u{e9} ", "suite-1-caf\u{e9}"),
        ] {
            assert!(is_nearly(own, named), "{own} {named}");
        }
        for (own, named) in [("3", "3"), ("3", "4294967299"), ("5", "1"), ("id-12", "id-1"), ("12", "x")] {
            assert!(!is_nearly(own, named), "{own} {named}");
        }
    }
}
