use super::*;
use workload::{
    event::Response,
    inputs::{InputTensor, Track},
    tensor::{Tensor, TensorData},
};

/// Tracks of one number a step; the model under test adds each to three quarters of what was before.
pub(super) fn tracks(values: &[&[f32]]) -> Vec<Track> {
    let step = |value: &f32| {
        let data = value.to_le_bytes().to_vec();
        [InputTensor { name: "INPUT".into(), datatype: ElementType::Fp32, shape: vec![1, 1], data }].into()
    };
    let track = |(number, values): (usize, &&[f32])| Track {
        name: format!("t{number}"),
        steps: values.iter().map(step).collect(),
        pauses: Vec::new(),
    };
    values.iter().enumerate().map(track).collect()
}

fn output(tolerances: &[f64]) -> Output {
    let spec = TensorSpec { name: "OUTPUT".into(), datatype: "FP32".into(), shape: vec![-1, 1] };
    Output { spec, datatype: ElementType::Fp32, compare: Compare::Measured, tolerances: tolerances.to_vec() }
}

fn answered(value: f32) -> Gathered {
    vec![vec![(vec![1, 1], value.to_le_bytes().to_vec())]]
}

fn identity() -> Identity {
    Identity { model: "m".into(), version: None, server: None, configuration: None, inputs: String::new() }
}

fn computed(lineage: Lineage, values: &[&[f32]]) -> f32 {
    lineage.steps().into_iter().fold(0.0, |state, (track, step)| state * 0.75 + values[track][step])
}

fn golden(values: &[&[f32]], lineages: &[Lineage], tolerances: &[f64]) -> Golden {
    let seen = lineages.iter().map(|lineage| (*lineage, answered(computed(*lineage, values)).into()));
    let inputs = Arc::new(InputSet::new(tracks(values)));
    Golden::new(identity(), inputs, vec![output(tolerances)], Facts::default(), seen)
}

fn of_track(track: u32, steps: u32) -> Lineage {
    Lineage::Track { track, steps }
}

const VALUES: &[&[f32]] = &[&[1.0, 2.0, 4.0, 3.0], &[10.0, -5.0, 0.5, 7.0]];

fn all_of_tracks() -> Vec<Lineage> {
    (0..2).flat_map(|track| (1..=3).map(move |steps| of_track(track, steps))).collect()
}

fn response(value: f32) -> Response {
    let data = TensorData::Raw(value.to_le_bytes().to_vec());
    let output = Tensor { name: "OUTPUT".into(), datatype: "FP32".into(), shape: vec![1, 1], data };
    Response { model: "m".into(), outputs: vec![output], ..Response::default() }
}

fn read(golden: &Golden, expected: &[Lineage], value: f32) -> Reading {
    let expected = expected.iter().map(|lineage| lineage.number(&golden.inputs));
    golden.read(expected, [&response(value)].into_iter())
}

#[test]
fn an_answer_is_read_as_the_state_that_it_belongs_to() {
    let golden = golden(VALUES, &all_of_tracks(), &[0.01]);
    for lineage in all_of_tracks() {
        let (value, sum) = (computed(lineage, VALUES), lineage.number(&golden.inputs));
        for expected in [vec![lineage], vec![], vec![of_track(0, 1)]] {
            assert_eq!(read(&golden, &expected, value + 0.005), Reading::State(sum), "{lineage:?} {expected:?}");
        }
        assert_eq!(golden.word(sum).map(|word| word.lineage), Some(lineage));
    }
    assert_eq!(golden.named(of_track(1, 2).number(&golden.inputs)).tracks, ["t1"]);
    assert_eq!((golden.steps(), golden.most_responses()), (3, 1));
}

#[test]
fn what_is_like_nothing_says_how_far_it_is_off() {
    let golden = golden(VALUES, &all_of_tracks(), &[0.01, 0.02]);
    let seen = read(&golden, &[of_track(0, 2)], 2.75 + 0.5);
    let Reading::Unlike(Some(Misfit::Output(Deviation { response: None, output, what }))) = seen else {
        panic!("{seen:?}")
    };
    let expected = Differs::Number {
        element: 0,
        expected: "2.75".into(),
        seen: "3.25".into(),
        apart: "5.0e-1".into(),
        tolerance: 0.02,
        differing: Some(1),
        of: 1,
    };
    assert_eq!((output.as_str(), what), ("OUTPUT", expected));
    assert_eq!(read(&golden, &[], f32::NAN), Reading::Unlike(None));
}

#[test]
fn states_that_outputs_do_not_tell_apart_are_not_guessed_between() {
    let values: &[&[f32]] = &[&[1.0, 2.0], &[1.001, 2.0]];
    let golden = golden(values, &[of_track(0, 1), of_track(1, 1), of_track(0, 2)], &[0.01]);
    assert_eq!(read(&golden, &[], 1.0005), Reading::Ambiguous);
    for track in [0, 1] {
        let lineage = of_track(track, 1);
        assert_eq!(read(&golden, &[lineage], 1.0005), Reading::State(lineage.number(&golden.inputs)));
    }
    // An answer that is certainly neither is told apart as ever.
    assert_eq!(read(&golden, &[of_track(0, 1)], 2.75), Reading::State(of_track(0, 2).number(&golden.inputs)));
}

#[test]
fn steps_in_another_order_are_not_taken_for_the_right_one() {
    let exchanged = Lineage::Fault { kind: FaultKind::Exchanged, track: 0, steps: 2 };
    let golden = golden(VALUES, &[vec![exchanged], all_of_tracks()].concat(), &[0.01]);
    let (value, sum) = (computed(exchanged, VALUES), exchanged.number(&golden.inputs));
    assert_eq!(sum, of_track(0, 3).number(&golden.inputs), "the same steps");
    assert_eq!(read(&golden, &[of_track(0, 2)], value), Reading::State(sum));
    assert!(matches!(read(&golden, &[of_track(0, 3)], value), Reading::Unlike(_)));
}

#[test]
fn outputs_of_another_form_are_not_compared() {
    let golden = golden(VALUES, &all_of_tracks(), &[0.01]);
    let with = |change: fn(&mut Tensor)| {
        let mut response = response(1.0);
        change(&mut response.outputs[0]);
        golden.read(std::iter::empty(), [&response].into_iter())
    };
    assert_eq!(with(|_| {}), Reading::State(of_track(0, 1).number(&golden.inputs)));
    let changes: [fn(&mut Tensor); 4] = [
        |tensor| tensor.name = "OTHER".into(),
        |tensor| tensor.datatype = "INT32".into(),
        |tensor| tensor.shape = vec![1, 2],
        |tensor| tensor.data = TensorData::Raw(vec![0; 3]),
    ];
    for change in changes {
        assert_eq!(with(change), Reading::Malformed);
    }
    let two = Response { outputs: [response(1.0).outputs, response(1.0).outputs].concat(), ..response(1.0) };
    assert_eq!(golden.read(std::iter::empty(), [&two].into_iter()), Reading::Malformed);
}

#[test]
fn several_responses_are_read_together() {
    let inputs = Arc::new(InputSet::new(tracks(VALUES)));
    let two = |one: f32, other: f32| [answered(one), answered(other)].concat();
    let seen = [(of_track(0, 1), two(1.0, 2.0)), (of_track(0, 2), Vec::new()), (of_track(1, 1), answered(1.0))]
        .map(|(lineage, responses)| (lineage, responses.into()));
    let golden = Golden::new(identity(), inputs, vec![output(&[0.01])], Facts::default(), seen);
    let read = |values: &[f32]| {
        let responses: Vec<_> = values.iter().copied().map(response).collect();
        golden.read(std::iter::empty(), responses.iter())
    };
    let sum = |lineage: Lineage| Reading::State(lineage.number(&golden.inputs));
    assert_eq!(read(&[1.0, 2.0]), sum(of_track(0, 1)));
    assert_eq!(read(&[]), sum(of_track(0, 2)));
    assert_eq!(read(&[1.0]), sum(of_track(1, 1)));
    assert_eq!(read(&[2.0, 1.0]), Reading::Unlike(None));
}

#[test]
fn outputs_of_exact_types_are_found_by_what_they_are() {
    let spec = TensorSpec { name: "OUTPUT".into(), datatype: "BYTES".into(), shape: vec![1] };
    let output = Output { spec, datatype: ElementType::Bytes, compare: Compare::Measured, tolerances: vec![0.0] };
    let text = |text: &str| [&u32::try_from(text.len()).expect("short").to_le_bytes(), text.as_bytes()].concat();
    let inputs = Arc::new(InputSet::new(tracks(VALUES)));
    let seen = [("a", of_track(0, 1)), ("ab", of_track(0, 2)), ("a", of_track(1, 1))]
        .map(|(its, lineage)| (lineage, vec![vec![(vec![1], text(its))]].into()));
    let golden = Golden::new(identity(), inputs, vec![output], Facts::default(), seen);
    let read = |its: &str| {
        let data = TensorData::Raw(text(its));
        let output = Tensor { name: "OUTPUT".into(), datatype: "BYTES".into(), shape: vec![1], data };
        golden.read(std::iter::empty(), [&Response { outputs: vec![output], ..Response::default() }].into_iter())
    };
    assert_eq!(read("ab"), Reading::State(of_track(0, 2).number(&golden.inputs)));
    assert_eq!((read("a"), read("b")), (Reading::Ambiguous, Reading::Unlike(None)));
}

fn written(golden: &Golden) -> Vec<u8> {
    let mut bytes = Vec::new();
    golden.write_to(&mut bytes).expect("there is room");
    bytes
}

#[test]
fn a_file_is_read_as_it_was_written_and_whatever_is_changed_is_noticed() {
    let mut golden = golden(
        VALUES,
        &[all_of_tracks(), vec![Lineage::Continued { track: 0, step: 2, other: 1, after: 2 }]].concat(),
        &[0.01],
    );
    golden.facts.noise = vec![Noise { output: "OUTPUT".into(), typical: f64::INFINITY, ..Noise::default() }];
    let bytes = written(&golden);
    let read = |bytes: &[u8]| Golden::read_from(bytes, bytes.len() as u64);
    let again = read(&bytes).expect("the same");
    assert_eq!((written(&again), again.inputs.digest()), (bytes.clone(), golden.inputs.digest()));
    assert_eq!(again.facts, golden.facts);
    for word in golden.words() {
        let sum = word.lineage.number(&golden.inputs);
        let other = again.word(sum).expect("it is known");
        assert_eq!((other.lineage, again.apart(other, word)), (word.lineage, 0.0));
    }
    for cut in (0..bytes.len()).step_by(7) {
        assert!(read(&bytes[..cut]).is_err(), "{cut}");
        assert!(Golden::read_from(&bytes[..cut], bytes.len() as u64).is_err(), "{cut}: it was longer before");
        let mut changed = bytes.clone();
        changed[cut] ^= 1;
        let why = read(&changed).expect_err("it was changed").0;
        let expected = if cut < 25 { "it is no golden file" } else { "it is cut short or was changed (its checksum" };
        assert!(why.starts_with(expected), "{cut}: {why}");
    }
}

/// The file with other words of the same length in its header, and the checksum of that.
fn forged(bytes: &[u8], words: &str, others: &str) -> Vec<u8> {
    let place = bytes.windows(words.len()).position(|some| some == words.as_bytes()).expect("it has them");
    let mut forged = bytes[..bytes.len() - 32].to_vec();
    forged[place..place + words.len()].copy_from_slice(others.as_bytes());
    let digest = <sha2::Sha256 as sha2::Digest>::digest(&forged);
    [forged.as_slice(), &digest].concat()
}

#[test]
fn a_file_that_fits_its_checksum_has_nothing_that_a_calibration_does_not_write() {
    let bytes = written(&golden(VALUES, &[of_track(0, 1), of_track(0, 2)], &[0.125]));
    let read = |bytes: &[u8]| Golden::read_from(bytes, bytes.len() as u64).map(drop).map_err(|damaged| damaged.0);
    let header = String::from_utf8_lossy(&bytes);
    for (words, others, why) in [
        (r#""steps":2"#, r#""steps":9"#, "it is cut short or was changed"),
        (r#""track":0"#, r#""track":7"#, "it is cut short or was changed"),
        ("[0.125]", "[-1.25]", "output 'OUTPUT' has a tolerance that is none"),
    ] {
        assert_eq!(read(&forged(&bytes, words, words)), Ok(()), "{header}");
        let said = read(&forged(&bytes, words, others)).expect_err(others);
        assert!(said.starts_with(why), "{others}: {said}");
    }
}

#[test]
fn states_are_apart_in_tolerances() {
    let golden = golden(VALUES, &all_of_tracks(), &[0.5]);
    let word = |lineage: Lineage| golden.word(lineage.number(&golden.inputs)).expect("it is known");
    assert_eq!(golden.apart(word(of_track(0, 1)), word(of_track(0, 1))).to_string(), "0");
    assert_eq!(golden.apart(word(of_track(0, 1)), word(of_track(1, 1))).to_string(), "18");
    let exact = self::golden(VALUES, &all_of_tracks(), &[0.0]);
    let word = |lineage: Lineage| exact.word(lineage.number(&exact.inputs)).expect("it is known");
    assert!(exact.apart(word(of_track(0, 1)), word(of_track(1, 1))).is_infinite());
}
