//! What a server's responses are worth: those that a client can use, beside all of them.

use serde::{Deserialize, Serialize};

use super::{Tally, Times};
use oracle::{Outcome, Settled, ViolationKind};

/// Responses that no client can use, and requests without a response.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NotGood {
    /// The times of responses that were wrong, late, or errors that were not planned.
    pub(crate) responses: Times,
    /// Requests whose response the server owed, and that got none.
    pub(crate) lost: u64,
}

impl NotGood {
    pub(super) fn add(&mut self, other: &Self) {
        self.responses.add(&other.responses);
        self.lost += other.lost;
    }
}

/// Whether a client can use a response that broke no rule. An error of the server that its rules allow, such as that of a sequence that
/// waited for a slot for too long, is of no use.
pub(super) fn is_of_use(settled: &Settled) -> bool {
    match settled.outcome {
        Outcome::Completed => true,
        Outcome::Rejected => settled.step.is_to_be_rejected(),
        Outcome::Expired | Outcome::Failed | Outcome::Indeterminate => false,
    }
}

impl Tally {
    /// Responses that were right and in time, and errors that were planned.
    pub fn good(&self) -> u64 {
        self.step.count() - self.not_good.as_ref().map_or(0, |its| its.responses.count())
    }

    /// Responses that were not good, and requests without one that the server owed.
    pub fn not_good(&self) -> u64 {
        // A run ends early where the server answers nobody any more; else by the user's wish.
        let is_gone = |kind| self.violations.contains_key(&kind);
        let unanswered =
            if is_gone(ViolationKind::Hang) || is_gone(ViolationKind::ServerDied) { self.unanswered } else { 0 };
        unanswered + self.not_good.as_ref().map_or(0, |its| its.responses.count() + its.lost)
    }

    /// The time in µs that this share of all requests, from 0 to 1, got a good response in; none where fewer got one at all.
    pub fn good_at_quantile_us(&self, quantile: f64) -> Option<u64> {
        if self.not_good() == 0 {
            return Some(self.step.at_quantile_us(quantile));
        }
        #[expect(clippy::cast_precision_loss, reason = "no run has so many requests")]
        let share = quantile * (self.good() + self.not_good()) as f64 / self.good() as f64;
        // All of them may be just that share.
        (share <= 1.0 + 1e-12).then(|| {
            let good = self.not_good.as_ref().map(|its| self.step.without(&its.responses));
            good.as_ref().unwrap_or(&self.step).at_quantile_us(share.min(1.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_good_counts_as_never_answered() {
        let mut tally = Tally::default();
        for ms in 1..=90 {
            tally.step.record(0, ms * 1_000_000);
        }
        assert_eq!(
            (tally.good(), tally.not_good(), tally.good_at_quantile_us(1.0).map(|us| us / 1000)),
            (90, 0, Some(90))
        );
        // Five more responses are quick and wrong, and five requests have none.
        let not_good = tally.not_good.get_or_insert_default();
        not_good.lost = 5;
        for _ in 0..5 {
            not_good.responses.record(0, 1000);
            tally.step.record(0, 1000);
        }
        assert_eq!((tally.good(), tally.not_good()), (90, 10));
        let ms = |quantile| tally.good_at_quantile_us(quantile).map(|us| us / 1000);
        assert_eq!((ms(0.5), ms(0.9), ms(0.91), ms(1.0)), (Some(50), Some(90), None, None));
        let mut twice = tally.clone();
        twice.merge(&tally);
        assert_eq!((twice.good(), twice.not_good()), (180, 20));
        // Whoever waits when a server is gone is owed a response, and whoever waits when the user ends the run is not.
        twice.unanswered = 7;
        assert_eq!(twice.not_good(), 20);
        twice.violation(ViolationKind::ServerDied);
        assert_eq!(twice.not_good(), 27);
        // Nothing at all is good.
        let nothing = Tally { not_good: Some(Box::new(NotGood { lost: 1, ..NotGood::default() })), ..Tally::default() };
        assert_eq!((nothing.good(), nothing.good_at_quantile_us(0.5)), (0, None));
    }
}
