//! What happened in a run, event by event, as it is kept; `docs/HISTORY.md` describes the file.

mod block;
mod entry;
mod line;
mod reader;
mod scene;
mod spool;

pub use entry::Entry;
pub use reader::{Damage, FORMAT, Item, Lines, Reader, VERSION, is_history};
pub use scene::{Begun, Scene};
pub use spool::{Keep, Kept, Options, Spool};

#[cfg(test)]
mod tests;
