//! Violations and their causes in words. Nothing else makes words of them, and nothing reads these back.

mod clues;
mod responses;
mod verdict;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::clues::evidence;
use self::responses::{difference, elements, held, ordered, outputs, same_steps, unlike};
pub(super) use self::{
    responses::{differing, state},
    verdict::{because, doubt, missed, threshold},
};
use crate::run::Absence;
use oracle::{CountBounds, Evidence, Leak, Place, Purpose, Sender, Subject, Violation, ViolationKind};
use workload::{controls, event::Nanos, number::Number, sequence::Step, wording::counted};

/// How many steps, or responses, a sentence names one by one.
const NAMED_MAX: usize = 8;

/// What was sent, what had to come back, and what came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Description {
    /// What was sent, in words.
    pub sent: String,
    /// What had to come back, in words.
    pub expected: String,
    /// What came back, in words.
    pub seen: String,
}

/// A violation as one line.
pub fn describe(violation: &Violation) -> String {
    let place = violation.place.as_ref().map_or_else(String::new, place);
    let Description { sent, expected, seen } = Description::of(violation);
    let at = at(Duration::from_nanos(violation.at_ns));
    format!("{} {at}{place}: sent {sent}; expected {expected}; saw {seen}", violation.kind)
}

/// When the server was away, and whether it is known to be another one since.
pub(crate) fn absence(Absence { at_ns, lasted_ns, is_another }: &Absence) -> String {
    let who = match is_another {
        Some(true) => "another process since, or its model loaded anew",
        Some(false) => "the same process since",
        None => "whether it is another process is not known",
    };
    let seconds = |ns: &Nanos| Duration::from_nanos(*ns).as_secs_f64();
    format!("at {:.1} s for {:.1} s ({who})", seconds(at_ns), seconds(lasted_ns))
}

/// When a violation was seen, so long after the run began.
pub(super) fn at(since: Duration) -> String {
    format!("at {:.3} s", since.as_secs_f64())
}

fn place(Place { worker, context, correlation_id, request_id, .. }: &Place) -> String {
    let request = request_id.map_or_else(String::new, |request| format!(" request {request}"));
    format!(", worker {worker} context {context} correlation ID {correlation_id}{request}")
}

impl Description {
    /// Those of a violation.
    pub fn of(violation: &Violation) -> Self {
        let (expected, seen) = expected_and_seen(violation);
        Self { sent: sent(violation), expected, seen }
    }
}

fn sent(violation: &Violation) -> String {
    let of_the_run = |sent: &oracle::Sent| format!("{} requests, {} of them answered", sent.requests, sent.answered);
    match &violation.evidence {
        Evidence::TakenSlot { .. } => "a step of another sequence".to_owned(),
        Evidence::Overdue { limit_ms, .. } => format!("START of a sequence that may wait for a slot for {limit_ms} ms"),
        Evidence::Withheld { .. } | Evidence::PassedOver { .. } => "START".to_owned(),
        Evidence::SlotsLeaked { slots, .. } => {
            format!("START on {slots} new IDs, as many as there are slots, and steps that keep each sequence open")
        }
        Evidence::SlotsSurplus { slots, .. } => {
            format!("START on one more ID while every slot had a sequence, {slots} in number")
        }
        Evidence::NoneReaped { sequences, pause_ms, .. } => {
            format!("{sequences} sequences of two steps, with a pause of up to {pause_ms} ms between them")
        }
        Evidence::Pending { sent, .. } | Evidence::Silence { sent, .. } | Evidence::Died { sent, .. } => {
            of_the_run(sent)
        }
        Evidence::Counts { requests, .. } => format!("{requests} requests"),
        Evidence::NotReady { of: Subject::Server, .. } => "ServerReady".to_owned(),
        Evidence::NotReady { of: Subject::Model, .. } => "ModelReady".to_owned(),
        Evidence::Growth { sequences, .. } => format!("{sequences} sequences"),
        _ => of_step(violation.place.as_ref()),
    }
}

fn of_step(place: Option<&Place>) -> String {
    let step = place.and_then(|place| place.step).map_or("nothing".to_owned(), |step: Step| step.to_string());
    let aside = place.and_then(|place| place.aside).map_or("", |purpose| match purpose {
        Purpose::Trial => ", before the run",
        Purpose::SlotCheck => ", of the slot check",
        Purpose::IdleSearch => ", of the search for the idle limit",
    });
    format!("{step}{aside}")
}

#[expect(clippy::too_many_lines, reason = "one arm for each evidence")]
fn expected_and_seen(violation: &Violation) -> (String, String) {
    let text = |expected: &str, seen: &str| (expected.to_owned(), seen.to_owned());
    match &violation.evidence {
        Evidence::Sum { expected, seen, disorder } => {
            let off_by = match expected.as_slice() {
                [expected] => off_by(*seen, *expected),
                _ => String::new(),
            };
            (joined(expected, " or "), format!("{seen}{off_by}{}", ordered(disorder.as_ref())))
        }
        Evidence::Output { expected, seen, misfit, like, disorder } => {
            let names: Vec<_> = expected.iter().map(state).collect();
            let expected = match like {
                Some(like) => same_steps(like, violation.at_ns),
                None => format!("the outputs of {}", names.join(" or ")),
            };
            let unlike = if like.is_some() { "other outputs" } else { "outputs unlike those of any known state" };
            let seen = outputs(seen.as_ref(), misfit.as_deref(), unlike);
            (expected, format!("{seen}{}", ordered(disorder.as_ref())))
        }
        Evidence::ResponseOrder { seen } => {
            let numbers: Vec<_> = seen.iter().map(ToString::to_string).collect();
            ("the responses in their order".to_owned(), format!("them in the order {}", numbers.join(", ")))
        }
        Evidence::SumOfResponse { response, of, expected, seen } => {
            (format!("{expected} as response {response} of {of}"), format!("{seen}{}", off_by(*seen, *expected)))
        }
        Evidence::Sums { expected, seen } => {
            let such_as = if violation.kind == ViolationKind::WrongSum { "such as " } else { "" };
            (format!("{such_as}{}", responses(expected)), responses(seen))
        }
        Evidence::Elements { datatype, count, seen } => {
            let each = if *count > 1 { " in all elements" } else { "" };
            (format!("{}{each}", datatype.in_words()), unlike(seen))
        }
        Evidence::NotRejected { seen, disorder } => (
            "a rejection: the ID had no sequence".to_owned(),
            format!("the response {seen}{}", ordered(disorder.as_ref())),
        ),
        Evidence::Rejected { since_ms, error, disorder } => {
            let expected = match since_ms {
                None => "a response: the request carries START".to_owned(),
                Some(ms) => format!("a response: the last accepted step was sent only {ms} ms before"),
            };
            (expected, format!("{}{}", the_error(error), ordered(disorder.as_ref())))
        }
        Evidence::Flaw { flaw, error } => (
            format!("the error '… {} …'", flaw.rejection()),
            error.as_deref().map_or("a response".to_owned(), the_error),
        ),
        Evidence::Expired { error } => {
            ("a response: its sequence had a slot, or no time limit of its ID had passed".to_owned(), the_error(error))
        }
        Evidence::Failed { has_to_be_rejected, code, error } => {
            let expected = if *has_to_be_rejected { "to be rejected for want of START" } else { "a response" };
            // An error that says nothing has a code yet, where steps are calls.
            let code = code.map_or_else(String::new, |code| format!("{code} with "));
            (expected.to_owned(), format!("{code}{}", the_error(error)))
        }
        Evidence::CodeOfRejection { expected, seen, error } => {
            (format!("{expected} with this rejection"), format!("{seen} with {}", the_error(error)))
        }
        Evidence::AnsweredAgain { id, error } => {
            ("one response to each request".to_owned(), format!("{} to request '{id}'", message(error.as_deref())))
        }
        Evidence::NotAskedFor { waiting_for, id, error, sender } => {
            let expected =
                waiting_for.map_or("nothing".to_owned(), |request| format!("a response to request {request}"));
            let whose = sender.map_or_else(String::new, |sender| match sender {
                Sender::Context(context) => format!(" of worker {} context {}", context.worker, context.context),
                Sender::Stream(stream) => format!(" of this context's stream {stream}"),
            });
            (expected, format!("{} to request '{id}'{whose}", message(error.as_deref())))
        }
        Evidence::Overtaken => text("responses in the order of the requests", "its response after a later one's"),
        Evidence::Unanswered { waited_ms, later } => (
            "a response within the longest lawful wait".to_owned(),
            format!("none for {waited_ms} ms, and {later} later requests of the stream unanswered"),
        ),
        Evidence::Responses { expected, seen, is_unfinished } => {
            let end = if *is_unfinished { ", none of which is said to be the last" } else { "" };
            (format!("{}, the last marked as final", of_responses(*expected)), format!("{}{end}", of_responses(*seen)))
        }
        Evidence::Model { expected, seen } => (format!("a response of model '{expected}'"), format!("one of '{seen}'")),
        Evidence::Version { expected, seen } => {
            (format!("a response of version {expected} of the model"), format!("version '{seen}'"))
        }
        Evidence::Outputs { expected, seen } => {
            let expected = match expected.as_slice() {
                [output] => format!("one output, '{output}'"),
                outputs => format!("the outputs '{}'", outputs.join("' and '")),
            };
            (expected, format!("{} outputs {seen:?}", seen.len()))
        }
        Evidence::OutputName { expected, seen } => (format!("the output '{expected}'"), format!("'{seen}'")),
        Evidence::OutputsBesideError { outputs, error } => {
            ("no output beside an error".to_owned(), format!("{outputs} of them beside {}", the_error(error)))
        }
        Evidence::OutputType { expected, seen } => (expected.to_string(), seen.clone()),
        Evidence::OutputShape { expected, seen } => (format!("the shape {expected:?}"), format!("{seen:?}")),
        Evidence::OutputSize { datatype, count, seen } => (elements(*datatype, *count), held(*seen)),
        Evidence::Controls { differences, answer } => {
            let answer =
                answer.map_or("the response has no sum".to_owned(), |answer| format!("the response is {answer}"));
            let differences: Vec<_> = differences.iter().map(difference).collect();
            ("the model to see what was sent".to_owned(), format!("{}; {answer}", differences.join("; ")))
        }
        Evidence::ControlsUnreadable { output, datatype, shape, seen } => (
            format!("the {} elements of '{output}', {}", controls::ELEMENTS, controls::DATATYPE),
            format!("{datatype}{shape:?} of {}", held(*seen)),
        ),
        Evidence::NoSuchSlot { slots, seen } => {
            (format!("one of the {slots} slots, 0 to {}", slots.max(&1) - 1), format!("slot {seen}"))
        }
        Evidence::OtherSlot { expected, seen } => {
            (format!("slot {expected}, in which the sequence's step before was"), format!("slot {seen}"))
        }
        Evidence::TakenSlot { slot, holder, held_ms } => (
            format!("not slot {slot}: the sequence of correlation ID {holder} has had it for {held_ms} ms"),
            format!("slot {slot}"),
        ),
        Evidence::Split { expected, first, last, seen } => {
            let steps = if first == last { format!("step {first}") } else { format!("steps {first} to {last}") };
            (format!("server {expected}, which answered {steps}"), format!("server {seen}"))
        }
        Evidence::Broken { reason } => ("the stream to last until the client closes it".to_owned(), reason.clone()),
        Evidence::Ended => text("the stream to last until the client closes it", "the server ended the stream"),
        Evidence::StillOpen => text("the stream to end", "nothing for the longest lawful wait"),
        Evidence::ErrorWithin { error } => (
            "the stream to end with the status of the error".to_owned(),
            format!("the error '{error}' within the stream"),
        ),
        Evidence::Overdue { answered_ms, waited_ms, .. } => (
            "the error '… timeout of the corresponding sequence has been expired …'".to_owned(),
            format!(
                "a response after {answered_ms} ms; {waited_ms} ms after it was sent other sequences had every slot"
            ),
        ),
        Evidence::Withheld { holders, slots, answered_ms, free_ms } => (
            format!("a slot at once: at most {holders} sequences may have had one of the {slots}"),
            format!(
                "a response after {answered_ms} ms: meanwhile a slot was free for {free_ms} ms, and no START was answered"
            ),
        ),
        Evidence::PassedOver { by, slots, sent_ms, passed_ms, waited_ms } => (
            format!("a slot before ID {by}, whose START was sent {sent_ms} ms later over the same stream"),
            format!(
                "no slot: after {passed_ms} ms ID {by} had one, and after {waited_ms} ms other sequences had all {slots}"
            ),
        ),
        Evidence::SlotsLeaked { slots, seen } => (
            format!("{slots} sequences open at a time, and the slot of each handed on at its END"),
            leak(*slots, *seen),
        ),
        Evidence::SlotsSurplus { slots, within_ms } => {
            ("no response before one of them ended".to_owned(), surplus(*slots, *within_ms))
        }
        Evidence::NoneReaped { limit_ms, .. } => {
            (format!("some of them rejected: the idle limit is {limit_ms} ms"), "every one of them go on".to_owned())
        }
        Evidence::Pending { seen, all_slots_free, .. } => {
            let free = if *all_slots_free { ", and each slot free" } else { "" };
            ("none pending".to_owned(), format!("{seen} pending{free}"))
        }
        Evidence::Silence { seconds, .. } => ("responses".to_owned(), format!("none for {seconds} s")),
        Evidence::Died { endpoint, reason, .. } => (format!("{endpoint} to go on answering"), reason.clone()),
        Evidence::Counts { expected, seen, .. } => (
            bounds(*expected),
            format!("{} successes, {} inferences, {} failures", seen.success, seen.inference, seen.fail),
        ),
        Evidence::NotReady { executed, .. } => (
            "ready: the run did nothing that takes it out of service".to_owned(),
            format!("not ready; {executed} requests were executed until the next look"),
        ),
        Evidence::Growth { bytes, sequences, bytes_per_hour } => {
            let each = bytes_for_each(*bytes, *sequences);
            (
                "memory that does not grow with the sequences".to_owned(),
                format!("{bytes} bytes more in {sequences} sequences: {each} for each, {bytes_per_hour} in an hour"),
            )
        }
    }
}

/// What memory grew by for each sequence; as wide as it is because a history may say anything.
pub(super) fn bytes_for_each(bytes: i64, sequences: u64) -> i128 {
    i128::from(bytes) / i128::from(sequences.max(1))
}

/// What a correct server counts.
pub(super) fn bounds(CountBounds { success_min, success_max, fail_max }: CountBounds) -> String {
    let range = |min: u64, max: u64, noun| {
        if min == max { counted(min, noun) } else { format!("{min} to {}", counted(max, noun)) }
    };
    let (successes, failures) = (range(success_min, success_max, "success"), range(0, fail_max, "failure"));
    format!("{successes} and as many inferences, {failures}")
}

/// How slots were missed, of so many.
pub(super) fn leak(slots: u32, leak: Leak) -> String {
    match leak {
        Leak::Unanswered { open, leaked, waited_ms, later } => {
            let then = later
                .map_or_else(String::new, |later| format!("; when these ended, {later} of the others got a response"));
            format!("{open} of {slots} open at a time, {leaked} unanswered for {waited_ms} ms{then}")
        }
        Leak::NotHandedOn { waited_ms } => format!(
            "all {slots} open at a time; after one of them ended, a START that waited for its slot stayed unanswered for {waited_ms} ms"
        ),
    }
}

/// How a slot was there twice, beside so many.
pub(super) fn surplus(slots: u32, within_ms: u64) -> String {
    format!("a response within {within_ms} ms, and all {slots} went on behind it")
}

/// The server or its model, as the subject of a sentence.
pub(super) fn subject(subject: Subject) -> &'static str {
    match subject {
        Subject::Server => "the server",
        Subject::Model => "the model",
    }
}

/// A time as a person writes it.
pub(super) fn time(time: Duration) -> String {
    match time.as_millis() {
        ms if ms < 1000 => format!("{ms} ms"),
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// A number of bytes as a person writes it.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn the_error(text: &str) -> String {
    format!("the error '{text}'")
}

fn message(error: Option<&str>) -> String {
    error.map_or("a response".to_owned(), the_error)
}

fn off_by(seen: Number, expected: Number) -> String {
    format!(" (off by {})", seen.off_by(expected))
}

fn joined(numbers: &[Number], separator: &str) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

fn responses(numbers: &[Number]) -> String {
    let more = if numbers.len() > NAMED_MAX { ", …" } else { "" };
    format!("the responses {}{more}", joined(&numbers[..numbers.len().min(NAMED_MAX)], ", "))
}

fn of_responses(count: usize) -> String {
    if count == 0 { "no response".to_owned() } else { counted(count as u64, "response") }
}

#[cfg(test)]
mod tests;
