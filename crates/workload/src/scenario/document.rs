//! A scenario as files have it.

use serde::{Deserialize, Serialize};

use super::{
    Contexts, CorrelationIds, Length, Limits, Load, Network, Patterns, Phase, Population, Scenario, Sending, Slots,
    Target, Think, Threshold, Values,
};
use crate::{claim::Claims, said::is_default};

/// A scenario as files have it: a population that is alone has its tables beside the others.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default, skip_serializing_if = "is_default")]
    claims_from: u64,
    target: Target,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    load: Option<Load>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contexts: Option<Contexts>,
    correlation_ids: CorrelationIds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    patterns: Option<Patterns>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<Length>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values: Option<Values>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sending: Option<Sending>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fail_if: Vec<Threshold>,
    limits: Limits,
    slots: Slots,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims: Option<Claims>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    phase: Vec<Phase>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    population: Vec<Population>,
}

impl TryFrom<Document> for Scenario {
    type Error = String;

    fn try_from(document: Document) -> Result<Self, String> {
        let Document { target, correlation_ids, fail_if, limits, slots, claims, claims_from, .. } = document;
        let Document { phase: phases, population: mut populations, .. } = document;
        let Document { load, contexts, patterns, length, values, sending, think, network, .. } = document;
        if populations.is_empty() {
            let missing = |table: &str| format!("the table [{table}] is missing");
            populations.push(Population {
                name: String::new(),
                phase: None,
                load: load.ok_or_else(|| missing("load"))?,
                contexts: contexts.ok_or_else(|| missing("contexts"))?,
                correlation_ids: None,
                version: None,
                patterns: patterns.ok_or_else(|| missing("patterns"))?,
                length: length.ok_or_else(|| missing("length"))?,
                values: values.ok_or_else(|| missing("values"))?,
                sending: sending.ok_or_else(|| missing("sending"))?,
                think: think.ok_or_else(|| missing("think"))?,
                network: network.unwrap_or_default(),
                fail_if: Vec::new(),
            });
        }
        Ok(Self { target, correlation_ids, populations, phases, limits, slots, fail_if, claims, claims_from })
    }
}

impl From<Scenario> for Document {
    fn from(scenario: Scenario) -> Self {
        let Scenario { target, correlation_ids, mut populations, phases, fail_if, limits, slots, claims, claims_from } =
            scenario;
        let is_alone = matches!(
            &*populations,
            [Population { name, phase: None, correlation_ids: None, version: None, .. }] if name.is_empty()
        );
        let alone = if is_alone { populations.pop() } else { None };
        let alone = alone.as_ref();
        Self {
            claims_from,
            target,
            load: alone.map(|its| its.load.clone()),
            contexts: alone.map(|its| its.contexts.clone()),
            correlation_ids,
            patterns: alone.map(|its| its.patterns.clone()),
            length: alone.map(|its| its.length.clone()),
            values: alone.map(|its| its.values.clone()),
            sending: alone.map(|its| its.sending.clone()),
            think: alone.map(|its| its.think.clone()),
            network: alone.map(|its| its.network.clone()).filter(|network| !network.is_clear()),
            fail_if,
            limits,
            slots,
            claims,
            phase: phases,
            population: populations,
        }
    }
}
