//! How long steps, sequences and waits for a slot took, and how exactly the client kept their times.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use workload::event::{Due, Nanos};

/// The longest time that a histogram tells apart, in µs: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Times in µs.
#[derive(Clone)]
pub struct Times(pub(super) Histogram<u64>);

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Times({} up to {} µs)", self.count(), self.max_us())
    }
}

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST_US, 3).expect("the bounds are such as the histogram takes"))
    }
}

impl Times {
    pub(crate) fn record(&mut self, from: Nanos, to: Nanos) {
        self.0.saturating_record((to.saturating_sub(from) / 1000).max(1));
    }

    /// These times without others that are among them.
    pub(super) fn without(&self, others: &Self) -> Self {
        let mut times = self.clone();
        times.0.subtract(&others.0).expect("they are among them");
        times
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in µs that this share of all times, from 0 to 1, does not pass.
    pub(crate) fn at_quantile_us(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// The longest time, in µs.
    pub fn max_us(&self) -> u64 {
        self.0.max()
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    pub(crate) fn mean_us(&self) -> f64 {
        self.0.mean()
    }
}

/// The times of sequences.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Waits {
    /// From when a sequence's first step was due or sent to the response to its last.
    pub sequence: Times,
    /// From when a START was due to its response; where it has no time of its own, from when it was sent, or from the response before it on
    /// its stream if that came later.
    pub slot: Times,
}

impl Waits {
    pub(super) fn add(&mut self, other: &Self) {
        self.sequence.add(&other.sequence);
        self.slot.add(&other.slot);
    }
}

/// Where the time of the steps went that the server executed, as the client saw it, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// How many they are.
    pub steps: u64,
    /// How late the client sent them where it waited for their time alone.
    pub late_ns: Nanos,
    /// How late the others were sent: the step before had no response yet, or no worker was free.
    pub held_back_ns: Nanos,
    /// From sending them to their responses; of several responses to the last one.
    pub from_sending_ns: Nanos,
}

impl Executed {
    /// Takes in a step that was sent and answered at these times, and was due where it has a time of its own.
    pub(super) fn record(&mut self, due: Option<Due>, sent: Nanos, answered: Nanos) {
        self.steps += 1;
        self.from_sending_ns += answered.saturating_sub(sent);
        if let Some(due) = due {
            // What is stopped may be sent before it is due.
            let behind = sent.saturating_sub(due.at);
            *(if due.waited { &mut self.late_ns } else { &mut self.held_back_ns }) += behind;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.late_ns += other.late_ns;
        self.held_back_ns += other.held_back_ns;
        self.from_sending_ns += other.from_sending_ns;
    }
}

/// How steps that are due at times of their own were sent, and how long they took from then on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pacing {
    /// How late the client sent a step for whose time alone it waited.
    pub late: Times,
    /// How late the client sent other steps: the step before had no response yet, or no worker was free.
    pub held_back: Times,
    /// From when a step was really sent to its response.
    pub step: Times,
    /// From when a sequence's first step was really sent to the response to its last.
    pub sequence: Times,
}

/// A client whose p99 of lateness is above this is too slow, in µs. Without an exact timer of the system, tokio's timer is part of the
/// lateness.
const CLIENT_LATE_US: u64 = if cfg!(target_os = "linux") { 1000 } else { 5000 };
/// With fewer steps than this, one late step would decide.
const PACED_MIN: u64 = 500;

impl Pacing {
    /// The p99 of the client's lateness, in µs, where it is so high that the client may have been the limit; else none.
    pub fn client_late_us(&self) -> Option<u64> {
        let late = self.late.at_quantile_us(0.99);
        (self.late.count() >= PACED_MIN && late > CLIENT_LATE_US).then_some(late)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.late.add(&other.late);
        self.held_back.add(&other.held_back);
        self.step.add(&other.step);
        self.sequence.add(&other.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_before_a_step_was_sent_is_the_clients_or_that_of_what_held_it_back() {
        let mut all = Executed::default();
        let due = |at, waited| Some(Due { at, waited });
        for (due, sent, answered) in
            [(None, 5, 12), (due(10, true), 13, 20), (due(10, false), 30, 34), (due(50, true), 40, 41)]
        {
            let mut one = Executed::default();
            one.record(due, sent, answered);
            all.add(&one);
        }
        let expected = Executed { steps: 4, late_ns: 3, held_back_ns: 20, from_sending_ns: 7 + 7 + 4 + 1 };
        assert_eq!(all, expected);
    }

    #[test]
    fn a_client_is_called_late_only_by_many_steps_of_which_one_in_a_hundred_is() {
        let late_us = |on_time: u64, late: u64| {
            let mut pacing = Pacing::default();
            for (steps, us) in [(on_time, 20), (late, 3 * CLIENT_LATE_US)] {
                (0..steps).for_each(|_| pacing.late.record(0, us * 1000));
            }
            // What the server held back is none of the client's.
            (0..PACED_MIN).for_each(|_| pacing.held_back.record(0, 1_000_000_000));
            pacing.client_late_us()
        };
        assert!(late_us(PACED_MIN, PACED_MIN / 50).is_some_and(|late| late >= 3 * CLIENT_LATE_US));
        assert_eq!(late_us(PACED_MIN, PACED_MIN / 500), None, "one in five hundred");
        assert_eq!(late_us(0, PACED_MIN - 1), None, "too few to say");
    }
}
