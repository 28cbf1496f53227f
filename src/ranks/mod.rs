//! Several processes that carry out one run together. Rank 0 leads: it looks at the server, says what is sent, and judges what all of them
//! saw; `docs/RANKS.md` is for users.
//!
//! To the run of rank 0 the other ranks are threads that are far away. What a thread leaves in memory they send: batches of entries,
//! seconds, how far they are, and at the end what they counted.

mod clock;
mod file;
mod link;
mod meeting;
mod members;
mod merge;
mod place;
#[cfg(unix)]
mod pmi;

use workload::scenario::Scenario;

pub(crate) use self::{
    clock::{Moment, Offset},
    link::{Envelope, FromLeader, FromMember, Outbox, SILENCE},
    meeting::any_name,
    members::{Member, Said},
};
pub use self::{
    file::RankFile,
    link::{About, Leader, Order},
    meeting::{Joined, Meeting, RankError, join},
    members::{Lead, Members},
    merge::{Merged, merged},
    place::{Launcher, Place, Told},
};

/// Why several ranks cannot hold a scenario together, if they cannot.
pub(crate) fn cannot_be_shared(scenario: &Scenario) -> Option<String> {
    let what = if !scenario.phases.is_empty() {
        "has phases, which would have to begin and end on all ranks at once"
    } else if scenario.may_be_disturbed() {
        "goes on when the server was away (--reconnect), which each rank would see at another time"
    } else {
        return None;
    };
    Some(format!("several ranks cannot hold this run: it {what}; start one rank (srun -n1)"))
}
