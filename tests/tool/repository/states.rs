//! The states that models begin with, and models with two of them.

use super::*;

#[test]
fn state_begins_with_what_is_asked_for() {
    let of = |words: &[&str]| {
        let target = Target::new();
        done(&[&[&*target.path, "--family", "implicit,sequence", "--backend", "native"][..], words].concat());
        files(Path::new(&target.path))
    };
    let zero = of(&["--initial-state", "zero"]);
    let config = text(&zero["/implicit_initial_sequence_int32/config.pbtxt"]);
    assert!(config.contains("zero_data: true") && !config.contains("sequence_stress_initial_state"), "{config}");

    let file = of(&["--initial-state", "file", "--dtype", "float64"]);
    let config = text(&file["/implicit_initial_file_sequence_float64/config.pbtxt"]);
    let parameter = "parameters { key: \"sequence_stress_initial_state\" value { string_value: \"1000\" } }";
    assert!(config.contains("data_file: \"thousand\"") && config.contains(parameter), "{config}");
    assert_eq!(file["/implicit_initial_file_sequence_float64/initial_state/thousand"], 1000_f64.to_le_bytes());
    assert!(text(&file["/custom_initial_sequence_float64/config.pbtxt"]).contains(parameter));

    let own = tempfile::NamedTempFile::new().expect("a file");
    fs::write(own.path(), (-7_i64).to_le_bytes()).expect("it is written");
    let path = own.path().to_str().expect("UTF-8");
    let given = of(&["--initial-state", "file", "--initial-state-file", path, "--dtype", "int64"]);
    assert_eq!(given["/implicit_initial_file_sequence_int64/initial_state/thousand"], (-7_i64).to_le_bytes());
    assert!(text(&given["/custom_initial_sequence_int64/config.pbtxt"]).contains("string_value: \"-7\""));

    fs::write(own.path(), u64::MAX.to_le_bytes()).expect("it is written");
    let given = of(&["--initial-state", "file", "--initial-state-file", path, "--dtype", "uint64"]);
    let config = text(&given["/custom_initial_sequence_uint64/config.pbtxt"]);
    assert!(config.contains("string_value: \"18446744073709551615\""), "{config}");

    let wrong = |bytes: &[u8], dtype, expected: &str| {
        fs::write(own.path(), bytes).expect("it is written");
        let words = ["--initial-state", "file", "--initial-state-file", path, "--family", "implicit", "--dtype", dtype];
        let target = Target::new();
        let line = rejected(&[&[&*target.path][..], &words].concat());
        assert!(line.contains(expected), "{line}");
        assert_eq!(target.entries(), [""; 0]);
    };
    wrong(&[0; 8], "int32", "a state of int32 has 4 bytes, and the file 8");
    wrong(&[0; 8], "int64,int32", "a state of int32 has 4 bytes, and the file 8");
    wrong(&0.5_f32.to_le_bytes(), "float32", "a state of float32 has to be a whole number, and the file is 0.5");
    wrong(
        b"\x03\0\0\0abc",
        "object",
        "a state of object has to be the decimal text of an INT32, and the file is the text",
    );

    let one = of(&["--single-buffer", "--family", "implicit"]);
    let config = text(&one["/implicit_single_buffer_sequence_int32/config.pbtxt"]);
    assert!(config.contains("use_same_buffer_for_input_output: true"), "{config}");
}

#[test]
fn models_with_two_states_name_both_and_the_output_that_tells_the_second() {
    let target = Target::new();
    let words = ["--backend", "native", "--family", "two_state,dyna_two_state_crossed", "--initial-state", "zero"];
    done(&[&[&*target.path][..], &words].concat());
    let written = files(target.path.as_ref());
    let states = |model: &str| -> Vec<String> {
        let config = text(&written[&format!("/{model}/config.pbtxt")]);
        assert!(config.contains("output { name: \"COUNT\" data_type: TYPE_INT64 dims: [ 1 ] }"), "{config}");
        assert!(config.contains("string_value: \"running-sum\""), "{config}");
        let lines = config.lines().map(str::trim);
        lines.filter(|line| line.starts_with("input_name") || line.starts_with("dims")).map(str::to_owned).collect()
    };
    assert_eq!(
        states("two_state_initial_sequence_int32"),
        ["input_name: \"ZETA_STATE\"", "dims: [ 2 ]", "input_name: \"ALPHA_STATE\"", "dims: [ 5 ]"]
    );
    assert_eq!(
        states("two_state_crossed_initial_dyna_sequence_int32"),
        ["input_name: \"CACHE\"", "dims: [ 1 ]", "input_name: \"CACHE_LEN\"", "dims: [ 1 ]"]
    );
}
