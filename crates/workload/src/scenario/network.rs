//! The faulty network between a population and the server.

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

use super::Distribution;

/// The longest that a piece is delayed, whatever is drawn: the longest lawful wait has to have a bound.
pub const LATENCY_MAX: Duration = Duration::from_secs(10);
/// The longest that a black hole lasts behind which the connection goes on.
pub const BLACK_HOLE_MAX: Duration = Duration::from_secs(60);
/// About what a request and its answer take on the wire, in bytes.
const STEP_BYTES: u64 = 512;

/// What the network does to each connection; nothing by default. All but latency is of both directions together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How long each piece is under way, each way, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Distribution>,
    /// How much passes in a second, each way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_kib_s: Option<NonZeroU32>,
    /// The largest piece that is written at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_bytes: Option<NonZeroU32>,
    /// The connection is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<NetworkCut>,
    /// Nothing passes any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub black_hole: Option<BlackHole>,
}

/// When and how a connection is cut: whatever comes first of what is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkCut {
    /// So long after it was made, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<Distribution>,
    /// When so many bytes have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<Distribution>,
    /// How both ends see it.
    #[serde(default)]
    pub by: CutBy,
}

/// How both ends of a connection see that it was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutBy {
    /// It is reset.
    #[default]
    Rst,
    /// It is closed in good order.
    Fin,
}

/// When nothing passes any more, and for how long: from whatever comes first of what is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlackHole {
    /// So long after the connection was made, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<Distribution>,
    /// When so many bytes have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<Distribution>,
    /// For how long, in ms; without it until the client gives the connection up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<Distribution>,
}

impl Network {
    /// Whether it does nothing.
    pub fn is_clear(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it takes what is sent.
    pub fn takes(&self) -> bool {
        self.cut.is_some() || self.black_hole.is_some()
    }

    /// The longest that a request and its answer are under way together.
    pub fn round_trip(&self) -> Duration {
        self.latency_ms.as_ref().map_or(Duration::ZERO, |drawn| most(drawn, LATENCY_MAX) * 2)
    }

    /// About how long so many steps take to pass where the bandwidth is limited.
    pub fn passage(&self, steps: u64) -> Duration {
        let bytes = STEP_BYTES.saturating_mul(steps);
        let ms = self.bandwidth_kib_s.map_or(0, |kib| bytes.saturating_mul(1000) / (u64::from(kib.get()) << 10));
        Duration::from_millis(ms)
    }

    /// The longest that it holds everything up once, and then goes on.
    pub fn stall(&self) -> Duration {
        let held = self.black_hole.as_ref().and_then(|hole| hole.for_ms.as_ref());
        held.map_or(Duration::ZERO, |drawn| most(drawn, BLACK_HOLE_MAX))
    }

    /// What does not go together, by key.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let bounded = [
            ("network.latency_ms", self.latency_ms.as_ref(), LATENCY_MAX),
            (
                "network.black_hole.for_ms",
                self.black_hole.as_ref().and_then(|hole| hole.for_ms.as_ref()),
                BLACK_HOLE_MAX,
            ),
        ];
        for (key, drawn, longest) in bounded {
            let most = drawn.and_then(Distribution::most).unwrap_or(0);
            if Duration::from_millis(most.into()) > longest {
                return Err((key, format!("{most} ms are more than {}", longest.as_millis())));
            }
        }
        let when = [
            ("network.cut", self.cut.as_ref().map(|cut| (&cut.after_ms, &cut.after_bytes))),
            ("network.black_hole", self.black_hole.as_ref().map(|hole| (&hole.after_ms, &hole.after_bytes))),
        ];
        match when.into_iter().find(|(_, when)| matches!(when, Some((None, None)))) {
            Some((key, _)) => Err((key, "it needs after_ms or after_bytes".to_owned())),
            None => Ok(()),
        }
    }
}

/// The most milliseconds that are drawn and kept within `longest`.
fn most(drawn: &Distribution, longest: Duration) -> Duration {
    drawn.most().map_or(longest, |ms| Duration::from_millis(ms.into()).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, Scenario, Source};

    fn network(text: &str) -> Network {
        let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
        scenario.populations[0].network.clone()
    }

    #[test]
    fn what_it_adds_to_a_wait_has_a_bound() {
        assert!(network("").is_clear());
        assert_eq!(
            network("network.latency_ms.uniform = { min = 1, max = 30 }").round_trip(),
            Duration::from_millis(60)
        );
        let any = network("network.latency_ms.log-normal = { median = 5, sigma = 2 }");
        assert_eq!(any.round_trip(), LATENCY_MAX * 2);
        assert_eq!(network("network.bandwidth_kib_s = 1").passage(20), Duration::from_secs(10));
        let holes = "network.black_hole = { after_ms.constant = 1, for_ms.list = [5, 90] }";
        assert_eq!(network(holes).stall(), Duration::from_millis(90));
    }

    #[test]
    fn what_cannot_be_is_rejected_with_its_line_and_key() {
        for (text, expected) in [
            ("\nnetwork.latency_ms.constant = 10001", "test:2: network.latency_ms: 10001 ms are more than 10000"),
            ("network.cut = { by = 'fin' }", "test:1: network.cut: it needs after_ms or after_bytes"),
            ("network.black_hole = {}", "test:1: network.black_hole: it needs after_ms or after_bytes"),
            ("network.slice_bytes = 0", "test:1: network.slice_bytes: it has to be a whole number from 1"),
            ("network.cut = { after_ms.constant = 1, by = 'end' }", "test:1: network.cut.by: it has to be"),
            ("network.jitter = 1", "test:1: network: there is no key 'jitter' here; the keys are latency_ms"),
            ("[[population]]\nname = 'a'\n[population.network.cut]", "test:3: population[0].network.cut: it needs"),
        ] {
            let source = Source::from_text("test", text);
            let error = Scenario::resolve(&source, Overrides::default()).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
