//! Names of tensors, as C has them.

#![forbid(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    fmt,
};

/// A tensor's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(CString);

impl Name {
    /// A name.
    ///
    /// # Errors
    /// When there is a NUL in it.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        CString::new(name).map(Self).map_err(|_| format!("tensor '{name}': there is a NUL in its name"))
    }

    /// Another name, with this behind it.
    pub(crate) fn with(&self, more: &CStr) -> Self {
        let both = [self.0.as_bytes(), more.to_bytes()].concat();
        Self(CString::new(both).expect("neither part has a NUL"))
    }

    pub(crate) fn as_c(&self) -> &CStr {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}
