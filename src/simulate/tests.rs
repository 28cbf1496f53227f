use super::*;
use crate::{
    probe::SlotFinding,
    verdict::{Judged, Verdict},
};
use oracle::{Leak, ViolationKind};
use reference::When;
use std::collections::BTreeMap;
use workload::{
    event::{Cut, Disturbance, EventKind},
    scenario::{BUILTIN, Overrides, ServerAction, Source},
};

fn plan(source: &Source, fault: &[&str]) -> Result<Plan, String> {
    let scenario = Scenario::resolve(source, Overrides::default()).expect("a scenario");
    let fault = fault.iter().map(|fault| fault.parse().expect("a fault")).collect();
    // As many versions as the requests name.
    let versions = u32::try_from(scenario.versions().len()).expect("few");
    Plan::new(scenario, ServerSetup { fault, versions, ..ServerSetup::default() })
}

fn scenario(text: &str) -> Source {
    Source::from_text("test", text)
}

fn explained(plan: &Plan, seed: u64) -> (Checked, Held) {
    plan.explain(Seed(seed), ("test", "replay"), ServerSetup::default()).expect("few events")
}

/// Scenarios that are not in the suite, because some servers cannot run them.
const BESIDES: [&str; 5] = ["model-management", "stub-killed", "grpc-errors", "other-models", "model-versions"];

#[test]
fn each_scenario_of_the_suite_provokes_what_it_claims() {
    let mut simulated = 0;
    for builtin in BUILTIN.iter().filter(|builtin| builtin.in_suite || BESIDES.contains(&builtin.name)) {
        let plan = plan(&scenario(builtin.text), &[]).unwrap_or_else(|why| panic!("{}: {why}", builtin.name));
        simulated += 1;
        let (Checked { result, .. }, _) = explained(&plan, 1);
        let judged = Judged { scenario: &plan.scenario, result: &result };
        assert_eq!((judged.verdict(), judged.doubts()), (Verdict::Valid, Vec::new()), "{}", builtin.name);
    }
    assert_eq!(simulated, 30);
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

/// A run whose workers send while this is done to the server, and others afterwards.
fn disturbed(action: &str, transport: &str, fault: &[&str]) -> Held {
    let text = format!(
        "sending.transport = '{transport}'
        phase = [{{ name = 'acts', pause_ms = 200, server = '{action}' }}, {{ name = 'after', pause_ms = 2000 }}]
        population = [
            {{ name = 'throughout', load = {{ workers = 6, duration_s = 1 }} }},
            {{ name = 'afterwards', phase = 'after', load = {{ workers = 2, iterations = 5 }} }},
        ]"
    );
    let plan = plan(&scenario(&text), fault).expect("a plan");
    plan.hold_unless(&AtomicBool::new(false), Seed(1), true).expect("nobody stops it")
}

#[test]
fn what_is_done_to_the_server_is_told_to_each_context_and_no_fault() {
    let transports = ["grpc-stream", "grpc-status", "grpc-unary", "http-binary"];
    for (action, transport) in ServerAction::NAMES.iter().flat_map(|action| transports.map(|its| (*action, its))) {
        let held = disturbed(action, transport, &[]);
        assert_eq!(held.tally.violations, BTreeMap::new(), "{action}");
        assert!(matches!(held.slots.finding, SlotFinding::AllThere { .. }), "{action}: {:?}", held.slots);
        let count = |what: fn(&EventKind) -> bool| held.entries.iter().filter(|entry| what(&entry.what)).count();
        let [begun, over] = [
            count(|what| matches!(what, EventKind::Disturbed(Disturbance::Begins | Disturbance::InstanceFails))),
            count(|what| matches!(what, EventKind::Disturbed(Disturbance::IsOver))),
        ];
        // To whom it was over does not matter who had no conversation since then.
        assert!((6..=begun).contains(&over), "{action}: told {begun} and {over} times");
        let breaks = count(|what| matches!(what, EventKind::Cut(Cut::Broken(_))));
        assert_eq!(breaks > 0, action == "restart", "{action}: {breaks} streams broke");
        // Nobody waits for a server that is gone.
        assert_eq!(count(|what| matches!(what, EventKind::GaveUp)), 0, "{action}, {transport}");
        let refused = count(|what| match what {
            EventKind::Received(received) => {
                received.result.as_ref().is_err_and(|text| text.contains("has no available versions"))
            }
            _ => false,
        });
        assert_eq!(refused > 0, action == "unload", "{action}: {refused} requests were refused");
    }
}

#[test]
fn a_sequence_that_goes_on_although_its_state_is_lost_is_found() {
    let held = disturbed("kill-stub", "grpc-stream", &["answer-after-lost-state"]);
    assert!(held.committed[0].times > 0 && held.tally.violations.contains_key(&ViolationKind::WrongSum));
}

#[test]
fn a_stream_with_grpc_status_ends_with_the_error_of_an_accepted_request() {
    let text = "load = { workers = 8, iterations = 20 }
        sending.transport = 'grpc-status'
        patterns.common = { valid = 1, no-start = 1 }";
    let plan = plan(&scenario(text), &["model-error:0.05"]).expect("a plan");
    let held = plan.hold_unless(&AtomicBool::new(false), Seed(1), true).expect("nobody stops it");
    let ends = held.entries.iter().filter(|entry| matches!(entry.what, EventKind::Cut(Cut::Status(..)))).count();
    assert!(ends > 0, "no stream ended with a status");
    // What is not accepted is told within the stream.
    let rejected = held.entries.iter().filter(|entry| match &entry.what {
        EventKind::Received(received) => received.result.is_err(),
        _ => false,
    });
    assert!(rejected.count() > 0);
    assert!(held.tally.violations.contains_key(&ViolationKind::UnexpectedError), "{:?}", held.tally.violations);
}

#[test]
fn a_faulty_network_takes_connections_and_delays_messages_and_is_no_fault() {
    for (network, is_taking) in [
        ("cut = { after_bytes.uniform = { min = 1000, max = 9000 } }", true),
        ("cut = { after_ms.uniform = { min = 1, max = 40 }, by = 'fin' }", true),
        ("black_hole.after_bytes.uniform = { min = 1000, max = 9000 }", true),
        ("black_hole = { after_ms.constant = 5, for_ms.constant = 700 }", false),
        ("latency_ms.uniform = { min = 1, max = 30 }", false),
        ("bandwidth_kib_s = 16", false),
    ] {
        for sending in ["connection = 'per-worker'", "transport = 'http'", "connection = 'per-context'"] {
            let with = |network: &str| {
                let text = format!(
                    "load = {{ workers = 4, iterations = 30 }}\npatterns.common = {{ valid = 3, no-end = 1 }}\n
                    contexts = {{ common = 0, rare = 9, rare_probability = 1 }}\nsending = {{ {sending} }}\n{network}"
                );
                let plan = plan(&scenario(&text), &[]).expect("a plan");
                plan.hold_unless(&AtomicBool::new(false), Seed(3), true).expect("nobody stops it")
            };
            let (held, clear) = (with(&format!("network.{network}")), with(""));
            assert_eq!(held.tally.violations, BTreeMap::new(), "{network}, {sending}");
            let taken =
                held.entries.iter().filter(|entry| matches!(entry.what, EventKind::Cut(Cut::ByNetwork))).count();
            assert_eq!(taken > 0, is_taking, "{network}, {sending}: {taken}");
            assert!(is_taking || held.took > clear.took, "{network}, {sending}: {:?}, {:?}", held.took, clear.took);
        }
    }
}

#[test]
fn what_is_lost_on_a_network_that_is_clear_is_the_servers_fault() {
    let text = "population = [
        { name = 'near', load = { workers = 4, iterations = 20 } },
        { name = 'far', load = { workers = 4, iterations = 20 }, network = { cut.after_bytes.constant = 5000 } },
    ]";
    let held = plan(&scenario(text), &["hang-instance:once@40"]).expect("a plan").hold(Seed(1));
    assert!(held.tally.violations.contains_key(&ViolationKind::Lost), "{:?}", held.tally.violations);
}

#[test]
fn iterations_begin_at_their_rate_and_late_where_all_workers_have_one() {
    // Each iteration takes two executions and four ways at the least.
    let with = |workers: u32, rate: &str| {
        let text = format!(
            "load = {{ workers = {workers}, rate = '{rate}', duration_s = 5 }}
            contexts = {{ common = 4, rare = 0, rare_probability = 0 }}
            patterns.common.valid = 1
            length = {{ min = 2, max = 2, constant = 2 }}"
        );
        plan(&scenario(&text), &[]).expect("a plan").hold_unless(&AtomicBool::new(false), Seed(1), true)
    };
    let held = with(8, "100/s").expect("nobody stops it");
    assert_eq!((held.iterations, held.tally.violations), (500, BTreeMap::new()));
    let due = |held: &[Entry]| -> Vec<_> {
        held.iter()
            .filter_map(|entry| if let EventKind::Due(due) = entry.what { Some((entry.at, due)) } else { None })
            .collect()
    };
    let all = due(&held.entries);
    let [Arrived { begun, begun_late, not_begun, most_at_a_time, .. }] = held.arrived[..] else {
        panic!("{:?}", held.arrived)
    };
    assert_eq!((all.len(), begun, begun_late, not_begun), (500, 500, 0, 0));
    assert!((1..=8).contains(&most_at_a_time), "{most_at_a_time}");
    for (number, (at, due)) in (0..).zip(all) {
        assert_eq!((at, due.at, due.waited), (due.at, number * 10_000_000, true), "iteration {number}");
    }
    // One worker cannot begin one each millisecond.
    let late = with(1, "1000/s").expect("nobody stops it");
    assert!((100..5000).contains(&late.iterations), "{}", late.iterations);
    let arrived = &late.arrived[0];
    assert_eq!(arrived.begun + arrived.not_begun, 5000, "{arrived:?}");
    assert_eq!((arrived.begun, arrived.begun_late + 1), (late.iterations, late.iterations), "{arrived:?}");
    assert!(due(&late.entries).iter().skip(1).all(|(at, due)| !due.waited && *at > due.at));
}

#[test]
fn a_load_at_a_rate_waits_for_its_phase_and_a_phase_for_its_load() {
    let text = "
        phase = [{ name = 'first', pause_ms = 300 }, { name = 'second' }]
        population = [
            { name = 'a', phase = 'first', load = { workers = 2, iterations = 30, rate = '100/s' } },
            { name = 'b', phase = 'second', load = { workers = 1, iterations = 3 } },
        ]";
    let plan = plan(&scenario(text), &[]).expect("a plan");
    let held = plan.hold_unless(&AtomicBool::new(false), Seed(1), true).expect("nobody stops it");
    let at = |workers: std::ops::Range<u32>| {
        held.entries.iter().filter(move |entry| workers.contains(&entry.context.worker)).map(|entry| entry.at)
    };
    assert!(at(0..2).min().is_some_and(|first| first >= 300_000_000));
    assert!(at(0..2).max() <= at(2..3).min(), "{:?} > {:?}", at(0..2).max(), at(2..3).min());
    assert_eq!((held.iterations, held.tally.violations), (33, BTreeMap::new()));
}

#[test]
fn with_a_rate_a_response_is_lost_after_the_time_for_those_who_were_needed() {
    let text = "
        load = { workers = 512, rate = '2/s', duration_s = 20 }
        contexts = { common = 1, rare = 0, rare_probability = 0 }
        patterns.common.valid = 1
        length = { min = 1, max = 3, uniform = { min = 1, max = 3 } }
        limits.lost_after_ms = 1000";
    let held = |fault: &str| {
        let scenario = Scenario::resolve(&scenario(text), Overrides::default()).expect("a scenario");
        let fault = vec![fault.parse().expect("a fault")];
        let (idle_limit, fault_hold) = (Duration::from_millis(100), Duration::from_secs(8));
        let plan = Plan::new(scenario, ServerSetup { fault, idle_limit, fault_hold, ..ServerSetup::default() });
        plan.expect("a plan").hold(Seed(1)).tally.violations
    };
    assert_eq!(held("slow-execution:once@10000"), BTreeMap::new());
    let wrong = held("slow-execution:once@10");
    assert!(wrong.contains_key(&ViolationKind::Lost), "{wrong:?}");
}

#[test]
fn a_server_that_answers_nobody_for_too_long_hangs() {
    // So many workers may lawfully wait for one another that no single response is lost.
    let text = "
        load = { workers = 200, iterations = 3 }
        contexts = { common = 1, rare = 0, rare_probability = 0 }
        patterns.common.valid = 1
        length = { min = 1, max = 8, uniform = { min = 1, max = 8 } }";
    let held = |fault: &str| plan(&scenario(text), &[fault]).expect("a plan").hold(Seed(1));
    let correct = held("slow-execution:once@100000");
    assert_eq!((correct.tally.violations, correct.hang.is_none()), (BTreeMap::new(), true));
    let wrong = held("slow-execution:once@10");
    assert_eq!(wrong.tally.violations, BTreeMap::from([(ViolationKind::Hang, 1)]));
    assert!(matches!(wrong.slots.finding, SlotFinding::NotCheckable { .. }), "{:?}", wrong.slots);
    assert!(wrong.took < Duration::from_secs(30), "{:?}", wrong.took);
    for lawful in [
        // A client that does nothing is owed nothing.
        "load = { workers = 2, iterations = 2 }\nthink.iteration_ms.constant = 600000",
        // The network holds up what the server answered.
        "load = { workers = 2, iterations = 2 }\nnetwork.black_hole = { after_ms.constant = 5, for_ms.constant = 60000 }",
    ] {
        assert_eq!(
            plan(&scenario(lawful), &[]).expect("a plan").hold(Seed(1)).tally.violations,
            BTreeMap::new(),
            "{lawful}"
        );
    }
}

#[test]
fn the_slots_of_each_version_are_counted() {
    let text = "
        contexts = { common = 2, rare = 0, rare_probability = 0 }
        load = { workers = 2, iterations = 10 }
        population = [
            { name = 'a', version = 1, patterns.common.no-end = 1 },
            { name = 'b', version = 2, patterns.common.valid = 1 },
        ]";
    let held = |fault: &str| plan(&scenario(text), &[fault]).expect("a plan").hold(Seed(1)).slots.finding;
    assert_eq!(held("leak-slot-at-end:once@1000"), SlotFinding::AllThere { slots: 16 });
    // Only the second version sees an END.
    assert!(matches!(held("leak-slot-at-end:once@5"), SlotFinding::Leaked { leaked: 1, .. }));
}

#[test]
fn a_version_that_is_named_while_it_is_unloaded_is_not_ready() {
    let text = "
        phase = [{ name = 'acts', pause_ms = 200, server = 'unload' }]
        population = [
            { name = 'a', version = 1, load = { workers = 4, duration_s = 1 } },
            { name = 'b', version = 2, phase = 'acts', load = { workers = 4, iterations = 5 } },
        ]";
    let plan = plan(&scenario(text), &[]).expect("a plan");
    let held = plan.hold_unless(&AtomicBool::new(false), Seed(1), true).expect("nobody stops it");
    let refused = held.entries.iter().filter(|entry| match &entry.what {
        EventKind::Received(received) => {
            received.result.as_ref().is_err_and(|text| text.contains("version 1 is not at ready state"))
        }
        _ => false,
    });
    assert!(refused.count() > 0);
    assert_eq!(held.tally.violations, BTreeMap::new());
}

#[test]
fn what_other_models_and_versions_do_to_a_sequence_is_found() {
    for (name, fault, kind) in [
        ("other-models", "load-resets-others", ViolationKind::WrongSum),
        ("model-versions", "versions-share-sequences", ViolationKind::MissingStartError),
    ] {
        let text = BUILTIN.iter().find(|builtin| builtin.name == name).expect("it is built in").text;
        let with = |fault: &[&str]| plan(&scenario(text), fault).expect("a plan").hold(Seed(1));
        assert_eq!(with(&[]).tally.violations, BTreeMap::new(), "{name}");
        let wrong = with(&[fault]);
        assert!(wrong.committed[0].times > 0, "{fault} was not committed");
        assert!(wrong.tally.violations.contains_key(&kind), "{fault}: {:?}", wrong.tally.violations);
    }
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
        ("population = [{ name = \"a\", version = 1 }, { name = \"b\", version = 3 }]", "--versions N"),
        ("phase = [{ name = 'p', other_model = 'no_such' }]\npopulation = [{ name = 'a', phase = 'p' }]", "no_such"),
        ("limits.step_ms = 31536000000", "more than 30"),
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
