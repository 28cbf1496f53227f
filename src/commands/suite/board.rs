//! What a suite shows: a row for each scenario as it ends, and which scenarios run: in a line on a terminal, elsewhere in lines.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _, stderr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Chosen, print, say_error, say_interrupted};
use crate::{
    report::{LiveLines, Pictured, ScenarioOutcome, SuiteRow, write_suite_header, write_violation},
    run::{Observer, Progress},
};
use oracle::Violation;
use workload::wording::counted;

/// How often the line on a terminal is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(500);
/// How often a scenario that goes on has a line of its own where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// The scenarios of a suite, and how far it is. All threads of the suite share it.
pub(super) struct Board {
    names: BTreeMap<u64, &'static str>,
    width: usize,
    bar: Option<ProgressBar>,
    /// Whether lines say which scenarios run.
    has_lines: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Vec<u64>,
    rows: BTreeMap<u64, SuiteRow>,
    has_said_interrupted: bool,
}

impl Board {
    /// The board of these scenarios; prints the head of the table.
    pub(super) fn new(quiet: bool, chosen: &[Chosen]) -> Self {
        let names: BTreeMap<_, _> = chosen.iter().map(|(place, builtin)| (*place, builtin.name)).collect();
        let width = names.values().map(|name| name.len()).max().unwrap_or_default();
        let bar = (!quiet && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .expect("the template is right, as every suite shows");
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(DRAWN_EVERY);
            bar
        });
        print(|out| write_suite_header(width, out));
        Self { names, width, has_lines: !quiet && bar.is_none(), bar, state: Mutex::default() }
    }

    /// A scenario begins.
    pub(super) fn began(&self, place: u64) {
        let mut state = self.state();
        state.running.push(place);
        self.show(&state);
    }

    /// A scenario ended.
    pub(super) fn ended(&self, place: u64, outcome: ScenarioOutcome, pictured: Pictured, took: Duration) {
        let mut state = self.state();
        state.running.retain(|running| *running != place);
        let row = SuiteRow { name: self.names[&place].to_owned(), outcome, took, pictured };
        self.above(|| print(|out| row.write(self.width, out)));
        state.rows.insert(place, row);
        self.show(&state);
    }

    /// Who watches the run of a scenario.
    pub(super) fn lookout(&self, place: u64, saw_violation: Arc<AtomicBool>) -> Lookout<'_> {
        Lookout { board: self, place, live: LiveLines::default(), next_line: LINE_EVERY, saw_violation }
    }

    /// The rows in the order of the scenarios.
    pub(super) fn finish(self) -> Vec<SuiteRow> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).rows.into_values().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints above the line on a terminal.
    fn above(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn show(&self, state: &State) {
        let (done, all) = (state.rows.len(), self.names.len());
        let left = all - done - state.running.len();
        let running: Vec<_> = state.running.iter().map(|place| self.names[place]).collect();
        let message = format!("{done} of {all} done, {left} waiting; running: {}", running.join(", "));
        match &self.bar {
            Some(bar) => bar.set_message(message),
            None if running.is_empty() => {}
            None => self.say(&message),
        }
    }

    /// Says how far the suite is, where there is no terminal.
    fn say(&self, line: &str) {
        if self.has_lines {
            // Nothing can be done where nobody reads it.
            let _ = writeln!(anstream::stderr(), "{line}");
        }
    }
}

/// Watches the run of a scenario.
pub(super) struct Lookout<'b> {
    board: &'b Board,
    place: u64,
    live: LiveLines,
    /// How far the run is when its next line is written.
    next_line: Duration,
    saw_violation: Arc<AtomicBool>,
}

impl Observer for Lookout<'_> {
    fn violation(&mut self, violation: &Violation) {
        self.saw_violation.store(true, Relaxed);
        if self.live.is_new(violation) {
            let name = self.board.names[&self.place];
            self.board.above(|| print(|out| write_violation(violation, &format!("{name}: "), out)));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if progress.elapsed >= self.next_line {
            self.next_line = progress.elapsed + LINE_EVERY;
            let (name, seconds) = (self.board.names[&self.place], progress.elapsed.as_secs());
            self.board.say(&format!("{name}: {} in {seconds} s", counted(progress.completed, "response")));
        }
    }

    fn trouble(&mut self, what: &str) {
        self.board.above(|| say_error(what));
    }

    fn interrupted(&mut self, drain: Duration) {
        // One interrupt ends all that run.
        if std::mem::replace(&mut self.board.state().has_said_interrupted, true) {
            return;
        }
        self.board.above(|| say_interrupted(drain));
    }
}
