//! Drives a run: finds out about the model, lets the workers work, and adds up.

mod accounting;
mod check;
mod collector;
mod context;
mod evidence;
mod limits;
mod line;
mod occupancy;
mod out;
mod passes;
mod pending;
mod preflight;
mod record;
mod resources;
mod run;
mod shared;
mod slots;
mod threads;
mod watch;
mod worker;

pub use accounting::Accounting;
pub use check::{Checked, check};
pub use limits::RunLimits;
pub use passes::Given;
pub use pending::PendingRequests;
pub use preflight::{Hints, Preflight};
pub use record::{Footer, Header, Recorded, Recording};
pub use resources::{Memory, ResourceError};
pub use run::{Interrupted, Observer, Progress, Result as RunResult, RunError, Setup, run, run_given};
pub use slots::{SlotCheck, SlotFinding};
