//! What the server sees of the backend: its entry points, driven as the server does, against the mock's C functions.
//!
//! Each test ends with the mock's account: every request that was taken over was answered and released once, and what the
//! server handed out was given back once.

mod conversations;
mod each_call;
mod failures;
mod faults;
mod lifecycle;
pub(super) mod mock;
mod numbers;
mod server;
