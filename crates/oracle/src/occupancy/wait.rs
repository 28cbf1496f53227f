//! Who had the slots while a START waited for one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use workload::{
    event::Nanos,
    sequence::{CorrelationId, Pattern},
};

/// The most sequences that are remembered after they may have lost their slot.
const PAST_MAX: usize = 1024;
/// The most holders that are told, those first that had a slot for longest.
const HOLDERS_MAX: usize = 16;

/// The longest wait for a slot, of those STARTs that were sent when every slot was certainly taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongestWait {
    /// Whose it was: a population, where there are several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub population: String,
    /// The sequence's correlation ID.
    pub correlation_id: CorrelationId,
    /// When the START was sent, in nanoseconds since the run began.
    #[serde(rename = "at_us", with = "workload::micros::OfNs")]
    pub at_ns: Nanos,
    /// How long its answer took, in ms.
    #[serde(rename = "waited_us", with = "workload::micros::OfMs")]
    pub waited_ms: u64,
    /// Who certainly had a slot meanwhile, the longest first; at most sixteen.
    pub holders: Vec<Holder>,
}

/// A sequence that had a slot while another one waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Whose it was: a population, where there are several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub population: String,
    /// The sequence's correlation ID.
    pub correlation_id: CorrelationId,
    /// The slot, where the model tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// For how long of the wait it certainly had it, in ms.
    #[serde(rename = "held_us", with = "workload::micros::OfMs")]
    pub held_ms: u64,
}

/// A sequence that certainly has a slot, or had one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) context: u32,
    pub(super) slot: Option<u32>,
    /// What its START was of, where that is known.
    pub(super) pattern: Option<Pattern>,
    pub(super) since: Nanos,
    until: Nanos,
}

/// A START that waited, and who had the slots.
#[derive(Clone, Debug)]
pub(super) struct Waited {
    pub(super) context: u32,
    pub(super) since: Nanos,
    pub(super) until: Nanos,
    /// For how long they had their slots meanwhile, too.
    pub(super) holders: Vec<(Held, Nanos)>,
}

/// Who has a slot for certain, and who had one.
#[derive(Debug, Default)]
pub(super) struct Holds {
    present: BTreeMap<u32, Held>,
    /// In the order in which they ended.
    past: VecDeque<Held>,
}

impl Holds {
    pub(super) fn begin(&mut self, context: u32, (slot, pattern): (Option<u32>, Option<Pattern>), since: Nanos) {
        self.present.insert(context, Held { context, slot, pattern, since, until: Nanos::MAX });
    }

    /// What is known of a sequence that certainly has a slot.
    pub(super) fn of(&self, context: u32) -> Option<&Held> {
        self.present.get(&context)
    }

    /// A sequence of which it was not certain any more that it has its slot went on: it had it all the time.
    pub(super) fn goes_on(&mut self, context: u32) {
        if self.present.contains_key(&context) {
            return;
        }
        let its = self.past.iter().rposition(|held| held.context == context);
        if let Some(held) = its.and_then(|index| self.past.remove(index)) {
            self.present.insert(context, Held { until: Nanos::MAX, ..held });
        }
    }

    pub(super) fn end(&mut self, context: u32, until: Nanos) {
        if let Some(held) = self.present.remove(&context) {
            if self.past.len() >= PAST_MAX {
                self.past.pop_front();
            }
            self.past.push_back(Held { until, ..held });
        }
    }

    /// The wait of a context, with those who had a slot meanwhile.
    pub(super) fn waited(&self, context: u32, since: Nanos, until: Nanos) -> Waited {
        let past = self.past.iter().rev().take_while(|held| held.until > since);
        let shared = |held: &Held| held.until.min(until).saturating_sub(held.since.max(since));
        let mut holders: Vec<_> = past.chain(self.present.values()).map(|held| (*held, shared(held))).collect();
        holders.sort_by_key(|(held, shared)| (Reverse(*shared), held.context));
        holders.truncate(HOLDERS_MAX);
        Waited { context, since, until, holders }
    }

    pub(super) fn forget(&mut self) {
        self.present.clear();
        self.past.clear();
    }
}
