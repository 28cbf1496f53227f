//! The same conversations with the real tritonserver and with the reference server: they have to say the same.
//!
//! A *conversation* ([`conversation`]) loads a model, sends requests and does what clients do; what comes back is written
//! down as a *transcript*, line by line. `scripted/` has the conversations by theme, [`random`] makes more from a seed.
//! Conversations are made so that all of the transcript is determined: what is to happen in order has time in between, and
//! what is to be under way executes for long.
//!
//! `snapshots/` holds what the real server said with the native models of `backend/`. With Triton's Python backend it has to say
//! the same: [`conversation::OnPython`] marks the conversations in which that backend says something else (`*.python.txt`) or
//! cannot take part, and [`groups`] tells how many of the others are held with it.
//! `cargo test --test conformance` compares the reference server with that;
//! `cargo test --test conformance -- --ignored` (`scripts/test` does it too) holds one of each kind with the real server; all where
//! `SEQUENCE_STRESS_LONG=1` asks for the long form. To write the snapshots anew, after a look at what changes:
//!
//! ```sh
//! SEQUENCE_STRESS_CONFORMANCE=write cargo test --test conformance -- --ignored
//! ```
//!
//! `SEQUENCE_STRESS_CONVERSATION=TEXT` restricts all of that to conversations with TEXT in their names and prints their
//! transcripts (with `--nocapture`).
//!
//! Left out of transcripts because two right servers may differ in it: times; the order of maps; server version; platform
//! and backend of a model, and what else of its configuration belongs to a backend.

mod client;
mod conversation;
mod endpoint;
mod groups;
mod http;
#[path = "../support/long.rs"]
mod long;
mod pool;
mod query;
mod random;
mod runner;
mod scripted;
mod setup;
mod snapshot;
mod step;
mod transcript;
