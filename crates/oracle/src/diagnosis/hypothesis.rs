//! One possible explanation, and how likely it is that it only seems so.

use super::{Cause, Clue, Explanation};

/// Odds of a match by chance that are told.
const TOLD_ABOVE: f64 = 1.0 / 1000.0;
/// Odds at which a match says nothing.
const WORTHLESS_ABOVE: f64 = 0.25;

/// What keeps ranks apart, and well above chance.
const RANK_BITS: f64 = 32.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hypothesis {
    pub(super) cause: Cause,
    pub(super) clues: Vec<Clue>,
    /// How many quantities were compared with, one of which matched; or else its rank among others.
    pub(super) tried: usize,
    /// It is no match of quantities.
    is_rank: bool,
    /// Whether what came later is as the cause would have it.
    pub(super) fit: Fit,
    /// How many further quantities match that had to.
    pub(super) confirmed: u32,
}

/// Whether what came later is as a cause would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    No,
    NotKnown,
    Yes,
}

impl Fit {
    pub(super) fn of(fits: Option<bool>) -> Self {
        match fits {
            None => Self::NotKnown,
            Some(true) => Self::Yes,
            Some(false) => Self::No,
        }
    }
}

impl Hypothesis {
    pub(super) fn new(cause: Cause, tried: usize, fit: Fit, clues: impl Into<Vec<Clue>>) -> Self {
        Self { cause, clues: clues.into(), tried: tried.max(1), is_rank: false, fit, confirmed: 0 }
    }

    /// One that is no match of quantities: its rank, from 1, says how likely it is.
    pub(super) fn of_rank(cause: Cause, rank: usize, fit: Fit, clues: impl Into<Vec<Clue>>) -> Self {
        Self { is_rank: true, ..Self::new(cause, rank, fit, clues) }
    }

    pub(super) fn confirmed(mut self, times: u32, clue: Clue) -> Self {
        if times > 0 {
            self.confirmed += times;
            self.clues.push(clue);
        }
        self
    }

    /// The odds that quantities of so many random bits match by chance.
    pub(super) fn odds(&self, bits: u32) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "odds")]
        let tried = self.tried as f64;
        let bits = if self.is_rank { RANK_BITS } else { f64::from(bits) * (1.0 + f64::from(self.confirmed)) };
        (tried * (-bits).exp2()).min(1.0)
    }

    /// The weight of the evidence, in bits.
    fn weight(&self, bits: u32) -> f64 {
        let fit = match self.fit {
            Fit::Yes => 4.0,
            Fit::NotKnown => 0.0,
            Fit::No => -f64::from(bits),
        };
        fit - self.odds(bits).log2()
    }

    fn told(self, bits: u32) -> Explanation {
        let odds = self.odds(bits);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "odds are from 0 to 1")]
        let by_chance = (odds > TOLD_ABOVE).then(|| (1.0 / odds).round() as u64);
        Explanation { cause: self.cause, clues: self.clues, by_chance }
    }
}

/// Causes that no quantity tells apart, the likeliest first; the same clues speak for each.
pub(super) fn in_order(causes: &[Cause], clues: impl Into<Vec<Clue>>) -> Vec<Hypothesis> {
    let clues = clues.into();
    let new = |(rank, cause): (usize, &Cause)| Hypothesis::of_rank(*cause, rank, Fit::NotKnown, clues.clone());
    (1..).zip(causes).map(new).collect()
}

/// The explanations that are worth to be told, most likely first, each cause once.
pub(super) fn ranked(mut all: Vec<Hypothesis>, bits: u32) -> Vec<Explanation> {
    all.sort_by(|one, other| other.weight(bits).total_cmp(&one.weight(bits)));
    let doubtful = |hypothesis: &Hypothesis| hypothesis.fit == Fit::No || hypothesis.odds(bits) > WORTHLESS_ABOVE;
    let mut first = true;
    all.retain(|hypothesis| {
        std::mem::take(&mut first) || hypothesis.cause == Cause::Unexplained || !doubtful(hypothesis)
    });
    let mut told: Vec<Explanation> = Vec::new();
    for hypothesis in all {
        if told.iter().all(|explanation| explanation.cause != hypothesis.cause) {
            told.push(hypothesis.told(bits));
        }
    }
    told
}
