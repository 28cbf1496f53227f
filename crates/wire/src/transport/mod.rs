//! How requests reach a server and answers come back; with [`crate::proto`] the only place that sees the wire.

mod access;
mod call_error;
mod client;
mod codec;
mod conduit;
mod configuration;
mod connection;
mod deadline;
mod dial;
mod frugal;
mod gathered;
mod goaway;
mod http;
mod metrics;
mod process;
mod queue;
mod settings;
mod stream;
mod template;
mod tls;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use access::Access;
pub use call_error::CallError;
pub use client::{Client, Declared};
pub use configuration::Configuration;
pub use connection::{Dialer, Link, Severer};
pub use goaway::GoAways;
pub use metrics::{gauge, pending_requests};
pub use queue::{Outgoing, Room};
pub use stream::{Incoming, Message, Stream};
pub use template::{RequestTemplate, spoil};
pub use tls::speaks_tls;

/// Locks what stays whole wherever a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
