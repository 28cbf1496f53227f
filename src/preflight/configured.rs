//! What is known of how the model is scheduled.

use std::{borrow::Cow, time::Duration};

use super::Hints;
use crate::preflight::Note;
use wire::transport::Configuration;
use workload::{
    arithmetic::Arithmetic,
    model::{Model, Settings, SlotRange, Strategy, ToldIds, Turn},
    scenario::{Phase, Scenario, ServerAction},
    tensor::{Shape, TensorSpec},
};

/// The name of the configuration parameter that tells how long a model takes to execute, in ms.
const EXECUTION_PARAMETER: &str = "execute_delay_ms";

/// What the configuration tells, or else the command line.
pub(super) struct Configured {
    strategy: Option<Strategy>,
    slots: Option<u32>,
    slots_in_phases: Option<SlotRange>,
    idle_limit: Option<Duration>,
    execution: Duration,
    turn: Turn,
    told_ids: ToldIds,
    batches: bool,
    mixes_pipelined: Option<&'static str>,
}

impl Configured {
    pub(super) fn new(
        name: &str,
        settings: Option<&Settings>,
        hints: Hints,
        notes: &mut Vec<Note>,
    ) -> Result<Self, String> {
        match settings {
            Some(settings) => Self::from_settings(name, settings, hints, notes),
            None => Ok(Self::from_hints(hints, notes)),
        }
    }

    fn from_settings(name: &str, settings: &Settings, hints: Hints, notes: &mut Vec<Note>) -> Result<Self, String> {
        let Some(strategy) = settings.strategy else {
            return Err(format!(
                "model '{name}' has no sequence batching in its configuration, so there is nothing to test"
            ));
        };
        let hints = Hints { formula: None, initial_state: None, responses: None, ..hints };
        notes.extend(Note::not_used(&hints));
        let execution_ms = settings.parameters.get(EXECUTION_PARAMETER).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self {
            strategy: Some(strategy),
            slots: Some(settings.slots),
            slots_in_phases: None,
            idle_limit: Some(settings.idle_limit),
            execution: Duration::from_millis(execution_ms),
            turn: turn(settings),
            told_ids: settings.told_ids,
            batches: settings.batches,
            mixes_pipelined: mixes_pipelined(settings),
        })
    }

    /// The model is loaded with these settings besides, in some phase of the run.
    pub(super) fn also_with(&mut self, others: &[Settings]) {
        let Some(slots) = self.slots else { return };
        let all = || others.iter().map(|settings| settings.slots).chain([slots]);
        let range = SlotRange { fewest: all().min().unwrap_or(slots), most: all().max().unwrap_or(slots) };
        self.slots_in_phases = Some(range).filter(|range| range.fewest < range.most);
        for other in others.iter().map(turn) {
            self.turn.executions_before = self.turn.executions_before.max(other.executions_before);
            self.turn.queue_delay = self.turn.queue_delay.max(other.queue_delay);
        }
    }

    /// Requests of different lengths cannot be in one batch, so each slot may have one of its own.
    pub(super) fn may_differ_in_length(&mut self, scenario: &Scenario) {
        if let (Some(slots), true) =
            (self.slots, scenario.populations.iter().any(|population| population.values.elements.is_some()))
        {
            let most = self.slots_in_phases.map_or(slots, |slots| slots.most);
            self.turn.executions_before = self.turn.executions_before.max(most.saturating_sub(1));
        }
    }

    /// A model without implicit state that the scenario loads as Oldest may mix two sequences of one ID, and is told correlation IDs.
    pub(super) fn may_become_oldest(&mut self, scenario: &Scenario) {
        let is_oldest = scenario.phases.iter().any(|phase| phase.server == Some(ServerAction::ReloadOldest));
        if self.mixes_pipelined.is_none() && is_oldest {
            self.mixes_pipelined = Some("the model is Oldest without implicit state in a part of the run");
            self.told_ids = ToldIds::Integers;
        }
    }

    fn from_hints(Hints { slots, idle_limit, strategy, .. }: Hints, notes: &mut Vec<Note>) -> Self {
        if slots.is_none() {
            notes.push("the number of slots is not known (--slots): one is assumed for the longest lawful wait".into());
        }
        if idle_limit.is_none() {
            let what = "refusals in the middle of a sequence, because the idle limit is not known (--idle-limit); one second is \
                        assumed for the longest lawful wait";
            notes.push(Note::NotChecked(what.to_owned()));
        }
        let mixes_pipelined = match strategy {
            Some(Strategy::Direct) => None,
            Some(Strategy::Oldest) => Some("the strategy is Oldest"),
            None => Some("the strategy is not known (--strategy)"),
        };
        Self {
            strategy,
            slots,
            slots_in_phases: None,
            idle_limit,
            execution: Duration::ZERO,
            turn: Turn::default(),
            told_ids: ToldIds::None,
            batches: true,
            mixes_pipelined,
        }
    }

    pub(super) fn model(
        self,
        name: &str,
        server: Option<String>,
        (input, output): (TensorSpec, TensorSpec),
        shape: Shape,
        arithmetic: Arithmetic,
    ) -> Model {
        let Self { strategy, slots, slots_in_phases, idle_limit, execution, turn, told_ids, batches, mixes_pipelined } =
            self;
        Model {
            name: name.to_owned(),
            version: None,
            server,
            input,
            output,
            shape,
            arithmetic,
            strategy,
            slots,
            slots_in_phases,
            idle_limit,
            execution,
            turn,
            told_ids,
            batches,
            mixes_pipelined: mixes_pipelined.map(Cow::Borrowed),
            controls: None,
        }
    }
}

fn turn(settings: &Settings) -> Turn {
    Turn {
        executions_before: settings.slots.div_ceil(settings.executed_at_once.max(1)).saturating_sub(1),
        queue_delay: settings.queue_delay,
    }
}

/// With what else the scenario loads a model that is configured like this.
pub(super) fn loaded_in_phases(configuration: &Configuration, scenario: &Scenario) -> Vec<Settings> {
    let strategy = |phase: &Phase| phase.server.and_then(ServerAction::strategy);
    scenario.phases.iter().filter_map(strategy).map(|its| configuration.with_strategy(its).settings()).collect()
}

/// Why a model may mix two sequences of one ID that are live at once, which the server allows.
fn mixes_pipelined(settings: &Settings) -> Option<&'static str> {
    match settings.strategy {
        _ if settings.iterative => Some("the model is iterative"),
        _ if settings.implicit_state => None,
        Some(Strategy::Oldest) => Some("the model is Oldest without implicit state"),
        _ if settings.told_ids != ToldIds::None => Some("the model is told correlation IDs and has no implicit state"),
        _ => None,
    }
}
