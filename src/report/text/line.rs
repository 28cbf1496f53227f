//! Lines with a label.

use std::io;

use anstyle::Style;

use super::{RED, YELLOW};
use workload::wording::wrapped;

/// The columns before the text of a line.
const LABELS: usize = 17;

/// Something that the report says, with a label in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    label: &'static str,
    tone: Tone,
    text: String,
}

/// How a line concerns the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Fine,
    Odd,
    Bad,
}

impl Line {
    /// Something that is as it should be.
    pub(super) fn fine(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, tone: Tone::Fine, text: text.into() }
    }

    /// Something that the reader should look at.
    pub(super) fn odd(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, tone: Tone::Odd, text: text.into() }
    }

    /// Something that is wrong.
    pub(super) fn bad(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, tone: Tone::Bad, text: text.into() }
    }
}

/// Writes lines below one another, broken at so many columns. Of several lines with one label only the first shows the label.
pub(super) fn write_lines(lines: &[Line], columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let mut before = "";
    for Line { label, tone, text } in lines {
        let shown = if *label == before { "" } else { label };
        before = label;
        let style = match tone {
            Tone::Fine => Style::new(),
            Tone::Odd => YELLOW,
            Tone::Bad => RED,
        };
        let width = LABELS - 3;
        for (index, part) in wrapped(text, columns - LABELS).iter().enumerate() {
            let shown = if index == 0 { shown } else { "" };
            writeln!(out, "  {style}{shown:<width$}{style:#} {part}")?;
        }
    }
    Ok(())
}
