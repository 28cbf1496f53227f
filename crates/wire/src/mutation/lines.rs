//! The streams that are open: where responses go out.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc::Sender;

use super::Failure;

/// What a body is made of.
pub(super) type Item = Result<Frame<Bytes>, Failure>;

/// All streams that are open, by a number of their own.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    senders: BTreeMap<u64, Sender<Item>>,
}

impl Lines {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream begins; its number.
    pub(super) fn begin(&self, sender: &Sender<Item>) -> u64 {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.senders.insert(number, sender.clone());
        number
    }

    /// A stream is over.
    pub(super) fn end(&self, number: u64) {
        self.open().senders.remove(&number);
    }

    /// Another stream than this one that takes something just now.
    pub(super) fn other(&self, than: u64) -> Option<Sender<Item>> {
        let open = self.open();
        let takes = |sender: &&Sender<Item>| !sender.is_closed() && sender.capacity() > 0;
        let mut others = open.senders.iter().filter(|(number, _)| **number != than).map(|(_, sender)| sender);
        others.find(takes).cloned()
    }
}
