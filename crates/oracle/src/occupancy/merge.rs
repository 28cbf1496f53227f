//! Brings what several threads tell in the order of time.

use std::collections::{BTreeMap, VecDeque};

use workload::event::Nanos;

/// Threads tell what they saw at the latest after a tenth of a second, and a busy machine may delay them.
const LOOK_BEHIND: Nanos = 1_000_000_000;
/// The most that is held back; at the highest rates that is less than the time above.
const HELD_BACK: usize = 100_000;
/// How many runs there may be. A thread tells its entries in order, so few machines need so many.
const RUNS: usize = 64;

/// What is held back for a while, because something may come that was before it.
#[derive(Debug)]
pub(super) struct Merge<T> {
    /// Runs that are each in the order of time, and at the same time in the order in which it was told.
    runs: Vec<VecDeque<Held<T>>>,
    /// The run that got the last entry. The next one probably fits there, too.
    last: usize,
    /// Entries that fit into no run.
    others: BTreeMap<Key, (u32, T)>,
    held: usize,
    told: u64,
    latest: Nanos,
    /// How long an entry is held back.
    look_behind: Nanos,
}

/// The time of an entry, and its number.
type Key = (Nanos, u64);

type Held<T> = (Key, u32, T);

impl<T> Default for Merge<T> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            last: 0,
            others: BTreeMap::new(),
            held: 0,
            told: 0,
            latest: 0,
            look_behind: LOOK_BEHIND,
        }
    }
}

impl<T> Merge<T> {
    /// Sets how long an entry is held back.
    pub(super) fn hold_back(&mut self, look_behind: Nanos) {
        self.look_behind = look_behind;
    }

    pub(super) fn add(&mut self, at: Nanos, context: u32, what: T) {
        self.latest = self.latest.max(at);
        self.told += 1;
        self.held += 1;
        let key = (at, self.told);
        let fits = |run: &VecDeque<Held<T>>| run.back().is_none_or(|(back, ..)| *back <= key);
        if !self.runs.get(self.last).is_some_and(fits) {
            self.last = self.runs.iter().position(fits).unwrap_or(self.runs.len());
        }
        if self.last == self.runs.len() {
            if self.last == RUNS {
                self.others.insert(key, (context, what));
                return;
            }
            self.runs.push(VecDeque::new());
        }
        self.runs[self.last].push_back((key, context, what));
    }

    /// The next of what need not be held back any more; of all, where nothing more comes.
    pub(super) fn next(&mut self, is_over: bool) -> Option<(Nanos, u32, T)> {
        let fronts = (0..).zip(&self.runs).filter_map(|(index, run)| Some((run.front()?.0, index)));
        let others = self.others.first_key_value().map(|(key, _)| (*key, RUNS));
        let ((at, _), index) = fronts.chain(others).min()?;
        let is_due = is_over || at.saturating_add(self.look_behind) <= self.latest || self.held > HELD_BACK;
        if !is_due {
            return None;
        }
        let (context, what) = match self.runs.get_mut(index) {
            Some(run) => run.pop_front().map(|(_, context, what)| (context, what)),
            None => self.others.pop_first().map(|(_, what)| what),
        }?;
        self.held -= 1;
        Some((at, context, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(mut merge: Merge<u64>) -> Vec<(Nanos, u64)> {
        std::iter::from_fn(|| merge.next(true)).map(|(at, _, what)| (at, what)).collect()
    }

    #[test]
    fn what_is_told_of_the_same_time_stays_in_its_order() {
        let mut merge = Merge::default();
        for (at, context, what) in [(5, 7, 'b'), (5, 1, 'c'), (3, 9, 'a'), (5, 0, 'd')] {
            merge.add(at, context, what);
        }
        let told: String = std::iter::from_fn(|| merge.next(true)).map(|(_, _, what)| what).collect();
        assert_eq!(told, "abcd");
    }

    #[test]
    fn whatever_the_order_in_which_it_is_told_it_comes_in_the_order_of_time() {
        // In order, of three threads in turn, backwards (of which no run takes in more than one), and in no order.
        let times: [fn(u64) -> Nanos; 4] =
            [|n| n, |n| n % 3 * 10_000 + n / 3, |n| 1_000 - n, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 500];
        for at in times {
            let mut merge = Merge::default();
            (0..1_000).for_each(|number| merge.add(at(number), 0, number));
            assert!(merge.runs.len() <= RUNS);
            let mut expected: Vec<_> = (0..1_000).map(|number| (at(number), number)).collect();
            expected.sort_unstable();
            assert_eq!(told(merge), expected);
        }
    }

    #[test]
    fn it_is_held_back_for_a_second_unless_there_is_too_much_of_it() {
        let mut merge = Merge::default();
        merge.add(5, 0, 'a');
        merge.add(LOOK_BEHIND, 0, 'b');
        assert_eq!(merge.next(false), None);
        merge.add(LOOK_BEHIND + 5, 0, 'c');
        assert_eq!((merge.next(false), merge.next(false)), (Some((5, 0, 'a')), None));
        (0..HELD_BACK as u64).for_each(|_| merge.add(LOOK_BEHIND + 6, 0, 'd'));
        let due: String = std::iter::from_fn(|| merge.next(false)).map(|(.., what)| what).collect();
        assert_eq!(due, "bc");
        merge.hold_back(0);
        assert_eq!(merge.next(false), Some((LOOK_BEHIND + 6, 0, 'd')), "it is the latest");
    }
}
