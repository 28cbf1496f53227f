//! Puts sequences into lanes.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use workload::event::Nanos;

/// A time in which a sequence had a slot, and the slot where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) from: Nanos,
    /// Until when it certainly had the slot.
    pub(super) until: Nanos,
    /// Until when it is shown: the slot may have been free before.
    pub(super) shown_until: Nanos,
    pub(super) slot: Option<u32>,
}

/// The lane of each, and how many lanes there are. A slot that is known is the lane; any other sequence gets a lane that is free: the first
/// one in which nothing is shown, if there is one. `holds` are in order of their beginnings.
///
/// As no more sequences than slots certainly have one at a time, so many lanes suffice, unless the server is wrong.
pub(super) fn assign(holds: &[Hold], slots: u32) -> (Vec<u32>, u32) {
    let told = holds.iter().filter_map(|hold| hold.slot).max().map_or(0, |slot| slot + 1);
    let mut lanes = Lanes { count: told, ..Lanes::default() };
    let assigned = holds.iter().map(|hold| hold.slot.unwrap_or_else(|| lanes.take(hold))).collect();
    (assigned, lanes.count.max(slots))
}

#[derive(Default)]
struct Lanes {
    count: u32,
    /// Until when each is certainly taken, until when something is shown in it, and which it is.
    taken: BinaryHeap<Reverse<(Nanos, Nanos, u32)>>,
    /// Those that may be free, by the time until when something is shown in them.
    fading: BTreeSet<(Nanos, u32)>,
    /// Those in which nothing is shown.
    empty: BTreeSet<u32>,
}

impl Lanes {
    fn take(&mut self, hold: &Hold) -> u32 {
        while let Some(&Reverse((until, shown_until, lane))) = self.taken.peek() {
            if until > hold.from {
                break;
            }
            self.taken.pop();
            self.fading.insert((shown_until, lane));
        }
        while let Some((_, lane)) = self.fading.first().copied().filter(|(shown_until, _)| *shown_until <= hold.from) {
            self.fading.pop_first();
            self.empty.insert(lane);
        }
        let free = self.empty.pop_first().or_else(|| self.fading.pop_first().map(|(_, lane)| lane));
        let lane = free.unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        self.taken.push(Reverse((hold.until, hold.shown_until, lane)));
        lane
    }
}
