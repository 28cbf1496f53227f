//! The hunt as `scripts/hunt` wrote it (hunt.json); `docs/hunt.schema.json` comes from these types.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Run;
use crate::report::{CoverageRow, RunDocument, SCHEMA_VERSION};
use workload::seed::Seed;

/// What a hunt did and found.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Hunt {
    /// Rises when a reader of the old form could misread the new one.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    #[expect(dead_code, reason = "it was read before everything else")]
    schema_version: u32,
    /// The version of sequence-stress that held the runs.
    pub(crate) tool_version: String,
    /// The process's exit code. As long as the hunt goes on it is that of an interrupt.
    pub(crate) exit_code: u8,
    /// Whether the hunt came to its end. It did not if it was interrupted, or goes on.
    pub(crate) complete: bool,
    /// When the hunt began, in UTC.
    pub(crate) started_at: String,
    /// The seed of the first round; null if the hunt only replayed failures that were there already (`--trace`).
    pub(crate) first_seed: Option<Seed>,
    /// How long the hunt took by then.
    pub(crate) took_s: f64,
    /// The releases, in their order.
    pub(crate) releases: Vec<String>,
    /// The models whose turn it was.
    pub(crate) models: Vec<String>,
    /// What came of the runs.
    pub(crate) coverage: Vec<Covered>,
    /// How far a hunt that learns (`--learn`) was after each of its searches; empty where it does not learn.
    #[serde(default)]
    pub(crate) reached: Vec<CoverageRow>,
    /// What was found, in the order in which it was found.
    pub(crate) findings: Vec<Finding>,
    /// Runs in which something was wrong that nobody looked into yet.
    pub(crate) waiting: Vec<Waiting>,
    /// What else there is to know, such as a server that did not start.
    pub(crate) notes: Vec<String>,
}

/// How many runs of a scenario came to what.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Covered {
    pub(crate) release: String,
    pub(crate) model: String,
    /// The scenario's name or file.
    pub(crate) scenario: String,
    pub(crate) valid: u64,
    pub(crate) with_violations: u64,
    pub(crate) unknown: u64,
    /// Runs that missed a threshold.
    pub(crate) too_slow: u64,
    /// Runs that were told to end before they had come to their end.
    pub(crate) ended_early: u64,
    /// Runs that could not be held.
    pub(crate) not_run: u64,
    /// How long all of them took.
    pub(crate) took_s: f64,
}

impl Covered {
    /// The runs that were held, whatever came of them.
    pub(crate) fn runs(&self) -> u64 {
        self.valid + self.with_violations + self.unknown + self.too_slow + self.ended_early
    }
}

/// Runs in which the same was wrong.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Finding {
    /// The finding's folder, beside this file.
    pub(crate) name: String,
    /// The kind of the violation; also server-died (no violation tells of it) and did-not-end (the tool did not).
    pub(crate) kind: String,
    /// The likeliest cause; null where no cause is known.
    pub(crate) cause: Option<String>,
    /// The same for the same kind, cause and shape, in other hunts, too.
    pub(crate) fingerprint: String,
    /// What was wrong in the run that found it.
    pub(crate) words: String,
    /// How small the failure was made, in words.
    pub(crate) size: String,
    /// Whether each message that is left is needed.
    pub(crate) is_small: bool,
    /// How many messages are left; 0 where the run left no failure file.
    pub(crate) messages: u64,
    /// What the clients do: a line is one worker, or several that do the same.
    pub(crate) shape: Vec<String>,
    /// The chart of a replay; empty where there is none.
    pub(crate) chart: String,
    /// The models that it was met with.
    pub(crate) models: Vec<String>,
    /// The scenarios that it was met with.
    pub(crate) scenarios: Vec<String>,
    /// Each release, in their order.
    pub(crate) releases: Vec<OfRelease>,
    /// The run that found it.
    pub(crate) found: Found,
    /// How to have it again, in the finding's folder.
    pub(crate) again: Vec<Again>,
    /// How the server's process ended in the run that found it; null where it did not.
    pub(crate) death: Option<String>,
    /// The result of the run that found it, as `--json` of a run writes it; null where the run left none.
    #[schemars(with = "Option<RunDocument<'static>>")]
    pub(crate) result: Option<Box<Run>>,
}

impl Finding {
    /// Whether a replay, or a run of the hunt, had it on any release.
    pub(crate) fn failed(&self) -> bool {
        self.releases.iter().any(OfRelease::failed)
    }
}

/// What became of a finding on one release.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct OfRelease {
    pub(crate) release: String,
    /// In how many runs of the hunt it was met.
    pub(crate) met: u64,
    /// What replays came to; null where it was not replayed.
    pub(crate) replays: Option<Replays>,
}

impl OfRelease {
    /// Whether a replay, or a run of the hunt, had it.
    pub(crate) fn failed(&self) -> bool {
        self.met > 0 || self.replays.as_ref().is_some_and(|its| its.failed > 0)
    }
}

/// Replays of a finding.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ReplaysOfFinding")]
pub(crate) struct Replays {
    /// In how many replays it showed again.
    pub(crate) failed: u64,
    /// How many replays there were.
    pub(crate) runs: u64,
    /// The kinds of other violations that replays showed.
    pub(crate) otherwise: Vec<String>,
    /// Why there are fewer replays than were asked for; null where there are not.
    pub(crate) problem: Option<String>,
}

/// A run of a hunt.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RunOfHunt")]
pub(crate) struct Found {
    pub(crate) release: String,
    pub(crate) model: String,
    /// The scenario's name or file.
    pub(crate) scenario: String,
    pub(crate) seed: Seed,
    /// How the server was set: how long an execution takes, and the delay in its front end. Null where a command started the server.
    #[serde(default)]
    pub(crate) setting: Option<String>,
    /// The command line that holds the run again, against a server of this release.
    pub(crate) command: String,
}

/// A command.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Again {
    /// What it has again.
    pub(crate) what: String,
    /// The command line.
    pub(crate) command: String,
}

/// A run in which something was wrong that nobody looked into yet.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Waiting {
    /// The kind of the violation; also server-died and did-not-end.
    pub(crate) kind: String,
    /// The likeliest cause; null where no cause is known.
    pub(crate) cause: Option<String>,
    /// What was wrong.
    pub(crate) words: String,
    /// The run.
    pub(crate) found: Found,
}
