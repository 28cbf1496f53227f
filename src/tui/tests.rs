//! The view on a terminal in memory, and what keys do to it.

use std::{num::NonZeroU64, time::Duration};

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    style::{Color, Modifier},
};

use super::*;
use crate::{
    report::Verdict,
    run::{Glance, PastSecond, PatternCounts, Patterns, Progress},
};
use oracle::{
    Evidence, Place, Seated, Seating, Violation, ViolationKind, WaitingStart,
    diagnosis::{Cause, Clue, Explanation},
};
use workload::{
    event::ContextId,
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

const MS: u64 = 1_000_000;
const COLOURFUL: Look = Look { has_colours: true, has_blocks: true };
const OLD: Look = Look { has_colours: false, has_blocks: false };

fn id(number: u64) -> CorrelationId {
    CorrelationId(NonZeroU64::new(number).expect("not zero"))
}

fn violation(number: u32) -> Violation {
    let request = RequestId { worker: 2, context: 1, sequence: number, step: 9 };
    let (pattern, value) = (Pattern::Valid, 316_805.into());
    let step = Step { request, pattern, start: false, end: true, value, of: 10, special: None };
    let place = Place::new(ContextId { worker: 2, context: 1 }, id(202), Some(step));
    let evidence = Evidence::Sum { expected: vec![4_776_431.into()], seen: 4_776_432.into(), disorder: None };
    let explanations = vec![Explanation::new(Cause::WrongArithmetic, [Clue::Seen])];
    let at = (352 + u64::from(number)) * MS;
    Violation { explanations, ..Violation::at(place, ViolationKind::WrongSum, at, evidence) }
}

/// A run of a minute and a half that is as it should be.
fn calm() -> State {
    let mut state = State::new(About {
        target: "custom_sequence_int32 on triton 2.51.0, l0-sequence-stress".to_owned(),
        slots: Some(8),
        phases: Vec::new(),
        replay: "sequence-stress -t 8 -i 200 -r 42 -u localhost:8001 -m custom_sequence_int32".to_owned(),
    });
    let mut news = News::default();
    let second = |number: u64| {
        let responses = 900 + number * 37 % 200;
        PastSecond {
            number,
            responses,
            good: responses,
            step_us: Some([80_000 + number * 211, 300_000 + number * 977]),
        }
    };
    let seated = |slot: u32| Seated {
        correlation_id: id(u64::from(slot) * 100 + 1),
        pattern: Some([Pattern::Valid, Pattern::NoEnd, Pattern::ValidValid][slot as usize % 3]),
        slot: Some(slot),
        since: (89_900 - u64::from(slot) * 333) * MS,
        until: 91_000 * MS,
    };
    let waiting = |number: u64| WaitingStart {
        correlation_id: id(500 + number),
        pattern: Some(Pattern::Valid),
        since: (89_640 + number * 100) * MS,
    };
    let counts = |sequences: u64, as_designed: u64| {
        let counts = crate::recorder::Counts {
            requests: sequences * 15,
            sequences,
            sequences_as_designed: as_designed,
            ..Default::default()
        };
        PatternCounts { counts, violations: 0 }
    };
    let mut patterns = vec![PatternCounts::default(); Pattern::ALL.len()];
    for (pattern, its) in [
        (Pattern::Valid, counts(1255, 1250)),
        (Pattern::ValidValid, counts(216, 216)),
        (Pattern::ValidNoEnd, counts(200, 199)),
        (Pattern::NoStart, counts(14, 14)),
        (Pattern::NoEnd, counts(93, 91)),
    ] {
        patterns[pattern.index()] = its;
    }
    news.glance(Glance {
        now: 90_000 * MS,
        patterns: Patterns(patterns),
        seating: Seating { seated: (0..6).map(seated).collect(), waiting: (0..2).map(waiting).collect() },
        seconds: (0..88).map(second).collect(),
        ..Glance::default()
    });
    news.progress(progress(0), "18 s left".to_owned());
    let why = "28084 responses checked, no violations".to_owned();
    news.judged(Judged { verdict: Verdict::Valid, why, missed: Vec::new() });
    assert!(state.take(news));
    state
}

fn progress(violations: u64) -> Progress {
    Progress {
        elapsed: Duration::from_secs(90),
        requests: 28_100,
        answered: 28_084,
        completed: 28_040,
        sequences: 1778,
        violations,
        slots_taken: 6,
        starts_waiting: 2,
        ..Progress::default()
    }
}

/// The same with so many violations.
fn violated(count: u32) -> State {
    let mut state = calm();
    let mut news = News::default();
    news.progress(progress(count.into()), "18 s left".to_owned());
    (0..count).for_each(|number| news.violation(violation(number)));
    state.take(news);
    state
}

fn shown(state: &mut State, (width, height): (u16, u16), look: Look) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory has room");
    let mut lines = (0, 0);
    terminal.draw(|frame| lines = draw(state, frame.buffer_mut(), look)).expect("memory has room");
    state.drawn(lines);
    terminal.backend().clone()
}

fn press(state: &mut State, code: KeyCode) -> Option<Wish> {
    state.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn keys(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
        assert_eq!(press(state, code), None);
    }
}

#[test]
fn the_phase_the_check_and_an_exchange_stand_in_the_first_line() {
    use workload::scenario::{Phase, ServerAction};
    let phase = |name: &str, server| Phase { name: name.to_owned(), pause_ms: None, server, other_model: None };
    let phases = vec![phase("calm", None), phase("direct", Some(ServerAction::ReloadDirect))];
    let first = |state: &State| {
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).expect("a terminal in memory");
        terminal
            .draw(|frame| {
                draw(state, frame.buffer_mut(), OLD);
            })
            .expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..120).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        [line(0), line(2)].map(|text| text.trim_end().split("  ").last().unwrap_or_default().trim().to_owned())
    };
    let mut state = State::new(About { phases: phases.clone(), ..About::default() });
    assert_eq!(first(&state)[0], "connecting, and loading the model for a trial");
    assert_eq!(first(&State::new(About { phases: phases[..1].to_vec(), ..About::default() }))[0], "connecting");
    let mut goes_on = |phases_begun: usize, is_exchanging: bool| {
        let mut news = News::default();
        let at = Progress { phases_begun, is_exchanging, ..progress(0) };
        news.progress(at, "time left unknown".to_owned());
        state.take(news);
        first(&state)
    };
    assert_eq!(goes_on(1, false)[0], "90 s, phase 1 of 2: calm, time left unknown");
    assert_eq!(goes_on(1, true)[0], "90 s, loading the model anew, time left unknown");
    let [head, note] = goes_on(2, false);
    assert_eq!(head, "90 s, phase 2 of 2: direct, time left unknown");
    assert!(note.ends_with("note: the model was reloaded with Direct before 91 s"), "{note}");
    let began = std::time::Instant::now();
    let mut news = News::default();
    news.stage(Stage::Checks);
    news.check("the slots".to_owned(), Some(Duration::from_secs(52)), began);
    state.take(news);
    assert!(state.tick(began + Duration::from_secs(12)) && !state.tick(began + Duration::from_millis(12_500)));
    assert_eq!(first(&state)[0], "checking the slots: 12 s, up to 40 s more");
    assert!(state.tick(began + Duration::from_secs(60)));
    assert_eq!(first(&state)[0], "checking the slots: 60 s");
}

#[test]
fn a_calm_run() {
    insta::assert_snapshot!("calm_80x24", shown(&mut calm(), (80, 24), COLOURFUL));
    insta::assert_snapshot!("calm_200x50", shown(&mut calm(), (200, 50), COLOURFUL));
}

#[test]
fn the_beginning_of_a_run() {
    let mut state = State::new(About { target: "MODEL".to_owned(), ..About::default() });
    insta::assert_snapshot!("beginning", shown(&mut state, (80, 20), COLOURFUL));
}

#[test]
fn a_backlog_and_responses_that_are_not_good() {
    let mut state = calm();
    let mut news = News::default();
    let waiting = |number: u64| WaitingStart {
        correlation_id: id(500 + number),
        pattern: Some(Pattern::Valid),
        since: (60_000 + number * 1000) * MS,
    };
    // The model does not tell slots.
    let seated = |number: u64| Seated {
        correlation_id: id(number + 1),
        pattern: Some(Pattern::NoEnd),
        slot: None,
        since: 0,
        until: 90_500 * MS,
    };
    let second = |number| PastSecond { number, responses: 100, good: 40, step_us: None };
    news.glance(Glance {
        now: 90_100 * MS,
        seating: Seating { seated: (0..8).map(seated).collect(), waiting: (0..16).map(waiting).collect() },
        seconds: (88..90).map(second).collect(),
        patterns: state.glance.patterns.clone(),
        ..Glance::default()
    });
    news.progress(Progress { slots_taken: 8, starts_waiting: 70, ..progress(0) }, "time left unknown".to_owned());
    let why = "the run missed the claim idle-reap".to_owned();
    let missed = vec!["step.p99 > 50ms: 300.1 ms".to_owned(), "another".to_owned()];
    news.judged(Judged { verdict: Verdict::Unknown, why, missed });
    news.note("the server does not answer: waiting up to 120s until it is ready again".to_owned());
    state.take(news);
    insta::assert_snapshot!("backlog", shown(&mut state, (80, 24), COLOURFUL));
}

#[test]
fn violations_are_listed_selected_and_unfolded() {
    let mut state = violated(30);
    insta::assert_snapshot!("folded", shown(&mut state, (80, 24), COLOURFUL));
    // The latest, and the one before it.
    keys(&mut state, "kk");
    insta::assert_snapshot!("selected", shown(&mut state, (80, 24), COLOURFUL));
    keys(&mut state, "\n");
    insta::assert_snapshot!("unfolded", shown(&mut state, (80, 24), COLOURFUL));
    insta::assert_snapshot!("unfolded_200x50", shown(&mut state, (200, 50), COLOURFUL));
    keys(&mut state, "\n");
    assert!(shown(&mut state, (80, 24), COLOURFUL).to_string().contains("patterns"), "it is folded again");
}

#[test]
fn a_violation_that_is_longer_than_the_screen_scrolls() {
    let mut state = violated(1);
    state.about.replay = "sequence-stress --a-long-flag ".repeat(30);
    keys(&mut state, "\n");
    let first = shown(&mut state, (80, 20), COLOURFUL).to_string();
    assert!(first.contains("A response is not the running sum") && first.contains("more lines"), "{first}");
    for _ in 0..20 {
        press(&mut state, KeyCode::PageDown);
    }
    let last = shown(&mut state, (80, 20), COLOURFUL).to_string();
    assert!(!last.contains("A response is not the running sum") && !last.contains("more lines"), "{last}");
    press(&mut state, KeyCode::PageUp);
    assert_ne!(shown(&mut state, (80, 20), COLOURFUL).to_string(), last, "one page up is seen at once");
}

#[test]
fn help() {
    let mut state = calm();
    keys(&mut state, "?");
    insta::assert_snapshot!("help", shown(&mut state, (80, 24), COLOURFUL));
    // Any key leaves it, and does nothing else.
    let mut state = violated(3);
    keys(&mut state, "?j");
    assert!(!state.view.shows_help && state.view.selected.is_none());
}

#[test]
fn a_terminal_that_is_too_small_says_so_in_a_line() {
    for size in [(79, 24), (80, 19), (20, 5), (1, 1)] {
        let text = shown(&mut calm(), size, COLOURFUL).to_string();
        let line: String = text.lines().next().expect("a line").trim_matches('"').trim_end().to_owned();
        let whole = format!("terminal {}x{}, needs 80x20: enlarge it (q stops the run)", size.0, size.1);
        let expected: String = whole.chars().take(size.0.into()).collect();
        assert_eq!(line, expected.trim_end());
        assert!(text.lines().skip(1).all(|line| line.trim_matches('"').trim().is_empty()), "{text}");
    }
}

#[test]
fn each_size_can_be_drawn() {
    for (width, height) in [(0, 0), (80, 20), (81, 21), (119, 39), (120, 40), (121, 41), (300, 100)] {
        for mut state in [State::default(), calm(), violated(200)] {
            shown(&mut state, (width, height), COLOURFUL);
            keys(&mut state, "k\n");
            shown(&mut state, (width, height), OLD);
        }
    }
}

#[test]
fn an_old_terminal_gets_no_colours_and_only_ascii() {
    let mut state = violated(30);
    keys(&mut state, "k");
    let backend = shown(&mut state, (80, 24), OLD);
    insta::assert_snapshot!("old", &backend);
    let text = backend.to_string();
    assert!(text.is_ascii(), "{text}");
    for cell in backend.buffer().content() {
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{cell:?}");
        let may_be = Modifier::BOLD | Modifier::REVERSED;
        assert!(may_be.contains(cell.modifier), "{cell:?}");
    }
}

#[test]
fn without_colours_the_same_is_said() {
    for mut state in [calm(), violated(5)] {
        let without = Look { has_colours: false, ..COLOURFUL };
        let (with, without) = (shown(&mut state, (80, 24), COLOURFUL), shown(&mut state, (80, 24), without));
        assert_eq!(with.to_string(), without.to_string());
        assert!(with.buffer().content().iter().any(|cell| cell.fg != Color::Reset));
    }
}

#[test]
fn control_characters_of_a_server_do_not_reach_the_terminal() {
    let mut state = calm();
    state.about.target = "model\u{1b}[2J\nname".to_owned();
    let text = shown(&mut state, (80, 24), COLOURFUL).to_string();
    assert!(text.contains("model?[2J?name"), "{text}");
}

#[test]
fn a_server_that_is_silent_is_told_of() {
    let mut state = calm();
    let mut news = News::default();
    let silent = Progress { elapsed: Duration::from_secs(97), ..progress(0) };
    news.progress(silent, "18 s left".to_owned());
    state.take(news);
    let text = shown(&mut state, (80, 24), COLOURFUL).to_string();
    assert!(text.contains("no response for 7 s, 16 waiting"), "{text}");
}

#[test]
fn the_footer_and_the_header_tell_how_far_the_run_is() {
    for (stage, far, key) in [
        (Stage::Load, "90 s, 18 s left", "q stop the run"),
        (Stage::Stopping, "90 s, stopping", "Ctrl-C end at once"),
        (Stage::Checks, "checking the server", "Ctrl-C end at once"),
    ] {
        let mut state = calm();
        let mut news = News::default();
        news.stage(stage);
        state.take(news);
        let text = shown(&mut state, (80, 24), COLOURFUL).to_string();
        assert!(text.contains(far) && text.contains(key), "{text}");
    }
    // What comes later counts.
    let mut news = News::default();
    news.stage(Stage::Checks);
    news.stage(Stage::Stopping);
    let mut state = calm();
    state.take(news);
    assert_eq!(state.stage, Stage::Checks);
}

#[test]
fn keys_select_violations() {
    let mut state = violated(10);
    shown(&mut state, (80, 24), COLOURFUL);
    let selected = |state: &State| state.view.selected;
    for (code, expected) in [
        (KeyCode::Down, Some(9)),
        (KeyCode::Up, Some(8)),
        (KeyCode::Down, Some(9)),
        (KeyCode::Down, Some(9)),
        (KeyCode::Home, Some(0)),
        (KeyCode::Up, Some(0)),
        (KeyCode::PageDown, Some(state.view.rows - 1)),
        (KeyCode::PageUp, Some(0)),
        (KeyCode::End, Some(9)),
        (KeyCode::Esc, None),
        (KeyCode::Char('g'), Some(0)),
        (KeyCode::Char('j'), Some(1)),
        (KeyCode::Char('k'), Some(0)),
        (KeyCode::Char('G'), Some(9)),
    ] {
        press(&mut state, code);
        assert_eq!(selected(&state), expected, "{code:?}");
    }
    // More violations do not change the selection.
    let mut news = News::default();
    news.violation(violation(10));
    state.take(news);
    assert_eq!(selected(&state), Some(9));
    keys(&mut state, "\n");
    assert!(state.view.is_unfolded);
    press(&mut state, KeyCode::Esc);
    assert!(!state.view.is_unfolded && selected(&state) == Some(9));
}

#[test]
fn keys_do_nothing_to_a_list_that_is_empty() {
    let mut state = calm();
    keys(&mut state, "jkgG \nx");
    assert!(state.view.selected.is_none() && !state.view.is_unfolded);
}

#[test]
fn keys_stop_the_run() {
    let mut state = calm();
    let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Wish::Stop));
    assert_eq!(state.press(control('c')), Some(Wish::Interrupt));
    assert_eq!(state.press(control('l')), Some(Wish::Redraw));
    assert_eq!(state.press(control('q')), None);
    let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
    assert_eq!(state.press(released), None, "it was pressed before");
    // In the help, too.
    keys(&mut state, "?");
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Wish::Stop));
}

#[test]
fn nothing_grows() {
    let mut state = State::default();
    let mut news = News::default();
    for number in 0..3000 {
        news.violation(violation(number));
        let seconds = vec![PastSecond { number: number.into(), ..PastSecond::default() }];
        news.glance(Glance { seconds, ..Glance::default() });
        if number % 700 == 0 {
            assert!(state.take(std::mem::take(&mut news)));
        }
    }
    news.progress(progress(5000), String::new());
    state.take(news);
    assert_eq!((state.violations.len(), state.history.len()), (1000, 600));
    assert_eq!(state.history.back().map(|second| second.number), Some(2999));
    let text = shown(&mut state, (80, 24), COLOURFUL).to_string();
    assert!(text.contains("violations: 5000, the first 1000 are listed"), "{text}");
    assert!(!state.take(News::default()), "nothing happened");
}
