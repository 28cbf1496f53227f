//! What people and machines are told of a run.

mod chart;
mod claims;
mod export;
mod format;
mod json;
mod seats;
mod suite;
mod summary;
mod text;
mod words;

pub use crate::verdict::Verdict;
pub use chart::write_chart;
pub use claims::Claimed;
pub use export::{ExportFormat, write_python};
pub use format::Format;
pub use json::{SCHEMA_VERSION, result_schema, write_json};
pub use suite::{ScenarioOutcome, SuiteRow, exit_code as suite_exit_code, write_suite};
pub use summary::{PlantedFault, Summary};
pub use text::{violation_line, write_not_shown, write_preflight, write_text, write_verdict};
pub use words::{Description, describe, evidence};
pub use workload::wording::counted;
