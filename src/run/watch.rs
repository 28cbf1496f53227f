//! Ends a run that does not end by itself.

use std::time::Duration;

use tokio::time::Instant;

use super::{Progress, TICK, shared::Shared};
use oracle::{Evidence, Sent, Violation, ViolationKind};
use workload::event::Nanos;

/// The violation that a server is which has answered nobody for so long.
pub(crate) fn hang(at: Nanos, sent: Sent, silent: Duration) -> Violation {
    Violation::of_the_run(ViolationKind::Hang, at, Evidence::Silence { sent, seconds: silent.as_secs() })
}

/// Looks at the run some times a second.
pub(super) struct Watch {
    pub(super) interrupted: bool,
    stopping_since: Option<Instant>,
    answered: u64,
    abandoned: u64,
    answered_at: Instant,
    looked_at: Instant,
    /// The violation that a server is which answers nobody any more.
    pub(super) hang: Option<Violation>,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            interrupted: false,
            stopping_since: None,
            answered: 0,
            abandoned: 0,
            answered_at: Instant::now(),
            looked_at: Instant::now(),
            hang: None,
        }
    }

    /// Whether to wait no longer for what is under way.
    pub(super) fn should_abort(&mut self, shared: &Shared, progress: &Progress) -> bool {
        // What the process itself slept through, stopped or starved, is not the server's silence.
        let late = self.looked_at.elapsed().saturating_sub(TICK * 2);
        self.looked_at = Instant::now();
        self.answered_at += late;
        // A server that owes no answer is silent, too; it owes none to what was cut, and none while it is disturbed.
        // While it is looked for, what came from it is not read.
        let owes_nothing = !shared.clock.has_started()
            || progress.waiting() == 0
            || shared.disturbances.is_under_way()
            || shared.absences.is_looked_for()
            || shared.others.are_quiet();
        // Nor does it owe what the network took; what is sent then has a right to be waited for as long.
        let is_taken = shared.network_takes && progress.abandoned != self.abandoned;
        self.abandoned = progress.abandoned;
        if owes_nothing || is_taken || progress.answered != self.answered {
            self.answered = progress.answered;
            self.answered_at = Instant::now();
        }
        let silent = self.answered_at.elapsed();
        if self.hang.is_none() && silent > shared.preflight.limits.longest_silence(&shared.setup.scenario) {
            let sent = Sent { requests: progress.requests, answered: progress.answered };
            self.hang = Some(hang(shared.clock.now(), sent, silent));
            shared.gate.stop();
        }
        if !shared.gate.is_stopping() {
            return false;
        }
        let since = self.stopping_since.get_or_insert_with(Instant::now);
        let drained = since.elapsed() >= shared.setup.scenario.limits.drain_ms.duration();
        drained || self.hang.is_some() || shared.liveness.gone.get().is_some()
    }
}
