//! Violations by kind and cause, with an example of each.

use std::{collections::BTreeSet, io, time::Duration};

use super::{
    Extent, RED,
    line::{Line, write_lines},
    shortened,
};
use crate::report::{
    Description, Summary,
    told::{EXAMPLES, Group, Told, groups},
    words,
};
use oracle::Violation;
use workload::wording::{counted, wrapped};

/// The columns of a line while the run goes on.
const LIVE_COLUMNS: usize = 79;

/// Writes the violations in groups, the group of the earliest violation first.
pub(super) fn write_groups(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    let groups = groups(&summary.result.violations, Group::of);
    for (index, (group, first, count)) in groups.into_iter().enumerate() {
        let has_example = extent == Extent::Wide || index < EXAMPLES;
        if has_example {
            writeln!(out)?;
        }
        writeln!(out, "{RED}{}{RED:#}: {}", group.title(), counted(count, "violation"))?;
        if has_example {
            write_example(first, extent.columns(), out)?;
        }
    }
    let (all, kept) = (summary.result.tally.violation_count(), summary.result.violations.len() as u64);
    if all > kept {
        let kinds: Vec<_> =
            summary.result.tally.violations.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let text =
            format!("The run kept the first {kept} of {}. Of all: {}", counted(all, "violation"), kinds.join(", "));
        writeln!(out, "\n{}", wrapped(&text, extent.columns()).join("\n"))?;
    }
    Ok(())
}

/// A violation in full, with some words before its title.
pub(crate) fn write_violation(violation: &Violation, before: &str, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{RED}{before}{}{RED:#}", Group::of(violation).title())?;
    write_example(violation, Extent::Usual.columns(), out)
}

/// A violation as a line, which may be long.
pub(crate) fn violation_line(violation: &Violation) -> String {
    let (head, rest) = in_a_line(violation);
    head + &rest
}

/// What the report shows of a violation below its title: lines of at most so many columns where words allow it, without colours.
pub(crate) fn violation_lines(violation: &Violation, columns: usize) -> Vec<String> {
    let mut text = Vec::new();
    write_example(violation, columns, &mut text).expect("memory takes it");
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// What it is, when and where; and what was seen.
fn in_a_line(violation: &Violation) -> (String, String) {
    let Description { expected, seen, .. } = Description::of(violation);
    let id = violation.place.as_ref().map_or_else(String::new, |place| format!(" ID {}", place.correlation_id));
    let head = format!("{} {}{id}", Group::of(violation).title(), words::at(Duration::from_nanos(violation.at_ns)));
    (head, format!(": saw {seen}, expected {expected}"))
}

fn write_example(violation: &Violation, columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "  {}", wrapped(violation.kind.what(), columns - 2).join("\n  "))?;
    let lines = Told::of(violation).lines().into_iter().map(|(label, text)| Line::fine(label, text));
    write_lines(&lines.collect::<Vec<_>>(), columns, out)
}

/// Lines about violations while the run goes on: one for the first of each kind and cause.
#[derive(Debug, Default)]
pub struct LiveLines(BTreeSet<Group>);

impl LiveLines {
    /// Whether the violation is the first of its kind and cause.
    pub fn is_new(&mut self, violation: &Violation) -> bool {
        self.0.insert(Group::of(violation))
    }

    /// Writes a line that fits 80 columns, if the violation is the first of its kind and cause.
    pub(crate) fn write(&mut self, violation: &Violation, out: &mut impl io::Write) -> io::Result<()> {
        if !self.is_new(violation) {
            return Ok(());
        }
        let (head, rest) = in_a_line(violation);
        writeln!(out, "{RED}{head}{RED:#}{}", shortened(&rest, LIVE_COLUMNS.saturating_sub(head.chars().count())))
    }
}
