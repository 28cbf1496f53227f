//! Everything between client and server: Triton's protocol, the transports that speak it, and the networks that carry it.
//!
//! Modules of one paragraph may use each other; a paragraph uses those above it.

mod contents;
pub mod proto;

pub mod net;
pub mod simulation;

pub mod mutation;
pub mod proxy;
pub mod recording;

pub mod transport;

pub mod hostile;
