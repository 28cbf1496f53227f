//! Drives a run: finds out about the model, lets the workers work, and adds up.

mod accounting;
mod context;
mod limits;
mod line;
mod out;
mod passes;
mod preflight;
mod resources;
mod run;
mod shared;
mod threads;
mod watch;
mod worker;

pub use accounting::Accounting;
pub use limits::RunLimits;
pub use passes::Given;
pub use preflight::{Hints, Preflight};
pub use resources::{Memory, ResourceError};
pub use run::{Interrupted, Observer, Progress, Result as RunResult, RunError, Setup, run, run_given};
