//! Writes on the screen's buffer, and never beside it.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
};

use super::chart::Marks;

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether it has colours, and the user wants them.
    pub(crate) has_colours: bool,
    /// Whether it has characters besides those of ASCII.
    pub(crate) has_blocks: bool,
}

/// What a text means. Colours say it once more: each also differs in its words or in weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Title,
    Good,
    Doubtful,
    Bad,
    Selected,
    /// The line of a chart.
    Chart,
}

impl Look {
    fn style(self, tone: Tone) -> Style {
        let coloured = |style: Style, colour| if self.has_colours { style.fg(colour) } else { style };
        let (plain, bold) = (Style::new(), Style::new().add_modifier(Modifier::BOLD));
        match tone {
            Tone::Plain => plain,
            Tone::Title => bold,
            Tone::Good => coloured(bold, Color::Green),
            Tone::Doubtful => coloured(bold, Color::Yellow),
            Tone::Bad => coloured(bold, Color::Red),
            Tone::Selected => plain.add_modifier(Modifier::REVERSED),
            Tone::Chart => coloured(plain, Color::Cyan),
        }
    }

    pub(super) fn marks(self) -> Marks {
        if self.has_blocks {
            Marks { levels: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'], above: '░' }
        } else {
            Marks { levels: ['.', '.', '.', '.', '.', '#', '#', '#'], above: ':' }
        }
    }
}

/// The lines of a part of the screen, from the top down. What has no room is left out.
pub(super) struct Part<'b> {
    buffer: &'b mut Buffer,
    pub(super) look: Look,
    area: Rect,
    next: u16,
    /// Where the text of the line before ends.
    end: u16,
}

impl<'b> Part<'b> {
    /// The part of the buffer that is this area; what of it is beside the buffer is left out.
    pub(super) fn of(buffer: &'b mut Buffer, area: Rect, look: Look) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, look, area, next: 0, end: area.x }
    }

    pub(super) fn width(&self) -> usize {
        self.area.width.into()
    }

    /// How many lines there is room for.
    pub(super) fn room(&self) -> usize {
        self.area.height.saturating_sub(self.next).into()
    }

    /// A line that names the part.
    pub(super) fn title(&mut self, title: &str) {
        let rule = if self.look.has_blocks { '─' } else { '-' };
        let before = format!("{rule}{rule} {title} ");
        let rest = self.width().saturating_sub(before.chars().count());
        self.line(&(before + &String::from(rule).repeat(rest)), Tone::Title);
    }

    pub(super) fn line(&mut self, text: &str, tone: Tone) {
        self.words(&[(text, tone)]);
    }

    /// A line of several texts, one after the other.
    pub(super) fn words(&mut self, texts: &[(&str, Tone)]) {
        if self.room() == 0 {
            return;
        }
        let (mut x, y) = (self.area.x, self.area.y + self.next);
        for (text, tone) in texts {
            let room = self.area.right().saturating_sub(x);
            if room == 0 {
                break;
            }
            (x, _) = self.buffer.set_stringn(x, y, self.shown(text), room.into(), self.look.style(*tone));
        }
        self.next += 1;
        self.end = x;
    }

    /// A line whose whole width has the tone.
    pub(super) fn bar(&mut self, text: &str, tone: Tone) {
        let padded = format!("{text:<width$}", width = self.width());
        self.line(&padded, tone);
    }

    /// A text at the right end of the line before.
    pub(super) fn right(&mut self, text: &str, tone: Tone) {
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX).min(self.area.width);
        if let Some(line) = self.next.checked_sub(1) {
            let (x, y) = (self.area.right() - width, self.area.y + line);
            let style = self.look.style(Tone::Plain).patch(self.look.style(tone));
            self.buffer.set_stringn(x, y, self.shown(text), width.into(), style);
        }
    }

    /// The same, if it hides nothing.
    pub(super) fn right_if_room(&mut self, text: &str, tone: Tone) {
        if usize::from(self.area.right().saturating_sub(self.end)) >= text.chars().count() {
            self.right(text, tone);
        }
    }

    /// What the terminal can show of a text. Control characters move a terminal's cursor.
    fn shown(&self, text: &str) -> String {
        let mark = |c: char| match c {
            '…' if !self.look.has_blocks => '.',
            '∞' | '✗' | 'µ' if !self.look.has_blocks => '?',
            c if c.is_control() => '?',
            c => c,
        };
        text.chars().map(mark).collect()
    }
}
