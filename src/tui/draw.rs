//! The whole view.

use ratatui::{buffer::Buffer, layout::Rect};

use super::{
    Look, State,
    layout::{LEAST, Places, Wanted},
    paint::{Part, Tone},
    panes,
};

/// What the help says: what each part shows, and what each key does.
const HELP: &[&str] = &[
    "responses  Responses in each second. Good ones were right and in time.",
    "step       From sending a step to its response: p50 and p99 of each second.",
    "           now: the last second that is over; top: the highest bar.",
    "slots      Sequences that certainly have a slot, and for how long (held). A",
    "           sequence that may have lost its slot is not shown, so 1 to 8 of 8",
    "           are taken if one is shown. That is no lost slot.",
    "backlog    STARTs without a response; those that wait longest.",
    "patterns   Sequences begun, sequences in which each step had the outcome that",
    "           was planned (as designed), and violations. Sequences that are still",
    "           under way are begun, and not yet as designed.",
    "violations In the order in which they were seen; the first 1000 are listed.",
    "",
    "q          Stop the run: wait for responses, check the server, report.",
    "Ctrl-C     The same. The second Ctrl-C ends the run at once, without a report.",
    "j k, arrows, PgUp PgDn, g G    Select a violation.",
    "Enter      Unfold the violation, or fold it. PgUp and PgDn scroll it.",
    "Esc        Fold; then follow the latest violation again.",
    "Ctrl-L     Draw the screen anew.",
    "? or h     This help. Any other key leaves it.",
];

/// Draws the view. Returns how many lines the list of violations has, and how far it can be scrolled.
pub(crate) fn draw(state: &State, buffer: &mut Buffer, look: Look) -> (usize, usize) {
    let screen = buffer.area;
    if screen.width < LEAST.0 || screen.height < LEAST.1 {
        too_small(screen, &mut Part::of(buffer, screen, look));
        return (0, 0);
    }
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let wanted = Wanted {
        header: lines(panes::header_lines(state)),
        slots: lines(panes::slot_lines(state)),
        backlog: lines(panes::backlog_lines()),
        patterns: lines(panes::pattern_lines(state)),
        violations: lines(panes::violation_list_lines(state)),
        is_unfolded: state.view.is_unfolded && state.view.selected.is_some(),
    };
    let places = Places::on(screen, wanted);
    panes::header(state, &mut Part::of(buffer, places.header, look));
    if state.view.shows_help {
        let (top, bottom) = (places.header.bottom(), places.footer.y);
        let body = Rect { y: top, height: bottom.saturating_sub(top), ..screen };
        let part = &mut Part::of(buffer, body, look);
        part.title("help");
        for line in HELP {
            part.line(line, Tone::Plain);
        }
        panes::footer(state, 0, &mut Part::of(buffer, places.footer, look));
        return (0, 0);
    }
    panes::rate(state, &mut Part::of(buffer, places.rate, look));
    panes::step(state, &mut Part::of(buffer, places.step, look));
    panes::slots(state, &mut Part::of(buffer, places.slots, look));
    panes::backlog(state, &mut Part::of(buffer, places.backlog, look));
    panes::patterns(state, &mut Part::of(buffer, places.patterns, look));
    let (rows, most_scrolled) = panes::violations(state, &mut Part::of(buffer, places.violations, look));
    let more = most_scrolled.saturating_sub(state.view.scrolled);
    panes::footer(state, more, &mut Part::of(buffer, places.footer, look));
    (rows, most_scrolled)
}

/// What is said where there is no room for the view.
fn too_small(screen: Rect, part: &mut Part) {
    let (Rect { width, height, .. }, (columns, lines)) = (screen, LEAST);
    part.line(
        &format!("terminal {width}x{height}, needs {columns}x{lines}: enlarge it (q stops the run)"),
        Tone::Plain,
    );
}
