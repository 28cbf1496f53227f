//! Runs of the client on every data type, strategy and way to keep state: none is accused, the answers are judged, and what is wrong
//! is found whatever the numbers are.

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

use models::{Backend, Dtype, Form, Matrix, Options};
use oracle::ViolationKind;
use reference::{Fault, ModelOptions, Planted, model_names};
use sequence_stress::{
    report::{Summary, Verdict, describe},
    run::{RunError, Setup},
};
use workload::{model::Strategy, scenario::Scenario, seed::Seed};

use crate::support::{
    long::rounds,
    runs::{reference_server, run_alone, scenario_at},
    tool::tool,
    triton::{Own, Triton, text},
};

/// Values of all sizes, which wrap around in each type of whole numbers; too few iterations for what the default scenario claims, and
/// nothing that waits for the idle limit at its end.
const SCENARIO: &str = "
load = { workers = 3, iterations = 5 }
contexts = { common = 2, rare = 0, rare_probability = 0 }
length = { min = 1, max = 8, constant = 6 }
values.uniform = { min = -9223372036854775808, max = 9223372036854775807 }
limits = { lost_after_ms = 120000, connect_ms = 120000, quiet_ms = 10 }
slots.check = false
claims = {}
";
/// For models whose shape leaves it open.
const SEVERAL: &str = "values.elements = { min = 1, max = 16 }";
/// Runs at a time: most of a run is waiting.
const AT_A_TIME: usize = 6;
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
    ["implicit", "twin", "triple", "stateless"].iter().any(|family| model.starts_with(family))
}

/// What gets other than one answer to a request is not for this test, and ensembles have tests of their own.
fn answers_once(model: &str) -> bool {
    !["decoupled", "iterative", "ensemble"].iter().any(|family| model.starts_with(family))
}

/// What is not as it has to be with a correct server.
fn problem(model: &str, summary: Result<Summary, RunError>) -> Option<String> {
    let summary = match summary {
        Ok(summary) => summary,
        Err(error) => return Some(format!("{model}: {error}")),
    };
    let total = summary.result.tally.total();
    let accused: Vec<_> = summary.result.violations.iter().map(describe).collect();
    // Some may be unjudged where the process is held up for as long as the idle limit.
    let is_judged = total.completed > 40 && total.unjudged * 10 < total.completed;
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
        idle_limit: Duration::from_secs(10),
        execution: Duration::ZERO,
        ..ModelOptions::default()
    }
}

/// Of all models of all data types, `all` has a family after the other: every `nth`, so that each family and each type has some.
fn thinned(all: &[String], nth: usize) -> Vec<String> {
    let position = |name: &String| {
        let dtype = name.rsplit('_').next();
        TYPES.iter().position(|of| Some(*of) == dtype).expect("names end in a data type")
    };
    let mut families: Vec<_> = all.iter().map(|name| family(name)).collect();
    families.sort_unstable();
    families.dedup();
    let is_taken = |name: &String| {
        let family = families.binary_search(&family(name)).expect("it is one of them");
        (family + position(name)).is_multiple_of(nth)
    };
    let thinned: Vec<_> = all.iter().filter(|name| is_taken(name)).cloned().collect();
    assert!(families.iter().all(|of| thinned.iter().any(|name| family(name) == *of)), "{thinned:?}");
    assert!((0..TYPES.len()).all(|of| thinned.iter().any(|name| position(name) == of)), "{thinned:?}");
    thinned
}

/// A model's name without its data type.
fn family(name: &str) -> &str {
    name.rsplit_once('_').expect("names end in a data type").0
}

#[test]
fn no_model_of_the_reference_server_is_accused_under_either_strategy() {
    let names: Vec<_> = model_names().filter(|name| answers_once(name)).map(str::to_owned).collect();
    assert_eq!(names.len(), 17 * TYPES.len());
    let names = thinned(&names, rounds(4, 1));
    for strategy in [Strategy::Direct, Strategy::Oldest] {
        let server = reference_server(models(strategy), &[]);
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
    let rejected = run(server.address, "implicit_sequence_int64", SEVERAL).expect_err("its shape is fixed").to_string();
    let expected = "model 'implicit_sequence_int64' takes INPUT INT64[-1, 1], always of 1 element, and values.elements \
        asks for 1 to 16: leave it out, or take a model with an open dimension (-m)";
    assert!(rejected.contains(expected) && rejected.lines().count() == 1, "{rejected}");
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
    assert!(code == Some(0) && said.contains(".send(["), "{said}");
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn no_native_model_of_the_real_server_is_accused() {
    none_is_accused(&Triton::native(), &thinned(&built_in(Backend::Native, &TYPES), rounds(4, 1)));
}

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn no_python_model_of_small_types_is_accused() {
    let small = ["int8", "int16", "uint8", "uint16", "float16"];
    let all = built_in(Backend::Python, &small);
    // Each model is a process, so that the gate has every family once and every type once.
    let index = |name: &String| small.iter().position(|dtype| name.ends_with(&format!("_{dtype}")));
    let mut families: Vec<_> = all.iter().map(|name| family(name)).collect();
    families.dedup();
    let place = |name: &String| families.iter().position(|of| family(name) == *of);
    let is_of_gate = |name: &String| place(name).is_some_and(|place| Some(place % small.len()) == index(name));
    none_is_accused(
        &Triton::python(),
        &rounds(all.iter().filter(|name| is_of_gate(name)).cloned().collect(), all.clone()),
    );
}

/// The models of `with-triton` of these data types that answer a request once, a family after the other.
fn built_in(backend: Backend, dtypes: &[&str]) -> Vec<String> {
    let dtypes = Dtype::ALL.iter().copied().filter(|dtype| dtypes.contains(&dtype.name())).collect();
    let prefix = (backend == Backend::Python).then(|| "custom".to_owned());
    let options = Options { prefix, ..Options::default() };
    let matrix = Matrix { backends: vec![backend], dtypes, forms: Form::of_tester(), options };
    let made = matrix.make().expect("the models can be made").models;
    let mut names: Vec<_> = made.into_iter().map(|made| made.name).filter(|name| answers_once(name)).collect();
    names.sort_by(|one, other| family(one).cmp(family(other)));
    names
}

/// Each of the models, of a test's own.
fn none_is_accused(triton: &Triton, names: &[String]) {
    let problems = with_each(names, |name| {
        let more = if takes_one_element(name) { "" } else { SEVERAL };
        let model = triton.load(&Own { execute_ms: 0, idle_ms: 10_000, ..Own::like(name) });
        problem(&model, run(triton.address(), &model, more))
    });
    assert!(problems.is_empty(), "{problems:#?}");
}
