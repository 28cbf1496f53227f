//! What stands in each part of the view.

use super::{
    State,
    chart::{Column, bars, columns},
    paint::{Part, Tone},
    state::{Check, Stage},
};
use crate::{
    report::{Verdict, counted, shortened, violation_lines},
    run::PatternCounts,
};
use oracle::{SEATED_MAX, Seated, VIOLATIONS_KEPT, WAITING_MAX};
use workload::{event::Nanos, scenario::ServerAction, sequence::Pattern};

/// The columns beside a pattern's name and two of its counts, and of the longest name.
const COUNTS: usize = 14;
const NAME_MAX: usize = 22;
/// The lines of sequences with slots, and of STARTs that wait, that have a place of their own.
const SEATED_SHOWN: usize = 24;
const WAITING_SHOWN: usize = 4;
/// The columns before the text of a line with a label, as the report has them.
const LABELS: usize = 17;

/// What is tested, how far the run is, and the verdict so far.
pub(super) fn header(state: &State, part: &mut Part) {
    let State { about, progress, stage, left, .. } = state;
    let at = progress.elapsed.as_secs();
    let far = match stage {
        Stage::Connects
            if about.phases.iter().any(|phase| phase.server.is_some_and(|its| its != ServerAction::Restart)) =>
        {
            "connecting, and loading the model for a trial".to_owned()
        }
        Stage::Connects => "connecting".to_owned(),
        Stage::Load => format!("{at} s, {}{left}", phase(state)),
        Stage::Stopping => format!("{at} s, stopping: waiting for responses"),
        Stage::Checks => checking(state),
    };
    let far = format!("  {far}");
    part.line(&shortened(&about.target, part.width().saturating_sub(far.chars().count())), Tone::Title);
    part.right(&far, Tone::Title);
    let (tone, word, why) = verdict(state);
    part.words(&[(word, tone), (&why, Tone::Plain)]);
    for text in remarks(state) {
        part.line(&text, Tone::Doubtful);
    }
}

/// In which phase the run is, or what is done to the server before the next one.
fn phase(State { about, progress, .. }: &State) -> String {
    let (all, begun) = (about.phases.len(), progress.phases_begun);
    let action = about.phases.get(begun).and_then(|next| next.server).filter(|_| progress.is_exchanging);
    match (action, begun.checked_sub(1).and_then(|place| about.phases.get(place))) {
        (Some(ServerAction::Restart), _) => "restarting the server, ".to_owned(),
        (Some(action), _) if action.kills() => "killing an instance of the model, ".to_owned(),
        (Some(_), _) => "loading the model anew, ".to_owned(),
        (None, Some(phase)) => format!("phase {begun} of {all}: {}, ", shortened(&phase.name, NAME_MAX)),
        (None, None) => String::new(),
    }
}

/// What of the server is looked at, and how long that still takes.
fn checking(state: &State) -> String {
    let Some(Check { what, up_to, lasts, .. }) = &state.check else { return "checking the server".to_owned() };
    let left = up_to.and_then(|up_to| up_to.checked_sub(*lasts)).map(|left| left.as_secs_f64().ceil());
    let left = left.map_or_else(String::new, |left| format!(", up to {left} s more"));
    format!("checking {what}: {} s{left}", lasts.as_secs())
}

/// How many lines the header has.
pub(super) fn header_lines(state: &State) -> usize {
    2 + remarks(state).count()
}

/// Thresholds that are missed, and what happened last besides.
fn remarks(state: &State) -> impl Iterator<Item = String> {
    let missed = state.judged.as_ref().map_or(&[][..], |judged| &judged.missed);
    let more = missed.len().saturating_sub(1);
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let missed = missed.first().map(|first| format!("THRESHOLD MISSED SO FAR: {first}{more}"));
    missed.into_iter().chain(state.note.iter().map(|note| format!("note: {note}")))
}

/// The verdict so far. A violation is known before the verdict is made anew.
fn verdict(state: &State) -> (Tone, &'static str, String) {
    let count = state.violation_count();
    if count > 0 {
        return (Tone::Bad, "INVALID", format!(": {}", counted(count, "violation")));
    }
    match &state.judged {
        None => (Tone::Plain, "no violations", " so far".to_owned()),
        Some(judged) => match judged.verdict {
            Verdict::Valid => (Tone::Good, "VALID SO FAR", format!(": {}", judged.why)),
            Verdict::Invalid => (Tone::Bad, "INVALID", format!(": {}", judged.why)),
            Verdict::Unknown => (Tone::Doubtful, "UNKNOWN SO FAR", format!(": {}", judged.why)),
        },
    }
}

/// Responses in a second.
pub(super) fn rate(state: &State, part: &mut Part) {
    let (columns, seconds) = columns(state.history.iter().copied(), part.width());
    let values: Vec<_> = columns.iter().map(|column| [column.good, column.responses]).collect();
    let bad = values.iter().any(|[good, all]| good < all);
    let legend = if bad { format!(", {} not good", part.look.marks().above) } else { String::new() };
    part.title(&format!("responses/s{}{legend}", span(columns.len(), seconds)));
    match (state.silent_s(), state.history.back()) {
        (Some(silent), _) => {
            let waiting = state.progress.waiting();
            part.line(&format!("no response for {silent} s, {waiting} waiting"), Tone::Bad);
        }
        (None, Some(last)) => {
            part.line(&format!("now {}, good {}", last.responses, last.good), Tone::Plain);
        }
        (None, None) => part.line("nothing yet", Tone::Plain),
    }
    chart(&values, part);
}

/// How long steps take.
pub(super) fn step(state: &State, part: &mut Part) {
    let (columns, seconds) = columns(state.history.iter().copied(), part.width());
    let marks = part.look.marks();
    part.title(&format!("step, ms: {} p50 {} p99{}", marks.levels[7], marks.above, span(columns.len(), seconds)));
    let last = state.history.iter().rev().find_map(|second| second.step_us);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let shown = last.map(|both| both.map(|us| short(us as f64 / 1000.0)));
    match shown {
        Some([p50, p99]) => part.line(&format!("now p50 {p50}, p99 {p99}"), Tone::Plain),
        None => part.line("nothing yet", Tone::Plain),
    }
    let values: Vec<_> = columns.iter().map(|Column { step_ms, .. }| step_ms.unwrap_or_default()).collect();
    chart(&values, part);
}

/// Bars in the lines that are left, with the highest value at the end of the line above.
fn chart(values: &[[f64; 2]], part: &mut Part) {
    let top = values.iter().map(|[_, upper]| *upper).fold(0.0, f64::max);
    if top > 0.0 {
        part.right_if_room(&format!(" top {}", short(top)), Tone::Plain);
    }
    for line in bars(values, part.room(), top, part.look.marks()) {
        part.line(&line, Tone::Chart);
    }
}

/// For how long a chart is.
fn span(columns: usize, seconds: usize) -> String {
    match columns * seconds {
        0 => String::new(),
        span @ ..120 => format!(", last {span} s"),
        span => format!(", last {} min", span / 60),
    }
}

/// Who certainly has a slot.
pub(super) fn slots(state: &State, part: &mut Part) {
    let now = state.glance.now;
    let seated: Vec<_> = state.glance.seating.seated.iter().filter(|its| its.until > now).collect();
    // Both are of the same moment, where all of them are told.
    let taken = if seated.len() < SEATED_MAX { seated.len() as u64 } else { state.progress.slots_taken };
    part.title(&match state.about.slots {
        Some(all) if taken < u64::from(all) => format!("slots: {taken} to {all} of {all} taken"),
        Some(all) => format!("slots: {taken} of {all} taken"),
        None => "slots: not known".to_owned(),
    });
    if state.about.slots.is_none() {
        part.line("not told by the endpoint: --slots N", Tone::Plain);
        return;
    }
    if seated.is_empty() {
        part.line("no sequence has a slot for certain", Tone::Plain);
        return;
    }
    let tells_slots = seated.iter().any(|its| its.slot.is_some());
    let taken = if tells_slots { 6 } else { 0 } + 11 + 8;
    let names = part.width().saturating_sub(taken).clamp(14, NAME_MAX);
    let row = |slot: &str, id: &str, pattern: &str, held: &str| {
        let slot = if tells_slots { format!("{slot:>4}  ") } else { String::new() };
        let (id, pattern) = (shortened(id, 10), shortened(pattern, names));
        format!("{slot}{id:<10} {pattern:<names$} {held:>7}")
    };
    part.line(&row("slot", "ID", "pattern", "held"), Tone::Title);
    let shown = fitting(seated.len(), part.room());
    for Seated { correlation_id, pattern, slot, since, .. } in &seated[..shown] {
        let slot = slot.map_or_else(|| "?".to_owned(), |slot| slot.to_string());
        let pattern = pattern.map_or("?", Pattern::name);
        part.line(&row(&slot, &correlation_id.to_string(), pattern, &age(now, *since)), Tone::Plain);
    }
    if shown < seated.len() {
        part.line(&format!("and {} more", seated.len() - shown), Tone::Plain);
    }
}

/// The STARTs without a response.
pub(super) fn backlog(state: &State, part: &mut Part) {
    let waiting = &state.glance.seating.waiting;
    // Both are of the same moment, where all of them are told.
    let is_all = !waiting.is_empty() && waiting.len() < WAITING_MAX;
    let count = if is_all { waiting.len() as u64 } else { state.progress.starts_waiting.max(waiting.len() as u64) };
    let shown = waiting.len().min(part.room().saturating_sub(1));
    let starts = counted(count, "START");
    part.title(&if !waiting.is_empty() && (shown as u64) < count {
        format!("backlog: {starts}, longest first")
    } else {
        format!("backlog: {starts} without response")
    });
    let now = state.glance.now;
    if waiting.is_empty() {
        let text =
            if count > 0 && state.about.slots.is_none() { "how long is not known" } else { "nothing waits long" };
        part.line(text, Tone::Plain);
        return;
    }
    for (index, its) in waiting.iter().enumerate() {
        let pattern = its.pattern.map_or("?", Pattern::name);
        let before = if index == 0 { "longest" } else { "       " };
        part.line(&format!("{before} {:>7}  ID {} {pattern}", age(now, its.since), its.correlation_id), Tone::Plain);
    }
}

/// What was begun of each pattern.
pub(super) fn patterns(state: &State, part: &mut Part) {
    part.title("patterns");
    let sent: Vec<_> = state.glance.patterns.sent().collect();
    let all = sum(sent.iter().map(|(_, its)| its));
    let digits = |count: u64| count.to_string().len().max(5);
    let (begun_at, violations_at) = (digits(all.counts.sequences), digits(all.violations));
    let names = part.width().saturating_sub(begun_at + violations_at + COUNTS).min(NAME_MAX);
    let row = |name: &str, [begun, designed, violations]: [&str; 3]| {
        let name = shortened(name, names);
        format!("{name:<names$} {begun:>begun_at$} {designed:>11} {violations:>violations_at$}")
    };
    part.line(&row("pattern", ["begun", "as designed", "viol."]), Tone::Title);
    let numbers = |its: &PatternCounts| {
        [its.counts.sequences, its.counts.sequences_as_designed, its.violations].map(|count| count.to_string())
    };
    // The last line is that of all.
    for (name, its) in shown_patterns(&sent, part.room().saturating_sub(1)) {
        let counts = numbers(&its);
        let tone = if its.violations > 0 { Tone::Bad } else { Tone::Plain };
        part.line(&row(&name, counts.each_ref().map(String::as_str)), tone);
    }
    part.line(&row("all", numbers(&all).each_ref().map(String::as_str)), Tone::Title);
}

/// The patterns that fit in so many lines: those with violations, then those with the most sequences; the others are one line.
fn shown_patterns(sent: &[(Pattern, PatternCounts)], room: usize) -> Vec<(String, PatternCounts)> {
    let shown = fitting(sent.len(), room);
    let mut order: Vec<_> = (0..sent.len()).collect();
    order.sort_by_key(|index| {
        let its = &sent[*index].1;
        std::cmp::Reverse((its.violations > 0, its.counts.sequences))
    });
    let (first, others) = order.split_at(shown);
    let mut first = first.to_vec();
    first.sort_unstable();
    let mut rows: Vec<_> = first.into_iter().map(|index| (sent[index].0.name().to_owned(), sent[index].1)).collect();
    if !others.is_empty() && room > 0 {
        rows.push((format!("{} others", others.len()), sum(others.iter().map(|index| &sent[*index].1))));
    }
    rows
}

fn sum<'c>(all: impl Iterator<Item = &'c PatternCounts>) -> PatternCounts {
    all.fold(PatternCounts::default(), |mut sum, its| {
        sum.counts.sequences += its.counts.sequences;
        sum.counts.sequences_as_designed += its.counts.sequences_as_designed;
        sum.violations += its.violations;
        sum
    })
}

/// How many of these have a line each, where one line is for the others if not all fit.
fn fitting(all: usize, room: usize) -> usize {
    if all <= room { all } else { room.saturating_sub(1) }
}

/// How many lines the slots would take, with their titles. They have as many when fewer are taken, so that nothing moves.
pub(super) fn slot_lines(state: &State) -> usize {
    let most = state.about.slots.map_or(1, |slots| slots as usize).min(SEATED_SHOWN);
    2 + most.max(state.glance.seating.seated.len().min(SEATED_SHOWN))
}

/// The same of the backlog.
pub(super) fn backlog_lines() -> usize {
    1 + WAITING_SHOWN
}

/// The same of the violations, folded.
pub(super) fn violation_list_lines(state: &State) -> usize {
    1 + state.violations.len()
}

/// The same of the patterns.
pub(super) fn pattern_lines(state: &State) -> usize {
    3 + state.glance.patterns.sent().count()
}

/// The list of violations. Returns how many lines it has, and how far the one that is unfolded can be scrolled.
pub(super) fn violations(state: &State, part: &mut Part) -> (usize, usize) {
    let (count, listed) = (state.violation_count(), state.violations.len());
    part.title(&match count {
        0 => "violations: none".to_owned(),
        _ if count > VIOLATIONS_KEPT as u64 => format!("violations: {count}, the first {VIOLATIONS_KEPT} are listed"),
        _ => format!("violations: {count}"),
    });
    let rows = part.room();
    let view = &state.view;
    if let Some(selected) = view.selected.filter(|selected| view.is_unfolded && *selected < listed) {
        let most_scrolled = unfolded(state, selected, part);
        return (rows, most_scrolled);
    }
    let first = match view.selected {
        None => listed.saturating_sub(rows),
        Some(selected) => selected.saturating_sub(rows / 2).min(listed.saturating_sub(rows)),
    };
    for (index, its) in state.violations.iter().enumerate().skip(first).take(rows) {
        one(&its.line, view.selected == Some(index), part);
    }
    (rows, 0)
}

/// A violation in full, and below it those that come after it. Returns how far it can be scrolled.
fn unfolded(state: &State, selected: usize, part: &mut Part) -> usize {
    let its = &state.violations[selected];
    one(&its.line, true, part);
    let mut lines = violation_lines(&its.violation, part.width());
    let replay = workload::wording::wrapped(&state.about.replay, part.width().saturating_sub(LABELS));
    let labels = ["  replay"].into_iter().chain(std::iter::repeat(""));
    lines.extend(labels.zip(replay).map(|(label, text)| format!("{label:<LABELS$}{text}")));
    let room = part.room();
    let most_scrolled = lines.len().saturating_sub(room);
    for line in lines.iter().skip(state.view.scrolled.min(most_scrolled)).take(room) {
        part.line(line, Tone::Plain);
    }
    for after in state.violations.iter().skip(selected + 1).take(part.room()) {
        one(&after.line, false, part);
    }
    most_scrolled
}

/// A violation as a line.
fn one(line: &str, is_selected: bool, part: &mut Part) {
    if is_selected {
        part.bar(&format!("> {line}"), Tone::Selected);
    } else {
        part.line(&format!("  {line}"), Tone::Bad);
    }
}

/// What keys do. Below the screen are so many more lines of the violation that is unfolded.
pub(super) fn footer(state: &State, more: usize, part: &mut Part) {
    let stop = match state.stage {
        Stage::Connects | Stage::Load => "q stop the run",
        Stage::Stopping | Stage::Checks => "Ctrl-C end at once",
    };
    let text = match (state.violations.is_empty(), state.view.is_unfolded) {
        (true, _) => format!("{stop}   ? help"),
        (false, false) => format!("{stop}   j/k select   Enter unfold   ? help"),
        (false, true) => {
            let more = if more > 0 { format!("   PgDn {more} more lines") } else { String::new() };
            format!("{stop}   j/k next, previous   Enter fold{more}   ? help")
        }
    };
    part.bar(&text, Tone::Selected);
}

/// How long ago something was.
fn age(now: Nanos, since: Nanos) -> String {
    let ms = now.saturating_sub(since) / 1_000_000;
    match ms / 1000 {
        0..10 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        seconds @ 10..600 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

/// A number with three digits or a few more.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}
