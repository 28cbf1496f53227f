//! The built-in models without a formula: no client can predict their outputs, so recorded outputs judge them.

use models::{Backend, Dtype, Family, Form, Model, Options};
use wire::proto::{
    DataType, ModelConfig, ModelInput, ModelOutput, ModelParameter, ModelTransactionPolicy,
    model_config::SchedulingChoice, model_sequence_batching::State,
};
use workload::model::Strategy;

use super::super::{
    spec::{ALPHA_STATE, ZETA_STATE},
    tensor::Datatype,
};

/// The numbers of a step to a layer, and to a model with two states.
const GRU_WIDTH: i64 = 16;
const TWO_STATE_WIDTH: i64 = 4;
/// The elements of each tensor of the model of any tensors.
const ANY_ELEMENTS: i64 = 2;

const FORMULA: &str = "sequence_stress_formula";

workload::table! {
    /// A built-in model without a formula.
    pub(super) enum WithoutFormula: Row {
        /// A layer with gates, whose state is kept by slot, or with Oldest by CORRID.
        Gru = "gru_float32", Row(Family::Sequence, gru, &[]);
        /// The same with Oldest.
        GruOldest = "gru_oldest_float32", Row(Family::Oldest, gru, &[]);
        /// The same; the server keeps the state.
        GruImplicit = "gru_implicit_float32", Row(Family::Implicit, gru, &[]);
        /// The same; each step has up to three responses, as its input says.
        GruDecoupled = "gru_decoupled_float32", Row(Family::Sequence, gru, &[("sequence_stress_responses_up_to", "3")]);
        /// The same; a row's outputs differ a little with its batch, as those of kernels that are not batch-invariant.
        GruBatchNoise = "gru_batch_noise_float32", Row(Family::Sequence, gru, &[("sequence_stress_batch_noise", "1e-6")]);
        /// The same; the outputs are noise.
        GruRunNoise = "gru_run_noise_float32", Row(Family::Sequence, gru, &[("sequence_stress_run_noise", "0.5")]);
        /// The same with Oldest; END negates the outputs.
        GruNegated = "gru_negated_at_end_float32", Row(Family::Oldest, gru, &[("sequence_stress_at_end", "negate")]);
        /// The same; at END the outputs are higher by a part of the correlation ID.
        GruCorrid = "gru_corrid_at_end_float32", Row(Family::Oldest, gru, &[("sequence_stress_at_end", "add-corrid")]);
        /// Two states, and outputs of three types.
        TwoState = "two_state_float32", Row(Family::Sequence, two_state, &[]);
        /// The same; the server keeps the states.
        TwoStateImplicit = "two_state_implicit_float32", Row(Family::Implicit, two_state, &[]);
        /// An input and an output of each type; one input is optional.
        AnyTensors = "any_tensors", Row(Family::Sequence, any_tensors, &[]);
        /// An ensemble of two models, of which the second adds up the sums that the first gives.
        EnsembleSums = "ensemble_sums_float32", Row(Family::EnsembleSums, |_| {}, &[]);
    }
}

/// The family whose scheduling and controls it has, what tensors it has in place of the family's, and parameters.
struct Row(Family, fn(&mut ModelConfig), &'static [(&'static str, &'static str)]);

impl WithoutFormula {
    fn form(self) -> Form {
        Form::of(self.row().0)
    }

    /// Its strategy; none where these options allow no such model.
    pub(super) fn strategy(self, options: &Options) -> Option<Strategy> {
        model(&self.form(), options).map(|model| model.strategy)
    }

    /// Its configuration, and those of its steps; none where these options allow no such model.
    pub(super) fn configs(self, options: &Options) -> Vec<ModelConfig> {
        let form = self.form();
        let all = model(&form, options).and_then(|model| model.configs().ok()).unwrap_or_default();
        self.config(options).into_iter().chain(all.into_iter().skip(1)).collect()
    }

    /// Its configuration; none where these options allow no such model.
    fn config(self, options: &Options) -> Option<ModelConfig> {
        let Row(_, tensors, parameters) = *self.row();
        let mut config = model(&self.form(), options)?.config();
        self.name().clone_into(&mut config.name);
        config.parameters.retain(|name, _| !name.starts_with("sequence_stress_"));
        tensors(&mut config);
        for (name, value) in parameters {
            set(&mut config, name, value);
        }
        let is_decoupled = self == Self::GruDecoupled;
        config.model_transaction_policy = is_decoupled.then_some(ModelTransactionPolicy { decoupled: true });
        Some(config)
    }
}

/// The model of a family whose configuration is changed.
fn model<'a>(form: &'a Form, options: &'a Options) -> Option<Model<'a>> {
    Model::new(Backend::Native, Dtype::Float32, form, options).ok()
}

fn set(config: &mut ModelConfig, name: &str, value: &str) {
    config.parameters.insert(name.to_owned(), ModelParameter { string_value: value.to_owned() });
}

fn input(name: &str, data_type: DataType, dims: &[i64]) -> ModelInput {
    ModelInput { name: name.to_owned(), data_type: data_type.into(), dims: dims.to_vec(), ..Default::default() }
}

fn output(name: &str, data_type: DataType, dims: &[i64]) -> ModelOutput {
    ModelOutput { name: name.to_owned(), data_type: data_type.into(), dims: dims.to_vec(), ..Default::default() }
}

/// Replaces the states of a configuration whose server keeps some.
fn set_states(config: &mut ModelConfig, states: &[(&str, i64)]) {
    let Some(SchedulingChoice::SequenceBatching(batching)) = &mut config.scheduling_choice else { return };
    if batching.state.is_empty() {
        return;
    }
    let state = |(name, size): &(&str, i64)| State {
        input_name: (*name).to_owned(),
        output_name: format!("{name}_OUT"),
        data_type: DataType::TypeFp32.into(),
        dims: vec![*size],
        ..Default::default()
    };
    batching.state = states.iter().map(state).collect();
}

fn gru(config: &mut ModelConfig) {
    let dims = [GRU_WIDTH];
    config.input = vec![input("INPUT", DataType::TypeFp32, &dims)];
    config.output = vec![output("OUTPUT", DataType::TypeFp32, &dims)];
    set_states(config, &[("STATE", GRU_WIDTH)]);
    set(config, FORMULA, "gru");
}

fn two_state(config: &mut ModelConfig) {
    let dims = [TWO_STATE_WIDTH];
    config.input = vec![input("INPUT", DataType::TypeFp32, &dims)];
    config.output = vec![
        output("OUTPUT", DataType::TypeFp32, &dims),
        output("COUNT", DataType::TypeInt64, &[1]),
        output("LABEL", DataType::TypeString, &[1]),
    ];
    set_states(config, &[(ZETA_STATE, 2), (ALPHA_STATE, 5)]);
    set(config, FORMULA, "two-state");
}

fn any_tensors(config: &mut ModelConfig) {
    let dims = [ANY_ELEMENTS];
    let of = |datatype: Datatype| {
        let mut input = input(&format!("INPUT_{datatype}"), datatype.in_config(), &dims);
        input.optional = datatype == Datatype::Fp64;
        if datatype == Datatype::Fp32 {
            input.dims = vec![-1];
        }
        input
    };
    config.input = Datatype::ALL.into_iter().map(of).collect();
    let of = |datatype: Datatype| output(&format!("OUTPUT_{datatype}"), datatype.in_config(), &dims);
    config.output = Datatype::ALL.into_iter().map(of).collect();
    set(config, FORMULA, "any-tensors");
}
