use super::*;
use crate::inputs::{check, tests::options};

fn spec(name: &str, datatype: &str, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.into(), datatype: datatype.into(), shape: shape.to_vec() }
}

fn tracks(text: &str, declared: &[TensorSpec], batches: bool) -> Result<Vec<Track>, String> {
    let options = Options { batches, ..options() };
    let (tracks, notes) = read(text.as_bytes(), declared, &options)?;
    assert_eq!(notes, Vec::<String>::new());
    check(&tracks, declared, &[])?;
    Ok(tracks)
}

/// The bytes of the only input of the only step.
fn bytes(datatype: &str, count: i64, tensor: &str) -> Result<Vec<u8>, String> {
    let declared = [spec("I", datatype, &[-1, count])];
    let tracks = tracks(&format!("{{\"data\": [[{{\"I\": {tensor}}}]]}}"), &declared, true)?;
    let tensor = tracks[0].steps[0][0].clone();
    assert_eq!(tensor.shape, [1, count]);
    Ok(tensor.data)
}

#[test]
fn an_inner_list_is_a_sequence_and_a_flat_one_is_one() {
    let declared = [spec("I", "INT32", &[1])];
    let lengths = |text: &str| {
        let tracks = tracks(text, &declared, false)?;
        Ok::<_, String>(tracks.into_iter().map(|track| (track.name, track.steps.len())).collect::<Vec<_>>())
    };
    let named = |lengths: &[usize]| {
        Ok((1..).zip(lengths).map(|(number, length)| (format!("sequence {number}"), *length)).collect::<Vec<_>>())
    };
    assert_eq!(lengths(r#"{"data": [[{"I": [1]}, {"I": [2]}], [{"I": [3], "model": ["m"]}]]}"#), named(&[2, 1]));
    assert_eq!(lengths(r#"{"data": [{"I": [1]}, {"I": [2]}, {"I": [3]}]}"#), named(&[3]));
    for (text, expected) in [
        ("{}", "it has no 'data': perf_analyzer's form is {\"data\": [[{\"INPUT\": [1]}, …], …]}"),
        (
            "[]",
            "it is no JSON object of perf_analyzer's form: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            r#"{"data": [[{"I": [1]}"#,
            "it is no JSON object of perf_analyzer's form: EOF while parsing a list at line 1 column 21",
        ),
        (r#"{"data": []}"#, "there are no inputs: a set of inputs needs at least one sequence of steps"),
        (r#"{"data": [[{"I": [1]}], []]}"#, "'sequence 2' has no steps: each sequence needs at least one"),
        (
            r#"{"data": [[{"I": [1]}], {"I": [1]}]}"#,
            "'data' has both lists and objects: write a list of steps for each sequence",
        ),
        (r#"{"data": [[{"I": [1]}, {"J": [1]}]]}"#, "'sequence 1', step 2: the model has no input 'J': it has I"),
        (r#"{"data": [[{}]]}"#, "'sequence 1', step 1: input I INT32[1] is missing"),
        (
            r#"{"data": [[{"I": [1], "I": [2]}]]}"#,
            "'sequence 1', step 1: the step is not an object with a list of elements for each input: 'I' is there twice",
        ),
        (
            r#"{"data": [[1]]}"#,
            "'sequence 1', step 1: the step is not an object with a list of elements for each input: invalid type: integer `1`, expected an object",
        ),
    ] {
        assert_eq!(lengths(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn elements_are_of_the_inputs_type() {
    for (datatype, count, tensor, expected) in [
        ("BOOL", 4, "[true, false, 0, 1]", vec![1, 0, 0, 1]),
        ("UINT8", 1, "[255]", vec![255]),
        ("INT16", 1, "[-2]", vec![254, 255]),
        ("UINT64", 1, "[18446744073709551615]", vec![255; 8]),
        ("FP16", 2, "[1.5, 2]", vec![0, 0x3e, 0, 0x40]),
        ("BF16", 1, "[1.5]", vec![0xc0, 0x3f]),
        ("FP32", 2, "[0.1, -Infinity]", [0.1_f32, f32::NEG_INFINITY].map(f32::to_le_bytes).concat()),
        ("FP64", 3, "[Inf, 1e300, -Inf]", [f64::INFINITY, 1e300, f64::NEG_INFINITY].map(f64::to_le_bytes).concat()),
        ("BYTES", 2, r#"["NaN", "\u00e9\""]"#, b"\x03\0\0\0NaN\x03\0\0\0\xc3\xa9\"".to_vec()),
    ] {
        assert_eq!(bytes(datatype, count, tensor), Ok(expected), "{datatype} {tensor}");
    }
    let nan = bytes("FP32", 1, "[NaN]").expect("it is taken");
    assert!(f32::from_le_bytes(nan.try_into().expect("4 bytes")).is_nan());
}

#[test]
fn what_is_no_element_is_named_with_its_place() {
    let of = "'sequence 1', step 1: input 'I': ";
    for (datatype, tensor, expected) in [
        ("UINT8", "[1, 256]", "element 2, 256, is none of type UINT8"),
        ("INT8", "[-129]", "element 1, -129, is none of type INT8"),
        ("INT32", "[1.0]", "element 1, 1.0, is none of type INT32"),
        ("INT32", "[true]", "element 1, true, is none of type INT32"),
        ("FP32", "[1e39]", "element 1, 1e+39, is none of type FP32"),
        ("FP64", "[1e999]", "number out of range"),
        ("FP32", "[\"1\"]", "element 1, \"1\", is none of type FP32"),
        ("FP32", "[null]", "element 1, null, is none of type FP32"),
        ("BYTES", "[1]", "element 1, 1, is none of type BYTES"),
        (
            "INT32",
            "[[1]]",
            "element 1, [1], is none of type INT32: write all elements as one flat list, and 'shape' beside it",
        ),
        (
            "INT32",
            "7",
            "it is not a list of elements, or an object with 'content' or 'b64', and 'shape': invalid type: integer `7`, expected an object",
        ),
        (
            "INT32",
            "{}",
            "it has no elements: write a list of elements, or an object with 'content' or 'b64', and 'shape'",
        ),
        (
            "INT32",
            "{\"content\": {}}",
            "'content' is an object without 'b64': write a list of elements, or an object with 'b64'",
        ),
        (
            "INT32",
            "{\"content\": [1], \"shape\": [1.5]}",
            "'shape' is not a list of whole numbers: invalid type: floating point `1.5`, expected i64",
        ),
        ("INT32", "{\"b64\": \"?\"}", "'b64' is no Base64: Invalid symbol 63, offset 0."),
        ("INT32", "{\"b64\": 7}", "'b64' is not a text: invalid type: integer `7`, expected a string"),
    ] {
        assert_eq!(bytes(datatype, 1, tensor), Err(format!("{of}{expected}")), "{tensor}");
    }
}

#[test]
fn elements_come_in_base64_too() {
    for tensor in [
        r#"{"b64": "AQAAAAIAAAA="}"#,
        r#"{"b64": "AQAAAAIAAAA"}"#,
        r#"{"b64": "AQAA\nAAIA\nAAA=\n", "shape": [2]}"#,
        r#"{"content": {"b64": "AQAAAAIAAAA="}, "shape": [2]}"#,
        r#"{"content": [1, 2], "shape": [1, 2]}"#,
        r#"{"shape": [2], "content": [1, 2]}"#,
    ] {
        assert_eq!(bytes("INT32", 2, tensor), Ok(vec![1, 0, 0, 0, 2, 0, 0, 0]), "{tensor}");
    }
    assert_eq!(bytes("BYTES", 1, r#"{"b64": "AgAAAGFi"}"#), Ok(b"\x02\0\0\0ab".to_vec()));
    assert_eq!(
        bytes("BYTES", 1, r#"{"b64": "AgAAAGE="}"#),
        Err("'sequence 1', step 1: input 'I' has 5 bytes, which are no elements of type BYTES".to_owned())
    );
}

#[test]
fn a_shape_is_the_files_or_the_flags_or_the_metadatas() {
    let declared = [spec("I", "INT8", &[-1, 2, -1])];
    let shape = |tensor: &str, flag: &[&str]| {
        let shapes = flag.iter().map(|flag| flag.parse().expect("a flag")).collect();
        let options = Options { batches: true, shapes, ..options() };
        let (tracks, _) = read(format!("{{\"data\": [{{\"I\": {tensor}}}]}}").as_bytes(), &declared, &options)?;
        check(&tracks, &declared, &[])?;
        Ok(tracks[0].steps[0][0].shape.clone())
    };
    assert_eq!(shape(r#"{"content": [1, 2, 3, 4], "shape": [2, 2]}"#, &["I:2,1"]), Ok(vec![1, 2, 2]));
    assert_eq!(shape("[1, 2]", &["I:2,1"]), Ok(vec![1, 2, 1]));
    for (tensor, flag, expected) in [
        (
            "[1, 2]",
            &[][..],
            "'sequence 1', step 1: input 'I': the shape of input I INT8[-1, 2, -1] is open: give its sizes with --shape I:2,16000",
        ),
        ("[1]", &["I:2,1"], "'sequence 1', step 1: input 'I' has 1 elements, and its shape [1, 2, 1] has 2"),
        (
            r#"{"content": [1, 2, 3], "shape": [3, 1]}"#,
            &[],
            "'sequence 1', step 1: input 'I' has shape [1, 3, 1], and the model takes I INT8[-1, 2, -1]",
        ),
        (
            r#"{"content": [1, 2, 3, 4], "shape": [2, 2, 1]}"#,
            &[],
            "'sequence 1', step 1: input 'I': the batch dimension of shape [2, 2, 1] has the size 2: a step of a sequence has a batch of 1",
        ),
    ] {
        assert_eq!(shape(tensor, flag), Err::<Vec<i64>, _>(expected.to_owned()));
    }
}

#[test]
fn expected_outputs_are_read_past_and_said() {
    let text = br#"{"data": [{"I": [1]}], "validation_data": [{"O": [2]}]}"#;
    let (tracks, notes) = read(text, &[spec("I", "INT32", &[1])], &options()).expect("it is right");
    assert_eq!(tracks.len(), 1);
    assert_eq!(notes, ["'validation_data' is not used: a golden file has the expected outputs"]);
}

#[test]
fn a_text_stays_as_it_is() {
    for text in [r#"{"a\"NaN": "Inf"}"#, "{}", "\"", "\"\\"] {
        assert!(matches!(with_quoted_floats(text), Cow::Borrowed(same) if same == text), "{text}");
    }
    assert_eq!(with_quoted_floats("[NaN,\"NaN\",-Infinity , Inf]"), "[\"NaN\",\"NaN\",\"-Infinity\" , \"Inf\"]");
}
