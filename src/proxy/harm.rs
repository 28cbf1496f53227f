//! What was done to connections on purpose.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::time::Instant;

/// What was done to the connections that somebody makes one after the other, each when the one before it is lost.
#[derive(Clone, Debug, Default)]
pub struct Harm(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How many connections were made.
    made: AtomicU64,
    /// The latest of them that was cut, or swallowed for good; from 1.
    harmed: AtomicU64,
    /// The latest connection that was harmed and is gone, and since when: who used it is told so at once.
    gone: Mutex<Option<(u64, Instant)>>,
}

/// The mark of one connection.
#[derive(Debug)]
pub(super) struct Mark {
    harm: Harm,
    number: u64,
}

impl Harm {
    /// How many connections were made so far.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.0.made.load(SeqCst)
    }

    /// Whether something that began when so many were made can have suffered. What begins on a connection that was cut and
    /// is not yet known to be gone suffers too.
    #[must_use]
    pub fn since(&self, made: u64) -> bool {
        self.0.harmed.load(SeqCst) >= made.max(1)
    }

    /// The latest connection that was cut or swallowed, counted from 1; 0 where none was.
    #[must_use]
    pub fn harmed(&self) -> u64 {
        self.0.harmed.load(SeqCst)
    }

    /// How long the connection that was harmed last has been gone, where it was this one.
    #[must_use]
    pub fn gone_for(&self, number: u64) -> Option<Duration> {
        let gone = *self.0.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.filter(|(its, _)| *its == number).map(|(_, since)| since.elapsed())
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { harm: self.clone(), number: self.0.made.fetch_add(1, SeqCst) + 1 }
    }
}

impl Mark {
    /// The connection is about to be cut, or to be swallowed for good.
    pub(super) fn harmed(&self) {
        self.harm.0.harmed.fetch_max(self.number, SeqCst);
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.harm.harmed() == self.number {
            *self.harm.0.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.number, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_suffers_is_told_by_when_it_began() {
        let harm = Harm::default();
        assert!(!harm.since(0));
        let (first, second) = (harm.mark(), harm.mark());
        first.harmed();
        assert!(harm.since(0) && harm.since(1) && !harm.since(2));
        second.harmed();
        first.harmed();
        assert!(harm.since(2) && !harm.since(3));
    }

    #[test]
    fn a_connection_that_was_harmed_is_gone_when_its_mark_is() {
        let harm = Harm::default();
        let (first, second) = (harm.mark(), harm.mark());
        first.harmed();
        assert_eq!((harm.harmed(), harm.gone_for(1)), (1, None));
        // One that ended in good order says nothing of the other.
        drop(second);
        assert_eq!((harm.gone_for(1), harm.gone_for(2)), (None, None));
        drop(first);
        assert!(harm.gone_for(1).is_some() && harm.gone_for(2).is_none());
    }
}
