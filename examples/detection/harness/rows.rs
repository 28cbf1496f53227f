//! In which model and scenario each fault shows, and which do not show at all.

use std::time::Duration;

use sequence_stress::{oracle::ViolationKind, reference::Fault};

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
    Ends,
    Pairs,
    Alike,
}

impl Scene {
    pub const ALL: [Self; 11] = [
        Self::Base,
        Self::Stepwise,
        Self::Steady,
        Self::Pauses,
        Self::Cuts,
        Self::Crowd,
        Self::Unusual,
        Self::Waits,
        Self::Ends,
        Self::Pairs,
        Self::Alike,
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
            Self::Ends => "ends",
            Self::Pairs => "pairs",
            Self::Alike => "alike",
        }
    }

    /// The idle limit of its models.
    pub fn idle_limit(self) -> Duration {
        match self {
            // What keeps a slot thinks between its steps, and has to be certain to keep it on a busy machine, too.
            Self::Waits => Duration::from_millis(400),
            _ => IDLE_LIMIT,
        }
    }

    /// Whether the model can be sent its correlation IDs: one that is told them may lawfully take some of them for one.
    pub fn suits(self, model: &str) -> bool {
        !matches!(self, Self::Pairs | Self::Alike) || !(model == OLDEST || model.contains("dyna"))
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
            Self::Ends => include_str!("../../../scenarios/detection/ends.toml"),
            Self::Pairs => include_str!("../../../scenarios/detection/pairs.toml"),
            Self::Alike => include_str!("../../../scenarios/detection/alike.toml"),
        }
    }
}

pub const DIRECT: &str = "custom_sequence_int32";
pub const OLDEST: &str = "oldest_sequence_int32";
pub const IMPLICIT: &str = "implicit_sequence_int32";
pub const DECOUPLED: &str = "decoupled_sequence_int32";
/// The models that are not to be accused where they are correct.
pub const MODELS: &[&str] =
    &[DIRECT, OLDEST, IMPLICIT, DECOUPLED, "implicit_dyna_sequence_int32", "custom_nobatch_sequence_int32"];

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
}

/// Why a fault is not found, or is found only where it is always there: short, and by design.
pub fn not_found_because(fault: Fault, always: bool) -> Option<&'static str> {
    match fault {
        Fault::WrongErrorCode => Some("errors have codes in calls alone, and these scenarios send over streams"),
        Fault::WrongElement => {
            Some("what these runs send has one element; `tests/real/types.rs` finds it where there are several")
        }
        Fault::LeakMemory => Some("no answer tells what memory a server has"),
        Fault::GoAway => Some("lawful: what was under way is finished, and the client connects again"),
        Fault::StarveBacklog | Fault::BacklogOrder if !always => {
            Some("one sequence begins some ms later than it might have, within the longest lawful wait")
        }
        _ => None,
    }
}

/// Chances that come with each step, with each sequence, and seldom.
const STEPS: (u64, u64) = (1, 800);
const SEQUENCES: (u64, u64) = (1, 60);
const SELDOM: (u64, u64) = (1, 4);
/// As long as all workers are at work: slots that nobody has are idle too.
const IDLE_SLOTS: (u64, u64) = (1, 250);
const FIRST: (u64, u64) = (1, 15);
/// Towards the end of a run, so that its ID is not used again: that would give the slot back.
const LATE: (u64, u64) = (16, 40);
/// A server that goes before its first answer came could not be tested.
const AFTER_FIRST: (u64, u64) = (300, 800);

macro_rules! rows {
    ($($fault:ident $model:ident $scene:ident $chances:ident $($execution_ms:literal)? => $kind:ident;)*) => {
        /// Every fault, where it shows.
        pub const ROWS: &[Row] = &[$(Row {
            fault: Fault::$fault,
            model: $model,
            scene: Scene::$scene,
            execution_ms: [$($execution_ms,)? 1][0],
            chances: $chances,
            called: ViolationKind::$kind,
        },)*];
    };
}

rows! {
    OffByOne DIRECT Base STEPS => WrongSum;
    WrongElement DIRECT Base STEPS => WrongSum;
    KeepState DIRECT Base SEQUENCES => WrongSum;
    ResetState DIRECT Base STEPS => WrongSum;
    StaleState DIRECT Base SEQUENCES => WrongSum;
    SwapStates DIRECT Base STEPS => WrongSum;
    DoubleRelease DIRECT Stepwise SELDOM => WrongSum;
    ExecuteTwice OLDEST Base STEPS => WrongSum;
    SkipStep DIRECT Base STEPS => WrongSum;
    OutOfOrder DIRECT Base STEPS => WrongSum;
    EndBeforeLast DIRECT Base SEQUENCES => WrongSum;
    StateNotSaved IMPLICIT Base STEPS => WrongSum;
    StateOfAnotherSlot IMPLICIT Base STEPS => WrongSum;
    StartMissing DIRECT Base SEQUENCES => WrongControl;
    StartSpurious DIRECT Base STEPS => WrongControl;
    EndMissing OLDEST Base SEQUENCES => WrongControl;
    EndSpurious OLDEST Base STEPS => WrongControl;
    ReadyMissing DIRECT Base STEPS => WrongControl;
    ReadySpurious DIRECT Steady IDLE_SLOTS => WrongSum;
    CorridZero OLDEST Base STEPS => WrongControl;
    CorridOther OLDEST Base STEPS => WrongControl;
    DropResponse DIRECT Base STEPS => Lost;
    DuplicateResponse DIRECT Base STEPS => Duplicate;
    SwapResponses DIRECT Base STEPS => Reordered;
    LoseOwnResponse DECOUPLED Base STEPS => Lost;
    SwapOwnResponses DECOUPLED Base STEPS => Reordered;
    LoseFinalMark DECOUPLED Base STEPS => Lost;
    SurplusResponse DECOUPLED Base STEPS => Duplicate;
    Misdeliver DIRECT Base STEPS => Misaddressed;
    WrongRequestId DIRECT Base STEPS => Misaddressed;
    WrongModelName DIRECT Base STEPS => WrongModel;
    WrongModelVersion DIRECT Base STEPS => WrongVersion;
    WrongOutputName DIRECT Base STEPS => WrongOutputName;
    WrongOutputType DIRECT Base STEPS => WrongOutputType;
    WrongOutputShape DIRECT Base STEPS => WrongOutputShape;
    WrongOutputLength DIRECT Base STEPS => WrongOutputSize;
    TruncateOutput DIRECT Base STEPS => WrongOutputSize;
    EmptyResponse DIRECT Base STEPS => WrongOutputName;
    LateResponse DIRECT Base STEPS => Lost;
    ModelError DIRECT Base STEPS => UnexpectedError;
    WrongErrorText DIRECT Base SELDOM => UnexpectedError;
    WrongErrorCode DIRECT Base SELDOM => UnexpectedError;
    CloseStream DIRECT Base STEPS => StreamBroken;
    LoseFinalAnswers DIRECT Base SELDOM => StreamBroken;
    NeverClose DIRECT Base SEQUENCES => StreamNotClosed;
    LeakSlotAtEnd DIRECT Base SEQUENCES => SlotLeak;
    LeakSlotAtIdle DIRECT Stepwise LATE => SlotLeak;
    LeakSlotAtCancel DIRECT Cuts SELDOM => SlotLeak;
    OrphanAtCancel DIRECT Cuts SELDOM => SlotLeak;
    LeakSlotAtDisconnect DIRECT Cuts LATE => SlotLeak;
    LoseEnd DIRECT Ends SEQUENCES => MissingStartError;
    ExtraSlot DIRECT Crowd SEQUENCES => WrongSlot;
    ReapEarly DIRECT Steady FIRST 15 => SpuriousStartError;
    NeverReap DIRECT Cuts LATE => SlotLeak;
    ClockFromStart DIRECT Pauses STEPS => SpuriousStartError;
    RefuseMidSequence DIRECT Base STEPS => SpuriousStartError;
    RefuseStart OLDEST Base SEQUENCES => SpuriousStartError;
    AcceptNoStart DIRECT Base SELDOM => MissingStartError;
    AcceptBatch DIRECT Unusual SELDOM => FlawAccepted;
    RefusalEndsSequence DIRECT Unusual SELDOM => SpuriousStartError;
    ExpireEarly DIRECT Unusual SELDOM => SpuriousTimeout;
    IgnoreTimeout DIRECT Waits SELDOM => MissingTimeout;
    StarveBacklog DIRECT Crowd SEQUENCES 8 => Lost;
    BacklogOrder DIRECT Crowd SEQUENCES 8 => Lost;
    HangInstance DIRECT Base STEPS => Lost;
    SlowExecution DIRECT Base STEPS => Lost;
    LateRelease OLDEST Base STEPS => Lost;
    ReaperLivelock DIRECT Crowd SELDOM 8 => Lost;
    CutIds DIRECT Pairs STEPS => WrongSum;
    FoldIds DIRECT Pairs STEPS => WrongSum;
    FoldTexts DIRECT Alike STEPS => WrongSum;
    Crash DIRECT Base AFTER_FIRST => ServerDied;
    Restart DIRECT Base AFTER_FIRST => StreamBroken;
    GoAway DIRECT Base STEPS => StreamBroken;
    CountTwice DIRECT Base STEPS => Statistics;
    CountNot OLDEST Base STEPS => Statistics;
    LeakMemory DIRECT Base SEQUENCES => ServerDied;
}
