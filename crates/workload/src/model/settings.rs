//! What a model's configuration says, and of one that hands its requests to other models what theirs say.

use std::{collections::BTreeMap, iter, time::Duration};

use super::{Batching, Strategy, ToldIds};
use crate::controls::Told;

/// What a model's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a configuration has them side by side")]
pub struct Settings {
    /// The sequence batcher's strategy; none where the model has no sequence batcher.
    pub strategy: Option<Strategy>,
    /// How many sequences can have a slot at a time.
    pub slots: u32,
    /// How long a sequence may get no request before the server ends it.
    pub idle_limit: Duration,
    /// How requests are executed together.
    pub batching: Batching,
    /// How long the scheduler may hold a batch back for more requests.
    pub queue_delay: Duration,
    /// Whether the server keeps the state.
    pub implicit_state: bool,
    /// Whether the server keeps two states, of which one is the number of a sequence's steps.
    pub keeps_count: bool,
    /// As what the model is told correlation IDs, so that it may keep state by them.
    pub told_ids: ToldIds,
    /// The controls that it is told by.
    pub told: Told,
    /// Whether the model takes several requests at a time as a batch.
    pub batches: bool,
    /// Whether a request may get other than one response.
    pub decoupled: bool,
    /// Whether a request is a whole sequence, which the model has executed again until it is done.
    pub iterative: bool,
    /// The configuration's parameters.
    pub parameters: BTreeMap<String, String>,
    /// What other models it hands its requests to, where it does.
    pub chain: Option<Chain>,
}

/// What is known besides of a model that hands its requests to models of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// How it does that.
    pub link: Link,
    /// These models.
    pub steps: Vec<String>,
    /// How many models, itself included, have a sequence batcher, each with slots, a backlog and an idle limit of its own.
    pub batchers: u32,
    /// The idle limits of all of them but one: for so long a sequence may wait besides, with a slot in one model, for a slot in the
    /// next.
    pub further_idle: Duration,
    /// The slots of the model that says what it saw; none where none of them does.
    pub told_slots: Option<u32>,
    /// The slots of its own batcher; none of an ensemble, which has no batcher.
    pub own_slots: Option<u32>,
}

impl Chain {
    /// The configuration parameter of a model whose program calls another model: that model's name.
    pub const CALLS: &str = "sequence_stress_calls";
}

/// How a model hands its requests to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The server does it: the model is an ensemble.
    Ensemble,
    /// The model's program calls another model.
    Call,
}

/// One of the models that a model hands its requests to.
#[derive(Clone, Debug)]
pub struct ChainStep {
    /// Its name.
    pub model: String,
    /// What its configuration says.
    pub settings: Settings,
    /// Whether the output in which the whole says what a model saw is one of this step.
    pub tells: bool,
}

impl Settings {
    /// What is so of a model whose own configuration says this, and which hands its requests to these: a sequence has a slot in each
    /// model that has a sequence batcher, so what is scarcest in one of them is so in the whole.
    #[must_use]
    pub fn with_steps(self, link: Link, steps: &[ChainStep]) -> Self {
        let has_batcher = |settings: &&Self| settings.strategy.is_some();
        let of_steps = || steps.iter().map(|step| &step.settings).filter(has_batcher);
        // An ensemble has no batcher of its own.
        let of_all = || iter::once(&self).filter(has_batcher).chain(of_steps());
        let is_oldest = of_all().any(|its| its.strategy == Some(Strategy::Oldest));
        let strategy = if is_oldest { Strategy::Oldest } else { Strategy::Direct };
        let has_batchers = of_all().next().is_some();
        let idle_limit = of_all().map(|its| its.idle_limit).min();
        let further_idle = of_all().map(|its| its.idle_limit + its.further_idle()).sum::<Duration>();
        let tells = steps.iter().find(|step| step.tells).map(|step| &step.settings);
        let execution = steps.iter().map(|step| step.settings.execution_ms()).sum::<u64>();
        let mut parameters = self.parameters.clone();
        match link {
            Link::Ensemble => {
                _ = parameters.entry(EXECUTION_PARAMETER.to_owned()).or_insert_with(|| execution.to_string());
            }
            Link::Call => {
                _ = parameters.insert(EXECUTION_PARAMETER.to_owned(), (self.execution_ms() + execution).to_string());
            }
        }
        Self {
            strategy: has_batchers.then_some(strategy),
            slots: of_all().map(|its| its.slots).min().unwrap_or_default(),
            idle_limit: idle_limit.unwrap_or(self.idle_limit),
            batching: of_all().map(|its| its.batching).min_by_key(|its| its.executed_at_once()).unwrap_or_default(),
            queue_delay: of_all().map(|its| its.queue_delay).sum(),
            // A model that calls keeps nothing itself.
            implicit_state: of_steps().next().is_some() && of_steps().all(|its| its.implicit_state),
            told_ids: of_steps().map(|its| its.told_ids).find(|ids| *ids != ToldIds::None).unwrap_or_default(),
            told: tells.map(|its| its.told).unwrap_or_default(),
            iterative: of_all().any(|its| its.iterative),
            parameters,
            chain: Some(Chain {
                link,
                steps: steps.iter().map(|step| step.model.clone()).collect(),
                batchers: of_all().map(Self::batchers).sum(),
                told_slots: tells.map(Self::told_slots),
                own_slots: self.strategy.map(|_| self.slots),
                further_idle: further_idle.saturating_sub(idle_limit.unwrap_or_default()),
            }),
            keeps_count: of_steps().next().is_some() && of_steps().all(|its| its.keeps_count),
            batches: self.batches,
            decoupled: self.decoupled,
        }
    }

    /// How many sequence batchers it has, with those of its steps.
    pub fn batchers(&self) -> u32 {
        self.chain.as_ref().map_or(u32::from(self.strategy.is_some()), |chain| chain.batchers)
    }

    /// For how long a sequence may wait besides, with a slot in one model, for slots in others.
    pub fn further_idle(&self) -> Duration {
        self.chain.as_ref().map(|chain| chain.further_idle).unwrap_or_default()
    }

    /// The slots of the model that says what it saw.
    fn told_slots(&self) -> u32 {
        self.chain.as_ref().and_then(|chain| chain.told_slots).unwrap_or(self.slots)
    }

    /// How it hands its requests to other models, where it does.
    pub fn link(&self) -> Option<Link> {
        self.chain.as_ref().map(|chain| chain.link)
    }

    /// How long the model says that it takes to execute, in ms.
    pub fn execution_ms(&self) -> u64 {
        self.parameters.get(EXECUTION_PARAMETER).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// The name of the configuration parameter that tells how long a model takes to execute, in ms.
const EXECUTION_PARAMETER: &str = "execute_delay_ms";

#[cfg(test)]
mod tests {
    use super::*;

    fn step(strategy: Option<Strategy>, slots: u32, idle_ms: u64, tells: bool) -> ChainStep {
        let settings = Settings {
            strategy,
            slots,
            idle_limit: Duration::from_millis(idle_ms),
            parameters: [(EXECUTION_PARAMETER.to_owned(), "3".to_owned())].into(),
            ..Settings::default()
        };
        ChainStep { model: format!("of {slots}"), settings, tells }
    }

    #[test]
    fn what_is_scarcest_in_a_step_is_so_in_the_ensemble() {
        let steps = [
            step(None, 0, 10, false),
            step(Some(Strategy::Direct), 8, 700, true),
            step(Some(Strategy::Oldest), 4, 900, false),
        ];
        let all = Settings { batches: true, ..Settings::default() }.with_steps(Link::Ensemble, &steps);
        assert_eq!((all.strategy, all.slots, all.batches), (Some(Strategy::Oldest), 4, true));
        assert_eq!((all.idle_limit, all.execution_ms()), (Duration::from_millis(700), 9));
        let ensemble = all.chain.clone().expect("it is one");
        assert_eq!(ensemble.steps, ["of 0", "of 8", "of 4"]);
        assert_eq!((ensemble.batchers, ensemble.told_slots, ensemble.own_slots), (2, Some(8), None));
        assert_eq!(ensemble.further_idle, Duration::from_millis(900));
        // Where no step has a sequence batcher there is nothing to test.
        assert_eq!(Settings::default().with_steps(Link::Ensemble, &steps[..1]).strategy, None);
        // Of an ensemble in another one all batchers count.
        let outer = [ChainStep { model: "ensemble".to_owned(), settings: all, tells: false }, steps[1].clone()];
        let outer = Settings::default().with_steps(Link::Ensemble, &outer).chain.expect("it is one");
        assert_eq!((outer.batchers, outer.further_idle), (3, Duration::from_millis(700 + 900)));
    }

    #[test]
    fn a_model_that_calls_another_has_a_batcher_of_its_own_besides() {
        let called = step(Some(Strategy::Oldest), 8, 700, true);
        let own = ChainStep { settings: step(Some(Strategy::Direct), 4, 900, false).settings, ..called.clone() };
        let both = own.settings.with_steps(Link::Call, &[called]);
        assert_eq!((both.strategy, both.slots, both.execution_ms()), (Some(Strategy::Oldest), 4, 6));
        assert_eq!(both.idle_limit, Duration::from_millis(700));
        let chain = both.chain.expect("it calls one");
        assert_eq!((chain.batchers, chain.told_slots, chain.own_slots), (2, Some(8), Some(4)));
        assert_eq!(chain.further_idle, Duration::from_millis(900));
    }
}
