//! Faults that the reference server can be told to commit, so that it is known what the tester finds.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::seed::Seed;

/// One row of the table of faults.
#[derive(Clone, Copy, Debug)]
pub struct FaultInfo {
    /// The fault.
    pub fault: Fault,
    /// Its name on the command line.
    pub name: &'static str,
    /// What the server does wrong, and by that what is a chance to do it.
    pub does: &'static str,
    /// The fault class that it stands for.
    pub class: &'static str,
    /// What it resembles of what happened to users: issues and pull requests of Triton's `server` and `core`.
    pub resembles: &'static str,
}

macro_rules! faults {
    ($($group:literal: $($variant:ident $name:literal $does:literal, $class:literal, $resembles:literal;)*)*) => {
        /// What the reference server can do wrong; [`Fault::TABLE`] says what each is.
        #[expect(missing_docs, reason = "the table has the words")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Fault { $($($variant,)*)* }

        impl Fault {
            /// All faults, with what they are.
            pub const TABLE: &[FaultInfo] = &[$($(FaultInfo {
                fault: Fault::$variant, name: $name, does: $does, class: $class, resembles: $resembles,
            },)*)*];

            /// The part of the server that commits it.
            #[must_use]
            pub fn group(self) -> &'static str {
                match self { $($(Self::$variant => $group,)*)* }
            }
        }
    };
}

faults! {
    "state":
    OffByOne "off-by-one" "an answer is one too high; the state stays right", "wrong sum", "";
    WrongElement "wrong-element" "of several elements of an answer the last is one too high; the state stays right", "wrong sum", "";
    KeepState "keep-state" "START does not reset the state that the slot or the ID had before", "stale state after a restart", "server#4064";
    ResetState "reset-state" "a step in the middle of a sequence finds its state reset", "wrong sum", "server#4178";
    StaleState "stale-state" "START takes over the last state of the ID's previous sequence", "stale state after a restart", "server#2229";
    SwapStates "swap-states" "two sequences of one batch exchange their states", "contamination from another sequence", "server#8586";
    DoubleRelease "double-release" "a slot is released twice at END, and two sequences share it", "contamination from another sequence", "server#7117, core#341, server#7167";
    ExecuteTwice "execute-twice" "a step is executed twice", "wrong sum", "server#7840";
    SkipStep "skip-step" "a step is answered and not executed", "lost request", "server#4178";
    OutOfOrder "out-of-order" "two queued steps of a sequence change places", "reordering within a sequence", "server#3406";
    EndBeforeLast "end-before-last" "END is executed before the step that came before it", "reordering within a sequence", "server#3406";
    StateNotSaved "state-not-saved" "the implicit state that a step gives back is not kept", "wrong sum", "server#8586";
    StateOfAnotherSlot "state-of-another-slot" "a step gets the implicit state of another slot", "contamination from another sequence", "server#8586";
    "control":
    StartMissing "start-missing" "the model is not told START", "wrong START signal", "server#3406";
    StartSpurious "start-spurious" "the model is told START in the middle of a sequence", "wrong START signal", "server#3406";
    EndMissing "end-missing" "the model is not told END", "wrong END signal", "";
    EndSpurious "end-spurious" "the model is told END in the middle of a sequence", "wrong END signal", "";
    ReadyMissing "ready-missing" "a request is handed to the model as not ready", "wrong READY signal", "";
    ReadySpurious "ready-spurious" "an idle slot is handed to the model as ready", "wrong READY signal", "";
    CorridZero "corrid-zero" "the model is told correlation ID 0", "wrong CORRID signal", "server#5276";
    CorridOther "corrid-other" "the model is told the correlation ID of another sequence", "wrong CORRID signal", "server#5276";
    "response":
    DropResponse "drop-response" "an answer is not sent", "lost response", "server#3652";
    DuplicateResponse "duplicate-response" "an answer is sent twice", "duplicated response", "";
    SwapResponses "swap-responses" "two answers of a stream change places", "reordered response", "server#4918";
    LoseOwnResponse "lose-own-response" "of several answers to a request the first is not sent", "lost response", "";
    SwapOwnResponses "swap-own-responses" "of several answers to a request the first and the last change places", "reordered response", "";
    LoseFinalMark "lose-final-mark" "the last of several answers to a request is not marked as the final one", "malformed response", "";
    SurplusResponse "surplus-response" "of several answers to a request the first is sent twice", "duplicated response", "";
    Misdeliver "misdeliver" "an answer is sent on another stream", "misaddressed response", "server#8078";
    WrongRequestId "wrong-request-id" "an answer carries an ID that no request has", "misaddressed response", "";
    WrongModelName "wrong-model-name" "an answer carries another model's name", "misaddressed response", "";
    WrongModelVersion "wrong-model-version" "an answer carries another version of the model", "misaddressed response", "";
    WrongOutputName "wrong-output-name" "the output has another name", "malformed response", "";
    WrongOutputType "wrong-output-type" "the output is said to be FP32, or INT32 where that is its type", "malformed response", "";
    WrongOutputShape "wrong-output-shape" "the output's shape has one dimension less", "malformed response", "";
    WrongOutputLength "wrong-output-length" "the output holds an element more than its shape says", "malformed response", "";
    TruncateOutput "truncate-output" "the output's last byte is missing", "malformed response", "";
    EmptyResponse "empty-response" "an answer has no output", "malformed response", "server#4064";
    LateResponse "late-response" "an answer is held back (--fault-hold)", "late response", "server#3652";
    ModelError "model-error" "a step that should be executed is answered with an error", "unexpected error", "";
    WrongErrorText "wrong-error-text" "an error is told with other words", "unexpected code or text", "";
    WrongErrorCode "wrong-error-code" "an error is told with the code INTERNAL (where codes are told)", "unexpected code or text", "";
    CloseStream "close-stream" "a stream is closed while requests are under way", "lost response", "server#5951";
    LoseFinalAnswers "lose-final-answers" "a stream is closed at half-close without the answers that are still due", "lost response", "server#7265";
    NeverClose "never-close" "a stream stays open after half-close and the last answer", "hang", "server#5951";
    "scheduling":
    LeakSlotAtEnd "leak-slot-at-end" "a slot is not released at END", "slot leak", "core#337";
    LeakSlotAtIdle "leak-slot-at-idle" "a slot is not released when its sequence is reaped", "slot leak", "core#456";
    LeakSlotAtCancel "leak-slot-at-cancel" "a slot is not released when its queued requests are cancelled", "slot leak", "server#7167";
    OrphanAtCancel "orphan-at-cancel" "the slot of a cancelled sequence is released with the ID's newer sequence, which is in another slot", "slot leak", "seen on tritonserver 2.51.0";
    LeakSlotAtDisconnect "leak-slot-at-disconnect" "the slot of a sequence whose client went away is never released", "slot leak", "server#7840";
    LoseEnd "lose-end" "a sequence goes on after its END, which is executed", "wrong END signal", "";
    ExtraSlot "extra-slot" "a sequence that belongs in the backlog gets a slot that is not configured", "more slots than configured", "core#341";
    ReapEarly "reap-early" "a sequence is reaped after a tenth of the idle limit", "premature reap", "server#3577, server#3160";
    NeverReap "never-reap" "an idle sequence keeps its slot for ever", "missing reap", "server#8390";
    ClockFromStart "clock-from-start" "a step does not reset the idle clock of its sequence, which has a slot", "premature reap", "server#3577";
    RefuseMidSequence "refuse-mid-sequence" "a step of a live sequence gets the START error", "spurious START error", "server#3577, server#8167";
    RefuseStart "refuse-start" "a START gets the START error", "spurious START error", "server#8167";
    AcceptNoStart "accept-no-start" "a step without START and without a sequence is taken", "missing START error", "server#3103";
    AcceptBatch "accept-batch" "a request of two elements in one batch is executed", "missing refusal of a flaw", "";
    RefusalEndsSequence "refusal-ends-sequence" "a request that is refused for its batch size ends its sequence, which has a slot", "sequence lost by a refusal", "";
    ExpireEarly "expire-early" "a sequence that waits for a slot is refused for a time limit that it does not have", "premature time limit", "";
    IgnoreTimeout "ignore-timeout" "a sequence that waits for a slot beyond its time limit is not refused", "missing time limit", "";
    StarveBacklog "starve-backlog" "a free slot is kept for new sequences while the backlog waits", "starvation", "server#4841";
    BacklogOrder "backlog-order" "the newest sequence of the backlog gets the free slot", "starvation", "server#4841";
    HangInstance "hang-instance" "an instance executes nothing any more", "hang", "server#5951";
    SlowExecution "slow-execution" "an execution takes longer (--fault-hold)", "late response", "";
    LateRelease "late-release" "a request is released only some time after its answer (--fault-hold)", "late response", "";
    ReaperLivelock "reaper-livelock" "the reaper meets an idle sequence in the backlog and the model serves nothing any more", "livelock, hang", "server#8449";
    "server":
    CutIds "cut-ids" "of a correlation ID that is a number the lower 32 bits are looked at alone", "contamination from another sequence", "";
    FoldIds "fold-ids" "of a correlation ID that is a number the lower 8 bits are looked at alone", "contamination from another sequence", "";
    FoldTexts "fold-texts" "correlation IDs that are nearly the same text are taken for one", "contamination from another sequence", "";
    Crash "crash" "the server is gone when a request arrives", "crash", "server#8391, server#6594";
    Restart "restart" "all connections are cut and all state is lost when a request arrives; the server goes on", "restart", "server#8391";
    GoAway "goaway" "all connections are told to go away when a request arrives; what is under way is finished", "restart", "";
    CountTwice "count-twice" "an execution is counted twice", "statistics that do not add up", "server#3778";
    CountNot "count-not" "an execution is not counted", "statistics that do not add up", "server#3778";
    LeakMemory "leak-memory" "1 MiB is kept for ever at a START", "memory growth", "server#6781";
}

impl Fault {
    /// The fault's row.
    #[must_use]
    pub fn info(self) -> &'static FaultInfo {
        &Self::TABLE[self as usize]
    }

    /// Whether it holds something up, for as long as the server is told.
    #[must_use]
    pub fn holds_up(self) -> bool {
        matches!(self, Self::LateResponse | Self::SlowExecution | Self::LateRelease)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.info().name)
    }
}

/// When a planted fault is committed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// At each chance with this probability.
    Probability(f64),
    /// At this chance, counted from 1, and never again.
    Once(u64),
}

/// A fault and when it is committed: `NAME`, `NAME:PROBABILITY` or `NAME:once@N`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planted {
    /// The fault.
    pub fault: Fault,
    /// When.
    pub when: When,
}

impl Planted {
    /// The fault at each chance.
    #[must_use]
    pub fn always(fault: Fault) -> Self {
        Self { fault, when: When::Probability(1.0) }
    }

    /// The fault at one chance, counted from 1.
    #[must_use]
    pub fn once(fault: Fault, chance: u64) -> Self {
        Self { fault, when: When::Once(chance) }
    }
}

impl FromStr for Planted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, when) = text.split_once(':').map_or((text, None), |(name, when)| (name, Some(when)));
        let Some(info) = Fault::TABLE.iter().find(|info| info.name == name) else {
            return Err(format!("'{name}' is no fault; `sequence-stress faults` lists them"));
        };
        let when = match when {
            None => When::Probability(1.0),
            Some(when) => read_when(when)
                .ok_or_else(|| format!("'{when}' is neither a probability from 0 to 1 nor once@N with N from 1"))?,
        };
        Ok(Self { fault: info.fault, when })
    }
}

fn read_when(text: &str) -> Option<When> {
    if let Some(chance) = text.strip_prefix("once@") {
        return chance.parse().ok().filter(|chance| *chance > 0).map(When::Once);
    }
    text.parse().ok().filter(|probability| (0.0..=1.0).contains(probability)).map(When::Probability)
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Once(chance) => write!(f, "{}:once@{chance}", self.fault),
            When::Probability(1.0) => write!(f, "{}", self.fault),
            When::Probability(probability) => write!(f, "{}:{probability}", self.fault),
        }
    }
}

/// Decides at each chance whether a fault is committed, from a seed: the same chances have the same faults.
#[derive(Debug, Default)]
pub struct Faults {
    /// By [`Fault`]; empty where none is planted, which costs next to nothing.
    planted: Vec<Vec<Decision>>,
    /// For how long what is made late is held up.
    hold: Duration,
}

#[derive(Debug)]
struct Decision {
    when: When,
    generator: Mutex<ChaCha8Rng>,
    chances: AtomicU64,
    committed: AtomicU64,
}

impl Faults {
    /// Plants these faults; one that is planted twice happens when either says so.
    #[must_use]
    pub fn new(planted: &[Planted], seed: Seed) -> Self {
        if planted.is_empty() {
            return Self::default();
        }
        let mut by_fault: Vec<Vec<Decision>> = Fault::TABLE.iter().map(|_| Vec::new()).collect();
        for (index, &Planted { fault, when }) in (0..).zip(planted) {
            by_fault[fault as usize].push(Decision {
                when,
                generator: Mutex::new(seed.generator(index)),
                chances: AtomicU64::new(0),
                committed: AtomicU64::new(0),
            });
        }
        Self { planted: by_fault, hold: Duration::ZERO }
    }

    /// The same faults, where those that hold something up do so for this long.
    #[must_use]
    pub fn holding(self, hold: Duration) -> Self {
        Self { hold, ..self }
    }

    /// Whether the fault is planted at all.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        !self.decisions(fault).is_empty()
    }

    /// Whether the fault happens, at a chance to commit it.
    #[must_use]
    pub fn happens(&self, fault: Fault) -> bool {
        // Each counts each chance, so all are asked.
        self.decisions(fault).iter().filter(|decision| decision.happens()).count() > 0
    }

    /// For how long the fault holds something up, at a chance to do so: not at all where it does not happen.
    #[must_use]
    pub fn holds_up(&self, fault: Fault) -> Option<Duration> {
        self.happens(fault).then_some(self.hold)
    }

    /// How many chances there were to commit the fault, whether it was or not.
    #[must_use]
    pub fn chances(&self, fault: Fault) -> u64 {
        // Each of those that plant it counts every chance.
        self.decisions(fault).iter().map(|decision| decision.chances.load(Relaxed)).max().unwrap_or(0)
    }

    /// How often the fault was committed.
    #[must_use]
    pub fn committed(&self, fault: Fault) -> u64 {
        self.decisions(fault).iter().map(|decision| decision.committed.load(Relaxed)).sum()
    }

    fn decisions(&self, fault: Fault) -> &[Decision] {
        self.planted.get(fault as usize).map_or(&[], Vec::as_slice)
    }
}

impl Decision {
    fn happens(&self) -> bool {
        let chance = self.chances.fetch_add(1, Relaxed) + 1;
        let happens = match self.when {
            When::Once(at) => chance == at,
            When::Probability(probability) => {
                self.generator.lock().unwrap_or_else(PoisonError::into_inner).random_bool(probability)
            }
        };
        self.committed.fetch_add(u64::from(happens), Relaxed);
        happens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_row_and_its_own_name() {
        for (index, info) in Fault::TABLE.iter().enumerate() {
            assert_eq!(info.fault as usize, index);
            assert_eq!(info.name.parse(), Ok(Planted::always(info.fault)));
            assert!(!info.does.is_empty() && !info.class.is_empty());
            assert_eq!(info.fault.holds_up(), info.does.contains("--fault-hold"), "{}", info.name);
        }
    }

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["off-by-one", "off-by-one:0.25", "crash:once@17", "crash:0"] {
            assert_eq!(text.parse::<Planted>().map(|planted| planted.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("crash:1".parse(), Ok(Planted::always(Fault::Crash)));
        for (text, reason) in [
            ("no-such", "is no fault"),
            ("", "is no fault"),
            ("crash:", "neither a probability"),
            ("crash:1.5", "neither a probability"),
            ("crash:-1", "neither a probability"),
            ("crash:nan", "neither a probability"),
            ("crash:once@0", "neither a probability"),
            ("crash:once@", "neither a probability"),
        ] {
            let error = text.parse::<Planted>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_fault_may_be_planted_twice() {
        let twice = Faults::new(&[Planted::once(Fault::Crash, 2), Planted::once(Fault::Crash, 4)], Seed(1));
        let seen: Vec<_> = (0..5).map(|_| twice.happens(Fault::Crash)).collect();
        assert_eq!((seen, twice.committed(Fault::Crash)), (vec![false, true, false, true, false], 2));
    }

    #[test]
    fn a_fault_happens_when_it_was_planted_for() {
        let once = Faults::new(&[Planted::once(Fault::Crash, 3)], Seed(1));
        let seen: Vec<_> = (0..5).map(|_| once.happens(Fault::Crash)).collect();
        assert_eq!(seen, [false, false, true, false, false]);
        assert_eq!((once.committed(Fault::Crash), once.committed(Fault::OffByOne)), (1, 0));
        assert_eq!((once.chances(Fault::Crash), once.chances(Fault::OffByOne)), (5, 0));
        assert!(!once.happens(Fault::OffByOne));

        let half = [Planted { fault: Fault::Crash, when: When::Probability(0.5) }];
        let draw = |seed| {
            let faults = Faults::new(&half, Seed(seed));
            (0..100).map(|_| faults.happens(Fault::Crash)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((20..80).contains(&draw(1).iter().filter(|happens| **happens).count()));
    }
}
