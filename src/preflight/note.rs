//! What a run says of itself before it begins.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Hints;
use workload::said::said;

/// What a run will do otherwise than asked, or cannot check, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// This is not checked, and why.
    NotChecked(String),
    /// This hint is not used, because the model's configuration tells it.
    NotUsed {
        /// The hint's name, which is that of its flag.
        hint: String,
        /// What it says.
        value: String,
    },
    /// Anything else.
    Other(String),
}

impl Note {
    /// One for each of these hints.
    pub(super) fn not_used(hints: &Hints) -> impl Iterator<Item = Self> {
        said(hints, &Hints::default()).into_iter().map(|(hint, value)| Self::NotUsed { hint, value })
    }
}

impl<S: Into<String>> From<S> for Note {
    fn from(sentence: S) -> Self {
        Self::Other(sentence.into())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotChecked(what) => write!(f, "not checked: {what}"),
            Self::NotUsed { hint, value } => {
                write!(f, "not used: --{hint} {value}: the model's configuration tells it")
            }
            Self::Other(sentence) => f.write_str(sentence),
        }
    }
}
