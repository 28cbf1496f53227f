//! What a history says besides the events: its first line and its last.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    preflight::{Hints, Preflight},
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    recorder::{Counts, Found},
    run::{Arrived, Health, Interrupted, Memory, Origin, PhaseSpan, Restarts, RunResult, Setup},
};
use oracle::{
    Rules, Violation, ViolationKind,
    golden::{Facts, Golden, Identity, Output},
    history::{FORMAT, Kept, Options, VERSION},
};
use reference::ServerSetup;
use wire::transport::GoAways;
use workload::{claim::Claims, inputs::InputSet, scenario::Scenario, seed::Seed};

/// What a run is to record.
#[derive(Clone, Debug)]
pub struct HistoryPlan {
    /// Where it goes, and how much of it.
    pub options: Options,
    /// The scenario's name.
    pub scenario_name: String,
    /// The command line that sends the same again, without the flags for what the run was told of the endpoint.
    pub replay: String,
    /// How the embedded server is, if there is one.
    pub server: Option<ServerSetup>,
}

/// What became of a history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryWritten {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    #[serde(flatten)]
    pub kept: Kept,
}

/// The first line of a history: all that the events are judged by.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    /// The version of the tool that wrote it.
    pub tool_version: String,
    /// When and where the run was held.
    pub origin: Origin,
    /// The scenario's name.
    pub scenario_name: String,
    /// What was sent.
    pub scenario: Scenario,
    /// What fixed every choice.
    pub seed: Seed,
    /// The command line that sends the same again, but for the flags of `preflight.told`.
    pub replay: String,
    /// Whether the server was in the same process.
    pub embedded: bool,
    /// How it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSetup>,
    /// What the command line told of the endpoint.
    pub hints: Hints,
    /// What was found out before anything was sent.
    pub preflight: Preflight,
    /// What a correct server may do.
    pub rules: Rules,
    /// What judged the outputs of a model without a formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<OutputsJudged>,
    /// Whether the times are those of several ranks whose clocks may be a little apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub several_clocks: bool,
}

/// What judged the outputs of a model without a formula.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputsJudged {
    /// Of which model and inputs the golden outputs are.
    pub of: Identity,
    /// The outputs that were asked for, and how each is compared.
    outputs: Vec<Output>,
    /// Whether there were golden outputs.
    has_golden: bool,
}

impl OutputsJudged {
    fn new(golden: &Golden) -> Self {
        Self { of: golden.identity.clone(), outputs: golden.outputs.clone(), has_golden: !golden.words().is_empty() }
    }

    /// What the run expected of outputs, where it had no golden ones.
    pub(super) fn without_golden(&self) -> Option<Golden> {
        let inputs = || Arc::new(InputSet::new(Vec::new()));
        (!self.has_golden).then(|| Golden::new(self.of.clone(), inputs(), self.outputs.clone(), Facts::default(), []))
    }
}

/// The last line of a history: what the events do not tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footer {
    /// What is in the file.
    pub kept: Kept,
    /// From the start of the first iteration to the end of the last stream.
    pub elapsed: Duration,
    /// CPU time of the run's process, in µs.
    pub cpu_us: u64,
    /// What it took of the memory.
    pub memory: Memory,
    /// Whether the run was ended before it was done.
    pub interrupted: bool,
    /// What the server's own counts said.
    pub accounting: Accounting,
    /// Whether requests were still pending after it.
    pub pending: PendingRequests,
    /// What the slots were like after it.
    pub slots: SlotCheck,
    /// Iterations that were finished.
    pub iterations: u64,
    /// What was found beside the events.
    pub violations: Vec<Violation>,
    /// What the run counted of each kind.
    pub violations_by_kind: BTreeMap<ViolationKind, u64>,
    /// What the run sent, and what became of it.
    pub counts: Counts,
    /// Answers that took longer than the threshold.
    pub slow: u64,
    /// How often each claim was reached.
    #[serde(default)]
    pub reached: Claims,
    /// What idle limit the server really keeps, where it was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_limit: Option<IdleSearch>,
    /// What became of connections that the server ended in good order.
    #[serde(default, skip_serializing_if = "GoAways::is_none")]
    pub go_aways: GoAways,
    /// How often the server was away and came back.
    #[serde(default, skip_serializing_if = "Restarts::is_none")]
    pub restarts: Restarts,
    /// What the server said of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// When the scenario's phases were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpan>,
    /// What became of iterations that begin at a rate, by population.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrived: Vec<Arrived>,
    /// Why the run could not go on, where something could not be done to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// What the scenario's thresholds came to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Found>,
}

impl Header {
    /// Of a run of the scenario with this name, which this command line sends again, to a server that is so.
    pub(super) fn new(
        (scenario_name, replay, server): (&str, &str, Option<ServerSetup>),
        setup: &Setup,
        preflight: &Preflight,
        origin: &Origin,
    ) -> Self {
        let Setup { scenario, seed, hints, embedded, .. } = setup;
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            origin: origin.clone(),
            scenario_name: scenario_name.to_owned(),
            scenario: scenario.clone(),
            seed: *seed,
            replay: replay.to_owned(),
            embedded: *embedded,
            server,
            hints: *hints,
            preflight: preflight.clone(),
            rules: preflight.rules(scenario),
            several_clocks: setup.lead.as_ref().is_some_and(|lead| lead.members.uncertainty_us() > 0),
            outputs: preflight.golden.as_ref().map(|golden| OutputsJudged::new(golden)),
        }
    }
}

impl Footer {
    pub(super) fn new(result: &RunResult, kept: &Kept) -> Self {
        Self {
            kept: kept.clone(),
            elapsed: result.elapsed,
            cpu_us: result.cpu_us,
            memory: result.memory,
            interrupted: result.interrupted == Interrupted(true),
            accounting: result.accounting.clone(),
            pending: result.pending.clone(),
            slots: result.slots.clone(),
            iterations: result.iterations,
            violations: result.beside.clone(),
            violations_by_kind: result.tally.violations.clone(),
            counts: result.tally.total(),
            slow: result.tally.slow,
            reached: result.tally.reached,
            idle_limit: Some(result.idle_limit.clone()).filter(|found| *found != IdleSearch::NotAsked),
            go_aways: result.go_aways,
            restarts: result.restarts.clone(),
            health: result.health.clone(),
            phases: result.phases.clone(),
            arrived: result.arrived.clone(),
            broken_off: result.broken_off.clone(),
            thresholds: result.thresholds.clone(),
        }
    }
}
