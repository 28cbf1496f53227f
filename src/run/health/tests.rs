#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "curves")]

use super::*;

const SECOND: Nanos = 1_000_000_000;

fn progress(completed: u64, sequences: u64) -> Progress {
    Progress { completed, sequences, ..Progress::default() }
}

/// A look at a server that is ready.
fn yes() -> Look {
    look(Some(true), Some(true))
}

fn look(server: Option<bool>, model: Option<bool>) -> Look {
    Look { asked: true, server, model, ..Look::default() }
}

/// What comes of these looks, one each second, with ten requests answered between them.
fn watched(looks: &[Look]) -> (Health, Vec<Violation>) {
    watched_by(Watched { reconnects: false, ..Watched::default() }, looks)
}

fn watched_by(mut watched: Watched, looks: &[Look]) -> (Health, Vec<Violation>) {
    let mut violations = Vec::new();
    let mut now = 0;
    for (look, answered) in looks.iter().zip((10..).step_by(10)) {
        now += SECOND;
        violations.extend(watched.take(*look, now, &progress(answered, 0)));
    }
    let answered = 10 * (looks.len() as u64 + 1);
    let Concluded { health, left: rest, .. } =
        watched.conclude(now + SECOND, &progress(answered, 0), Duration::from_nanos(now + SECOND));
    violations.extend(rest);
    (health, violations)
}

#[test]
fn a_server_that_is_always_ready_is_not_accused() {
    let (health, violations) = watched(&[yes(); 5]);
    assert_eq!((health, violations), (Health { asked: 10, ..Health::default() }, Vec::new()));
}

#[test]
fn an_endpoint_that_tells_no_readiness_is_not_asked() {
    let (health, violations) = watched(&[Look::default(); 5]);
    assert_eq!((health, violations), (Health::default(), Vec::new()));
}

#[test]
fn a_model_that_is_said_not_to_be_ready_is_a_violation_with_its_time() {
    let no = look(Some(true), Some(false));
    let (health, violations) = watched(&[yes(), no, no, yes(), no]);
    let of = Subject::Model;
    let spans = [
        NotReady { of, from_ns: 2 * SECOND, until_ns: Some(4 * SECOND), executed: 20, asked_for: false },
        NotReady { of, from_ns: 5 * SECOND, until_ns: None, executed: 10, asked_for: false },
    ];
    assert_eq!(health.not_ready, spans);
    let found: Vec<_> = violations.iter().map(|its| (its.kind, its.at_ns, its.explanations[0].cause)).collect();
    let kind = ViolationKind::NotReady;
    assert_eq!(found, [(kind, 2 * SECOND, Cause::ReadinessWrong), (kind, 5 * SECOND, Cause::ReadinessWrong)]);
    assert_eq!(violations[0].evidence, Evidence::NotReady { of, executed: 10 });
}

#[test]
fn a_server_that_is_not_ready_and_answers_nothing_may_be_ending() {
    let mut watched = Watched::default();
    assert_eq!(watched.take(look(Some(false), None), SECOND, &progress(7, 0)), []);
    let violations = watched.take(look(None, None), 2 * SECOND, &progress(7, 0));
    assert_eq!(violations[0].explanations[0].cause, Cause::Unloaded);
    assert_eq!(violations.len(), 1);
    let Concluded { health, left: rest, .. } = watched.conclude(3 * SECOND, &progress(7, 0), Duration::from_secs(3));
    assert_eq!((health.asked, health.unanswered, rest), (4, 3, Vec::new()));
}

#[test]
fn a_server_that_is_about_to_be_restarted_may_say_that_it_is_not_ready() {
    let no = look(Some(false), Some(true));
    let (away, back) = (Look { disturbances: 1, is_disturbed: true, ..no }, Look { disturbances: 2, ..yes() });
    let reconnecting = |looks: &[Look]| watched_by(Watched { reconnects: true, ..Watched::default() }, looks);
    let (health, violations) = reconnecting(&[yes(), no, no, away, back, back]);
    assert_eq!(violations, []);
    assert!(health.not_ready.iter().all(|span| span.asked_for), "{health:?}");
    // One that is not restarted, and one that says so long before, have no reason.
    for looks in [&[yes(), no, no, yes(), yes()][..], &[yes(), no, no], &[yes(), no, yes(), away, back]] {
        assert_eq!(reconnecting(looks).1.len(), 1, "{looks:?}");
    }
    assert_eq!(watched(&[yes(), no, no, away, back]).1.len(), 1, "a run that does not reconnect");
}

#[test]
fn what_the_run_does_to_the_server_may_take_it_out_of_service() {
    let no = look(Some(false), Some(false));
    let disturbed = Look { is_disturbed: true, ..no };
    let (health, violations) = watched(&[yes(), disturbed, disturbed, yes()]);
    assert_eq!(violations, []);
    assert!(health.not_ready.len() == 2 && health.not_ready.iter().all(|span| span.asked_for), "{health:?}");

    // The model has to be ready again when that is done. The server may still load others, for a minute.
    let (health, violations) = watched(&[yes(), disturbed, no, yes()]);
    assert_eq!(violations.len(), 1, "{violations:#?}");
    let spans: Vec<_> =
        health.not_ready.iter().map(|span| (span.of, span.asked_for, span.from_ns / SECOND, span.until_ns)).collect();
    let (third, fourth) = (Some(3 * SECOND), Some(4 * SECOND));
    let (server, model) = (Subject::Server, Subject::Model);
    assert_eq!(spans, [(server, true, 2, fourth), (model, true, 2, third), (model, false, 3, fourth)]);
    let long: Vec<_> = [disturbed].into_iter().chain([look(Some(false), Some(true)); 62]).collect();
    assert_eq!(watched(&long).1.len(), 1, "a minute is over");

    // While the run has it load others it may be out of service, and the model may not.
    let others_load = |model| Look { others_load: true, ..look(Some(false), Some(model)) };
    assert_eq!(watched(&[yes(), others_load(true), yes()]).1, []);
    assert_eq!(watched(&[yes(), others_load(false), yes()]).1.len(), 1);

    // What began and ended between two looks counts, too.
    let after = Look { disturbances: 2, ..look(Some(false), Some(true)) };
    assert_eq!(watched(&[yes(), after, Look { disturbances: 2, ..yes() }]).1, []);
}

#[test]
fn a_server_that_flips_for_ever_fills_nothing() {
    let looks: Vec<_> = [look(Some(false), Some(true)), yes()].repeat(500);
    let (health, violations) = watched(&looks);
    assert_eq!((health.not_ready.len(), violations.len()), (SPANS_MAX, SPANS_MAX));
}

/// What is said of a memory that is looked at each second, with so many sequences between the looks.
fn memory_of(seconds: u64, sequences: u64, bytes: impl Fn(u64) -> u64) -> Option<ServerMemory> {
    let mut watched = Watched::default();
    for second in 1..=seconds {
        let look = Look { taken: Some(Taken { bytes: bytes(second), cpu_us: None }), ..yes() };
        watched.take(look, second * SECOND, &progress(0, second * sequences));
    }
    let all = progress(0, seconds * sequences);
    let Concluded { health, left: violations, .. } =
        watched.conclude(seconds * SECOND, &all, Duration::from_secs(seconds));
    let growth = health.memory.as_ref().and_then(|memory| memory.growth);
    assert_eq!(violations.len(), usize::from(growth.is_some_and(|growth| growth.is_steady)), "{violations:#?}");
    health.memory
}

#[test]
fn the_memory_of_a_backlog_that_grows_is_no_leak() {
    let is_leak = |answered: fn(u64) -> u64| {
        let mut watched = Watched::default();
        for second in 1..=200 {
            let requests = second * 800;
            let look = Look { taken: Some(Taken { bytes: 50 * MB + second * 400 * 4096, cpu_us: None }), ..yes() };
            let progress = Progress { requests, answered: answered(requests), ..progress(0, second * 50) };
            watched.take(look, second * SECOND, &progress);
        }
        let all = progress(0, 200 * 50);
        let Concluded { left, .. } = watched.conclude(200 * SECOND, &all, Duration::from_secs(200));
        !left.is_empty()
    };
    assert!(!is_leak(|requests| requests / 2), "half of them stay behind, each with a page");
    assert!(is_leak(|requests| requests - 400), "as many as ever are unanswered");
}

fn memory(seconds: u64, bytes: impl Fn(u64) -> u64) -> Option<ServerMemory> {
    memory_of(seconds, 50, bytes)
}

fn growth(seconds: u64, bytes: impl Fn(u64) -> u64) -> Growth {
    memory(seconds, bytes).and_then(|memory| memory.growth).expect("long enough")
}

fn is_leak(seconds: u64, bytes: impl Fn(u64) -> u64) -> bool {
    growth(seconds, bytes).is_steady
}

const MB: u64 = 1 << 20;
/// How much memory is that is not the same twice: from 0 to just under 1.
fn noise(second: u64) -> f64 {
    (second.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24)
}

/// So many MB.
fn mb(of: f64) -> u64 {
    (of * MB as f64) as u64
}

#[test]
fn memory_that_grows_with_the_sequences_is_found() {
    for seconds in [90, 600, 36_000] {
        assert!(is_leak(seconds, |second| 200 * MB + second * MB / 2), "{seconds} s");
        // Half as much again comes and goes.
        assert!(is_leak(seconds, |second| 200 * MB + second * MB / 2 + second % 5 * 20 * MB), "{seconds} s");
    }
    // 16 MB in an hour, under 200 MB that come and go.
    assert!(is_leak(7200, |second| 200 * MB + second * MB * 16 / 3600 + mb(200.0 * noise(second))));
    // 64 bytes for each of a thousand sequences in a second.
    let long = memory_of(3600, 1000, |second| 200 * MB + second * 64_000 + second % 7 * MB);
    assert!(long.and_then(|memory| memory.growth).is_some_and(|growth| growth.is_steady));
}

#[test]
fn a_leak_that_begins_late_is_found() {
    for begins in [100, 180, 250] {
        let leak = |second: u64| 200 * MB + second.saturating_sub(begins) * MB / 2;
        assert!(is_leak(600, leak), "{begins}");
        assert!(is_leak(600, |second| leak(second) + mb(5.0 * noise(second))), "{begins}");
    }
}

#[test]
fn slopes_are_told_with_how_certain_they_are() {
    let exact = growth(600, |second| 200 * MB + second * MB);
    // 50 sequences in a second, and 3600 seconds in an hour.
    let near =
        |slope: Slope, expected: f64| (slope.mean / expected - 1.0).abs() < 0.01 && slope.margin < expected / 50.0;
    assert!(near(exact.per_sequence, MB as f64 / 50.0) && near(exact.per_hour, 3600.0 * MB as f64), "{exact:?}");
    let each = exact.bytes / exact.sequences.cast_signed();
    assert!((19_000..23_000).contains(&each), "{exact:?}");
    for seconds in [600, 3600] {
        let noisy = growth(seconds, |second| 200 * MB + second * MB / 20 + mb(100.0 * noise(second / 60)));
        let Slope { mean, margin } = noisy.per_hour;
        assert!((mean - 180.0 * MB as f64).abs() < margin && margin > 5.0 * MB as f64, "{noisy:?}");
    }
    let flat = growth(600, |_| 200 * MB);
    assert_eq!((flat.per_sequence, flat.bytes), (Slope::default(), 0));
}

#[test]
fn memory_that_does_not_grow_with_the_sequences_is_not_accused() {
    let till = |second: u64, most: u64| second.min(most) as f64;
    let healthy: [(&str, &dyn Fn(u64) -> u64); 14] = [
        ("the same", &|_| 200 * MB),
        ("an allocator that warms up", &|second| 200 * MB + 100 * MB * second / (second + 30)),
        ("an allocator that warms up slowly", &|second| mb(200.0 + 400.0 * (1.0 - (-(second as f64) / 600.0).exp()))),
        ("an allocator that takes longer than the run", &|second| {
            mb(200.0 + 800.0 * (1.0 - (-(second as f64) / 900.0).exp()))
        }),
        ("a logarithm", &|second| mb(200.0 + 100.0 * (second.max(1) as f64).ln())),
        ("a square root", &|second| mb(200.0 + 20.0 * (second as f64).sqrt())),
        ("a cache that fills", &|second| 200 * MB + second.min(300) * MB),
        ("a cache that fills late", &|second| mb(200.0 + till(second.saturating_sub(200), 200))),
        ("what comes and goes", &|second| 200 * MB + second % 17 * 10 * MB),
        ("what is collected now and then", &|second| 200 * MB + second % 230 * MB),
        ("what is collected once", &|second| 200 * MB + second % 290 * MB),
        ("one step", &|second| if second > 350 { 400 * MB } else { 200 * MB }),
        ("three steps", &|second| 200 * MB + second / 160 * 100 * MB),
        ("less and less", &|second| 900 * MB - second * MB / 2),
    ];
    for (what, bytes) in healthy {
        assert!(!is_leak(600, bytes), "{what}");
        assert!(!is_leak(600, |second| bytes(second) + mb(10.0 * noise(second))), "{what}, with noise");
        // The same in a run of which not each look is kept.
        assert!(!is_leak(6000, |second| bytes(second / 10)), "{what}, in a long run");
    }
    // 40 bytes for each sequence are too few for a state.
    assert!(!is_leak(36_000, |second| 200 * MB + second * 50 * 40));
}

#[test]
fn of_a_long_run_the_least_of_all_looks_is_kept() {
    // What comes and goes is least in each thirtieth look alone; with every second one left out most of these would be missed.
    let rises = |second: u64| 200 * MB + second * MB / 100 + if second % 30 == 7 { 0 } else { 300 * MB };
    let growth = growth(20_000, rises);
    let expected = 0.75 * 7.0 / 8.0 * 20_000.0 / 100.0 * MB as f64;
    assert!(growth.is_steady && (growth.bytes as f64 / expected - 1.0).abs() < 0.02, "{growth:?} {expected}");
}

#[test]
fn a_short_run_says_nothing_of_growth() {
    let memory = memory(79, |second| 200 * MB + second * MB).expect("it was looked at");
    assert_eq!(memory, ServerMemory { first: 201 * MB, last: 279 * MB, growth: None });
    assert_eq!(self::memory(0, |_| 1), None);
}

#[test]
fn a_process_that_is_gone_has_ended() {
    assert!(MemorySource::Process(u32::MAX).has_ended() && !MemorySource::Process(std::process::id()).has_ended());
}
