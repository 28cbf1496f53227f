//! In how many simulated seeds each built-in scenario finds the faults that it is meant for.

use std::fmt::Write as _;

use reference::{Fault, When};
use workload::seed::Seed;

use super::harness::{
    for_each,
    meant::{self, Meant},
    rows::{ROWS, Row},
};

/// The scenario that each fault is tried in, too.
const DEFAULT: &str = "l0-sequence-stress";
/// Scenarios that show a fault although they are not there for it.
const BESIDES: [(&str, Fault); 4] = [
    ("connection-drops", Fault::LeakSlotAtLateCancel),
    ("rapid-cycling", Fault::LoseEnd),
    ("soak", Fault::NeverReap),
    ("unusual-steps", Fault::LoseEnd),
];
/// The share of the chances at which a fault is committed.
const SHARE: f64 = 0.001;
/// If fewer of the seeds than this find a fault, so many times as many are tried.
const FOUND_LEAST: u64 = 5;
const TIMES: u64 = 25;

/// The table, as Markdown.
pub(crate) fn table(only: &str, seeds: u64, at_a_time: usize) -> String {
    let mut meant = meant::all();
    let besides = BESIDES.iter().map(|(scenario, fault)| Meant { scenario, row: Row::of(*fault) });
    let of_default = ROWS.iter().map(|row| Meant { scenario: DEFAULT, row });
    let is_new =
        |its: &Meant| !meant.iter().any(|other| (other.scenario, other.row.fault) == (its.scenario, its.row.fault));
    meant.extend(besides.chain(of_default).filter(is_new).collect::<Vec<_>>());
    meant.retain(|its| its.row.fault.name().contains(only));
    meant.sort_by_key(|its| its.row.fault.name());
    let rows = for_each(&meant, at_a_time, |its| {
        let plan = its.simulated(When::Probability(SHARE), u64::MAX)?;
        let mut row = Came::default();
        for seed in 1..=seeds * TIMES {
            if seed > seeds && row.found >= FOUND_LEAST {
                break;
            }
            let held = plan.hold(Seed(seed));
            let (is_committed, is_found) =
                (held.committed.iter().any(|fault| fault.times > 0), !held.tally.violations.is_empty());
            row.seeds += 1;
            row.committed += u64::from(is_committed);
            row.found += u64::from(is_found);
            row.accused += u64::from(is_found && !is_committed);
        }
        Some(row)
    });
    let mut out = String::from(
        "| fault | scenario | model | seeds | committed in | found in | median seeds |\n|---|---|---|---|---|---|---|\n",
    );
    let rows: Vec<_> = meant.iter().zip(rows).filter_map(|(its, row)| Some((its, row?))).collect();
    for (its, row) in &rows {
        // The default scenario does not do everything.
        let has_another = rows.iter().any(|(other, _)| other.row.fault == its.row.fault && other.scenario != DEFAULT);
        if its.scenario == DEFAULT && row.found == 0 && has_another {
            continue;
        }
        let model = its.row.model.trim_end_matches("_int32");
        let (fault, median) = (its.row.fault, row.median());
        let Came { seeds, committed, found, .. } = row;
        writeln!(out, "| `{fault}` | {} | {model} | {seeds} | {committed} | {found} | {median} |", its.scenario)
            .expect("a String");
        assert_eq!(row.accused, 0, "{fault} in {}: a seed without the fault has violations", its.scenario);
    }
    out
}

#[derive(Default)]
struct Came {
    seeds: u64,
    /// Seeds in which the fault was committed, and seeds with a violation.
    committed: u64,
    found: u64,
    /// Seeds with a violation and without the fault.
    accused: u64,
}

impl Came {
    /// Within how many seeds half of all searches find the fault, from the share of the seeds that do.
    fn median(&self) -> String {
        match self.found {
            0 => format!("over {}", self.seeds),
            found if found == self.seeds => "1".to_owned(),
            found => {
                let of = |seeds: u64| u32::try_from(seeds).map_or(f64::INFINITY, f64::from);
                let missed = 1.0 - of(found) / of(self.seeds);
                format!("{:.0}", (0.5_f64.ln() / missed.ln()).ceil())
            }
        }
    }
}
