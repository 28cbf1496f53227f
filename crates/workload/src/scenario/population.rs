//! Workers that are alike: what they send, how much, and how.

use std::{
    num::{NonZeroU16, NonZeroU32, NonZeroU64},
    time::Duration,
};

use rand::{Rng, RngExt as _};
use serde::{Deserialize, Serialize};

use super::{
    Arrivals, Distribution, Listed, Millis, Network, Probability, Rate, STEPS_MAX, Sending, Threshold, Uniform,
    Weights,
    distribution::{RawDraw, one_of},
};
use crate::{
    said::is_default,
    sequence::{IdForm, Pattern, Trait},
    tensor::ELEMENTS_MAX,
    version::ModelVersion,
};

/// Workers that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// What reports call it; empty where there is no other.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The phase in which they work; none where they work from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How much they send.
    pub load: Load,
    /// The stream contexts of each of them.
    pub contexts: Contexts,
    /// What is different about their correlation IDs; none where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_ids: Option<OwnIds>,
    /// The version of the model that they send to, in place of `target.version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ModelVersion>,
    /// How often each pattern is drawn.
    pub patterns: Patterns,
    /// How many steps a sequence has.
    pub length: Length,
    /// The inputs of the steps.
    pub values: Values,
    /// How the steps travel.
    pub sending: Sending,
    /// How long they do nothing in between.
    pub think: Think,
    /// What is between them and the server.
    #[serde(default, skip_serializing_if = "is_default")]
    pub network: Network,
    /// Thresholds for their own requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_if: Vec<Threshold>,
}

/// How much to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Tasks that run one iteration after the other.
    pub workers: NonZeroU32,
    /// Iterations of each worker, or with a rate of all workers; none where only time ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<NonZeroU64>,
    /// Seconds after which no iteration is started any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<NonZeroU64>,
    /// How many iterations begin in a second, whether or not earlier ones are done; none where each worker begins one when it is done
    /// with the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How they are spread over the time that the rate gives them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: Arrivals,
    /// From one step of an iteration to the next, as they are due; none where each follows as soon as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_interval_ms: Option<Millis>,
    /// By how much a step may be due later than its interval says; any time up to this is as likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_jitter_ms: Option<Millis>,
}

impl Load {
    /// Whether it has fewer workers than another load, or runs for a shorter time.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        self.workers < other.workers
            || self.duration_s.is_none_or(|seconds| other.duration_s.is_some_and(|more| seconds < more))
    }

    /// Whether a worker begins no more iterations that has begun so many, when this much time has passed since the load began.
    pub fn is_done(&self, elapsed: Duration, iterations: u64) -> bool {
        // With a rate the workers share its iterations.
        self.rate.is_none() && self.iterations.is_some_and(|most| iterations >= most.get())
            || self.ends().is_some_and(|end| elapsed >= end)
    }

    /// After what time no iteration is started any more; none where only their number ends the load.
    pub fn ends(&self) -> Option<Duration> {
        let limit = self.duration_s.map(|seconds| Duration::from_secs(seconds.get()));
        let stages = self.rate.as_ref().and_then(Rate::lasts);
        limit.into_iter().chain(stages).min()
    }

    /// Whether iterations or steps have times of their own.
    pub fn is_paced(&self) -> bool {
        self.rate.is_some() || self.step_interval_ms.is_some()
    }

    /// The iterations of all workers; none where only time ends them.
    pub fn all_iterations(&self) -> Option<u64> {
        let sharing = if self.rate.is_some() { 1 } else { self.workers.get().into() };
        Some(self.iterations?.get().saturating_mul(sharing))
    }

    /// What does not go together, by key.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.step_jitter_ms.is_some() && self.step_interval_ms.is_none() {
            return Err(("load.step_jitter_ms", "it needs load.step_interval_ms (--step-interval)".to_owned()));
        }
        if self.arrivals != Arrivals::default() && self.rate.is_none() {
            return Err(("load.arrivals", "it needs load.rate (--rate)".to_owned()));
        }
        Ok(())
    }
}

/// The stream contexts of each worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// Those that are used all the time.
    pub common: u32,
    /// Those that are used in turn, so seldom that their sequences go idle.
    pub rare: u32,
    /// The odds that an iteration goes to a rare one.
    pub rare_probability: Probability,
}

impl Contexts {
    /// How many contexts a worker has.
    pub fn count(&self) -> u32 {
        self.common + self.rare
    }

    /// To which of them passes go.
    pub fn used(&self) -> Drawn {
        let Self { common, rare, rare_probability: Probability(odds) } = *self;
        Drawn { common: common > 0 && odds < 1.0, rare: rare > 0 && odds > 0.0 }
    }
}

/// What is different about a population's correlation IDs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnIds {
    /// What they are on the wire.
    pub form: IdForm,
}

/// How often each pattern is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patterns {
    /// In common contexts.
    pub common: Weights,
    /// In rare contexts.
    pub rare: Weights,
}

/// Where a pattern is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// In common contexts.
    pub common: bool,
    /// In rare contexts.
    pub rare: bool,
}

impl Drawn {
    /// Whether it is drawn at all.
    pub fn anywhere(self) -> bool {
        self.common || self.rare
    }
}

/// How many steps a sequence has: a draw, kept within `min` and `max`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawDraw")]
pub struct Length {
    /// The fewest steps.
    pub min: NonZeroU32,
    /// The most steps.
    pub max: NonZeroU32,
    /// What is drawn from.
    #[serde(flatten)]
    pub drawn: Distribution,
}

impl TryFrom<RawDraw> for Length {
    type Error = String;

    fn try_from(raw: RawDraw) -> Result<Self, String> {
        let bound = |bound: Option<NonZeroU32>, name| bound.ok_or_else(|| format!("the key `{name}` is missing"));
        Ok(Self { min: bound(raw.min, "min")?, max: bound(raw.max, "max")?, drawn: raw.drawn()? })
    }
}

/// The inputs of the steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawValues")]
pub struct Values {
    /// What is drawn from.
    #[serde(flatten)]
    pub drawn: DrawnValues,
    /// Over how many elements each is spread; none where that is as the model's shape has it, one where that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<Elements>,
}

/// How inputs are drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawnValues {
    /// Whole numbers, both ends included.
    Uniform(Uniform<i64>),
    /// One of these, each as often as it stands there.
    List(Listed<i64>),
}

/// The inputs of the steps as files have them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValues {
    uniform: Option<Uniform<i64>>,
    list: Option<Listed<i64>>,
    elements: Option<Elements>,
}

impl TryFrom<RawValues> for Values {
    type Error = String;

    fn try_from(RawValues { uniform, list, elements }: RawValues) -> Result<Self, String> {
        let given = [uniform.map(DrawnValues::Uniform), list.map(DrawnValues::List)];
        Ok(Self { drawn: one_of(["uniform", "list"], given)?, elements })
    }
}

/// Over how many elements of a tensor an input is spread: a number from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Uniform<NonZeroU16>")]
pub struct Elements {
    /// The fewest.
    pub min: NonZeroU16,
    /// The most.
    pub max: NonZeroU16,
}

impl TryFrom<Uniform<NonZeroU16>> for Elements {
    type Error = String;

    fn try_from(Uniform { min, max }: Uniform<NonZeroU16>) -> Result<Self, String> {
        if usize::from(max.get()) > ELEMENTS_MAX {
            return Err(format!("max {max} is more than {ELEMENTS_MAX}"));
        }
        Ok(Self { min, max })
    }
}

impl Elements {
    /// One number of elements.
    pub fn draw(self, generator: &mut impl Rng) -> NonZeroU16 {
        let drawn = generator.random_range(self.min.get()..=self.max.get());
        NonZeroU16::new(drawn).expect("the fewest are not 0")
    }
}

impl Values {
    /// The smallest one and the largest one.
    pub fn extremes(&self) -> [i64; 2] {
        match &self.drawn {
            DrawnValues::Uniform(Uniform { min, max }) => [*min, *max],
            DrawnValues::List(Listed(values)) => {
                [values.iter().min(), values.iter().max()].map(|value| value.copied().unwrap_or_default())
            }
        }
    }

    /// One value.
    pub fn draw(&self, generator: &mut impl Rng) -> i64 {
        match &self.drawn {
            DrawnValues::Uniform(Uniform { min, max }) => match (i32::try_from(*min), i32::try_from(*max)) {
                // A seed draws the same as before there were larger ones.
                (Ok(min), Ok(max)) => generator.random_range(min..=max).into(),
                _ => generator.random_range(*min..=*max),
            },
            DrawnValues::List(listed) => listed.draw(generator),
        }
    }
}

/// How long a worker does nothing, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Before each step of a sequence but its first.
    pub step_ms: Distribution,
    /// Before each iteration.
    pub iteration_ms: Distribution,
}

impl Population {
    /// Where a pattern is drawn: where it has a weight, and the contexts are used.
    pub fn draws(&self, pattern: Pattern) -> Drawn {
        let used = self.contexts.used();
        let is_drawn = |weights: &Weights| self.can_be_drawn(pattern) && weights.of(pattern) > 0.0;
        Drawn {
            common: used.common && is_drawn(&self.patterns.common),
            rare: used.rare && is_drawn(&self.patterns.rare),
        }
    }

    /// Whether a pattern with this trait is drawn anywhere.
    pub fn draws_any(&self, its: Trait) -> bool {
        Pattern::ALL.into_iter().any(|pattern| pattern.has(its) && self.draws(pattern).anywhere())
    }

    /// The longest time from one step of a sequence to the next that the client takes by itself; none where it has no bound.
    pub fn longest_between_steps(&self) -> Option<Duration> {
        let Load { step_interval_ms, step_jitter_ms, .. } = self.load;
        // A sequence of a shared stream waits for the steps of all the others.
        let thinking = self.think.step_ms.most().filter(|_| !self.draws_any(Trait::SharesStream))?;
        let thinking = Duration::from_millis(thinking.into());
        let paced = [step_interval_ms, step_jitter_ms].into_iter().flatten().map(Millis::duration);
        Some(paced.fold(thinking, Duration::saturating_add))
    }

    /// About how long the client takes by itself from one step of a sequence to the next, in ms.
    pub fn typical_between_steps_ms(&self) -> f64 {
        let interval = self.load.step_interval_ms.map(Millis::duration).unwrap_or_default();
        self.think.step_ms.typical() + interval.as_secs_f64() * 1000.0
    }

    /// The odds of the patterns, in their order: those that the transport cannot do are left out.
    pub fn odds(&self, weights: &Weights) -> impl Iterator<Item = f64> {
        Pattern::ALL.map(|pattern| if self.can_be_drawn(pattern) { weights.of(pattern) } else { 0.0 }).into_iter()
    }

    /// The patterns that have a weight and that the transport cannot do.
    pub fn left_out(&self) -> impl Iterator<Item = Pattern> {
        let has_weight = |pattern: &Pattern| {
            let used = self.contexts.used();
            let Patterns { common, rare } = &self.patterns;
            (used.common && common.of(*pattern) > 0.0) || (used.rare && rare.of(*pattern) > 0.0)
        };
        Pattern::ALL.into_iter().filter(|pattern| !self.can_be_drawn(*pattern)).filter(has_weight)
    }

    fn can_be_drawn(&self, pattern: Pattern) -> bool {
        let by = self.sending.transport();
        // A status that ends a stream does not say which of the IDs that share the stream it is about.
        let is_told_apart = !by.ends_with_errors() || !pattern.has(Trait::SharesStream);
        is_told_apart && (by.is_stream() || !pattern.has(Trait::Streams))
    }

    /// Whether there is a table of patterns of which the transport can do none.
    pub(super) fn has_nothing_left(&self) -> bool {
        self.leaves_nothing(self.contexts.common, &self.patterns.common)
            || self.leaves_nothing(self.contexts.rare, &self.patterns.rare)
    }

    fn leaves_nothing(&self, contexts: u32, weights: &Weights) -> bool {
        contexts > 0 && self.odds(weights).sum::<f64>() <= 0.0
    }

    /// What does not go together, by key.
    pub(super) fn check(&self, block: NonZeroU32) -> Result<(), (&'static str, String)> {
        self.load.check()?;
        self.check_contexts(block)?;
        self.check_weights("patterns.common", self.contexts.common, &self.patterns.common)?;
        self.check_weights("patterns.rare", self.contexts.rare, &self.patterns.rare)?;
        self.network.check()?;
        if self.length.max.get() > STEPS_MAX {
            return Err(("length.max", format!("{} is more than {STEPS_MAX}", self.length.max)));
        }
        if self.length.min > self.length.max {
            return Err(("length.min", format!("{} is above length.max, {}", self.length.min, self.length.max)));
        }
        Ok(())
    }

    fn check_contexts(&self, block: NonZeroU32) -> Result<(), (&'static str, String)> {
        let Contexts { common, rare, rare_probability: Probability(odds) } = self.contexts;
        if common.checked_add(rare).is_none_or(|count| count == 0 || count > block.get()) {
            let problem = format!(
                "{common} common and {rare} rare contexts do not fit a block of {block} correlation IDs: the blocks of \
                 neighbouring workers would overlap"
            );
            let none = "common and rare are both 0, so there is nothing to send on".to_owned();
            return Err(("contexts", if common == 0 && rare == 0 { none } else { problem }));
        }
        if common == 0 && odds < 1.0 {
            return Err(("contexts.rare_probability", format!("{odds} with no common contexts: it has to be 1")));
        }
        if rare == 0 && odds > 0.0 {
            return Err(("contexts.rare_probability", format!("{odds} with no rare contexts: it has to be 0")));
        }
        Ok(())
    }

    fn check_weights(&self, key: &'static str, contexts: u32, weights: &Weights) -> Result<(), (&'static str, String)> {
        let sum: f64 = Pattern::ALL.into_iter().map(|pattern| weights.of(pattern)).sum();
        if contexts > 0 && sum <= 0.0 {
            return Err((key, "all weights are 0, so there is nothing to draw".into()));
        }
        if !sum.is_finite() {
            return Err((key, "the weights are too large to be added up".into()));
        }
        if self.leaves_nothing(contexts, weights) {
            let transport = self.sending.transport();
            return Err((key, format!("each of these patterns needs a stream, and the transport is {transport}")));
        }
        Ok(())
    }
}
