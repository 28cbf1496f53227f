//! What speaks for a cause, as values. The words for it are the report's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use workload::{
    event::ContextId,
    number::Number,
    sequence::{CorrelationId, Flaw, RequestId},
};

/// One thing that speaks for a cause. Several make a sentence together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Clue {
    /// What was seen, as the violation has it.
    Seen,
    /// What was seen beside what was expected, as the violation has them.
    SeenAndExpected,
    /// The response is wrong by a number.
    WrongBy {
        /// The number.
        off_by: Number,
    },
    /// The response is too high by the step's own value.
    TooHighByOwnValue {
        /// The value.
        value: Number,
    },
    /// The response is too high by the value of an earlier step.
    TooHighByEarlierValue {
        /// The value.
        value: Number,
        /// So many steps before.
        back: usize,
    },
    /// The response is too high by the correlation ID.
    TooHighById {
        /// The ID.
        id: CorrelationId,
    },
    /// The response differs from the right one in one bit.
    OneBit {
        /// The right answer.
        right: Number,
        /// The bit's number, from 0.
        bit: u32,
    },
    /// The response is the largest or the smallest number of its type.
    AtTheLimit {
        /// The response.
        answer: Number,
    },
    /// The response is that to the same step with END, or without it.
    AnswerOfEnd {
        /// Whether it is the one with END.
        to_end: bool,
    },
    /// One element of an output differs, and the others do not.
    OneElement {
        /// Its number, from 1.
        element: usize,
        /// How many elements there are.
        of: usize,
    },
    /// The idle server, asked after the run, showed what follows by itself.
    ShownAlone,
    /// The responses to different states are the same.
    AllAlike {
        /// How many steps.
        steps: usize,
    },
    /// The same sequence was answered twice, one after the other, and the responses to its START differ.
    StartDiffers,
    /// The same sequence was answered twice, one after the other, and START had the same wrong outputs.
    StartWrongTwice,
    /// The responses to the steps before this one are right, and this one's is like that of no known state, twice the same.
    RightBefore {
        /// The step's number, from 1.
        step: usize,
    },
    /// In a sequence that has its second step twice, one behind the other, both had the same outputs.
    SameStepAgain,
    /// The response to the next step is right.
    NextRight,
    /// Neither this response nor the one to the next step is that of a known state, nor one that the idle server gave.
    NextUnlike,
    /// The response is the state before the step.
    StateBefore {
        /// The state.
        state: Number,
    },
    /// The response goes on from that of a later step.
    AfterALaterStep {
        /// The number of the step that was executed late, from 1.
        late: u32,
        /// The number of the later step.
        early: u32,
        /// The later step's sum.
        sum: Number,
    },
    /// The response has the values of later steps in it.
    HasLaterValues {
        /// The number of the last of them, from 1.
        up_to: u32,
    },
    /// The response lacks the values of earlier steps.
    LacksEarlierValues {
        /// From so many steps before on.
        back: usize,
        /// What they add up to.
        missing: Number,
    },
    /// The response is the step's own value.
    OwnValue,
    /// The response is the step's own value, as behind an END.
    OwnValueAsBehindEnd,
    /// The step found no state.
    NoState,
    /// The step found no state; END behind it found the state that the step should have found.
    EndFoundTheState,
    /// Another sequence went on from this one's state.
    TakenByAnother,
    /// No known sequence explains by how much the response is wrong.
    NothingExplains {
        /// By how much.
        off_by: Number,
    },
    /// START went on from a state of an older sequence, or of none.
    StartWentOn {
        /// The state.
        from: Number,
    },
    /// No step before was answered, and START was cancelled; the step found no state, or one that is nobody's.
    StartUnanswered {
        /// What it found.
        found: Number,
    },
    /// The step after START found a state as if START's own had not been kept.
    StartNotKept {
        /// What it found.
        found: Number,
    },
    /// The step found the number of steps in place of the sum.
    CountFound {
        /// The number that it found.
        found: Number,
    },
    /// From what the sequence went on afterwards.
    WentOn {
        /// From what.
        from: WentOn,
    },
    /// The step went on from the state of another sequence of its ID.
    FromSequence {
        /// The state.
        state: Number,
        /// The sequence.
        sequence: SequenceId,
    },
    /// Another sequence of the ID was live, and its END takes the state away.
    EndOfAnother {
        /// That sequence.
        sequence: SequenceId,
    },
    /// START went on from the sum that a sequence had left.
    StaleState {
        /// The sum.
        state: Number,
        /// The number of the step that left it, from 1.
        step: u32,
        /// The step's sequence.
        sequence: SequenceId,
        /// That sequence's correlation ID.
        id: CorrelationId,
        /// What it is to the accused one.
        relation: Relation,
    },
    /// Several steps found a state that no sequence left.
    SameFound {
        /// The state.
        state: Number,
        /// How many other steps found it.
        times: usize,
    },
    /// The response belongs to another request.
    BelongsTo {
        /// The response.
        answer: Number,
        /// The request.
        request: RequestId,
        /// The number of the request's stream in its context.
        stream: u8,
    },
    /// That other request was answered with what belongs here.
    Exchanged,
    /// The response has the values of other requests in it.
    HasValuesOf {
        /// The requests.
        requests: Vec<RequestId>,
    },
    /// The step went on from the state of a sequence of another context.
    StateOf {
        /// The state.
        state: Number,
        /// The number of the step after which the sequence had it, from 1.
        step: u32,
        /// The sequence.
        sequence: SequenceId,
        /// Its correlation ID.
        id: CorrelationId,
    },
    /// That sequence went on from this one's state.
    ThatWentOnFromThis,
    /// That sequence went on from this one's answer.
    ThatWentOnFromTheAnswer,
    /// That sequence went on as if nothing had been.
    ThatWentOnUntouched,
    /// Steps of both sequences used the state.
    BothUsedTheState,
    /// A stream was cancelled or cut before, whose slot may have been given away twice.
    AfterACancel {
        /// The stream's context.
        context: ContextId,
        /// How long before, in ms.
        ms: u64,
    },
    /// An error's text.
    ErrorSays {
        /// The text.
        error: String,
    },
    /// The server answered a second time.
    SeenAgain,
    /// No request with the response's ID is known.
    UnknownId {
        /// The ID.
        id: String,
    },
    /// The response is to a request of another stream.
    AnswerTo {
        /// The request.
        request: RequestId,
        /// Its correlation ID.
        id: CorrelationId,
        /// Its context, where that is another one; else an earlier stream of the same context carried it.
        context: Option<ContextId>,
    },
    /// The response has no output.
    NoOutput {
        /// Whether later answers show that the step was executed; none where no later answer tells.
        executed: Option<bool>,
    },
    /// A client cut a stream before: the server may have taken the request for a cancelled one.
    CutBefore {
        /// The stream's context.
        context: ContextId,
        /// How long before, in ms.
        ms: u64,
    },
    /// The request carries START.
    CarriesStart,
    /// No accepted step of the sequence is known.
    NoAcceptedStep,
    /// A step before was rejected for a flaw.
    RejectedForAFlaw {
        /// Its number, from 1.
        step: u32,
    },
    /// A stream broke at about that time.
    StreamBroke {
        /// Why, in the words of the transport; none where the server ended it in good order.
        reason: Option<String>,
    },
    /// All rejected steps came over another connection than START, and no executed one did.
    OtherConnection {
        /// Rejected steps of the sequence.
        rejected: usize,
        /// Executed steps of the sequence.
        executed: usize,
    },
    /// The endpoint leads to several servers, and nothing tells which of them answered a step.
    SeveralServers {
        /// How many there are; nought where that is not known.
        servers: usize,
    },
    /// A sequence of an ID that is nearly the same ended before the rejection.
    NearIdEnded {
        /// That sequence.
        sequence: SequenceId,
        /// Its correlation ID.
        id: CorrelationId,
    },
    /// How long the sequence was idle before the rejection.
    Idle {
        /// From when the last accepted step was sent until the rejection came, in ms.
        #[serde(rename = "since_us", with = "workload::micros::OfMs")]
        since_ms: u64,
        /// The idle limit, in ms, where it is known.
        #[serde(rename = "limit_us", with = "workload::micros::OfMs::<Option<u64>>")]
        limit_ms: Option<u64>,
        /// The pause before the rejected step, in ms.
        #[serde(rename = "pause_us", with = "workload::micros::OfMs")]
        pause_ms: u64,
        /// Whether later steps found the sequence still there; none where no later step tells.
        went_on: Option<bool>,
    },
    /// An idle clock that only START sets would have run out between the last accepted step and the rejection.
    LimitSinceStart {
        /// From when START was sent until the rejection came, in ms.
        ms: u64,
    },
    /// What is wrong with the request.
    Flaw {
        /// The flaw.
        flaw: Flaw,
    },
    /// The rejection came so long after the step was sent.
    RejectedAfter {
        /// In ms.
        ms: u64,
    },
    /// The response to START came so long after START was sent.
    StartAnsweredAfter {
        /// In ms.
        ms: u64,
    },
    /// The step was executed from zero on.
    FromZero,
    /// The sequence went on from its sum before a step was rejected.
    FromBeforeARejection {
        /// The sum.
        state: Number,
        /// The number of the rejected step, from 1.
        step: u32,
    },
    /// The step went on from the sum of the ID's previous sequence.
    FromPredecessor {
        /// The sum.
        state: Number,
        /// The previous sequence.
        sequence: SequenceId,
        /// How that one was left.
        left: Option<Left>,
    },
    /// The step went on from a state.
    FromState {
        /// The state.
        state: Number,
        /// The sequence that left it, where one is known.
        sequence: Option<SequenceId>,
    },
    /// Nothing is known that was sent beside the request.
    NothingBeside,
    /// The response came to another context.
    CameTo {
        /// That context.
        context: ContextId,
    },
    /// So many of the request's answers came, as the violation has it.
    OfItsAnswers,
    /// What else was answered, or not, while the response was waited for.
    Meanwhile {
        /// Later requests of its stream that were answered.
        behind: usize,
        /// Requests of others that were answered.
        others: usize,
        /// Sequences that began later and got their slots.
        overtook: usize,
        /// Other sequences that stopped in the middle.
        stuck: usize,
        /// Other sequences that stopped at START.
        begun_in_vain: usize,
        /// Sequences that were left without END.
        left: usize,
        /// Sequences that were live when the request was sent.
        live: usize,
    },
    /// After the run all slots were free.
    AllSlotsFree {
        /// How many there are.
        slots: u32,
    },
    /// A longer wait shows whether the stream brings the response later.
    WaitLonger,
    /// Answers took longer and longer.
    SlowingDown {
        /// The median in the first quarter of what is known, in ms.
        #[serde(rename = "early_us", with = "workload::micros::OfMs")]
        early_ms: u64,
        /// The median in the last quarter, in ms.
        #[serde(rename = "late_us", with = "workload::micros::OfMs")]
        late_ms: u64,
        /// How long the response was waited for, in ms.
        #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
        waited_ms: u64,
    },
    /// The client had half-closed the stream.
    HalfClosed,
    /// So many contexts had streams that broke within half a second.
    BrokeTogether {
        /// How many.
        contexts: usize,
    },
    /// The memory grew in each eighth of the sequences; a cache that fills does so until it is full.
    SteadyGrowth,
    /// The other worker belongs to another rank of the run.
    AcrossRanks {
        /// The rank of the accused step's worker.
        rank: u32,
        /// That worker.
        worker: u32,
        /// The other worker's rank.
        from_rank: u32,
        /// The other worker.
        from_worker: u32,
    },
    /// The server's log says whether another client loaded or unloaded a model, or the server was ending.
    AskTheLog,
}

impl Clue {
    /// The worker whose sequence, request or state it speaks of, where that is another one than the accused step's own context.
    pub fn other_worker(&self) -> Option<u32> {
        match self {
            Self::StaleState { sequence, relation: Relation::OtherId, .. }
            | Self::StateOf { sequence, .. }
            | Self::NearIdEnded { sequence, .. }
            | Self::FromState { sequence: Some(sequence), .. } => Some(sequence.worker),
            Self::BelongsTo { request, .. } => Some(request.worker),
            Self::HasValuesOf { requests } => requests.first().map(|request| request.worker),
            Self::AnswerTo { context, .. } => context.map(|context| context.worker),
            Self::CameTo { context } => Some(context.worker),
            _ => None,
        }
    }
}

/// The name of a sequence: that of its requests without the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceId {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
    /// The sequence's number among those of the worker, from 0.
    pub sequence: u32,
}

/// From what a sequence went on after a wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WentOn {
    /// No later answer shows that.
    NotKnown,
    /// From the wrong sum.
    WrongSum,
    /// From the right sum.
    RightSum,
    /// From the state before the step, as if that had not been.
    StateBefore,
    /// From another state.
    Other(Number),
}

/// What a sequence is to the accused one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The sequence of the same ID right before it.
    Predecessor,
    /// An earlier one of the same ID.
    SameId,
    /// One of another ID.
    OtherId,
}

/// How a sequence was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// END was sent and answered.
    Ended,
    /// It got no request for so many milliseconds.
    IdleMs(u64),
}
