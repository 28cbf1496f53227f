//! How many requests an execution could have had, for what the client had in the server at a time.
//!
//! An execution takes at most one request of each sequence that has a slot. A sequence whose START has no response has a slot where one is
//! left, because a server does not let a slot stay free. Several instances share the sequences evenly.

use std::{collections::BTreeSet, mem};

use serde::{Deserialize, Serialize};

use workload::{event::Nanos, model::Batching};

const SECOND: Nanos = 1_000_000_000;
/// A run has events more often than each day.
const LONGEST_SILENCE: Nanos = 86_400 * SECOND;

/// What one correlation ID has in the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Has {
    /// Neither a slot nor a START.
    #[default]
    Nothing,
    /// A START that has no response. It may wait for a slot.
    Start,
    /// A slot, and a request that has no response.
    Request,
    /// A slot, no longer than until then, and no request.
    Slot(Nanos),
}

/// The requests that were there to be executed in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// For how long there was at least one.
    pub busy_ns: u64,
    /// How many there were at a time, one of each slot and no more than fit the batches of all instances; summed up over that time.
    pub request_ns: u64,
    /// How many sequences were live at its end; none where that is not known.
    pub live: Option<u64>,
    /// Whether it is known only in part what was there.
    pub is_partial: bool,
}

impl Offered {
    /// Adds those of a later time.
    pub fn add(&mut self, other: &Self) {
        self.busy_ns += other.busy_ns;
        self.request_ns += other.request_ns;
        self.live = other.live.or(self.live);
        self.is_partial |= other.is_partial;
    }

    /// How many requests an execution of one of so many instances could have had on average; none where there were none, or where it is not
    /// known how many.
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    pub fn possible_batch(&self, instances: u32) -> Option<f64> {
        let is_known = self.busy_ns > 0 && !self.is_partial;
        is_known.then(|| self.request_ns as f64 / self.busy_ns as f64 / f64::from(instances.max(1)))
    }
}

/// What all correlation IDs have in the server, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Offer {
    slots: usize,
    /// None where it is not known how the model batches. Then nothing is counted.
    batching: Option<Batching>,
    /// By worker and context.
    has: Vec<Has>,
    starts: usize,
    requests: usize,
    /// Slots without a request, by until when.
    resting: BTreeSet<(Nanos, u32)>,
    /// Until when it is counted.
    until: Nanos,
    second: Offered,
    /// The seconds that are over, by number.
    over: Vec<(u64, Offered)>,
}

impl Offer {
    pub(super) fn new(slots: usize, batching: Option<Batching>, contexts: usize) -> Self {
        Self { slots, batching, has: vec![Has::default(); contexts], ..Self::default() }
    }

    /// From now on the context has this.
    pub(super) fn take(&mut self, has: Has, context: u32, at: Nanos) {
        self.go_on(at);
        self.put(has, context);
    }

    /// It is not known any more what the contexts have.
    pub(super) fn forget(&mut self) {
        self.second.is_partial = true;
        (self.starts, self.requests) = (0, 0);
        self.resting.clear();
        self.has.fill(Has::Nothing);
    }

    /// The seconds that were over since the last time.
    pub(super) fn over(&mut self) -> Vec<(u64, Offered)> {
        mem::take(&mut self.over)
    }

    /// Ends the second that is counted, of which that much has passed.
    pub(super) fn end_second(&mut self) {
        if self.second != Offered::default() || self.live() > 0 {
            self.leave_second();
        }
    }

    fn live(&self) -> u64 {
        (self.starts + self.requests + self.resting.len()) as u64
    }

    fn leave_second(&mut self) {
        let live = Some(self.live()).filter(|_| !self.second.is_partial);
        self.over.push((self.until.saturating_sub(1) / SECOND, Offered { live, ..mem::take(&mut self.second) }));
    }

    fn go_on(&mut self, at: Nanos) {
        while let Some((until, context)) = self.resting.first().copied().filter(|(until, _)| *until <= at) {
            self.count(until);
            self.put(Has::Nothing, context);
        }
        self.count(at);
    }

    fn put(&mut self, has: Has, context: u32) {
        let count = |its: &mut Self, has, up: bool| match has {
            Has::Nothing => {}
            Has::Start if up => its.starts += 1,
            Has::Start => its.starts -= 1,
            Has::Request if up => its.requests += 1,
            Has::Request => its.requests -= 1,
            Has::Slot(until) if up => drop(its.resting.insert((until, context))),
            Has::Slot(until) => drop(its.resting.remove(&(until, context))),
        };
        let before = mem::replace(&mut self.has[context as usize], has);
        count(self, before, false);
        count(self, has, true);
    }

    /// How many requests all instances together could execute now.
    fn at_a_time(&self) -> u64 {
        let Some(Batching { instances, largest }) = self.batching else { return 0 };
        let left = self.slots.saturating_sub(self.requests + self.resting.len());
        match (self.requests + self.starts.min(left)) as u64 {
            0 => 0,
            // One request alone keeps one instance busy, and the others have nothing to do.
            some => some.clamp(instances.into(), u64::from(instances) * u64::from(largest)),
        }
    }

    /// Counts the time until then.
    fn count(&mut self, until: Nanos) {
        if until.saturating_sub(self.until) > LONGEST_SILENCE {
            // No run is silent for so long.
            self.end_second();
            self.until = until;
            self.second.is_partial = true;
        }
        let at_a_time = self.at_a_time();
        while self.until < until {
            let ends = until.min((self.until / SECOND + 1) * SECOND);
            if at_a_time > 0 {
                let lasts = ends - self.until;
                self.second.busy_ns += lasts;
                self.second.request_ns += lasts * at_a_time;
            }
            self.until = ends;
            if ends.is_multiple_of(SECOND) {
                self.leave_second();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is possible where a model with so many slots, instances and places of a batch has contexts that go through this.
    fn possible(slots: usize, [instances, largest]: [u32; 2], story: &[(Nanos, u32, Has)]) -> Option<f64> {
        let mut offer = Offer::new(slots, Some(Batching { instances, largest }), 8);
        for (at, context, has) in story {
            offer.take(*has, *context, *at);
        }
        let mut all = Offered::default();
        offer.end_second();
        offer.over().iter().for_each(|(_, second)| all.add(second));
        all.possible_batch(instances)
    }

    use Has::{Nothing, Request, Slot, Start};

    #[test]
    fn it_is_the_mean_over_the_time_in_which_there_is_a_request() {
        assert_eq!(possible(4, [1, 4], &[]), None);
        // Two for 10, one for 10, and none for 80.
        let story = [(0, 0, Request), (0, 1, Request), (10, 0, Nothing), (20, 1, Slot(90)), (100, 1, Request)];
        assert_eq!(possible(4, [1, 4], &story), Some(1.5));
        assert_eq!(possible(4, [1, 1], &story), Some(1.0), "a batch has one place");
        let four: Vec<_> = (0..4).map(|context| (0, context, Request)).chain([(10, 0, Request)]).collect();
        assert_eq!(possible(8, [2, 4], &four), Some(2.0), "two instances share them");
        assert_eq!(possible(8, [8, 4], &four), Some(1.0), "less than one is none");
    }

    #[test]
    fn a_start_counts_where_a_slot_is_left_for_it() {
        let starts = |others: &[(Nanos, u32, Has)]| {
            let mine = [(0, 5, Start), (0, 6, Start), (0, 7, Start), (10, 7, Start)];
            possible(3, [1, 8], &[others, &mine].concat())
        };
        assert_eq!(starts(&[]), Some(3.0));
        assert_eq!(starts(&[(0, 0, Request)]), Some(3.0));
        assert_eq!(starts(&[(0, 0, Slot(99)), (0, 1, Slot(99))]), Some(1.0));
        assert_eq!(starts(&[(0, 0, Slot(5)), (0, 1, Slot(99)), (0, 2, Slot(99))]), Some(1.0), "from 5 on");
    }

    #[test]
    fn a_sequence_is_live_from_its_start_until_it_ends_or_its_slot_lapses() {
        let mut offer = Offer::new(2, None, 8);
        let ends = SECOND * 5 / 2;
        for (at, context, has) in [(1, 0, Start), (2, 1, Request), (3, 2, Slot(ends)), (SECOND + 1, 0, Nothing)] {
            offer.take(has, context, at);
        }
        offer.take(Nothing, 1, SECOND * 3 + 1);
        let live: Vec<_> = offer.over().into_iter().map(|(second, its)| (second, its.live)).collect();
        assert_eq!(live, [(0, Some(3)), (1, Some(2)), (2, Some(1))]);
    }

    #[test]
    fn each_second_has_its_own_and_after_a_gap_nothing_is_known() {
        let mut offer = Offer::new(4, Some(Batching { instances: 1, largest: 4 }), 8);
        offer.take(Request, 0, SECOND / 2);
        offer.take(Request, 1, SECOND * 2);
        let second = |busy_ns, request_ns| Offered { busy_ns, request_ns, live: Some(1), is_partial: false };
        assert_eq!(offer.over(), [(0, second(SECOND / 2, SECOND / 2)), (1, second(SECOND, SECOND))]);
        // What comes late is counted from now on.
        offer.take(Nothing, 0, SECOND);
        offer.take(Nothing, 1, SECOND * 2 + 7);
        offer.forget();
        let partial = Offered { is_partial: true, live: None, ..second(7, 7) };
        offer.end_second();
        assert_eq!(offer.over(), [(2, partial)]);
        assert_eq!((partial.possible_batch(1), second(7, 14).possible_batch(1)), (None, Some(2.0)));
    }
}
