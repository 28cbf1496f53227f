//! The models without a formula in virtual time: scheduler, execution and model as they are.

mod faults;
mod noise;
mod rejected;
mod several_states;

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
                    version: crate::FIRST_VERSION,
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
    for model in models_without_formula().iter().filter(|model| !model.contains("noise") && !model.contains("ensemble"))
    {
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
