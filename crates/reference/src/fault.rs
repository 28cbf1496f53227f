//! Faults that the reference server can be told to commit, so that it is known what the tester finds.

use std::{
    fmt,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tokio::time::Instant;

pub use workload::chance::When;
use workload::{
    chance::{Chances, named_when},
    seed::Seed,
    wording::meant,
};

workload::table! {
    /// What the reference server can do wrong; its sentence is what the server does wrong, and by that what is a chance to do it.
    pub enum Fault: Row {
        /// a response is one too high; the state stays right
        OffByOne = "off-by-one", Row("state", "wrong sum", "");
        /// of several elements of a response the last is one too high; the state stays right
        WrongElement = "wrong-element", Row("state", "wrong sum", "");
        /// START does not reset the state that the slot or the ID had before
        KeepState = "keep-state", Row("state", "stale state after a restart", "server#4064");
        /// a step in the middle of a sequence finds its state reset
        ResetState = "reset-state", Row("state", "wrong sum", "server#4178");
        /// sequences go on from nothing when an instance of the model failed and came back
        AnswerAfterLostState = "answer-after-lost-state", Row("state", "wrong sum", "");
        /// START takes over the last state of the ID's previous sequence
        StaleState = "stale-state", Row("state", "stale state after a restart", "server#2229");
        /// two sequences of one batch exchange their states
        SwapStates = "swap-states", Row("state", "contamination from another sequence", "server#8586");
        /// of several states of a sequence the first two are read in each other's places
        ExchangeStates = "exchange-states", Row("state", "wrong sum", "server#8586");
        /// a slot is released twice at END, and two sequences share it
        DoubleRelease = "double-release", Row("state", "contamination from another sequence", "server#7117, core#341, server#7167");
        /// a step is executed twice
        ExecuteTwice = "execute-twice", Row("state", "wrong sum", "server#7840");
        /// a step is executed twice that is cancelled, or whose deadline passes, while it executes
        RedoCancelled = "redo-cancelled", Row("state", "wrong sum", "server#7840");
        /// a step is answered and not executed
        SkipStep = "skip-step", Row("state", "lost request", "server#4178");
        /// two queued steps of a sequence change places
        OutOfOrder = "out-of-order", Row("state", "reordering within a sequence", "server#3406");
        /// END is executed before the step that came before it
        EndBeforeLast = "end-before-last", Row("state", "reordering within a sequence", "server#3406");
        /// the implicit state that a step gives back is not kept
        StateNotSaved = "state-not-saved", Row("state", "wrong sum", "server#8586");
        /// of several implicit states that a step gives back the last is not kept
        StateHalfSaved = "state-half-saved", Row("state", "wrong sum", "server#8586");
        /// a step gets the implicit state of another slot
        StateOfAnotherSlot = "state-of-another-slot", Row("state", "contamination from another sequence", "server#8586");
        /// the model is not told START
        StartMissing = "start-missing", Row("control", "wrong START signal", "server#3406");
        /// the model is told START in the middle of a sequence
        StartSpurious = "start-spurious", Row("control", "wrong START signal", "server#3406");
        /// the model is not told END
        EndMissing = "end-missing", Row("control", "wrong END signal", "");
        /// the model is told END in the middle of a sequence
        EndSpurious = "end-spurious", Row("control", "wrong END signal", "");
        /// a request is handed to the model as not ready
        ReadyMissing = "ready-missing", Row("control", "wrong READY signal", "");
        /// an idle slot is handed to the model as ready
        ReadySpurious = "ready-spurious", Row("control", "wrong READY signal", "");
        /// the model is told correlation ID 0
        CorridZero = "corrid-zero", Row("control", "wrong CORRID signal", "server#5276");
        /// the model is told the correlation ID of another sequence
        CorridOther = "corrid-other", Row("control", "wrong CORRID signal", "server#5276");
        /// a response is not sent
        DropResponse = "drop-response", Row("response", "lost response", "server#3652");
        /// a response is sent twice
        DuplicateResponse = "duplicate-response", Row("response", "duplicated response", "");
        /// two responses of a stream change places
        SwapResponses = "swap-responses", Row("response", "reordered response", "server#4918");
        /// of several responses to a request the first is not sent
        LoseOwnResponse = "lose-own-response", Row("response", "lost response", "");
        /// of several responses to a request the first and the last change places
        SwapOwnResponses = "swap-own-responses", Row("response", "reordered response", "");
        /// the last of several responses to a request is not marked as the final one
        LoseFinalMark = "lose-final-mark", Row("response", "malformed response", "");
        /// of several responses to a request the first is sent twice
        SurplusResponse = "surplus-response", Row("response", "duplicated response", "");
        /// a response is sent on another stream
        Misdeliver = "misdeliver", Row("response", "misaddressed response", "server#8078");
        /// a response carries an ID that no request has
        WrongRequestId = "wrong-request-id", Row("response", "misaddressed response", "");
        /// a response carries another model's name
        WrongModelName = "wrong-model-name", Row("response", "misaddressed response", "");
        /// a response carries another version of the model
        WrongModelVersion = "wrong-model-version", Row("response", "misaddressed response", "");
        /// the output has another name
        WrongOutputName = "wrong-output-name", Row("response", "malformed response", "");
        /// the output is said to be FP32, or INT32 where that is its type
        WrongOutputType = "wrong-output-type", Row("response", "malformed response", "");
        /// the output's shape has one dimension less
        WrongOutputShape = "wrong-output-shape", Row("response", "malformed response", "");
        /// the output holds an element more than its shape says
        WrongOutputLength = "wrong-output-length", Row("response", "malformed response", "");
        /// the output's last byte is missing
        TruncateOutput = "truncate-output", Row("response", "malformed response", "");
        /// a response has no output
        EmptyResponse = "empty-response", Row("response", "malformed response", "server#4064");
        /// a response is held back (--fault-hold)
        LateResponse = "late-response", Row("response", "late response", "server#3652");
        /// a step that should be executed is answered with an error
        ModelError = "model-error", Row("response", "unexpected error", "");
        /// an error is told with other words
        WrongErrorText = "wrong-error-text", Row("response", "unexpected code or text", "");
        /// an error carries an output besides (over streams)
        OutputBesideError = "output-beside-error", Row("response", "malformed response", "");
        /// an error is told with the code INTERNAL (where codes are told)
        WrongErrorCode = "wrong-error-code", Row("response", "unexpected code or text", "");
        /// with triton_grpc_error, an error that comes late is sent within the stream, which goes on
        ErrorWithinStream = "error-within-stream", Row("response", "unexpected code or text", "");
        /// a stream is closed while requests are under way
        CloseStream = "close-stream", Row("response", "lost response", "server#5951");
        /// a stream is closed at half-close without the responses that are still due
        LoseFinalResponses = "lose-final-responses", Row("response", "lost response", "server#7265");
        /// a stream stays open after half-close and the last response
        NeverClose = "never-close", Row("response", "hang", "server#5951");
        /// a slot is not released at END
        LeakSlotAtEnd = "leak-slot-at-end", Row("scheduling", "slot leak", "core#337");
        /// a slot is not released when its sequence is reaped
        LeakSlotAtIdle = "leak-slot-at-idle", Row("scheduling", "slot leak", "core#456");
        /// a slot is not released when its queued requests are cancelled
        LeakSlotAtCancel = "leak-slot-at-cancel", Row("scheduling", "slot leak", "server#7167");
        /// a slot is not released when its queued requests are cancelled in the last quarter of an execution
        LeakSlotAtLateCancel = "leak-slot-at-late-cancel", Row("scheduling", "slot leak", "server#7167");
        /// the slot of a cancelled sequence is released with the ID's newer sequence, which is in another slot
        OrphanAtCancel = "orphan-at-cancel", Row("scheduling", "slot leak", "seen on tritonserver 2.51.0");
        /// the slot of a sequence whose client went away is never released
        LeakSlotAtDisconnect = "leak-slot-at-disconnect", Row("scheduling", "slot leak", "server#7840");
        /// a sequence goes on after its END, which is executed
        LoseEnd = "lose-end", Row("scheduling", "wrong END signal", "");
        /// a sequence that belongs in the backlog gets a slot that is not configured
        ExtraSlot = "extra-slot", Row("scheduling", "more slots than configured", "core#341");
        /// a sequence is reaped after a tenth of the idle limit
        ReapEarly = "reap-early", Row("scheduling", "premature reap", "server#3577, server#3160");
        /// an idle sequence keeps its slot for ever
        NeverReap = "never-reap", Row("scheduling", "missing reap", "server#8390");
        /// a step does not reset the idle clock of its sequence, which has a slot
        ClockFromStart = "clock-from-start", Row("scheduling", "premature reap", "server#3577");
        /// a step of a live sequence gets the START error
        RejectMidSequence = "reject-mid-sequence", Row("scheduling", "spurious START error", "server#3577, server#8167");
        /// a START gets the START error
        RejectStart = "reject-start", Row("scheduling", "spurious START error", "server#8167");
        /// a step without START and without a sequence is taken
        AcceptNoStart = "accept-no-start", Row("scheduling", "missing START error", "server#3103");
        /// a request of two elements in one batch is executed
        AcceptBatch = "accept-batch", Row("scheduling", "missing rejection of a flaw", "");
        /// a request that is rejected for its batch size ends its sequence, which has a slot
        RejectionEndsSequence = "rejection-ends-sequence", Row("scheduling", "sequence lost by a rejection", "");
        /// a sequence that waits for a slot is rejected for a time limit that it does not have
        ExpireEarly = "expire-early", Row("scheduling", "premature time limit", "");
        /// a sequence that waits for a slot beyond its time limit is not rejected
        IgnoreTimeout = "ignore-timeout", Row("scheduling", "missing time limit", "");
        /// a free slot is kept for new sequences while the backlog waits
        StarveBacklog = "starve-backlog", Row("scheduling", "starvation", "server#4841");
        /// the newest sequence of the backlog gets the free slot
        BacklogOrder = "backlog-order", Row("scheduling", "starvation", "server#4841");
        /// an instance executes nothing any more
        HangInstance = "hang-instance", Row("scheduling", "hang", "server#5951");
        /// an execution takes longer (--fault-hold)
        SlowExecution = "slow-execution", Row("scheduling", "late response", "");
        /// a request is released only some time after its response (--fault-hold)
        LateRelease = "late-release", Row("scheduling", "late response", "");
        /// the reaper meets an idle sequence in the backlog and the model serves nothing any more
        ReaperLivelock = "reaper-livelock", Row("scheduling", "livelock, hang", "server#8449");
        /// a START reaches the second model of an ensemble without the flag
        EnsembleLosesStart = "ensemble-loses-start", Row("ensemble", "wrong START signal", "core#369, core#373");
        /// an END reaches the second model of an ensemble without the flag
        EnsembleLosesEnd = "ensemble-loses-end", Row("ensemble", "wrong END signal", "core#369, core#373");
        /// a START reaches the model that another one calls without the flag
        BlsLosesStart = "bls-loses-start", Row("ensemble", "wrong START signal", "");
        /// an END reaches the model that another one calls without the flag
        BlsLosesEnd = "bls-loses-end", Row("ensemble", "wrong END signal", "");
        /// a model that is loaded resets the states of another model, which is being used
        LoadResetsOthers = "load-resets-others", Row("server", "wrong sum", "");
        /// a step goes to the sequence that another version of the model has of the same correlation ID
        VersionsShareSequences = "versions-share-sequences", Row("server", "contamination from another sequence", "");
        /// of a correlation ID that is a number the lower 32 bits are looked at alone
        CutIds = "cut-ids", Row("server", "contamination from another sequence", "");
        /// of a correlation ID that is a number the lower 8 bits are looked at alone
        FoldIds = "fold-ids", Row("server", "contamination from another sequence", "");
        /// correlation IDs that are nearly the same text are taken for one
        FoldTexts = "fold-texts", Row("server", "contamination from another sequence", "");
        /// the server is gone when a request arrives
        Crash = "crash", Row("server", "crash", "server#8391, server#6594");
        /// the server is gone when it rejects a request over HTTP
        CrashAtRejection = "crash-at-rejection", Row("server", "crash", "server#8676, server#8925");
        /// all connections are cut and all state is lost when a request arrives; the server goes on
        Restart = "restart", Row("server", "restart", "server#8391");
        /// all connections are told to go away when a request arrives; what is under way is finished
        GoAway = "goaway", Row("server", "restart", "");
        /// an execution is counted twice
        CountTwice = "count-twice", Row("server", "statistics that do not add up", "server#3778");
        /// an execution is not counted
        CountNot = "count-not", Row("server", "statistics that do not add up", "server#3778");
        /// ModelReady is answered with no when the model has executed a request
        SayNotReady = "say-not-ready", Row("server", "wrong readiness", "");
        /// 1 MiB is kept for ever at a START
        LeakMemory = "leak-memory", Row("server", "memory growth", "server#6781");
    }
}

/// The part of the server that commits a fault, the class that the fault stands for, and what it resembles.
struct Row(&'static str, &'static str, &'static str);

impl Fault {
    /// The part of the server that commits it.
    pub fn group(self) -> &'static str {
        self.row().0
    }

    /// The fault class that it stands for.
    pub fn class(self) -> &'static str {
        self.row().1
    }

    /// What it resembles of what happened to users: issues and pull requests of Triton's `server` and `core`.
    pub fn resembles(self) -> &'static str {
        self.row().2
    }

    /// Whether it holds something up, for as long as the server is told.
    pub fn holds_up(self) -> bool {
        matches!(self, Self::LateResponse | Self::SlowExecution | Self::LateRelease)
    }
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
    pub fn always(fault: Fault) -> Self {
        Self { fault, when: When::ALWAYS }
    }

    /// The fault at one chance, counted from 1.
    pub fn once(fault: Fault, chance: u64) -> Self {
        Self { fault, when: When::Once(chance) }
    }
}

impl FromStr for Planted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, when) = named_when(text);
        let Some(fault) = Fault::named(name) else {
            let meant = meant(name, Fault::NAMES.iter().copied(), "list them with `sequence-stress faults`");
            return Err(format!("there is no fault '{name}'; {meant}"));
        };
        Ok(Self { fault, when: when? })
    }
}

impl Serialize for Planted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Planted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.fault, self.when)
    }
}

/// Decides at each chance whether a fault is committed, from a seed: the same chances have the same faults.
#[derive(Debug, Default)]
pub struct Faults {
    /// Empty where none is planted, which costs next to nothing.
    planted: Vec<Decision>,
    /// For how long what is made late is held up.
    pub(super) hold: Duration,
}

#[derive(Debug)]
struct Decision {
    fault: Fault,
    chances: Chances,
    /// When, the first times.
    times: Mutex<Vec<Instant>>,
}

/// Of so many times it is kept when a fault was committed.
const TIMES_MAX: usize = 1000;

impl Faults {
    /// Plants these faults; one that is planted twice happens when either says so.
    pub fn new(planted: &[Planted], seed: Seed) -> Self {
        let decision = |(index, planted): (_, &Planted)| Decision {
            fault: planted.fault,
            chances: Chances::new(planted.when, seed, index),
            times: Mutex::default(),
        };
        Self { planted: (0..).zip(planted).map(decision).collect(), hold: Duration::ZERO }
    }

    /// Whether the fault is planted at all.
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.decisions(fault).next().is_some()
    }

    /// Whether the fault happens, at a chance to commit it.
    pub(super) fn happens(&self, fault: Fault) -> bool {
        // Each counts each chance, so all are asked.
        self.decisions(fault).filter(|decision| decision.happens()).count() > 0
    }

    /// For how long the fault holds something up, at a chance to do so: not at all where it does not happen.
    pub(super) fn holds_up(&self, fault: Fault) -> Option<Duration> {
        self.happens(fault).then_some(self.hold)
    }

    /// Waits for as long as the fault holds something up.
    pub(super) async fn hold_up(&self, fault: Fault) {
        if let Some(hold) = self.holds_up(fault) {
            tokio::time::sleep(hold).await;
        }
    }

    /// How many chances there were to commit the fault, whether it was or not.
    pub(super) fn chances(&self, fault: Fault) -> u64 {
        // Each of those that plant it counts every chance.
        self.decisions(fault).map(|decision| decision.chances.count()).max().unwrap_or(0)
    }

    pub(super) fn committed(&self, fault: Fault) -> u64 {
        self.decisions(fault).map(|decision| decision.chances.happened()).sum()
    }

    /// When the fault was committed, in the order of time: the first times.
    pub(super) fn committed_at(&self, fault: Fault) -> Vec<Instant> {
        let times = |decision: &Decision| decision.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all: Vec<_> = self.decisions(fault).flat_map(times).collect();
        all.sort();
        all.truncate(TIMES_MAX);
        all
    }

    fn decisions(&self, fault: Fault) -> impl Iterator<Item = &Decision> {
        self.planted.iter().filter(move |decision| decision.fault == fault)
    }
}

impl Decision {
    fn happens(&self) -> bool {
        let happens = self.chances.happens();
        if happens {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            if times.len() < TIMES_MAX {
                times.push(Instant::now());
            }
        }
        happens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_row_and_its_own_name() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(Planted::always(fault)));
            assert!(!fault.what().is_empty() && !fault.class().is_empty());
            assert_eq!(fault.holds_up(), fault.what().contains("--fault-hold"), "{fault}");
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
        let [first, second] = twice.committed_at(Fault::Crash)[..] else { panic!("{twice:?}") };
        assert!(first <= second);
        // Of a fault that is always committed the first times are kept.
        let always = Faults::new(&[Planted::always(Fault::Crash)], Seed(1));
        (0..TIMES_MAX + 5).for_each(|_| assert!(always.happens(Fault::Crash)));
        assert_eq!(always.committed_at(Fault::Crash).len(), TIMES_MAX);
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
