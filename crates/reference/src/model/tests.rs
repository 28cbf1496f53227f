//! The models without a formula in virtual time: scheduler, execution and model as they are.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{super::builtin::configs, noise::Draws, outputs::to_floats, *};
use crate::{
    builtin::models_without_formula,
    execution::{Instance, Ticket},
    fault::Planted,
    scheduler::{Event, Moment, Request, Scheduler},
    spec::Files,
    tensor::text_element,
};
use models::ModelOptions;
use wire::proto::{ModelConfig, ModelParameter, model_config::SchedulingChoice};
use workload::seed::Seed;

/// A step as the tests write it.
#[derive(Clone, Debug)]
struct Sent {
    id: u64,
    start: bool,
    end: bool,
    inputs: Vec<(Arc<str>, Tensor)>,
}

/// A server of one model, whose clock goes when it is told to.
struct World {
    spec: Arc<Spec>,
    faults: Arc<Faults>,
    scheduler: Scheduler<Ticket<usize>>,
    instance: Instance,
    now: Moment,
}

/// START and END of a sequence that restarts with and without END.
const FLAGS: [&str; 12] = ["S", "", "", "", "", "", "S", "", "E", "S", "", "E"];

/// What each step of a conversation was answered with, bit by bit.
type Answers = Vec<Vec<Outputs>>;

fn config(model: &str) -> ModelConfig {
    let options = ModelOptions { execution: Duration::ZERO, ..ModelOptions::default() };
    configs(&options).into_iter().find(|config| config.name == model).expect("a built-in model")
}

fn with(mut config: ModelConfig, parameters: &[(&str, &str)]) -> ModelConfig {
    let set = |(name, value): &(&str, &str)| ((*name).to_owned(), ModelParameter { string_value: (*value).to_owned() });
    config.parameters.extend(parameters.iter().map(set));
    config
}

impl World {
    fn new(config: ModelConfig, planted: &[Planted]) -> Self {
        let spec = Arc::new(Spec::new(config, &Files::new()).expect("it is right"));
        let faults = Arc::new(Faults::new(planted, Seed(0)));
        Self {
            scheduler: Scheduler::new(spec.settings.clone(), Arc::clone(&faults)),
            instance: Instance::new(0, Arc::clone(&spec), Arc::clone(&faults)),
            spec,
            faults,
            now: Moment::ZERO,
        }
    }

    fn of(model: &str) -> Self {
        Self::new(config(model), &[])
    }

    /// Sends steps at one time; what each is answered with, nothing where it was rejected.
    fn send(&mut self, steps: &[Sent]) -> Answers {
        for (number, step) in steps.iter().enumerate() {
            let request = Request {
                id: SequenceId::Number(step.id),
                start: step.start,
                end: step.end,
                goes_on: false,
                batch_size: 1,
                timeout: None,
                cancelled: Arc::default(),
                shape: step.inputs.iter().flat_map(|(_, tensor)| tensor.shape.iter().copied()).collect(),
                arrived: Moment::ZERO,
                payload: Ticket {
                    request_id: String::new(),
                    inputs: step.inputs.clone(),
                    wants: Wants::ALL,
                    reply: number,
                },
            };
            // A fault may have ended its sequence.
            let _ = self.scheduler.enqueue(request, self.now);
        }
        let mut answers = vec![Vec::new(); steps.len()];
        loop {
            let mut events = Vec::new();
            self.scheduler.advance(self.now, &mut events);
            if events.is_empty() {
                break;
            }
            for event in events {
                let Event::Execute { instance, batch } = event else { continue };
                for executed in self.instance.execute(batch) {
                    answers[executed.request.payload.reply] = executed.outcome.expect("the model does not fail");
                }
                self.scheduler.finished(instance);
            }
        }
        self.now += Duration::from_millis(1);
        answers
    }

    /// A step with inputs that look random, of this number.
    fn step(&self, id: u64, flags: &str, number: u64) -> Sent {
        let mut draws = Draws::new(number);
        let each = self.spec.inputs.iter().map(|input| {
            let elements = (0..input.elements()).flat_map(|_| element(input.datatype, &mut draws)).collect();
            let shape = self.spec.shape(1, &input.dims).into_iter().map(i64::abs).collect();
            (input.name.clone(), Tensor { datatype: input.datatype, shape, data: elements })
        });
        Sent { id, start: flags.contains('S'), end: flags.contains('E'), inputs: each.collect() }
    }

    /// Two sequences side by side, whose steps carry [`FLAGS`]; both of a batch are sent at a time.
    fn converse(&mut self) -> Answers {
        let mut answers = Answers::new();
        for (number, flags) in (0..).zip(FLAGS) {
            let steps = [self.step(1, flags, number), self.step(2, flags, 100 + number)];
            answers.extend(self.send(&steps));
        }
        answers
    }

    /// One sequence of this many steps, alone.
    fn alone(&mut self, steps: u64, first: u64) -> Answers {
        let flags = |number| if number == 0 { "S" } else { "" };
        let each = (0..steps).flat_map(|number| {
            let step = self.step(7, flags(number), if number == 0 { first } else { number });
            self.send(&[step])
        });
        each.collect()
    }

    fn committed(&self, fault: Fault) -> u64 {
        self.faults.committed(fault)
    }
}

fn element(datatype: Datatype, draws: &mut Draws) -> Vec<u8> {
    match datatype {
        Datatype::Fp32 => draws.symmetric().to_le_bytes().to_vec(),
        Datatype::Bytes => text_element(&draws.bits().to_le_bytes()),
        Datatype::Bool => vec![u8::from(draws.bits() & 1 == 1)],
        // Of the other types any bits are an element.
        _ => draws.bits().to_le_bytes()[..datatype.size().expect("a size")].to_vec(),
    }
}

/// The numbers of the first output of each response.
fn numbers(answers: &Answers) -> Vec<Vec<f32>> {
    answers.iter().flatten().map(|outputs| to_floats(&outputs[0].1.data)).collect()
}

fn furthest(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

#[test]
fn the_same_conversation_has_the_same_outputs_wherever_state_is_kept() {
    for (same, several) in [
        (&["gru_float32", "gru_oldest_float32", "gru_implicit_float32"][..], "gru_decoupled_float32"),
        (&["two_state_float32", "two_state_implicit_float32"], "gru_float32"),
        (&["any_tensors"], "two_state_float32"),
    ] {
        let first = World::of(same[0]).converse();
        assert!(first.iter().all(|responses| responses.len() == 1 && !responses[0].is_empty()), "{same:?}");
        for model in same {
            assert_eq!(World::of(model).converse(), first, "{model}");
        }
        assert_ne!(World::of(several).converse(), first, "{several}");
        // Each sequence restarts with other inputs, and its outputs are its own.
        let all = |outputs: &Outputs| outputs.iter().flat_map(|(_, tensor)| tensor.data.clone()).collect::<Vec<_>>();
        let steps: BTreeSet<_> = first.iter().map(|responses| all(&responses[0])).collect();
        assert_eq!(steps.len(), first.len(), "{same:?}");
    }
    let other = World::new(with(config("gru_float32"), &[("sequence_stress_seed", "1")]), &[]).converse();
    assert_ne!(other, World::of("gru_float32").converse());
}

#[test]
fn start_forgets_and_a_neighbour_does_not_matter() {
    for model in models_without_formula().iter().filter(|model| !model.contains("noise")) {
        let mut world = World::of(model);
        let both = world.converse();
        let mut alone = World::of(model);
        let own = (0..).zip(FLAGS).flat_map(|(number, flags)| {
            let step = alone.step(2, flags, 100 + number);
            alone.send(&[step])
        });
        let own: Answers = own.collect();
        let beside: Answers = both.into_iter().skip(1).step_by(2).collect();
        assert_eq!(own, beside, "{model}");
        // The same input after START has the same output, whatever was before.
        let mut again = World::of(model);
        let [first, middle] = [again.step(1, "S", 3), again.step(1, "", 4)];
        let once = again.send(std::slice::from_ref(&first));
        let _ = again.send(&[middle]);
        assert_eq!(again.send(&[first]), once, "{model}");
    }
}

#[test]
fn outputs_of_different_histories_differ_clearly_for_32_steps() {
    for (model, apart) in [("gru_float32", 1e-3), ("two_state_float32", 1e-3)] {
        for seeds in 0..8 {
            let config = || match model {
                "gru_float32" => with(config(model), &[("sequence_stress_seed", &seeds.to_string())]),
                _ => config(model),
            };
            let [one, other] = [1000, 1001].map(|first| numbers(&World::new(config(), &[]).alone(33, first + seeds)));
            for (step, (one, other)) in one.iter().zip(&other).enumerate() {
                assert!(one.iter().all(|value| value.abs() < 2.0), "{model} {one:?}");
                assert!(furthest(one, other) > apart, "{model} seed {seeds} step {step}: {}", furthest(one, other));
            }
            let last = &one[32];
            let clear = last.iter().filter(|value| value.abs() > 0.01).count();
            assert!(clear * 4 > last.len() * 3, "{model} {last:?}");
        }
    }
}

#[test]
fn a_wide_layer_takes_what_its_dims_say() {
    let mut config = config("gru_float32");
    (config.input[0].dims, config.output[0].dims) = (vec![100], vec![100]);
    let outputs = numbers(&World::new(config, &[]).alone(3, 0));
    assert!(outputs.len() == 3 && outputs.iter().all(|output| output.len() == 100), "{outputs:?}");
    let kinds: BTreeSet<_> = outputs[2].iter().map(|value| value.to_bits()).collect();
    assert_eq!(kinds.len(), 100);
}

#[test]
fn faults_happen_to_models_without_a_formula_and_change_their_outputs() {
    use Fault::{
        CorridOther, CorridZero, EndSpurious, ExchangeStates, ExecuteTwice, KeepState, OffByOne, ReadyMissing,
        ResetState, SkipStep, StaleState, StartMissing, StartSpurious, StateNotSaved, StateOfAnotherSlot, SwapStates,
        WrongElement,
    };
    const BY_SLOT: &[&str] = &["gru_float32", "gru_decoupled_float32", "two_state_float32", "any_tensors"];
    const BY_ID: &[&str] = &["gru_oldest_float32"];
    const IMPLICIT: &[&str] = &["gru_implicit_float32", "two_state_implicit_float32"];
    const TWO: &[&str] = &["two_state_float32", "two_state_implicit_float32"];
    for (faults, models) in [
        (
            &[OffByOne, WrongElement, ResetState, SwapStates, ExecuteTwice, SkipStep][..],
            &[BY_SLOT, BY_ID, IMPLICIT][..],
        ),
        (&[KeepState, StartMissing, StartSpurious, ReadyMissing], &[BY_SLOT, BY_ID, IMPLICIT]),
        (&[StaleState], &[BY_SLOT, BY_ID]),
        (&[StateNotSaved, StateOfAnotherSlot], &[IMPLICIT]),
        (&[CorridZero, CorridOther, EndSpurious], &[BY_ID]),
        (&[ExchangeStates], &[TWO]),
    ] {
        for (fault, model) in
            faults.iter().flat_map(|fault| models.iter().copied().flatten().map(move |m| (*fault, *m)))
        {
            let right = World::of(model).converse();
            // With one commission only, so that it shows by itself.
            let mut changed = 0;
            for chance in 1..4 {
                let mut world = World::new(config(model), &[Planted::once(fault, chance)]);
                let is_other = world.converse() != right;
                changed += u64::from(is_other && world.committed(fault) == 1);
            }
            assert!(changed > 0, "{fault} does not show on {model}");
            let mut world = World::new(config(model), &[Planted::always(fault)]);
            assert_ne!(world.converse(), right, "{fault} on {model}");
            assert!(world.committed(fault) > 0, "{fault} on {model}");
        }
    }
}

#[test]
fn faults_of_the_scheduler_change_outputs_too() {
    let steps = |world: &mut World| {
        let first = [world.step(1, "SE", 1)];
        let mut answers = world.send(&first);
        // Two sequences that share a slot where it was released twice, and steps that wait for those before them.
        let rest = [(2, "S", 2), (3, "S", 3), (2, "", 4), (2, "", 5), (2, "E", 6), (3, "E", 7)];
        let rest = rest.map(|(id, flags, number)| world.step(id, flags, number));
        answers.extend(world.send(&rest));
        answers
    };
    let models = ["gru_float32", "gru_implicit_float32", "two_state_float32", "any_tensors"];
    for model in models {
        let right = steps(&mut World::of(model));
        for fault in [Fault::DoubleRelease, Fault::OutOfOrder, Fault::EndBeforeLast] {
            let mut world = World::new(config(model), &[Planted::once(fault, 1)]);
            let wrong = steps(&mut world);
            assert!(world.committed(fault) == 1 && wrong != right, "{fault} on {model}");
        }
    }
}

#[test]
fn a_slip_changes_one_element_and_no_state() {
    for model in ["gru_float32", "two_state_implicit_float32", "any_tensors"] {
        let right = World::of(model).converse();
        for (fault, is_first) in [(Fault::OffByOne, true), (Fault::WrongElement, false)] {
            let wrong = World::new(config(model), &[Planted::once(fault, 5)]).converse();
            let differ: Vec<_> = (0..right.len()).filter(|step| right[*step] != wrong[*step]).collect();
            assert_eq!(differ, [4], "{model} {fault}");
            let outputs = right[4][0].iter().zip(&wrong[4][0]);
            let differ: Vec<_> = outputs.filter(|(right, wrong)| right != wrong).collect();
            let [(right, wrong)] = differ[..] else { panic!("{model} {fault}: {differ:?}") };
            let size = right.1.datatype.size().expect("a size");
            let [right, wrong] = [right, wrong].map(|(_, tensor)| tensor.data.chunks(size).collect::<Vec<_>>());
            let at: Vec<_> = (0..right.len()).filter(|at| right[*at] != wrong[*at]).collect();
            assert_eq!(at, [if is_first { 0 } else { right.len() - 1 }], "{model} {fault}");
        }
    }
    // An element of each type changes, and differs clearly.
    for datatype in Datatype::ALL {
        let data =
            if datatype == Datatype::Bytes { text_element(b"a") } else { vec![0; datatype.size().expect("a size")] };
        let tensor = Tensor { datatype, shape: vec![1, 1], data };
        let mut responses = [vec![("OUTPUT".into(), tensor.clone())]];
        outputs::slip(&Faults::new(&[Planted::always(Fault::OffByOne)], Seed(0)), &mut responses);
        assert_ne!(responses[0][0].1.data, tensor.data, "{datatype}");
    }
}

#[test]
fn two_states_are_never_mixed_whatever_the_order_of_their_declaration() {
    let own = World::of("two_state_float32").converse();
    let declared = config("two_state_implicit_float32");
    let mut turned = declared.clone();
    let Some(SchedulingChoice::SequenceBatching(batching)) = &mut turned.scheduling_choice else {
        panic!("it has a sequence batcher")
    };
    let names: Vec<_> = batching.state.iter().map(|state| (state.input_name.clone(), state.dims.clone())).collect();
    assert_eq!(names, [("ZETA_STATE".to_owned(), vec![2]), ("ALPHA_STATE".to_owned(), vec![5])]);
    batching.state.reverse();
    for config in [declared.clone(), turned] {
        assert_eq!(World::new(config, &[]).converse(), own);
    }
    // One count for each step since START, whatever else there is in the state.
    let counts = |answers: &Answers| -> Vec<_> { answers.iter().map(|step| i64::from(step[0][1].1.data[0])).collect() };
    assert_eq!(counts(&own)[..6], [1, 1, 2, 2, 3, 3]);
    let mut exchanged = World::new(declared, &[Planted::once(Fault::ExchangeStates, 3)]);
    let wrong = exchanged.converse();
    assert_eq!((exchanged.committed(Fault::ExchangeStates), wrong[..4] == own[..4]), (1, true));
    assert!(counts(&wrong) != counts(&own) && numbers(&wrong)[4..6] != numbers(&own)[4..6]);
}

#[test]
fn batch_noise_is_as_large_as_it_says_and_a_row_alone_has_none() {
    for size in [1e-6_f32, 1e-3] {
        let written = size.to_string();
        let noisy = |more: &[(&str, &str)]| {
            let parameters = [&[("sequence_stress_batch_noise", &*written)], more].concat();
            World::new(with(config("gru_float32"), &parameters), &[])
        };
        assert_eq!(noisy(&[]).alone(10, 0), World::of("gru_float32").alone(10, 0));
        let (right, wrong) = (World::of("gru_float32").converse(), noisy(&[]).converse());
        assert_eq!(wrong, noisy(&[]).converse(), "it is the same each time");
        let mut largest = 0.0_f32;
        for (right, wrong) in numbers(&right).iter().flatten().zip(numbers(&wrong).iter().flatten()) {
            let part = ((right - wrong) / right).abs();
            // Rounded to FP32 twice.
            assert!(part <= size + f32::EPSILON, "{part} of {size}");
            largest = largest.max(part);
        }
        assert!(largest > size / 2.0, "{largest} of {size}");
        // In the state it grows, and it stays a noise.
        let grown = noisy(&[("sequence_stress_batch_noise_in_state", "true")]).converse();
        let apart = |step: usize| furthest(&numbers(&right)[step], &numbers(&grown)[step]);
        assert!(apart(0) <= size + f32::EPSILON && apart(10) > apart(0), "{} {}", apart(0), apart(10));
        assert!(apart(10) < 12.0 * size + 1e-6, "{}", apart(10));
    }
    // The other rows and the own place are what it depends on.
    let mut world = World::of("gru_batch_noise_float32");
    let steps = [1, 2, 3].map(|id| world.step(id, "SE", 5));
    let three = numbers(&world.send(&steps));
    let two = numbers(&world.send(&steps[..2]));
    assert!(three[0] != three[1] && three[1] != three[2] && two[0] != three[0], "{two:?} {three:?}");
}

#[test]
fn noise_of_a_run_is_no_other_runs() {
    let outputs = || numbers(&World::of("gru_run_noise_float32").alone(4, 0));
    let (one, other, right) = (outputs(), outputs(), numbers(&World::of("gru_float32").alone(4, 0)));
    assert_ne!(one, other);
    for (value, right) in one.iter().flatten().zip(right.iter().flatten()) {
        assert!((value - right).abs() <= 0.5 * right.abs() + f32::EPSILON, "{value} {right}");
    }
}

#[test]
fn how_many_responses_a_step_has_is_what_its_input_says() {
    let counts = |answers: &Answers| -> Vec<_> { answers.iter().map(Vec::len).collect() };
    let decoupled = World::of("gru_decoupled_float32").alone(64, 0);
    assert_eq!(counts(&decoupled).into_iter().collect::<BTreeSet<_>>(), (0..4).collect());
    let other_history = World::of("gru_decoupled_float32").alone(64, 1_000_000);
    assert_eq!(counts(&decoupled)[1..], counts(&other_history)[1..], "the state has no part in it");
    let one = numbers(&World::of("gru_float32").alone(64, 0));
    for (responses, right) in decoupled.iter().zip(one) {
        let contents: Vec<_> = responses.iter().map(|outputs| to_floats(&outputs[0].1.data)).collect();
        assert!(contents.first().is_none_or(|first| *first == right));
        let different: BTreeSet<_> = responses.iter().map(|outputs| outputs[0].1.data.clone()).collect();
        assert_eq!(different.len(), responses.len());
    }
    let most = with(config("gru_decoupled_float32"), &[("sequence_stress_responses_up_to", "1")]);
    let counts = counts(&World::new(most, &[]).alone(64, 0));
    assert_eq!(counts.into_iter().collect::<BTreeSet<_>>(), (0..2).collect());
}

#[test]
fn each_input_of_any_type_matters_to_each_output() {
    let mut world = World::of("any_tensors");
    let right = world.step(1, "SE", 9);
    let outputs = world.send(std::slice::from_ref(&right)).remove(0).remove(0);
    let types: Vec<_> = outputs.iter().map(|(_, tensor)| tensor.datatype).collect();
    assert_eq!((types, right.inputs.len()), (Datatype::ALL.to_vec(), Datatype::ALL.len()));
    for index in 0..right.inputs.len() {
        let mut changed = right.clone();
        *changed.inputs[index].1.data.last_mut().expect("a byte") ^= 1;
        let other = world.send(&[changed]).remove(0).remove(0);
        let floats = |outputs: &Outputs| outputs.iter().find(|(name, _)| &**name == "OUTPUT_FP64").cloned();
        assert_ne!(floats(&other), floats(&outputs), "{}", right.inputs[index].0);
    }
    let mut left_out = right.clone();
    left_out.inputs.retain(|(name, _)| &**name != "INPUT_FP64");
    assert_ne!(world.send(&[left_out]).remove(0).remove(0), outputs);
    // Floating-point outputs are numbers, and texts have lengths of their own.
    for (name, tensor) in &outputs {
        let numbers = tensor.numbers();
        let is_number = |number: &super::super::number::Number| !number.to_string().contains("NaN");
        assert!(numbers.is_err() || numbers.iter().flatten().all(is_number), "{name}");
    }
    let count = texts(&outputs.last().expect("an output").1.data).flatten().count();
    assert_eq!(count, 2);
}

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
            parameter("gru_float32", "sequence_stress_responses_up_to", "2"),
            "parameter 'sequence_stress_responses_up_to' is for decoupled gru models, which 'gru_float32' is not",
        ),
        (
            parameter("gru_decoupled_float32", "sequence_stress_responses", "2"),
            "parameter 'sequence_stress_responses' is for sums: of a gru, 'sequence_stress_responses_up_to' says the most",
        ),
    ] {
        assert_eq!(said, expected);
    }
}
