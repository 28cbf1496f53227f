//! Two sequences of one ID that are live at once, in a model that keeps its state by correlation ID.
//!
//! The server allows it: END forgets the ID when it arrives, and so does the idle limit, while steps of the sequence may still
//! wait to be executed. A START that comes then gets another slot, and the model mixes the two. What is under way in that time
//! has sums that tell nothing; whether it is rejected is determined all the same, and so is a START's own sum.

use super::stream::Request;
use workload::event::Nanos;

/// What the unfinished requests of one stream have that matters here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Summary {
    has_start: bool,
    /// An END, or when the oldest was sent.
    ends: bool,
    oldest: Option<Nanos>,
    /// A sequence may end in it before the START of another one.
    restarts: bool,
}

impl Summary {
    /// Of the requests of one stream, in their order. A sequence may end without END when it was idle since `idle_since`.
    pub(super) fn of<'r>(requests: impl Iterator<Item = &'r Request>, idle_since: Option<Nanos>) -> Self {
        let mut all = Self::default();
        for Request { step, sent_at, .. } in requests.filter(|request| request.counts()) {
            if step.start {
                all.restarts |= all.may_end(idle_since);
                all.has_start = true;
            }
            all.ends |= step.end;
            all.oldest = all.oldest.min(Some(*sent_at)).or(Some(*sent_at));
        }
        all
    }

    /// Of requests of which it is known only when the oldest was sent.
    pub(super) fn unknown(oldest: Nanos) -> Self {
        Self { has_start: true, ends: true, oldest: Some(oldest), restarts: true }
    }

    fn may_end(&self, idle_since: Option<Nanos>) -> bool {
        self.ends || idle_since.is_some_and(|since| self.oldest.is_some_and(|oldest| oldest <= since))
    }
}

/// Whether two sequences of one ID may be live at once, by the unfinished requests of its streams.
pub(super) fn may_overlap(streams: &[Summary], idle_since: Option<Nanos>) -> bool {
    let of_two = |(index, one): (usize, &Summary)| {
        let others = || streams.iter().enumerate().filter(move |(other, _)| *other != index);
        one.has_start && others().any(|(_, other)| other.may_end(idle_since))
    };
    streams.iter().any(|stream| stream.restarts) || streams.iter().enumerate().any(of_two)
}
