//! What a verdict rests on besides the responses: one row for each line that the text report has below the verdict.

pub(super) mod rows;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use self::rows::{checks, judges_outputs};
use oracle::ViolationKind;

workload::table! {
    /// What a row is about.
    pub(crate) enum CheckName: &'static [ViolationKind] {
        /// What the responses themselves showed, in a run with violations.
        Responses = "responses", &[];
        /// Whether a planted fault happened, and whether a check found it.
        PlantedFault = "planted fault", &[];
        /// A claim that the run missed.
        NotReached = "not reached", &[];
        /// Whether the server's own counts fit what the client sent and received.
        ServerCounts = "server counts", &[ViolationKind::Statistics];
        /// Whether each slot is free after the run, and exists once.
        Slots = "slots", &[ViolationKind::SlotLeak, ViolationKind::SlotReleasedTwice];
        /// Whether requests are still pending in the server after the run.
        Pending = "pending", &[ViolationKind::PendingLeft];
        /// The idle limit that the server really applies.
        IdleLimit = "idle limit", &[ViolationKind::MissingReap];
        /// How many responses could not be judged.
        Unjudged = "unjudged", &[];
        /// How many responses to the same steps were equal.
        SameSteps = "same steps", &[];
        /// When a phase began and ended.
        Phases = "phases", &[];
        /// How many iterations began at their rate.
        Arrivals = "arrivals", &[];
        /// How many steps waited for the response to the step before, or for a worker.
        HeldBack = "held back", &[];
        /// Whether the client was late.
        Client = "client", &[];
        /// A threshold that the run kept.
        Threshold = "threshold", &[];
        /// How many connections the server ended in good order.
        Connections = "connections", &[];
        /// When the server was away.
        ServerAway = "server away", &[];
        /// Whether the server and its model were ready.
        Readiness = "readiness", &[ViolationKind::NotReady];
        /// Whether the server's memory grows with the sequences.
        ServerMemory = "server memory", &[ViolationKind::MemoryGrowth];
        /// Which START waited longest for a slot.
        LongestWait = "longest wait", &[];
        /// How often the run reached each claim.
        Reached = "reached", &[];
        /// What this run could not check.
        NotChecked = "not checked", &[];
        /// Something else that the reader should know.
        Note = "note", &[];
        /// Why the run could not go on.
        BrokenOff = "broken off", &[];
        /// How many ranks held the run, and how exactly they began together.
        Ranks = "ranks", &[];
        /// How many events the history has.
        History = "history", &[];
    }
}

impl CheckName {
    /// The kinds of violations that this check alone finds.
    pub(super) fn finds(self) -> &'static [ViolationKind] {
        self.row()
    }
}

workload::table! {
    /// What a check came to.
    pub(crate) enum Outcome {
        /// The check was done, and found nothing wrong.
        Passed = "passed";
        /// The check found a violation.
        Failed = "failed";
        /// No violation, but something that the reader should look at.
        Doubtful = "doubtful";
        /// The check was not done, or gave no result.
        NotChecked = "not-checked";
        /// What happened, without a judgement.
        Noted = "noted";
    }
}

/// How much a row stands out on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    #[default]
    Fine,
    /// The reader should look at it.
    Odd,
    /// It is wrong.
    Bad,
}

/// A check, or a note, with what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Check {
    /// What it is about. Several rows may have the same name, such as one for each phase.
    pub(super) name: CheckName,
    /// What it came to.
    pub(super) outcome: Outcome,
    /// The same in words, as the text report has them.
    pub(super) says: String,
    #[serde(skip)]
    pub(super) tone: Tone,
}

impl Check {
    fn new(name: CheckName, outcome: Outcome, tone: Tone, says: impl Into<String>) -> Self {
        Self { name, outcome, says: says.into(), tone }
    }

    fn passed(name: CheckName, says: impl Into<String>) -> Self {
        Self::new(name, Outcome::Passed, Tone::Fine, says)
    }

    fn failed(name: CheckName, says: impl Into<String>) -> Self {
        Self::new(name, Outcome::Failed, Tone::Bad, says)
    }

    fn doubtful(name: CheckName, says: impl Into<String>) -> Self {
        Self::new(name, Outcome::Doubtful, Tone::Odd, says)
    }

    fn noted(name: CheckName, says: impl Into<String>) -> Self {
        Self::new(name, Outcome::Noted, Tone::Fine, says)
    }

    /// A check for which the run was not set up.
    fn not_checked(name: CheckName, says: impl Into<String>) -> Self {
        Self::new(name, Outcome::NotChecked, Tone::Fine, says)
    }

    /// A check that the run tried, and that gave no result.
    fn without_result(name: CheckName, says: impl Into<String>) -> Self {
        Self::new(name, Outcome::NotChecked, Tone::Odd, says)
    }
}
