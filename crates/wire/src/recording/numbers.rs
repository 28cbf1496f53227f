//! Numbers that stand for correlation IDs, which may tell of people.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    mem,
};

use super::inference::Id;

/// How many sequences are known at the least when more of them go on at a time; those that were not heard of for longest are forgotten.
const KNOWN: usize = 1 << 19;

/// The sequences that go on. Those that end are forgotten, and a new one of the same ID gets another number.
#[derive(Debug)]
pub(super) struct Numbers {
    /// IDs are not kept: two hashes, whose keys nobody knows, stand for one.
    hashes: [RandomState; 2],
    /// Those that were heard of last, and those before them.
    young: HashMap<[u64; 2], Sequence>,
    old: HashMap<[u64; 2], Sequence>,
    given: u64,
    most: usize,
}

/// A sequence that goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    pub(super) number: u64,
    /// Whether all of it was recorded from START on, and how many gaps there were before that.
    pub(super) whole_since: Option<u64>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self::with_room_for(KNOWN)
    }
}

impl Numbers {
    fn with_room_for(most: usize) -> Self {
        let hashes = [RandomState::new(), RandomState::new()];
        Self { hashes, young: HashMap::new(), old: HashMap::new(), given: 0, most }
    }

    /// The sequence of a model with this ID, which has a number from now on.
    pub(super) fn of(&mut self, model: &str, id: &Id) -> &mut Sequence {
        let key = self.key(model, id);
        if !self.young.contains_key(&key) {
            if self.young.len() >= self.most {
                self.old = mem::take(&mut self.young);
            }
            let known = self.old.remove(&key);
            let new = Sequence { number: self.given + 1, whole_since: None };
            self.given += u64::from(known.is_none());
            self.young.insert(key, known.unwrap_or(new));
        }
        self.young.entry(key).or_default()
    }

    /// Forgets a sequence that ended.
    pub(super) fn forget(&mut self, model: &str, id: &Id) {
        let key = self.key(model, id);
        self.young.remove(&key);
        self.old.remove(&key);
    }

    fn key(&self, model: &str, id: &Id) -> [u64; 2] {
        [0, 1].map(|hash: usize| self.hashes[hash].hash_one((model, id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_has_a_number_until_it_is_forgotten() {
        let mut numbers = Numbers::with_room_for(2);
        let text = |id: &str| Id::Text(id.to_owned());
        assert_eq!(numbers.of("m", &Id::Number(7)).number, 1);
        assert_eq!(numbers.of("n", &Id::Number(7)).number, 2);
        assert_eq!(numbers.of("m", &text("7")).number, 3);
        assert_eq!(numbers.of("m", &Id::Number(7)).number, 1);
        numbers.forget("m", &Id::Number(7));
        assert_eq!(numbers.of("m", &Id::Number(7)).number, 4);
        assert_eq!(numbers.of("m", &text("7")).number, 3);
        // Those that were not heard of for longest make room.
        for other in 100..104 {
            numbers.of("m", &Id::Number(other));
        }
        assert!(numbers.young.len() + numbers.old.len() <= 4);
        assert_eq!(numbers.of("n", &Id::Number(7)).number, 9);
    }
}
