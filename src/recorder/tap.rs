//! Hands what a runtime thread sees to the collector, in batches, and never waits for it.

use std::{
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use oracle::{Violation, history::Entry};
use workload::{
    event::{ContextId, Event, Nanos},
    sequence::CorrelationId,
};

/// A batch goes out when it has so many entries or so many bytes, and at once when there is a violation.
const BATCH_ENTRIES: usize = 512;
const BATCH_BYTES: usize = 64 * 1024;
/// How many batches may be under way; at the most entries that a core can make, that is a second or two.
pub(crate) const BATCHES: usize = 256;
/// How much memory the batches under way may take.
pub(crate) const BYTES: usize = 32 << 20;
/// Violations that could not be handed over yet; more would not be kept either.
const VIOLATIONS: usize = 1000;
/// How long the last batch may wait for the collector when the run is over.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What happened on one thread for a while.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// What happened before these and could not be handed over.
    pub(super) gap: Option<Gap>,
    pub(crate) entries: Vec<Entry>,
    /// What of it a correct server would not have done.
    pub(crate) violations: Vec<Violation>,
    /// How much memory the entries take.
    pub(super) bytes: usize,
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gap {
    pub(super) lost: u64,
    pub(super) since: Nanos,
    pub(super) until: Nanos,
}

#[derive(Clone)]
pub(crate) struct Taps {
    correlation_id: Arc<dyn Fn(ContextId) -> CorrelationId + Send + Sync>,
    sender: SyncSender<Batch>,
    pending: Arc<Pending>,
    /// How many bytes may be under way.
    limit: usize,
}

/// What taps could not hand over yet, or at all.
#[derive(Debug, Default)]
struct Pending {
    bytes: AtomicUsize,
    lost_at_end: AtomicU64,
}

pub(crate) struct Tap {
    of: Taps,
    batch: Batch,
}

/// Where the batches of all taps arrive.
#[derive(Debug)]
pub(crate) struct Batches {
    receiver: Receiver<Batch>,
    pending: Arc<Pending>,
}

impl Taps {
    /// Taps, and where what they hand over arrives: at most so many batches under way, of so many bytes together.
    pub(crate) fn new(
        correlation_id: impl Fn(ContextId) -> CorrelationId + Send + Sync + 'static,
        batches: usize,
        limit: usize,
    ) -> (Self, Batches) {
        let (sender, receiver) = sync_channel(batches);
        let pending = Arc::<Pending>::default();
        let batches = Batches { receiver, pending: Arc::clone(&pending) };
        (Self { correlation_id: Arc::new(correlation_id), sender, pending, limit }, batches)
    }

    pub(crate) fn tap(&self) -> Tap {
        Tap { of: self.clone(), batch: Batch::default() }
    }
}

impl Batches {
    /// Waits for a batch; they are disconnected when all taps are gone, so that none comes any more.
    pub(crate) fn next(&self, limit: Duration) -> Result<Batch, RecvTimeoutError> {
        let batch = self.receiver.recv_timeout(limit)?;
        self.pending.bytes.fetch_sub(batch.bytes, Relaxed);
        Ok(batch)
    }

    /// Waits for a batch; none where all taps are gone.
    pub(crate) fn wait(&self) -> Option<Batch> {
        let batch = self.receiver.recv().ok()?;
        self.pending.bytes.fetch_sub(batch.bytes, Relaxed);
        Some(batch)
    }

    /// How many entries the taps could not hand over when the run was over.
    pub(crate) fn lost_at_end(&self) -> u64 {
        self.pending.lost_at_end.load(Relaxed)
    }
}

impl Tap {
    pub(super) fn event(&mut self, event: &Event) {
        let entry = Entry::new(event.clone(), (self.of.correlation_id)(event.context));
        self.batch.bytes += entry.memory();
        if self.batch.entries.capacity() == 0 {
            self.batch.entries.reserve_exact(BATCH_ENTRIES);
        }
        self.batch.entries.push(entry);
        if self.batch.entries.len() >= BATCH_ENTRIES || self.batch.bytes >= BATCH_BYTES {
            self.flush();
        }
    }

    pub(super) fn violations(&mut self, violations: &[Violation]) {
        if violations.is_empty() {
            return;
        }
        let room = VIOLATIONS.saturating_sub(self.batch.violations.len());
        self.batch.violations.extend(violations.iter().take(room).cloned());
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        if self.batch.entries.is_empty() && self.batch.violations.is_empty() {
            return;
        }
        if let Err(batch) = self.hand_over() {
            self.lose_entries_of(batch);
        }
    }

    /// Hands over what is left, and waits for a while where there is no room.
    pub(crate) fn finish(mut self) {
        let began = Instant::now();
        while !self.batch.entries.is_empty() || !self.batch.violations.is_empty() || self.batch.gap.is_some() {
            let Err(batch) = self.hand_over() else { return };
            if began.elapsed() > PATIENCE {
                let lost = batch.entries.len() as u64 + batch.gap.map_or(0, |gap| gap.lost);
                self.of.pending.lost_at_end.fetch_add(lost, Relaxed);
                return;
            }
            self.batch = batch;
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn hand_over(&mut self) -> Result<(), Batch> {
        let batch = mem::take(&mut self.batch);
        let bytes = batch.bytes;
        // A batch that alone is larger than the limit can go when no other is under way.
        let before = self.of.pending.bytes.fetch_add(bytes, Relaxed);
        let sent = if before > 0 && before.saturating_add(bytes) > self.of.limit {
            Err(batch)
        } else {
            // Where the collector is gone nobody misses it.
            self.of
                .sender
                .try_send(batch)
                .map_err(|(TrySendError::Full(batch) | TrySendError::Disconnected(batch))| batch)
        };
        if sent.is_err() {
            self.of.pending.bytes.fetch_sub(bytes, Relaxed);
        }
        sent
    }

    fn lose_entries_of(&mut self, mut batch: Batch) {
        let ends = batch.entries.first().zip(batch.entries.last());
        let gap = ends.map(|(first, last)| Gap { lost: batch.entries.len() as u64, since: first.at, until: last.at });
        batch.entries.clear();
        batch.bytes = 0;
        self.batch = batch;
        self.lack(gap);
    }

    /// Takes in that what happened before the next entry is missing.
    pub(super) fn lack(&mut self, gap: Option<Gap>) {
        self.batch.gap = match (self.batch.gap, gap) {
            (Some(one), Some(other)) => Some(Gap {
                lost: one.lost + other.lost,
                since: one.since.min(other.since),
                until: one.until.max(other.until),
            }),
            (one, other) => one.or(other),
        };
    }

    pub(super) fn add(&mut self, entries: Vec<Entry>, bytes: usize) {
        self.batch.entries.extend(entries);
        self.batch.bytes += bytes;
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("batch", &self.batch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracle::{Evidence, ViolationKind};
    use workload::{
        conversation::{Connection, Lane, Transport},
        event::EventKind,
    };

    fn taps(batches: usize, bytes: usize) -> (Taps, Batches) {
        Taps::new(|_| CorrelationId(1.try_into().expect("not zero")), batches, bytes)
    }

    fn tell(tap: &mut Tap, times: std::ops::Range<u64>) {
        let context = ContextId { worker: 0, context: 0 };
        for at in times {
            let kind = EventKind::Opened(Connection::Own, Transport::GrpcStream);
            tap.event(&Event { at, context, lane: Lane::FIRST, kind });
        }
    }

    fn violation(at: u64) -> Violation {
        Violation::of_the_run(ViolationKind::Hang, at, Evidence::StillOpen)
    }

    fn all(batches: &Batches) -> Vec<Batch> {
        std::iter::from_fn(|| batches.next(Duration::ZERO).ok()).collect()
    }

    #[test]
    fn entries_come_in_batches_and_a_violation_at_once() {
        let (taps, batches) = taps(8, BYTES);
        let mut tap = taps.tap();
        tell(&mut tap, 0..600);
        assert_eq!(all(&batches).iter().map(|batch| batch.entries.len()).collect::<Vec<_>>(), [512]);
        tap.violations(&[violation(600)]);
        let [batch] = all(&batches).try_into().expect("one batch");
        assert_eq!((batch.entries.len(), batch.violations.len(), batch.gap), (88, 1, None));
        tell(&mut tap, 600..610);
        tap.flush();
        assert_eq!(all(&batches)[0].entries[0].at, 600);
        drop((tap, taps));
        assert_eq!(batches.next(Duration::ZERO).map(drop), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn where_there_is_no_room_entries_are_lost_and_counted_and_violations_are_not() {
        let (taps, batches) = taps(1, BYTES);
        let mut tap = taps.tap();
        let began = Instant::now();
        tell(&mut tap, 0..100_000);
        tap.violations(&[violation(1), violation(2)]);
        // Nobody takes batches meanwhile. A tap that waits for room waits for its PATIENCE, with 195 batches for over 900 s.
        assert!(began.elapsed() < 20 * PATIENCE, "the tap waits");
        let [first] = all(&batches).try_into().expect("one batch");
        assert_eq!((first.entries.len(), first.gap), (512, None));
        tap.finish();
        let [second] = all(&batches).try_into().expect("one batch");
        let gap = Gap { lost: 100_000 - 512, since: 512, until: 99_999 };
        assert_eq!((second.entries.len(), second.gap), (0, Some(gap)));
        assert_eq!(second.violations.iter().map(|violation| violation.at_ns).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_under_way_has_a_limit_in_bytes_too() {
        let (taps, batches) = taps(100, 100_000);
        let mut tap = taps.tap();
        tell(&mut tap, 0..10 * 512);
        let bytes: usize = all(&batches).iter().map(|batch| batch.bytes).sum();
        assert!(bytes > 50_000 && bytes <= 100_000, "{bytes}");
        tell(&mut tap, 5120..5632);
        assert!(all(&batches)[0].gap.is_some(), "there is room again");
    }
}
