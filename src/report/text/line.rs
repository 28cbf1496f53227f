//! Lines with a label.

use std::io;

use anstyle::Style;

use super::{RED, YELLOW};
use crate::report::checks::{Check, Tone};
use workload::wording::wrapped;

/// The columns before the text of a line.
const LABELS: usize = 17;

/// Something that the report says, with a label in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    label: &'static str,
    /// That of the label.
    style: Style,
    text: String,
}

impl Line {
    /// Something that is as it should be.
    pub(super) fn fine(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, style: Style::new(), text: text.into() }
    }

    /// Something that the reader should look at.
    pub(super) fn odd(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, style: YELLOW, text: text.into() }
    }

    /// The line of a check.
    pub(super) fn of(Check { name, says, tone, .. }: &Check) -> Self {
        let style = match tone {
            Tone::Fine => Style::new(),
            Tone::Odd => YELLOW,
            Tone::Bad => RED,
        };
        Self { label: name.name(), style, text: says.clone() }
    }
}

/// Writes lines below one another, broken at so many columns. Of several lines with one label only the first shows the label.
pub(super) fn write_lines(lines: &[Line], columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let mut before = "";
    for Line { label, style, text } in lines {
        let shown = if *label == before { "" } else { label };
        before = label;
        let width = LABELS - 3;
        for (index, part) in wrapped(text, columns - LABELS).iter().enumerate() {
            let shown = if index == 0 { shown } else { "" };
            writeln!(out, "  {style}{shown:<width$}{style:#} {part}")?;
        }
    }
    Ok(())
}
