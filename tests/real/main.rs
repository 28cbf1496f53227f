//! The real tritonserver and NVIDIA's clients, and what is asked of them and of the reference server alike. The tests that need
//! them are ignored by a plain `cargo test`; `scripts/test` gets what they need and runs them.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod balancers;
mod bls;
mod clients;
mod connection_age;
mod control_types;
mod deadlines;
mod decoupled;
mod ensembles;
mod hostile;
mod hosting;
mod http;
mod hunt;
mod management;
mod metrics;
mod native_models;
mod native_types;
#[cfg(feature = "otlp")]
mod otlp;
mod proto;
mod qualify;
mod search;
mod server;
mod silero;
mod states;
mod stub_killed;
mod suite;
mod tensors;
mod types;
mod versions;
