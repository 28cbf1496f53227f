//! Models without a formula: what they answer is found out on an idle server, and runs are judged by it.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use crate::support::{
    runs::{block_on, reference_server, run_alone, scenario},
    tool::{text as text_of, told, tool},
};
use oracle::{
    Evidence, ViolationKind,
    diagnosis::Cause,
    golden::{Compare, EndEffect, FaultKind, Golden, Lineage, Misfit},
};
use reference::{ModelOptions, Planted, Server};
use sequence_stress::{
    golden::{Asked, Subject},
    preflight::Hints,
    report::{Summary, Verdict},
    run::{RunError, RunResult, Setup},
};
use wire::simulation::Simulation;
use workload::{
    conversation::Transport,
    inputs::{
        ElementType, Options,
        recording::{Header, Input, Request},
    },
    scenario::Scenario,
    seed::Seed,
};

const SCENARIO: &str = "
contexts = { common = 2, rare = 0, rare_probability = 0 }
limits = { lost_after_ms = 1000, step_ms = 2, settle_ms = 300, quiet_ms = 20, drain_ms = 1000, connect_ms = 2000 }
length = { min = 3, max = 8, uniform = { min = 3, max = 8 } }
claims = {}
";
const PATTERNS: &str = "patterns.common = { valid = 5, valid-valid = 2, valid-no-end = 1, no-end = 1 }";
const GRU: &str = "gru_float32";

fn server(fault: Option<&str>) -> Server {
    let models = ModelOptions {
        instances: 1,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_secs(1),
        execution: Duration::from_millis(1),
        ..ModelOptions::default()
    };
    let faults: Vec<_> = fault.map(|fault| fault.parse::<Planted>().expect("a fault")).into_iter().collect();
    reference_server(models, &faults)
}

fn on(server: &Server, model: &str, more: &str) -> Scenario {
    let load = if more.contains("load.") { "" } else { "load = { workers = 4, iterations = 12 }\n" };
    let patterns = if more.contains("patterns.common") { "" } else { PATTERNS };
    scenario(&format!(
        "{load}{SCENARIO}{patterns}\n{more}\ntarget.endpoint = ['{}', 'http://{}']\ntarget.model = '{model}'",
        server.address, server.http
    ))
}

fn asked() -> Asked {
    let count = |count| NonZeroUsize::new(count);
    let options = Options {
        batches: false,
        model: None,
        optional: Vec::new(),
        shapes: ["INPUT_FP32:3".parse().expect("a shape")].into(),
        ranges: Vec::new(),
        tracks: count(8),
        steps: count(8),
        seed: Seed(0),
    };
    Asked { inputs: None, options, compare: Vec::new() }
}

fn asked_of(model: &str) -> Asked {
    let mut asked = asked();
    if model != "any_tensors" {
        asked.options.shapes.clear();
    }
    asked
}

fn calibrated(server: &Server, model: &str, asked: &Asked) -> Result<Golden, RunError> {
    let scenario = on(server, model, "");
    block_on(async { Subject::new(scenario, Hints::default(), asked).await?.calibrate(&mut |_| ()).await })
}

/// What a golden file is when it was written and read.
fn read_again(golden: &Golden) -> Golden {
    let mut bytes = Vec::new();
    golden.write_to(&mut bytes).expect("there is room");
    Golden::read_from(&*bytes, bytes.len() as u64).expect("it was written here")
}

/// A run on a server with this fault, judged by what one without answers.
fn judged(model: &str, fault: Option<&str>, more: &str) -> RunResult {
    let _simulation = Simulation::begin();
    let golden = calibrated(&server(None), model, &asked_of(model)).expect("it can be calibrated");
    run_by(Arc::new(golden), &server(fault), model, more).expect("it can be tested")
}

fn run_by(golden: Arc<Golden>, server: &Server, model: &str, more: &str) -> Result<RunResult, RunError> {
    let setup = Setup { embedded: true, golden: Some(golden), ..Setup::new(on(server, model, more), Seed(1)) };
    run_alone(setup)
}

#[test]
fn a_correct_server_is_not_accused_whatever_the_model_computes() {
    for model in [
        GRU,
        "gru_oldest_float32",
        "gru_implicit_float32",
        "gru_decoupled_float32",
        "gru_batch_noise_float32",
        "two_state_float32",
        "two_state_implicit_float32",
        "any_tensors",
    ] {
        for window in ["1", "'all'"] {
            let result = judged(model, None, &format!("sending.window = {window}"));
            assert_eq!(result.violations, [], "{model} {window}");
            let total = result.tally.total();
            assert!(total.unjudged * 20 < total.answered() && total.completed > 200, "{model} {window}: {total:?}");
        }
    }
}

#[test]
fn a_model_whose_answer_to_end_is_another_is_judged_by_what_was_measured_with_end() {
    let (negated, corrid) = ("gru_negated_at_end_float32", "gru_corrid_at_end_float32");
    for (model, effect) in
        [(GRU, EndEffect::Nothing), (negated, EndEffect::Changes), (corrid, EndEffect::NotRepeatable)]
    {
        let _simulation = Simulation::begin();
        let golden = calibrated(&server(None), model, &asked_of(model)).expect("it can be calibrated");
        assert_eq!((golden.facts.at_end, golden.ended_steps() > 0), (effect, model == negated), "{model}");
        let golden = Arc::new(golden);
        let result = run_by(Arc::clone(&golden), &server(None), model, "").expect("it can be tested");
        let (total, ends) = (result.tally.total(), result.tally.total().completed / 10);
        assert_eq!(result.violations, [], "{model}");
        assert_eq!(total.unjudged > ends, model == corrid, "{model}: {total:?}");
        let result = run_by(golden, &server(Some("skip-step")), model, "sending.window = 1");
        assert!(!result.expect("it can be tested").violations.is_empty(), "{model}");
    }
    for (fault, cause) in [("end-missing:once@5", Cause::EndNotTold), ("end-spurious:once@5", Cause::EndTold)] {
        let result = judged(negated, Some(fault), "sending.window = 1");
        let first = result.violations.first().unwrap_or_else(|| panic!("{fault}: nothing was found"));
        let its = first.explanations.first().map(|explanation| explanation.cause);
        assert_eq!((first.kind, its), (ViolationKind::WrongOutput, Some(cause)), "{fault}: {first:#?}");
        assert_eq!(result.violations.len(), 1, "{fault}: {:#?}", result.violations);
    }
}

#[test]
fn the_same_steps_have_the_same_outputs_where_nothing_was_measured() {
    let blind = |rule: Option<Compare>| {
        let compare = rule.map(|rule| ("OUTPUT".to_owned(), rule)).into_iter().collect();
        let asked = Asked { compare, ..asked_of(GRU) };
        move |server: &Server, model: &str| {
            let subject = block_on(Subject::new(on(server, model, ""), Hints::default(), &asked));
            subject.expect("a subject").blind()
        }
    };
    let run = |rule, fault, model| {
        let _simulation = Simulation::begin();
        let golden = blind(rule)(&server(None), model);
        run_by(golden, &server(fault), model, "sending.window = 1\nload.iterations = 30").expect("it can be tested")
    };
    // A correct server; where the model is not exact, neither may the rule be.
    let noise = "gru_batch_noise_float32";
    for (rule, model) in [(None, GRU), (Some(Compare::Exact), GRU), (Some(Compare::Atol(1e-4)), noise)] {
        let result = run(rule, None, model);
        let repeated = result.preflight.golden.as_ref().expect("it is there").relations.repeated();
        assert_eq!((result.violations, result.tally.total().unjudged), (vec![], 0), "{rule:?} {model}");
        assert!(repeated.compared > 200 && (repeated.equal == repeated.compared) == (model == GRU), "{repeated:?}");
    }
    // Without a rule nothing is judged.
    assert_eq!(run(None, Some("reset-state:once@60"), GRU).violations, []);
    // Whichever of two answers came first: the wrong one is accused.
    let mut is_first = Vec::new();
    for (fault, cause) in [
        ("reset-state:once@2", Cause::StateReset),
        ("reset-state:once@90", Cause::StateReset),
        ("execute-twice:once@3", Cause::ExecutedTwice),
        ("skip-step:once@120", Cause::NotExecuted),
    ] {
        let result = run(Some(Compare::Exact), Some(fault), GRU);
        let first = result.violations.first().unwrap_or_else(|| panic!("{fault}: nothing was found"));
        let its = first.explanations.first().map(|explanation| explanation.cause);
        assert_eq!((first.kind, its), (ViolationKind::WrongOutput, Some(cause)), "{fault}: {first:#?}");
        let Evidence::Output { like: Some(like), .. } = &first.evidence else { panic!("{fault}: {first:?}") };
        is_first.push(first.at_ns < like.at_ns);
    }
    is_first.sort_unstable();
    assert_eq!((is_first[0], is_first[3]), (false, true), "both are had: {is_first:?}");
}

#[test]
fn steps_behind_those_that_were_measured_are_compared_with_each_other() {
    let _simulation = Simulation::begin();
    let mut asked = asked_of(GRU);
    asked.options.steps = NonZeroUsize::new(4);
    let golden = Arc::new(calibrated(&server(None), GRU, &asked).expect("it can be calibrated"));
    let more = "sending.window = 1\nload.iterations = 60\nload.workers = 4";
    let run = |fault: Option<&str>| run_by(Arc::clone(&golden), &server(fault), GRU, more).expect("it can be tested");
    let result = run(None);
    let (total, repeated) = (result.tally.total(), golden.inputs.tracks().len() as u64 * 4);
    // At most the first answer to each of these states is unjudged.
    assert_eq!(result.violations, []);
    assert!(total.unjudged > 0 && total.unjudged <= repeated, "{total:?}");
    // Most of these happen where nothing was measured, and end in a state that was.
    for chance in (200..=300).step_by(10) {
        let fault = format!("reset-state:once@{chance}");
        let found = run(Some(&fault)).violations;
        assert_eq!(found.first().map(|violation| violation.kind), Some(ViolationKind::WrongOutput), "{fault}");
    }
}

#[test]
fn what_several_streams_and_cuts_leave_behind_accuses_nobody() {
    const ORDER: &str = "patterns.common = { concurrent = 3, continue-elsewhere = 1, valid = 1, after-end = 1 }";
    const CUTS: &str = "patterns.common = { valid = 2, cancel-queued = 1, cancel-executing = 1, cancel-restart = 1, restart-elsewhere = 1 }";
    const OTHERS: &str = "patterns.common = { valid = 1, malformed = 2, end-twice = 1, burst = 1, shared-id = 1, reset = 1, half-close = 1 }";
    for model in [GRU, "gru_implicit_float32", "gru_oldest_float32"] {
        for patterns in [ORDER, CUTS, OTHERS] {
            let result = judged(model, None, &format!("load.iterations = 40\nload.workers = 4\n{patterns}"));
            assert_eq!(result.violations, [], "{model} {patterns}");
            assert!(result.tally.total().unjudged < result.tally.total().answered(), "{model} {patterns}");
        }
    }
}

#[test]
fn tensors_go_over_every_transport_that_has_a_form_for_them() {
    for (model, by) in [
        (GRU, Transport::GrpcUnary),
        (GRU, Transport::Http),
        (GRU, Transport::HttpBinary),
        ("two_state_float32", Transport::Http),
        ("any_tensors", Transport::GrpcUnary),
        ("any_tensors", Transport::HttpBinary),
    ] {
        let result =
            judged(model, None, &format!("sending.transport = '{by}'\nvalues.elements = {{ min = 1, max = 4 }}"));
        let total = result.tally.total();
        assert_eq!((result.violations, total.unjudged), (vec![], 0), "{model} {by}");
        assert!(total.completed > 200, "{model} {by}: {total:?}");
    }
    let _simulation = Simulation::begin();
    let server = server(None);
    let golden = calibrated(&server, "any_tensors", &asked()).expect("it can be calibrated");
    let json = run_by(Arc::new(golden), &server, "any_tensors", "sending.transport = 'http'");
    let why = json.expect_err("JSON has no halves").to_string();
    assert!(
        why.contains("takes INPUT_") && why.contains("which HTTP has as bytes alone: --transport http-binary"),
        "{why}"
    );
}

#[test]
fn a_fault_in_the_state_is_found_and_named_by_what_the_idle_server_answers() {
    let one_by_one = "sending.window = 1";
    for (fault, causes) in [
        ("off-by-one:once@30", &[Cause::WrongArithmetic][..]),
        ("reset-state:once@30", &[Cause::StateReset]),
        ("skip-step:once@30", &[Cause::NotExecuted]),
        ("execute-twice:once@30", &[Cause::ExecutedTwice]),
        ("swap-states:once@5", &[Cause::SwappedStates]),
        ("keep-state:once@5", &[Cause::StaleStateOfSlot, Cause::StaleStateOfId, Cause::StartNotTold]),
        ("stale-state:once@5", &[Cause::StaleStateOfId]),
    ] {
        let result = judged(GRU, Some(fault), one_by_one);
        let first = result.violations.first().unwrap_or_else(|| panic!("{fault}: nothing was found"));
        assert_eq!(first.kind, ViolationKind::WrongOutput, "{fault}: {first:?}");
        let cause = first.explanations.first().map(|explanation| explanation.cause);
        assert!(cause.is_some_and(|cause| causes.contains(&cause)), "{fault}: {cause:?}, {first:#?}");
    }
}

#[test]
fn two_states_that_the_server_exchanges_are_found() {
    for model in ["two_state_float32", "two_state_implicit_float32"] {
        let result = judged(model, Some("exchange-states:once@20"), "sending.window = 1");
        let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| *kind == ViolationKind::WrongOutput),
            "{model}: {kinds:?}"
        );
    }
}

#[test]
fn faults_beside_the_state_have_the_names_that_they_have_for_a_running_sum() {
    for (fault, kind) in [
        ("swap-responses:once@30", ViolationKind::Reordered),
        ("duplicate-response:once@30", ViolationKind::Duplicate),
        ("wrong-output-name:once@30", ViolationKind::WrongOutputName),
        ("empty-response:once@30", ViolationKind::WrongOutputName),
        ("wrong-output-type:once@30", ViolationKind::WrongOutputType),
        ("accept-no-start:once@1", ViolationKind::MissingStartError),
    ] {
        let Ok(_) = fault.parse::<Planted>() else { panic!("{fault} is no fault") };
        let result = judged(GRU, Some(fault), "patterns.common = { valid = 4, no-start = 1, valid-no-end = 1 }");
        assert!(result.violations.iter().any(|violation| violation.kind == kind), "{fault}: {:#?}", result.violations);
    }
}

#[test]
fn a_calibration_says_how_exactly_a_model_answers_and_what_its_outputs_show() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let golden = calibrated(&server, GRU, &asked_of(GRU)).expect("it can be calibrated");
    assert_eq!((golden.outputs[0].tolerance(1).to_string(), golden.steps()), ("0".to_owned(), 8));
    assert!(golden.facts.fingerprints.are_enough(), "{:?}", golden.facts);
    assert_eq!(golden.facts.visible.len(), FaultKind::ALL.len());
    assert!(golden.facts.visible.iter().all(|fault| fault.from_step.is_some()), "{:?}", golden.facts.visible);

    let noisy = calibrated(&server, "gru_batch_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    let tolerance = noisy.outputs[0].tolerance(8);
    assert!(tolerance > 1e-8 && tolerance < 1e-4 && noisy.judges(), "{tolerance:e} {:?}", noisy.facts.noise);
    assert!(noisy.facts.noise[0].batch > noisy.facts.noise[0].run, "{:?}", noisy.facts.noise);

    let unstable = calibrated(&server, "gru_run_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    assert!(!unstable.judges() && unstable.facts.noise[0].run > 0.01, "{:?}", unstable.facts.noise);
}

#[test]
fn a_model_whose_outputs_are_noise_and_one_of_which_nothing_is_expected_are_judged_by_all_else() {
    let _simulation = Simulation::begin();
    let sound = server(None);
    let noise = calibrated(&sound, "gru_run_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    let blind =
        block_on(Subject::new(on(&sound, GRU, ""), Hints::default(), &asked_of(GRU))).expect("a subject").blind();
    for (golden, model) in [(Arc::new(noise), "gru_run_noise_float32"), (blind, GRU)] {
        let result = run_by(Arc::clone(&golden), &sound, model, "").expect("it can be tested");
        assert_eq!((result.violations, result.tally.total().unjudged), (vec![], 0), "{model}");
        let faulty = server(Some("duplicate-response:once@30"));
        let result = run_by(golden, &faulty, model, "").expect("it can be tested");
        assert!(result.tally.violations.contains_key(&ViolationKind::Duplicate), "{model}: {:?}", result.violations);
    }
}

#[test]
fn a_run_whose_outputs_tell_nothing_is_not_called_valid() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let compare = vec![("OUTPUT".to_owned(), Compare::Atol(100.0))];
    let alike = calibrated(&server, GRU, &Asked { compare, ..asked_of(GRU) }).expect("it can be calibrated");
    assert!(!alike.facts.fingerprints.are_enough(), "{:?}", alike.facts);
    assert!(alike.facts.visible.iter().all(|fault| fault.from_step.is_none()), "{:?}", alike.facts.visible);
    let noise = "gru_run_noise_float32";
    let not_judged = calibrated(&server, noise, &asked_of(noise)).expect("it can be calibrated");
    for (golden, model) in [(alike, GRU), (not_judged, noise)] {
        let scenario = on(&server, model, "");
        let setup = Setup { embedded: true, golden: Some(Arc::new(golden)), ..Setup::new(scenario.clone(), Seed(1)) };
        let result = run_alone(setup).expect("it can be tested");
        let (scenario_name, replay) = (String::new(), String::new());
        let summary = Summary { scenario, scenario_name, seed: Seed(1), replay, embedded: None, result };
        assert_eq!((summary.verdict(), summary.exit_code()), (Verdict::Unknown, 3), "{model}");
    }
}

#[test]
fn outputs_are_compared_by_the_rule_that_is_asked_for() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let with = |rules: &[(&str, Compare)]| {
        let compare = rules.iter().map(|(output, rule)| ((*output).to_owned(), *rule)).collect();
        calibrated(&server, "two_state_float32", &Asked { compare, ..asked_of(GRU) })
    };
    let golden = with(&[("OUTPUT", Compare::Rtol(1e-3)), ("LABEL", Compare::Ignore)]).expect("it can be calibrated");
    let asked: Vec<_> = golden.asked().collect();
    assert_eq!((asked.as_slice(), golden.outputs[0].compare), (&["OUTPUT", "COUNT"][..], Compare::Rtol(1e-3)));
    let result = run_by(Arc::new(golden), &server, "two_state_float32", "").expect("it can be tested");
    assert_eq!(result.violations, []);
    let why = with(&[("NONE", Compare::Exact)]).expect_err("there is no such output").to_string();
    assert_eq!(why, "--compare names 'NONE', and the model has the outputs OUTPUT, COUNT, LABEL");
}

#[test]
fn a_golden_file_of_another_model_or_configuration_is_rejected_by_name() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let golden = Arc::new(calibrated(&server, GRU, &asked_of(GRU)).expect("it can be calibrated"));
    let other = run_by(Arc::clone(&golden), &server, "gru_oldest_float32", "").expect_err("another model").to_string();
    assert!(other.starts_with("the golden file is of model 'gru_float32', and the run is of model"), "{other}");
    let slower = ModelOptions { max_batch_size: 2, ..ModelOptions::default() };
    let other = run_by(Arc::clone(&golden), &reference_server(slower, &[]), GRU, "").expect_err("other").to_string();
    assert!(
        other.starts_with("the golden file is of one configuration of model 'gru_float32', and the server has"),
        "{other}"
    );
    // What is read from its file judges as what was made.
    assert_eq!(run_by(Arc::new(read_again(&golden)), &server, GRU, "").expect("it can be tested").violations, []);
}

#[test]
fn what_was_recorded_is_sent_at_so_many_times_its_pace() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traffic.jsonl");
    let mut lines = serde_json::to_string(&Header::new(Some(GRU.to_owned()))).expect("JSON");
    for step in 0_u8..8 {
        let number = f32::from(step) / 8.0 - 0.4;
        let data = [number; 16].iter().flat_map(|number| number.to_le_bytes()).collect();
        let (name, datatype) = ("INPUT".to_owned(), ElementType::Fp32);
        let inputs = vec![Input { name, datatype, shape: vec![1, 16], data }];
        let (us, start, end) = (u64::from(step) * 40_000, step == 0, step == 7);
        let request = Request { us, sequence: 1, start, end, inputs, ..Request::default() };
        lines += "\n";
        lines += &serde_json::to_string(&request).expect("JSON");
    }
    std::fs::write(&path, lines + "\n").expect("a file");
    let golden =
        calibrated(&server, GRU, &Asked { inputs: Some(path), ..asked_of(GRU) }).expect("it can be calibrated");
    // What is read from its file has the pauses, too.
    let golden = Arc::new(read_again(&golden));
    let run = |golden: &Arc<Golden>, pace| {
        let more = "patterns.common = { valid = 1 }\nload.workers = 1\nload.iterations = 8";
        let scenario = on(&server, GRU, more);
        run_alone(Setup { embedded: true, golden: Some(Arc::clone(golden)), pace, ..Setup::new(scenario, Seed(1)) })
    };
    let took = |pace| {
        let result = run(&golden, pace).expect("it can be tested");
        let total = result.tally.total();
        assert_eq!((result.violations, total.unjudged), (vec![], 0), "{pace:?}");
        // Eight sequences, one after the other, have a pause before each step but the first.
        (result.elapsed.as_millis(), u128::from(total.completed - 8) * 40)
    };
    let [(once, recorded), (twice, again), (at_once, _)] = [Some(1.0), Some(2.0), None].map(took);
    assert!(recorded > 8 * 2 * 40 && recorded == again, "{recorded}");
    assert!(once >= recorded && twice >= recorded / 2 && twice < recorded, "{once} and {twice} of {recorded} ms");
    assert!(at_once < recorded / 2, "{at_once} of {recorded} ms");
    let drawn = Arc::new(calibrated(&server, GRU, &asked_of(GRU)).expect("it can be calibrated"));
    let why = run(&drawn, Some(1.0)).expect_err("they have no times").to_string();
    assert!(why.starts_with("--pace: no track of the golden file has recorded times: calibrate with"), "{why}");
}

#[test]
fn tracks_whose_states_look_like_others_are_left_out() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("inputs.json");
    let step = |value: f32| serde_json::json!({ "INPUT": vec![value; 16] });
    // The second is nearly the first, and the third has nothing but nothing.
    let tracks = [vec![0.5, -0.25, 0.75], vec![0.500_001, -0.25, 0.75], vec![0.0; 3], vec![-0.5, 0.5, 0.1]];
    let data: Vec<Vec<_>> = tracks.iter().map(|track| track.iter().copied().map(step).collect()).collect();
    std::fs::write(&path, serde_json::json!({ "data": data }).to_string()).expect("a file");
    let compare = vec![("OUTPUT".to_owned(), Compare::Atol(1e-3))];
    let mut asked = Asked { inputs: Some(path), compare, ..asked_of(GRU) };
    (asked.options.tracks, asked.options.steps) = (None, NonZeroUsize::new(3));
    let golden = calibrated(&server, GRU, &asked).expect("it can be calibrated");
    let names: Vec<_> = golden.inputs.tracks().iter().map(|track| track.name.as_str()).collect();
    assert_eq!((names.as_slice(), golden.facts.left_out), (&["sequence 1", "sequence 4"][..], 2));
    assert!(golden.facts.fingerprints.are_enough(), "{:?}", golden.facts);
    assert_eq!(run_by(Arc::new(golden), &server, GRU, "").expect("it can be tested").violations, []);
}

#[test]
fn a_verification_says_which_states_differ() {
    let _simulation = Simulation::begin();
    let sound = server(None);
    let golden = Arc::new(calibrated(&sound, GRU, &asked_of(GRU)).expect("it can be calibrated"));
    let verified = |server: &Server| {
        let scenario = on(server, GRU, "");
        let verified = async { Subject::of(scenario, Hints::default(), &golden)?.verify(&golden, usize::MAX).await };
        block_on(verified).expect("it can be asked")
    };
    assert_eq!(verified(&sound), (64, vec![]));
    let (compared, differ) = verified(&server(Some("off-by-one:once@10")));
    assert_eq!((compared, differ.len()), (64, 1));
    assert_eq!(differ[0].0.lineage, Some(Lineage::Track { track: 1, steps: 1 }));
}

#[test]
fn a_wrong_output_says_what_was_expected_and_how_far_it_is_off() {
    let result = judged(GRU, Some("off-by-one:once@30"), "");
    let [violation] = &result.violations[..] else { panic!("{:#?}", result.violations) };
    let Evidence::Output { expected, seen: None, misfit: Some(misfit), .. } = &violation.evidence else {
        panic!("{violation:?}")
    };
    let Misfit::Output(deviation) = &**misfit else { panic!("{violation:?}") };
    assert_eq!((expected.len(), deviation.output.as_str()), (1, "OUTPUT"));
    let words = sequence_stress::report::describe(violation);
    assert!(words.contains("expected the outputs of step ") && words.contains("off, tolerance 0.0e0"), "{words}");
}

#[test]
fn each_command_takes_the_golden_file_and_says_where_it_needs_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (golden, failure, history) = (path("gru.golden"), path("failure.toml"), path("history.jsonl"));
    let server = ["--embedded", "-m", GRU, "--execution-time", "1ms"];
    let told_by = |arguments: &[&[&str]]| told(&arguments.concat());
    let (code, text) = told_by(&[&["golden"], &server, &["--tracks", "4", "--steps", "32", "-o", &golden]]);
    assert!(code == Some(0) && text.contains("6 of 6 kinds of fault are visible on this model"), "{text}");
    let (code, text) = told_by(&[&["golden", "verify", &golden], &server]);
    assert!(code == Some(0) && text.contains("the same: 128 responses alone on the server"), "{text}");

    for made in ["calibrated", "cached"] {
        let auto = ["--golden", "auto", "--tracks", "4", "--steps", "32", "-i", "6", "-r", "7"];
        let output =
            tool().args(server).args(auto).env("SEQUENCE_STRESS_CACHE", folder.path()).output().expect("it runs");
        let text = text_of(&output);
        assert!(output.status.success() && text.contains("kinds of fault") == (made == "calibrated"), "{made}: {text}");
    }

    // The file says which model it is of.
    let server = ["--embedded", "--execution-time", "1ms"];
    let run = ["-i", "12", "-r", "7", "--fault", "skip-step:once@40", "--golden", &golden];
    let files = ["--failure", &failure, "--history", &history, "--history-keep", "all"];
    let (code, text) = told_by(&[&server, &run, &files]);
    assert!(code == Some(1) && text.contains("wrong-output, cause not-executed: 1 violation"), "{text}");
    for (command, file) in [("replay", &failure), ("check", &history)] {
        let (code, text) = told(&[command, file]);
        assert!(code == Some(2) && text.contains("--golden FILE"), "{command}: {text}");
        let (code, text) = told(&[command, file, "--golden", &golden]);
        assert!(code == Some(1) && text.contains("wrong-output"), "{command}: {text}");
    }
    let (code, text) = told(&["export", &failure]);
    assert!(code == Some(2) && text.contains("(--golden FILE)"), "{text}");
    let (code, script) = told(&["export", &failure, "--golden", &golden]);
    let expected = "expect=\"the outputs of step 2 of 'random ";
    assert!(code == Some(0) && script.contains(expected) && script.contains("\nSTEPS = {\n"), "{script}");
    // That of another model is of no use, and neither is that of other inputs.
    let others = [
        (["-m", GRU, "--inputs-seed", "9"], "it is of other inputs"),
        (
            ["-m", "gru_oldest_float32", "--inputs-seed", "0"],
            "is of model 'gru_oldest_float32', and the failure of model",
        ),
    ];
    for (of, why) in others {
        let other = path("other.golden");
        let tracks = ["--embedded", "--execution-time", "1ms", "--tracks", "2", "--steps", "4", "-o", &other];
        let (code, text) = told_by(&[&["golden"], &tracks, &of]);
        assert_eq!(code, Some(0), "{text}");
        for command in ["replay", "export"] {
            let (code, text) = told(&[command, &failure, "--golden", &other]);
            assert!(code == Some(2) && text.contains(why) && text.contains("--golden FILE"), "{command}: {text}");
        }
    }

    // Where nothing is expected of outputs, the history says so, and needs no golden file.
    let blind = ["--embedded", "-m", GRU, "--execution-time", "1ms", "--expect", "none", "-i", "6", "-r", "7"];
    let (code, text) = told_by(&[&blind, &["--history", &history, "--history-keep", "all"]]);
    assert!(code == Some(0) && text.contains("later responses to the same steps"), "{text}");
    let (code, text) = told(&["check", &history]);
    assert!(code == Some(0) && text.contains("VALID"), "{text}");
    let (code, text) = told(&["check", &history, "--golden", &golden]);
    assert!(code == Some(2) && text.contains("has other inputs than the run had"), "{text}");

    // What was changed or cut short is not used.
    let mut bytes = std::fs::read(&golden).expect("a file");
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&golden, bytes).expect("a file");
    let (code, text) = told_by(&[&server, &run]);
    assert!(code == Some(2) && text.contains("its checksum does not fit"), "{text}");
}
