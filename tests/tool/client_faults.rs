//! What clients do wrong, against a correct server: nothing of it is the server's fault, and what the server does is still judged.

use crate::support;
use std::{fmt::Display, net::SocketAddr, time::Duration};

use crate::support::runs::{reference_server, run_alone, scenario};
use oracle::ViolationKind;
use reference::{Fault, ModelOptions, Planted, Server};
use sequence_stress::{
    probe::{Accounting, SlotFinding},
    run::{RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{claim::Claim, model::Strategy, seed::Seed, sequence::Pattern};

const IDLE_LIMIT: Duration = Duration::from_millis(250);
/// One for each worker.
const SLOTS: u32 = 4;
/// The patterns in which a client does wrong, or what is unusual.
const FAULTS: &[Pattern] = &[
    Pattern::Pause,
    Pattern::CancelQueued,
    Pattern::CancelExecuting,
    Pattern::CancelIdle,
    Pattern::CancelRestart,
    Pattern::HalfClose,
    Pattern::Reset,
    Pattern::ContinueElsewhere,
    Pattern::ContinueByNeighbour,
    Pattern::RestartElsewhere,
    Pattern::Concurrent,
    Pattern::StopReading,
    Pattern::KillClient,
    Pattern::Restart,
    Pattern::Burst,
    Pattern::AfterEnd,
    Pattern::EndTwice,
    Pattern::SharedId,
    Pattern::Malformed,
    Pattern::Timeout,
    Pattern::Deadline,
];

fn server(strategy: Strategy, slots: u32, faults: &[Planted], execution_ms: u64) -> Server {
    server_of(IDLE_LIMIT, strategy, slots, faults, execution_ms)
}

fn server_of(idle_limit: Duration, strategy: Strategy, slots: u32, faults: &[Planted], execution_ms: u64) -> Server {
    let models = ModelOptions {
        strategy,
        max_batch_size: slots,
        idle_limit,
        execution: Duration::from_millis(execution_ms),
        ..ModelOptions::default()
    };
    reference_server(models, faults)
}

/// Runs a scenario in which these patterns have the same weight.
fn stress(address: SocketAddr, model: &str, patterns: &[Pattern], seed: u64, more: &str) -> RunResult {
    stress_as(address, model, patterns, seed, &format!("load = {{ workers = 4, iterations = 12 }}\n{more}"))
}

/// The same, with a load of its own.
fn stress_as(endpoint: impl Display, model: &str, patterns: &[Pattern], seed: u64, more: &str) -> RunResult {
    let weights: Vec<_> = patterns.iter().map(|pattern| format!("{pattern} = 1")).collect();
    let weights = weights.join(", ");
    let text = format!(
        "target = {{ endpoint = '{endpoint}', model = '{model}' }}
patterns.common = {{ {weights} }}
patterns.rare = {{ {weights} }}
length = {{ min = 1, max = 20, normal = {{ mean = 8, stdev = 4 }} }}
values.uniform = {{ min = -2147483648, max = 2147483647 }}
{more}"
    );
    let program = Some(env!("CARGO_BIN_EXE_sequence-stress").into());
    let setup = Setup { program, ..Setup::new(scenario(&text), Seed(seed)) };
    run_alone(setup).expect("a run")
}

/// As many simulations as a small machine has cores.
const AT_A_TIME: usize = 2;

/// Short, because little is checked that takes time; quick steps, so that pauses matter.
const QUICK: &str = "limits = { quiet_ms = 30, settle_ms = 5000, step_ms = 5, lost_after_ms = 4000 }";

const ONE_CONTEXT: &str = "contexts = { common = 1, rare = 0, rare_probability = 0 }";

#[track_caller]
fn assert_correct(what: &str, result: &RunResult) {
    assert_eq!(result.violations, [], "{what}");
    assert!(matches!(result.accounting, Accounting::Agrees { .. }), "{what}: {:?}", result.accounting);
    let accused = matches!(result.slots.finding, SlotFinding::Leaked { .. } | SlotFinding::ReleasedTwice { .. });
    assert!(!accused, "{what}: {:?}", result.slots);
}

#[test]
fn a_correct_server_is_not_accused_of_what_its_clients_do() {
    let models = [
        (Strategy::Direct, "custom_sequence_int32"),
        (Strategy::Oldest, "oldest_sequence_int32"),
        (Strategy::Direct, "implicit_sequence_int32"),
        (Strategy::Oldest, "implicit_dyna_sequence_int32"),
    ];
    support::side_by_side(AT_A_TIME, &models, |(strategy, model)| is_not_accused(*strategy, model));
}

fn is_not_accused(strategy: Strategy, model: &str) {
    let one = |server: &Server, pattern: Pattern| {
        let result = stress(server.address, model, &[pattern], 1, QUICK);
        assert_correct(&format!("{pattern} on {model}"), &result);
        let counts = result.tally.patterns[pattern.index()];
        assert!(counts.requests > 0 && counts.answered() > 0, "{pattern} on {model}: {counts:?}");
    };
    one(&server(strategy, SLOTS, &[], 1), Pattern::KillClient);
    let _simulation = Simulation::begin();
    let server = server(strategy, SLOTS, &[], 1);
    let simulated = FAULTS.iter().copied().filter(|pattern| *pattern != Pattern::KillClient);
    simulated.clone().for_each(|pattern| one(&server, pattern));
    let all: Vec<_> = simulated.chain([Pattern::Valid, Pattern::NoEnd, Pattern::ValidValid]).collect();
    assert_correct(&format!("all on {model}"), &stress(server.address, model, &all, 2, QUICK));
}

#[test]
fn a_correct_server_rejects_what_waits_for_too_long_and_nothing_else() {
    let _simulation = Simulation::begin();
    let server = server(Strategy::Direct, 1, &[], 1);
    let result = stress(server.address, "implicit_sequence_int32", &[Pattern::Timeout, Pattern::NoEnd], 1, QUICK);
    assert_correct("timeouts and one slot", &result);
    let counts = result.tally.patterns[Pattern::Timeout.index()];
    assert!(result.tally.reached.of(Claim::ExpiredInBacklog) > 0 && counts.expired == counts.rejected, "{counts:?}");
}

#[test]
fn ids_of_every_form_are_sent_and_told_rightly() {
    let _simulation = Simulation::begin();
    let server = server(Strategy::Direct, 2, &[], 1);
    let patterns = [Pattern::Valid, Pattern::NoEnd, Pattern::AfterEnd, Pattern::Malformed];
    for ids in [
        "form = 'text'",
        "form = 'text-128'",
        "form = 'non-ascii'",
        "first = 9223372036854775800",
        "first = 18446744073709540000",
    ] {
        let more = format!("{QUICK}\ncorrelation_ids.{ids}");
        let result = stress(server.address, "implicit_sequence_int32", &patterns, 1, &more);
        assert_correct(ids, &result);
        assert!(result.tally.reached.of(Claim::RejectedAfterEnd) > 0, "{ids}");
    }
}

#[test]
fn populations_may_have_ids_of_different_forms() {
    let _simulation = Simulation::begin();
    let server = server(Strategy::Direct, 4, &[], 1);
    let more = format!(
        "{QUICK}
correlation_ids.form = 'text'
[[population]]
name = 'texts'
load.workers = 2
[[population]]
name = 'numbers'
load.workers = 2
correlation_ids.form = 'integer'
[[population]]
name = 'long'
load.workers = 1
correlation_ids.form = 'text-128'"
    );
    let result = stress(server.address, "implicit_sequence_int32", &[Pattern::Valid, Pattern::AfterEnd], 1, &more);
    assert_correct("three forms", &result);
    // A rejection is only right where it names the ID as it was sent.
    assert!(result.tally.reached.of(Claim::RejectedAfterEnd) > 5, "{:?}", result.tally.reached);
}

/// A fault for each pattern that shows there as one of these kinds; the chance at which it is committed, or all the time.
const FOUND: &[(Pattern, Fault, Option<u64>, &[ViolationKind])] = &[
    (Pattern::Pause, Fault::ReapEarly, None, &[ViolationKind::SpuriousStartError]),
    (Pattern::CancelQueued, Fault::LeakSlotAtCancel, Some(3), &[ViolationKind::SlotLeak]),
    (Pattern::CancelExecuting, Fault::LeakSlotAtIdle, Some(1), &[ViolationKind::SlotLeak]),
    (Pattern::CancelIdle, Fault::LeakSlotAtIdle, Some(1), &[ViolationKind::SlotLeak]),
    (
        Pattern::CancelRestart,
        Fault::OrphanAtCancel,
        Some(3),
        &[ViolationKind::SpuriousStartError, ViolationKind::SlotLeak],
    ),
    (Pattern::HalfClose, Fault::LoseFinalResponses, Some(3), &[ViolationKind::StreamBroken]),
    (Pattern::Reset, Fault::LeakSlotAtCancel, Some(3), &[ViolationKind::SlotLeak]),
    (Pattern::ContinueElsewhere, Fault::ResetState, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::ContinueByNeighbour, Fault::SkipStep, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::RestartElsewhere, Fault::StaleState, Some(5), &[ViolationKind::WrongSum]),
    (Pattern::Concurrent, Fault::ExecuteTwice, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::StopReading, Fault::DropResponse, Some(30), &[ViolationKind::Lost]),
    (Pattern::KillClient, Fault::LeakSlotAtCancel, Some(3), &[ViolationKind::SlotLeak]),
    (Pattern::Restart, Fault::KeepState, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::Burst, Fault::LeakSlotAtEnd, Some(30), &[ViolationKind::SlotLeak]),
    (Pattern::AfterEnd, Fault::AcceptNoStart, Some(3), &[ViolationKind::MissingStartError]),
    (Pattern::EndTwice, Fault::AcceptNoStart, Some(3), &[ViolationKind::MissingStartError]),
    (Pattern::SharedId, Fault::SkipStep, Some(30), &[ViolationKind::WrongSum]),
    (Pattern::Malformed, Fault::RejectionEndsSequence, Some(1), &[ViolationKind::SpuriousStartError]),
    (Pattern::Timeout, Fault::ExpireEarly, Some(1), &[ViolationKind::SpuriousTimeout]),
    (Pattern::Deadline, Fault::RedoCancelled, None, &[ViolationKind::WrongSum]),
];

/// Long enough for what is sent to wait behind it.
const EXECUTION_MS: u64 = 4;

#[test]
fn what_a_server_does_wrong_then_is_found() {
    let patterns: Vec<_> = FOUND.iter().map(|(pattern, ..)| *pattern).collect();
    assert_eq!(patterns, FAULTS, "each has its fault");
    support::side_by_side(AT_A_TIME, FOUND, |(pattern, fault, chance, kinds)| {
        is_found(*pattern, *fault, *chance, kinds);
    });
}

#[test]
fn a_flaw_that_is_not_rejected_is_found() {
    is_found(Pattern::Malformed, Fault::AcceptBatch, None, &[ViolationKind::FlawAccepted]);
}

fn is_found(pattern: Pattern, fault: Fault, chance: Option<u64>, kinds: &[ViolationKind]) {
    let planted = chance.map_or(Planted::always(fault), |chance| Planted::once(fault, chance));
    // What waits for a slot has to do so, and not all with a time limit.
    let is_timeout = pattern == Pattern::Timeout;
    let (slots, patterns) = if is_timeout { (1, &[pattern, Pattern::Valid][..]) } else { (SLOTS, &[pattern][..]) };
    // A client that is a process of its own has no part in a simulation. On a busy machine the slot check cannot keep its sequences open
    // within the usual idle limit.
    let is_simulated = pattern != Pattern::KillClient;
    let _simulation = is_simulated.then(Simulation::begin);
    let idle_limit = if is_simulated { IDLE_LIMIT } else { 10 * IDLE_LIMIT };
    let server = server_of(idle_limit, Strategy::Direct, slots, &[planted], EXECUTION_MS);
    let result = stress(server.address, "custom_sequence_int32", patterns, 1, QUICK);
    assert!(server.committed(fault) > 0, "{fault} in {pattern} was not committed");
    let found: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
    let (violations, slots) = (&result.violations, &result.slots);
    assert!(!found.is_empty() && found.iter().all(|kind| kinds.contains(kind)), "{fault}: {violations:#?} {slots:?}");
}

#[test]
fn who_is_done_keeps_the_connections_that_neighbours_use() {
    // More workers than one thread serves: each one's neighbour is on another thread.
    let server = server(Strategy::Direct, SLOTS, &[], 1);
    let more = format!("{QUICK}\nload = {{ workers = 65, iterations = 2 }}\n{ONE_CONTEXT}");
    let result = stress_as(server.address, "implicit_sequence_int32", &[Pattern::ContinueByNeighbour], 1, &more);
    assert_correct("neighbours on other threads", &result);
}

#[test]
fn a_machine_that_can_make_no_more_connections_accuses_nobody() {
    let patterns = [Pattern::Valid, Pattern::Reset, Pattern::ContinueElsewhere, Pattern::RestartElsewhere];
    let transports = ["grpc-stream", "grpc-unary", "http"];
    let cases: Vec<_> = transports.iter().flat_map(|transport| [20, 30, 45].map(|left| (*transport, left))).collect();
    support::side_by_side(AT_A_TIME, &cases, |(transport, left)| {
        let simulation = Simulation::begin();
        let server = server(Strategy::Direct, SLOTS, &[], 1);
        simulation.limit_connections(*left);
        let endpoint =
            if *transport == "http" { format!("http://{}", server.http) } else { server.address.to_string() };
        let more = format!(
            "{QUICK}\nload = {{ workers = 4, iterations = 50 }}\n{ONE_CONTEXT}\nsending.transport = '{transport}'"
        );
        let result = stress_as(endpoint, "custom_sequence_int32", &patterns, 1, &more);
        assert!(result.violations.is_empty(), "{transport}, {left}: {:#?}", result.violations);
        let why = result.broken_off.as_deref().unwrap_or_default();
        assert!(why.contains("no more connections") && why.contains("os error"), "{transport}, {left}: {why:?}");
    });
}
