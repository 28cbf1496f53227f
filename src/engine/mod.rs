//! Drives a run: finds out about the model, lets the workers work, and adds up.

mod accounting;
mod aside;
mod check;
mod context;
mod disturbance;
mod driver;
mod frame;
mod health;
mod held_up;
mod idle_search;
mod limits;
mod note;
mod out;
mod parts;
mod passes;
mod pending;
mod phases;
mod preflight;
mod resources;
mod run;
mod shared;
mod slots;
mod threads;
mod watch;
mod worker;

pub use accounting::Accounting;
pub use check::{Checked, check};
pub use disturbance::{Restart, cannot_disturb};
pub use frame::{Footer, Header, HistoryPlan, HistoryWritten};
pub use health::{Growth, Health, MemorySource, NotReady, ServerMemory};
pub use idle_search::IdleSearch;
pub use limits::RunLimits;
pub use note::Note;
pub use parts::Part;
#[cfg(test)]
pub(crate) use parts::every_note as every_part_note;
pub use passes::Given;
pub use pending::PendingRequests;
pub use phases::PhaseSpan;
#[cfg(test)]
pub(crate) use preflight::tests as preflight_tests;
pub use preflight::{Hints, Preflight};
pub use resources::{Memory, ResourceError};
pub use run::{Interrupted, Observer, Progress, RunError, RunResult, Setup, run, run_given};
pub use slots::{SlotCheck, SlotFinding};
