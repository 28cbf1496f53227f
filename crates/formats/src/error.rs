//! What a format cannot hold.

use std::fmt;

/// Why a format does not take a graph, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    format: &'static str,
    reason: String,
}

impl Rejection {
    pub(crate) fn new(format: &'static str, reason: impl Into<String>) -> Self {
        Self { format, reason: reason.into() }
    }

    /// What is in the way, without the name of the format.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.format, self.reason)
    }
}

impl std::error::Error for Rejection {}
