//! Messages that take a whole run: its beginning, its verdict, and its line of a suite.

use std::sync::Arc;

use super::*;
use crate::{
    preflight::{
        Hints, Part,
        tests::{scenario, told},
    },
    recorder::{Gauges, Series, Tally, Waits},
    report::{Pictured, ScenarioOutcome, SuiteResult, SuiteRow, write_suite_header},
    run::{Arrived, End, Interrupted, Origin, Rank, Ranks, Restarts, RunResult},
};
use oracle::{diagnosis::Explanation, history::Scene};
use workload::{
    claim::{Claim, Claims},
    conversation::Transport,
    model::Strategy,
};

/// All that the command line can tell.
const HINTS: Hints = Hints {
    slots: Some(4),
    idle_limit: Some(Duration::from_secs(2)),
    strategy: Some(Strategy::Direct),
    formula: None,
    initial_state: None,
    responses: None,
};

const POPULATIONS: &str = "
    [[population]]
    name = 'fast'
    load.workers = 1
    fail_if = ['sequence.p99 > 5ms']
    [[population]]
    name = 'slow'
    load = { workers = 2, iterations = 3, duration_s = 60 }
    fail_if = ['wait_for_slot.p50 > 1ms', 'wait_for_slot.max > 2s in any 5s']
";

/// The lines of a report in which a population's iterations began at a rate.
fn rate_lines(extent: Extent, begun_late: u64, not_begun: u64, most_at_a_time: u32) -> String {
    let mut summary = summary("", Hints::default());
    let population = String::new();
    summary.result.arrived = vec![Arrived { population, begun: 50, begun_late, not_begun, most_at_a_time, workers: 4 }];
    let text = plain(|out| write_text(&summary, extent, out));
    let lines = text.lines().skip_while(|line| !line.starts_with("  arrivals"));
    let own = lines.enumerate().take_while(|(place, line)| *place == 0 || line.starts_with("      "));
    own.map(|(_, line)| line.trim()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rate_that_was_not_reached_is_told_with_its_reason() {
    let usual = |late, not_begun, most| rate_lines(Extent::Usual, late, not_begun, most);
    assert_eq!(usual(0, 0, 4), "arrivals       50 iterations began, at most 4 at a time");
    assert_eq!(
        usual(3, 0, 4),
        "arrivals       50 iterations began, at most 4 at a time; 3 began late, because all workers were busy (more: -c)"
    );
    let missed = "arrivals       50 iterations began, at most 4 at a time; 9 that were due did not begin, because all workers were busy (more: -c)";
    assert_eq!(usual(3, 9, 4), missed);
    assert_eq!(
        usual(0, 9, 2),
        "arrivals       50 iterations began, at most 2 at a time; 9 that were due did not begin, because the load ended first"
    );
    assert_eq!(rate_lines(Extent::Short, 3, 9, 4), missed, "-q");
    assert_eq!(rate_lines(Extent::Short, 3, 0, 4), "");
}

/// A run in which nothing was sent.
pub(in crate::report) fn summary(text: &str, hints: Hints) -> Summary {
    let scenario = scenario(text);
    let result = RunResult {
        origin: Origin::default(),
        preflight: told(&scenario, hints),
        tally: Tally::default(),
        violations: Vec::new(),
        beside: Vec::new(),
        accounting: Accounting::NotCheckable { why: "WHY".to_owned() },
        iterations: 0,
        pending: PendingRequests::None,
        slots: SlotCheck { finding: SlotFinding::AllThere { slots: 4 }, requests: 9, took_us: 7000, server: None },
        idle_limit: IdleSearch::NotAsked,
        began: None,
        elapsed: Duration::from_secs(2),
        arrived: Vec::new(),
        cpu_us: 0,
        memory: Memory::default(),
        interrupted: Interrupted(false),
        end: End::Known,
        recorded: None,
        scene: Arc::new(Scene::default()),
        phases: Vec::new(),
        broken_off: None,
        longest_wait: None,
        go_aways: GoAways::default(),
        restarts: Restarts::default(),
        health: None,
        series: Series::default(),
        thresholds: Gauges::of(&scenario).conclude(Duration::from_secs(2)),
        ranks: None,
        own: None,
    };
    let scenario_name = "test".to_owned();
    Summary { scenario, scenario_name, seed: Seed(42), replay: "REPLAY".to_owned(), embedded: None, result }
}

/// A run in which so many requests were answered rightly, each a sequence.
pub(in crate::report) fn answered(text: &str, count: u64) -> Summary {
    let mut its = summary(text, HINTS);
    its.result.tally.patterns[0] = Counts {
        requests: count,
        completed: count,
        sequences: count,
        sequences_as_designed: count,
        ..Counts::default()
    };
    its
}

pub(super) fn preflights() -> String {
    let of = |text: &str, change: &dyn Fn(&mut Preflight), hints| {
        let scenario = scenario(text);
        let mut preflight = told(&scenario, hints);
        preflight.notes.clear();
        change(&mut preflight);
        let of = |extent| plain(|out| write_preflight(&scenario, "test", Seed(42), &preflight, extent, out));
        of(Extent::Usual) + &of(Extent::Wide)
    };
    let part = |part: &'static str, has| Part { part: part.into(), has, why: None, not_checked: None };
    let slots = |slots| Hints { slots: Some(slots), ..HINTS };
    [
        of("load = { workers = 1, iterations = 1 }", &|_| (), Hints::default()),
        of(
            "load = { duration_s = 1, iterations = 2 }",
            &|its| its.model.server = Some("triton 2.51.0".to_owned()),
            slots(1),
        ),
        of(POPULATIONS, &|its| its.notes = vec!["NOTE".into()], slots(2)),
        of(
            "limits.response_ms = 100",
            &|its| its.parts = vec![part("health", true), part("statistics", false)],
            slots(0),
        ),
        of("", &|its| its.parts = vec![part("health", false), part("statistics", false)], HINTS),
    ]
    .concat()
}

pub(super) fn violations() -> String {
    let with_cause = |cause| {
        let explanations = vec![Explanation::new(cause, [])];
        Violation { explanations, ..violation() }
    };
    let causes = Cause::ALL.into_iter().take(12);
    let several: Vec<_> = [violation()].into_iter().chain(causes.map(with_cause)).collect();
    let of = |found: &[Violation], all: u64, extent| {
        let mut its = summary("", HINTS);
        its.result.tally.violations.insert(ViolationKind::WrongSum, all);
        its.result.violations = found.to_vec();
        plain(|out| write_groups(&its, extent, out))
    };
    let same: Vec<_> = (0..3).map(|_| violation()).collect();
    let mut live = LiveLines::default();
    let live = plain(|out| same.iter().chain(&several).take(6).try_for_each(|its| live.write(its, out)));
    let usual = Extent::Usual;
    [
        of(&same[..1], 1, usual),
        of(&same, 3, usual),
        of(&same, 2000, usual),
        of(&several, 13, usual),
        of(&several, 13, Extent::Wide),
        live,
    ]
    .join("--\n")
}

fn violation() -> Violation {
    Violation::of_the_run(ViolationKind::WrongSum, 0, oracle::Evidence::StillOpen)
}

pub(super) fn verdicts() -> String {
    let no_claims = |text: &str, count| {
        let mut its = answered(text, count);
        its.scenario.claims = Some(Claims::default());
        its
    };
    let of = |text: &str, count, change: &dyn Fn(&mut Summary)| {
        let mut its = no_claims(text, count);
        change(&mut its);
        plain(|out| write_text(&its, Extent::Short, out))
    };
    let unanswered = |count| {
        move |its: &mut Summary| {
            let counts = &mut its.result.tally.patterns[0];
            (counts.requests, counts.indeterminate) = (counts.requests + count, count);
        }
    };
    let unjudged = |count| move |its: &mut Summary| its.result.tally.patterns[0].unjudged = count;
    let found = |kinds: &'static [(ViolationKind, u64)]| {
        move |its: &mut Summary| its.result.tally.violations = kinds.iter().copied().collect()
    };
    let slow = |count| move |its: &mut Summary| its.result.tally.slow = count;
    let measured = |its: &mut Summary| {
        for found in &mut its.result.thresholds {
            let value = 10_000.0;
            found.missed = found.threshold.is_missed_by(value);
            (found.value, found.measured) = (Some(value), true);
        }
    };
    let aborted = |its: &mut Summary| {
        measured(its);
        let found = &mut its.result.thresholds[0];
        (found.value, found.at_s, found.missed, found.ended_the_run) = (None, Some(10), true, true);
    };
    let alone = "fail_if = ['sequence.p50 > 5ms', 'wait_for_slot.p99.9 > 1ms']";
    [
        of("", 1, &|_| ()),
        of("", 2, &|_| ()),
        of("", 2, &unjudged(1)),
        of("", 0, &|_| ()),
        of("", 1, &unjudged(1)),
        of("", 3, &unjudged(2)),
        of("", 1, &unanswered(10)),
        of("", 0, &unanswered(1)),
        of("", 2, &|its| its.result.interrupted = Interrupted(true)),
        of("", 2, &|its| its.result.broken_off = Some("WHY".to_owned())),
        of(alone, 2, &|_| ()),
        of(POPULATIONS, 2, &|_| ()),
        of("", 2, &found(&[(ViolationKind::WrongSum, 1)])),
        of("", 2, &found(&[(ViolationKind::WrongSum, 1), (ViolationKind::Lost, 2)])),
        of("", 2, &|its| {
            found(&[(ViolationKind::WrongSum, 1)])(its);
            its.result.broken_off = Some("WHY".to_owned());
        }),
        of("limits.response_ms = 100", 2, &slow(1)),
        of("limits.response_ms = 100", 3, &slow(2)),
        of(POPULATIONS, 2, &measured),
        of("fail_if = ['good_step.p99 > 5ms in any 10s abort']", 2, &aborted),
    ]
    .concat()
}

/// The line of a claim that was not reached.
fn not_reached(text: &str, claim: Claim, hints: Hints, change: &dyn Fn(&mut Summary)) -> String {
    let mut its = summary(text, hints);
    its.result.tally.patterns[0] = answered("", 2).result.tally.patterns[0];
    let mut claims = Claims::default();
    claims.set(claim, 2);
    its.scenario.claims = Some(claims);
    its.result.tally.reached.set(claim, 1);
    change(&mut its);
    let text = plain(|out| write_text(&its, Extent::Short, out));
    text.split_inclusive('\n').filter(|line| line.starts_with("not reached")).collect()
}

pub(super) fn claims() -> String {
    let nothing = |_: &mut Summary| ();
    let weights: Vec<_> = Pattern::ALL.iter().map(|pattern| format!("{pattern} = 1")).collect();
    let all = format!("patterns.rare = {{ {} }}", weights.join(", "));
    let drawn = Claim::ALL.map(|claim| not_reached(&all, claim, HINTS, &nothing)).concat();
    let with_needs = Claim::ALL.iter().filter(|claim| claim.needs().contains('{'));
    let unknown: String = with_needs.map(|claim| not_reached(&all, *claim, Hints::default(), &nothing)).collect();
    let claim = Claim::HalfClosed;
    let rare = "contexts = { common = 0, rare = 2, rare_probability = 1.0 }";
    let two = "[[population]]\nname = 'a'\n[[population]]\nname = 'b'";
    let half_closed = "patterns.common = { valid = 1, half-close = 1 }";
    let over_http = |its: &mut Summary| {
        its.scenario.populations[0].sending.transport = Some(Transport::Http);
    };
    let loads = ["load.duration_s = 1", "load.duration_s = 2", "load = { duration_s = 2, iterations = 3 }"];
    let loads = loads.map(|load| not_reached(&format!("{load}\n{half_closed}"), claim, HINTS, &nothing)).concat();
    let others = [
        not_reached("", claim, HINTS, &nothing),
        not_reached(rare, claim, HINTS, &nothing),
        not_reached(two, claim, HINTS, &nothing),
        not_reached(half_closed, claim, HINTS, &over_http),
        not_reached("load.workers = 1", Claim::Backlog, HINTS, &nothing),
    ];
    [drawn, unknown, loads, others.concat()].concat()
}

pub(super) fn report() -> String {
    let mut its = answered(POPULATIONS, 1);
    its.result.tally.patterns[0].unjudged = 1;
    its.result.tally.other_words.insert("a step without START".to_owned(), "no such sequence".to_owned());
    its.result.tally.populations = vec![Waits::default(), Waits::default()];
    its.result.tally.reached.set(Claim::Backlog, 1);
    its.result.preflight.notes = vec![Note::NotChecked("WHAT".to_owned()), "another note".into()];
    let mut nothing = summary("", HINTS);
    nothing.embedded = Some(vec![PlantedFault {
        fault: "off-by-one".to_owned(),
        chances: 1,
        committed: 1,
        committed_at_us: Vec::new(),
    }]);
    let mut cut_off = answered("", 3);
    cut_off.result.end = End::CutOff;
    cut_off.result.tally.patterns[0].unjudged = 1;
    let (mut so_far, mut nothing_so_far) = (answered("", 3), summary("", HINTS));
    so_far.result.end = End::NotYet;
    nothing_so_far.result.end = End::NotYet;
    for its in [&mut its, &mut nothing, &mut cut_off, &mut so_far, &mut nothing_so_far] {
        its.scenario.claims = Some(Claims::default());
    }
    let of =
        |its: &Summary| [Extent::Usual, Extent::Wide].map(|extent| plain(|out| write_text(its, extent, out))).concat();
    [&its, &nothing, &cut_off, &so_far, &nothing_so_far].map(of).join("\n")
}

pub(super) fn suite() -> String {
    let run = |its: Summary| ScenarioOutcome::Run(Box::new(its));
    let line = |name: &str, outcome| SuiteRow {
        name: name.to_owned(),
        outcome,
        took: Duration::from_secs(3),
        pictured: Pictured::default(),
    };
    let valid = || {
        let mut its = answered("", 10);
        its.scenario.claims = Some(Claims::default());
        its
    };
    let (mut unjudged, mut invalid, mut slow, mut slots) = (valid(), valid(), valid(), valid());
    unjudged.result.tally.patterns[0].unjudged = 1;
    invalid.result.tally.violations.insert(ViolationKind::Lost, 1);
    (slow.result.tally.slow, slow.result.preflight.limits.threshold) = (1, Some(Duration::from_millis(100)));
    slots.result.slots.finding = SlotFinding::NotCheckable { why: "WHY".to_owned() };
    let rows = vec![
        line("valid", run(valid())),
        line("unjudged", run(unjudged)),
        line("invalid", run(invalid)),
        line("slow", run(slow)),
        line("slots", run(slots)),
        line("unknown", run(summary("", HINTS))),
        line("skipped", ScenarioOutcome::Skipped("WHY".to_owned())),
        line("not-tested", ScenarioOutcome::NotTested("WHY".to_owned())),
        line("interrupted", ScenarioOutcome::Interrupted),
        line("not-begun", ScenarioOutcome::NotBegun),
    ];
    let alone = SuiteResult { seed: Seed(42), took: Duration::from_secs(3), rows: vec![line("valid", run(valid()))] };
    let all = SuiteResult { rows, took: Duration::from_secs(30), ..alone.clone() };
    plain(|out| {
        for suite in [&all, &alone] {
            write_suite_header(12, out)?;
            suite.rows.iter().try_for_each(|row| row.write(12, out))?;
            suite.write_end(out)?;
        }
        Ok(())
    })
}

#[test]
fn the_ranks_of_a_run_are_told_with_what_they_keep_from_being_checked() {
    let told = |change: fn(&mut Ranks)| {
        let mut its = summary("", HINTS);
        let mut ranks = Ranks {
            run_id: "a".to_owned(),
            attempt: 0,
            correlation_ids: [1, 2],
            start_skew_us: Some(12_000),
            clock_uncertainty_us: 0,
            ranks: vec![Rank::default(); 4],
        };
        change(&mut ranks);
        its.result.ranks = Some(ranks);
        let mut text = Vec::new();
        write_text(&its, Extent::Usual, &mut text).expect("memory takes it");
        String::from_utf8(text).expect("UTF-8").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let fine = told(|_| {});
    assert!(fine.contains("ranks 4 on 1 host; the last one began 12 ms after the first"), "{fine}");
    assert!(!fine.contains("clocks") && !fine.contains("not looked at"), "{fine}");
    let apart = told(|ranks| ranks.clock_uncertainty_us = 84);
    assert!(
        apart.contains("whether two sequences share a slot") && apart.contains("agree to \u{b1}84 \u{b5}s"),
        "{apart}"
    );
    let dropped = told(|ranks| (ranks.ranks[1].lost_events, ranks.ranks[3].lost_events) = (30, 12));
    assert!(dropped.contains("42 events were not looked at, because rank 0 did not keep up"), "{dropped}");
    let lost = told(|ranks| ranks.ranks[2].lost = Some("its connection ended".to_owned()));
    assert!(lost.contains("rank 2 was lost: its connection ended"), "{lost}");
}
