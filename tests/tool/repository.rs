//! `sequence-stress repository`: what it writes, what it rejects, and that what it writes can be served.

mod plans;
mod states;

use crate::support::runs;
use crate::support::tool;
use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use reference::{Models, Options, Server};
use sequence_stress::run::Setup;
use tempfile::TempDir;
use workload::scenario::{Overrides, Scenario, Source};

/// What a run of the short form of the default scenario claims of itself with this seed.
const SEED: u64 = 8;
const AT_A_TIME: usize = 12;

fn repository(words: &[&str]) -> Output {
    tool::tool().arg("repository").args(words).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What it prints where it does what it is told.
fn done(words: &[&str]) -> (String, String) {
    let output = repository(words);
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?}: {errors}");
    (out, errors)
}

/// The one line that it says where it does not.
fn rejected(words: &[&str]) -> String {
    let output = repository(words);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
    assert_eq!(text(&output.stdout), "", "{words:?}");
    let first = errors.lines().next().unwrap_or_default().to_owned();
    assert_eq!(errors.lines().count(), 1, "{words:?}: {errors}");
    first
}

/// A folder's files by their names within it, and its empty folders.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn collect(folder: &Path, under: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        let mut is_empty = true;
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            is_empty = false;
            let name = format!("{under}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                collect(&entry.path(), &name, found);
            } else {
                found.insert(name, fs::read(entry.path()).expect("a file"));
            }
        }
        if is_empty {
            found.insert(format!("{under}/"), Vec::new());
        }
    }
    let mut found = BTreeMap::new();
    collect(folder, "", &mut found);
    found
}

/// A folder that is not there yet, within one that goes in the end.
struct Target {
    within: TempDir,
    path: String,
}

impl Target {
    fn new() -> Self {
        let within = tempfile::tempdir().expect("a folder");
        let path = within.path().join("models").to_str().expect("UTF-8").to_owned();
        Self { within, path }
    }

    fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.within.path()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

#[test]
fn names_tensors_and_controls_are_those_of_tritons_own() {
    let target = Target::new();
    done(&[&target.path, "--dtype", "int32,object", "--all"]);
    let files = files(Path::new(&target.path));
    let config = |model: &str| {
        let config = files.get(&format!("/{model}/config.pbtxt")).unwrap_or_else(|| panic!("there is no {model}"));
        text(config)
    };
    for (model, expected) in [
        (
            "onnx_sequence_int32",
            &[
                "backend: \"onnxruntime\"",
                "max_batch_size: 8",
                "max_sequence_idle_microseconds: 5000000",
                "ready-times-input-plus-start\"",
                "input { name: \"INPUT\" data_type: TYPE_INT32 dims: [ 1 ] }",
                "{ name: \"START\" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }",
            ][..],
        ),
        (
            "openvino_nobatch_dyna_sequence_int32",
            &["max_batch_size: 0", "\"END\"", "\"CORRID\"", "TYPE_UINT64", "oldest"],
        ),
        ("libtorch_sequence_int32", &["INPUT__0", "START__1", "READY__2", "OUTPUT__0", "\"running-sum\""]),
        ("libtorch_implicit_sequence_int32", &["INPUT_STATE__1", "START__2", "READY__3", "OUTPUT_STATE__1"]),
        ("savedmodel_variable_sequence_object", &["dims: [ -1 ]", "TYPE_STRING", "tensorflow_savedmodel"]),
        ("graphdef_implicit_dyna_sequence_int32", &["INPUT_STATE", "OUTPUT_STATE", "\"CORRID\"", "\"running-sum\""]),
        (
            "plan_variable_sequence_int32",
            &["# trtexec --onnx=1/model.onnx", "KIND_GPU", "--maxShapes=INPUT:8x32,START:8x1"],
        ),
        ("python_dyna_sequence_int32", &["plus-corrid-at-end", "execute_delay_ms\" value { string_value: \"3\" }"]),
        ("custom_dyna_sequence_int32", &["sequence_stress", "running-sum-plus-corrid-at-end", "dims: [ -1 ]"]),
    ] {
        let config = config(model);
        for expected in expected {
            assert!(config.contains(expected), "{model} has no {expected}:\n{config}");
        }
    }
    for file in [
        "/onnx_sequence_int32/1/model.onnx",
        "/openvino_sequence_int32/1/model.xml",
        "/openvino_sequence_int32/1/model.bin",
        "/libtorch_sequence_int32/1/model.pt",
        "/savedmodel_sequence_int32/1/model.savedmodel/saved_model.pb",
        "/graphdef_sequence_int32/1/model.graphdef",
        "/plan_sequence_int32/1/model.onnx",
        "/python_sequence_int32/1/model.py",
        "/custom_sequence_int32/1/",
    ] {
        assert!(files.contains_key(file), "there is no {file}");
    }
}

#[test]
fn the_same_options_write_the_same_bytes_and_list_what_is_written() {
    let words = ["--all", "--idle-limit", "200ms"];
    let (one, other) = (Target::new(), Target::new());
    let (told, left_out) = done(&[&[&*one.path][..], &words].concat());
    done(&[&[&*other.path][..], &words].concat());
    let written = files(Path::new(&one.path));
    assert!(written == files(Path::new(&other.path)), "two runs differ");
    assert_eq!(one.entries(), ["models"], "nothing else is left");

    let (listed, reasons) = done(&[&["--list"][..], &words].concat());
    let listed: Vec<_> = listed.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
    let mut names: Vec<_> = written.keys().filter_map(|name| name.strip_suffix("/config.pbtxt")).collect();
    names.sort_unstable();
    assert_eq!(listed, names.iter().map(|name| &name[1..]).collect::<Vec<_>>());
    assert!(told.starts_with(&format!("wrote {} models", listed.len())), "{told}");
    assert!(left_out.starts_with(&reasons), "{left_out}\n{reasons}");
    assert!(reasons.lines().all(|line| line.starts_with("sequence-stress: left out: ")), "{reasons}");
}

#[test]
fn what_is_given_is_in_the_configurations() {
    const EXPECTED: [&str; 9] = [
        "count: 3",
        "max_batch_size: 5",
        "max_candidate_sequences: 7",
        "max_sequence_idle_microseconds: 200000",
        "max_queue_delay_microseconds: 2000",
        "preferred_batch_size: [ 2, 4 ]",
        "fp32_false_true: [ 0.0, 1.0 ]",
        "{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING }",
        "{ key: \"note\" value { string_value: \"any\" } }",
    ];
    let options = "--family dyna_sequence --dtype float32 --instances 3 --max-batch-size 5 --candidates 7 --idle-limit 200ms \
                   --queue-delay 2ms --preferred-batch-size 2,4 --control fp32 --corrid string --execution-ms 9 \
                   --parameter note=any --prefix mine";
    for (backend, own) in
        [("native", "{ key: \"execute_delay_ms\" value { string_value: \"9\" } }"), ("onnxruntime", "dims: [ 1 ]")]
    {
        let target = Target::new();
        let options = format!("--backend {backend} {options}");
        done(&[&[&*target.path][..], &options.split_whitespace().collect::<Vec<_>>()].concat());
        let config = text(&files(Path::new(&target.path))["/mine_dyna_sequence_float32/config.pbtxt"]);
        for expected in EXPECTED.iter().chain([&own]) {
            assert!(config.contains(expected), "there is no {expected}:\n{config}");
        }
    }
    let direct = ["--strategy", "direct", "--minimum-slot-utilization", "0.5", "--backend", "onnxruntime"];
    let target = Target::new();
    done(&[&[&*target.path][..], &direct].concat());
    let files = files(Path::new(&target.path));
    assert!(files.values().all(|file| !text_of(file).contains("oldest")));
    assert!(text(&files["/onnx_dyna_sequence_int32/config.pbtxt"]).contains("minimum_slot_utilization: 0.5"));
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn plain_names_are_those_of_tritons_repositories() {
    let names = |words: &[&str]| {
        let (listed, _) = done(&[&["--list", "--plain-names", "--backend", "onnxruntime,native"][..], words].concat());
        listed.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect::<Vec<_>>()
    };
    let of_triton =
        ["custom_dyna_sequence_int32", "custom_sequence_int32", "onnx_dyna_sequence_int32", "onnx_sequence_int32"];
    assert_eq!(names(&["--family", "implicit,dyna_implicit", "--initial-state", "zero"]), of_triton);
    assert_eq!(names(&["--family", "sequence,dyna_sequence"]), of_triton);
    assert_eq!(
        names(&["--family", "implicit", "--nobatch"]),
        ["custom_nobatch_sequence_int32", "onnx_nobatch_sequence_int32"]
    );
}

#[test]
fn what_there_is_not_is_rejected_in_a_line_and_nothing_is_left() {
    for (words, expected) in [
        (&["--backend", "caffe2"][..], "give one of onnxruntime, openvino, pytorch"),
        (&["--family", "stack"], "give one of sequence, dyna_sequence"),
        (&["--dtype", "int33"], "give one of int8"),
        (&["--backend", "python", "--family", "implicit"], "Triton's Python backend lets no model have state"),
        (&["--backend", "openvino", "--dtype", "int64"], "OpenVINO's CPU plugin computes in 32 bits"),
        (&["--backend", "openvino", "--dtype", "object"], "neither read nor write numbers as texts"),
        (&["--backend", "openvino", "--family", "sequence", "--strategy", "oldest"], "no row of its own"),
        (&["--backend", "onnxruntime", "--family", "echo"], "family echo is of the native backend alone"),
        (&["--backend", "onnxruntime", "--family", "two_state_crossed"], "is of the native backend alone"),
        (
            &["--backend", "native", "--family", "two_state", "--initial-state", "file"],
            "a file is for states that hold the sum",
        ),
        (&["--backend", "onnxruntime", "--family", "oldest"], "of the native backend and the Python one alone"),
        (&["--backend", "pytorch", "--family", "dyna_sequence", "--corrid", "uint64"], "UINT64"),
        (&["--backend", "graphdef", "--family", "sequence", "--initial-state", "file"], "they keep nothing"),
        (&["--backend", "native", "--family", "sequence", "--single-buffer"], "for state that the server keeps"),
        (&["--backend", "native", "--dtype", "bool", "--control", "int32"], "controls of BOOL"),
        (&["--backend", "savedmodel", "--release", "25.03"], "servers after 25.02 have no such backend"),
        (&["--backend", "native", "--family", "iterative", "--release", "23.10"], "servers before 24.01"),
        (&["--release", "latest"], "such as 24.10"),
        (&["--backend", "tensorrt", "--dtype", "uint64"], "no plans of UINT64 are written for TensorRT"),
        (&["--prefix", "a/b"], "'/' stands in it"),
        (&["--prefix", ".hidden"], "begin with no '.'"),
        (&["--prefix", "mine"], "two models would be called 'mine_"),
        (&["--plain-names", "--backend", "native"], "two models would be called 'custom_"),
        (&["--preferred-batch-size", "9"], "none above --max-batch-size, which is 8"),
        (&["--initial-state-file", "/dev/null"], "is for --initial-state file"),
        (&["--initial-state", "file", "--initial-state-file", "/nowhere"], "cannot read '/nowhere'"),
        (&["--tester", "--family", "sequence"], "cannot be used with"),
        (&["--max-batch-size", "0"], "give a whole number, 1 or more"),
        (&["--parameter", "novalue"], "NAME=VALUE"),
        (&["--parameter", "sequence_stress_formula=running-sum"], "configurations say that themselves"),
        (&["--parameter", "note=1", "--parameter", "note=2"], "is given twice"),
        (&["--instances", "4294967295"], "a model may have 65536"),
        (&["--candidates", "65537"], "come to 65537 slots"),
        (&["--tester", "--backend", "onnxruntime"], "--tester is of one backend"),
        (&["--release", "24.13"], "such as 24.10"),
        (&["--prefix", "a\nb"], "called 'a\\nb_"),
    ] {
        let target = Target::new();
        let line = rejected(&[&[&*target.path][..], words].concat());
        assert!(line.contains(expected), "{words:?}: {line}");
        assert_eq!(target.entries(), [""; 0], "{words:?}");
    }
    assert!(rejected(&[]).contains("required"), "a folder is wanted");
}

#[test]
fn flags_that_no_model_needs_are_said_and_those_that_one_needs_are_not() {
    let said =
        |words: &[&str]| done(&[&["--list", "--backend", "onnxruntime", "--candidates", "3"][..], words].concat()).1;
    let line = said(&["--family", "sequence"]);
    assert!(line.contains("--candidates does nothing here: it is for Oldest") && line.lines().count() == 1, "{line}");
    assert_eq!(said(&["--family", "sequence,dyna_sequence"]), "");
    let line = said(&["--family", "dyna_sequence", "--minimum-slot-utilization", "0.5"]);
    assert!(line.contains("--minimum-slot-utilization does nothing here: it is for Direct"), "{line}");
}

#[test]
fn nothing_goes_by_a_place_in_the_batch_where_that_is_no_slot() {
    let target = Target::new();
    done(&[&target.path, "--backend", "native", "--family", "echo", "--strategy", "oldest"]);
    let config = text(&files(Path::new(&target.path))["/echo_sequence_int32/config.pbtxt"]);
    assert!(!config.contains("state_key"), "{config}");
}

#[test]
fn a_folder_that_holds_something_is_left_alone_unless_forced() {
    let one = ["--backend", "native", "--family", "sequence"];
    let target = Target::new();
    let words = [&[&*target.path][..], &one].concat();
    fs::create_dir(&target.path).expect("an empty folder");
    done(&words);
    let line = rejected(&words);
    assert!(line.contains("exists and is not empty") && line.contains("--force"), "{line}");

    let model = Path::new(&target.path).join("custom_sequence_int32");
    fs::write(model.join("1/of-before"), "").expect("it is written");
    fs::create_dir(Path::new(&target.path).join("mine")).expect("it is made");
    done(&[&words[..], &["--force", "--instances", "2"]].concat());
    let files = files(Path::new(&target.path));
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["/custom_sequence_int32/1/", "/custom_sequence_int32/config.pbtxt", "/mine/"]
    );
    assert!(text(&files["/custom_sequence_int32/config.pbtxt"]).contains("count: 2"));
    assert_eq!(target.entries(), ["models"]);

    let other = Path::new(&target.path).join("custom_sequence_int64");
    fs::write(&other, "mine").expect("it is written");
    let line = rejected(&[&words[..], &["--force", "--dtype", "int64"]].concat());
    assert!(line.contains("custom_sequence_int64' is no folder") && other.is_file(), "{line}");
    let dangling = target.within.path().join("link");
    std::os::unix::fs::symlink("/nowhere", &dangling).expect("it is made");
    assert!(rejected(&[&[dangling.to_str().expect("UTF-8")][..], &one].concat()).contains("is a link to nothing"));

    let file = target.within.path().join("file");
    fs::write(&file, "kept").expect("it is written");
    let file = file.to_str().expect("UTF-8");
    assert!(rejected(&[&[file][..], &one].concat()).contains("is a file"));
    let line = rejected(&[&[&*format!("{file}/within")][..], &one].concat());
    assert!(line.contains("cannot write the models into"), "{line}");
    assert_eq!(fs::read_to_string(file).expect("it is there"), "kept");
}

/// The short form of the default scenario on a model of a server; what is wrong with it.
fn run_short(server: &Server, model: &str) -> Result<(), String> {
    let source = Source::named(Path::new("l0-sequence-stress")).expect("it is compiled in");
    let overrides = Overrides {
        endpoint: Some(server.address.into()),
        model: Some(model.to_owned()),
        workers: Some(2.try_into().expect("it is not 0")),
        iterations: Some(10.try_into().expect("it is not 0")),
        ..Overrides::default()
    };
    let scenario = Scenario::resolve(&source, overrides).map_err(|error| error.to_string())?;
    let result =
        runs::run_alone(Setup::new(scenario, workload::seed::Seed(SEED))).map_err(|error| error.to_string())?;
    match &result.violations[..] {
        [] if result.tally.total().completed > 100 => Ok(()),
        [] => Err("next to nothing was answered".to_owned()),
        [violation, ..] => Err(format!("{violation:?}")),
    }
}

#[test]
fn all_of_the_matrix_is_read_back_and_a_part_of_it_is_valid_on_the_reference_server() {
    let target = Target::new();
    let (listed, _) = done(&["--all", "--list"]);
    done(&[&target.path, "--all", "--idle-limit", "200ms"]);
    let models = Models::read(&[target.path.clone().into()]).expect("all are read");
    assert_eq!(models.notes, [""; 0]);
    assert_eq!(models.served.len(), listed.lines().count());
    // Each says of itself what the list says.
    for (line, served) in listed.lines().zip(&models.served) {
        let [name, .., formula] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(served.starts_with(&format!("{name}: {formula} of ")), "{served}: {line}");
    }

    let server = Server::start(Options { repository: Some(models), ..Options::default() }).expect("a free port");
    let of_int32: Vec<_> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| is_tried(name)).collect();
    assert!(of_int32.len() >= 36, "{}", of_int32.len());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(model) = of_int32.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(what) = run_short(&server, model) {
                        wrong.lock().expect("nobody panics with it").push(format!("{model}: {what}"));
                    }
                }
            });
        }
    });
    assert_eq!(*wrong.lock().expect("nobody panics with it"), [""; 0]);
}

/// Every backend and family, and of the types and shapes each once.
fn is_tried(name: &str) -> bool {
    let is_plain = !name.contains("variable") && !name.contains("nobatch");
    name.ends_with("int32") && !name.ends_with("uint32") && is_plain
        || name.starts_with("onnx_sequence") && is_plain
        || name.starts_with("libtorch_") && name.ends_with("object")
        || name.starts_with("openvino_variable_nobatch") && name.ends_with("_bool")
}
