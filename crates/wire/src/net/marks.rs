//! Which connections something was done to.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Which of the connections are marked that somebody makes one after the other, each when the one before it is lost. They are
/// counted from 1.
#[derive(Clone, Debug, Default)]
pub struct Marks(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How many connections were made.
    made: AtomicU64,
    /// The latest of them that is marked.
    latest: AtomicU64,
    /// The latest connection that was marked and is gone, and since when: who used it is told so at once.
    gone: Mutex<Option<(u64, Instant)>>,
}

/// The mark of one connection, which is gone when this is dropped.
#[derive(Debug)]
pub struct Mark {
    marks: Marks,
    number: u64,
}

impl Marks {
    /// How many connections were made so far.
    pub fn made(&self) -> u64 {
        self.0.made.load(SeqCst)
    }

    /// Whether a stream that began when there were so many connections can be on a marked one. That connection may have been marked
    /// before, where the stream's owner does not know yet that the connection is gone.
    pub fn since(&self, made: u64) -> bool {
        self.latest() >= made.max(1)
    }

    /// The latest connection that is marked; 0 where none is.
    pub fn latest(&self) -> u64 {
        self.0.latest.load(SeqCst)
    }

    /// How long the connection that was marked last has been gone, where it was this one.
    pub fn gone_for(&self, number: u64) -> Option<Duration> {
        let gone = *self.0.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.filter(|(its, _)| *its == number).map(|(_, since)| since.elapsed())
    }

    /// A connection is made; its mark is not set yet.
    pub fn connection(&self) -> Mark {
        Mark { marks: self.clone(), number: self.0.made.fetch_add(1, SeqCst) + 1 }
    }
}

impl Mark {
    /// Marks the connection.
    pub fn set(&self) {
        self.marks.0.latest.fetch_max(self.number, SeqCst);
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.marks.latest() == self.number {
            *self.marks.0.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.number, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_on_a_marked_connection_is_told_by_when_it_began() {
        let marks = Marks::default();
        assert!(!marks.since(0));
        let (first, second) = (marks.connection(), marks.connection());
        first.set();
        assert!(marks.since(0) && marks.since(1) && !marks.since(2));
        second.set();
        first.set();
        assert!(marks.since(2) && !marks.since(3));
    }

    #[test]
    fn a_connection_that_was_marked_is_gone_when_its_mark_is() {
        let marks = Marks::default();
        let (first, second) = (marks.connection(), marks.connection());
        first.set();
        assert_eq!((marks.latest(), marks.gone_for(1)), (1, None));
        // One that ended in good order says nothing of the other.
        drop(second);
        assert_eq!((marks.gone_for(1), marks.gone_for(2)), (None, None));
        drop(first);
        assert!(marks.gone_for(1).is_some() && marks.gone_for(2).is_none());
    }
}
