//! Results as `--json` wrote them, read again. A file may be anything.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

use serde::{Deserialize, de::IgnoredAny};

use crate::report::SCHEMA_VERSION;

/// No result is as large: a thousand violations take a few megabytes.
pub(crate) const LARGEST: u64 = 256 * 1024 * 1024;
/// The longest text of a file that is shown whole.
pub(crate) const TEXT_MAX: usize = 500;

/// The bytes of a file that should be a result.
///
/// # Errors
/// In one line, where there is no such file, or none that can be a result.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    // A pipe may never end.
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    if about.len() > LARGEST {
        return Err(format!("it has {} bytes, and no result is as large", about.len()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // It may have grown.
    file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// What tells a result from other files.
#[derive(Deserialize)]
struct Head {
    schema_version: Option<u32>,
    /// Only the result of a run has it.
    series: Option<IgnoredAny>,
    /// Only the result of a suite has it.
    scenarios: Option<IgnoredAny>,
}

/// What wrote a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Run,
    Suite,
    /// Something else.
    Other,
}

/// What wrote these bytes.
///
/// # Errors
/// In one line, where they are no result of this version.
pub(crate) fn writer(bytes: &[u8]) -> Result<Writer, String> {
    let head: Head = serde_json::from_slice(bytes).map_err(|error| no_result(&error))?;
    let Some(version) = head.schema_version else { return Err("it has no schema_version".to_owned()) };
    if version != SCHEMA_VERSION {
        return Err(format!("its schema_version is {version}, and this sequence-stress reads {SCHEMA_VERSION}"));
    }
    Ok(match head {
        Head { scenarios: Some(_), .. } => Writer::Suite,
        Head { series: Some(_), .. } => Writer::Run,
        Head { .. } => Writer::Other,
    })
}

/// Why bytes are no result.
pub(crate) fn no_result(error: &serde_json::Error) -> String {
    format!("it is no result ({})", one_line(&error.to_string()))
}

/// A text of a file as it can be shown: nothing in it does anything to a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = shown.take(TEXT_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
