//! Errors: the server's are taken over and freed, ours are handed on.

use std::{
    ffi::{CStr, CString, c_uint},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::c;

/// What went wrong, with a text for people; an error of the server by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The server's code for it.
    code: c_uint,
    pub(crate) text: String,
}

impl Failure {
    /// What should not happen.
    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self { code: c::ERROR_INTERNAL, text: text.into() }
    }

    /// What the client or the configuration did wrong.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { code: c::ERROR_INVALID_ARG, text: text.into() }
    }

    /// What cannot be done here.
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self { code: c::ERROR_UNSUPPORTED, text: text.into() }
    }

    /// As an error of the server, which whoever gets it has to free.
    pub(super) fn into_raw(self) -> *mut c::Error {
        let text = c_text(&self.text);
        // SAFETY: the text is a C string that lives over the call; the server copies it.
        unsafe { c::TRITONSERVER_ErrorNew(self.code, text.as_ptr()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text as C has it: what comes after a NUL would be lost, so NULs go.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("it has no NUL")
}

/// What a C function returned: nothing where it is null, else the error by value; the server's is freed.
///
/// # Safety
/// `error` is null, or an error that the caller owns.
pub(super) unsafe fn check(error: *mut c::Error) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the error is the caller's, and is not used after it is freed; its message is copied before.
    unsafe {
        let message = c::TRITONSERVER_ErrorMessage(error);
        let text =
            if message.is_null() { String::new() } else { CStr::from_ptr(message).to_string_lossy().into_owned() };
        let failure = Failure { code: c::TRITONSERVER_ErrorCode(error), text };
        c::TRITONSERVER_ErrorDelete(error);
        Err(failure)
    }
}

/// How much a line in the server's log matters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Info = 0,
    Error = 2,
}

/// Writes a line into the server's log.
pub(crate) fn log(level: Level, text: &str) {
    let text = c_text(text);
    // SAFETY: both texts are C strings that live over the call. An error of the log has nowhere to go but is freed.
    let _ =
        unsafe { check(c::TRITONSERVER_LogMessage(level as c_uint, c"sequence_stress".as_ptr(), 0, text.as_ptr())) };
}

/// Logs what went wrong where nobody else can be told.
pub(super) fn log_failure(what: &str, outcome: Result<(), Failure>) {
    if let Err(failure) = outcome {
        log(Level::Error, &format!("{what}: {failure}"));
    }
}

/// What comes of `act`; of a panic a failure with what it said.
pub(crate) fn caught<T>(what: &str, act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let said = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say why");
        Err(Failure::internal(format!("{what} panicked: {said}")))
    })
}
