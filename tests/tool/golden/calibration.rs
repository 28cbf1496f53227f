//! What a calibration finds out, and what files keep of it.

use super::*;

#[test]
fn a_calibration_says_how_exactly_a_model_answers_and_what_its_outputs_show() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let golden = calibrated(&server, GRU, &asked_of(GRU)).expect("it can be calibrated");
    assert_eq!((golden.outputs[0].tolerance(1).to_string(), golden.steps()), ("0".to_owned(), 8));
    assert!(golden.facts.fingerprints.are_enough(), "{:?}", golden.facts);
    assert_eq!(golden.facts.visible.len(), FaultKind::ALL.len());
    assert!(golden.facts.visible.iter().all(|fault| fault.from_step.is_some()), "{:?}", golden.facts.visible);

    let mut phases = Vec::new();
    let scenario = on(&server, GRU, "");
    let again = async {
        let subject = Subject::new(scenario, Hints::default(), &asked_of(GRU)).await?;
        subject.calibrate(&mut |phase| phases.push(phase)).await
    };
    assert!(block_on(again).expect("it can be calibrated").is_enough());
    assert!(phases.iter().all(|phase| phase.done < phase.of), "{phases:?}");
    phases.dedup_by_key(|phase| phase.what);
    let phases: Vec<_> = phases.iter().map(|phase| phase.what).collect();
    let alone = ["each track alone", "full batches of one track", "tracks beside others"];
    assert_eq!(phases, [&alone[..], &["beginnings of tracks with END", "faults on purpose"]].concat());

    let noisy = calibrated(&server, "gru_batch_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    let tolerance = noisy.outputs[0].tolerance(8);
    assert!(tolerance > 1e-8 && tolerance < 1e-4 && noisy.judges(), "{tolerance:e} {:?}", noisy.facts.noise);
    assert!(noisy.facts.noise[0].batch > noisy.facts.noise[0].run, "{:?}", noisy.facts.noise);

    let unstable = calibrated(&server, "gru_run_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    assert!(!unstable.judges() && unstable.facts.noise[0].run > 0.01, "{:?}", unstable.facts.noise);
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
        other.starts_with("the golden file is of one configuration of model 'gru_float32', and the server has")
            && other.contains("in another one: 'max_batch_size: 2' in place of 'max_batch_size: 4': calibrate anew"),
        "{other}"
    );
    // What is read from its file judges as what was made.
    assert_eq!(run_by(Arc::new(read_again(&golden)), &server, GRU, "").expect("it can be tested").violations, []);
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
fn an_output_that_depends_on_the_correlation_id_is_not_judged() {
    const TOLD_IDS: &str = "custom_nobatch_dyna_sequence_int32";
    let _simulation = Simulation::begin();
    // It has one slot, so nothing else shows that the ID makes a difference.
    let server = server(None);
    let golden = calibrated(&server, TOLD_IDS, &asked_of(SUM)).expect("it can be calibrated");
    let judged: Vec<_> = golden.outputs.iter().map(|output| (output.spec.name.as_str(), output.is_judged())).collect();
    assert_eq!(judged, [("OUTPUT", true), ("SEEN", false)]);
    let noise = &golden.facts.noise;
    assert!(!noise[0].is_of_ids() && noise[1].is_of_ids() && noise[1].run == 0.0, "{noise:?}");
    assert_eq!(run_by(Arc::new(golden), &server, TOLD_IDS, "").expect("it can be tested").violations, []);
}

#[test]
fn a_golden_file_with_tensors_that_the_model_does_not_have_is_rejected() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let golden = calibrated(&server, GRU, &asked_of(GRU)).expect("it can be calibrated");
    let mut outputs = golden.outputs.clone();
    outputs[0].spec.name = "OTHER".into();
    let (identity, inputs) = (golden.identity.clone(), Arc::clone(&golden.inputs));
    let other = Golden::new(identity, inputs, outputs, golden.facts.clone(), []);
    let why = run_by(Arc::new(other), &server, GRU, "").expect_err("it has no such output").to_string();
    assert!(why.starts_with("the golden file has the output 'OTHER', and model 'gru_float32' has none"), "{why}");
}

#[test]
fn a_run_says_what_its_golden_file_does_not_show() {
    let _simulation = Simulation::begin();
    let server = server(None);
    let mut asked = asked_of(GRU);
    asked.options.tracks = NonZeroUsize::new(1);
    let alone = calibrated(&server, GRU, &asked).expect("it can be calibrated");
    let noisy = calibrated(&server, "gru_batch_noise_float32", &asked_of(GRU)).expect("it can be calibrated");
    let mut hidden = calibrated(&server, GRU, &asked_of(GRU)).expect("it can be calibrated");
    hidden.facts.visible[0].from_step = None;
    let unseen = format!("the faults {}, because no output showed them", hidden.facts.visible[0].kind);
    for (golden, model, said) in [
        (alone, GRU, Some("whether the server mixes sequences, because there is one track")),
        (hidden, GRU, Some(unseen.as_str())),
        (noisy, "gru_batch_noise_float32", None),
    ] {
        let result = run_by(Arc::new(golden), &server, model, "").expect("it can be tested");
        let notes: Vec<_> = result.preflight.notes.iter().filter_map(not_checked).collect();
        let is_said = |words: &str| notes.iter().any(|note| note.starts_with(words));
        assert!(said.map_or(notes.is_empty(), is_said), "{said:?}: {notes:?}");
    }
}

fn not_checked(note: &Note) -> Option<&String> {
    match note {
        Note::NotChecked(what) => Some(what),
        _ => None,
    }
}

#[test]
fn a_verification_that_has_nothing_to_compare_says_so() {
    let _simulation = Simulation::begin();
    let (model, sound) = ("gru_run_noise_float32", server(None));
    let golden = Arc::new(calibrated(&sound, model, &asked_of(model)).expect("it can be calibrated"));
    let verified =
        async { Subject::of(on(&sound, model, ""), Hints::default(), &golden)?.verify(&golden, usize::MAX).await };
    assert_eq!(block_on(verified).expect("it can be asked"), (0, vec![]));
}

#[test]
fn a_verification_asks_for_what_end_does() {
    const AT_END: &str = "gru_negated_at_end_float32";
    let _simulation = Simulation::begin();
    let verified = |fault| {
        let golden = Arc::new(calibrated(&server(None), AT_END, &asked_of(AT_END)).expect("it can be calibrated"));
        assert_eq!(golden.facts.at_end, EndEffect::Changes, "{:?}", golden.facts);
        let server = server(fault);
        let verified = async {
            Subject::of(on(&server, AT_END, ""), Hints::default(), &golden)?.verify(&golden, usize::MAX).await
        };
        let (compared, differ) = block_on(verified).expect("it can be asked");
        let is_of_end = |(named, _): &(Named, _)| matches!(named.lineage, Some(Lineage::Ended { .. }));
        (compared, differ.len(), differ.iter().all(is_of_end))
    };
    // Of each of 8 tracks the first 8 steps, and END at the first, second, fourth and eighth.
    assert_eq!(verified(None), (96, 0, true));
    assert_eq!(verified(Some("end-missing")), (96, 32, true));
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
