//! Flags that say the same again.

use serde::Serialize;

use crate::preflight::Hints;
use workload::said::said;

/// The flags that say what `this` says and `default` does not. A field has the name of its flag.
pub(super) fn flags<T: Serialize>(this: &T, default: &T) -> Vec<String> {
    said(this, default).into_iter().map(|(name, value)| format!("--{name} {value}")).collect()
}

/// A command line with the flags for these hints besides.
pub fn with_hints(line: &str, hints: &Hints) -> String {
    [&[line.to_owned()], &*flags(hints, &Hints::default())].concat().join(" ")
}
