//! Diagnoses of faults that are planted in the reference server.

mod support;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use sequence_stress::{
    history::Entry,
    oracle::{
        Violation,
        diagnosis::{Cause, Explanation, explain},
    },
    reference::{Fault, ModelOptions, Options, Planted, Server},
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};
use support::{
    drive::{Drive, drive},
    naming::names_rightly,
};

/// The default scenario with values of 32 bits, and short limits.
const SCENARIO: &str = "
load.iterations = 60
values.uniform = { min = -2147483648, max = 2147483647 }
limits = { lost_after_ms = 1000, step_ms = 6, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
patterns.common = { valid = 6, valid-valid = 2, valid-no-end = 1, no-end = 0.3, no-start = 1 }
patterns.rare = { valid-valid = 1, valid-no-end = 1, no-end = 0.3 }
";

const DIRECT: &str = "custom_sequence_int32";
const OLDEST: &str = "oldest_sequence_int32";
const IMPLICIT: &str = "implicit_sequence_int32";

/// How long before a violation, and after it, what happened counts.
const WINDOW_NS: (u64, u64) = (5_000_000_000, 1_500_000_000);

/// The faults that show, with their models; chances at which they are committed once; what is different in the scenario.
type Row = (Fault, &'static str, &'static [u64], &'static str);

const SPREAD: &[u64] = &[60, 141, 302, 455, 618];
const SOME: &[u64] = &[60, 302];
const FEW: &[u64] = &[3, 7];
const STEPWISE: &str = "sending.window = 1";

const ROWS: &[Row] = &[
    (Fault::OffByOne, DIRECT, SPREAD, ""),
    (Fault::KeepState, DIRECT, &[10, 21, 33, 40], ""),
    (Fault::KeepState, IMPLICIT, &[10, 21, 33, 40], ""),
    (Fault::KeepState, OLDEST, &[1, 2, 3], ""),
    (Fault::ResetState, DIRECT, SPREAD, ""),
    (Fault::StaleState, DIRECT, &[3, 10, 21, 33], ""),
    (Fault::StaleState, OLDEST, &[3, 10, 21, 33], ""),
    (Fault::SwapStates, DIRECT, SPREAD, ""),
    (Fault::SwapStates, OLDEST, SPREAD, ""),
    (Fault::SwapStates, IMPLICIT, SPREAD, ""),
    (Fault::DoubleRelease, DIRECT, &[1, 2, 3, 4], STEPWISE),
    (Fault::ExecuteTwice, OLDEST, SPREAD, ""),
    (Fault::SkipStep, DIRECT, SPREAD, ""),
    (Fault::OutOfOrder, DIRECT, SPREAD, ""),
    (Fault::EndBeforeLast, DIRECT, &[3, 7, 12, 20], ""),
    (Fault::EndBeforeLast, OLDEST, &[3, 7, 12, 20], ""),
    (Fault::StateNotSaved, IMPLICIT, SPREAD, ""),
    (Fault::StateOfAnotherSlot, IMPLICIT, SPREAD, ""),
    (Fault::StartMissing, DIRECT, &[10, 21, 33, 40], ""),
    (Fault::StartMissing, IMPLICIT, &[10, 21, 33], ""),
    (Fault::StartSpurious, DIRECT, SPREAD, ""),
    (Fault::EndSpurious, OLDEST, SPREAD, ""),
    (Fault::ReadyMissing, DIRECT, SPREAD, ""),
    (Fault::ReadySpurious, DIRECT, &[10, 60, 200], STEPWISE),
    (Fault::CorridZero, OLDEST, SPREAD, ""),
    (Fault::CorridOther, OLDEST, SPREAD, ""),
    (Fault::DropResponse, DIRECT, SOME, ""),
    (Fault::DuplicateResponse, DIRECT, SOME, ""),
    (Fault::SwapResponses, DIRECT, SOME, ""),
    (Fault::Misdeliver, DIRECT, SOME, ""),
    (Fault::WrongRequestId, DIRECT, SOME, ""),
    (Fault::WrongModelName, DIRECT, SOME, ""),
    (Fault::WrongOutputName, DIRECT, SOME, ""),
    (Fault::WrongOutputType, DIRECT, SOME, ""),
    (Fault::WrongOutputShape, DIRECT, SOME, ""),
    (Fault::WrongOutputLength, DIRECT, SOME, ""),
    (Fault::TruncateOutput, DIRECT, SOME, ""),
    (Fault::EmptyResponse, DIRECT, SPREAD, ""),
    (Fault::LateResponse, DIRECT, SOME, ""),
    (Fault::ModelError, DIRECT, SOME, ""),
    (Fault::WrongErrorText, DIRECT, FEW, ""),
    (Fault::CloseStream, DIRECT, SOME, ""),
    (Fault::NeverClose, DIRECT, FEW, ""),
    (Fault::LeakSlotAtEnd, DIRECT, &[], ""),
    (Fault::NeverReap, DIRECT, &[], ""),
    (Fault::LeakSlotAtIdle, DIRECT, &[], ""),
    (Fault::RefuseMidSequence, DIRECT, SOME, ""),
    (Fault::RefuseStart, OLDEST, FEW, ""),
    (Fault::AcceptNoStart, DIRECT, FEW, ""),
    (Fault::StarveBacklog, DIRECT, &[], ""),
    (Fault::HangInstance, DIRECT, &[60, 200], ""),
    (Fault::SlowExecution, DIRECT, &[60, 200], ""),
    (Fault::LateRelease, OLDEST, &[60, 200], ""),
    (Fault::Crash, DIRECT, &[400], ""),
    (Fault::Restart, DIRECT, &[400], ""),
    (Fault::CountTwice, DIRECT, SOME, ""),
    (Fault::CountNot, OLDEST, SOME, ""),
];

fn server(model: &str, planted: Planted) -> Server {
    let models = ModelOptions {
        instances: 2,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(500),
        execution: Duration::from_millis(u64::from(model != DIRECT || planted.fault == Fault::DoubleRelease)),
        ..ModelOptions::default()
    };
    let fault_hold = Duration::from_secs(8);
    Server::start(Options { models, faults: vec![planted], fault_hold, threads: 1, ..Options::default() })
        .expect("a free port")
}

fn scenario(server: &Server, model: &str, more: &str) -> Scenario {
    let text = format!("{SCENARIO}{more}\ntarget = {{ endpoint = '{}', model = '{model}' }}", server.address);
    Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario")
}

fn window<'d>(drive: &'d Drive, violation: &Violation) -> &'d [Entry] {
    let (before, after) = WINDOW_NS;
    let from = drive.entries.partition_point(|entry| entry.at + before < violation.at_ns);
    let until = drive.entries.partition_point(|entry| entry.at <= violation.at_ns + after);
    &drive.entries[from..until]
}

/// A run with one planted fault, and what its first violation is put down to.
struct Diagnosed {
    planted: Planted,
    model: &'static str,
    committed: u64,
    violation: Option<Violation>,
    explanations: Vec<Explanation>,
}

impl Diagnosed {
    fn new(planted: Planted, model: &'static str, more: &str, seed: u64) -> Self {
        let server = server(model, planted);
        let drive = drive(&scenario(&server, model, more), Seed(seed));
        let violation = drive.violations.first().cloned();
        let explained = violation.as_ref().map(|violation| explain(violation, window(&drive, violation), &drive.known));
        let committed = server.committed(planted.fault);
        Self { planted, model, committed, violation, explanations: explained.unwrap_or_default() }
    }

    fn top(&self) -> Option<Cause> {
        self.explanations.first().map(|explanation| explanation.cause)
    }

    fn is_named_rightly(&self, always: bool) -> bool {
        self.top().is_some_and(|top| names_rightly(self.planted.fault.info().name, top, always))
    }

    fn told(&self) -> String {
        let violation = self.violation.as_ref().map_or("nothing".to_owned(), ToString::to_string);
        let explanations: Vec<_> =
            self.explanations.iter().map(|one| format!("      {}: {}", one.cause, one.evidence)).collect();
        format!("{} in {}: {violation}\n{}", self.planted, self.model, explanations.join("\n"))
    }
}

/// All runs; most of the time of some is waiting.
fn diagnose_all(runs: &[(Planted, &'static str, &'static str)]) -> Vec<Diagnosed> {
    const AT_A_TIME: usize = 6;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((planted, model, more)) = runs.get(next.fetch_add(1, Relaxed)) {
                    let diagnosed = Diagnosed::new(*planted, model, more, 7);
                    done.lock().expect("no panic").push(diagnosed);
                }
            });
        }
    });
    done.into_inner().expect("no panic")
}

/// Checks that of the runs that show anything enough are named rightly.
fn check(done: &[Diagnosed], always: bool, least_percent: usize) {
    let shown: Vec<_> = done.iter().filter(|one| one.violation.is_some()).collect();
    let right = shown.iter().filter(|one| one.is_named_rightly(always)).count();
    let mut confusion: BTreeMap<(Fault, String), usize> = BTreeMap::new();
    for one in done {
        let top = match one.top() {
            Some(top) => top.to_string(),
            None if one.committed == 0 => "(not committed)".to_owned(),
            None => "(nothing seen)".to_owned(),
        };
        *confusion.entry((one.planted.fault, top)).or_default() += 1;
    }
    let mut table = String::new();
    for ((fault, top), times) in &confusion {
        let _ = writeln!(table, "{fault} -> {top}: {times}");
    }
    for one in shown.iter().filter(|one| !one.is_named_rightly(always)) {
        let _ = writeln!(table, "WRONG {}", one.told());
    }
    let summary = format!("{right} of {} named rightly; {} showed nothing", shown.len(), done.len() - shown.len());
    #[expect(clippy::print_stderr, reason = "for those who want to see it")]
    {
        eprintln!("{table}{summary}");
    }
    assert!(right * 100 >= shown.len() * least_percent, "{table}{summary}");
}

#[test]
fn a_fault_that_happens_once_is_diagnosed() {
    let rows = ROWS.iter().flat_map(|(fault, model, chances, more)| {
        chances.iter().map(move |chance| (Planted::once(*fault, *chance), *model, *more))
    });
    check(&diagnose_all(&rows.collect::<Vec<_>>()), false, 95);
}

#[test]
fn a_fault_that_always_happens_is_diagnosed() {
    let lasting = ROWS.iter().filter(|(fault, ..)| ![Fault::Crash, Fault::Restart].contains(fault));
    let rows = lasting.map(|(fault, model, _, more)| (Planted::always(*fault), *model, *more));
    check(&diagnose_all(&rows.collect::<Vec<_>>()), true, 92);
}
