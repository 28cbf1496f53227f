//! What a run says of itself before it begins.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a run will do otherwise than asked, or cannot check, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// This is not checked, and why.
    NotChecked(String),
    /// Anything else.
    Other(String),
}

impl From<String> for Note {
    fn from(sentence: String) -> Self {
        Self::Other(sentence)
    }
}

impl From<&str> for Note {
    fn from(sentence: &str) -> Self {
        Self::Other(sentence.to_owned())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotChecked(what) => write!(f, "not checked: {what}"),
            Self::Other(sentence) => f.write_str(sentence),
        }
    }
}
