//! The short form of `scripts/detection`: every planted fault of the reference server is found, always and once, and named; no
//! correct server is accused.

#[path = "../examples/detection/harness/mod.rs"]
mod harness;

use std::fmt::Write as _;

use harness::{
    for_each,
    rows::{MODELS, ROWS, Row, Scene, not_found_because},
    trial::{Outcome, Seen, correct_in_reference, in_reference, once},
};
use sequence_stress::reference::{Fault, Planted};

/// Runs at a time: most of a run is waiting.
const AT_A_TIME: usize = 5;
/// So many seeds are tried until there is a chance to commit the fault.
const SEEDS: u64 = 4;
/// Of what is found so much has to be named rightly.
const NAMED_PERCENT: usize = 95;

/// Checks that each fault was found, and that of all that has a diagnosis enough is named rightly.
fn check(done: &[(Row, Planted, Outcome)]) {
    let (mut problems, mut wrong, mut diagnosed) = (String::new(), String::new(), 0);
    let mut wrongly_named = 0;
    for (row, planted, outcome) in done {
        let what = format!("{planted} in {}, {}: {}", row.scene.name(), row.model, outcome.told());
        if !outcome.is_noticed() {
            let _ = writeln!(problems, "ESCAPED {what}");
        } else if outcome.found().is_some() {
            diagnosed += 1;
            if !outcome.is_named_rightly(&[*planted]) {
                wrongly_named += 1;
                let _ = writeln!(wrong, "NAMED WRONGLY {what}");
            }
        }
    }
    assert!(problems.is_empty(), "{problems}{wrong}");
    assert!(diagnosed > 0 && wrongly_named * 100 <= diagnosed * (100 - NAMED_PERCENT), "of {diagnosed}: {wrong}");
}

/// A run in which it came to the fault: some take a race that not every run has.
fn with_a_chance(run: impl Fn(u64) -> (Row, Planted, Outcome)) -> (Row, Planted, Outcome) {
    let mut runs = (1..=SEEDS).map(run);
    let first = runs.next().expect("a seed");
    if first.2.committed == Some(0) { runs.find(|run| run.2.committed != Some(0)).unwrap_or(first) } else { first }
}

#[test]
fn every_fault_has_its_row() {
    for info in Fault::TABLE {
        assert_eq!(ROWS.iter().filter(|row| row.fault == info.fault).count(), 1, "{}", info.name);
    }
}

#[test]
fn a_fault_that_always_happens_is_found_and_named() {
    let rows: Vec<_> = ROWS.iter().filter(|row| not_found_because(row.fault, true).is_none()).collect();
    let done = for_each(&rows, AT_A_TIME, |row| {
        let planted = Planted::always(row.fault);
        with_a_chance(|seed| (**row, planted, in_reference(row, &[planted], seed)))
    });
    check(&done);
}

#[test]
fn a_fault_that_happens_once_is_found_and_named() {
    let rows: Vec<_> = ROWS.iter().filter(|row| not_found_because(row.fault, false).is_none()).collect();
    let done = for_each(&rows, AT_A_TIME, |row| {
        with_a_chance(|seed| {
            let (planted, outcome) = once(row, seed, in_reference);
            (**row, planted, outcome)
        })
    });
    check(&done);
    let otherwise =
        done.iter().filter(|(row, _, outcome)| outcome.found().is_some_and(|found| !found.kinds.contains(&row.called)));
    let otherwise: Vec<_> = otherwise
        .map(|(row, planted, its)| format!("{planted} is not called {}: {}", row.called, its.told()))
        .collect();
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
}

#[test]
fn what_is_not_found_by_design_is_not_found() {
    // Where one of these is found after all the table has to say so.
    let rows: Vec<_> = ROWS.iter().filter(|row| not_found_because(row.fault, true).is_some()).collect();
    for (row, outcome) in
        rows.iter().zip(for_each(&rows, AT_A_TIME, |row| in_reference(row, &[Planted::always(row.fault)], 1)))
    {
        assert!(matches!(outcome.seen, Seen::Nothing), "{}: {}", row.fault, outcome.told());
    }
}

#[test]
fn a_correct_server_is_not_accused() {
    let kinds: Vec<_> =
        Scene::ALL.into_iter().flat_map(|scene| MODELS.iter().map(move |model| (scene, *model))).collect();
    for ((scene, model), outcome) in
        kinds.iter().zip(for_each(&kinds, AT_A_TIME, |(scene, model)| correct_in_reference(*scene, model, 5)))
    {
        assert!(matches!(outcome.seen, Seen::Nothing), "{}, {model}: {}", scene.name(), outcome.told());
        assert!(outcome.requests > 500, "{}, {model}: {}", scene.name(), outcome.requests);
    }
}
