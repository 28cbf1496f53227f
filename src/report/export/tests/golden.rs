//! Scripts of failures that golden outputs judged.

use super::{
    super::expect::{Expecting, Sent},
    expecting::due,
    *,
};

fn tensor(name: &str, datatype: ElementType, shape: &[i64], data: &[u8]) -> InputTensor {
    InputTensor { name: name.into(), datatype, shape: shape.to_vec(), data: data.to_vec() }
}

/// A model without a formula: it takes halves, and texts that may be absent, and two tracks of three steps begin alike.
fn golden(outputs: &[Output]) -> Arc<Golden> {
    let step = |number: u8| {
        let half = tensor("HALF", ElementType::Bf16, &[1, 1], &[0, number]);
        let text = tensor("TEXT", ElementType::Bytes, &[1, 1], &[1, 0, 0, 0, b'a']);
        if number == 2 { vec![half] } else { vec![half, text] }
    };
    let track = |name: &str, numbers: [u8; 3]| Track {
        name: name.into(),
        steps: numbers.map(|number| step(number).into()).into(),
        pauses: Vec::new(),
    };
    let inputs = Arc::new(InputSet::new(vec![track("a", [1, 2, 1]), track("b", [1, 3, 4])]));
    let identity = Identity {
        model: "m".into(),
        version: Some("3".into()),
        server: Some("triton 2.44.0".into()),
        configuration: None,
        inputs: inputs.digest().to_owned(),
    };
    let of = |track: u8, steps: u8| {
        let seen = outputs.iter().map(|_| (vec![1, 1], f32::from(10 * track + steps).to_le_bytes().to_vec()));
        (Lineage::Track { track: track.into(), steps: steps.into() }, Arc::new(vec![seen.collect()]))
    };
    // The last step of the second track was not measured.
    let known = [of(0, 1), of(0, 2), of(0, 3), of(1, 1), of(1, 2)];
    Arc::new(Golden::new(identity, inputs, outputs.to_vec(), oracle::golden::Facts::default(), known))
}

fn output(name: &str, compare: Compare, tolerances: &[f64]) -> Output {
    let spec = TensorSpec { name: name.into(), datatype: "FP32".into(), shape: vec![-1, 1] };
    Output { spec, datatype: ElementType::Fp32, compare, tolerances: tolerances.to_vec() }
}

/// A failure that golden outputs judged: each step is a track's and its number from 0, with what else the act says.
fn judged(golden: &Golden, kind: ViolationKind, steps: &[(usize, usize, &str, &str)]) -> Failure {
    let mut acts: Vec<_> = steps
        .iter()
        .map(|(track, step, before, after)| {
            format!("send 0 {before} {} {after}", golden.inputs.number(*track, *step).value())
        })
        .collect();
    acts.push("await 0".to_owned());
    let acts: Vec<_> = acts.iter().map(|act| act.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let acts: Vec<_> = acts.iter().map(String::as_str).collect();
    let arithmetic = Arithmetic { datatype: InputSet::DATATYPE, formula: Formula::Golden, ..Arithmetic::default() };
    let mut its = failure(vec![conversation(0, &acts)]);
    (its.kind, its.arithmetic, its.accused) = (kind, arithmetic, None);
    its.scenario.target.model = "m".to_owned();
    let tensors = Tensors { input: "HALF".to_owned(), output: "OUTPUT".to_owned(), shape: Vec::new() };
    its.facts.tensors = Some(tensors);
    its
}

const TRACKS: [(usize, usize, &str, &str); 7] = [
    (0, 0, "START", ""),
    (0, 1, "", ""),
    (0, 2, "END", ""),
    (0, 1, "", ""),
    (1, 0, "START", ""),
    (1, 1, "", "with other-shape"),
    (1, 1, "", ""),
];

#[test]
fn a_script_without_a_formula_has_the_tensors_and_the_golden_outputs() {
    let golden = golden(&[output("OUTPUT", Compare::Rtol(1e-3), &[1e-3]), output("NOISE", Compare::Measured, &[])]);
    let steps = [&TRACKS[..], &[(1, 2, "", "")]].concat();
    let its = judged(&golden, ViolationKind::WrongOutput, &steps);
    let script = super::super::script(&its, Some(&golden)).expect("a script");
    for part in [
        "What it expects is what the idle model answered before: version 3 of model m, on triton 2.44.0 (release 24.03).",
        "from tritonclient.utils import deserialize_bf16_tensor, deserialize_bytes_tensor, triton_to_np_dtype\n",
        "\n    stream_0_0.send(\"step 1 of 'a'\", sequence_start=True, expect=\"the outputs of step 1 of 'a'\")\n",
        "\n    stream_0_0.send(\"step 2 of 'a'\", expect=\"the outputs of step 2 of 'a'\")\n",
        "\n    stream_0_0.send(\"step 3 of 'a'\", sequence_end=True, expect=\"the outputs of step 3 of 'a'\")\n",
        "\n    stream_0_0.send(\"step 2 of 'a'\", expect=REJECTED)\n",
        // Both tracks begin with it.
        "\n    stream_0_0.send(\"step 1 of 'a'\", sequence_start=True, expect=\"the outputs of step 1 of 'a'\")\n",
        "\n    stream_0_0.send(\"step 2 of 'b' with other-shape\", expect=(",
        "\n    stream_0_0.send(\"step 2 of 'b'\", expect=\"the outputs of step 2 of 'b'\")\n",
        // What no calibration measured is not judged.
        "\n    stream_0_0.send(\"step 3 of 'b'\")\n",
        "\nOUTPUTS = {\n    \"OUTPUT\": (\"FP32\", \"rtol\"),\n    \"NOISE\": (\"FP32\", \"measured\"),\n}\n",
        // The same tensors are there once, and what is absent is not there.
        "\n    \"step 1 of 'a'\": [(\"HALF\", \"BF16\", [1, 1], 1), (\"TEXT\", \"BYTES\", [1, 1], 2)],\n",
        "\n    \"step 2 of 'a'\": [(\"HALF\", \"BF16\", [1, 1], 3)],\n",
        "\n    \"step 3 of 'a'\": [(\"HALF\", \"BF16\", [1, 1], 1), (\"TEXT\", \"BYTES\", [1, 1], 2)],\n",
        "\n    \"step 2 of 'b' with other-shape\": [(\"HALF\", \"BF16\", [1, 1, 1], 4), (\"TEXT\", \"BYTES\", [1, 1], 2)],\n",
        // The output that is not deterministic is asked for, and not compared.
        "\n    \"the outputs of step 2 of 'a'\": [{\"OUTPUT\": ([1, 1], 7, 0.001)}],\n",
        "\nDATA = \"\"\"\nAAE=\nAQAAAGE=\nAAI=\nAAM=\nAAQ=\nAACAPw==\nAAAAQA==\nAABAQA==\nAABAQQ==\n\"\"\".splitlines()\n",
    ] {
        assert!(script.contains(part), "'{part}' is not in: {script}");
    }
    for once in ["\n    \"step 1 of 'a'\": [", "\n    \"the outputs of step 1 of 'a'\": ["] {
        assert_eq!(script.matches(once).count(), 1, "{once}: {script}");
    }
}

#[test]
fn a_script_without_a_formula_has_no_more_than_it_uses() {
    for (compare, kind) in [
        (Compare::Exact, ViolationKind::WrongOutput),
        (Compare::Cosine(0.1), ViolationKind::Duplicate),
        (Compare::Atol(0.1), ViolationKind::SlotLeak),
    ] {
        let golden = golden(&[output("OUTPUT", compare, &[0.1])]);
        for by in Transport::ALL.into_iter().filter(|by| !by.ends_with_errors()) {
            for answers in [Answers::One, Answers::Several(2)] {
                let mut its = judged(&golden, kind, &TRACKS);
                its.arithmetic.answers = answers;
                its.scenario.populations[0].sending.transport = Some(by);
                has_what_it_uses(&super::super::script(&its, Some(&golden)).expect("a script"));
            }
        }
    }
}

#[test]
fn what_no_script_can_have_is_said_with_what_to_do() {
    let golden = golden(&[output("OUTPUT", Compare::Exact, &[0.0])]);
    let its = judged(&golden, ViolationKind::WrongOutput, &TRACKS);
    let why = |its: &Failure, golden| super::super::script(its, golden).expect_err("no script");
    assert!(why(&its, None).contains("(--golden FILE)"));
    let mut iterative = its.clone();
    iterative.arithmetic.answers = Answers::EachOf(2);
    assert!(why(&iterative, Some(&golden)).contains("sequence-stress replay"));

    let large = |size: usize| {
        let inputs = vec![tensor("INPUT", ElementType::Uint8, &[1, 1], &vec![0; size])];
        let track = Track { name: "large".into(), steps: vec![inputs.into()], pauses: Vec::new() };
        let inputs = Arc::new(InputSet::new(vec![track]));
        let identity = golden.identity.clone();
        Arc::new(Golden::new(identity, inputs, golden.outputs.clone(), oracle::golden::Facts::default(), []))
    };
    let large = [16 << 20, (16 << 20) + 1].map(large);
    let of = |golden: &Arc<Golden>| {
        super::super::script(&judged(golden, ViolationKind::WrongOutput, &[(0, 0, "START", "")]), Some(golden))
    };
    assert!(of(&large[0]).is_ok());
    let why = of(&large[1]).expect_err("too large");
    assert!(why.contains("may have 16 MiB") && why.contains("--shrink --golden FILE"), "{why}");
}

/// Streams do not order each other's steps, and the sum of their codes is the same in any order.
#[test]
fn golden_outputs_are_expected_of_steps_in_an_order_that_is_known() {
    let golden = golden(&[output("OUTPUT", Compare::Exact, &[0.0])]);
    let arithmetic = Arithmetic { datatype: InputSet::DATATYPE, formula: Formula::Golden, ..Arithmetic::default() };
    let step = |start, step| Sent { start, end: false, value: golden.inputs.number(0, step), special: None };
    let outputs_of = |steps| Some(Due::Sum(Lineage::Track { track: 0, steps }.number(&golden.inputs)));
    let mut its = Expecting::new(arithmetic, Some(&golden));
    its.open(Lane::FIRST);
    assert_eq!(due(&mut its, Lane::FIRST, step(false, 1)), Some(Due::Rejection));
    for (number, steps) in [(0, 1), (1, 2)] {
        assert_eq!(due(&mut its, Lane::FIRST, step(number == 0, number)), outputs_of(steps));
    }
    its.take(Lane::FIRST, 0);
    assert_eq!(due(&mut its, Lane::FIRST, step(false, 2)), outputs_of(3));

    let mut two = Expecting::new(arithmetic, Some(&golden));
    two.open(Lane::FIRST);
    two.open(Lane(1));
    assert_eq!(due(&mut two, Lane::FIRST, step(true, 0)), outputs_of(1));
    two.take(Lane::FIRST, 0);
    two.send(Lane::FIRST, step(false, 1));
    assert_eq!(due(&mut two, Lane(1), step(false, 2)), None);
    assert_eq!(due(&mut two, Lane::FIRST, step(true, 0)), None, "the other stream's step may come behind START");
}

#[test]
fn a_bug_report_names_the_model_that_golden_outputs_are_of() {
    let golden = golden(&[output("OUTPUT", Compare::Exact, &[0.0])]);
    let its = judged(&golden, ViolationKind::WrongOutput, &TRACKS);
    let report = |golden| ExportFormat::Issue.text(&its, golden).expect("a text");
    let (with, without) = (report(Some(&golden)), report(None));
    let parts = ["- Model: `m`. Attach version 3 of model m. ", "\nSTEPS = {\n"];
    assert!(parts.iter().all(|part| with.contains(part)), "{with}");
    assert!(without.contains("This report has no script: ") && !without.contains("```python"), "{without}");
    assert!([with, without].iter().all(|report| !report.contains("formula")));
}
