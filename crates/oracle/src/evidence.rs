//! What a violation rests on, as values: what had to come back, and what came. The words for it are the report's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    golden::{Answered, Misfit, Named},
    order::Taken,
    states::State,
};
use workload::{
    controls::Difference,
    event::{Code, ContextId, ServerName},
    inputs::ElementType,
    model::Counted,
    number::{Datatype, Number},
    sequence::{CorrelationId, Flaw, RequestId},
    tensor::{Held, Unlike},
};

/// What was expected and what was seen. Which kinds of violations have which evidence is said with each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Evidence {
    /// `wrong-sum`: the response is none of the sums that a correct server may answer with.
    Sum {
        /// Each of those.
        expected: Vec<Number>,
        /// The response.
        seen: Number,
        /// Why no order of the steps explains the responses, where several streams sent them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disorder: Option<Disorder>,
    },
    /// `wrong-output`: the response belongs to none of the states that a correct server may be in.
    Output {
        /// Each of those.
        expected: Vec<Named>,
        /// The state that the response belongs to, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<Named>,
        /// Else, where it differs, if one thing is expected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        misfit: Option<Box<Misfit>>,
        /// The response that the same steps had, where that is what is expected, because no calibration measured it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        like: Option<Box<Answered>>,
        /// Why no order of the steps explains the responses, where several streams sent them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disorder: Option<Disorder>,
    },
    /// `reordered`: the responses to a request came in another order.
    ResponseOrder {
        /// The numbers, from 1, of the responses that came, in the order in which they came.
        seen: Vec<usize>,
    },
    /// `wrong-sum`: one of several responses to a request.
    SumOfResponse {
        /// The response's number, from 1.
        response: u32,
        /// How many responses there are.
        of: usize,
        /// The sum that it had to have.
        expected: Number,
        /// The sum that it has.
        seen: Number,
    },
    /// `wrong-sum`, `reordered`: the sums of several responses to a request, in their order.
    Sums {
        /// Those that had to come; for `wrong-sum`, one possibility.
        expected: Vec<Number>,
        /// Those that came.
        seen: Vec<Number>,
    },
    /// `wrong-sum`: the elements of the output are not one whole number.
    Elements {
        /// The type that they have.
        datatype: Datatype,
        /// How many there are.
        count: usize,
        /// What they are.
        seen: Unlike,
    },
    /// `missing-start-error`: a step whose ID had no sequence was executed.
    NotRejected {
        /// The response.
        seen: Number,
        /// Why no order of the steps explains the responses, where several streams sent them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disorder: Option<Disorder>,
    },
    /// `spurious-start-error`: a step was rejected although it carries START or its sequence is there.
    Rejected {
        /// How long before the rejection the last accepted step was sent, in ms; none where the step itself carries START.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[serde(rename = "since_us", with = "workload::micros::OfMs::<Option<u64>>")]
        since_ms: Option<u64>,
        /// The error's text.
        error: String,
        /// Why no order of the steps explains the responses, where several streams sent them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disorder: Option<Disorder>,
    },
    /// `flaw-accepted`, `unexpected-error`: a request with a flaw was answered, or rejected for something else.
    Flaw {
        /// What is wrong with the request.
        flaw: Flaw,
        /// The error's text; none where the request was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// `spurious-timeout`: a step was rejected for a time limit that had not passed.
    Expired {
        /// The error's text.
        error: String,
    },
    /// `unexpected-error`: an error that the request gave no cause for.
    Failed {
        /// Whether the step had to be rejected for want of START.
        has_to_be_rejected: bool,
        /// The error's code, where the transport has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        /// The error's text.
        error: String,
    },
    /// `unexpected-error`: a rejection that was due came with another code.
    CodeOfRejection {
        /// The code that goes with such a rejection.
        expected: Code,
        /// The code that came.
        seen: Code,
        /// The error's text.
        error: String,
    },
    /// `duplicate`: a second response to a request.
    AnsweredAgain {
        /// The message's request ID.
        id: String,
        /// The error's text; none where the message is a response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// `misaddressed`: a message that answers no unanswered request of its stream.
    NotAskedFor {
        /// The stream's first unanswered request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting_for: Option<RequestId>,
        /// The message's request ID.
        id: String,
        /// The error's text; none where the message is a response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Who sent the request with this ID, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sender: Option<Sender>,
    },
    /// `reordered`: a response came after that of a later request of its stream.
    Overtaken,
    /// `lost`: a response did not come.
    Unanswered {
        /// How long it was waited for, in ms.
        #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
        waited_ms: u64,
        /// Later requests of the stream that are unanswered, too.
        later: usize,
    },
    /// `lost`, `duplicate`: a request had another number of responses, or none of them was marked as the last.
    Responses {
        /// How many had to come.
        expected: usize,
        /// How many came.
        seen: usize,
        /// Whether none of them was marked as the last.
        is_unfinished: bool,
    },
    /// `wrong-model`: the response carries the name of another model.
    Model {
        /// The model that was asked for.
        expected: String,
        /// The model that the response names.
        seen: String,
    },
    /// `wrong-version`: the response carries another version of the model.
    Version {
        /// The version that answers.
        expected: String,
        /// The version that the response names.
        seen: String,
    },
    /// `wrong-output-name`: the response has other outputs.
    Outputs {
        /// The names of the outputs that were asked for.
        expected: Vec<String>,
        /// The names of those that came.
        seen: Vec<String>,
    },
    /// `wrong-output-name`: the response's only output has another name.
    OutputName {
        /// The name of the output that was asked for.
        expected: String,
        /// The name of the one that came.
        seen: String,
    },
    /// `wrong-output-name`: an error carries outputs.
    OutputsBesideError {
        /// How many.
        outputs: u32,
        /// The error's text.
        error: String,
    },
    /// `wrong-output-type`: the output has another type.
    OutputType {
        /// The type that the model declares.
        expected: ElementType,
        /// The type that came, in the protocol's spelling.
        seen: String,
    },
    /// `wrong-output-shape`: the output has another shape than the input.
    OutputShape {
        /// The input's shape.
        expected: Vec<i64>,
        /// The output's shape.
        seen: Vec<i64>,
    },
    /// `wrong-output-size`: the output does not hold what its shape says.
    OutputSize {
        /// The elements' type.
        datatype: ElementType,
        /// How many elements there are by the shape.
        count: usize,
        /// What came.
        seen: Held,
    },
    /// `wrong-control`: the model saw other controls than the request has.
    Controls {
        /// Each that differs; never empty.
        differences: Vec<Difference>,
        /// The response's sum, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Number>,
    },
    /// `wrong-control`: the output that tells the controls cannot be read.
    ControlsUnreadable {
        /// The output's name.
        output: String,
        /// Its type, in the protocol's spelling.
        datatype: String,
        /// Its shape.
        shape: Vec<i64>,
        /// What it holds.
        seen: Held,
    },
    /// `wrong-slot`: a slot that the model does not have.
    NoSuchSlot {
        /// How many slots the model has.
        slots: u32,
        /// The slot of the execution.
        seen: u32,
    },
    /// `wrong-slot`: a sequence changed its slot.
    OtherSlot {
        /// The slot of the sequence's step before.
        expected: u32,
        /// The slot of the execution.
        seen: u32,
    },
    /// `wrong-slot`: a slot that another sequence has.
    TakenSlot {
        /// The slot of the execution.
        slot: u32,
        /// The correlation ID of the sequence that has it.
        holder: CorrelationId,
        /// For how long that sequence has had it, in ms.
        #[serde(rename = "held_us", with = "workload::micros::OfMs")]
        held_ms: u64,
    },
    /// `sequence-split`: a step was answered by another server than the steps before it.
    Split {
        /// The server that answered the steps before.
        expected: ServerName,
        /// The first of these steps, from 1.
        first: u32,
        /// The last of them.
        last: u32,
        /// The server that answered this step.
        seen: ServerName,
    },
    /// `stream-broken`: the server or the network ended the stream with an error.
    Broken {
        /// Why, in the words of the transport.
        reason: String,
    },
    /// `stream-broken`: the server ended the stream in good order, too early.
    Ended,
    /// `stream-not-closed`: the stream stayed open.
    StillOpen,
    /// `stream-not-closed`: an error that ends a stream, as its status, came within it.
    ErrorWithin {
        /// What it says.
        error: String,
    },
    /// `missing-timeout`: a sequence that had waited for a slot for too long was executed.
    Overdue {
        /// How long it may wait, in ms.
        #[serde(rename = "limit_us", with = "workload::micros::OfMs")]
        limit_ms: u64,
        /// When the response to its START came, in ms since that was sent.
        #[serde(rename = "answered_us", with = "workload::micros::OfMs")]
        answered_ms: u64,
        /// Until then other sequences had every slot, in ms since START was sent.
        #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
        waited_ms: u64,
    },
    /// `slot-withheld`: a START waited beside a free slot.
    Withheld {
        /// How many sequences may have had a slot at the most.
        holders: usize,
        /// How many slots there are.
        slots: usize,
        /// When START was answered, in ms since it was sent.
        #[serde(rename = "answered_us", with = "workload::micros::OfMs")]
        answered_ms: u64,
        /// For how long a slot was free meanwhile, in ms.
        #[serde(rename = "free_us", with = "workload::micros::OfMs")]
        free_ms: u64,
    },
    /// `slot-out-of-turn`: a START waited for a slot while a START behind it got one. Times are in ms since it was sent.
    PassedOver {
        /// The correlation ID of the START behind it.
        by: CorrelationId,
        /// How many slots there are.
        slots: usize,
        /// When that START was sent.
        #[serde(rename = "sent_us", with = "workload::micros::OfMs")]
        sent_ms: u64,
        /// When that START was answered.
        #[serde(rename = "passed_us", with = "workload::micros::OfMs")]
        passed_ms: u64,
        /// Then other sequences had every slot.
        #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
        waited_ms: u64,
    },
    /// `slot-leak`: fewer sequences could be open at a time than the model has slots.
    SlotsLeaked {
        /// How many slots the model has.
        slots: u32,
        /// What was seen.
        seen: Leak,
    },
    /// `slot-released-twice`: more sequences could be open at a time than the model has slots.
    SlotsSurplus {
        /// How many slots the model has.
        slots: u32,
        /// How soon one START more was answered, in ms.
        #[serde(rename = "within_us", with = "workload::micros::OfMs")]
        within_ms: u64,
    },
    /// `missing-reap`: no sequence was ended, however long its pause.
    NoneReaped {
        /// How many sequences paused.
        sequences: u32,
        /// The longest pause, in ms.
        #[serde(rename = "pause_us", with = "workload::micros::OfMs")]
        pause_ms: u64,
        /// The configured idle limit, in ms.
        #[serde(rename = "limit_us", with = "workload::micros::OfMs")]
        limit_ms: u64,
    },
    /// `pending-left`: requests were still pending after the run.
    Pending {
        /// The requests of the run.
        sent: Sent,
        /// How many requests are pending.
        seen: u64,
        /// Whether each slot of the model was free afterwards.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all_slots_free: bool,
    },
    /// `hang`: nothing was answered any more.
    Silence {
        /// The requests of the run so far.
        sent: Sent,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// `server-died`: the server is gone.
    Died {
        /// The requests of the run so far.
        sent: Sent,
        /// The server's address.
        endpoint: String,
        /// How that was noticed, in the words of the transport.
        reason: String,
    },
    /// `statistics`: the model's own counts do not account for the run.
    Counts {
        /// Requests that were sent.
        requests: u64,
        /// What a correct server counts.
        expected: CountBounds,
        /// How far the counts rose.
        seen: Counted,
    },
    /// `not-ready`: the server said that it or its model was not ready.
    NotReady {
        /// Which of them.
        of: Subject,
        /// Requests that were executed until it was asked again.
        executed: u64,
    },
    /// `memory-growth`: the server's memory grew with the sequences.
    Growth {
        /// By how many bytes.
        bytes: i64,
        /// In how many sequences.
        sequences: u64,
        /// How many bytes that is in an hour.
        #[serde(default)]
        bytes_per_hour: i64,
    },
}

/// That no order of steps which several streams sent explains their answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disorder {
    /// What the server held before them.
    pub before: State,
    /// The longest beginning of an order that was found to be right.
    pub prefix: Vec<Taken>,
    /// The answers of the steps that may come next, none of which is right there.
    pub unexplained: Vec<Taken>,
}

/// Who sent a request that a stream brought a response to, and did not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// Another context.
    Context(ContextId),
    /// The same context, over its stream with this number.
    Stream(u8),
}

/// What the requests of a run had come to at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// How many were sent.
    pub requests: u64,
    /// How many of them were answered.
    pub answered: u64,
}

/// How a slot was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Leak {
    /// So many sequences could not be opened beside others.
    Unanswered {
        /// How many could.
        open: u32,
        /// How many could not.
        leaked: u32,
        /// For how long their STARTs stayed unanswered, in ms.
        #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
        waited_ms: u64,
        /// How many of them were answered when the others ended; none where the others did not end.
        later: Option<u32>,
    },
    /// All could be opened, and the slot of one that ended went to no other.
    NotHandedOn {
        /// For how long the START that waited for it stayed unanswered, in ms.
        #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
        waited_ms: u64,
    },
}

/// What a correct server counts: of the requests whose outcome is not known anything from none to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountBounds {
    /// The fewest successes, and inferences.
    pub success_min: u64,
    /// The most of them.
    pub success_max: u64,
    /// The most failures.
    pub fail_max: u64,
}

/// What can be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The server, by `ServerReady` or `/v2/health/ready`.
    Server,
    /// The model, by `ModelReady` or `/v2/models/MODEL/ready`.
    Model,
}
