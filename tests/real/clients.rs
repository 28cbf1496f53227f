//! The reference server and clients that others wrote: NVIDIA's Python client, and the C++ `perf_analyzer`.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    http::ask,
    tool::{Serve, tool},
};
use tempfile::TempDir;
use workload::sequence::Flaw;

/// How long a client may take, many times what it does take.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(20);

impl Serve {
    fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("it can be asked").is_none()
    }
}

/// Runs a command to its end within the limit; returns its exit code and all that it printed.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("output");
    let output = fs::File::create(&path).expect("a file");
    let errors = output.try_clone().expect("it can be shared");
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().expect("it runs");
    let began = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            break status.code();
        }
        if began.elapsed() > LIMIT {
            child.kill().expect("it can be ended");
            child.wait().expect("it has ended");
            break None;
        }
        thread::sleep(LOOK);
    };
    (code, String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned())
}

fn told(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("scripts/test tells {name}"))
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn nvidias_python_client_is_served() {
    let mut serve = Serve::start(&["--max-batch-size", "4"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/tritonclient_grpc.py");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    let (code, output) = run(Command::new("python3").arg(script).arg(&serve.address).env("PYTHONPATH", packages));
    assert_eq!((code, output.as_str()), (Some(0), "OK\n"), "{output}");
    assert!(serve.is_running());
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn nvidias_python_client_is_served_over_http() {
    let mut serve = Serve::start(&["--max-batch-size", "4", "--idle-limit", "60s"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/tritonclient_http.py");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    let (code, output) = run(Command::new("python3").arg(script).arg(&serve.http).env("PYTHONPATH", packages));
    assert_eq!((code, output.as_str()), (Some(0), "OK\n"), "{output}");
    assert!(serve.is_running());
}

/// A failure of several streams and connections, all that a client can do to them among it.
const BY_HAND: &str = r#"
format = "sequence-stress-failure"
version = 1
found = "wrong-sum at 1.0 s, worker 0: sent valid step 2/3 value 7; expected 12; saw 8"
kind = "wrong-sum"
seed = 1

[[conversation]]
worker = 0
context = 0
pattern = "valid"
at_us = 0
accused = true
acts = ["send 0 START 5", "await 0", "send 0 7", "send 0 END 1", "await 0", "half-close 0", "close 0"]

[[conversation]]
worker = 1
context = 0
pattern = "valid"
at_us = 20000
acts = ["open 0 over fresh", "send 0 START 1", "await 0", "reset 0", "open 1 over neighbour", "send 1 START 2", "pause 3000 us", "cancel 1"]

[scenario]
target.endpoint = "localhost:8001"
target.model = "custom_sequence_int32"
"#;

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn an_exported_failure_fails_where_a_replay_does() {
    let folder = TempDir::new().expect("a folder");
    let (path, script) = (folder.path().join("failure.toml"), folder.path().join("repeat.py"));
    fs::write(&path, BY_HAND).expect("a file");
    let exported = tool().arg("export").arg(&path).output().expect("it runs");
    fs::write(&script, &exported.stdout).expect("a file");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    for (options, fails) in
        [(&["--idle-limit", "5s"][..], false), (&["--idle-limit", "5s", "--fault", "reset-state"], true)]
    {
        let mut serve = Serve::start(options);
        let (code, replayed) = run(tool().args(["replay", "-u", &serve.address]).arg(&path));
        assert_eq!(code, Some(i32::from(fails)), "{options:?}: {replayed}");
        let (code, output) = run(Command::new("python3").arg(&script).arg(&serve.address).env("PYTHONPATH", &packages));
        assert_eq!(code, Some(i32::from(fails)), "{options:?}: {output}");
        assert_eq!(output.contains(": 7: expected 12, received [[7]]"), fails, "{output}");
        assert!(serve.is_running());
    }
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn an_exported_failure_speaks_the_transport_that_it_was_found_over() {
    let folder = TempDir::new().expect("a folder");
    let (path, script) = (folder.path().join("failure.toml"), folder.path().join("repeat.py"));
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    let of_one = |by: &str| format!("{BY_HAND}sending.transport = \"{by}\"\n");
    let mixed = BY_HAND.replace(
        r#""send 0 7", "send 0 END 1", "await 0", "half-close 0", "close 0""#,
        r#""open 1 over own by http", "send 1 7", "await 1", "open 2 over own by grpc-unary", "send 2 END 1", "await 2""#,
    );
    for (text, is_of_http) in
        [(of_one("grpc-unary"), false), (of_one("http"), true), (of_one("http-binary"), true), (mixed, false)]
    {
        fs::write(&path, &text).expect("a file");
        let exported = tool().arg("export").arg(&path).output().expect("it runs");
        assert!(exported.status.success(), "{exported:?}");
        fs::write(&script, &exported.stdout).expect("a file");
        for (options, fails) in
            [(&["--idle-limit", "5s"][..], false), (&["--idle-limit", "5s", "--fault", "reset-state"], true)]
        {
            let serve = Serve::start(options);
            let first = if is_of_http { &serve.http } else { &serve.address };
            let mut command = Command::new("python3");
            command.arg(&script).args([first, "custom_sequence_int32", &serve.http]).env("PYTHONPATH", &packages);
            let (code, output) = run(&mut command);
            assert_eq!(code, Some(i32::from(fails)), "{text} {options:?}: {output}");
            assert_eq!(output.contains(": 7: expected 12, received [[7]]"), fails, "{output}");
        }
    }
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn an_exported_failure_has_its_flaws_and_time_limits() {
    let folder = TempDir::new().expect("a folder");
    let (path, script) = (folder.path().join("failure.toml"), folder.path().join("repeat.py"));
    let flaws: Vec<_> = Flaw::ALL.iter().map(|flaw| format!("\"send 0 1 with {flaw}\", ")).collect();
    let acts = format!("acts = [\"send 0 START 5 within 1000000 us\", {}\"send 0 END 6\"]", flaws.concat());
    let text = BY_HAND.lines().map(|line| if line.starts_with("acts = [\"send 0 START 5") { &acts } else { line });
    fs::write(&path, text.collect::<Vec<_>>().join("\n")).expect("a file");
    let exported = tool().arg("export").arg(&path).output().expect("it runs");
    assert!(exported.status.success(), "{exported:?}");
    fs::write(&script, &exported.stdout).expect("a file");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    for (options, wrong) in [
        (&[][..], None),
        // Where a model takes one element that is what two are rejected for.
        (&["--max-batch-size", "1"], None),
        (&["--fault", "accept-batch"], Some(": 1: expected ('must specify batch-size 1")),
    ] {
        let serve = Serve::start(&[&["--idle-limit", "5s"], options].concat());
        let (code, output) = run(Command::new("python3").arg(&script).arg(&serve.address).env("PYTHONPATH", &packages));
        assert_eq!(code, Some(i32::from(wrong.is_some())), "{options:?}: {output}");
        assert!(wrong.is_none_or(|wrong| output.contains(wrong)), "{output}");
    }
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn an_exported_failure_counts_the_slots() {
    let folder = TempDir::new().expect("a folder");
    let (path, script) = (folder.path().join("failure.toml"), folder.path().join("repeat.py"));
    fs::write(&path, BY_HAND.replace("kind = \"wrong-sum\"", "kind = \"slot-leak\"")).expect("a file");
    let exported = tool().arg("export").arg(&path).output().expect("it runs");
    fs::write(&script, &exported.stdout).expect("a file");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    // Long, so that no sequence that is kept open goes idle on a busy machine.
    let quiet = ["--idle-limit", "2s", "--instances", "1", "--max-batch-size", "2"];
    for (fault, said) in [(None, "2 of 2 slots can be taken"), (Some("leak-slot-at-end"), "1 of 2 slots can be taken")]
    {
        let mut options = quiet.to_vec();
        options.extend(fault.map(|fault| ["--fault", fault]).into_iter().flatten());
        let serve = Serve::start(&options);
        let (code, output) = run(Command::new("python3").arg(&script).arg(&serve.address).env("PYTHONPATH", &packages));
        assert_eq!((code, output.contains(said)), (Some(i32::from(fault.is_some())), true), "{output}");
    }
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn an_exported_failure_reads_the_pending_requests() {
    let folder = TempDir::new().expect("a folder");
    let (path, script) = (folder.path().join("failure.toml"), folder.path().join("repeat.py"));
    fs::write(&path, BY_HAND.replace("kind = \"wrong-sum\"", "kind = \"pending-left\"")).expect("a file");
    let exported = tool().arg("export").arg(&path).output().expect("it runs");
    fs::write(&script, &exported.stdout).expect("a file");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    let serve = Serve::start(&["--idle-limit", "5s"]);
    // A gauge that stays at one, whatever is answered.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stuck = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        let body = "nv_inference_pending_request_count{model=\"custom_sequence_int32\",version=\"1\"} 1\n";
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]).expect("a request");
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).expect("somebody who listens");
        }
    });
    for (metrics, fails) in [(&serve.metrics, false), (&stuck, true)] {
        let mut command = Command::new("python3");
        command.arg(&script).args([&serve.address, "custom_sequence_int32", metrics]).env("PYTHONPATH", &packages);
        let (code, output) = run(&mut command);
        let said = format!("{} requests are pending when all are answered", u8::from(fails));
        assert_eq!((code, output.contains(&said)), (Some(i32::from(fails)), true), "{output}");
    }
}

/// All that a script does with a model without a formula: what is answered, and what has to be rejected.
const WITHOUT_FORMULA: &str = "
contexts = { common = 1, rare = 0, rare_probability = 0 }
length = { min = 3, max = 8, uniform = { min = 3, max = 8 } }
patterns.common = { valid = 6, valid-valid = 2, no-start = 1, malformed = 4 }
claims = {}
";

/// A model without a formula, the options of its inputs, and a transport.
type Asked = (&'static str, &'static [&'static str], &'static str);

const ASKED: [Asked; 5] = [
    ("gru_float32", &[], "grpc-stream"),
    ("gru_float32", &[], "http"),
    ("gru_decoupled_float32", &[], "grpc-stream"),
    ("any_tensors", &["--shape", "INPUT_FP32:3"], "grpc-unary"),
    ("any_tensors", &["--shape", "INPUT_FP32:3"], "http-binary"),
];

/// The options of servers of one configuration.
const ALIKE: [&str; 4] = ["--idle-limit", "5s", "--execution-time", "1ms"];

/// Writes the script of a failure of such a model, whose fault came late.
fn script_without_formula((model, inputs, by): Asked, folder: &Path) -> PathBuf {
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let name = format!("{model}-{by}");
    let [golden, failure, scenario] = ["golden", "toml", "scenario.toml"].map(|end| path(&format!("{name}.{end}")));
    fs::write(&scenario, WITHOUT_FORMULA).expect("a file");
    let sound = Serve::start(&ALIKE);
    let calibrate = ["golden", &sound.address, "-m", model, "--tracks", "4", "--steps", "32", "-o", &golden];
    let (code, said) = run(tool().args(calibrate).args(inputs));
    assert_eq!(code, Some(0), "{said}");
    let faulty = Serve::start(&[&ALIKE[..], &["--fault", "reset-state:once@60"]].concat());
    let endpoint = format!("{},http://{}", faulty.address, faulty.http);
    let load = ["-t", "2", "-i", "20", "-r", "3", "--scenario", &scenario, "--transport", by];
    let judge = ["-u", &endpoint, "-m", model, "--golden", &golden, "--fail-fast", "--failure", &failure];
    let (code, said) = run(tool().args(judge).args(load));
    assert!(code == Some(1) && said.contains("wrong-output"), "{name}: {said}");
    let exported = tool().args(["export", &failure, "--golden", &golden]).output().expect("it runs");
    assert!(exported.status.success(), "{name}: {exported:?}");
    let script = folder.join(format!("{name}.py"));
    fs::write(&script, &exported.stdout).expect("a file");
    script
}

#[test]
#[ignore = "needs NVIDIA's client: run scripts/test"]
fn an_exported_failure_compares_with_golden_outputs() {
    let folder = TempDir::new().expect("a folder");
    let packages = told("SEQUENCE_STRESS_TRITONCLIENT");
    let sound = Serve::start(&ALIKE);
    let faulty = Serve::start(&[&ALIKE[..], &["--fault", "reset-state"]].concat());
    for asked in ASKED {
        let script = script_without_formula(asked, folder.path());
        for (serve, fails) in [(&sound, false), (&faulty, true)] {
            let address = if asked.2.starts_with("http") { &serve.http } else { &serve.address };
            let (code, output) = run(Command::new("python3").arg(&script).arg(address).env("PYTHONPATH", &packages));
            assert_eq!(code, Some(i32::from(fails)), "{asked:?}: {output}");
            assert!(output.contains(": expected the outputs of step 2 of '"), "{asked:?}: {output}");
            let says_how = output.lines().any(|line| {
                let parts = ["WRONG: ", ": expected the outputs of step ", ", received ", "OUTPUT", " in place of "];
                parts.iter().all(|part| line.contains(part))
            });
            assert_eq!(says_how, fails, "{asked:?}: {output}");
        }
    }
}

#[test]
#[ignore = "needs ruff: run scripts/test"]
fn exported_scripts_pass_the_lints() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("failure.toml");
    let flaws: Vec<_> = Flaw::ALL.iter().map(|flaw| format!("\"send 0 1 with {flaw}\", ")).collect();
    let flawed = format!("acts = [{}\"send 0 END 6\"]", flaws.concat());
    let with_flaws = BY_HAND.replace("acts = [\"open 0 over fresh\"", &format!("{flawed}\n#"));
    for kind in ["wrong-sum", "slot-leak", "duplicate", "pending-left"] {
        for by in ["grpc-stream", "grpc-unary", "http", "http-binary"] {
            for (name, text) in [("plain", BY_HAND), ("flawed", &with_flaws)] {
                let text = text.replace("kind = \"wrong-sum\"", &format!("kind = \"{kind}\""));
                fs::write(&path, format!("{text}sending.transport = \"{by}\"\n")).expect("a file");
                let exported = tool().arg("export").arg(&path).output().expect("it runs");
                assert!(exported.status.success(), "{exported:?}");
                fs::write(folder.path().join(format!("{kind}-{by}-{name}.py")), &exported.stdout).expect("a file");
            }
        }
    }
    for asked in ASKED {
        script_without_formula(asked, folder.path());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut ruff = Command::new(root.join("scripts/ruff"));
    ruff.args(["check", "--no-cache", "--config"]).arg(root.join("ruff.toml")).arg(folder.path());
    let (code, output) = run(&mut ruff);
    assert_eq!(code, Some(0), "{output}");
}

/// How many requests to a model succeeded so far, by the server's statistics.
fn successes(http: &str, model: &str) -> u64 {
    let path = format!("/v2/models/{model}/stats");
    let told = ask(http.parse().expect("an address"), "GET", &path, &[], b"").json();
    told["model_stats"][0]["inference_stats"]["success"]["count"].as_u64().unwrap_or_else(|| panic!("{told}"))
}

#[test]
#[ignore = "needs NVIDIA's perf_analyzer: run scripts/test"]
fn perf_analyzer_is_served() {
    const SENDERS: u32 = 4;
    // A machine that is too busy for a while is no reason for an error.
    let mut serve = Serve::start(&["--idle-limit", "60s"]);
    let (grpc, http) = (serve.address.clone(), serve.http.clone());
    let over_grpc = ["-u", &grpc, "-i", "grpc", "--streaming"];
    // Otherwise it sends the last step of a sequence and its END over two connections at once, and these have no order.
    let over_http = ["-u", &http, "-i", "http", "--sync"];
    for (model, endpoint) in [
        ("custom_sequence_int32", &over_grpc[..]),
        ("custom_dyna_sequence_int32", &over_grpc),
        ("custom_sequence_int32", &over_http),
        ("custom_dyna_sequence_int32", &over_http),
    ] {
        let before = successes(&http, model);
        let mut command = Command::new(told("SEQUENCE_STRESS_PERF_ANALYZER"));
        command.env("LD_LIBRARY_PATH", told("SEQUENCE_STRESS_PERF_ANALYZER_LIBRARIES"));
        command.args(["-m", model, "--shape", "INPUT:1"]).args(endpoint);
        command.args(["--sequence-length", "8", "--concurrency-range", &SENDERS.to_string()]);
        command.args(["--request-count", "500"]);
        let (code, output) = run(&mut command);
        assert_eq!(code, Some(0), "{model}: {output}");
        let lower = output.to_lowercase();
        assert!(!["error", "fail", "warn"].iter().any(|word| lower.contains(word)), "{model}: {output}");
        // perf_analyzer sends at least as many requests, and looks for them in the server's statistics. It does not wait for its senders
        // before that: on a busy machine it missed one of 503 requests. When it has ended, the server has counted every one of them.
        let number = |of: &str| {
            let line = output.lines().find_map(|line| line.trim().strip_prefix(of));
            let count = line.and_then(|rest| rest.split_whitespace().next()).map(str::parse::<u32>);
            count.unwrap_or_else(|| panic!("{model}: no {of:?} in {output}")).expect("a number")
        };
        let sent = number("Request count:");
        assert!(sent >= 500, "{output}");
        for of in ["Inference count:", "Successful request count:"] {
            assert!((sent - SENDERS..=sent).contains(&number(of)), "{output}");
        }
        let counted = successes(&http, model) - before;
        assert!(counted >= sent.into(), "the server counted {counted}: {output}");
        assert!(serve.is_running());
    }
}
