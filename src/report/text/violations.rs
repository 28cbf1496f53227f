//! Violations by kind and cause, with an example of each.

use std::{collections::BTreeSet, io};

use super::{
    Extent, RED,
    line::{Line, write_lines},
    shortened,
};
use crate::report::{Description, Summary, words};
use oracle::{Place, Violation, ViolationKind, diagnosis::Cause};
use workload::wording::{counted, wrapped};

/// The groups of which the usual report has an example.
const EXAMPLES: usize = 8;
/// The columns of a line while the run goes on.
const LIVE_COLUMNS: usize = 79;

/// What violations have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    kind: ViolationKind,
    cause: Option<Cause>,
}

impl Group {
    fn of(violation: &Violation) -> Self {
        Self { kind: violation.kind, cause: violation.explanations.first().map(|its| its.cause) }
    }
}

/// Writes the violations in groups, the group of the earliest violation first.
pub(super) fn write_groups(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    // Each with its first violation, and how many the run kept.
    let mut groups: Vec<(Group, &Violation, u64)> = Vec::new();
    for violation in &summary.result.violations {
        let group = Group::of(violation);
        match groups.iter_mut().find(|(its, ..)| *its == group) {
            Some((.., count)) => *count += 1,
            None => groups.push((group, violation, 1)),
        }
    }
    for (index, (group, first, count)) in groups.into_iter().enumerate() {
        let has_example = extent == Extent::Wide || index < EXAMPLES;
        if has_example {
            writeln!(out)?;
        }
        writeln!(out, "{RED}{}{RED:#}: {}", title(group), counted(count, "violation"))?;
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

fn title(Group { kind, cause }: Group) -> String {
    match cause {
        Some(cause) => format!("{kind}, cause {cause}"),
        None => kind.to_string(),
    }
}

/// A violation in full, with some words before its title.
pub(crate) fn write_violation(violation: &Violation, before: &str, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{RED}{before}{}{RED:#}", title(Group::of(violation)))?;
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
    let head = format!("{} {}{id}", title(Group::of(violation)), words::at(violation));
    (head, format!(": saw {seen}, expected {expected}"))
}

fn write_example(violation: &Violation, columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let Description { sent, expected, seen } = Description::of(violation);
    writeln!(out, "  {}", wrapped(violation.kind.what(), columns - 2).join("\n  "))?;
    let mut lines = vec![
        Line::fine("where", place(violation)),
        Line::fine("sent", sent),
        Line::fine("expected", expected),
        Line::fine("seen", seen),
    ];
    for (index, explanation) in violation.explanations.iter().enumerate() {
        let (cause, evidence) = (explanation.cause, words::evidence(violation, explanation));
        let label = if index == 0 { "cause" } else { "or" };
        lines.push(Line::fine(label, format!("{cause}: {} Evidence: {evidence}", cause.what())));
    }
    if violation.kind == ViolationKind::WrongOutput && violation.explanations.is_empty() {
        lines.push(Line::fine("cause", "not known: docs/GOLDEN.md#what-a-run-judges says why that may be"));
    }
    lines.push(Line::fine("read on", format!("docs/VIOLATIONS.md#{}", violation.kind)));
    lines.push(Line::fine("read on", format!("sequence-stress explain {}", violation.kind)));
    write_lines(&lines, columns, out)
}

/// When and where a violation was seen.
fn place(violation: &Violation) -> String {
    let at = words::at(violation);
    let Some(Place { worker, context, correlation_id, request_id, .. }) = &violation.place else { return at };
    let request = request_id.map_or_else(String::new, |request| format!(", request {request}"));
    format!("{at}, worker {worker}, context {context}, correlation ID {correlation_id}{request}")
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
