//! What people and machines are told of a run.

mod chart;
mod claims;
mod json;
mod summary;
mod text;

pub use chart::write_chart;
pub use claims::Claimed;
pub use json::{SCHEMA_VERSION, write_json};
pub use summary::{PlantedFault, Summary, Verdict};
pub use text::{counted, violation_line, write_preflight, write_text, write_verdict};
