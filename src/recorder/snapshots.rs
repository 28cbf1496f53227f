//! What a run has counted so far, while it goes on.

use std::sync::{
    Mutex,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire},
    },
};

use super::{Tally, Together};

/// What a thread leaves a copy of, which is put together with those of other threads.
pub(crate) trait Part: Clone + Default {
    fn merge(&mut self, other: &Self);
}

impl Part for Tally {
    fn merge(&mut self, other: &Self) {
        Tally::merge(self, other);
    }
}

/// Where the threads of a run leave a copy of what they have counted when they are asked for it. Nobody waits for anybody: each thread
/// looks a few times a second whether it is asked.
#[derive(Debug)]
pub(crate) struct Snapshots<P = Tally, T = Together> {
    /// The number of the latest question; 0 where there was none.
    asked: AtomicU64,
    threads: Vec<Left<P>>,
    together: Left<T>,
}

/// A copy, and the question that it answers.
type Left<T> = Mutex<(u64, T)>;

impl<P: Part, T: Clone + Default> Snapshots<P, T> {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            asked: AtomicU64::new(0),
            threads: (0..threads).map(|_| Left::default()).collect(),
            together: Left::default(),
        }
    }

    /// Asks all threads. Answers to an earlier question count no more.
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, AcqRel);
    }

    /// Leaves what a thread has counted, if it is asked.
    pub(crate) fn leave(&self, thread: usize, counted: impl FnOnce() -> P) {
        self.answer(&self.threads[thread], counted);
    }

    /// Leaves what a thread has counted that ends: this answers each later question, too.
    pub(crate) fn leave_last(&self, thread: usize, counted: P) {
        *locked(&self.threads[thread]) = (u64::MAX, counted);
    }

    /// Leaves what all contexts together have shown, if the collector is asked.
    pub(crate) fn leave_together(&self, together: impl FnOnce() -> T) {
        self.answer(&self.together, together);
    }

    fn answer<L>(&self, left: &Left<L>, copy: impl FnOnce() -> L) {
        let asked = self.asked.load(Acquire);
        // Whoever reads holds it for a moment only.
        let mut left = locked(left);
        if left.0 < asked {
            *left = (asked, copy());
        }
    }

    /// What was counted, once all have answered.
    pub(crate) fn answered(&self) -> Option<(P, T)> {
        let asked = self.asked.load(Acquire);
        let mut all = P::default();
        for left in &self.threads {
            let left = locked(left);
            if left.0 < asked {
                return None;
            }
            all.merge(&left.1);
        }
        let together = locked(&self.together);
        (together.0 >= asked).then(|| (all, together.1.clone()))
    }
}

fn locked<T>(left: &Left<T>) -> std::sync::MutexGuard<'_, (u64, T)> {
    left.lock().expect("no thread fails while it has it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(slow: u64) -> Tally {
        Tally { slow, ..Tally::default() }
    }

    fn all(snapshots: &Snapshots) -> Option<u64> {
        snapshots.answered().map(|(tally, _)| tally.slow)
    }

    #[test]
    fn a_snapshot_is_there_when_each_thread_has_left_its_part() {
        let snapshots: Snapshots = Snapshots::new(2);
        snapshots.leave(0, || counted(100));
        snapshots.ask();
        snapshots.leave_together(Together::default);
        snapshots.leave(0, || counted(1));
        assert_eq!(all(&snapshots), None, "a thread has not answered");
        snapshots.leave(1, || counted(20));
        // What is counted after the answer is in none.
        snapshots.leave(0, || counted(5));
        assert_eq!(all(&snapshots), Some(21));
        snapshots.ask();
        assert_eq!(all(&snapshots), None, "they answered what was asked before");
        snapshots.leave(0, || counted(2));
        snapshots.leave(1, || counted(30));
        assert_eq!(all(&snapshots), None, "the collector has not answered");
        snapshots.leave_together(Together::default);
        assert_eq!(all(&snapshots), Some(32));
    }

    #[test]
    fn a_thread_that_has_ended_answers_each_later_question() {
        let snapshots: Snapshots = Snapshots::new(2);
        snapshots.leave_last(1, counted(40));
        for more in [1, 2] {
            snapshots.ask();
            snapshots.leave_together(Together::default);
            snapshots.leave(0, || counted(more));
            assert_eq!(all(&snapshots), Some(40 + more));
        }
    }
}
