//! What responses and their order are, in words.

use super::{NAMED_MAX, of_responses};
use oracle::{
    Answer, Disorder, State, Taken,
    golden::{Answered, Deviation, Differs, FaultKind, Lineage, Misfit, Named},
};
use workload::{
    controls::{Difference, Flag},
    event::Nanos,
    inputs::ElementType,
    tensor::{Content, Held, Unlike},
};

pub(super) fn content(content: &Content) -> String {
    match content {
        Content::Whole(number) => number.to_string(),
        Content::NotWhole(other) => other.to_string(),
    }
}

pub(super) fn unlike(Unlike { first, other }: &Unlike) -> String {
    let other = other.as_ref().map_or_else(String::new, |other| {
        format!(", and {} in element {} of {}", content(&other.content), other.element, other.of)
    });
    format!("{}{other}", content(first))
}

pub(super) fn elements(datatype: ElementType, count: usize) -> String {
    let size = datatype.size_in_words();
    if count > 1 { format!("{count} elements of {size}") } else { size.to_owned() }
}

/// What the outputs of a response are.
pub(super) fn outputs(seen: Option<&Named>, misfit: Option<&Misfit>, unlike: &str) -> String {
    match (seen, misfit) {
        (Some(seen), _) => format!("the outputs of {}", state(seen)),
        (None, Some(misfit)) => format!("{unlike}: {}", differing(misfit)),
        (None, None) => unlike.to_owned(),
    }
}

/// The response that the same steps had another time.
pub(super) fn same_steps(Answered { place, at_ns, transport, is_confirmed }: &Answered, now: Nanos) -> String {
    let when = if *at_ns <= now { "before" } else { "later" };
    let ms = at_ns.abs_diff(now) / 1_000_000;
    let request = place.request_id.map_or_else(|| "?".to_owned(), |request| request.to_string());
    let over = transport.map_or_else(String::new, |transport| format!(" over {transport}"));
    let which = if *is_confirmed { "the idle server gives them, too" } else { "one of the two is wrong" };
    format!("the outputs that the same steps had {ms} ms {when}, in request {request}{over}: {which}")
}

/// How a response is not what it has to be.
pub(in super::super) fn differing(misfit: &Misfit) -> String {
    let Deviation { response, output, what } = match misfit {
        Misfit::Responses { expected, seen } => return format!("{} in place of {expected}", of_responses(*seen)),
        Misfit::Output(deviation) => deviation,
    };
    let which = response.map_or_else(String::new, |number| format!("response {number}, "));
    let differs = match what {
        Differs::Shape { expected, seen } => format!("shape {seen:?} in place of {expected:?}"),
        Differs::Element { element } => format!("element {element} differs"),
        Differs::Number { element, expected, seen, apart, tolerance, .. } => {
            format!("element {element} is {seen} in place of {expected}: {apart} off, tolerance {tolerance:.1e}")
        }
    };
    format!("{which}'{output}', {differs}")
}

/// A state of a model without a formula.
pub(in super::super) fn state(Named { lineage, tracks, .. }: &Named) -> String {
    let track = |place: usize| tracks.get(place).map_or("?", String::as_str);
    match lineage {
        None => "a state that no track has".to_owned(),
        Some(Lineage::Track { steps, .. }) => format!("step {steps} of '{}'", track(0)),
        Some(Lineage::Ended { steps, .. }) => format!("step {steps} of '{}' with END", track(0)),
        Some(Lineage::Fault { kind, steps, .. }) => {
            let befell = match kind {
                FaultKind::StateReset => "its state reset before",
                FaultKind::NotExecuted => "the step before not executed",
                FaultKind::ExecutedTwice => "the step executed twice",
                FaultKind::Exchanged => "the next step executed before",
                FaultKind::LeakedState => "the state of another sequence",
                FaultKind::StateKept => "a state kept at START",
            };
            format!("step {steps} of '{}' with {befell}", track(0))
        }
        Some(Lineage::Continued { step, after, .. }) => {
            format!("step {step} of '{}' on the state of '{}' after its step {after}", track(0), track(1))
        }
    }
}

pub(super) fn held(held: Held) -> String {
    match held {
        Held::Bytes(bytes) => format!("{bytes} bytes"),
        Held::Elements(elements) => format!("{elements} elements"),
        Held::Nothing => "no elements of its type".to_owned(),
    }
}

pub(super) fn difference(difference: &Difference) -> String {
    let phrase = |name: &str, told: String, said: String| {
        format!("control '{name}' says {told} to the model and the request says {said}")
    };
    match *difference {
        Difference::Flag { control, told, said } => {
            let name = match control {
                Flag::Start => "START",
                Flag::End => "END",
                Flag::Ready => "READY",
            };
            phrase(name, told.map_or("nothing".to_owned(), |told| told.to_string()), said.to_string())
        }
        Difference::Corrid { told, said } => phrase("CORRID", told.to_string(), said.to_string()),
    }
}

/// That no order of the steps explains the responses, behind what was seen.
pub(super) fn ordered(disorder: Option<&Disorder>) -> String {
    let Some(Disorder { before, prefix, unexplained }) = disorder else { return String::new() };
    let before = match before {
        State::Absent => "there was no sequence".to_owned(),
        State::Live(Some(sum)) => format!("the sum was {sum}"),
        State::Live(None) => "the sum was not known".to_owned(),
    };
    let next = list(&unexplained[..unexplained.len().min(NAMED_MAX)]);
    let left_out = if prefix.len() > NAMED_MAX { "… " } else { "" };
    let newest = list(&prefix[prefix.len().saturating_sub(NAMED_MAX)..]);
    let how = if prefix.is_empty() {
        format!("none begins with {next}")
    } else {
        format!("after {left_out}{newest} none goes on to {next}")
    };
    format!("; before, {before}; no order of the steps explains it: {how}")
}

pub(super) fn list(steps: &[Taken]) -> String {
    let taken = |Taken { request, answer }: &Taken| match answer {
        Some(Answer::Sum(sum)) => format!("{request} = {sum}"),
        Some(Answer::Rejected) => format!("{request} rejected"),
        None => format!("{request} (no response yet)"),
    };
    steps.iter().map(taken).collect::<Vec<_>>().join(", ")
}
