//! A search that learns: it draws runs of many kinds, and goes on from those that reached what no run had reached before.
//!
//! What a run reaches are pairs of transitions of the sequence batcher (`reference::transitions`). Each run draws its patterns, sizes and
//! times anew, or changes some of those of an earlier run.

mod estimate;
mod recipe;
mod retrace;

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub(crate) use self::retrace::{Retraced, can_be_retraced};
pub use self::{
    estimate::Estimate,
    recipe::{Recipe, Terms},
};
use reference::transitions::Pair;
use workload::seed::Seed;

/// How often a run is drawn anew although there are earlier ones to go on from.
const ANEW: f64 = 0.2;
/// The most runs to go on from; the one that reached the least of its own leaves first.
const CORPUS_MAX: usize = 1000;
/// More runs than anybody has.
const RUNS_MAX: u64 = 1 << 50;
/// Of the file with what was learnt.
const FORM: u32 = 2;

/// What was reached so far, and the runs to go on from.
#[derive(Debug)]
pub struct Search {
    random: ChaCha8Rng,
    terms: Terms,
    corpus: Vec<Kept>,
    /// In how many runs each pair came about.
    reached: BTreeMap<Pair, u64>,
    runs: u64,
}

/// A run that reached what no run before it had.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    recipe: Recipe,
    pairs: BTreeSet<Pair>,
}

/// What a search has learnt, as a file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Learnt {
    form: u32,
    runs: u64,
    corpus: Vec<Kept>,
    reached: Vec<(Pair, u64)>,
}

impl Search {
    /// A search that has reached nothing. Equal seeds draw equal runs after equal findings.
    pub fn new(seed: Seed, terms: Terms) -> Self {
        Self { random: seed.of_search(), terms, corpus: Vec::new(), reached: BTreeMap::new(), runs: 0 }
    }

    /// What to run next.
    pub fn draw(&mut self) -> Recipe {
        let Self { random, terms, corpus, reached, .. } = self;
        // Another search may have drawn what this one may not.
        let suited: Vec<_> = corpus.iter().filter(|kept| kept.recipe.suits(terms)).collect();
        if suited.is_empty() || random.random_bool(ANEW) {
            return Recipe::drawn(random, terms);
        }
        // The rarer its pairs are, the more often a run is gone on from.
        #[expect(clippy::cast_precision_loss, reason = "runs are few")]
        let rarity = |kept: &Kept| kept.pairs.iter().map(|pair| 1.0 / reached[pair] as f64).sum::<f64>();
        let kept = suited.choose_weighted(random, |kept| rarity(kept)).expect("its own pairs came about");
        kept.recipe.clone().changed(random, terms)
    }

    /// Takes what a run reached, and says how many of its pairs no run had reached before.
    pub fn learn(&mut self, recipe: Recipe, pairs: &BTreeSet<Pair>) -> usize {
        let new = self.count(pairs);
        let count = new.len();
        if count > 0 {
            self.corpus.push(Kept { recipe, pairs: new });
        }
        if self.corpus.len() > CORPUS_MAX {
            let least = (0..self.corpus.len()).min_by_key(|place| self.corpus[*place].pairs.len()).expect("some");
            self.corpus.remove(least);
        }
        count
    }

    /// Takes what a run reached that no search drew, and says how many of its pairs no run had reached before.
    pub fn know(&mut self, pairs: &BTreeSet<Pair>) -> usize {
        self.count(pairs).len()
    }

    /// Counts one more run, and returns what no run before it had reached.
    fn count(&mut self, pairs: &BTreeSet<Pair>) -> BTreeSet<Pair> {
        self.runs += 1;
        let new = pairs.iter().copied().filter(|pair| !self.reached.contains_key(pair)).collect();
        for pair in pairs {
            *self.reached.entry(*pair).or_default() += 1;
        }
        new
    }

    /// The pairs that came about, with the number of runs in which each did.
    pub fn reached(&self) -> &BTreeMap<Pair, u64> {
        &self.reached
    }

    /// What was learnt, for [`Self::take_in`].
    pub fn to_json(&self) -> Vec<u8> {
        let reached = self.reached.iter().map(|(pair, times)| (*pair, *times)).collect();
        let learnt = Learnt { form: FORM, runs: self.runs, corpus: self.corpus.clone(), reached };
        let mut json = serde_json::to_vec(&learnt).expect("what was learnt is a document");
        json.push(b'\n');
        json
    }

    /// Goes on from what another search has learnt; this one has learnt nothing yet.
    ///
    /// # Errors
    /// When that is nothing that [`Self::to_json`] wrote.
    pub fn take_in(&mut self, json: &[u8]) -> Result<(), String> {
        let learnt: Learnt = serde_json::from_slice(json).map_err(|error| format!("it is no corpus ({error})"))?;
        if learnt.form != FORM {
            return Err(format!("it has form {}, and this version reads form {FORM}", learnt.form));
        }
        let pairs = learnt.reached.len();
        let is_count = |times: &u64| *times > 0 && *times <= learnt.runs;
        self.reached = learnt.reached.into_iter().collect();
        if learnt.runs > RUNS_MAX || self.reached.len() < pairs || !self.reached.values().all(is_count) {
            return Err("its counts cannot be".to_owned());
        }
        let is_known = |pair: &Pair| self.reached.contains_key(pair);
        if learnt.corpus.iter().any(|kept| kept.pairs.is_empty() || !kept.pairs.iter().all(is_known)) {
            return Err("it has a run without what the run reached".to_owned());
        }
        let draws_server = self.terms.given_idle.is_none();
        if learnt.corpus.iter().any(|kept| kept.recipe.has_server() != draws_server) {
            let of = if draws_server { "runs on a given server" } else { "simulated runs" };
            return Err(format!("it is of {of}"));
        }
        if !learnt.corpus.iter().all(|kept| kept.recipe.is_drawable()) {
            return Err("it has a run that no search draws".to_owned());
        }
        (self.corpus, self.runs) = (learnt.corpus, learnt.runs);
        self.corpus.truncate(CORPUS_MAX);
        Ok(())
    }

    /// How much is not reached, as far as that can be known.
    pub fn estimate(&self) -> Estimate {
        Estimate::new(self.runs, self.reached.values().copied())
    }
}

#[cfg(test)]
mod tests;
