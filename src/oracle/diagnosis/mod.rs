//! What a violation may come from, judged by what else was going on.

use serde::Serialize;

use super::Violation;
use crate::history::Entry;

/// What a violation may come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What the server may have done wrong, as a name.
    pub cause: String,
    /// What speaks for it.
    pub evidence: String,
}

/// What a violation may come from, the likeliest first. `window` is what happened on all contexts around it, in order of
/// time.
#[must_use]
pub fn explain(_violation: &Violation, _window: &[Entry]) -> Vec<Explanation> {
    Vec::new()
}
