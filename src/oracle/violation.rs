//! What a correct server does not do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::diagnosis::Explanation;
use crate::{
    event::{ContextId, Nanos},
    sequence::{CorrelationId, Step},
};

macro_rules! kinds {
    ($($kind:ident = $name:literal: $what:literal;)*) => {
        /// The kind of a violation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ViolationKind {
            $(#[doc = $what] #[serde(rename = $name)] $kind,)*
        }

        impl ViolationKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The kind's name, as reports have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// What happened, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$kind => $what,)* }
            }
        }
    };
}

kinds! {
    WrongSum = "wrong-sum": "An answer is not the running sum of its sequence.";
    MissingStartError = "missing-start-error": "A step without START was accepted although its ID had no sequence.";
    SpuriousStartError = "spurious-start-error": "A step was refused for want of START although its sequence was there.";
    FlawAccepted = "flaw-accepted": "A request was answered that has to be refused for a flaw.";
    SpuriousTimeout = "spurious-timeout": "A step was refused for a time limit that had not passed, or although its sequence had a slot.";
    MissingTimeout = "missing-timeout": "A sequence that waited for a slot beyond its time limit was executed.";
    UnexpectedError = "unexpected-error": "A request was answered with an error that it gave no cause for.";
    Lost = "lost": "An answer, or one of several to a request, did not come within the longest lawful wait.";
    Duplicate = "duplicate": "A request was answered more often than its model answers.";
    Reordered = "reordered": "An answer came after that of a later request of its stream, or after a later one to its own request.";
    Misaddressed = "misaddressed": "A stream brought an answer to a request that was not sent on it.";
    WrongModel = "wrong-model": "An answer carries another model's name.";
    WrongVersion = "wrong-version": "An answer carries another version of the model.";
    WrongOutputName = "wrong-output-name": "An answer has other outputs than the one that was asked for.";
    WrongOutputType = "wrong-output-type": "An answer's output has another type than the model declares.";
    WrongOutputShape = "wrong-output-shape": "An answer's output has another shape than its input.";
    WrongOutputSize = "wrong-output-size": "An answer's output has not as many bytes as its shape says.";
    WrongControl = "wrong-control": "The model saw another START, END, READY or CORRID than the request has.";
    WrongSlot = "wrong-slot": "A sequence was executed in a slot that is not its own.";
    StreamBroken = "stream-broken": "A stream ended although the client had not closed it, or with answers missing.";
    StreamNotClosed = "stream-not-closed": "A stream stayed open although the client closed it and had every answer.";
    ServerDied = "server-died": "The server stopped answering in the middle of the run.";
    Hang = "hang": "The server is there, and no request at all was answered for a long time.";
    Statistics = "statistics": "The model's own statistics do not account for what was sent and answered.";
    SlotLeak = "slot-leak": "After the run fewer sequences could be open at a time than the model has slots.";
    SlotWithheld = "slot-withheld": "A START waited for a slot although one was free.";
    SlotReleasedTwice = "slot-released-twice": "After the run more sequences could be open at a time than the model has slots.";
    MissingReap = "missing-reap": "After the run no idle sequence was ended, however long its idle limit had passed.";
    PendingLeft = "pending-left": "Requests were still pending when all were answered and the server had had its time.";
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that a correct server would not have done, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// Its kind.
    pub kind: ViolationKind,
    /// When the client saw it, in nanoseconds since the run began.
    pub at_ns: Nanos,
    /// Where it happened; none where it concerns the whole run.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// What was sent.
    pub sent: String,
    /// What had to come back.
    pub expected: String,
    /// What came back.
    pub seen: String,
    /// What it may come from, the likeliest first.
    pub explanations: Vec<Explanation>,
}

/// Where a violation happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
    /// The context's correlation ID.
    pub correlation_id: CorrelationId,
    /// The request's ID; none where no request is concerned.
    pub request_id: Option<String>,
}

impl Place {
    pub(super) fn new(context: ContextId, correlation_id: CorrelationId, step: Option<&Step>) -> Self {
        let request_id = step.map(|step| step.request.to_string());
        Self { worker: context.worker, context: context.context, correlation_id, request_id }
    }
}

impl Violation {
    /// A violation that concerns the whole run.
    #[must_use]
    pub fn of_the_run(kind: ViolationKind, at_ns: Nanos, sent: String, expected: String, seen: String) -> Self {
        Self { kind, at_ns, place: None, sent, expected, seen, explanations: Vec::new() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss)]
        let seconds = self.at_ns as f64 / 1e9;
        write!(f, "{} at {seconds:.3} s", self.kind)?;
        if let Some(Place { worker, context, correlation_id, request_id }) = &self.place {
            write!(f, ", worker {worker} context {context} correlation ID {correlation_id}")?;
            if let Some(request) = request_id {
                write!(f, " request {request}")?;
            }
        }
        write!(f, ": sent {}; expected {}; saw {}", self.sent, self.expected, self.seen)
    }
}
