//! Planted faults: what the models do wrong when they are told to, so that it is known what a tester finds.
//!
//! Their names are those of the reference server, as far as a model can commit them. They are planted by the parameter `fault`:
//! `NAME`, `NAME:PROBABILITY` or `NAME:once@N`, several with commas between them; `fault_seed` decides the probable ones.

#![forbid(unsafe_code)]

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

macro_rules! faults {
    ($($variant:ident $name:literal $does:literal;)*) => {
        /// What a model can do wrong.
        #[expect(clippy::doc_markdown, reason = "the words are for people who read a table, too")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault { $(#[doc = $does] $variant,)* }

        impl Fault {
            const ALL: &[(Self, &str)] = &[$((Self::$variant, $name),)*];
        }
    };
}

faults! {
    OffByOne "off-by-one" "an answer is one too high; the state stays right";
    KeepState "keep-state" "START does not reset the state that the slot or the ID had before";
    ResetState "reset-state" "a step in the middle of a sequence finds its state reset";
    StaleState "stale-state" "START takes over the last state of the ID's previous sequence";
    SwapStates "swap-states" "two sequences of one batch exchange their states";
    ExchangeStates "exchange-states" "of several states of a sequence the first two are read in each other's places";
    ExecuteTwice "execute-twice" "a step is executed twice";
    SkipStep "skip-step" "a step is answered and not executed";
    StateNotSaved "state-not-saved" "the implicit state that a step gives back is not kept";
    StateHalfSaved "state-half-saved" "of several implicit states that a step gives back the last is not kept";
    StateOfAnotherSlot "state-of-another-slot" "a step gets the implicit state of another slot";
    StartMissing "start-missing" "the model is not told START";
    StartSpurious "start-spurious" "the model is told START in the middle of a sequence";
    EndMissing "end-missing" "the model is not told END";
    EndSpurious "end-spurious" "the model is told END in the middle of a sequence";
    ReadyMissing "ready-missing" "a request is handed to the model as not ready";
    ReadySpurious "ready-spurious" "an idle slot is handed to the model as ready";
    CorridZero "corrid-zero" "the model is told correlation ID 0";
    CorridOther "corrid-other" "the model is told the correlation ID of another sequence";
    DropResponse "drop-response" "an answer is not sent";
    LoseOwnResponse "lose-own-response" "of several answers to a request the first is not sent";
    SwapOwnResponses "swap-own-responses" "of several answers to a request the first and the last change places";
    LoseFinalMark "lose-final-mark" "the last of several answers to a request is not marked as the final one";
    SurplusResponse "surplus-response" "of several answers to a request the first is sent twice";
    Misdeliver "misdeliver" "two requests of a batch get each other's sums";
    WrongOutputName "wrong-output-name" "the output has another name";
    WrongOutputType "wrong-output-type" "the output is said to be FP32, or if it is that INT32";
    WrongOutputShape "wrong-output-shape" "the output's shape has one dimension less";
    WrongOutputLength "wrong-output-length" "the output holds an element more than its shape says";
    TruncateOutput "truncate-output" "the output's last byte is missing";
    EmptyResponse "empty-response" "an answer has no output";
    LateResponse "late-response" "an answer is held back (fault_hold_ms)";
    ModelError "model-error" "a step that should be executed is answered with an error";
    SlowExecution "slow-execution" "an execution takes longer (fault_hold_ms)";
    LateRelease "late-release" "requests are released only some time after their answers (fault_hold_ms)";
    HangInstance "hang-instance" "an instance executes nothing any more";
    Crash "crash" "the server's process is ended";
    CountTwice "count-twice" "an execution is counted twice";
    CountNot "count-not" "an execution is not counted";
    LeakMemory "leak-memory" "1 MiB is kept until the model is unloaded, at a START";
}

impl Fault {
    /// The names of all faults.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|(_, name)| *name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

/// When a planted fault is committed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// At each chance with this probability.
    Probability(f64),
    /// At this chance, counted from 1 over all instances, and never again.
    Once(u64),
}

/// A fault and when it is committed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Planted {
    fault: Fault,
    when: When,
}

impl Planted {
    /// Reads a list of them.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read_list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(Self::read).collect()
    }

    fn read(text: &str) -> Result<Self, String> {
        let (name, when) = text.split_once(':').map_or((text, None), |(name, when)| (name, Some(when)));
        let Some((fault, _)) = Fault::ALL.iter().find(|(_, its)| *its == name) else {
            let known: Vec<_> = Fault::names().collect();
            return Err(format!("'{name}' is no fault of a model; those are {}", known.join(", ")));
        };
        let when = when.map_or(Some(When::Probability(1.0)), read_when);
        let when = when
            .ok_or_else(|| format!("'{text}': after ':' comes a probability from 0 to 1, or once@N with N from 1"))?;
        Ok(Self { fault: *fault, when })
    }
}

fn read_when(text: &str) -> Option<When> {
    if let Some(chance) = text.strip_prefix("once@") {
        return chance.parse().ok().filter(|chance| *chance > 0).map(When::Once);
    }
    text.parse().ok().filter(|probability| (0.0..=1.0).contains(probability)).map(When::Probability)
}

/// Decides at each chance whether a fault is committed; shared by a model's instances.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    decisions: Vec<Decision>,
}

#[derive(Debug)]
struct Decision {
    planted: Planted,
    generator: Mutex<ChaCha8Rng>,
    chances: AtomicU64,
    committed: AtomicU64,
}

impl Faults {
    pub(crate) fn new(planted: &[Planted], seed: u64) -> Self {
        let decision = |(index, planted): (u64, &Planted)| {
            let mut generator = ChaCha8Rng::seed_from_u64(seed);
            generator.set_stream(index);
            Decision {
                planted: *planted,
                generator: Mutex::new(generator),
                chances: AtomicU64::new(0),
                committed: AtomicU64::new(0),
            }
        };
        Self { decisions: (0..).zip(planted).map(decision).collect() }
    }

    /// Whether the fault is planted at all.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.of(fault).next().is_some()
    }

    /// Whether the fault happens, at a chance to commit it.
    pub(crate) fn happens(&self, fault: Fault) -> bool {
        // Each counts each chance, so all are asked.
        self.of(fault).filter(|decision| decision.happens()).count() > 0
    }

    fn of(&self, fault: Fault) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(move |decision| decision.planted.fault == fault)
    }

    /// What was committed, a line for each planted fault.
    pub(crate) fn account(&self) -> impl Iterator<Item = String> {
        self.decisions.iter().map(|decision| {
            let (committed, chances) = (decision.committed.load(Relaxed), decision.chances.load(Relaxed));
            format!("planted fault {}: committed {committed} of {chances} times", decision.planted.fault)
        })
    }
}

impl Decision {
    fn happens(&self) -> bool {
        let chance = self.chances.fetch_add(1, Relaxed) + 1;
        let happens = match self.planted.when {
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
    fn each_fault_has_its_row() {
        for (index, (fault, name)) in Fault::ALL.iter().enumerate() {
            assert_eq!((*fault as usize, fault.to_string().as_str()), (index, *name));
            assert_eq!(Planted::read_list(name), Ok(vec![Planted { fault: *fault, when: When::Probability(1.0) }]));
        }
    }

    #[test]
    fn a_list_is_read_or_rejected_with_what_is_wrong() {
        let two = Planted::read_list("crash:once@17, off-by-one:0.25").expect("two faults");
        let when: Vec<_> = two.iter().map(|planted| planted.when).collect();
        assert_eq!(when, [When::Once(17), When::Probability(0.25)]);
        assert_eq!(Planted::read_list(""), Ok(Vec::new()));
        for (text, reason) in [
            ("no-such", "'no-such' is no fault"),
            ("crash,goaway", "'goaway' is no fault"),
            ("crash:", "'crash:'"),
            ("crash:1.5", "a probability from 0 to 1"),
            ("crash:nan", "a probability from 0 to 1"),
            ("crash:once@0", "once@N with N from 1"),
        ] {
            let error = Planted::read_list(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn the_same_seed_decides_alike_and_once_is_once() {
        let planted = Planted::read_list("off-by-one:0.5,crash:once@3").expect("two faults");
        let decide = |seed| {
            let faults = Faults::new(&planted, seed);
            (0..64).map(|_| faults.happens(Fault::OffByOne)).collect::<Vec<_>>()
        };
        assert_eq!(decide(7), decide(7));
        assert_ne!(decide(7), decide(8));
        let faults = Faults::new(&planted, 7);
        assert_eq!((1..10).filter(|_| faults.happens(Fault::Crash)).count(), 1);
        assert!(!faults.happens(Fault::KeepState) && !faults.has(Fault::KeepState) && faults.has(Fault::Crash));
        let told: Vec<_> = faults.account().collect();
        assert_eq!(told[1], "planted fault crash: committed 1 of 9 times");
    }
}
