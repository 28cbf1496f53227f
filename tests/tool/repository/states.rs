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

#[test]
fn models_whose_states_check_each_other_have_files_for_each_and_are_valid_on_the_reference_server() {
    let target = Target::new();
    let of = |words: &[&str]| {
        done(&[&[&*target.path, "--force", "--backend", "native", "--idle-limit", "200ms"], words].concat())
    };
    of(&["--family", "twin_state,triple_state", "--initial-state", "file", "--dtype", "int8,float64"]);
    of(&[
        "--family",
        "twin_state_crossed,dyna_twin_state,dyna_triple_state,triple_state_crossed,two_state,two_state_crossed",
    ]);
    of(&["--family", "triple_state_crossed", "--single-buffer"]);
    let written = files(target.path.as_ref());
    let file = |name: &str| &written[&format!("/triple_state_initial_file_sequence_float64/initial_state/{name}")];
    assert_eq!(*file("thousand"), 1000_f64.to_le_bytes().repeat(2));
    assert_eq!(*file("thousand_2"), 3000_i64.to_le_bytes().repeat(5));
    assert_eq!(*file("thousand_3"), 5000_u32.to_le_bytes());
    let small = &written["/twin_state_initial_file_sequence_int8/initial_state/thousand_2"];
    assert_eq!(*small, 300_i64.to_le_bytes().repeat(5), "it has a type of its own");
    let config = text(&written["/triple_state_initial_file_sequence_float64/config.pbtxt"]);
    for expected in [
        "parameters { key: \"sequence_stress_states\" value { string_value: \"copies\" } }",
        "dims: [ -1 ]",
        "initial_state { data_type: TYPE_UINT32 dims: [ 1 ] data_file: \"thousand_3\" name: \"thousand_3\" }",
    ] {
        assert!(config.contains(expected), "{expected} in {config}");
    }
    let models = Models::read(&[target.path.clone().into()]).expect("all are read");
    let names = fs::read_dir(&target.path).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let names: Vec<_> = names.map(|name| name.into_string().expect("UTF-8")).collect();
    assert_eq!(names.len(), 11);
    let server = Server::start(Options { repository: Some(models), ..Options::default() }).expect("a free port");
    for model in names {
        assert_eq!(run_short(&server, &model), Ok(()), "{model}");
    }
}

#[test]
fn faults_of_states_are_named_in_models_with_two_and_three_of_them() {
    for (fault, model, expected) in [
        ("exchange-states", "twin_state_sequence_int32", "unexpected-error, cause exchanged-states"),
        ("exchange-states:0.05", "triple_state_dyna_sequence_float32", "unexpected-error, cause exchanged-states"),
        ("state-half-saved", "triple_state_sequence_object", "unexpected-error, cause states-of-several-steps"),
        ("state-half-saved:0.05", "twin_state_sequence_int64", "unexpected-error, cause states-of-several-steps"),
        ("swap-states:0.05", "triple_state_sequence_int32", "wrong-sum, cause swapped-states"),
        ("state-not-saved:0.05", "triple_state_sequence_int32", "wrong-sum, cause effect-lost"),
        ("state-of-another-slot:0.05", "triple_state_sequence_int32", "wrong-sum, cause leaked-state"),
    ] {
        let words =
            ["--embedded", "-m", model, "-i", "10", "-c", "4", "-r", "1", "--idle-limit", "200ms", "--fault", fault];
        let (code, text) = tool::told(&words);
        assert_eq!((code, text.contains(expected)), (Some(1), true), "{fault}: {text}");
    }
}
