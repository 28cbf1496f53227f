//! What a command line puts in place of a file's values.

use std::num::{NonZeroU32, NonZeroU64};

use super::{AccessOverrides, Arrivals, Load, Millis, Population, Rate, ReplicaOverrides, Scenario, Threshold};
use crate::{
    conversation::Transport,
    endpoint::{Endpoint, Endpoints},
    version::ModelVersion,
};

/// What the command line says in place of the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// In place of `target.endpoint`.
    pub endpoint: Option<Endpoints>,
    /// Beside `target.endpoint`, where HTTP is asked for and no endpoint speaks it.
    pub http: Option<Endpoint>,
    /// In place of `sending.transport`.
    pub transport: Option<Transport>,
    /// In place of `target.model`.
    pub model: Option<String>,
    /// In place of `target.version`.
    pub version: Option<ModelVersion>,
    /// In place of `target.metrics`.
    pub metrics: Option<Endpoint>,
    /// In place of `load.workers`.
    pub workers: Option<NonZeroU32>,
    /// In place of `load.iterations`.
    pub iterations: Option<NonZeroU64>,
    /// In place of `load.duration_s`; without `iterations` it alone ends the run.
    pub duration_s: Option<NonZeroU64>,
    /// In place of `load.rate`, for all populations together.
    pub rate: Option<Rate>,
    /// In place of `load.arrivals`.
    pub arrivals: Option<Arrivals>,
    /// In place of `load.step_interval_ms`.
    pub step_interval_ms: Option<Millis>,
    /// In place of `load.step_jitter_ms`.
    pub step_jitter_ms: Option<Millis>,
    /// In place of `limits.response_ms`.
    pub response_ms: Option<Millis>,
    /// Beside `fail_if`.
    pub fail_if: Vec<Threshold>,
    /// In place of `limits.reconnect_ms`.
    pub reconnect_ms: Option<Millis>,
    /// What it takes to be let in.
    pub access: AccessOverrides,
    /// The servers behind the endpoint.
    pub replicas: ReplicaOverrides,
    /// Whether claims are required although flags make the run smaller than its scenario.
    pub require_claims: bool,
}

/// How many iterations may be under way at a time where a flag asks for a rate, and none says how many.
const WORKERS_OF_A_RATE: NonZeroU32 = NonZeroU32::new(512).expect("not zero");

/// More iterations than a run has; TOML holds no larger number.
const NEVER: u64 = i64::MAX as u64;

/// How many iterations a run of flags has to have to be as large as the scenario that was written.
fn full_size<'l>(written: &[Load], given: impl Iterator<Item = &'l Load> + Clone) -> u64 {
    // Fewer workers, however long they run, may never fill the slots.
    let mut pairs = written.iter().zip(given);
    // Nor do iterations that begin at another rate.
    if pairs.clone().any(|(written, given)| given.workers < written.workers || given.rate != written.rate) {
        return NEVER;
    }
    let iterations = written.iter().try_fold(0_u64, |sum, load| Some(sum.saturating_add(load.all_iterations()?)));
    // Of a scenario that runs for a time only a longer run is certainly as large.
    let mut is_shorter = || pairs.any(|(written, given)| given.is_below(written));
    iterations.unwrap_or_else(|| if is_shorter() { NEVER } else { 0 })
}

impl Scenario {
    pub(super) fn override_with(&mut self, overrides: Overrides) {
        let as_written: Vec<_> = self.populations.iter().map(|population| population.load.clone()).collect();
        self.target.override_access(overrides.access);
        self.target.override_replicas(overrides.replicas, overrides.endpoint);
        self.override_transports(overrides.transport, overrides.http);
        if let Some(model) = overrides.model {
            self.target.model = model;
        }
        self.target.version = overrides.version.or(self.target.version);
        self.target.metrics = overrides.metrics.or(self.target.metrics.take());
        // The workers of a scenario without a rate are not meant for one.
        let is_new = overrides.rate.is_some() && self.populations.iter().all(|its| its.load.rate.is_none());
        if let Some(rate) = &overrides.rate {
            self.arrive_at(rate);
        }
        let weight = |its: &Population| if its.load.rate.is_some() { its.load.workers.get().into() } else { 0 };
        let weights: Vec<u64> = self.populations.iter().map(weight).collect();
        if let Some(workers) = overrides.workers.or(is_new.then_some(WORKERS_OF_A_RATE)) {
            self.share_out(workers);
        }
        let of_a_rate = overrides.iterations.map(|iterations| shares(iterations.get(), &weights));
        for (place, Population { load, .. }) in self.populations.iter_mut().enumerate() {
            if overrides.duration_s.is_some() {
                load.duration_s = overrides.duration_s;
                load.iterations = None;
            }
            let shared = of_a_rate.as_ref().filter(|_| load.rate.is_some()).map(|shares| shares[place]);
            load.iterations = shared.or(overrides.iterations).or(load.iterations);
            load.arrivals = overrides.arrivals.unwrap_or(load.arrivals);
            load.step_interval_ms = overrides.step_interval_ms.or(load.step_interval_ms);
            load.step_jitter_ms = overrides.step_jitter_ms.or(load.step_jitter_ms);
        }
        self.limits.reconnect_ms = overrides.reconnect_ms.or(self.limits.reconnect_ms);
        self.limits.response_ms = overrides.response_ms.or(self.limits.response_ms);
        self.fail_if.extend(overrides.fail_if);
        let loads = self.populations.iter().map(|population| &population.load);
        if overrides.require_claims {
            self.claims_from = 0;
        } else if !loads.eq(&as_written) {
            self.claims_from = full_size(&as_written, self.populations.iter().map(|population| &population.load));
        }
    }

    /// Has iterations begin at this rate, shared by the populations in the proportions of their workers. There are as many as there were,
    /// unless the rate says when they end.
    fn arrive_at(&mut self, rate: &Rate) {
        let all = f64::from(self.workers());
        for Population { load, .. } in &mut self.populations {
            let iterations = load.all_iterations().and_then(NonZeroU64::new);
            load.iterations = iterations.filter(|_| rate.lasts().is_none());
            load.rate = Some(rate.times(f64::from(load.workers.get()) / all));
        }
    }

    /// Gives the populations so many workers together, in the proportions that they have, and one each at least.
    fn share_out(&mut self, workers: NonZeroU32) {
        let weights: Vec<u64> = self.populations.iter().map(|its| its.load.workers.get().into()).collect();
        for (population, share) in self.populations.iter_mut().zip(shares(workers.get().into(), &weights)) {
            population.load.workers = share.try_into().expect("a share is no more than all, or one");
        }
    }
}

/// Shares so many in these proportions, and one each at least.
fn shares(all: u64, weights: &[u64]) -> Vec<NonZeroU64> {
    let sum = u128::from(weights.iter().sum::<u64>().max(1));
    let (mut before, mut given) = (0, 0);
    let share = |weight: &u64| {
        before += u128::from(*weight);
        let until = u64::try_from(u128::from(all) * before / sum).expect("no more than all");
        let share = NonZeroU64::new(until.saturating_sub(given)).unwrap_or(NonZeroU64::MIN);
        given += share.get();
        share
    };
    weights.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Source;

    #[test]
    fn a_rate_and_iterations_are_shared_by_populations_and_claim_nothing() {
        let text = "
            claims.backlog = 1
            [[population]]
            name = 'few'
            load = { workers = 1, iterations = 10 }
            [[population]]
            name = 'many'
            load = { workers = 3, iterations = 10 }
        ";
        let given = |rate: &str, iterations| {
            let overrides =
                Overrides { rate: rate.parse().ok(), iterations: NonZeroU64::new(iterations), ..Overrides::default() };
            Scenario::resolve(&Source::from_text("test", text), overrides).expect("a scenario")
        };
        let scenario = given("20/s", 10);
        let loads = scenario.populations.iter().map(|its| {
            (
                its.load.rate.as_ref().map(ToString::to_string),
                its.load.iterations.map(NonZeroU64::get),
                its.load.workers.get(),
            )
        });
        let rate = |text: &str| Some(text.to_owned());
        assert_eq!(loads.collect::<Vec<_>>(), [(rate("5/s"), Some(2), 128), (rate("15/s"), Some(8), 384)]);
        assert!(scenario.claims_from > 1_000_000, "{}", scenario.claims_from);
        let all: u64 =
            given("20/s", 0).populations.iter().filter_map(|its| its.load.iterations).map(NonZeroU64::get).sum();
        assert_eq!(all, 40, "as many as there were");
    }
}
