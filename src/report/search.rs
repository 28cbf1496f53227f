//! What a search came to, as a text and as JSON.

use std::{collections::BTreeMap, io, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Summary, counted,
    json::{Document as RunDocument, Stamp, document_to_json},
    simulation::with_violations,
};
use crate::search::Estimate;
use oracle::ViolationKind;
use workload::seed::Seed;

/// So many rows of the coverage are kept; of more every second one is left out.
const ROWS_MAX: usize = 200;

/// What the runs of a search came to.
#[derive(Debug)]
pub(crate) struct SearchResult {
    /// What fixes every choice.
    pub(crate) seed: Seed,
    /// Whether runs and servers were simulated.
    pub(crate) is_simulated: bool,
    /// How many runs were held.
    pub(crate) runs: u64,
    /// How many of them have violations.
    pub(crate) violating: u64,
    /// In how many of the others was tested too little to say that they are valid.
    pub(crate) unknown: u64,
    /// Requests that were sent.
    pub(crate) requests: u64,
    /// How many violations there were, by kind.
    pub(crate) violations_by_kind: BTreeMap<ViolationKind, u64>,
    /// How far it was, run by run.
    pub(crate) coverage: Coverage,
    /// Why it did not come to its end.
    pub(crate) broken_off: Option<BrokenOff>,
    /// The first run with a violation.
    pub(crate) first: Option<Box<Summary>>,
}

/// Why a search did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenOff {
    /// Somebody interrupted it.
    Interrupted,
    /// A run could not be held.
    NotHeld,
}

/// How far a search was, run by run, in a bounded number of rows.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    rows: Vec<CoverageRow>,
    /// How many runs lie between two rows, as a power of two.
    stride: u32,
    last: Option<CoverageRow>,
}

/// How far a search was after a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CoverageRow {
    /// Time since the search began, or the hunt.
    pub(crate) elapsed_s: f64,
    /// Runs so far, those that the search knew of before included.
    pub(crate) runs: u64,
    /// Requests that this search or hunt sent so far.
    pub(crate) requests: u64,
    /// Pairs of transitions that were reached.
    pub(crate) pairs: u64,
    /// How many new ones the next run is expected to reach.
    pub(crate) new_in_next_run: f64,
    /// At least how many no run has reached.
    pub(crate) unseen_at_least: f64,
}

/// The search for machines.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'r> {
    #[serde(flatten)]
    stamp: Stamp,
    /// What fixes every choice.
    seed: Seed,
    /// Whether runs and servers were simulated.
    simulated: bool,
    /// How many runs were held.
    runs: u64,
    /// How many of them have violations.
    violating: u64,
    /// In how many of the others was tested too little to say that they are valid.
    unknown: u64,
    /// Requests that were sent.
    requests: u64,
    /// How many violations there were, by kind.
    violations_by_kind: &'r BTreeMap<ViolationKind, u64>,
    /// How far the search was after its runs: all of them, or every second, fourth and so on.
    coverage: Vec<CoverageRow>,
    /// The first run with a violation, as `--json` of a run writes it; null where there is none.
    result: Option<RunDocument<'r>>,
}

impl Coverage {
    /// Adds what is known after a run.
    pub(crate) fn add(&mut self, elapsed: Duration, requests: u64, estimate: Estimate) -> CoverageRow {
        let row = CoverageRow {
            elapsed_s: elapsed.as_secs_f64(),
            runs: estimate.runs,
            requests,
            pairs: estimate.reached,
            new_in_next_run: estimate.new_in_next().unwrap_or_default(),
            unseen_at_least: estimate.unseen_at_least().unwrap_or_default(),
        };
        self.last = Some(row);
        if row.runs.is_multiple_of(1 << self.stride) {
            self.rows.push(row);
        }
        if self.rows.len() > ROWS_MAX {
            self.stride += 1;
            self.rows.retain(|row| row.runs.is_multiple_of(1 << self.stride));
        }
        row
    }

    /// What is kept, and the last of all.
    fn rows(&self) -> Vec<CoverageRow> {
        let last = self.last.filter(|last| self.rows.last() != Some(last));
        self.rows.iter().copied().chain(last).collect()
    }
}

impl CoverageRow {
    /// Writes what stands above the rows.
    pub(crate) fn write_head(out: &mut dyn io::Write) -> io::Result<()> {
        let [new, unseen] = ["new in next run", "unseen, at least"];
        writeln!(out, "{:>8} {:>12} {:>8} {new:>16} {unseen:>18}", "runs", "requests", "pairs")
    }

    /// Writes it.
    pub(crate) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let Self { runs, requests, pairs, new_in_next_run: new, unseen_at_least: unseen, .. } = self;
        writeln!(out, "{runs:>8} {requests:>12} {pairs:>8} {new:>16.2} {unseen:>18.0}")
    }
}

impl SearchResult {
    /// A search that has not begun.
    pub(crate) fn new(seed: Seed, is_simulated: bool) -> Self {
        Self {
            seed,
            is_simulated,
            runs: 0,
            violating: 0,
            unknown: 0,
            requests: 0,
            violations_by_kind: BTreeMap::new(),
            coverage: Coverage::default(),
            broken_off: None,
            first: None,
        }
    }

    /// The exit code that it stands for.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.broken_off {
            _ if self.violating > 0 => 1,
            Some(BrokenOff::NotHeld) => 4,
            Some(BrokenOff::Interrupted) => 3,
            None if self.runs == self.unknown => 3,
            None => 0,
        }
    }

    /// Writes the verdict.
    pub(crate) fn write_verdict(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let Self { runs, violating, unknown, seed, .. } = self;
        let runs = counted(*runs, "run");
        let pairs = counted(self.coverage.last.map_or(0, |last| last.pairs), "pair");
        let reached = format!("{pairs} of transitions reached (seed {seed})");
        let little = match unknown {
            0 => String::new(),
            unknown => format!("; {unknown} of them tested too little to be called valid"),
        };
        let why = match self.broken_off {
            Some(BrokenOff::Interrupted) => "interrupted",
            Some(BrokenOff::NotHeld) => "a run could not be held",
            None => "no run was valid",
        };
        match self.exit_code() {
            1 => writeln!(out, "INVALID: {}; {reached}", with_violations(*violating, &runs)),
            0 => writeln!(out, "VALID: {runs}, no violation{little}; {reached}"),
            _ => writeln!(out, "UNKNOWN: {why}; {runs} had no violation{little}; {reached}"),
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        document_to_json(&Document {
            stamp: Stamp::of(self.exit_code()),
            seed: self.seed,
            simulated: self.is_simulated,
            runs: self.runs,
            violating: self.violating,
            unknown: self.unknown,
            requests: self.requests,
            violations_by_kind: &self.violations_by_kind,
            coverage: self.coverage.rows(),
            result: self.first.as_deref().map(RunDocument::of),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(runs: u64) -> Estimate {
        Estimate { runs, reached: 10 * runs, once: 2, twice: 1 }
    }

    #[test]
    fn the_coverage_has_the_last_run_and_no_more_rows_than_are_kept() {
        for runs in [0, 1, 200, 201, 5000] {
            let mut coverage = Coverage::default();
            for run in 1..=runs {
                coverage.add(Duration::from_secs(run), run, estimate(run));
            }
            let rows = coverage.rows();
            assert!(rows.len() <= ROWS_MAX + 1 && rows.len() as u64 >= runs.min(ROWS_MAX as u64 / 2), "{}", rows.len());
            assert!(rows.is_sorted_by(|one, next| one.runs < next.runs), "{rows:?}");
            assert_eq!(rows.last().map_or(0, |row| row.runs), runs);
        }
    }

    #[test]
    fn the_verdict_follows_from_what_was_found_and_what_was_tested() {
        let verdict = |result: &SearchResult| {
            let mut out = Vec::new();
            result.write_verdict(&mut out).expect("memory");
            String::from_utf8(out).expect("UTF-8")
        };
        for (runs, violating, unknown, broken_off, code, says) in [
            (9, 0, 0, None, 0, "VALID: 9 runs, no violation; 0 pairs"),
            (9, 0, 2, None, 0, "VALID: 9 runs, no violation; 2 of them tested too little"),
            (9, 0, 9, None, 3, "UNKNOWN: no run was valid; 9 runs"),
            (9, 0, 0, Some(BrokenOff::Interrupted), 3, "UNKNOWN: interrupted; 9 runs had no violation"),
            (9, 0, 0, Some(BrokenOff::NotHeld), 4, "UNKNOWN: a run could not be held; 9 runs had no violation"),
            (9, 1, 0, Some(BrokenOff::Interrupted), 1, "INVALID: 1 of 9 runs has violations"),
            (0, 0, 0, None, 3, "UNKNOWN: no run was valid; 0 runs"),
        ] {
            let result = SearchResult { runs, violating, unknown, broken_off, ..SearchResult::new(Seed(1), true) };
            assert_eq!(result.exit_code(), code);
            assert!(verdict(&result).starts_with(says), "{}", verdict(&result));
        }
    }
}
