//! The reference server: a Triton-compatible sequence batcher with models and faults to be planted.
//!
//! It is an independent derivation of what a correct server does: it shares the vocabulary and the wire with the tester,
//! and nothing of what the tester plans or expects. From the wire inwards: [`server`] listens, `grpc` and `stream` speak
//! the protocol, `http` turns JSON into it and back, `decode` checks a request, `repository` finds its model, `served` drives that
//! model's `scheduler` by the clock, `execution` makes control tensors and keeps implicit state, and `model` computes.

#[cfg(any(test, feature = "testing"))]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
#[cfg(test)]
#[path = "../../../tests/support/long.rs"]
mod rounds;

mod again;
mod builtin;
mod decode;
mod ensemble;
mod execution;
pub mod fault;
mod folder;
mod grpc;
mod health;
mod http;
mod like;
mod listen;
mod metrics;
mod misbehaviour;
mod model;
mod number;
mod parameters;
mod pbtxt;
mod refusal;
mod repository;
mod scheduler;
mod served;
pub mod server;
mod setup;
pub mod simulated;
mod spec;
mod statistics;
mod stream;
mod tasks;
mod tensor;
mod tls;
pub mod transitions;
mod web;

pub use builtin::{model_names, models_in_short, models_without_formula, strategies, strategy_of};
pub use fault::{Fault, Planted, When};
pub use folder::Models;
pub use like::Like;
pub use metrics::MEMORY_GAUGE;
pub use models::ModelOptions;
pub use scheduler::HoldUntil;
pub use server::{Ended, Options, Server};
pub use setup::ServerSetup;
pub use tls::Tls;

/// The version that a model has where nothing says another.
const FIRST_VERSION: i64 = 1;
