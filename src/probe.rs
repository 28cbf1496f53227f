//! What the tool asks the server besides the run's sequences: before the run and after it, by calls and by sequences of its own.

pub(crate) mod accounting;
mod admission;
pub(crate) mod aside;
pub(crate) mod idle_search;
pub(crate) mod naming;
pub(crate) mod player;
mod shown_alone;
pub(crate) mod site;
pub(crate) mod slots;
mod solo;

pub use accounting::{Accounting, PendingRequests, Unheard};
pub use idle_search::IdleSearch;
pub(crate) use site::Site;
pub use slots::{SlotCheck, SlotFinding};
