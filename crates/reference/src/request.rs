//! What the reference server knows of a request.

use std::{fmt, sync::Arc};

/// A request's correlation ID. Zero and the empty text mean that it has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SequenceId {
    Number(u64),
    Text(Arc<str>),
}

impl SequenceId {
    /// Whether it says that there is none.
    pub(crate) fn is_none(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.is_empty(),
        }
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}
