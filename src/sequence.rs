//! What the tool and the server talk about: correlation IDs, patterns, sequences and their steps.

mod id;

use std::{collections::BTreeMap, fmt, num::NonZeroU16, str::FromStr};

use serde::{Deserialize, Serialize};

pub use self::id::{CorrelationId, IdForm, WireId};
use crate::number::Number;

macro_rules! patterns {
    ($($pattern:ident $name:literal $leaves_none:literal $what:literal;)*) => {
        /// The life cycle of what one pass of a worker sends on one correlation ID.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Pattern {
            $(#[doc = $what] #[serde(rename = $name)] $pattern,)*
        }

        impl Pattern {
            /// All patterns, in the order of [`Pattern::index`].
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$pattern),*];

            /// The names of all patterns, in the order of [`Pattern::index`].
            pub const NAMES: &[&str] = &[$($name),*];

            /// The pattern's name, as scenario files and reports have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$pattern => $name,)* }
            }

            /// What is sent, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$pattern => $what,)* }
            }

            /// Whether the ID certainly has no sequence on a correct server once all answers to this pattern are there.
            #[must_use]
            pub fn leaves_no_sequence(self) -> bool {
                match self { $(Self::$pattern => $leaves_none,)* }
            }
        }
    };
}

patterns! {
    Valid "valid" true "START … END.";
    ValidValid "valid-valid" true "START … END, START … END, back to back: a slot, and an ID, used again.";
    ValidNoEnd "valid-no-end" false "START … END, START … with no END: the server has to reclaim the slot by its idle limit.";
    NoStart "no-start" true "One step with no START on an ID that has no sequence: it has to be refused.";
    NoEnd "no-end" false "START … with no END: the server has to end the sequence itself and use its slot again.";
    Pause "pause" false "A pause around the idle limit in the middle of a sequence.";
    CancelQueued "cancel-queued" false "The stream is cancelled while one step executes and others, END among them or not, are queued.";
    CancelExecuting "cancel-executing" false "The stream is cancelled while a step executes, all before it answered.";
    CancelIdle "cancel-idle" false "The stream is cancelled when all that was sent is answered.";
    CancelRestart "cancel-restart" false "The stream is cancelled with END queued, and the ID is started at once over another connection.";
    HalfClose "half-close" true "START … END, half-closed while answers are due: all of them have to come.";
    Reset "reset" false "The TCP connection is reset while steps are under way.";
    ContinueElsewhere "continue-elsewhere" true "The sequence is continued over another connection.";
    ContinueByNeighbour "continue-by-neighbour" true "The sequence is continued over another worker's connection.";
    RestartElsewhere "restart-elsewhere" false "The ID is started again over another connection while its sequence is under way.";
    Concurrent "concurrent" true "One sequence is submitted over several connections at once.";
    StopReading "stop-reading" true "The client stops reading until flow control holds the answers back, then reads on: all of them have to come.";
    KillClient "kill-client" false "The client's process is killed while steps are under way.";
    Restart "restart" true "START …, START … END on one stream: the ID is started again while its sequence is live.";
    Burst "burst" true "Sequences of one step, START and END at once, in a row.";
    AfterEnd "after-end" true "START … END, then one step more: it has to be refused.";
    EndTwice "end-twice" true "START … END, then END again: it has to be refused.";
    SharedId "shared-id" false "Two sequences of one ID at once, over the own connection and another worker's, step by step.";
    Malformed "malformed" true "START … END, with steps in between that have a flaw and have to be refused for it.";
    Timeout "timeout" true "START … END, all sent at once, refused as a whole where it waits for a slot for longer than it may.";
    Steady "steady" true "START … END, with four pauses of 60 % of the idle limit: the sequence has to live on.";
    MixedTransports "mixed-transports" true "START … END, each step over another transport than the one before it, when that is answered.";
}

/// The most answers that a server can send over a narrow connection while the client reads nothing.
pub const UNREAD_MAX: u32 = 4;
/// The room that such a connection has for what is not read, in bytes. An answer takes some 90 to 150.
pub const UNREAD_BYTES: u32 = 256;

impl Pattern {
    /// Whether it is about steps that are queued in the server, so that no window holds them back.
    #[must_use]
    pub fn needs_a_queue(self) -> bool {
        matches!(
            self,
            Self::CancelQueued
                | Self::CancelRestart
                | Self::HalfClose
                | Self::Reset
                | Self::StopReading
                | Self::KillClient
                | Self::Burst
                | Self::Timeout
        )
    }

    /// Whether it can be done with sequences of one step that end by themselves, one after the other.
    #[must_use]
    pub fn is_of_single_steps(self) -> bool {
        matches!(
            self,
            Self::Valid
                | Self::ValidValid
                | Self::ValidNoEnd
                | Self::NoStart
                | Self::NoEnd
                | Self::Burst
                | Self::AfterEnd
                | Self::EndTwice
        )
    }

    /// Whether steps may be left under way when the next sequence of the ID begins: where something is cut, or given up, or where a
    /// sequence is elsewhere, too.
    #[must_use]
    pub fn cuts(self) -> bool {
        let is_whole = self.is_of_single_steps()
            || matches!(
                self,
                Self::Pause
                    | Self::Steady
                    | Self::HalfClose
                    | Self::StopReading
                    | Self::Restart
                    | Self::SharedId
                    | Self::Malformed
            );
        !is_whole
    }

    /// Whether it is about a stream, or about steps that are queued on one, so that single calls cannot do it.
    #[must_use]
    pub fn needs_a_stream(self) -> bool {
        matches!(self, Self::CancelQueued | Self::CancelRestart | Self::HalfClose | Self::StopReading)
    }

    /// The pattern's place in [`Pattern::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! flaws {
    ($($flaw:ident $name:literal $what:literal $refusal:literal;)*) => {
        /// What is wrong with a request, so that the server has to refuse it before it looks at the request's sequence.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Flaw {
            $(#[doc = $what] #[serde(rename = $name)] $flaw,)*
        }

        impl Flaw {
            /// All flaws.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$flaw),*];

            /// The flaw's name, as failure files have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$flaw => $name,)* }
            }

            /// What is wrong, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$flaw => $what,)* }
            }

            /// What the refusal has to say; servers may say more.
            #[must_use]
            pub fn refusal(self) -> &'static str {
                match self { $(Self::$flaw => $refusal,)* }
            }

            /// Whether an error is its refusal.
            #[must_use]
            pub fn is_refused_with(self, text: &str) -> bool {
                let otherwise: &[&str] = match self {
                    Self::BatchOfTwo => &[Self::BATCH_OF_ONE],
                    Self::ShortData => &[Self::SHORT_TEXT, Self::NO_TEXT, Self::UNREADABLE],
                    Self::IdOfOtherType => &[Self::UNREADABLE],
                    Self::IdZero | Self::IdEmpty | Self::IdTooLong => &[Self::OF_ANOTHER_TYPE],
                    _ => &[],
                };
                text.contains(self.refusal()) || otherwise.iter().any(|otherwise| text.contains(otherwise))
            }
        }
    };
}

flaws! {
    BatchOfTwo "batch-2" "Two elements in one batch."
        "must specify batch-size 1 due to requirements of sequence batcher";
    OtherType "other-type" "Another type of as many bytes: FP32 in place of INT32."
        "data-type is";
    OtherShape "other-shape" "A shape of one dimension more."
        "unexpected shape for input";
    ShortData "short-data" "Fewer bytes than an element has."
        "input byte size mismatch for input";
    NoInput "no-input" "No input at all."
        "inputs but got 0 inputs";
    OtherInput "other-input" "An input that the model does not have."
        "unexpected inference input 'NO_SUCH_INPUT'";
    OtherOutput "other-output" "It asks for an output that the model does not have."
        "unexpected inference output 'NO_SUCH_OUTPUT'";
    OtherVersion "other-version" "A version of the model that there is not."
        "version 999 is not found";
    IdZero "id-0" "Correlation ID 0."
        "must specify a non-zero or non-empty correlation ID";
    IdEmpty "id-empty" "A correlation ID that is a text without a character."
        "must specify a non-zero or non-empty correlation ID";
    IdTooLong "id-129-bytes" "A correlation ID that is a text of 129 bytes."
        "string correlation ID cannot be longer than 128 characters";
    IdOfOtherType "id-bool" "A correlation ID that is neither a number nor a text."
        "invalid value type for 'sequence_id' parameter";
}

impl Flaw {
    /// What two elements in one batch are refused with where a model takes one, and that is looked at first.
    pub const BATCH_OF_ONE: &'static str = "inference request batch-size must be <= 1 for";
    /// The refusal, since 25.01, of a text as the correlation ID of a model that is told numbers, and the other way round. The server
    /// looks at the type before it looks whether the ID is empty.
    pub const OF_ANOTHER_TYPE: &'static str = "sequence batching control 'CORRID' data-type is";
    /// What too few bytes are refused with where elements are texts, which have their lengths before them.
    pub const SHORT_TEXT: &'static str = "incomplete string length indicator for inference input";
    /// What is said of data in JSON that has no text where there is to be one.
    pub const NO_TEXT: &'static str = "string elements for inference input";
    /// What the refusal of a request over HTTP says whose JSON cannot be read as what it should be.
    pub const UNREADABLE: &'static str = "Unable to parse '";
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What sets a request apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Special {
    /// It has a flaw.
    Flaw(Flaw),
    /// Its sequence may wait for a slot no longer than so many microseconds after it came.
    TimeoutUs(u64),
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flaw(flaw) => write!(f, "with {flaw}"),
            Self::TimeoutUs(us) => write!(f, "within {us} us"),
        }
    }
}

/// A run of steps on one correlation ID, from a START to an END unless one of them is left out on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sequence {
    /// Whether the first step carries START.
    pub start: bool,
    /// Whether the last step carries END.
    pub end: bool,
    /// The input of each step; never empty.
    pub values: Vec<i64>,
    /// Over how many elements each is spread; empty where that is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<NonZeroU16>,
    /// By the index of a step: what is wrong with it. The last step has no flaw.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flaws: BTreeMap<u32, Flaw>,
    /// How long the client does nothing before each step but the first, in ms; empty where it never does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub think_ms: Vec<u32>,
}

impl Sequence {
    /// How many steps it has.
    ///
    /// # Panics
    /// When there are more than 32 bits can count; a length is such a number.
    #[must_use]
    pub fn steps(&self) -> u32 {
        u32::try_from(self.values.len()).expect("a length is a 32-bit number")
    }

    /// Whether a step carries START, and whether END: the first one that has no flaw and the last one, and those with a flaw that
    /// come right before one of them.
    #[must_use]
    pub fn flags(&self, step: u32) -> (bool, bool) {
        let right = (step..self.steps()).find(|step| !self.flaws.contains_key(step)).unwrap_or(step);
        let is_first = (0..right).all(|before| self.flaws.contains_key(&before));
        (self.start && is_first, self.end && right + 1 == self.steps())
    }
}

/// The name of one request, unlike that of any other request of the run. On the wire:
/// `worker-context-sequence-step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
    /// The how-manieth sequence of the worker this is, from 0.
    pub sequence: u32,
    /// The step's index in its sequence.
    pub step: u32,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.worker, self.context, self.sequence, self.step)
    }
}

impl FromStr for RequestId {
    type Err = NotARequestId;

    fn from_str(text: &str) -> Result<Self, NotARequestId> {
        // Another text of the same numbers, such as one with a sign, is not the ID that was sent.
        let is_as_sent = |part: &&str| !part.starts_with('+') && (!part.starts_with('0') || part.len() == 1);
        let number = |part: &str| Some(part).filter(is_as_sent)?.parse().ok();
        let mut numbers = text.split('-').map(|part| number(part).ok_or(NotARequestId));
        let mut next = || numbers.next().unwrap_or(Err(NotARequestId));
        let id = Self { worker: next()?, context: next()?, sequence: next()?, step: next()? };
        if numbers.next().is_some() { Err(NotARequestId) } else { Ok(id) }
    }
}

/// The text is not a [`RequestId`] as this tool writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARequestId;

/// One request of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The request's own ID.
    pub request: RequestId,
    /// The pattern that the step's sequence is part of.
    pub pattern: Pattern,
    /// Whether the step carries START.
    pub start: bool,
    /// Whether the step carries END.
    pub end: bool,
    /// The sum of the INPUT tensor's elements.
    pub value: Number,
    /// How many steps the sequence has.
    pub of: u32,
    /// What sets it apart, if anything does.
    pub special: Option<Special>,
}

impl Step {
    /// What is wrong with it, if anything is: then it has to be refused, and changes nothing.
    #[must_use]
    pub fn flaw(&self) -> Option<Flaw> {
        match self.special {
            Some(Special::Flaw(flaw)) => Some(flaw),
            Some(Special::TimeoutUs(_)) | None => None,
        }
    }

    /// Whether a server that is right refuses it as the plan has it: for a flaw, or because its sequence begins without START.
    #[must_use]
    pub fn is_to_be_refused(&self) -> bool {
        self.flaw().is_some() || (self.is_first() && !self.start)
    }

    /// Whether this is its sequence's first step.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.request.step == 0
    }

    /// Whether this is its sequence's last step.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.request.step + 1 == self.of
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = match (self.start, self.end) {
            (true, true) => " START END",
            (true, false) => " START",
            (false, true) => " END",
            (false, false) => "",
        };
        write!(f, "{} step {}/{}{flags} value {}", self.pattern, self.request.step + 1, self.of, self.value)?;
        if self.value.elements() > NonZeroU16::MIN {
            write!(f, " in {} elements", self.value.elements())?;
        }
        self.special.map_or(Ok(()), |special| write!(f, " {special}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_read_back_from_the_wire() {
        let id = RequestId { worker: 7, context: 3, sequence: 4_000_000_000, step: 15 };
        assert_eq!(id.to_string(), "7-3-4000000000-15");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn other_texts_are_no_request_ids() {
        for text in [
            "",
            "7",
            "7-4-15",
            "7-3-4-15-1",
            "a-3-4-15",
            "7-3--15",
            "7-3-4-15 ",
            "-7-3-4-15",
            "+7-3-4-15",
            "07-3-4-15",
            "7-3-4-00",
        ] {
            assert_eq!(text.parse::<RequestId>(), Err(NotARequestId), "{text:?}");
        }
    }

    #[test]
    fn steps_with_a_flaw_carry_the_flags_of_the_next_one_that_has_none() {
        let flaws = [0, 2, 3].map(|step| (step, Flaw::IdZero)).into();
        let sequence =
            Sequence { start: true, end: true, values: vec![1; 5], elements: Vec::new(), flaws, think_ms: Vec::new() };
        let carried: Vec<_> = (0..5).map(|step| sequence.flags(step)).collect();
        assert_eq!(carried, [(true, false), (true, false), (false, true), (false, true), (false, true)]);
        let one = Sequence { values: vec![1], flaws: BTreeMap::new(), ..sequence };
        assert_eq!(one.flags(0), (true, true));
    }

    #[test]
    fn the_patterns_know_their_places() {
        for (index, pattern) in Pattern::ALL.into_iter().enumerate() {
            assert_eq!(pattern.index(), index);
            assert_eq!(serde_json::to_value(pattern).expect("a name"), pattern.name());
        }
    }
}
