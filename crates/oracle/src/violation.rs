//! What a correct server does not do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Evidence, diagnosis::Explanation};
use workload::{
    event::{ContextId, Nanos},
    sequence::{CorrelationId, RequestId, Step},
};

workload::table! {
    /// The kind of a violation.
    pub enum ViolationKind {
        /// A response is not the running sum of its sequence.
        WrongSum = "wrong-sum";
        /// A response is not what the model answers to its sequence on an idle server.
        WrongOutput = "wrong-output";
        /// A step without START was accepted although its ID had no sequence.
        MissingStartError = "missing-start-error";
        /// A step was rejected for want of START although its sequence was there.
        SpuriousStartError = "spurious-start-error";
        /// A request was answered that has to be rejected for a flaw.
        FlawAccepted = "flaw-accepted";
        /// A step was rejected for a time limit that had not passed, or although its sequence had a slot.
        SpuriousTimeout = "spurious-timeout";
        /// A sequence that waited for a slot beyond its time limit was executed.
        MissingTimeout = "missing-timeout";
        /// A request was answered with an error that it gave no cause for.
        UnexpectedError = "unexpected-error";
        /// A response, or one of several to a request, did not come within the longest lawful wait.
        Lost = "lost";
        /// A request was answered more often than its model answers.
        Duplicate = "duplicate";
        /// A response came after that of a later request of its stream, or after a later one to its own request.
        Reordered = "reordered";
        /// A stream brought a response to a request that was not sent on it.
        Misaddressed = "misaddressed";
        /// A response carries another model's name.
        WrongModel = "wrong-model";
        /// A response carries another version of the model.
        WrongVersion = "wrong-version";
        /// A response has other outputs than the one that was asked for.
        WrongOutputName = "wrong-output-name";
        /// A response's output has another type than the model declares.
        WrongOutputType = "wrong-output-type";
        /// A response's output has another shape than its input.
        WrongOutputShape = "wrong-output-shape";
        /// A response's output has not as many bytes as its shape says.
        WrongOutputSize = "wrong-output-size";
        /// The model saw another START, END, READY or CORRID than the request has.
        WrongControl = "wrong-control";
        /// A sequence was executed in a slot that is not its own.
        WrongSlot = "wrong-slot";
        /// Steps of one sequence were answered by different servers.
        SequenceSplit = "sequence-split";
        /// A stream ended although the client had not closed it, or with responses missing.
        StreamBroken = "stream-broken";
        /// A stream stayed open although the client closed it and had every response, or an error had to end it.
        StreamNotClosed = "stream-not-closed";
        /// The server stopped answering in the middle of the run.
        ServerDied = "server-died";
        /// The server is there, and no request at all was answered for a long time.
        Hang = "hang";
        /// The model's own statistics do not account for what was sent and answered.
        Statistics = "statistics";
        /// The server said that it or its model was not ready, and nobody had asked for that.
        NotReady = "not-ready";
        /// The server's memory grew with the sequences for the whole run.
        MemoryGrowth = "memory-growth";
        /// After the run fewer sequences could be open at a time than the model has slots.
        SlotLeak = "slot-leak";
        /// A START waited for a slot although one was free.
        SlotWithheld = "slot-withheld";
        /// A START waited for a slot while a START behind it got one.
        SlotOutOfTurn = "slot-out-of-turn";
        /// After the run more sequences could be open at a time than the model has slots.
        SlotReleasedTwice = "slot-released-twice";
        /// After the run no idle sequence was ended, however long its idle limit had passed.
        MissingReap = "missing-reap";
        /// Requests were still pending when all were answered and the server had had its time.
        PendingLeft = "pending-left";
    }
}

/// One thing that a correct server would not have done, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    /// Its kind.
    pub kind: ViolationKind,
    /// When the client saw it, in nanoseconds since the run began.
    pub at_ns: Nanos,
    /// Where it happened; none where it concerns the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What was expected, and what was seen.
    pub evidence: Evidence,
    /// What it may come from, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
}

/// Where a violation happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
    /// The context's correlation ID.
    pub correlation_id: CorrelationId,
    /// The request's ID; none where no request is concerned.
    pub request_id: Option<RequestId>,
    /// The step that the request is, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Which of the tool's own sequences it is; none where it is one of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<Purpose>,
}

/// What the tool sends a sequence for that is not one of the run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To see before the run whether the model computes its formula.
    Trial,
    /// To count the slots after the run.
    SlotCheck,
    /// To find the idle limit that the server keeps.
    IdleSearch,
}

impl Place {
    /// A context, and the step that is concerned, if any.
    pub fn new(context: ContextId, correlation_id: CorrelationId, step: Option<Step>) -> Self {
        let ContextId { worker, context } = context;
        let request_id = step.map(|step| step.request);
        Self { worker, context, correlation_id, request_id, step, aside: None }
    }

    /// The same, of a request whose step is not known.
    pub fn of_request(self, request: RequestId) -> Self {
        Self { request_id: Some(request), ..self }
    }
}

impl Violation {
    /// A violation that concerns the whole run.
    pub fn of_the_run(kind: ViolationKind, at_ns: Nanos, evidence: Evidence) -> Self {
        Self { kind, at_ns, place: None, evidence, explanations: Vec::new() }
    }

    /// A violation at this place.
    pub fn at(place: Place, kind: ViolationKind, at_ns: Nanos, evidence: Evidence) -> Self {
        Self { place: Some(place), ..Self::of_the_run(kind, at_ns, evidence) }
    }

    /// Which of the tool's own sequences is concerned, if any.
    pub fn aside(&self) -> Option<Purpose> {
        self.place.as_ref()?.aside
    }

    /// The request that is concerned, if any.
    pub fn request(&self) -> Option<RequestId> {
        self.place.as_ref()?.request_id
    }
}
