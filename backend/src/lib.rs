//! A backend for Triton Inference Server: accumulators that keep state by slot, by correlation ID or in the server, tell what
//! they saw, and commit planted faults.
//!
//! The library is opened by the server, which calls the `TRITONBACKEND_…` functions of [`boundary`]; the server's own C
//! functions stay undefined here and are found in it. [`boundary`] is the only module with `unsafe` code: it owns every
//! pointer, answers and releases every request once, and lets no panic out. All other modules see safe types alone, and each
//! forbids `unsafe`.
//!
//! ```text
//! server ─C─> boundary::entry ─> instance ─> controls, accumulator, fault ─> boundary::Request (answers, state, release)
//!                  └ model configuration (JSON) ─> spec
//! ```

mod accumulator;
mod boundary;
mod controls;
mod fault;
mod instance;
mod late;
mod model;
mod name;
mod parameters;
mod spec;
mod states;
mod tensor;
