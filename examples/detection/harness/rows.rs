//! In which models and scenario each fault shows, which causes name it rightly, and which faults do not show at all.

#![allow(clippy::enum_glob_use, reason = "a table of them")]

use std::time::Duration;

use oracle::{
    ViolationKind,
    diagnosis::Cause::{self, *},
};
use reference::Fault;

/// The idle limit of models where a scene needs no other.
pub const IDLE_LIMIT: Duration = Duration::from_millis(100);

/// A detection scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    Base,
    Stepwise,
    Steady,
    Pauses,
    Cuts,
    Crowd,
    Unusual,
    Waits,
    Turns,
    Errors,
    Ends,
    Pairs,
    Alike,
    Minutes,
    Deadlines,
    Killed,
    Loads,
    Versions,
}

impl Scene {
    pub const ALL: [Self; 18] = [
        Self::Base,
        Self::Stepwise,
        Self::Steady,
        Self::Pauses,
        Self::Cuts,
        Self::Crowd,
        Self::Unusual,
        Self::Waits,
        Self::Turns,
        Self::Errors,
        Self::Ends,
        Self::Pairs,
        Self::Alike,
        Self::Minutes,
        Self::Deadlines,
        Self::Killed,
        Self::Loads,
        Self::Versions,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Stepwise => "stepwise",
            Self::Steady => "steady",
            Self::Pauses => "pauses",
            Self::Cuts => "cuts",
            Self::Crowd => "crowd",
            Self::Unusual => "unusual",
            Self::Waits => "waits",
            Self::Turns => "turns",
            Self::Errors => "errors",
            Self::Ends => "ends",
            Self::Pairs => "pairs",
            Self::Alike => "alike",
            Self::Minutes => "minutes",
            Self::Deadlines => "deadlines",
            Self::Killed => "killed",
            Self::Loads => "loads",
            Self::Versions => "versions",
        }
    }

    /// The idle limit of its models.
    pub fn idle_limit(self) -> Duration {
        match self {
            // What keeps a slot thinks between its steps, and has to be certain to keep it on a busy machine, too.
            Self::Waits | Self::Turns | Self::Errors => Duration::from_millis(400),
            _ => IDLE_LIMIT,
        }
    }

    /// Whether the model can be sent its correlation IDs: one that is told them may lawfully take some of them for one.
    pub fn suits(self, model: &str) -> bool {
        !matches!(self, Self::Pairs | Self::Alike)
            || !([OLDEST, ENSEMBLE, BLS].contains(&model) || model.contains("dyna"))
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Base => include_str!("../../../scenarios/detection/base.toml"),
            Self::Stepwise => include_str!("../../../scenarios/detection/stepwise.toml"),
            Self::Steady => include_str!("../../../scenarios/detection/steady.toml"),
            Self::Pauses => include_str!("../../../scenarios/detection/pauses.toml"),
            Self::Cuts => include_str!("../../../scenarios/detection/cuts.toml"),
            Self::Crowd => include_str!("../../../scenarios/detection/crowd.toml"),
            Self::Unusual => include_str!("../../../scenarios/detection/unusual.toml"),
            Self::Waits => include_str!("../../../scenarios/detection/waits.toml"),
            Self::Turns => include_str!("../../../scenarios/detection/turns.toml"),
            Self::Errors => include_str!("../../../scenarios/detection/errors.toml"),
            Self::Ends => include_str!("../../../scenarios/detection/ends.toml"),
            Self::Pairs => include_str!("../../../scenarios/detection/pairs.toml"),
            Self::Alike => include_str!("../../../scenarios/detection/alike.toml"),
            Self::Minutes => include_str!("../../../scenarios/detection/minutes.toml"),
            Self::Deadlines => include_str!("../../../scenarios/detection/deadlines.toml"),
            Self::Killed => include_str!("../../../scenarios/detection/killed.toml"),
            Self::Loads => include_str!("../../../scenarios/detection/loads.toml"),
            Self::Versions => include_str!("../../../scenarios/detection/versions.toml"),
        }
    }
}

pub const DIRECT: &str = "custom_sequence_int32";
pub const OLDEST: &str = "oldest_sequence_int32";
pub const IMPLICIT: &str = "implicit_sequence_int32";
pub const TWINS: &str = "twin_state_sequence_int32";
pub const DECOUPLED: &str = "decoupled_sequence_int32";
/// An ensemble of a model without a state and one that adds up.
pub const ENSEMBLE: &str = "ensemble_two_sequence_int32";
/// A model that calls one which adds up.
pub const BLS: &str = "bls_oldest_sequence_int32";
/// The models that are not to be accused where they are correct.
pub const MODELS: &[&str] = &[
    DIRECT,
    OLDEST,
    IMPLICIT,
    TWINS,
    DECOUPLED,
    ENSEMBLE,
    BLS,
    "implicit_dyna_sequence_int32",
    "custom_nobatch_sequence_int32",
];
/// A model without a formula that is not to be accused: its outputs differ a little with their batches.
pub const NOISY: &str = "gru_batch_noise_float32";

/// Whether a formula says what a model answers; golden outputs say it of the others.
pub fn has_formula(model: &str) -> bool {
    MODELS.contains(&model)
}

/// A fault, the model that it is planted in, and the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub fault: Fault,
    pub model: &'static str,
    pub scene: Scene,
    /// How long an execution takes, in ms.
    pub execution_ms: u64,
    /// At which chances it is committed once: from the first to the last of them, as the seed has it.
    pub chances: (u64, u64),
    /// What it has to be called where it happens once; more may come of it.
    pub called: ViolationKind,
    /// The causes that name it rightly; of those that cannot be told apart from outside all.
    pub causes: &'static [Cause],
    /// Those that name it rightly, too, where it always happens: where nothing else is ever seen, less can be told.
    pub more_causes: &'static [Cause],
}

impl Row {
    /// The row of a fault.
    pub fn of(fault: Fault) -> &'static Self {
        ROWS.iter().find(|row| row.fault == fault).expect("every fault has its row")
    }

    /// The same fault in a model without a formula, whose responses golden outputs judge.
    pub fn by_golden(&self) -> Self {
        let model = match (self.fault, self.model) {
            (Fault::ExchangeStates, _) => "two_state_float32",
            (Fault::StateHalfSaved, _) => "two_state_implicit_float32",
            (_, OLDEST) => "gru_oldest_float32",
            (_, IMPLICIT) => "gru_implicit_float32",
            (_, DECOUPLED) => "gru_decoupled_float32",
            _ => "gru_float32",
        };
        // Such a model does not say what it saw of the controls: they show in its outputs alone.
        let is_of_content =
            self.model == TWINS || matches!(self.called, ViolationKind::WrongSum | ViolationKind::WrongControl);
        let called = if is_of_content { ViolationKind::WrongOutput } else { self.called };
        // The other slot may have a state of which nobody knows anything. What always reads another state looks like one that never
        // keeps its own.
        let (causes, more_causes): (&[Cause], &[Cause]) = match self.fault {
            // Such a model does not compare its states, either.
            Fault::ExchangeStates | Fault::StateHalfSaved => (&[UnknownState], &[]),
            Fault::StateOfAnotherSlot => (&[LeakedState, UnknownState], &[SwappedStates, EffectLost]),
            _ => (self.causes, self.more_causes),
        };
        Self { model, called, causes, more_causes, ..*self }
    }

    /// Whether a cause names the fault rightly where it happens once, or always.
    pub fn is_named_rightly_by(&self, cause: Cause, always: bool) -> bool {
        self.causes.contains(&cause) || always && self.more_causes.contains(&cause)
    }

    /// Why the fault is not found, or is found only where it is always there: short, and by design.
    pub fn not_found_because(&self, always: bool) -> Option<&'static str> {
        match self.fault {
            Fault::WrongErrorCode => Some("errors have codes in calls alone, and these scenarios send over streams"),
            Fault::EndMissing if !has_formula(self.model) => {
                Some("the model does not say what it was told, and START resets what END left")
            }
            _ if !has_formula(self.model) => None,
            Fault::WrongElement => {
                Some("what these runs send has one element; `tests/real/types.rs` finds it where there are several")
            }
            Fault::LeakSlotAtLateCancel => {
                Some("a cancel has to come in one quarter of an execution; `tests/tool/window.rs` measures this window")
            }
            Fault::LeakMemory if !always => Some("a server's memory goes up and down by more than 1 MiB"),
            Fault::CrashAtRejection => {
                Some("no scenario sends what is rejected over HTTP; `sequence-stress hostile` does")
            }
            Fault::GoAway => Some("lawful: what was under way is finished, and the client connects again"),
            _ => None,
        }
    }
}

/// The rows of the faults that befall states, controls and responses, in models without a formula.
pub fn golden_rows() -> Vec<Row> {
    let befalls = |row: &&Row| matches!(row.fault.group(), "state" | "control" | "response");
    ROWS.iter().filter(befalls).map(Row::by_golden).collect()
}

/// Chances that come with each step, with each sequence, and seldom.
const STEPS: (u64, u64) = (1, 800);
const SEQUENCES: (u64, u64) = (1, 60);
const SELDOM: (u64, u64) = (1, 4);
/// Loads of another model in the middle of a run.
const LOADS: (u64, u64) = (10, 40);
/// As long as all workers are at work: slots that nobody has are idle too.
const IDLE_SLOTS: (u64, u64) = (1, 250);
const FIRST: (u64, u64) = (1, 15);
/// An instance fails once in a run.
const THE_ONLY: (u64, u64) = (1, 1);
/// Towards the end of a run, so that its ID is not used again: that would give the slot back.
const LATE: (u64, u64) = (16, 40);
/// The looks at a server in a scene of a hundred seconds.
const LOOKS: (u64, u64) = (1, 90);
/// A server that goes before its first answer came could not be tested.
const AFTER_FIRST: (u64, u64) = (300, 800);

/// Causes of a START that goes on from an old sum: what it is, and whether it was told, cannot be seen from outside.
const NOT_RESET: &[Cause] = &[StaleStateOfId, StaleStateOfSlot, StartNotTold];
/// Causes of a step in the middle of a sequence that finds nothing.
const RESET: &[Cause] = &[StateReset, StartTold, EndTold];
/// Causes of two sequences of which each goes on from the other's steps.
const MIXED_UP: &[Cause] = &[SharedState, StrayStep, LeakedState, SwappedStates, SlotWrong, IdTakenForAnother];

macro_rules! rows {
    ($(
        $fault:ident $model:ident $scene:ident $chances:ident $($execution_ms:literal)? => $kind:ident, $causes:expr
        $(, always $more:expr)?;
    )*) => {
        /// Every fault, where it shows.
        pub const ROWS: &[Row] = &[$(Row {
            fault: Fault::$fault,
            model: $model,
            scene: Scene::$scene,
            execution_ms: [$($execution_ms,)? 1][0],
            chances: $chances,
            called: ViolationKind::$kind,
            causes: $causes,
            more_causes: [$($more as &[Cause],)? &[]][0],
        },)*];
    };
}

rows! {
    OffByOne DIRECT Base STEPS => WrongSum, &[WrongArithmetic];
    WrongElement DIRECT Base STEPS => WrongSum, &[WrongArithmetic];
    KeepState DIRECT Base SEQUENCES => WrongSum, NOT_RESET;
    ResetState DIRECT Base STEPS => WrongSum, RESET;
    // Where its START failed with the instance, no sequence is left to go on.
    AnswerAfterLostState DIRECT Killed THE_ONLY => WrongSum, &[StateReset, StartTold, EndTold, RejectionMissing];
    StaleState DIRECT Base SEQUENCES => WrongSum, NOT_RESET;
    SwapStates DIRECT Base STEPS => WrongSum, &[SwappedStates];
    ExchangeStates TWINS Base STEPS => UnexpectedError, &[ExchangedStates];
    DoubleRelease DIRECT Stepwise SELDOM => WrongSum, &[SharedState];
    ExecuteTwice OLDEST Base STEPS => WrongSum, &[ExecutedTwice];
    RedoCancelled DIRECT Deadlines SELDOM 5 => WrongSum, &[ExecutedTwice];
    SkipStep DIRECT Base STEPS => WrongSum, &[NotExecuted];
    // Where START is always executed last there is no state until then.
    OutOfOrder DIRECT Base STEPS => WrongSum, &[OutOfOrder], always RESET;
    EndBeforeLast DIRECT Base SEQUENCES => WrongSum, &[EndBeforeLast];
    // A state that is never kept is one that is always reset.
    StateNotSaved IMPLICIT Base STEPS => WrongSum, &[EffectLost], always RESET;
    StateHalfSaved TWINS Base STEPS => UnexpectedError, &[StatesOfSeveralSteps];
    // Two slots that each get the other's state.
    StateOfAnotherSlot IMPLICIT Base STEPS => WrongSum, &[LeakedState], always &[SwappedStates];
    StartMissing DIRECT Base SEQUENCES => WrongControl, NOT_RESET;
    StartSpurious DIRECT Base STEPS => WrongControl, RESET;
    EndMissing OLDEST Base SEQUENCES => WrongControl, &[EndNotTold];
    EndSpurious OLDEST Base STEPS => WrongControl, RESET;
    ReadyMissing DIRECT Base STEPS => WrongControl, &[ReadyNotTold, OutputMissing];
    ReadySpurious DIRECT Steady IDLE_SLOTS => WrongSum, &[ReadyTold];
    // Where START always has another ID the second step finds no state.
    CorridZero OLDEST Base STEPS => WrongControl, &[CorridWrong], always RESET;
    CorridOther OLDEST Base STEPS => WrongControl, &[CorridWrong], always RESET;
    // Where the server keeps the order of a stream's answers, those behind one that is dropped are late for ever.
    // Where it always happens nothing is answered at all.
    DropResponse DIRECT Base STEPS => Lost, &[ResponseDropped, ResponseLate], always &[ServerHang];
    DuplicateResponse DIRECT Base STEPS => Duplicate, &[AnsweredTwice];
    SwapResponses DIRECT Base STEPS => Reordered, &[ResponsesReordered];
    LoseOwnResponse DECOUPLED Base STEPS => Lost, &[ResponseDropped];
    SwapOwnResponses DECOUPLED Base STEPS => Reordered, &[ResponsesReordered];
    LoseFinalMark DECOUPLED Base STEPS => Lost, &[ResponseDropped], always &[ServerHang];
    SurplusResponse DECOUPLED Base STEPS => Duplicate, &[AnsweredTwice];
    Misdeliver DIRECT Base STEPS => Misaddressed, &[ResponseElsewhere, ResponseOfAnother];
    WrongRequestId DIRECT Base STEPS => Misaddressed, &[UnknownRequestId];
    WrongModelName DIRECT Base STEPS => WrongModel, &[OtherModelsName];
    WrongModelVersion DIRECT Base STEPS => WrongVersion, &[OtherVersion];
    WrongOutputName DIRECT Base STEPS => WrongOutputName, &[OutputName, OutputRejected];
    WrongOutputType DIRECT Base STEPS => WrongOutputType, &[OutputType];
    WrongOutputShape DIRECT Base STEPS => WrongOutputShape, &[OutputShape];
    WrongOutputLength DIRECT Base STEPS => WrongOutputSize, &[OutputTooLong];
    TruncateOutput DIRECT Base STEPS => WrongOutputSize, &[OutputTooShort];
    // No step after an empty answer has one that is not.
    EmptyResponse DIRECT Base STEPS => WrongOutputName, &[OutputMissing], always &[ReadyNotTold];
    LateResponse DIRECT Base STEPS => Lost, &[ResponseLate], always &[ServerHang];
    ModelError DIRECT Base STEPS => UnexpectedError, &[ModelError];
    WrongErrorText DIRECT Base SELDOM => UnexpectedError, &[ErrorText];
    OutputBesideError DIRECT Base SELDOM => WrongOutputName, &[OutputBesideError];
    WrongErrorCode DIRECT Base SELDOM => UnexpectedError, &[ErrorText];
    CloseStream DIRECT Base STEPS => StreamBroken, &[StreamClosedEarly];
    LoseFinalResponses DIRECT Base SELDOM => StreamBroken, &[FinalResponsesLost];
    NeverClose DIRECT Base SEQUENCES => StreamNotClosed, &[StreamKeptOpen];
    LeakSlotAtEnd DIRECT Base SEQUENCES => SlotLeak, &[SlotLeak];
    // Whether the slot or the sequence is kept cannot be seen while nobody uses either.
    LeakSlotAtIdle DIRECT Stepwise LATE => SlotLeak, &[SlotLeak, MissingReap];
    LeakSlotAtCancel DIRECT Cuts SELDOM => SlotLeak, &[SlotLeak];
    LeakSlotAtLateCancel DIRECT Cuts SELDOM => SlotLeak, &[SlotLeak];
    OrphanAtCancel DIRECT Cuts SELDOM => SlotLeak, &[SlotLeak];
    LeakSlotAtDisconnect DIRECT Cuts LATE => SlotLeak, &[SlotLeak];
    LoseEnd DIRECT Ends SEQUENCES => MissingStartError, &[EndNotTold];
    // It gets the place of another one's.
    ExtraSlot DIRECT Crowd SEQUENCES => WrongSlot, &[ExtraSlot, SharedState];
    ReapEarly DIRECT Steady FIRST 15 => SpuriousStartError, &[PrematureReap];
    NeverReap DIRECT Cuts LATE => SlotLeak, &[SlotLeak, MissingReap];
    ClockFromStart DIRECT Pauses STEPS => SpuriousStartError, &[PrematureReap];
    RejectMidSequence DIRECT Base STEPS => SpuriousStartError, &[SpuriousRejection];
    RejectStart OLDEST Base SEQUENCES => SpuriousStartError, &[StartRejected];
    // In the slot of the ID's last sequence it goes on from that one's sum, as after an END without effect.
    AcceptNoStart DIRECT Base SELDOM => MissingStartError, &[RejectionMissing, EndNotTold];
    AcceptBatch DIRECT Unusual SELDOM => FlawAccepted, &[FlawTaken];
    RejectionEndsSequence DIRECT Unusual SELDOM => SpuriousStartError, &[EndedByRejection];
    ExpireEarly DIRECT Unusual SELDOM => SpuriousTimeout, &[ExpiredEarly];
    ErrorWithinStream DIRECT Errors SELDOM => StreamNotClosed, &[StreamKeptOpen];
    IgnoreTimeout DIRECT Waits SELDOM => MissingTimeout, &[ExpiryMissing];
    // Where all wait nobody shows that there is a slot for who comes later.
    StarveBacklog DIRECT Turns SEQUENCES => SlotOutOfTurn, &[Starvation], always &[SlotLeak];
    BacklogOrder DIRECT Turns SEQUENCES => SlotOutOfTurn, &[Starvation];
    // An instance that does nothing for longer than an answer is waited for.
    HangInstance DIRECT Base STEPS => Lost, &[Stall, ServerHang], always &[ServerHang];
    SlowExecution DIRECT Base STEPS => Lost, &[Stall, ServerHang], always &[ServerHang];
    LateRelease OLDEST Base STEPS => Lost, &[Stall, ServerHang];
    // What was executing is still answered, so others may have been answered meanwhile.
    ReaperLivelock DIRECT Crowd SELDOM 8 => Lost, &[ServerHang, Stall];
    // On an ID that still has a sequence in the second model the first step shows what the model was told.
    EnsembleLosesStart ENSEMBLE Ends SEQUENCES => SpuriousStartError, &[StartRejected];
    EnsembleLosesEnd ENSEMBLE Base SEQUENCES => WrongControl, &[EndNotTold];
    BlsLosesStart BLS Ends SEQUENCES => SpuriousStartError, &[StartRejected];
    BlsLosesEnd BLS Base SEQUENCES => WrongControl, &[EndNotTold];
    LoadResetsOthers DIRECT Loads LOADS => WrongSum, RESET;
    // What the model tells of its slot shows it before a sum can.
    VersionsShareSequences DIRECT Versions STEPS => WrongSlot, &[SlotWrong, SharedState, StrayStep];
    CutIds DIRECT Pairs STEPS => WrongSum, MIXED_UP;
    FoldIds DIRECT Pairs STEPS => WrongSum, MIXED_UP;
    FoldTexts DIRECT Alike STEPS => WrongSum, MIXED_UP;
    Crash DIRECT Base AFTER_FIRST => ServerDied, &[Crash, Restart];
    Restart DIRECT Base AFTER_FIRST => StreamBroken, &[Restart];
    CrashAtRejection DIRECT Base SELDOM => ServerDied, &[Crash];
    GoAway DIRECT Base STEPS => StreamBroken, &[];
    CountTwice DIRECT Base STEPS => Statistics, &[CountedTwice];
    CountNot OLDEST Base STEPS => Statistics, &[NotCounted];
    SayNotReady DIRECT Minutes LOOKS => NotReady, &[ReadinessWrong];
    LeakMemory DIRECT Minutes SEQUENCES => MemoryGrowth, &[MemoryLeak];
}
