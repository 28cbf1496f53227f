use super::*;
use crate::{
    probe::SlotFinding,
    verdict::{Judged, Verdict},
};
use oracle::{Leak, ViolationKind};
use reference::When;
use workload::scenario::{BUILTIN, Overrides, Source};

fn plan(source: &Source, fault: &[&str]) -> Result<Plan, String> {
    let scenario = Scenario::resolve(source, Overrides::default()).expect("a scenario");
    let fault = fault.iter().map(|fault| fault.parse().expect("a fault")).collect();
    Plan::new(scenario, ServerSetup { fault, ..ServerSetup::default() })
}

fn scenario(text: &str) -> Source {
    Source::from_text("test", text)
}

fn explained(plan: &Plan, seed: u64) -> (Checked, Held) {
    plan.explain(Seed(seed), ("test", "replay"), ServerSetup::default()).expect("few events")
}

#[test]
fn each_scenario_of_the_suite_provokes_what_it_claims() {
    let mut simulated = 0;
    for builtin in BUILTIN.iter().filter(|builtin| builtin.in_suite) {
        let Ok(plan) = plan(&scenario(builtin.text), &[]) else { continue };
        simulated += 1;
        let (Checked { result, .. }, _) = explained(&plan, 1);
        let judged = Judged { scenario: &plan.scenario, result: &result };
        assert_eq!((judged.verdict(), judged.doubts()), (Verdict::Valid, Vec::new()), "{}", builtin.name);
    }
    assert_eq!(simulated, 22);
}

#[test]
fn what_is_explained_is_what_was_counted() {
    for fault in
        ["off-by-one:0.01", "extra-slot:once@5", "hang-instance:once@50", "leak-slot-at-end:once@20", "keep-state:0.1"]
    {
        let plan = plan(&scenario("load = { workers = 8, iterations = 30 }"), &[fault]).expect("a plan");
        for seed in 1..=3 {
            let counted = plan.hold(Seed(seed));
            let (checked, held) = explained(&plan, seed);
            assert!(!counted.tally.violations.is_empty(), "{fault}, seed {seed}");
            assert_eq!(checked.result.tally.violations, counted.tally.violations, "{fault}, seed {seed}");
            assert_eq!((held.committed, held.requests), (counted.committed, counted.requests), "{fault}, seed {seed}");
        }
    }
}

#[test]
fn a_phase_begins_when_the_one_before_it_is_over_and_its_pause_too() {
    let text = "
        phase = [{ name = \"first\", pause_ms = 300 }, { name = \"second\", pause_ms = 5000 }]
        population = [
            { name = \"a\", phase = \"first\", load = { workers = 2, iterations = 3 } },
            { name = \"b\", phase = \"second\", load = { workers = 2, iterations = 3 } },
        ]";
    let plan = plan(&scenario(text), &[]).expect("a plan");
    let held = plan.hold_unless(&AtomicBool::new(false), Seed(1), true).expect("nobody stops it");
    let at = |workers: std::ops::Range<u32>| {
        held.entries.iter().filter(move |entry| workers.contains(&entry.context.worker)).map(|entry| entry.at)
    };
    let (first, last) = (at(0..2).min().expect("some"), at(0..2).max().expect("some"));
    assert_eq!(first, 300_000_000);
    assert_eq!(at(2..4).min().expect("some"), last + 5_000_000_000);
    assert_eq!(held.iterations, 12);
}

#[test]
fn faults_have_a_seed_of_their_own_where_one_is_given() {
    let with = |fault_seed: Option<u64>| {
        let plan = plan(&scenario("load = { workers = 2, iterations = 20 }"), &["off-by-one:0.05"]).expect("a plan");
        plan.with_fault_seed(fault_seed.map(Seed)).hold(Seed(7)).committed
    };
    assert_eq!(with(None), with(Some(7)));
    assert_ne!(with(Some(8)), with(Some(7)));
    assert_ne!(with(Some(8)), with(Some(9)));
}

#[test]
fn a_run_that_somebody_stops_has_no_result() {
    let plan = plan(&scenario(""), &[]).expect("a plan");
    assert!(plan.hold_unless(&AtomicBool::new(true), Seed(1), false).is_none());
}

#[test]
fn what_is_not_simulated_is_told() {
    for (text, why) in [
        ("phase = [{ name = \"p\", server = \"restart\" }]", "does something to the server"),
        ("network.latency_ms.constant = 1", "a faulty network"),
        ("load.rate = \"10/s\"", "at a rate"),
        ("sending.transport = \"grpc-status\"", "grpc-status"),
        ("patterns.common = { kill-client = 1 }", "kills processes of the client"),
    ] {
        let told = plan(&scenario(text), &[]).expect_err(text);
        assert!(told.contains(why), "{text}: {told}");
    }
    for fault in reference::Fault::ALL {
        let fault = Planted { fault, when: When::ALWAYS }.to_string();
        let planned = plan(&scenario(""), &[fault.as_str()]);
        let is_said = planned.err().is_some_and(|why| why.contains(&fault) && why.contains("--embedded"));
        assert_eq!(is_said, !Simulated::commits(fault.parse::<Planted>().expect("a fault").fault), "{fault}");
    }
}

#[test]
fn a_slot_that_goes_to_nobody_behind_an_end_is_seen_by_the_count() {
    let text = scenario("load = { workers = 2, iterations = 5 }");
    let with = |chance: u64| plan(&text, &[&format!("leak-slot-at-end:once@{chance}")]).expect("a plan").hold(Seed(1));
    let correct = with(u64::MAX);
    assert_eq!(correct.slots.finding, SlotFinding::AllThere { slots: 8 });
    // The last END of all is the one of the count.
    let wrong = with(correct.committed[0].chances);
    let SlotFinding::Leaked { slots: 8, leaked: 1, seen: Leak::NotHandedOn { .. } } = wrong.slots.finding else {
        panic!("{:?}", wrong.slots)
    };
    assert_eq!(wrong.tally.violations.get(&ViolationKind::SlotLeak), Some(&1));
}
