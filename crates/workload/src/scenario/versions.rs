//! Which version of the model each worker sends to.

use std::borrow::Cow;

use super::{Population, Scenario};
use crate::{model::Model, version::ModelVersion};

impl Scenario {
    /// The version that a population's requests name; none where the server takes the newest.
    pub fn version_in(&self, population: &Population) -> Option<ModelVersion> {
        population.version.or(self.target.version)
    }

    /// The version that a worker's requests name.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn version_of(&self, worker: u32) -> Option<ModelVersion> {
        self.version_in(self.population_of(worker))
    }

    /// The model as a worker's requests name it.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn model_of<'m>(&self, worker: u32, model: &'m Model) -> Cow<'m, Model> {
        let asked_version = self.version_of(worker);
        if asked_version == model.asked_version {
            return Cow::Borrowed(model);
        }
        Cow::Owned(Model { asked_version, ..model.clone() })
    }

    /// The versions that requests name, in the order of the populations; that of the first one also gets what is sent after the run.
    pub fn versions(&self) -> Vec<Option<ModelVersion>> {
        let mut versions = Vec::new();
        for version in self.populations.iter().map(|population| self.version_in(population)) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        versions
    }

    /// Whether requests name several versions, each of which has slots and sequences of its own.
    pub fn has_several_versions(&self) -> bool {
        self.versions().len() > 1
    }

    /// How many workers before this one send to the same version.
    pub fn place_in_version(&self, worker: u32) -> u32 {
        let (mut place, mut left) = (0, worker);
        let version = self.version_of(worker);
        for population in &self.populations {
            let workers = population.load.workers.get();
            if self.version_in(population) == version {
                place += left.min(workers);
            }
            left = left.saturating_sub(workers);
        }
        place
    }

    /// How many workers each version has, where requests name several and each version is one population of as many workers.
    pub fn workers_of_a_version(&self) -> Option<u32> {
        let workers = self.populations.first()?.load.workers;
        let are_alike = self.populations.iter().all(|population| population.load.workers == workers);
        let is_each_one = self.has_several_versions() && self.versions().len() == self.populations.len();
        (is_each_one && are_alike).then_some(workers.get())
    }

    /// Makes sure that the IDs of two populations meet in no version.
    pub(super) fn check_versions(&self) -> Result<(), (String, String)> {
        if self.populations.iter().all(|population| population.version.is_none()) {
            return Ok(());
        }
        if let Some(version) = self.target.version {
            let problem =
                format!("{version} (--model-version), and the populations name versions of their own: leave it out");
            return Err(("target.version".to_owned(), problem));
        }
        let Some(index) = self.populations.iter().position(|population| population.version.is_none()) else {
            return Ok(());
        };
        let problem =
            "another population names a version, and this one may be sent to the same: give it a version, too";
        Err((format!("population[{index}].version"), problem.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Overrides, Scenario, Source};

    fn scenario(text: &str) -> Result<Scenario, String> {
        let resolved = Scenario::resolve(&Source::from_text("a.toml", text), Overrides::default());
        resolved.map_err(|error| error.to_string())
    }

    fn populations(versions: &[&str]) -> String {
        let population = |(number, version): (usize, &&str)| {
            format!("[[population]]\nname = 'p{number}'\nload = {{ workers = 2, iterations = 1 }}\n{version}\n")
        };
        versions.iter().enumerate().map(population).collect()
    }

    #[test]
    fn the_workers_of_each_version_are_counted_from_0() {
        let scenario = scenario(&populations(&["version = 3", "version = 1", "version = 3"])).expect("a scenario");
        let places: Vec<_> = (0..6).map(|worker| scenario.place_in_version(worker)).collect();
        assert_eq!(places, [0, 1, 0, 1, 2, 3]);
        let versions: Vec<_> = scenario.versions().into_iter().flatten().map(|version| version.to_string()).collect();
        assert_eq!((versions, scenario.workers_of_a_version()), (vec!["3".to_owned(), "1".to_owned()], None));
    }

    #[test]
    fn versions_of_populations_that_may_be_the_same_are_rejected() {
        for (text, says) in [
            (populations(&["version = 1", ""]), "a.toml:5: population[1].version: another population names a version"),
            (
                format!("target.version = 1\n{}", populations(&["version = 1", "version = 2"])),
                "a.toml:1: target.version: 1 (--model-version), and the populations name versions of their own",
            ),
            (populations(&["version = 0"]), "population[0].version"),
        ] {
            let error = scenario(&text).expect_err("it is rejected");
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
        assert!(!scenario("target.version = 2").expect("a scenario").has_several_versions());
    }
}
