//! Violations as every form of a report tells them: in groups of kind and cause, and an example of a group line by line.

use std::time::Duration;

use serde::Deserialize;

use super::{Description, words};
use oracle::{Place, Violation, ViolationKind, diagnosis::Cause};

/// A report that is not wide has an example of so many groups.
pub(super) const EXAMPLES: usize = 8;

/// What violations have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) kind: ViolationKind,
    /// The likeliest cause; none where no cause is known.
    pub(super) cause: Option<Cause>,
}

impl Group {
    /// That of a violation of a run.
    pub(super) fn of(violation: &Violation) -> Self {
        Self { kind: violation.kind, cause: violation.explanations.first().map(|its| its.cause) }
    }

    /// Kind and cause in words.
    pub(super) fn title(self) -> String {
        match self {
            Self { kind, cause: Some(cause) } => format!("{kind}, cause {cause}"),
            Self { kind, cause: None } => kind.to_string(),
        }
    }
}

/// Each group with its first violation and its size, in the order of the first violations.
pub(super) fn groups<V>(violations: &[V], group: impl Fn(&V) -> Group) -> Vec<(Group, &V, u64)> {
    let mut groups: Vec<(Group, &V, u64)> = Vec::new();
    for violation in violations {
        let group = group(violation);
        match groups.iter_mut().find(|(its, ..)| *its == group) {
            Some((.., count)) => *count += 1,
            None => groups.push((group, violation, 1)),
        }
    }
    groups
}

/// A violation in words, as a result has it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Told {
    kind: ViolationKind,
    /// When the client saw it, in microseconds since the run began.
    at_us: u64,
    #[serde(flatten)]
    place: Option<Place>,
    #[serde(flatten)]
    words: Description,
    /// The likeliest cause first.
    explanations: Vec<Explained>,
}

/// A cause, and what supports it.
#[derive(Clone, Debug, Deserialize)]
struct Explained {
    cause: Cause,
    evidence: String,
}

impl Told {
    /// A violation of a run.
    pub(super) fn of(violation: &Violation) -> Self {
        let explained = |explanation| {
            let &oracle::diagnosis::Explanation { cause, .. } = explanation;
            Explained { cause, evidence: words::evidence(violation, explanation) }
        };
        Self {
            kind: violation.kind,
            at_us: violation.at_ns / 1000,
            place: violation.place.clone(),
            words: Description::of(violation),
            explanations: violation.explanations.iter().map(explained).collect(),
        }
    }

    /// When the client saw it, in microseconds since the run began, and where it was.
    pub(crate) fn site(&self) -> (u64, Option<&Place>) {
        (self.at_us, self.place.as_ref())
    }

    /// The group that it belongs to.
    pub(super) fn group(&self) -> Group {
        Group { kind: self.kind, cause: self.explanations.first().map(|its| its.cause) }
    }

    /// What a report says of it: labels and texts. Two neighbours may have the same label.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let Description { sent, expected, seen } = self.words.clone();
        let mut lines = vec![("where", self.place()), ("sent", sent), ("expected", expected), ("seen", seen)];
        for (index, Explained { cause, evidence }) in self.explanations.iter().enumerate() {
            let label = if index == 0 { "cause" } else { "or" };
            lines.push((label, format!("{cause}: {} Evidence: {evidence}", cause.what())));
        }
        if self.kind == ViolationKind::WrongOutput && self.explanations.is_empty() {
            let text = "not known: docs/GOLDEN.md#what-a-run-judges says why that may be";
            lines.push(("cause", text.to_owned()));
        }
        lines.push(("read on", format!("docs/VIOLATIONS.md#{}", self.kind)));
        lines.push(("read on", format!("sequence-stress explain {}", self.kind)));
        lines
    }

    /// What a report says of it, as a text without colours and line breaks.
    pub(super) fn text(&self) -> String {
        let mut before = "";
        let line = |(label, words): (&'static str, String)| {
            let shown = if label == before { "" } else { label };
            before = label;
            format!("  {shown:<14} {}\n", words.replace(['\n', '\r'], " "))
        };
        let lines: String = self.lines().into_iter().map(line).collect();
        format!("  {}\n{lines}", self.kind.what())
    }

    /// When and where it was seen.
    fn place(&self) -> String {
        let at = words::at(Duration::from_micros(self.at_us));
        let Some(Place { worker, context, correlation_id, request_id, .. }) = &self.place else { return at };
        let request = request_id.map_or_else(String::new, |request| format!(", request {request}"));
        format!("{at}, worker {worker}, context {context}, correlation ID {correlation_id}{request}")
    }
}
