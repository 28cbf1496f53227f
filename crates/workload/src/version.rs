//! A version of a model, as clients ask for it.

use std::{fmt, num::NonZeroU64, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of a model that requests name: a folder of the model in the server's repository, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ModelVersion(pub NonZeroU64);

impl ModelVersion {
    /// As servers count, whose numbers are signed; one that is too large for that is the largest.
    pub fn signed(self) -> i64 {
        i64::try_from(self.0.get()).unwrap_or(i64::MAX)
    }
}

impl FromStr for ModelVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("'{text}' is not a version of a model: versions are numbers from 1"))
    }
}

impl fmt::Display for ModelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
