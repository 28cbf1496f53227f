//! Batches on their way from one process to another.

use serde::{Deserialize, Serialize};

use super::{
    Tap,
    tap::{Batch, Gap},
};
use oracle::{
    Violation,
    history::{Entry, read_entry, write_entry},
};

/// What stands before the entries: a line of JSON.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    violations: Vec<Violation>,
}

impl Batch {
    /// The batch as bytes: a line of JSON, and each entry as its line in a history.
    pub(crate) fn write(&self) -> Vec<u8> {
        let head = Head { gap: self.gap, violations: self.violations.clone() };
        let mut bytes = serde_json::to_vec(&head).expect("its keys are texts");
        bytes.push(b'\n');
        self.entries.iter().for_each(|entry| write_entry(entry, &mut bytes));
        bytes
    }

    /// How many entries are missing before those of the batch.
    pub(crate) fn lost(&self) -> u64 {
        self.gap.map_or(0, |gap| gap.lost)
    }

    /// A batch that another process wrote.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let head = lines.next().unwrap_or_default();
        let Head { gap, violations } = serde_json::from_slice(head).map_err(|error| error.to_string())?;
        let entries = lines.filter(|line| !line.is_empty()).map(read_entry).collect::<Result<Vec<_>, _>>()?;
        let bytes = entries.iter().map(Entry::memory).sum();
        Ok(Self { gap, entries, violations, bytes })
    }
}

impl Tap {
    /// Hands over what a tap of another process did.
    pub(crate) fn hand_on(&mut self, batch: Batch) {
        let Batch { gap, entries, violations, bytes } = batch;
        self.lack(gap);
        self.add(entries, bytes);
        if violations.is_empty() {
            self.flush();
        } else {
            self.violations(&violations);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::recorder::{BYTES, Taps};
    use oracle::{Evidence, ViolationKind};
    use workload::{
        conversation::{Connection, Lane, Transport},
        event::{ContextId, Event, EventKind},
        sequence::CorrelationId,
    };

    fn batch(at: u64, gap: Option<Gap>) -> Batch {
        let context = ContextId { worker: 3, context: 1 };
        let kind = EventKind::Opened(Connection::Own, Transport::GrpcStream);
        let entry =
            Entry::new(Event { at, context, lane: Lane::FIRST, kind }, CorrelationId(7.try_into().expect("not zero")));
        let violations = vec![Violation::of_the_run(ViolationKind::Hang, at, Evidence::StillOpen)];
        Batch { gap, bytes: entry.memory(), entries: vec![entry], violations }
    }

    #[test]
    fn a_batch_is_read_back() {
        let sent = batch(5, Some(Gap { lost: 3, since: 1, until: 4 }));
        let got = Batch::read(&sent.write()).expect("a batch");
        assert_eq!(
            (got.gap, &got.entries, &got.violations, got.bytes),
            (sent.gap, &sent.entries, &sent.violations, sent.bytes)
        );
        for bytes in [&b""[..], b"{}\nnothing\n", b"{\"gap\":{}}\n"] {
            assert!(Batch::read(bytes).is_err());
        }
    }

    #[test]
    fn what_has_no_room_is_a_gap_together_with_what_was_lost_elsewhere() {
        let (taps, batches) = Taps::new(|_| CorrelationId(1.try_into().expect("not zero")), 1, BYTES);
        let mut tap = taps.tap();
        tap.hand_on(batch(1, None));
        tap.hand_on(batch(2, None));
        tap.hand_on(batch(9, Some(Gap { lost: 5, since: 3, until: 8 })));
        let first = batches.next(Duration::ZERO).expect("a batch");
        assert_eq!((first.entries[0].at, first.gap), (1, None));
        tap.hand_on(batch(10, None));
        let second = batches.next(Duration::ZERO).expect("a batch");
        let gap = Gap { lost: 7, since: 2, until: 9 };
        assert_eq!((second.entries[0].at, second.gap, second.violations.len()), (10, Some(gap), 3));
    }
}
