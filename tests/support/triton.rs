//! The real tritonserver, for tests: `scripts/with-triton`, servers that the tests of a process share, and models of a test's own.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    process::{self, Child, Command, Output, Stdio},
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use models::{Backend, Dtype, Extra, Family, Form, Matrix, ModelOptions, Options, Written};
use serde_json::{Value, json};
use tempfile::TempDir;
use workload::endpoint::Endpoints;

use super::{http, tool::tool};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The time limit of a test's own command with a server.
const COMMAND_SECONDS: &str = "900";
/// The time limit of a shared server, which ends with the process of its tests. In the long form they may take four hours.
const SHARED_SECONDS: &str = "14400";
/// A server whose sequences were cut in the middle takes this long to exit.
const EXIT_SECONDS: &str = "--server-arg=--exit-timeout-secs=2";
/// Otherwise the server says that it is not ready while a model is being loaded.
const READY_WITHOUT_MODELS: &str = "--server-arg=--strict-readiness=false";
/// Models that are no models of `with-triton`, because real servers exchange their states.
const CROSSED: [Family; 3] = [Family::TwinStateCrossed, Family::TripleStateCrossed, Family::DynaTripleStateCrossed];
/// The tool's processes that run at a time: more would wait for the processor.
const RUNS_AT_A_TIME: usize = 6;

/// The command with a server. `with-triton` ends a command that hangs.
pub fn with_triton(options: &[&str], command: &[&str]) -> Command {
    let mut with_triton = Command::new(format!("{ROOT}/scripts/with-triton"));
    with_triton.args(arguments(options, COMMAND_SECONDS)).arg("--").args(command);
    set_up(&mut with_triton);
    with_triton
}

fn arguments<'a>(options: &[&'a str], seconds: &'a str) -> Vec<&'a str> {
    // Models that are given have the idle limit that they say.
    let of_models: &[&str] = if options.contains(&"--repository") { &[] } else { &["--idle-limit-ms", "200"] };
    [of_models, &["--time-limit", seconds], options].concat()
}

fn set_up(command: &mut Command) {
    command.env("SEQUENCE_STRESS_TOOL", env!("CARGO_BIN_EXE_sequence-stress"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// Everything that was printed.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A model of a test's own, which the test adds to a server.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// The model of `with-triton` that it is like, or of [`CROSSED`].
    pub like: &'a str,
    pub instances: u32,
    pub batch: u32,
    pub idle_ms: u64,
    pub execute_ms: u64,
    /// How long the server waits for more requests of a batch.
    pub queue_delay_ms: u64,
    /// Parameters of the configuration, such as `fault`.
    pub parameters: &'a [(&'a str, &'a str)],
    /// Further parts of the configuration.
    pub extras: &'a [Extra],
}

impl<'a> Own<'a> {
    /// With the shape and the times that `with_triton` gives its models.
    pub const fn like(like: &'a str) -> Self {
        Self {
            like,
            instances: 1,
            batch: 4,
            idle_ms: 200,
            execute_ms: 3,
            queue_delay_ms: 0,
            parameters: &[],
            extras: &[],
        }
    }

    pub const fn shape(self, instances: u32, batch: u32) -> Self {
        Self { instances, batch, ..self }
    }

    fn write(&self, repository: &Path, name: &str, backend: Backend) {
        let dtype = self.like.rsplit('_').next();
        let dtype = Dtype::ALL.iter().find(|of| Some(of.name()) == dtype).expect("names end in a data type");
        let models = ModelOptions {
            instances: self.instances,
            max_batch_size: self.batch,
            candidates: self.batch,
            idle_limit: Duration::from_millis(self.idle_ms),
            execution: Duration::from_millis(self.execute_ms),
            queue_delay: Duration::from_millis(self.queue_delay_ms),
            ..ModelOptions::default()
        };
        let options = Options {
            models,
            parameters: self.parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            extras: self.extras.to_vec(),
            prefix: (backend == Backend::Python).then(|| "custom".into()),
            ..Options::default()
        };
        let forms = Form::of_tester().into_iter().chain(CROSSED.map(Form::of)).collect();
        let matrix = Matrix { backends: vec![backend], dtypes: vec![*dtype], forms, options };
        let made = matrix.make().expect("the models can be made").models;
        let steps = format!("{}_step", self.like);
        let its: Vec<_> = made.iter().filter(|made| made.name == self.like || made.name.starts_with(&steps)).collect();
        assert!(!its.is_empty(), "no '{}'", self.like);
        for made in its {
            self.write_one(repository, name, made, backend);
        }
    }

    /// Writes a model, or a step of an ensemble, under the name that the model gets.
    fn write_one(&self, repository: &Path, name: &str, made: &Written, backend: Backend) {
        let folder = repository.join(made.name.replacen(self.like, name, 1));
        fs::create_dir_all(folder.join("1")).expect("a folder");
        for file in &made.files {
            let path = folder.join(&file.name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let names = |text: &str| {
                let of_steps = text.replace(&format!("\"{}_step", self.like), &format!("\"{name}_step"));
                of_steps.replacen(&format!("\"{}\"", self.like), &format!("\"{name}\""), 1)
            };
            match str::from_utf8(&file.bytes) {
                Ok(text) if file.name == "config.pbtxt" => fs::write(path, names(text)),
                _ => fs::write(path, &file.bytes),
            }
            .expect("a file");
        }
        if backend == Backend::Python && folder.join("1/model.py").exists() {
            // Bytecode beside a model changes the model's folder, and the server then takes the model for another one.
            fs::write(folder.join("1/__pycache__"), "").expect("a file");
        }
    }
}

/// A server that runs until it is dropped.
pub struct Triton {
    process: Child,
    pub grpc: String,
    pub http: String,
    pub metrics: String,
    pub pid: String,
    log: PathBuf,
    backend: Backend,
    /// A second repository, for models of tests' own.
    own: TempDir,
}

impl Triton {
    pub fn start(options: &[&str]) -> Self {
        let own = TempDir::new().expect("a folder");
        let log = log();
        // The shell removes the log of a server with which no test failed.
        let script = r#""$@"; code=$?; [ -e "$KEEP" ] && rm -f "$KEEP" || rm -f "$LOG"; exit $code"#;
        let tells = "echo $TRITON_GRPC; echo $TRITON_HTTP; echo $TRITON_METRICS; echo $TRITON_PID; read line || true";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh", &format!("{ROOT}/scripts/with-triton")])
            .args(arguments(options, SHARED_SECONDS));
        command.arg(format!("--server-arg=--model-repository={}", own.path().display())).arg("--log").arg(&log);
        command.args(["--", "sh", "-c", tells]).env("LOG", &log).env("KEEP", keep(&log));
        set_up(&mut command);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("it runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let [grpc, http, metrics, pid] = [(); 4].map(|()| lines.next().expect("the server starts").expect("UTF-8"));
        let backend = if options.contains(&"--python") { Backend::Python } else { Backend::Native };
        Self { process, grpc, http, metrics, pid, log, backend, own }
    }

    /// The server with these options that the tests of this process share. It starts when the first test asks for it and ends with
    /// the process.
    pub fn shared(options: &[&str]) -> Shared {
        static ALL: Mutex<BTreeMap<String, &OnceLock<Triton>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let triton: &OnceLock<_> = *all.entry(options.join(" ")).or_insert_with(|| Box::leak(Box::default()));
        drop(all);
        let options = [&[EXIT_SECONDS, READY_WITHOUT_MODELS], options].concat();
        Shared(triton.get_or_init(|| Self::start(&options)))
    }

    /// The shared server of native models. A test loads its models with [`Triton::load`].
    pub fn native() -> Shared {
        Self::shared(&["--explicit"])
    }

    /// Another shared server of native models, beside [`Triton::native`], for models that few tests have: were one of them to end the
    /// server, it would take no other tests with it.
    pub fn aside() -> Shared {
        Self::shared(&["--explicit", "--server-arg=--log-info=true"])
    }

    /// The shared server of models of the Python backend. A test loads its models with [`Triton::load`].
    pub fn python() -> Shared {
        Self::shared(&["--explicit", "--python"])
    }

    /// Loads a model of a test's own; returns its name, which no other model has.
    pub fn load(&self, own: &Own) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}_{}", own.like, COUNT.fetch_add(1, Relaxed));
        own.write(self.own.path(), &name, self.backend);
        let (status, answer) = self.ask("POST", &format!("/v2/repository/models/{name}/load"), &json!({}));
        assert_eq!(status, 200, "{own:?}: {answer}");
        name
    }

    pub fn endpoints(&self) -> Endpoints {
        Endpoints::of_both(self.address(), self.http.parse().expect("an address"))
    }

    /// Where the server speaks gRPC.
    pub fn address(&self) -> SocketAddr {
        self.grpc.parse().expect("an address")
    }

    /// The tool, which finds this server.
    pub fn tool(&self) -> Command {
        let mut command = tool();
        command.env("SEQUENCE_STRESS_URL", &self.grpc).env("SEQUENCE_STRESS_METRICS", &self.metrics);
        command.env("SEQUENCE_STRESS_HTTP_URL", format!("http://{}", self.http));
        command
    }

    /// Runs the tool with these words.
    pub fn run(&self, words: &[&str]) -> Output {
        let _turn = Turn::take();
        self.tool().args(words).output().expect("it runs")
    }

    /// Runs the tool on a model; what it writes as JSON.
    pub fn stress(&self, model: &str, scenario: &str, words: &[&str]) -> Value {
        let folder = TempDir::new().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let [file, json] = ["scenario.toml", "result.json"].map(path);
        fs::write(&file, scenario).expect("a file");
        let output = self.run(&[&["-q", "-m", model, "--scenario", &file, "--json", &json], words].concat());
        let json = fs::read_to_string(json).unwrap_or_else(|error| panic!("{model}: {error}\n{}", text(&output)));
        serde_json::from_str(&json).expect("JSON")
    }

    /// Asks over HTTP, and returns the status and the body.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let address = self.http.parse().expect("an address");
        let answer = http::ask(address, method, path, &[], body.to_string().as_bytes());
        (answer.status, if answer.body.is_empty() { Value::Null } else { answer.json() })
    }

    /// One step of a sequence; the answer's sum or the error's text.
    pub fn step(&self, model: &str, id: u32, value: i32, start: bool) -> Result<i64, String> {
        let body = json!({
            "parameters": { "sequence_id": id, "sequence_start": start },
            "inputs": [{ "name": "INPUT", "datatype": "INT32", "shape": [1, 1], "data": [value] }],
        });
        let (status, answer) = self.ask("POST", &format!("/v2/models/{model}/infer"), &body);
        match status {
            200 => Ok(answer["outputs"][0]["data"][0].as_i64().expect("a sum")),
            _ => Err(answer["error"].as_str().expect("a text").to_owned()),
        }
    }

    /// Ends the server, which has to be in good order.
    pub fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().expect("it ends").success());
    }

    /// Where a test fails, keeps the log and says where it is.
    #[expect(clippy::print_stderr, reason = "the test fails")]
    fn keep_log_of_failure(&self) {
        if std::thread::panicking() && fs::write(keep(&self.log), "").is_ok() {
            eprintln!("the log of the server, which is written when the server ends: {}", self.log.display());
        }
    }
}

impl Drop for Triton {
    fn drop(&mut self) {
        self.keep_log_of_failure();
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A shared server, for as long as a test uses it.
pub struct Shared(&'static Triton);

impl Deref for Shared {
    type Target = Triton;

    fn deref(&self) -> &Triton {
        self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.keep_log_of_failure();
    }
}

/// Where the next server's log goes.
fn log() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("triton-logs");
    fs::create_dir_all(&folder).expect("a folder");
    folder.join(format!("{}-{}.log", process::id(), COUNT.fetch_add(1, Relaxed)))
}

/// The file whose presence asks for the log to be kept.
fn keep(log: &Path) -> PathBuf {
    log.with_extension("keep")
}

/// One of the tool's processes that may run now.
struct Turn;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

impl Turn {
    fn take() -> Self {
        let running = RUNNING.0.lock().expect("no turn panics");
        let mut running = RUNNING.1.wait_while(running, |running| *running >= RUNS_AT_A_TIME).expect("no turn panics");
        *running += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.0.lock().expect("no turn panics") -= 1;
        RUNNING.1.notify_one();
    }
}
