//! A model's configuration as it goes over the wire, to have the model loaded anew with it or with another strategy.

use std::iter;

use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, text_format::FormatOptions,
};

use super::settings::settings;
use crate::proto::{
    DESCRIPTORS, DataType, ModelConfig, ModelInstanceGroup, ModelParameter,
    model_config::SchedulingChoice,
    model_ensembling,
    model_sequence_batching::{Control, ControlInput, StrategyChoice, StrategyDirect, StrategyOldest, control::Kind},
};
use workload::{
    model::{Chain, Settings, Strategy},
    scenario::ServerAction,
    tensor::TensorSpec,
};

/// The name of the tensor that tells a model the correlation ID, where its configuration did not have one.
const CORRELATION_ID: &str = "CORRID";
/// `TYPE_UINT64` of Triton's data types.
const UINT64: i32 = 5;

/// A model's configuration, as far as this tool knows its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration(pub(super) ModelConfig);

impl Configuration {
    /// The configuration of a model that is at hand.
    pub fn of(config: ModelConfig) -> Self {
        Self(config)
    }

    /// All of it.
    pub fn into_inner(self) -> ModelConfig {
        self.0
    }

    /// What it says.
    pub fn settings(&self) -> Settings {
        settings(&self.0)
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The steps of an ensemble; none of any other model.
    pub fn steps(&self) -> &[model_ensembling::Step] {
        match &self.0.scheduling_choice {
            Some(SchedulingChoice::EnsembleScheduling(ensemble)) => &ensemble.step,
            _ => &[],
        }
    }

    /// The model that the model's program calls, where its parameter says so.
    pub fn calls(&self) -> Option<&str> {
        self.0.parameters.get(Chain::CALLS).map(|parameter| parameter.string_value.as_str())
    }

    /// The models that it hands its requests to.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.steps().iter().map(|step| step.model_name.as_str()).chain(self.calls())
    }

    /// The model's inputs and outputs, as its metadata would have them.
    pub fn tensors(&self) -> (Vec<TensorSpec>, Vec<TensorSpec>) {
        let batch = (self.0.max_batch_size > 0).then_some(-1);
        let spec = |name: &str, datatype: DataType, dims: &[i64]| TensorSpec {
            name: name.to_owned(),
            datatype: match datatype {
                DataType::TypeString => "BYTES".to_owned(),
                other => other.as_str_name().trim_start_matches("TYPE_").to_owned(),
            },
            shape: batch.into_iter().chain(dims.iter().copied()).collect(),
        };
        let inputs = self.0.input.iter().map(|input| spec(&input.name, input.data_type(), &input.dims));
        let outputs = self.0.output.iter().map(|output| spec(&output.name, output.data_type(), &output.dims));
        (inputs.collect(), outputs.collect())
    }

    /// The same without these parameters.
    pub fn without(&self, parameters: &[&str]) -> Self {
        let mut config = self.0.clone();
        config.parameters.retain(|name, _| !parameters.contains(&name.as_str()));
        Self(config)
    }

    /// The inputs that a request may leave out.
    pub fn optional_inputs(&self) -> Vec<String> {
        self.0.input.iter().filter(|input| input.optional).map(|input| input.name.clone()).collect()
    }

    /// The same with this strategy, and then with as many slots as a batch has places; a model that keeps its own state is told
    /// correlation IDs with Oldest, as integers. Where it has the strategy already nothing changes.
    pub fn with_strategy(&self, strategy: Strategy) -> Self {
        if self.settings().strategy == Some(strategy) {
            return self.clone();
        }
        let mut config = self.0.clone();
        let slots = config.max_batch_size.max(1);
        if let Some(SchedulingChoice::SequenceBatching(batching)) = &mut config.scheduling_choice {
            batching.strategy_choice = Some(match strategy {
                Strategy::Direct => StrategyChoice::Direct(StrategyDirect::default()),
                Strategy::Oldest => {
                    StrategyChoice::Oldest(StrategyOldest { max_candidate_sequences: slots, ..Default::default() })
                }
            });
            let controls = batching.control_input.iter().flat_map(|input| &input.control);
            let is_told = controls.into_iter().any(|control| control.kind() == Kind::ControlSequenceCorrid);
            // With Oldest a model that keeps its own state knows a sequence by nothing else.
            if strategy == Strategy::Oldest && batching.state.is_empty() && !is_told {
                let control =
                    Control { kind: Kind::ControlSequenceCorrid.into(), data_type: UINT64, ..Default::default() };
                batching.control_input.push(ControlInput { name: CORRELATION_ID.to_owned(), control: vec![control] });
            }
        }
        Self(config)
    }

    /// The same with so many times as many instances; of an ensemble, which has none, the same.
    pub fn with_times_the_instances(&self, times: u32) -> Self {
        let mut config = self.0.clone();
        let times = i32::try_from(times).unwrap_or(i32::MAX);
        if config.instance_group.is_empty() && self.steps().is_empty() {
            config.instance_group.push(ModelInstanceGroup::default());
        }
        for group in &mut config.instance_group {
            group.count = group.count.max(1).saturating_mul(times);
        }
        if times > 1 { Self(config) } else { self.clone() }
    }

    /// The same as a phase has the model loaded.
    pub fn as_loaded_by(&self, action: ServerAction) -> Self {
        let its = self.with_times_the_instances(action.times_the_instances());
        action.strategy().map_or_else(|| its.clone(), |strategy| its.with_strategy(strategy))
    }

    /// The configuration as a `config.pbtxt` has it.
    ///
    /// # Errors
    /// When the protocol's description lacks the message.
    pub fn to_text(&self) -> Result<String, String> {
        let options = FormatOptions::new().pretty(true);
        let Self(config) = self;
        let mut parameters: Vec<_> = config.parameters.iter().collect();
        parameters.sort_by_key(|(name, _)| *name);
        // Each by itself, because a message's map has no order.
        let alone = |(name, parameter): (&String, &ModelParameter)| ModelConfig {
            parameters: [(name.clone(), parameter.clone())].into(),
            ..ModelConfig::default()
        };
        let rest = ModelConfig { parameters: [].into(), ..config.clone() };
        let texts = iter::once(rest)
            .chain(parameters.into_iter().map(alone))
            .map(|config| Ok(Self(config).to_message()?.to_text_format_with_options(&options)));
        Ok(with_ordered_maps(&texts.collect::<Result<Vec<_>, String>>()?.join("\n")))
    }

    pub(super) fn to_json(&self) -> Result<String, String> {
        serde_json::to_string(&self.to_message()?).map_err(|error| error.to_string())
    }

    fn to_message(&self) -> Result<DynamicMessage, String> {
        let mut message = DynamicMessage::new(descriptor()?);
        message.transcode_from(&self.0).map_err(|error| error.to_string())?;
        Ok(message)
    }
}

/// The same text with the tensors of an ensemble's steps in order, because a message's map has none.
fn with_ordered_maps(text: &str) -> String {
    let mut ordered = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        ordered.push(line.to_owned());
        if !matches!(line.trim(), "input_map: [{" | "output_map: [{") {
            continue;
        }
        let map: Vec<_> = lines.by_ref().take_while(|line| line.trim() != "}]").collect();
        let mut entries: Vec<_> = map.split(|line| line.trim() == "}, {").collect();
        entries.sort_unstable();
        let indent = &line[..line.len() - line.trim_start().len()];
        ordered.push(
            entries.into_iter().map(|entry| entry.join("\n")).collect::<Vec<_>>().join(&format!("\n{indent}}}, {{\n")),
        );
        ordered.push(format!("{indent}}}]"));
    }
    ordered.join("\n")
}

fn descriptor() -> Result<MessageDescriptor, String> {
    let pool = DescriptorPool::decode(DESCRIPTORS).map_err(|error| error.to_string())?;
    pool.get_message_by_name("inference.ModelConfig").ok_or_else(|| "the protocol has no ModelConfig".to_owned())
}

/// A configuration as JSON has it, which may have fields that are not known here.
pub(super) fn config_of(json: &[u8]) -> Result<ModelConfig, String> {
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize_with_options(descriptor()?, &mut deserializer, &options)
        .map_err(|error| format!("its model configuration cannot be read: {error}"))?;
    message.transcode_to().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_a_config_pbtxt_with_parameters_in_order() {
        let json = br#"{"name": "m", "max_batch_size": 2, "parameters": {"b": {"string_value": "2"}, "a": {"string_value": "1"}}}"#;
        let text = Configuration(config_of(json).expect("a configuration")).to_text().expect("a text");
        assert!(text.starts_with("name: \"m\"\nmax_batch_size: 2\n"), "{text}");
        let places = ["key: \"a\"", "key: \"b\""].map(|key| text.find(key).expect("a parameter"));
        assert!(places[0] < places[1], "{text}");
    }

    #[test]
    fn instances_are_multiplied_and_an_absent_group_is_one_instance() {
        let times = |groups: &str| {
            let json = format!(r#"{{"name": "m", "sequence_batching": {{}}, "instance_group": [{groups}]}}"#);
            let configuration = Configuration(config_of(json.as_bytes()).expect("a configuration"));
            [1, 2, 3].map(|times| configuration.with_times_the_instances(times).settings().slots)
        };
        assert_eq!(times(""), [1, 2, 3]);
        assert_eq!(times(r#"{"count": 2, "kind": "KIND_CPU"}, {"kind": "KIND_CPU"}"#), [3, 6, 9]);
    }

    #[test]
    fn the_text_of_an_ensemble_is_always_the_same() {
        let maps = r#"{"a": "a", "b": "b", "c": "c", "d": "d", "e": "e"}"#;
        let step = format!(r#"{{"model_name": "s", "input_map": {maps}, "output_map": {maps}}}"#);
        let json = format!(r#"{{"name": "m", "ensemble_scheduling": {{"step": [{step}, {step}]}}}}"#);
        let text = || Configuration(config_of(json.as_bytes()).expect("a configuration")).to_text().expect("a text");
        let first = text();
        assert_eq!(first.matches("key: \"a\"").count(), 4, "{first}");
        assert!((0..20).all(|_| text() == first), "{first}");
    }
}
