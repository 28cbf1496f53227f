//! Tensors of every type and of whatever names, over every transport: nobody is accused, what is wrong is found, and what cannot be
//! checked is rejected before anything is sent.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use models::Dtype;
use oracle::ViolationKind;
use reference::{ModelOptions, Planted, Server};
use sequence_stress::{
    report::{Summary, Verdict, describe},
    run::{RunError, Setup},
};
use workload::{
    conversation::Transport,
    endpoint::Endpoints,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
};

use crate::support::{
    runs::{reference_server, run_alone},
    side_by_side,
    tool::{Serve, tool, unwrapped},
    triton::{Own, Triton, text},
};

const SCENARIO: &str = "
load = { workers = 3, iterations = 6 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
length = { min = 3, max = 8, constant = 6 }
values.uniform = { min = -9223372036854775808, max = 9223372036854775807 }
limits = { lost_after_ms = 120000, connect_ms = 120000, quiet_ms = 10 }
slots.check = false
claims = {}
";
const WITH_FLAWS: &str = "patterns.common = { valid = 4, no-start = 1, malformed = 4 }";
const MIXED: &str = "patterns.common = { valid = 1, mixed-transports = 1 }";
/// Runs at a time.
const AT_A_TIME: usize = 6;

fn run(endpoints: &Endpoints, model: &str, by: Transport, more: &str) -> Result<Summary, RunError> {
    let source = Source::from_text("test", &format!("target.model = '{model}'\n{SCENARIO}{more}"));
    let overrides = Overrides { endpoint: Some(endpoints.clone()), transport: Some(by), ..Overrides::default() };
    let scenario = Scenario::resolve(&source, overrides).expect("a scenario");
    let seed = Seed(11);
    let result = run_alone(Setup::new(scenario.clone(), seed))?;
    let (scenario_name, replay) = (String::new(), String::new());
    Ok(Summary { scenario, scenario_name, seed, replay, embedded: None, result })
}

fn assert_valid(endpoints: &Endpoints, model: &str, by: Transport, more: &str) {
    let summary = run(endpoints, model, by, more).unwrap_or_else(|error| panic!("{model} by {by}: {error}"));
    let accused: Vec<_> = summary.result.violations.iter().map(describe).collect();
    let total = summary.result.tally.total();
    let is_right = summary.verdict() == Verdict::Valid && total.completed > 30;
    assert!(is_right, "{model} by {by}: {accused:?} {:?} {total:?}", summary.doubts());
}

fn server(faults: &[Planted]) -> Server {
    let models = ModelOptions {
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_secs(60),
        execution: Duration::ZERO,
        ..ModelOptions::default()
    };
    reference_server(models, faults)
}

fn of_both(server: &Server) -> Endpoints {
    Endpoints::of_both(server.address, server.http)
}

#[test]
fn a_correct_server_is_not_accused_with_any_type_over_any_transport() {
    let server = server(&[]);
    travels_over_every_transport(&of_both(&server), str::to_owned);
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn the_real_server_is_not_accused_with_any_type_over_any_transport() {
    let triton = Triton::native();
    // No sequence goes idle, however slow the machine is.
    travels_over_every_transport(&triton.endpoints(), |name| {
        triton.load(&Own { execute_ms: 0, idle_ms: 60_000, ..Own::like(name) })
    });
}

/// Runs on the models that `model` gives of a name.
fn travels_over_every_transport(endpoints: &Endpoints, model: impl Fn(&str) -> String + Sync) {
    let types: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
    side_by_side(AT_A_TIME, &types, |name| {
        let model = model(&format!("custom_sequence_{name}"));
        for by in Transport::ALL {
            if (*name, by) != ("float16", Transport::Http) {
                assert_valid(endpoints, &model, by, WITH_FLAWS);
            }
        }
        if ["int8", "uint16", "object"].contains(name) {
            assert_valid(endpoints, &model, Transport::GrpcUnary, MIXED);
        }
    });
}

#[test]
fn a_wrong_sum_is_found_with_each_of_the_small_types_over_each_transport() {
    let rows: Vec<_> = ["int8", "int16", "uint8", "uint16", "float16"]
        .into_iter()
        .flat_map(|name| Transport::ALL.map(|by| (name, by)))
        .filter(|row| *row != ("float16", Transport::Http))
        .collect();
    side_by_side(AT_A_TIME, &rows, |&(name, by)| {
        let server = server(&["off-by-one:once@30".parse().expect("a fault")]);
        let model = format!("custom_sequence_{name}");
        let result = run(&of_both(&server), &model, by, WITH_FLAWS).expect("it can be tested").result;
        let kinds: Vec<_> = result.violations.iter().map(|violation| violation.kind).collect();
        assert!(!kinds.is_empty(), "{model} by {by}");
        assert!(kinds.iter().all(|kind| *kind == ViolationKind::WrongSum), "{model} by {by}: {:?}", result.violations);
    });
}

#[test]
fn what_is_in_no_json_or_would_be_rounded_is_rejected_before_anything_is_sent() {
    let server = server(&[]);
    let rejected = |model: &str, by: Transport, more: &str| {
        let error = run(&of_both(&server), model, by, more).expect_err("it is rejected").to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let fp16 = "custom_sequence_float16";
    for (model, by, more, expected) in [
        (
            fp16,
            Transport::Http,
            WITH_FLAWS,
            "takes FP16, which HTTP has as bytes alone: --transport http-binary (sending.transport)",
        ),
        (
            fp16,
            Transport::GrpcUnary,
            MIXED,
            "takes FP16, which HTTP has as bytes alone, and pattern 'mixed-transports' sends it in JSON, too: leave the pattern out",
        ),
        (
            fp16,
            Transport::GrpcStream,
            "patterns.common = { valid = 1 }\n[[population]]\nname = 'long'\nlength = { min = 1, max = 513, constant = 3 }",
            "sums over 513 steps are not exact in FP16: set a smaller length.max, or take a model of another type",
        ),
        (
            "custom_dyna_sequence_float16",
            Transport::GrpcStream,
            "patterns.common = { valid = 1 }\ncorrelation_ids = { first = 1000, block = 100 }",
            "adds the correlation ID, and up to 1299 that is not exact in FP16: set a smaller correlation_ids.first \
             or correlation_ids.block, or take a model of another type",
        ),
    ] {
        let said = rejected(model, by, more);
        assert!(said.contains(expected), "{said}");
    }
}

/// A model as it is for the `PyTorch` backend, which knows tensors by their places alone.
fn write_counted(folder: &Path, name: &str, oldest: bool, state: bool) {
    let controls =
        if oldest { ["START__1", "END__2", "READY__3", "CORRID__4"] } else { ["START__1", "", "READY__2", ""] };
    let kind = |name: &str| format!("kind: CONTROL_SEQUENCE_{}", name.split("__").next().expect("a name"));
    let control = |name: &&str| {
        let values = if name.starts_with("CORRID") { "data_type: TYPE_INT64" } else { "int32_false_true: [ 0, 1 ]" };
        format!("{{ name: '{name}' control [ {{ {} {values} }} ] }}", kind(name))
    };
    let controls: Vec<_> = controls.iter().filter(|name| !name.is_empty()).map(control).collect();
    let state = if state {
        "state [ { input_name: 'INPUT_STATE__1' output_name: 'OUTPUT_STATE__1' data_type: TYPE_INT32 dims: [ 1 ] } ]"
    } else {
        ""
    };
    let config = format!(
        "name: '{name}' backend: 'pytorch' max_batch_size: 4\n\
         input [ {{ name: 'INPUT__0' data_type: TYPE_INT32 dims: [ 1 ] }} ]\n\
         output [ {{ name: 'OUTPUT__0' data_type: TYPE_INT32 dims: [ 1 ] }} ]\n\
         sequence_batching {{ max_sequence_idle_microseconds: 60000000 {} {{ }} control_input [ {} ] {state} }}\n",
        if oldest { "oldest" } else { "direct" },
        controls.join(", ")
    );
    fs::create_dir_all(folder.join(name).join("1")).expect("a folder");
    fs::write(folder.join(name).join("config.pbtxt"), config).expect("a file");
}

const COUNTED: [(&str, bool, bool); 3] = [
    ("libtorch_sequence_int32", false, false),
    ("libtorch_dyna_sequence_int32", true, false),
    ("libtorch_implicit_sequence_int32", false, true),
];

#[test]
fn tensors_may_have_any_names_over_every_transport() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, oldest, state) in COUNTED {
        write_counted(folder.path(), name, oldest, state);
    }
    let path = folder.path().to_str().expect("UTF-8");
    let serve = |fault: &[&str]| Serve::start(&[&["--model-repository", path], fault].concat());
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let right = serve(&[]);
    let wrong = serve(&["--fault", "off-by-one"]);
    for (name, ..) in COUNTED {
        for by in Transport::ALL {
            let endpoints = Endpoints::of_both(address(&right.address), address(&right.http));
            assert_valid(&endpoints, name, by, WITH_FLAWS);
            let endpoints = Endpoints::of_both(address(&wrong.address), address(&wrong.http));
            let result = run(&endpoints, name, by, WITH_FLAWS).expect("it can be tested").result;
            let kinds = result.violations.iter().map(|violation| violation.kind);
            let wrong_sums = kinds.filter(|kind| *kind == ViolationKind::WrongSum).count();
            assert!(wrong_sums > 0, "{name} by {by}: {:?}", result.violations);
        }
    }
}

#[test]
fn a_script_of_a_failure_says_the_small_types_and_the_tensors_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("failure.toml");
    let failure = file.to_str().expect("UTF-8");
    let run = |arguments: &[&str]| {
        let output = tool().args(arguments).output().expect("it runs");
        (output.status.code(), text(&output))
    };
    for name in ["int8", "float16"] {
        let model = format!("custom_sequence_{name}");
        let stress =
            ["--embedded", "-q", "-t", "2", "-i", "10", "-r", "3", "-m", &model, "--fault", "off-by-one:once@40"];
        let (code, said) = run(&[&stress[..], &["--failure", failure]].concat());
        assert_eq!(code, Some(1), "{said}");
        let (code, said) = run(&["replay", failure]);
        assert!(code == Some(1) && said.contains("failed in 1 of 1 run"), "{said}");
        let (code, said) = run(&["export", failure]);
        assert!(
            code == Some(0) && said.contains(&format!("value, \"{name}\"")) && said.contains(", expect="),
            "{said}"
        );
        fs::remove_file(&file).expect("it was written");
    }
}

#[test]
fn a_suite_goes_on_behind_a_scenario_whose_sums_would_be_rounded() {
    let suite = ["suite", "--embedded", "-q", "-r", "1", "--only", "soak,ordering", "-m", "custom_sequence_float16"];
    let output = tool().args(suite).output().expect("it runs");
    let said = text(&output);
    let line =
        |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{said}")).to_owned();
    assert!(line("soak ").contains("skipped"), "{said}");
    assert!(unwrapped(&said).contains("sums over 400 steps are not exact in FP16"), "{said}");
    assert!(line("ordering ").contains(" valid "), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}
