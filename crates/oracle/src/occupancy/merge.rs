//! Brings what several threads tell in the order of time.

use std::{cmp::Reverse, collections::BinaryHeap};

use workload::event::Nanos;

/// Threads tell what they saw at the latest after a tenth of a second, and a busy machine may delay them.
const LOOK_BEHIND: Nanos = 1_000_000_000;
/// The most that is held back; at the highest rates that is less than the time above.
const HELD_BACK: usize = 100_000;

/// What is held back for a while, because something may come that was before it.
#[derive(Debug)]
pub(super) struct Merge<T> {
    /// By time, and at the same time in the order in which it was told: one thread tells what it saw in order.
    held: BinaryHeap<Reverse<(Nanos, u64, u32, T)>>,
    told: u64,
    latest: Nanos,
}

impl<T: Ord> Default for Merge<T> {
    fn default() -> Self {
        Self { held: BinaryHeap::new(), told: 0, latest: 0 }
    }
}

impl<T: Ord> Merge<T> {
    pub(super) fn add(&mut self, at: Nanos, context: u32, what: T) {
        self.latest = self.latest.max(at);
        self.told += 1;
        self.held.push(Reverse((at, self.told, context, what)));
    }

    /// The next of what need not be held back any more; of all, where nothing more comes.
    pub(super) fn next(&mut self, is_over: bool) -> Option<(Nanos, u32, T)> {
        let Reverse((at, ..)) = self.held.peek()?;
        let is_due = is_over || at.saturating_add(LOOK_BEHIND) <= self.latest || self.held.len() > HELD_BACK;
        is_due.then(|| self.held.pop()).flatten().map(|Reverse((at, _, context, what))| (at, context, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_the_same_time_stays_in_its_order() {
        let mut merge = Merge::default();
        for (at, context, what) in [(5, 7, 'b'), (5, 1, 'c'), (3, 9, 'a'), (5, 0, 'd')] {
            merge.add(at, context, what);
        }
        let told: String = std::iter::from_fn(|| merge.next(true)).map(|(_, _, what)| what).collect();
        assert_eq!(told, "abcd");
    }
}
