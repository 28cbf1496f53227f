//! What tests look at.

use super::{Knowledge, Rules, State};
use workload::event::Nanos;

impl Knowledge {
    /// How many states and orders are kept, and how many requests.
    pub(crate) fn size(&self) -> (usize, usize) {
        let requests = self.streams.iter().map(|stream| stream.requests.len()).sum::<usize>();
        let strays = self.strays.cuts.iter().map(|cut| cut.requests.len()).sum::<usize>();
        let states = self.histories.as_ref().map_or(self.possible.states().count(), |histories| histories.len());
        (states, requests + strays)
    }

    /// Whether the server may hold this, where nothing is under way.
    pub(crate) fn may_hold(&self, held: State, at: Nanos, rules: &Rules) -> bool {
        let given = self.given(at, rules);
        let is_it = |state| match (state, held) {
            (State::Live(Some(sum)), State::Live(Some(held))) => sum == held,
            (state, held) => (state == State::Absent) == (held == State::Absent),
        };
        self.strays.in_fog(at) || self.begin_histories().may_come_to(&given, is_it)
    }
}
