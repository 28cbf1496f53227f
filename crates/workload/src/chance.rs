//! When something that was planted happens: each time, now and then, or once.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::seed::Seed;

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// At each chance with this probability.
    Probability(f64),
    /// At this chance, counted from 1, and never again.
    Once(u64),
}

impl When {
    /// At each chance.
    pub const ALWAYS: Self = Self::Probability(1.0);
}

/// `PROBABILITY` or `once@N`.
impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odds = || text.parse().ok().filter(|probability| (0.0..=1.0).contains(probability)).map(Self::Probability);
        let once = |chance: &str| chance.parse().ok().filter(|chance| *chance > 0).map(Self::Once);
        let read = text.strip_prefix("once@").map_or_else(odds, once);
        read.ok_or_else(|| format!("'{text}' is neither a probability from 0 to 1 nor once@N with N from 1"))
    }
}

/// As it stands behind a name; nothing where it is each chance.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(chance) => write!(f, ":once@{chance}"),
            Self::Probability(1.0) => Ok(()),
            Self::Probability(probability) => write!(f, ":{probability}"),
        }
    }
}

/// Takes `NAME`, `NAME:PROBABILITY` or `NAME:once@N` apart.
///
/// # Errors
/// When what stands behind the name says no time.
pub fn named_when(text: &str) -> (&str, Result<When, String>) {
    text.split_once(':').map_or((text, Ok(When::ALWAYS)), |(name, when)| (name, when.parse()))
}

/// Decides at each chance whether it happens, from a seed: the same chances have the same decisions.
#[derive(Debug)]
pub struct Chances {
    when: When,
    generator: Mutex<ChaCha8Rng>,
    met: AtomicU64,
    happened: AtomicU64,
}

impl Chances {
    /// The `index`-th thing that is planted with this seed.
    pub fn new(when: When, seed: Seed, index: u32) -> Self {
        let generator = Mutex::new(seed.generator(index));
        Self { when, generator, met: AtomicU64::new(0), happened: AtomicU64::new(0) }
    }

    /// Whether it happens, at a chance.
    pub fn happens(&self) -> bool {
        let chance = self.met.fetch_add(1, Relaxed) + 1;
        let happens = match self.when {
            When::Once(at) => chance == at,
            When::Probability(probability) => {
                self.generator.lock().unwrap_or_else(PoisonError::into_inner).random_bool(probability)
            }
        };
        self.happened.fetch_add(happens.into(), Relaxed);
        happens
    }

    /// How many chances there were, whether it happened or not.
    pub fn count(&self) -> u64 {
        self.met.load(Relaxed)
    }

    /// How often it happened.
    pub fn happened(&self) -> u64 {
        self.happened.load(Relaxed)
    }

    /// It did not happen after all: what was to be done could not be done any more.
    pub fn retract(&self) {
        self.happened.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_happens_when_it_was_planted_for() {
        let once = Chances::new(When::Once(3), Seed(1), 0);
        let seen: Vec<_> = (0..5).map(|_| once.happens()).collect();
        assert_eq!((seen, once.happened(), once.count()), (vec![false, false, true, false, false], 1, 5));
        once.retract();
        assert_eq!((once.happened(), once.count()), (0, 5));
        let draw = |seed| {
            let half = Chances::new(When::Probability(0.5), Seed(seed), 0);
            (0..100).map(|_| half.happens()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((20..80).contains(&draw(1).iter().filter(|happens| **happens).count()));
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for text in ["", ":0.25", ":once@17", ":0"] {
            let (name, when) = named_when(text);
            assert_eq!((name, when.map(|when| when.to_string())), ("", Ok(text.to_owned())));
        }
        for text in ["x:", "x:1.5", "x:-1", "x:nan", "x:once@0", "x:once@", "x:once@-1"] {
            let (name, when) = named_when(text);
            assert!(
                name == "x" && when.clone().is_err_and(|why| why.contains("neither a probability")),
                "{text}: {when:?}"
            );
        }
    }
}
