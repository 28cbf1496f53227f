//! Configurations that no model without a formula can have.

use super::*;
use wire::proto::ModelTransactionPolicy;

#[test]
fn a_model_that_cannot_be_is_rejected_in_a_line() {
    let spec = |config: ModelConfig| Spec::new(config, &Files::new()).map(|_| ()).expect_err("it cannot be");
    let rejected = |model: &str, change: &dyn Fn(&mut ModelConfig)| {
        let mut config = config(model);
        change(&mut config);
        spec(config)
    };
    let parameter = |model: &str, name: &str, value: &str| spec(with(config(model), &[(name, value)]));
    for (said, expected) in [
        (
            rejected("gru_float32", &|config| config.input[0].dims = vec![-1]),
            "model 'gru_float32' computes 'gru': its one input has to be FP32 with dims [ W ], of which W is from 1 to 4096",
        ),
        (
            rejected("gru_float32", &|config| config.output[0].dims = vec![3]),
            "model 'gru_float32' computes 'gru': its output has to be FP32 with the dims of its input",
        ),
        (
            rejected("gru_implicit_float32", &|config| {
                (config.input[0].dims, config.output[0].dims) = (vec![8], vec![8]);
            }),
            "model 'gru_implicit_float32' computes 'gru': its state has to be FP32 with the dims of its input",
        ),
        (
            rejected("two_state_implicit_float32", &|config| {
                if let Some(SchedulingChoice::SequenceBatching(batching)) = &mut config.scheduling_choice {
                    batching.state[0].dims = vec![5];
                }
            }),
            "model 'two_state_implicit_float32' computes 'two-state': its states have to be ZETA_STATE FP32 [ 2 ] and \
             ALPHA_STATE FP32 [ 5 ]",
        ),
        (
            rejected("any_tensors", &|config| config.output[0].dims = vec![-1]),
            "model 'any_tensors' computes 'any-tensors': the dims of its outputs have to be above 0",
        ),
        (
            rejected("any_tensors", &|config| config.output[0].dims = vec![1 << 32, 1 << 32]),
            "model 'any_tensors' computes 'any-tensors': an output of it has at most 1048576 elements",
        ),
        (
            rejected("any_tensors", &|config| "INPUT_BOOL".clone_into(&mut config.input[1].name)),
            "there are two inputs 'INPUT_BOOL'",
        ),
        (
            parameter("gru_float32", "sequence_stress_batch_noise", "2"),
            "parameter 'sequence_stress_batch_noise': '2' is no number from 0 to 1",
        ),
        (
            parameter("gru_float32", "sequence_stress_seed", "-1"),
            "parameter 'sequence_stress_seed': '-1' is no whole number from 0 to 18446744073709551615",
        ),
        (
            parameter("gru_float32", "sequence_stress_batch_noise_in_state", "1"),
            "parameter 'sequence_stress_batch_noise_in_state': '1' is neither true nor false",
        ),
        (
            parameter("gru_float32", "error_on_value", "1"),
            "parameter 'error_on_value' is for models that add up, which 'gru_float32' does not: leave it out",
        ),
        (
            parameter("custom_sequence_int32", "sequence_stress_run_noise", "0.1"),
            "parameter 'sequence_stress_run_noise' is for models that compute no sum, which 'custom_sequence_int32' does \
             not: leave it out",
        ),
        (
            parameter("gru_float32", "sequence_stress_at_end", "flush"),
            "parameter 'sequence_stress_at_end': 'flush' is neither negate nor add-corrid",
        ),
        (
            parameter("gru_float32", "sequence_stress_responses_up_to", "2"),
            "parameter 'sequence_stress_responses_up_to' is for decoupled gru models, which 'gru_float32' is not",
        ),
        (
            parameter("gru_decoupled_float32", "sequence_stress_responses", "2"),
            "parameter 'sequence_stress_responses' is for sums: of a gru, 'sequence_stress_responses_up_to' says the most",
        ),
        (
            rejected("two_state_float32", &|config| {
                config.model_transaction_policy = Some(ModelTransactionPolicy { decoupled: true });
                *config = with(config.clone(), &[("sequence_stress_responses", "2")]);
            }),
            "parameter 'sequence_stress_responses' is for models that add up, which 'two_state_float32' does not: leave it \
             out",
        ),
        (
            parameter("two_state_float32", "sequence_stress_seed", "1"),
            "parameter 'sequence_stress_seed' is for models that draw weights, which 'two_state_float32' does not: leave it \
             out",
        ),
        (
            parameter("any_tensors", "sequence_stress_batch_noise_in_state", "true"),
            "parameter 'sequence_stress_batch_noise_in_state' is for models that keep states of FP32, which 'any_tensors' \
             does not: leave it out",
        ),
    ] {
        assert_eq!(said, expected);
    }
}
