//! What happened in a run, event by event.

mod entry;

pub use entry::{Entry, Form, What};
