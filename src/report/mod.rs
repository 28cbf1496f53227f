//! What people and machines are told of a run.

mod annotations;
mod chart;
mod checks;
mod claims;
mod compare;
mod csv;
mod explain;
mod export;
mod format;
mod golden;
mod hostile;
mod html;
mod hunt;
mod json;
mod junit;
mod limit;
mod markdown;
mod mean_step;
mod search;
mod seats;
mod series;
mod simulation;
mod suite;
mod summary;
mod text;
mod told;
mod window;
mod words;

pub use crate::verdict::Verdict;
pub(crate) use annotations::annotations;
pub(crate) use chart::write_chart;
pub(crate) use checks::Check;
pub use claims::Claimed;
pub(crate) use compare::Compare;
pub(crate) use csv::to_csv;
pub use explain::{explained, explained_names};
pub use export::ExportFormat;
pub use format::Format;
pub(crate) use golden::{write_differences, write_golden};
pub(crate) use hostile::write_hostile;
pub use html::Pictured;
pub(crate) use html::{Part, to_html};
pub(crate) use json::Document as RunDocument;
pub use json::{SCHEMA_VERSION, to_json};
pub(crate) use junit::to_junit;
pub(crate) use limit::{Ended, LimitResult, write_limit_header, write_trial};
pub(crate) use markdown::to_markdown;
pub(crate) use search::{BrokenOff, CoverageRow, SearchResult};
pub(crate) use simulation::{SimulatedScenario, SimulationResult};
pub(crate) use suite::write_suite_header;
pub use suite::{ScenarioOutcome, SuiteResult, SuiteRow};
pub use summary::{PlantedFault, Summary};
pub use text::{Extent, LiveLines};
pub(crate) use text::{
    shortened, verdict_and_why, violation_line, violation_lines, write_preflight, write_ranks, write_text,
    write_verdict_again, write_violation,
};
pub(crate) use told::Told;
pub(crate) use window::{WindowEnded, WindowResult, write_gaps};
pub(crate) use words::absence as describe_absence;
pub use words::{Description, describe, evidence};
pub use workload::wording::counted;
