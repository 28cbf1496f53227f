//! The short form of `scripts/detection`: every planted fault of the reference server is found, always and once, and named; no
//! correct server is accused.

#[path = "../../examples/detection/harness/mod.rs"]
mod harness;

use std::fmt::Write as _;

use harness::{
    for_each, meant,
    rows::{MODELS, NOISY, ROWS, Row, Scene, golden_rows},
    trial::{Outcome, Seen, correct_in_reference, in_reference, once},
};
use oracle::ViolationKind;
use reference::{Fault, Planted, When};
use workload::{scenario::BUILTIN, seed::Seed};

use crate::support::long::is_long;

/// Runs at a time: as many as a small machine has cores, because a simulated run does not wait.
const AT_A_TIME: usize = 2;
/// Faults that seed 1 undoes before they show, and a seed with which each shows. docs/DETECTION.md has how many of many seeds do.
const SEEDS: &[(Fault, u64)] = &[];
/// What a fault that happens once may be called besides: a request that is taken in spite of its flaw is rejected all the same
/// where its sequence was gone, with the wrong words; a slot too many may be seen by nothing but the count of the slots; and where
/// a step was so late that it might be rejected it is the next one that must not be executed; a step that is taken for another ID's is rejected where that ID has no sequence.
const ALSO_CALLED: &[(Fault, ViolationKind)] = &[
    (Fault::AcceptBatch, ViolationKind::UnexpectedError),
    (Fault::ExtraSlot, ViolationKind::SlotReleasedTwice),
    (Fault::RejectMidSequence, ViolationKind::MissingStartError),
    (Fault::FoldTexts, ViolationKind::UnexpectedError),
];
/// Faults that are looked for in the gate in models without a formula, too: in each of these models, and for each way to find their causes.
const BY_GOLDEN: &[Fault] = &[
    Fault::OffByOne,
    Fault::StaleState,
    Fault::SwapStates,
    Fault::ExecuteTwice,
    Fault::StateOfAnotherSlot,
    Fault::ReadyMissing,
    Fault::SurplusResponse,
    Fault::WrongOutputLength,
];
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
            if !outcome.is_named_rightly(row, *planted == Planted::always(row.fault)) {
                wrongly_named += 1;
                let _ = writeln!(wrong, "NAMED WRONGLY {what}");
            }
        }
    }
    assert!(problems.is_empty(), "{problems}{wrong}");
    assert!(diagnosed > 0 && wrongly_named * 100 <= diagnosed * (100 - NAMED_PERCENT), "of {diagnosed}: {wrong}");
}

/// The seed of the runs with a fault. A simulated run with the same seed does the same, so the fault meets the same requests.
fn seed(fault: Fault) -> u64 {
    SEEDS.iter().find(|(its, _)| *its == fault).map_or(1, |(_, seed)| *seed)
}

/// Whether a fault that happened once is called as its row says.
fn is_called_so((row, _, outcome): &(Row, Planted, Outcome)) -> bool {
    let is_it = |kind: &ViolationKind| *kind == row.called || ALSO_CALLED.contains(&(row.fault, *kind));
    outcome.found().is_none_or(|found| found.kinds.iter().any(is_it))
}

#[test]
fn every_fault_has_its_row() {
    for fault in Fault::ALL {
        assert_eq!(ROWS.iter().filter(|row| row.fault == fault).count(), 1, "{fault}");
    }
}

#[test]
fn a_fault_that_always_happens_is_found_and_named() {
    let rows: Vec<_> = ROWS.iter().filter(|row| row.not_found_because(true).is_none()).collect();
    let done = for_each(&rows, AT_A_TIME, |row| {
        let planted = Planted::always(row.fault);
        (**row, planted, in_reference(row, &[planted], seed(row.fault)))
    });
    check(&done);
}

#[test]
fn a_fault_that_happens_once_is_found_and_named() {
    let rows: Vec<_> = ROWS.iter().filter(|row| row.not_found_because(false).is_none()).collect();
    let done = for_each(&rows, AT_A_TIME, |row| {
        let (planted, outcome) = once(row, seed(row.fault), in_reference);
        (**row, planted, outcome)
    });
    check(&done);
    let otherwise = done.iter().filter(|ran| !is_called_so(ran));
    let otherwise: Vec<_> = otherwise
        .map(|(row, planted, its)| format!("{planted} is not called {}: {}", row.called, its.told()))
        .collect();
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
}

#[test]
fn faults_are_found_and_named_in_models_without_a_formula() {
    let is_looked_for =
        |row: &Row| row.not_found_because(false).is_none() && (is_long() || BY_GOLDEN.contains(&row.fault));
    let rows: Vec<_> = golden_rows().into_iter().filter(is_looked_for).collect();
    let done = for_each(&rows, AT_A_TIME, |row| {
        let (planted, outcome) = once(row, seed(row.fault), in_reference);
        (*row, planted, outcome)
    });
    check(&done);
}

#[test]
fn in_virtual_time_scenarios_find_the_faults_of_scheduler_and_models_that_they_are_meant_for() {
    // There a run asks the server for its idle limit, which a simulation does not.
    let is_by_search = |meant: &meant::Meant| (meant.row.fault, meant.scenario) == (Fault::NeverReap, "idle-boundary");
    let meant = meant::all().into_iter().filter(|meant| !is_by_search(meant));
    let pairs: Vec<_> = meant.filter_map(|meant| Some((meant, meant.simulated(When::ALWAYS, 20)?))).collect();
    let found = for_each(&pairs, AT_A_TIME, |(_, plan)| {
        // Some seeds give a fault no chance.
        let came = |seed| {
            let held = plan.hold(Seed(seed));
            (held.committed.iter().any(|fault| fault.times > 0), !held.tally.violations.is_empty())
        };
        (1..=5).map(came).find(|(committed, _)| *committed).unwrap_or_default()
    });
    let missed: Vec<_> = pairs
        .iter()
        .zip(found)
        .filter(|(_, found)| *found != (true, true))
        .map(|((meant, _), (committed, _))| {
            format!("{} in {}, committed: {committed}", meant.row.fault, meant.scenario)
        })
        .collect();
    assert!(missed.is_empty(), "ESCAPED {}", missed.join("\n"));
    // One more or less is a scenario or a fault more or less.
    assert!(pairs.len() > 40, "{}", pairs.len());
}

#[test]
fn each_built_in_scenario_finds_the_faults_that_it_is_meant_for() {
    let program = || Some(env!("CARGO_BIN_EXE_sequence-stress").into());
    let pairs = meant::all();
    let done = for_each(&pairs, AT_A_TIME, |meant| meant.run(true, seed(meant.row.fault), program()));
    let escaped = pairs.iter().zip(done).filter(|(_, outcome)| !outcome.is_noticed());
    let escaped: Vec<_> = escaped
        .map(|(meant, outcome)| format!("{} in {}: {}", meant.row.fault, meant.scenario, outcome.told()))
        .collect();
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
    for builtin in BUILTIN.iter().filter(|builtin| builtin.in_suite) {
        assert!(pairs.iter().any(|meant| meant.scenario == builtin.name), "{} is meant for nothing", builtin.name);
    }
    // Memory that grows shows in runs of 80 s and more, which scenarios have with --duration.
    let is_short = |row: &&Row| row.fault != Fault::LeakMemory && row.not_found_because(true).is_none();
    for row in ROWS.iter().filter(is_short) {
        assert!(pairs.iter().any(|meant| meant.row.fault == row.fault), "no scenario is meant for {}", row.fault);
    }
}

#[test]
fn what_is_not_found_by_design_is_not_found() {
    // Where one of these is found after all the table has to say so.
    let rows: Vec<_> = ROWS.iter().filter(|row| row.not_found_because(true).is_some()).collect();
    for (row, outcome) in
        rows.iter().zip(for_each(&rows, AT_A_TIME, |row| in_reference(row, &[Planted::always(row.fault)], 1)))
    {
        assert!(matches!(outcome.seen, Seen::Nothing), "{}: {}", row.fault, outcome.told());
    }
}

#[test]
fn a_correct_server_is_not_accused() {
    let all = || Scene::ALL.into_iter().flat_map(|scene| MODELS.iter().map(move |model| (scene, *model))).collect();
    // In the gate each scene and each model has its turn.
    let turns = || Scene::ALL.into_iter().zip(MODELS.iter().copied().cycle());
    let some = || turns().map(|(scene, model)| (scene, if scene.suits(model) { model } else { MODELS[0] })).collect();
    let mut kinds: Vec<_> = if is_long() { all() } else { some() };
    kinds.retain(|(scene, model)| scene.suits(model));
    kinds.push((Scene::Base, NOISY));
    for ((scene, model), outcome) in
        kinds.iter().zip(for_each(&kinds, AT_A_TIME, |(scene, model)| correct_in_reference(*scene, model, 5)))
    {
        assert!(matches!(outcome.seen, Seen::Nothing), "{}, {model}: {}", scene.name(), outcome.told());
        assert!(outcome.requests > 500, "{}, {model}: {}", scene.name(), outcome.requests);
    }
}
