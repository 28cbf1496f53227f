//! What is known of how the model is scheduled.

use std::{borrow::Cow, time::Duration};

use super::Hints;
use crate::preflight::Note;
use wire::transport::Configuration;
use workload::{
    model::{Link, Model, Settings, SlotRange, Strategy, ToldIds, Turn},
    scenario::{Scenario, ServerAction},
    wording::counted,
};

/// Why sequences of one ID may cross in an ensemble, and in a model that calls another.
pub(super) const OF_SEVERAL: &str = "the model is an ensemble of several sequence models";
pub(super) const CALLS_ANOTHER: &str = "the model calls another sequence model";

/// The model's scheduling: what its configuration tells, or else the command line. Its tensors and what it computes are not known here.
pub(super) fn configured(
    name: &str,
    settings: Option<&Settings>,
    hints: Hints,
    notes: &mut Vec<Note>,
) -> Result<Model, String> {
    match settings {
        Some(settings) => from_settings(name, settings, hints, notes),
        None => Ok(Model { name: name.to_owned(), ..from_hints(hints, notes) }),
    }
}

fn from_settings(name: &str, settings: &Settings, hints: Hints, notes: &mut Vec<Note>) -> Result<Model, String> {
    let Some(strategy) = settings.strategy else {
        let is_ensemble = settings.link() == Some(Link::Ensemble);
        let of = if is_ensemble { "the configuration of any of its steps" } else { "its configuration" };
        return Err(format!("model '{name}' has no sequence batching in {of}, so there is nothing to test"));
    };
    if let Some(link) = settings.link().filter(|_| settings.iterative) {
        let what = match link {
            Link::Ensemble => "is an ensemble with an iterative step",
            Link::Call => "calls another model, and one of them is iterative",
        };
        return Err(format!("model '{name}' {what}, which this tool cannot test"));
    }
    let hints = Hints { formula: None, initial_state: None, responses: None, ..hints };
    notes.extend(Note::not_used(&hints));
    if let Some(own) = settings.chain.as_ref().and_then(|chain| chain.own_slots).filter(|own| *own > settings.slots) {
        let [own, called] = [own, settings.slots].map(|slots| counted(u64::from(slots), "slot"));
        notes.push(Note::from(format!(
            "model '{name}' has {own}, and the model that it calls has {called}: a START that waits in the called model holds up a \
             whole batch, so give '{name}' at most {called} (instance_group, max_batch_size)"
        )));
    }
    let steps = |link: Link| {
        let chain = settings.chain.as_ref().filter(|chain| chain.link == link);
        chain.map(|chain| chain.steps.clone()).unwrap_or_default()
    };
    Ok(Model {
        name: name.to_owned(),
        strategy: Some(strategy),
        slots: Some(settings.slots),
        // An ensemble counts each request as an execution of its own, and a model that calls waits for the batches of another.
        batching: settings.chain.is_none().then_some(settings.batching),
        idle_limit: Some(settings.idle_limit),
        execution: Duration::from_millis(settings.execution_ms()),
        turn: turn(settings),
        told_ids: settings.told_ids,
        batches: settings.batches,
        steps: steps(Link::Ensemble),
        calls: steps(Link::Call).into_iter().next(),
        mixes_pipelined: mixes_pipelined(settings).map(Cow::Borrowed),
        keeps_count: settings.keeps_count,
        ..Model::default()
    })
}

fn from_hints(Hints { slots, idle_limit, strategy, .. }: Hints, notes: &mut Vec<Note>) -> Model {
    if slots.is_none() {
        notes.push("the number of slots is not known (--slots): one is assumed for the longest lawful wait".into());
    }
    if idle_limit.is_none() {
        let what = "rejections in the middle of a sequence, because the idle limit is not known (--idle-limit); one second is \
                    assumed for the longest lawful wait";
        notes.push(Note::NotChecked(what.to_owned()));
    }
    let mixes_pipelined = match strategy {
        Some(Strategy::Direct) => None,
        Some(Strategy::Oldest) => Some("the strategy is Oldest".into()),
        None => Some("the strategy is not known (--strategy)".into()),
    };
    Model { strategy, slots, idle_limit, batches: true, mixes_pipelined, ..Model::default() }
}

/// The model is loaded with these settings besides, in some phase of the run.
pub(super) fn also_with(model: &mut Model, others: &[Settings]) {
    let Some(slots) = model.slots else { return };
    let all = || others.iter().map(|settings| settings.slots).chain([slots]);
    let range = SlotRange { fewest: all().min().unwrap_or(slots), most: all().max().unwrap_or(slots) };
    model.slots_in_phases = Some(range).filter(|range| range.fewest < range.most);
    for other in others.iter().map(turn) {
        model.turn.executions_before = model.turn.executions_before.max(other.executions_before);
        model.turn.queue_delay = model.turn.queue_delay.max(other.queue_delay);
    }
}

/// Requests of different lengths cannot be in one batch, so each slot may have one of its own.
pub(super) fn may_differ_in_length(model: &mut Model, scenario: &Scenario) {
    let differ = scenario.populations.iter().any(|population| population.values.elements.is_some());
    if let Some(slots) = model.most_slots().filter(|_| differ) {
        model.turn.executions_before = model.turn.executions_before.max(slots.saturating_sub(1));
    }
}

/// A model without implicit state that the scenario loads as Oldest may mix two sequences of one ID, and is told correlation IDs.
pub(super) fn may_become_oldest(model: &mut Model, scenario: &Scenario) {
    let is_oldest = scenario.phases.iter().any(|phase| phase.server == Some(ServerAction::ReloadOldest));
    if model.mixes_pipelined.is_none() && is_oldest {
        model.mixes_pipelined = Some("the model is Oldest without implicit state in a part of the run".into());
        model.told_ids = ToldIds::Integers;
    }
}

fn turn(settings: &Settings) -> Turn {
    Turn {
        executions_before: settings.slots.div_ceil(settings.batching.executed_at_once().max(1)).saturating_sub(1),
        queue_delay: settings.queue_delay,
        between_models: settings.further_idle(),
    }
}

/// With what else the scenario loads a model that is configured like this.
pub(super) fn loaded_in_phases(configuration: &Configuration, scenario: &Scenario) -> Vec<Settings> {
    let changes = scenario.phases.iter().filter(|phase| phase.changes_model()).filter_map(|phase| phase.server);
    changes.map(|action| configuration.as_loaded_by(action).settings()).collect()
}

/// Why a model may mix two sequences of one ID that are live at once, which the server allows.
fn mixes_pipelined(settings: &Settings) -> Option<&'static str> {
    match settings.strategy {
        _ if settings.iterative => Some("the model is iterative"),
        // The END of one in a slot of the first model and the START of the next in another may reach the second model in any order.
        _ if settings.batchers() > 1 => {
            Some(if settings.link() == Some(Link::Call) { CALLS_ANOTHER } else { OF_SEVERAL })
        }
        _ if settings.implicit_state => None,
        Some(Strategy::Oldest) => Some("the model is Oldest without implicit state"),
        _ if settings.told_ids != ToldIds::None => Some("the model is told correlation IDs and has no implicit state"),
        _ => None,
    }
}
