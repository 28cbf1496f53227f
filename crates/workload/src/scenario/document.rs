//! A scenario as files have it.

use serde::{Deserialize, Serialize};

use super::{
    Contexts, CorrelationIds, Length, Limits, Load, Network, Patterns, Phase, Population, Scenario, Sending, Slots,
    Target, Think, Thresholds, Values,
};
use crate::claim::Claims;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A scenario as files have it: a population that is alone has its tables beside the others.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default, skip_serializing_if = "is_zero")]
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
    #[serde(default, skip_serializing_if = "Thresholds::is_empty")]
    thresholds: Thresholds,
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
        let Document { target, correlation_ids, limits, slots, claims, claims_from, .. } = document;
        let Document { phase: phases, population: mut populations, .. } = document;
        let Document { load, contexts, patterns, length, values, sending, think, network, thresholds, .. } = document;
        if populations.is_empty() {
            let missing = |table: &str| format!("the table [{table}] is missing");
            populations.push(Population {
                name: String::new(),
                phase: None,
                load: load.ok_or_else(|| missing("load"))?,
                contexts: contexts.ok_or_else(|| missing("contexts"))?,
                correlation_ids: None,
                patterns: patterns.ok_or_else(|| missing("patterns"))?,
                length: length.ok_or_else(|| missing("length"))?,
                values: values.ok_or_else(|| missing("values"))?,
                sending: sending.ok_or_else(|| missing("sending"))?,
                think: think.ok_or_else(|| missing("think"))?,
                network: network.unwrap_or_default(),
                thresholds,
            });
        }
        Ok(Self { target, correlation_ids, populations, phases, limits, slots, claims, claims_from })
    }
}

impl From<Scenario> for Document {
    fn from(scenario: Scenario) -> Self {
        let Scenario { target, correlation_ids, populations, phases, limits, slots, claims, claims_from } = scenario;
        let document = Self {
            claims_from,
            target,
            load: None,
            contexts: None,
            correlation_ids,
            patterns: None,
            length: None,
            values: None,
            sending: None,
            think: None,
            network: None,
            thresholds: Thresholds::default(),
            limits,
            slots,
            claims,
            phase: phases,
            population: Vec::new(),
        };
        match <[Population; 1]>::try_from(populations) {
            Ok(
                [
                    Population {
                        name,
                        phase: None,
                        load,
                        contexts,
                        correlation_ids: None,
                        patterns,
                        length,
                        values,
                        sending,
                        think,
                        network,
                        thresholds,
                    },
                ],
            ) if name.is_empty() => Self {
                load: Some(load),
                contexts: Some(contexts),
                patterns: Some(patterns),
                length: Some(length),
                values: Some(values),
                sending: Some(sending),
                think: Some(think),
                network: (!network.is_clear()).then_some(network),
                thresholds,
                ..document
            },
            Ok([alone]) => Self { population: vec![alone], ..document },
            Err(population) => Self { population, ..document },
        }
    }
}
