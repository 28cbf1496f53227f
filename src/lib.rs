//! A stress tester for *sequences*, the stateful inference of Triton's sequence batcher: the tool over the crates in `crates/`.
//!
//! Modules of one paragraph may use each other; a paragraph uses those above it. `docs/ARCHITECTURE.md` has the whole picture.

#[cfg(test)]
#[path = "../tests/support/long.rs"]
mod rounds;

mod recorder;

mod addressing;
pub mod preflight;

pub mod probe;

pub mod frame;
pub mod ranks;
pub mod run;

pub mod golden;

pub mod hostile;

pub mod check;
mod verdict;

pub mod simulate;

pub mod search;

mod lanes;

pub mod limit;

pub mod failure;

pub mod window;

pub mod cli;
mod compare;
mod reading;
pub mod report;

mod metrics;

mod tui;

pub mod commands;
