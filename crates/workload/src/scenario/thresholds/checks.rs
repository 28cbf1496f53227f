//! The thresholds of a scenario, and whether its runs measure what they are of.

use std::num::NonZeroU64;

use super::{GROWTH_LEAST, Measure, Statistic, THRESHOLDS_MAX, Threshold, Whose, Window};
use crate::{scenario::Scenario, sequence::Pattern};

/// Whose requests a threshold is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the run.
    Run,
    /// Those of the population at this place.
    Population(usize),
    /// Those of a pattern.
    Pattern(Pattern),
}

impl Scenario {
    /// Every threshold, with whose requests it is of.
    pub fn thresholds(&self) -> Vec<(Scope, &Threshold)> {
        let of_the_run = self.fail_if.iter().map(|threshold| {
            let scope = match &threshold.whose {
                Whose::All => Scope::Run,
                Whose::Population(name) => {
                    let place = self.populations.iter().position(|population| population.name == *name);
                    place.map_or(Scope::Run, Scope::Population)
                }
                Whose::Pattern(pattern) => Scope::Pattern(*pattern),
            };
            (scope, threshold)
        });
        let of_populations = self.populations.iter().enumerate().flat_map(|(place, population)| {
            population.fail_if.iter().map(move |threshold| (Scope::Population(place), threshold))
        });
        of_the_run.chain(of_populations).collect()
    }

    /// What does not go together, by key.
    pub(in crate::scenario) fn check_thresholds(&self) -> Result<(), (String, String)> {
        let all = self.thresholds();
        if all.len() > THRESHOLDS_MAX {
            return Err(("fail_if".to_owned(), format!("{} thresholds are more than {THRESHOLDS_MAX}", all.len())));
        }
        for threshold in &self.fail_if {
            self.check_threshold(threshold).map_err(|why| ("fail_if".to_owned(), format!("'{threshold}': {why}")))?;
        }
        for (index, population) in self.populations.iter().enumerate() {
            for threshold in &population.fail_if {
                let problem = if threshold.whose == Whose::All && threshold.measure.has_parts() {
                    self.check_threshold(threshold).err()
                } else if threshold.whose == Whose::All {
                    Some(format!(
                        "{} is measured of the whole run alone: move it to fail_if of the file",
                        threshold.measure
                    ))
                } else {
                    Some("a population's own threshold is of its requests: leave out 'of'".to_owned())
                };
                if let Some(why) = problem {
                    return Err((format!("population[{index}].fail_if"), format!("'{threshold}': {why}")));
                }
            }
        }
        Ok(())
    }

    /// Why a run of this scenario does not measure what a threshold is of.
    fn check_threshold(&self, threshold: &Threshold) -> Result<(), String> {
        match &threshold.whose {
            Whose::Population(name) if self.populations.iter().all(|population| population.name != *name) => {
                let names: Vec<_> =
                    self.populations.iter().map(|its| its.name.as_str()).filter(|it| !it.is_empty()).collect();
                return Err(match names.as_slice() {
                    [] => "the scenario has no populations with a name".to_owned(),
                    names => format!("there is no population '{name}'; these are: {}", names.join(", ")),
                });
            }
            Whose::Pattern(pattern) if !self.draws(*pattern).anywhere() => {
                return Err(format!("the scenario does not draw the pattern {pattern}"));
            }
            _ => {}
        }
        if threshold.measure == Measure::ClientLate && !self.populations.iter().any(|its| its.load.is_paced()) {
            return Err("it is measured with --rate or --step-interval".to_owned());
        }
        let lasts = self.populations.iter().map(|its| its.load.duration_s.map(NonZeroU64::get)).max().flatten();
        let longest = lasts
            .filter(|_| self.phases.is_empty() && self.populations.iter().all(|its| its.load.duration_s.is_some()));
        let grows = threshold.statistic == Statistic::Growth;
        if grows && longest.is_some_and(|longest| longest < GROWTH_LEAST.as_secs()) {
            return Err("growth shows in a run of a minute or more".to_owned());
        }
        let ends_before = match threshold.window {
            Window::Span { from, .. } => longest.filter(|longest| from >= *longest),
            Window::Each(seconds) => longest.filter(|longest| seconds > *longest),
        };
        ends_before.map_or(Ok(()), |longest| Err(format!("the run ends after {longest}s")))
    }
}
