//! Sequences that may be rejected as a whole, because they waited for a slot for longer than one of their steps allows.

use super::stream::Request;
use workload::{event::Nanos, sequence::Special};

/// What is known of the sequences of one correlation ID that may wait for a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expiry {
    /// The last sequence of which a step was executed: it had a slot.
    seated: Option<u32>,
    /// When an answer told that all that waited was rejected.
    swept_at: Option<Nanos>,
}

impl Expiry {
    pub(super) fn executed(&mut self, request: &Request) {
        self.seated = self.seated.max(Some(request.step.request.sequence));
    }

    /// Whether this request may be rejected because a time limit passed, where these others of its ID are unanswered. The limit
    /// counts from a request's arrival, which is not before it was sent.
    pub(super) fn allows<'r>(
        &mut self,
        request: &Request,
        waiting: impl Iterator<Item = &'r Request>,
        at: Nanos,
    ) -> bool {
        let has_passed = |request: &Request| match request.step.special {
            Some(Special::TimeoutUs(us)) => at.saturating_sub(request.sent_at) >= us.saturating_mul(1000),
            Some(Special::Flaw(_)) | None => false,
        };
        if waiting.into_iter().any(has_passed) {
            self.swept_at = Some(at);
        }
        // What was sent before may have waited, too.
        let was_there = self.swept_at.is_some_and(|swept| request.sent_at <= swept);
        was_there && self.seated != Some(request.step.request.sequence)
    }
}
