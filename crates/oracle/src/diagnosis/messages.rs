//! Answers that came where they should not, or in another form.

use super::{
    Cause, Clue, Question,
    hypothesis::{Fit, Hypothesis, in_order},
    story::Spot,
};
use crate::{history::Entry, ms};
use workload::{
    event::{EventKind, Received},
    inputs::ElementType,
    tensor::{Tensor, TensorData, elements},
};

/// An answer too many.
pub(super) fn duplicate(question: &Question) -> Vec<Hypothesis> {
    let is_series = question.known.arithmetic.answers.are_series();
    in_order(&[Cause::AnsweredTwice], [if is_series { Clue::SeenAndExpected } else { Clue::SeenAgain }])
}

/// The message that the violation is about. Of several that came at the same time this is the odd one: one that is kept whole, because
/// something in it is wrong, or one that answers another context.
fn message<'q>(question: &Question<'q>) -> Option<&'q Entry> {
    let place = question.violation.place.as_ref()?;
    let is_here = |entry: &&Entry| {
        (entry.context.worker, entry.context.context) == (place.worker, place.context)
            && entry.at == question.violation.at_ns
            && matches!(entry.what, EventKind::Answered(..) | EventKind::Received(_))
    };
    let oddness = |entry: &&Entry| match &entry.what {
        EventKind::Answered(request, ..) if (request.worker, request.context) == (place.worker, place.context) => 2,
        EventKind::Answered(..) => 1,
        _ => 0,
    };
    question.story.window.iter().filter(is_here).min_by_key(oddness)
}

/// An answer that was not asked for here.
pub(super) fn misaddressed(question: &Question) -> Vec<Hypothesis> {
    let Some(entry) = message(question) else { return in_order(&[Cause::ResponseElsewhere], [Clue::Seen]) };
    let (id, request) = match &entry.what {
        EventKind::Answered(request, ..) => (request.to_string(), Some(*request)),
        EventKind::Received(received) => (received.id.clone(), received.request()),
        _ => (String::new(), None),
    };
    let known = request.and_then(|request| question.story.find(request));
    let Some(spot) = known else { return in_order(&[Cause::UnknownRequestId], [Clue::UnknownId { id }]) };
    let told = question.story.told(spot);
    let request = question.story.asked(spot).step.request;
    let context = Some(told.context).filter(|context| *context != entry.context);
    in_order(&[Cause::ResponseElsewhere], [Clue::AnswerTo { request, id: told.correlation_id, context }])
}

/// An answer without output, with others, or with several.
pub(super) fn other_outputs(question: &Question) -> Vec<Hypothesis> {
    let cause = match outputs_of(question) {
        _ if received(question).is_some_and(|received| received.outputs > 0) => Cause::OutputBesideError,
        Some(0) => return no_output(question),
        Some(2..) => Cause::OutputSurplus,
        _ => Cause::OutputName,
    };
    in_order(&[cause], [Clue::Seen])
}

fn received<'q>(question: &Question<'q>) -> Option<&'q Received> {
    match &message(question)?.what {
        EventKind::Received(received) => Some(received),
        _ => None,
    }
}

/// Whether an output that does not hold what its shape says is too long or too short.
pub(super) fn size(question: &Question) -> Cause {
    let response = received(question).and_then(|received| received.result.as_ref().ok());
    let outputs = response.map_or(&[][..], |response| &response.outputs);
    let held = |output: &Tensor| match &output.data {
        TensorData::Raw(bytes) => bytes.len(),
        TensorData::Int32(elements) => elements.len() * 4,
        TensorData::Absent => 0,
    };
    let of_element = |output: &Tensor| {
        let size = ElementType::named(&output.datatype).and_then(ElementType::size);
        size.unwrap_or_else(|| question.known.arithmetic.datatype.bytes())
    };
    let is_too_long = |output: &Tensor| held(output) > elements(&output.shape).saturating_mul(of_element(output));
    if outputs.iter().any(is_too_long) { Cause::OutputTooLong } else { Cause::OutputTooShort }
}

/// How many outputs the answer has; what the model says of the request comes all the same.
fn outputs_of(question: &Question) -> Option<usize> {
    let response = received(question)?.result.as_ref().ok()?;
    let is_output = |output: &&Tensor| question.known.controls.as_ref() != Some(&output.name);
    Some(response.outputs.iter().filter(is_output).count())
}

/// A model that is told that a request is not ready answers it with nothing, and does not execute it. So does a server that takes the
/// request for one that its client cancelled.
fn no_output(question: &Question) -> Vec<Hypothesis> {
    let executed = question.spot.and_then(|spot| was_executed(question, spot));
    let fit = |as_it_is| Fit::of(executed.map(|executed| executed == as_it_is));
    let new = |cause, rank, fit| Hypothesis::of_rank(cause, rank, fit, [Clue::NoOutput { executed }]);
    let mut missing = new(Cause::OutputMissing, 1, fit(true));
    let at = question.violation.at_ns;
    if let Some(cut) = question.story.cut_before(at).filter(|_| executed != Some(true)) {
        missing.fit = Fit::Yes;
        missing.clues.push(Clue::CutBefore { context: cut.context, ms: ms(at - cut.at) });
    }
    vec![missing, new(Cause::ReadyNotTold, 2, fit(false))]
}

/// Whether the sequence's later answers have the step's value in them.
fn was_executed(question: &Question, spot: Spot) -> Option<bool> {
    let story = question.story;
    let asked = story.asked(spot);
    let before = match story.previous(spot) {
        None if asked.step.start => asked.step.value.zero(),
        previous => previous?.sum()?,
    };
    let (found, value) = (story.found_next(spot)?, asked.step.value);
    // After a START that was not executed anything may be found.
    if found == before.wrapping_add(value) {
        Some(true)
    } else {
        (found == before || asked.step.start).then_some(false)
    }
}
