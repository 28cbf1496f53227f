//! Errors that nothing gave cause for.

use super::{
    Cause, Clue, Evidence, Question,
    hypothesis::{Hypothesis, in_order},
    story::{Said, Spot},
};
use crate::words::says_nothing;
use workload::{
    controls::{Difference, Flag},
    sequence::CorrelationId,
};

pub(super) fn explain(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    let Some((_, Said::Error(text))) = asked.answer else { return Vec::new() };
    let wants_start = text.contains("must specify the START flag");
    let of_program = of_control(text).or_else(|| of_states(text));
    let causes: &[Cause] = if of_program.is_some() {
        of_program.as_slice()
    } else if asked.step.flaw().is_some() && wants_start {
        // Its sequence was over by then, and that is looked at after what is wrong with the request by itself.
        &[Cause::FlawTaken, Cause::ErrorText]
    } else if asked.step.is_to_be_rejected() {
        &[Cause::ErrorText, Cause::ModelError]
    } else if wants_start && names_another(question, spot, text) {
        &[Cause::IdTakenForAnother, Cause::ErrorText]
    } else if wants_start {
        &[Cause::ErrorText, Cause::SpuriousRejection]
    } else if says_nothing(text) {
        // A response without an output becomes such an error over HTTP.
        &[Cause::OutputMissing, Cause::ModelError]
    } else if text.contains("output") {
        &[Cause::OutputRejected, Cause::ModelError]
    } else {
        &[Cause::ModelError]
    };
    in_order(causes, [Clue::ErrorSays { error: text.to_owned() }])
}

/// Whether a START error names the ID of another sequence, or one that is nearly its own.
fn names_another(question: &Question, spot: Spot, text: &str) -> bool {
    let named = text.split_once("for sequence ").and_then(|(_, rest)| rest.split_once(" to model"));
    let Some((named, _)) = named else { return false };
    let is_written = |id: CorrelationId, is_it: &dyn Fn(&str) -> bool| {
        question.known.id_forms.iter().any(|form| is_it(&id.written(*form)))
    };
    let is = |id| is_written(id, &|written| written == named);
    let own = question.story.told(spot).correlation_id;
    let is_of_another = || question.story.sequences.iter().any(|told| is(told.correlation_id));
    !is(own) && (is_of_another() || is_written(own, &|own| is_nearly(own, named)))
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
    in_order(cause.as_slice(), [Clue::Seen])
}

/// What may explain that a sequence was executed in a slot that is not its own.
pub(super) fn slot(question: &Question) -> Vec<Hypothesis> {
    let causes: &[Cause] = match question.violation.evidence {
        Evidence::NoSuchSlot { .. } => &[Cause::ExtraSlot],
        Evidence::TakenSlot { .. } => &[Cause::SharedState, Cause::SlotWrong],
        _ => &[Cause::SlotWrong],
    };
    in_order(causes, [Clue::SeenAndExpected])
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

/// What the error of a model of this project says of the states that the server gave it.
fn of_states(text: &str) -> Option<Cause> {
    let said = [
        ("states are exchanged: ", Cause::ExchangedStates),
        ("states are not of one step: ", Cause::StatesOfSeveralSteps),
    ];
    said.into_iter().find(|(words, _)| text.contains(words)).map(|(_, cause)| cause)
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
