//! A stress tester for *sequences*, the stateful inference of Triton's sequence batcher.
//!
//! The modules stand in the order in which data flows; each uses only those above it. `docs/ARCHITECTURE.md` has the
//! whole picture.

#[macro_use]
mod table;

#[cfg(test)]
mod rounds;

// The vocabulary.
pub mod answers;
pub mod arithmetic;
pub mod claim;
pub mod controls;
pub mod conversation;
pub mod endpoint;
pub mod event;
pub mod header;
mod keys;
pub mod model;
pub mod net;
pub mod number;
pub mod seed;
pub mod sequence;
pub mod simulation;
pub mod tensor;
mod whole_file;
mod wording;

// What to send: pure.
pub mod plan;
pub mod scenario;

// What is between client and server.
pub mod proxy;

// The wire, and the models at its other end.
pub mod proto;
pub mod reference;
pub mod repository;
pub mod transport;

// What came back.
pub mod history;
pub mod oracle;
pub mod recorder;

// What went wrong, to have it again.
pub mod failure;

// The run, and what people see of it.
pub mod engine;
pub mod report;

pub mod cli;
pub mod commands;
