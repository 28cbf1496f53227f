//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::State;

/// What a key asks for that the view cannot do itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That the run stops, and waits for responses. Where it does so already nothing more.
    Stop,
    /// The same as Ctrl-C elsewhere: the second one ends the run at once.
    Interrupt,
    /// That everything is drawn anew.
    Redraw,
}

impl State {
    /// Does what a key asks for. Returns what is left to be done.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Some(Wish::Interrupt),
            KeyCode::Char('l') if is_control => return Some(Wish::Redraw),
            KeyCode::Char(_) if is_control => {}
            KeyCode::Char('q' | 'Q') => return Some(Wish::Stop),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.view.shows_help ^= true,
            KeyCode::Esc => self.back(),
            _ if self.view.shows_help => self.view.shows_help = false,
            KeyCode::Enter | KeyCode::Char(' ') => self.unfold(),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.page(1),
            KeyCode::PageUp => self.page(-1),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            _ => {}
        }
        None
    }

    /// Takes in what the view was drawn like: how many lines the list had, and how far it can be scrolled.
    pub(crate) fn drawn(&mut self, (rows, most_scrolled): (usize, usize)) {
        (self.view.rows, self.view.most_scrolled) = (rows, most_scrolled);
        self.view.scrolled = self.view.scrolled.min(most_scrolled);
    }

    /// Leaves the help, else the violation that is unfolded, else the one that is selected.
    fn back(&mut self) {
        if self.view.shows_help {
            self.view.shows_help = false;
        } else if self.view.is_unfolded {
            self.view.is_unfolded = false;
        } else {
            self.view.selected = None;
        }
    }

    fn unfold(&mut self) {
        let Some(last) = self.violations.len().checked_sub(1) else { return };
        self.view.selected.get_or_insert(last);
        self.view.is_unfolded ^= true;
        self.view.scrolled = 0;
    }

    /// Selects the violation that is so many further on.
    fn go(&mut self, by: isize) {
        let Some(last) = self.violations.len().checked_sub(1) else { return };
        // Without a selection the latest is before the user's eyes.
        let next = self.view.selected.map_or(last, |selected| selected.saturating_add_signed(by));
        self.select(next);
    }

    fn select(&mut self, violation: usize) {
        let Some(last) = self.violations.len().checked_sub(1) else { return };
        self.view.selected = Some(violation.min(last));
        self.view.scrolled = 0;
    }

    /// Goes on by a page: in the violation that is unfolded, else in the list.
    fn page(&mut self, direction: isize) {
        let page = isize::try_from(self.view.rows.saturating_sub(1).max(1)).unwrap_or(1);
        if self.view.is_unfolded {
            let scrolled = self.view.scrolled.saturating_add_signed(direction * page);
            self.view.scrolled = scrolled.min(self.view.most_scrolled);
        } else {
            self.go(direction * page);
        }
    }
}
