//! What may have gone wrong in the server.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($class:literal: $($cause:ident = $name:literal: $what:literal;)*)*) => {
        /// What may have gone wrong in the server, as far as that shows from outside.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Cause {
            $($(#[doc = $what] #[serde(rename = $name)] $cause,)*)*
        }

        impl Cause {
            /// All causes.
            pub const ALL: &[Self] = &[$($(Self::$cause,)*)*];

            /// The cause's name, as reports have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($(Self::$cause => $name,)*)* }
            }

            /// What happened, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $($(Self::$cause => $what,)*)* }
            }

            /// The fault class that it belongs to, by the words of the planted faults.
            #[must_use]
            pub fn class(self) -> &'static str {
                match self { $($(Self::$cause => $class,)*)* }
            }
        }
    };
}

causes! {
    "wrong sum":
    ExecutedTwice = "executed-twice": "A step was executed twice.";
    CorridAdded = "corrid-added": "The correlation ID was added to an answer.";
    BitFlipped = "bit-flipped": "An answer differs in one bit.";
    Saturated = "saturated": "A sum stopped at the limit of its type, and should have wrapped.";
    EffectLost = "effect-lost": "The state that an earlier step left was not kept.";
    StateReset = "state-reset": "A step in the middle of a sequence found no state.";
    WrongArithmetic = "wrong-arithmetic": "An answer is wrong by a small number: the model computes wrongly.";
    Unexplained = "unexplained": "No sequence that is known explains the sum.";
    "lost request":
    NotExecuted = "not-executed": "A step was answered and not executed.";
    "reordering within a sequence":
    OutOfOrder = "out-of-order": "Steps of one sequence were executed in another order than they were sent in.";
    EndBeforeLast = "end-before-last": "END was executed before a step that was sent before it.";
    "stale state after a restart":
    StaleStateOfId = "stale-state-of-id": "START did not reset the state that the ID's previous sequence left.";
    StaleStateOfSlot = "stale-state-of-slot": "START did not reset the state that another sequence left in the slot.";
    Straggler = "straggler": "A step of an earlier sequence of the ID was executed late, in this one.";
    "contamination from another sequence":
    SwappedStates = "swapped-states": "Two sequences were given each other's states.";
    LeakedState = "leaked-state": "A step was given the state of another sequence, which kept it.";
    SharedState = "shared-state": "Two sequences have one state: a slot was released twice.";
    StrayStep = "stray-step": "A step of another sequence was added to this one's state.";
    "allowed by the server":
    Overlap = "overlapping-sequences": "Two sequences of one ID were live at once, which the server allows, and the model keeps state by ID.";
    "wrong START signal":
    StartNotTold = "start-not-told": "The model was not told START.";
    StartTold = "start-told-wrongly": "The model was told START in the middle of a sequence.";
    "wrong END signal":
    EndNotTold = "end-not-told": "END had no effect: the model was not told it, or its sequence went on.";
    EndTold = "end-told-wrongly": "The model was told END in the middle of a sequence.";
    "wrong READY signal":
    ReadyNotTold = "ready-not-told": "A request was handed to the model as not ready.";
    ReadyTold = "ready-told-wrongly": "An idle slot was handed to the model as ready.";
    "wrong CORRID signal":
    CorridWrong = "wrong-corrid": "The model was told another correlation ID than the request's.";
    IdTakenForAnother = "id-taken-for-another": "The server took a correlation ID for another one.";
    "wrong slot":
    SlotWrong = "wrong-slot-of-sequence": "A step was executed in another slot than its sequence's.";
    "lost response":
    AnswerDropped = "answer-dropped": "An answer was not sent, and later ones of its stream were.";
    StreamClosedEarly = "stream-closed-early": "The server closed a stream with requests under way.";
    StreamEndedBadly = "stream-ended-badly": "The server ended a stream with an error when every answer had come.";
    FinalAnswersLost = "final-answers-lost": "The server closed a stream at half-close without the answers that were due.";
    "duplicated response":
    AnsweredTwice = "answered-twice": "A request was answered twice.";
    "reordered response":
    AnswersReordered = "answers-reordered": "Answers of one stream changed places.";
    "misaddressed response":
    AnswerOfAnother = "answer-of-another": "The answer is what another request had to be answered with.";
    AnswerElsewhere = "answer-elsewhere": "The answer was sent on another stream.";
    UnknownRequestId = "unknown-request-id": "An answer carries an ID that no request has.";
    OtherModelsName = "other-models-name": "An answer carries another model's name.";
    OtherVersion = "other-version": "An answer carries another version of the model.";
    "malformed response":
    OutputMissing = "output-missing": "An answer has no output.";
    OutputName = "output-name": "An answer's output has another name.";
    OutputSurplus = "output-surplus": "An answer has an output that was not asked for, or one twice.";
    OutputType = "output-type": "An answer's output has another type.";
    OutputShape = "output-shape": "An answer's output has another shape.";
    OutputTooLong = "output-too-long": "An answer's output holds more than its shape says.";
    OutputTooShort = "output-too-short": "An answer's output is cut off.";
    OutputRefused = "output-refused": "The server refused the output that its model gave.";
    "late response":
    AnswerLate = "answer-late": "An answer was held back, and those behind it.";
    "unexpected error":
    ModelError = "model-error": "A step that should be executed was answered with an error.";
    "unexpected code or text":
    ErrorText = "error-text": "An error that was due has other words.";
    "hang":
    Stall = "stall": "An instance executes nothing, for a time or for good.";
    ServerHang = "server-hang": "The model answers nobody any more.";
    StreamKeptOpen = "stream-kept-open": "A stream stayed open after its last answer.";
    "slot leak":
    SlotLeak = "slot-leak": "A slot was not given back.";
    SlotKept = "slot-kept": "A slot was kept for a time although its sequence had ended.";
    "more slots than configured":
    ExtraSlot = "extra-slot": "More sequences had a slot than there are slots.";
    "premature reap":
    PrematureReap = "premature-reap": "A sequence was ended before its idle limit.";
    "missing reap":
    MissingReap = "missing-reap": "A sequence lived on past its idle limit.";
    "spurious START error":
    SpuriousRefusal = "spurious-refusal": "A step of a live sequence was refused for want of START.";
    StartRefused = "start-refused": "A START was refused for want of START.";
    "missing START error":
    RefusalMissing = "refusal-missing": "A step without START and without a sequence was executed.";
    "missing refusal of a flaw":
    FlawTaken = "flaw-taken": "A request with a flaw was executed.";
    "sequence lost by a refusal":
    EndedByRefusal = "ended-by-refusal": "A step that was refused for a flaw ended its sequence.";
    "premature time limit":
    ExpiredEarly = "expired-early": "A sequence was refused for a time limit that had not passed.";
    "missing time limit":
    ExpiryMissing = "expiry-missing": "A sequence was executed although its time limit had passed in the backlog.";
    "starvation":
    Starvation = "starvation": "A sequence waits for a slot while later ones get theirs.";
    "crash":
    Crash = "crash": "The server is gone.";
    "restart":
    Restart = "restart": "The server cut its connections, or was started anew.";
    "statistics that do not add up":
    CountedTwice = "counted-twice": "The server counted an execution more than once.";
    ExecutedBesides = "executed-besides": "The model executed more than the client asked for: a retry, or another client.";
    AnsweredElsewhere = "answered-elsewhere": "Something before the model answered, such as a cache or a gateway.";
    NotCounted = "not-counted": "The server did not count an execution.";
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
