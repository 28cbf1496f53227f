//! How requests reach a server and answers come back; with [`crate::proto`] the only place that sees the wire.

mod client;
mod codec;
mod connection;
mod metrics;
mod stream;

pub(crate) use client::channel;
pub use client::{CallError, Client, Counted};
pub use codec::RequestTemplate;
pub use connection::Resetter;
pub(crate) use connection::resettable_channel;
pub use metrics::pending_requests;
pub use stream::{Incoming, Message, Outgoing, Stream};
