//! The only module with `unsafe` code: the C functions of the server, and owners for everything that they hand out.
//!
//! What each owner keeps to, on every path, a panic's included:
//!
//! - An error that a C function returns is freed or handed on ([`failure::check`], [`Failure::into_raw`]).
//! - A [`Request`] is answered once (its *final* answer) and released once. One that is dropped before is answered with an
//!   error and released.
//! - A response is sent, which hands it over even when sending fails, or deleted.
//! - No pointer outlives what it points into: inputs, names and IDs are copied.
//! - No panic leaves a function that the server called ([`entry`]).

#![allow(unsafe_code, reason = "this is where the server is")]

mod c;
mod clock;
mod entry;
mod failure;

mod request;
mod response;

#[cfg(test)]
mod tests;

pub(crate) use clock::{hang, now, sleep};
pub(crate) use failure::{Failure, Level, caught, log};
pub(crate) use request::{CorrelationId, Flags, InstanceHandle, Request, Span};
pub(crate) use response::Response;
