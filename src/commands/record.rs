//! What replays tell for a bug report, written into the failure file.

use std::path::Path;

use super::{Failure as CommandFailure, output::ResultFile};
use crate::{
    failure::{Facts, Failure},
    report::write_chart,
};
use oracle::{Violation, history::Scene};

/// What replays of a failure have shown.
pub(super) struct Record<'r> {
    /// What the runs found out about their server.
    pub(super) facts: Facts,
    /// In how many of them it failed.
    pub(super) failed: u32,
    /// The number of runs.
    pub(super) runs: u32,
    /// The last one that failed.
    pub(super) last: Option<(&'r Violation, &'r Scene)>,
}

impl Record<'_> {
    /// Writes the failure with the record into a file.
    pub(super) fn write(self, failure: Failure, path: &Path) -> Result<(), CommandFailure> {
        let chart = self.last.filter(|_| self.failed > 0).map(|(violation, scene)| chart(violation, scene));
        let facts = failure.facts.clone().after(self.facts, self.failed, self.runs, chart);
        let file = ResultFile::check("output", "the failure", path).map_err(CommandFailure::wrong_input)?;
        let failure = Failure { facts, ..failure };
        file.write(failure.to_text().as_bytes()).map_err(CommandFailure::wrong_input)
    }
}

/// The chart without colours.
fn chart(violation: &Violation, scene: &Scene) -> String {
    let mut text = Vec::new();
    write_chart(scene, violation, &mut anstream::StripStream::new(&mut text)).expect("memory takes everything");
    String::from_utf8_lossy(&text).into_owned()
}
