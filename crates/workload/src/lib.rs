//! What is sent to a server with a sequence batcher: the vocabulary, scenarios, and the plan that a seed draws from them.
//!
//! Pure: no clock, no socket, no generator that is not seeded. Modules of one paragraph may use each other; a paragraph uses those above it.

#[macro_use]
mod table;
pub mod burst;
mod keys;
pub mod micros;
pub mod said;
pub mod time;
pub mod whole_file;

pub mod answers;
pub mod arithmetic;
pub mod chance;
pub mod claim;
pub mod conversation;
pub mod endpoint;
pub mod header;
pub mod inputs;
pub mod number;
pub mod seed;
pub mod sequence;
pub mod tensor;
pub mod version;
pub mod wide;
pub mod wording;

pub mod controls;
pub mod event;
pub mod model;

pub mod scenario;
pub mod share;

pub mod plan;
