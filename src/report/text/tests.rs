//! Every message of a report, with all its variants, to be read.

pub(in crate::report) mod runs;

use std::time::Duration;

use super::{
    tables::{mean_batch, mean_step, memory},
    *,
};
use crate::{
    frame::HistoryWritten,
    preflight::{
        Note, Preflight,
        tests::{every_message, every_part_note},
    },
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck, SlotFinding, Unheard},
    recorder::Counts,
    report::{
        PlantedFault,
        checks::{
            Check,
            rows::{
                accounting, go_aways, health as health_lines, history, idle_limit, longest_wait, pending, phases,
                planted, restarts, slots as slots_line,
            },
        },
        mean_step::{InServer, MeanBatch, MeanStep},
    },
    run::{
        Absence, Growth, Health, Memory, NotReady, PhaseSpan, Restarts, RunError, ServerMemory, Slope, too_few_files,
    },
};
use oracle::{CountBounds, Holder, Leak, LongestWait, Violation, ViolationKind, diagnosis::Cause, history::Kept};
use wire::transport::GoAways;
use workload::{
    model::{Counted, Spent},
    scenario::ServerAction,
    seed::Seed,
    sequence::Pattern,
};

/// What is written, without colours.
fn plain(write: impl FnOnce(&mut anstream::StripStream<&mut Vec<u8>>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut anstream::StripStream::new(&mut out)).expect("memory has room");
    String::from_utf8(out).expect("UTF-8")
}

/// Checks as the usual report writes them.
fn lines(checks: &[Check]) -> String {
    let lines: Vec<_> = checks.iter().map(Line::of).collect();
    plain(|out| write_lines(&lines, Extent::Usual.columns(), out))
}

/// How a number of none, of one or of several is written.
const COUNTS: [u64; 3] = [0, 1, 2];

fn found(slots: u32) -> [SlotFinding; 6] {
    let unanswered = |later| Leak::Unanswered { open: 1, leaked: slots, waited_ms: 9, later };
    [
        SlotFinding::AllThere { slots },
        SlotFinding::Leaked { slots, leaked: 1, seen: Leak::NotHandedOn { waited_ms: 9 } },
        SlotFinding::Leaked { slots: slots + 1, leaked: slots, seen: unanswered(None) },
        SlotFinding::Leaked { slots: slots + 1, leaked: slots, seen: unanswered(Some(slots)) },
        SlotFinding::ReleasedTwice { slots, within_ms: 9 },
        SlotFinding::NotCheckable { why: "WHY".to_owned() },
    ]
}

fn counts() -> String {
    let rose = |n| Counted { success: n, fail: n, inference: n, execution: n };
    let mut all = Vec::new();
    for n in COUNTS {
        all.push(accounting(&Accounting::Agrees {
            rose: rose(n),
            spent: Spent::default(),
            unheard: Unheard { requests: n, executed: n / 2 },
        }));
        let expected = CountBounds { success_min: 3, success_max: 3 + n, fail_max: n };
        all.push(accounting(&Accounting::Differs { rose: rose(n), expected }));
        if n > 0 {
            all.push(pending(&PendingRequests::Left { count: n }));
        }
    }
    all.push(accounting(&Accounting::NotCheckable { why: "WHY".to_owned() }));
    all.push(pending(&PendingRequests::None));
    all.push(pending(&PendingRequests::NotChecked { why: "WHY".to_owned() }));
    lines(&all)
}

fn slots() -> String {
    let mut all = Vec::new();
    for n in [1_u32, 2] {
        for finding in found(n) {
            all.push(slots_line(&SlotCheck { finding, requests: n.into(), took_us: 7000, server: None }));
        }
        for ended_us in [None, Some(5000)] {
            let found = IdleSearch::Found { configured_us: 4000, kept_us: 4100, ended_us, trials: n };
            all.extend(idle_limit(&found));
        }
    }
    all.extend(idle_limit(&IdleSearch::NotAsked));
    all.extend(idle_limit(&IdleSearch::NotCheckable { why: "WHY".to_owned() }));
    lines(&all)
}

fn health() -> String {
    use oracle::Subject::{Model, Server};
    let not_ready =
        |of, until_ns, asked_for, executed| NotReady { of, from_ns: 1_500_000_000, until_ns, executed, asked_for };
    let mut health = Health {
        asked: 10,
        unanswered: 1,
        not_ready: vec![not_ready(Server, None, false, 1), not_ready(Model, Some(2_500_000_000), true, 2)],
        memory: Some(ServerMemory { first: 1_000_000, last: 3_000_000, growth: None }),
    };
    let mut all = health_lines(&health, false);
    health.not_ready.clear();
    health.unanswered = 0;
    for (is_steady, sequences) in [(true, 1000), (false, 1000), (false, 1)] {
        let per_sequence = Slope { mean: 2000.4, margin: 12.6 };
        let per_hour = Slope { mean: 72_000_000.0, margin: 500_000.0 };
        let growth = Some(Growth { bytes: 2_000_000, sequences, per_sequence, per_hour, is_steady });
        health.memory = Some(ServerMemory { first: 1_000_000, last: 3_000_000, growth });
        all.extend(health_lines(&health, true));
    }
    health.memory = None;
    all.extend(health_lines(&health, false));
    lines(&all)
}

fn connections_and_waits() -> String {
    use ServerAction::{Reload, ReloadDirect, ReloadOldest, Restart};
    let mut all: Vec<_> =
        COUNTS.iter().filter_map(|&n| go_aways(GoAways { connections: n, retried: n, cut: n })).collect();
    for population in ["", "fast"] {
        let population = population.to_owned();
        let correlation_id = workload::sequence::CorrelationId(std::num::NonZeroU64::MIN);
        let holder = |slot| Holder { population: population.clone(), correlation_id, slot, held_ms: 5 };
        for extent in [Extent::Usual, Extent::Wide] {
            let holders = [None, Some(3)].into_iter().cycle().take(6).map(holder).collect();
            let longest =
                LongestWait { population: population.clone(), correlation_id, at_ns: 1_000_000, waited_ms: 9, holders };
            all.push(longest_wait(&longest, extent));
        }
    }
    let absence = |is_another| Absence { at_ns: 61_200_000_000, lasted_ns: 3_400_000_000, is_another };
    let absences: Vec<_> = [Some(true), Some(false), None, None].map(absence).into();
    for extent in [Extent::Usual, Extent::Wide] {
        all.extend(restarts(&Restarts::default(), extent));
        all.extend(restarts(&Restarts { count: 1, absences: absences[..1].to_vec() }, extent));
        all.extend(restarts(&Restarts { count: 5, absences: absences.clone() }, extent));
    }
    let span = |server: Option<ServerAction>| PhaseSpan {
        name: "second".to_owned(),
        began_us: 1_000_000,
        ended_us: 2_000_000,
        server_from_us: None,
        server: server.map(|action| format!("{}, in 20 ms", action.done())),
        other_loads: None,
    };
    let actions = [Reload, ReloadDirect, ReloadOldest, Restart].map(Some);
    let spans: Vec<_> = [None].into_iter().chain(actions).map(span).collect();
    all.extend(phases(&spans, |_| true));
    all.extend(phases(&spans[..1], |_| false));
    lines(&all)
}

fn history_and_faults() -> String {
    let mut all = Vec::new();
    for n in COUNTS {
        let kept = Kept { entries: n, left_out: n, lost: n, ..Kept::default() };
        all.push(history(&HistoryWritten { path: "FILE".into(), kept }));
        let fates = [(n, 0, false), (n, n, false), (n, n, true)];
        for (chances, committed, is_found) in if n == 0 { &fates[..1] } else { &fates } {
            let its = PlantedFault {
                fault: "off-by-one".to_owned(),
                chances: *chances,
                committed: *committed,
                committed_at_us: Vec::new(),
            };
            all.push(planted(&its, *is_found));
        }
    }
    let memories = [
        Memory { after_10_s: Some(1), at_end: Some(2), peak: Some(3) },
        Memory { after_10_s: None, at_end: Some(2), peak: Some(3) },
        Memory::default(),
    ];
    let memories = memories.map(|its| [Extent::Usual, Extent::Wide].map(|extent| memory(&its, extent) + "\n").concat());
    lines(&all) + &memories.concat()
}

fn means() -> String {
    let server = InServer {
        requests: 100,
        queue: 40_000.0,
        compute: 20_000.0,
        compute_input: 1000.0,
        compute_infer: 18_000.0,
        compute_output: 1000.0,
        other: 0.0,
    };
    let step = |before: f64, seen: f64, server: InServer| MeanStep {
        steps: 100,
        total: 2.0 * before + seen,
        client_late: before,
        held_back: before,
        outside: Some(seen - server.total()).filter(|us| *us >= 0.0),
        server: Some(server),
    };
    let short = InServer { queue: 400.0, compute: 200.0, ..server };
    let all = [
        step(0.0, 70_000.0, server),
        step(9000.0, 70_000.0, server),
        step(0.0, 700.0, short),
        // An iterative model, requests without a response, and a model that goes on when it has answered.
        step(0.0, 70_000.0, InServer { other: 9000.0, ..server }),
        step(0.0, 70_000.0, InServer { requests: 101, ..server }),
        step(0.0, 50_000.0, server),
        MeanStep { server: None, outside: None, ..step(0.0, 70_000.0, server) },
    ];
    let steps = all.iter().flat_map(|its| [Extent::Usual, Extent::Wide].map(|extent| mean_step(its, extent)));
    let batch = |mean, possible| mean_batch(MeanBatch { mean, possible });
    let batches =
        [batch(Some(2.1), Some(3.9)), batch(Some(4.0), Some(3.9)), batch(Some(2.1), None), batch(None, Some(3.9))];
    steps.chain(batches).map(|line| line.unwrap_or_else(|| "(nothing)".to_owned()) + "\n").collect()
}

fn kinds_and_causes() -> String {
    let kinds = ViolationKind::ALL.iter().map(|kind| format!("{kind}: {}\n", kind.what()));
    let causes = Cause::ALL.iter().map(|cause| format!("{cause} ({}): {}\n", cause.class(), cause.what()));
    kinds.chain(causes).collect()
}

#[test]
fn every_message_with_all_its_variants() {
    let parts: Vec<_> = every_part_note().into_iter().map(|note| format!("{note}\n")).collect();
    let why = || "WHY".to_owned();
    let errors = [
        RunError::Interrupted,
        RunError::Endpoint(why()),
        RunError::Access(why()),
        RunError::History(why()),
        RunError::Process(why()),
        RunError::Resources(too_few_files(1000, 500)),
    ];
    let errors = errors.map(|error| format!("{error}\n"));
    let before = every_message().map(|(title, lines)| (title, lines.concat()));
    let sections = [
        ("what is found before the run", runs::preflights()),
        ("counts", counts()),
        ("slots", slots()),
        ("health", health()),
        ("connections and waits", connections_and_waits()),
        ("history and faults", history_and_faults()),
        ("parts of the protocol", parts.concat()),
        ("errors", errors.concat()),
        ("means", means()),
        ("kinds and causes", kinds_and_causes()),
        ("violations", runs::violations()),
        ("verdicts", runs::verdicts()),
        ("claims", runs::claims()),
        ("a report", runs::report()),
        ("a suite", runs::suite()),
    ];
    let text: Vec<_> = before.into_iter().chain(sections).map(|(title, text)| format!("== {title}\n{text}")).collect();
    insta::assert_snapshot!(text.join("\n"));
}
