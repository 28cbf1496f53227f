//! What a model keeps of sequences, bounded.

use std::{collections::HashMap, hash::Hash};

/// States that are kept in each of two generations.
const GENERATION: usize = 65_536;

/// States by key, bounded: a model is not told of sequences that the server reaps, so what was not used while 65,536 others
/// were is forgotten.
#[derive(Debug)]
pub(super) struct Kept<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(super) fn set(&mut self, key: K, state: V) {
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, state);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_are_used_are_kept_and_the_rest_is_bounded() {
        let mut kept = Kept::default();
        kept.set(-1, 7);
        for key in 0..1_000_000 {
            kept.set(key, key);
            if key % 1000 == 0 {
                let state = *kept.get(&-1).expect("it is in use");
                kept.set(-1, state);
            }
        }
        assert_eq!((kept.get(&-1), kept.get(&999_999), kept.get(&0)), (Some(&7), Some(&999_999), None));
        assert!(kept.young.len() + kept.old.len() <= 2 * GENERATION);
        kept.remove(&999_999);
        assert_eq!(kept.get(&999_999), None);
    }
}
