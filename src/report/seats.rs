//! Which sequence was in which slot, as a drawing for people: a line for each slot, time running to the right.

use std::{collections::BTreeMap, io};

use oracle::history::Entry;
use workload::{
    controls::Seen,
    event::{ContextId, EventKind, Nanos},
    sequence::CorrelationId,
};

/// What the slots' names take of a line.
const NAMES: usize = 9;
/// The most lines.
const LINES: usize = 16;

/// From a sequence's first answer out of a slot to its last one.
struct Stay {
    id: CorrelationId,
    from: Nanos,
    to: Nanos,
}

/// Draws who was in which slot from one time to another, in so many columns; nothing where models did not tell.
///
/// Where sequences were in one slot at the same time it has a line for each.
pub(super) fn write_seats(
    entries: &[Entry],
    (from, to): (Nanos, Nanos),
    width: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let width = width - NAMES - 3;
    let lines = lines(entries.iter().filter(|entry| (from..=to).contains(&entry.at)));
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "the slots meanwhile, each sequence from its first answer to its last, by correlation ID")?;
    let column = |at: Nanos| {
        let share = u128::from(at - from) * (width as u128 - 1) / u128::from((to - from).max(1));
        usize::try_from(share).unwrap_or(width - 1)
    };
    let left = lines.len().saturating_sub(LINES);
    for (slot, stays) in lines.into_iter().take(LINES) {
        let mut cells = vec![' '; width];
        for Stay { id, from, to } in stays {
            cells[column(from)..=column(to)].fill('─');
            let label = id.to_string();
            // At the right edge it begins earlier.
            let first = column(from).min(width.saturating_sub(label.len()));
            for (cell, letter) in cells[first..].iter_mut().zip(label.chars()) {
                *cell = letter;
            }
        }
        let drawn: String = cells.into_iter().collect();
        writeln!(out, "{:>NAMES$} │ {}", format!("slot {slot}"), drawn.trim_end())?;
    }
    if left > 0 { writeln!(out, "{:>NAMES$} {left} more", "…") } else { Ok(()) }
}

/// By slot, and where several sequences were in one at a time by turns, the stays that do not overlap.
fn lines<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<(u32, Vec<Stay>)> {
    let mut stays: BTreeMap<(u32, ContextId, u32), Stay> = BTreeMap::new();
    for entry in entries {
        let EventKind::Answered(request, _, seen) = &entry.what else { continue };
        let Some(slot) = seen.and_then(Seen::slot) else { continue };
        let first = || Stay { id: entry.correlation_id, from: entry.at, to: entry.at };
        stays.entry((slot, entry.context, request.sequence)).or_insert_with(first).to = entry.at;
    }
    let mut stays: Vec<_> = stays.into_iter().map(|((slot, ..), stay)| (slot, stay)).collect();
    stays.sort_by_key(|(slot, stay)| (*slot, stay.from));
    let mut lines: Vec<(u32, Vec<Stay>)> = Vec::new();
    for (slot, stay) in stays {
        let is_free = |stays: &Vec<Stay>| stays.last().is_none_or(|last| last.to <= stay.from);
        match lines.iter_mut().find(|(its, stays)| *its == slot && is_free(stays)) {
            Some((_, stays)) => stays.push(stay),
            None => lines.push((slot, vec![stay])),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{conversation::Lane, sequence::RequestId};

    fn answered(at: Nanos, worker: u32, sequence: u32, slot: u32) -> Entry {
        let context = ContextId { worker, context: 0 };
        let request = RequestId { worker, context: 0, sequence, step: 0 };
        let seen = Seen::new([None; 3], -1, Some(slot));
        let correlation_id = CorrelationId((u64::from(worker) + 101).try_into().expect("not zero"));
        Entry {
            at,
            context,
            correlation_id,
            lane: Lane::FIRST,
            what: EventKind::Answered(request, 1.into(), Some(seen)),
        }
    }

    fn drawn(entries: &[Entry]) -> String {
        let mut out = Vec::new();
        write_seats(entries, (0, 40), 53, &mut out).expect("memory has room");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn each_slot_has_a_line_and_each_sequence_its_place() {
        let entries =
            [(0, 0, 0, 1), (5, 1, 0, 0), (20, 0, 0, 1), (25, 1, 1, 1), (30, 1, 1, 1), (40, 2, 0, 0), (99, 2, 0, 0)];
        assert_eq!(
            drawn(&entries.map(|(at, worker, sequence, slot)| answered(at, worker, sequence, slot))),
            "\
the slots meanwhile, each sequence from its first answer to its last, by correlation ID
   slot 0 │      102                              103
   slot 1 │ 101──────────────────    102───
"
        );
    }

    #[test]
    fn sequences_that_are_in_one_slot_at_a_time_have_a_line_each_and_unknown_slots_none() {
        let shared = [answered(0, 0, 0, 3), answered(10, 1, 0, 3), answered(20, 0, 0, 3), answered(30, 1, 0, 3)];
        assert_eq!(drawn(&shared).lines().filter(|line| line.contains("slot 3")).count(), 2);
        let untold = Entry { what: EventKind::Closed, ..answered(0, 0, 0, 0) };
        assert_eq!(drawn(&[untold]), "");
    }
}
