//! Runs of the client on every data type, strategy and way to keep state: none is accused, the answers are judged, and what is wrong
//! is found whatever the numbers are.

mod support;

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use sequence_stress::{
    engine::{RunError, Setup},
    model::Strategy,
    oracle::ViolationKind,
    reference::{Fault, ModelOptions, Planted, model_names},
    report::{Summary, Verdict},
    scenario::Scenario,
    seed::Seed,
};
use support::{
    runs::{reference_server, run_alone, scenario_at},
    tool::tool,
    triton::{Triton, text},
};

/// Values of all sizes, which wrap around in each type of whole numbers; too few passes for what the default scenario claims, and
/// nothing that waits for the idle limit at its end.
const SCENARIO: &str = "
load = { workers = 3, iterations = 5 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
length = { min = 1, max = 8, constant = 6 }
values.uniform = { min = -9223372036854775808, max = 9223372036854775807 }
limits = { settle_ms = 100, quiet_ms = 10 }
slots.check = false
claims = {}
";
/// For models whose shape leaves it open.
const SEVERAL: &str = "values.elements = { min = 1, max = 16 }";
/// Runs at a time: most of a run is waiting.
const AT_A_TIME: usize = 12;
const TYPES: [&str; 13] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "object", "bool",
];

fn scenario(address: SocketAddr, model: &str, more: &str) -> Scenario {
    scenario_at(address, &format!("{SCENARIO}{more}\ntarget.model = '{model}'"))
}

fn run(address: SocketAddr, model: &str, more: &str) -> Result<Summary, RunError> {
    let (scenario, seed) = (scenario(address, model, more), Seed(7));
    let result = run_alone(Setup::new(scenario.clone(), seed))?;
    let (scenario_name, replay) = (String::new(), String::new());
    Ok(Summary { scenario, scenario_name, seed, replay, embedded: None, result })
}

/// What has a state of a fixed shape, or none, takes one element.
fn takes_one_element(model: &str) -> bool {
    model.starts_with("implicit") || model.starts_with("stateless")
}

/// What gets other than one answer to a request is not for this test.
fn answers_once(model: &str) -> bool {
    !model.starts_with("decoupled") && !model.starts_with("iterative")
}

/// What is not as it has to be with a correct server.
fn problem(model: &str, summary: Result<Summary, RunError>) -> Option<String> {
    let summary = match summary {
        Ok(summary) => summary,
        Err(error) => return Some(format!("{model}: {error}")),
    };
    let total = summary.result.tally.total();
    let accused: Vec<_> = summary.result.violations.iter().map(ToString::to_string).collect();
    // Some may be undetermined where the process is held up for as long as the idle limit.
    let is_judged = total.completed > 40 && total.undetermined * 10 < total.completed;
    let is_right = summary.verdict() == Verdict::Valid && is_judged;
    (!is_right).then(|| format!("{model}: {accused:?} {:?} {total:?}", summary.doubts()))
}

/// Does it with each of them, several at a time, and collects what comes of it.
fn with_each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
                    let result = work(item);
                    found.lock().expect("no thread panics with it").extend(result);
                }
            });
        }
    });
    found.into_inner().expect("all threads are done")
}

fn models(strategy: Strategy) -> ModelOptions {
    ModelOptions {
        strategy,
        max_batch_size: 4,
        candidates: 4,
        idle_limit: Duration::from_millis(300),
        execution: Duration::ZERO,
        ..ModelOptions::default()
    }
}

#[test]
fn no_model_of_the_reference_server_is_accused_under_either_strategy() {
    for strategy in [Strategy::Direct, Strategy::Oldest] {
        let server = reference_server(models(strategy), &[]);
        let names: Vec<_> = model_names().filter(|name| answers_once(name)).collect();
        assert_eq!(names.len(), 11 * TYPES.len());
        let problems = with_each(&names, |model| {
            let more = if takes_one_element(model) { "" } else { SEVERAL };
            problem(model, run(server.address, model, more))
        });
        assert!(problems.is_empty(), "{strategy}: {problems:#?}");
    }
}

#[test]
fn what_is_wrong_with_one_answer_or_one_element_is_found_with_each_type() {
    for (fault, at, families) in [
        (Fault::OffByOne, 40, &["custom", "custom_dyna", "implicit", "stateless", "stateless_dyna"][..]),
        (Fault::WrongElement, 30, &["custom"]),
    ] {
        let of_each_type = |family: &&str| TYPES.map(|name| format!("{family}_sequence_{name}"));
        let names: Vec<_> = families.iter().flat_map(of_each_type).collect();
        let problems = with_each(&names, |model| {
            let server = reference_server(models(Strategy::Direct), &[Planted::once(fault, at)]);
            let more = if takes_one_element(model) { "" } else { SEVERAL };
            let result = run(server.address, model, more).expect("it can be tested").result;
            let kinds: BTreeSet<_> = result.violations.iter().map(|violation| violation.kind).collect();
            (kinds != [ViolationKind::WrongSum].into()).then(|| format!("{fault} {model}: {:?}", result.violations))
        });
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

#[test]
fn a_model_is_not_sent_elements_that_it_does_not_take() {
    let server = reference_server(models(Strategy::Direct), &[]);
    let refused = run(server.address, "implicit_sequence_int64", SEVERAL).expect_err("its shape is fixed").to_string();
    let expected = "model 'implicit_sequence_int64' takes INPUT INT64[-1, 1], which are always 1 elements, and values.elements \
        asks for 1 to 16: leave it out, or take a model with an open dimension (-m)";
    assert!(refused.contains(expected) && refused.lines().count() == 1, "{refused}");
    let one = run(server.address, "implicit_sequence_int64", "values.elements = { min = 1, max = 1 }");
    assert_eq!(problem("implicit_sequence_int64", one), None);
}

#[test]
fn histories_and_failure_files_tell_how_many_elements_there_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [scenario, history, failure] = ["s.toml", "h.jsonl", "f.toml"].map(path);
    fs::write(&scenario, format!("{SCENARIO}values.elements = {{ min = 2, max = 9 }}")).expect("a file");
    let run = |arguments: &[&str]| {
        let output = tool().args(arguments).output().expect("it runs");
        (output.status.code(), text(&output))
    };
    let stress = ["--embedded", "-q", "-r", "3", "--scenario", &scenario, "-m", "custom_sequence_uint64"];
    let (code, said) =
        run(&[&stress[..], &["--fault", "wrong-element", "--history", &history, "--failure", &failure]].concat());
    assert!(code == Some(1) && said.contains(" in element "), "{said}");
    let (code, said) = run(&["check", &history]);
    assert!(code == Some(1) && said.contains(" in element ") && !said.contains("wrong-output"), "{said}");
    let acts = fs::read_to_string(&failure).expect("a file");
    assert!(acts.contains(" elements\""), "{acts}");
    let (code, said) = run(&["replay", &failure]);
    assert!(code == Some(1) && said.contains("failed in 1 of 1 run"), "{said}");
    let (code, said) = run(&["export", &failure]);
    assert!(code == Some(0) && said.contains(", size="), "{said}");
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn no_native_model_of_the_real_server_is_accused() {
    none_is_accused(&["--dtype", "all"], 16 * TYPES.len());
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn no_python_model_of_small_types_is_accused() {
    let dtypes = ["int8", "int16", "uint8", "uint16", "float16"].map(|name| ["--dtype", name]).concat();
    none_is_accused(&[&["--python"], &dtypes[..]].concat(), 5 * 7);
}

/// The models that the real server has with these options, at least so many.
fn none_is_accused(options: &[&str], least: usize) {
    let usual = ["--execute-delay-ms", "0", "--idle-limit-ms", "300", "--time-limit", "400"];
    let triton = Triton::start(&[&usual, options].concat());
    let address: SocketAddr = triton.grpc.parse().expect("an address");
    let (_, index) = triton.ask("POST", "/v2/repository/index", &serde_json::Value::Null);
    let all = index.as_array().expect("a list").iter().filter_map(|model| model["name"].as_str());
    let names: Vec<_> = all.filter(|name| answers_once(name)).collect();
    assert!(names.len() > least, "{names:?}");
    let problems = with_each(&names, |model| {
        let more = if takes_one_element(model) { "" } else { SEVERAL };
        problem(model, run(address, model, more))
    });
    assert!(problems.is_empty(), "{problems:#?}");
    triton.stop();
}
