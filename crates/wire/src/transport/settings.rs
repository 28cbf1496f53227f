//! What a model's configuration means for who sends to it.

use std::time::Duration;

use crate::proto::{
    DataType, ModelConfig,
    model_config::SchedulingChoice,
    model_instance_group::Kind,
    model_sequence_batching::{Control, StrategyChoice, control},
};
use workload::{
    controls::Told,
    model::{Batching, Settings, Strategy, ToldIds},
};

/// What the server takes for the idle limit where the configuration leaves it at 0.
const DEFAULT_IDLE_LIMIT: Duration = Duration::from_secs(1);

/// The output of a model that tells how many steps it counted in its second state.
const COUNT: &str = "COUNT";

pub(super) fn settings(config: &ModelConfig) -> Settings {
    let parameters =
        config.parameters.iter().map(|(key, parameter)| (key.clone(), parameter.string_value.clone())).collect();
    let decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    let Some(SchedulingChoice::SequenceBatching(batching)) = &config.scheduling_choice else {
        let batches = config.max_batch_size > 0;
        return Settings { idle_limit: DEFAULT_IDLE_LIMIT, batches, decoupled, parameters, ..Settings::default() };
    };
    let batch = u32::try_from(config.max_batch_size).unwrap_or(0).max(1);
    let (strategy, slots_of_an_instance, queue_delay) = match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => {
            let candidates = u32::try_from(oldest.max_candidate_sequences).unwrap_or(0);
            let slots = if candidates > 0 { candidates } else { batch };
            (Strategy::Oldest, slots, oldest.max_queue_delay_microseconds)
        }
        Some(StrategyChoice::Direct(direct)) => (Strategy::Direct, batch, direct.max_queue_delay_microseconds),
        None => (Strategy::Direct, batch, 0),
    };
    let idle_limit = match batching.max_sequence_idle_microseconds {
        0 => DEFAULT_IDLE_LIMIT,
        limit => Duration::from_micros(limit),
    };
    let controls = batching.control_input.iter().flat_map(|input| &input.control);
    Settings {
        strategy: Some(strategy),
        slots: instances(config).saturating_mul(slots_of_an_instance),
        batching: Batching { instances: instances(config), largest: batch },
        queue_delay: Duration::from_micros(queue_delay),
        idle_limit,
        implicit_state: !batching.state.is_empty(),
        keeps_count: batching.state.len() == 2 && config.output.iter().any(|output| output.name == COUNT),
        told_ids: told_ids(controls.clone()),
        told: told(controls),
        batches: config.max_batch_size > 0,
        decoupled,
        iterative: batching.iterative_sequence,
        parameters,
        chain: None,
    }
}

fn told_ids<'c>(mut controls: impl Iterator<Item = &'c Control>) -> ToldIds {
    match controls.find(|control| control.kind() == control::Kind::ControlSequenceCorrid) {
        Some(control) if control.data_type() == DataType::TypeString => ToldIds::Texts,
        Some(_) => ToldIds::Integers,
        None => ToldIds::None,
    }
}

/// What a model is told by these controls.
fn told<'c>(controls: impl Iterator<Item = &'c Control>) -> Told {
    use control::Kind::{ControlSequenceCorrid, ControlSequenceEnd, ControlSequenceReady, ControlSequenceStart};
    controls.fold(Told::default(), |told, control| match control.kind() {
        ControlSequenceStart => Told { start: true, ..told },
        ControlSequenceEnd => Told { end: true, ..told },
        ControlSequenceReady => Told { ready: true, ..told },
        ControlSequenceCorrid => {
            let corrid_bits = match control.data_type() {
                DataType::TypeInt64 | DataType::TypeUint64 => Some(u64::BITS),
                DataType::TypeInt32 | DataType::TypeUint32 => Some(u32::BITS),
                // What a server makes a text of is not the number's digits everywhere.
                _ => None,
            };
            Told { corrid_bits, ..told }
        }
    })
}

/// How many instances take requests.
fn instances(config: &ModelConfig) -> u32 {
    let of_group = |group: &crate::proto::ModelInstanceGroup| {
        let count = u32::try_from(group.count).unwrap_or(0).max(1);
        let gpus = u32::try_from(group.gpus.len()).unwrap_or(u32::MAX).max(1);
        if group.kind() == Kind::Gpu { count.saturating_mul(gpus) } else { count }
    };
    config.instance_group.iter().filter(|group| !group.passive).map(of_group).fold(0, u32::saturating_add).max(1)
}
