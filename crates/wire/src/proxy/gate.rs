//! Counts what passes, both ways together, and stops it.

use std::future::pending;

use tokio::sync::watch;

/// What both directions of a connection pass through.
#[derive(Debug)]
pub(super) struct Gate(watch::Sender<State>);

#[derive(Debug)]
struct State {
    /// Bytes that have passed.
    passed: u64,
    is_closed: bool,
    /// Where it stops until whoever waits for that says how it goes on.
    stops: Vec<u64>,
}

impl Gate {
    pub(super) fn new(stops: &[Option<u64>]) -> Self {
        let stops = stops.iter().copied().flatten().collect();
        Self(watch::Sender::new(State { passed: 0, is_closed: false, stops }))
    }

    /// Waits until something may pass, and counts it as passed: so many bytes, at least one and at most `most`.
    pub(super) async fn enter(&self, most: usize) -> usize {
        let mut changes = self.0.subscribe();
        loop {
            let mut entered = 0;
            self.0.send_if_modified(|state| {
                entered = state.room(most);
                state.passed += entered as u64;
                entered > 0
            });
            if entered > 0 {
                return entered;
            }
            // It does not end as long as the gate is there.
            let _ = changes.changed().await;
        }
    }

    /// Waits until so many bytes have passed.
    pub(super) async fn passed(&self, bytes: u64) {
        if self.0.subscribe().wait_for(|state| state.passed >= bytes).await.is_err() {
            pending::<()>().await;
        }
    }

    pub(super) fn close(&self) {
        self.0.send_modify(|state| state.is_closed = true);
    }

    /// Opens it again; it does not stop at `stop` any more.
    pub(super) fn open(&self, stop: Option<u64>) {
        self.0.send_modify(|state| {
            state.is_closed = false;
            if let Some(index) = state.stops.iter().position(|its| Some(*its) == stop) {
                state.stops.remove(index);
            }
        });
    }
}

impl State {
    fn room(&self, most: usize) -> usize {
        let stop = self.stops.iter().min().map_or(u64::MAX, |stop| stop.saturating_sub(self.passed));
        if self.is_closed { 0 } else { most.min(usize::try_from(stop).unwrap_or(usize::MAX)) }
    }
}
