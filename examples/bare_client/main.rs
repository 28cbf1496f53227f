//! A bare client, the yardstick for what the tool's own client costs.
//!
//! The client sends the tool's requests, over streams, calls and connections of the same kind, from the same number of threads.
//! It reads every response, adds up the numbers, and checks nothing. `scripts/bench clients`, `scripts/bench transports` and
//! `scripts/bench golden` run it beside the tool.

mod grpc;
mod http;
mod tls;

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use sequence_stress::golden::read_file;
use tokio::task::JoinSet;
use workload::{
    conversation::Transport,
    endpoint::Endpoint,
    inputs::{ElementType, InputTensor, Sent},
    number::Datatype,
    plan::{WorkerPlan, correlation_id},
    scenario::{ConnectionOwner, Overrides, Population, Scenario, Source, StreamLife, Window},
    seed::Seed,
    sequence::{CorrelationId, RequestId, Sequence},
};

/// How long one sequence may take, from its first request to its end.
const LIMIT: Duration = Duration::from_secs(60);

/// How many workers the tool has a thread for.
const WORKERS_OF_A_THREAD: u32 = 64;

/// Send what sequence-stress sends, and only read the answers.
#[derive(Debug, Parser)]
#[command(name = "bare_client")]
struct Args {
    /// Workers
    #[arg(short = 't', long, value_name = "N")]
    concurrency: NonZeroU32,
    /// Iterations of each worker
    #[arg(short, long, value_name = "N")]
    iterations: NonZeroU64,
    /// The seed of the plan
    #[arg(short, long, value_name = "SEED")]
    random_seed: u64,
    /// The server's endpoint, such as HOST:PORT or https://HOST:PORT
    #[arg(short, long, value_name = "ENDPOINT")]
    url: Endpoint,
    /// The model, which takes INPUT
    #[arg(short, long, value_name = "MODEL")]
    model: String,
    /// An output to ask for (repeatable)
    #[arg(long = "output", value_name = "NAME", default_value = "OUTPUT")]
    outputs: Vec<String>,
    /// Send the inputs of this golden file, and no numbers; not over http, whose JSON has numbers
    #[arg(long, value_name = "FILE")]
    golden: Option<PathBuf>,
    /// What requests travel over: grpc-stream, grpc-unary, http or http-binary
    #[arg(long, value_name = "TRANSPORT", default_value_t)]
    transport: Transport,
    /// The authority that vouches for a server with TLS (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A scenario file (TOML) [default: the built-in l0-sequence-stress]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Send the second sequence of an iteration when the first one was answered, on a stream of its own
    #[arg(long)]
    after_answer: bool,
}

/// What all workers have in common.
#[derive(Debug)]
struct Job {
    scenario: Scenario,
    seed: Seed,
    iterations: u64,
    after_answer: bool,
    endpoint: Endpoint,
    transport: Transport,
    outputs: Vec<String>,
    tls: Option<tls::Tls>,
    /// What is sent in place of numbers.
    sent: Option<Sent>,
}

/// A request.
#[derive(Debug)]
struct Request {
    id: RequestId,
    sequence: CorrelationId,
    start: bool,
    end: bool,
    inputs: Vec<InputTensor>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    answered: u64,
    /// The first number of each answer, added up.
    total: i64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.answer(other.answered, other.total);
    }

    fn answer(&mut self, answered: u64, total: i64) {
        self.answered += answered;
        self.total = self.total.wrapping_add(total);
    }
}

/// What sends the requests of one context.
enum Client {
    Stream(grpc::Service),
    Unary(grpc::Service),
    Http(http::Client),
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own, for a script")]
fn main() -> ExitCode {
    let result = match Args::try_parse() {
        Ok(args) => job(args).and_then(run),
        Err(error) if error.exit_code() == 0 => error.exit(),
        Err(error) => Err(error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    match result {
        Ok((Counts { requests, answered, total }, elapsed)) => {
            let elapsed_s = elapsed.as_secs_f64();
            let counted =
                serde_json::json!({"requests": requests, "answered": answered, "total": total, "elapsed_s": elapsed_s});
            println!("{counted}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("bare_client: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn job(args: Args) -> Result<Job, String> {
    let source = match args.scenario {
        Some(path) => Source::from_file(path).map_err(|error| error.to_string())?,
        None => Source::default_scenario(),
    };
    let overrides = Overrides {
        endpoint: Some(args.url.clone().into()),
        model: Some(args.model),
        workers: Some(args.concurrency),
        iterations: Some(args.iterations),
        ..Overrides::default()
    };
    let scenario = Scenario::resolve(&source, overrides).map_err(|error| error.to_string())?;
    let [Population { sending, .. }] = &scenario.populations[..] else {
        return Err(format!("{}: it has to have one population", source.name()));
    };
    if (sending.stream, sending.connection, sending.window)
        != (StreamLife::PerSequence, ConnectionOwner::PerContext, Window::All)
    {
        return Err(format!("{}: [sending] has to be the default scenario's", source.name()));
    }
    let sent = args.golden.as_deref().map(read_file).transpose()?;
    if sent.is_some() && args.transport == Transport::Http {
        return Err("--golden does not go with --transport http: use http-binary".to_owned());
    }
    let protocol: &[u8] = if args.transport.is_http() { b"http/1.1" } else { b"h2" };
    Ok(Job {
        scenario,
        seed: Seed(args.random_seed),
        iterations: args.iterations.get(),
        after_answer: args.after_answer,
        tls: args.url.scheme.is_secured().then(|| tls::Tls::new(args.ca.as_deref(), protocol)).transpose()?,
        endpoint: args.url,
        transport: args.transport,
        outputs: args.outputs,
        sent: sent.map(|golden| Sent { inputs: golden.inputs, pace: None }),
    })
}

/// Runs all workers, spread over as many threads as the tool has.
fn run(job: Job) -> Result<(Counts, Duration), String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.min(job.scenario.workers().div_ceil(WORKERS_OF_A_THREAD) as usize);
    let job = Arc::new(job);
    let (done, results) = std::sync::mpsc::channel();
    let began = Instant::now();
    for thread in 0..threads {
        let (job, done) = (Arc::clone(&job), done.clone());
        // Nobody waits for the rest when one thread has failed.
        std::thread::spawn(move || _ = done.send(run_thread(&job, thread, threads)));
    }
    drop(done);
    let mut total = Counts::default();
    for _ in 0..threads {
        total.add(results.recv().map_err(|_| "a thread failed")??);
    }
    Ok((total, began.elapsed()))
}

fn run_thread(job: &Arc<Job>, thread: usize, threads: usize) -> Result<Counts, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start a runtime thread: {error}"))?;
    runtime.block_on(async {
        let mut workers = JoinSet::new();
        for index in (0..job.scenario.workers()).skip(thread).step_by(threads) {
            workers.spawn(run_worker(Arc::clone(job), index));
        }
        let mut total = Counts::default();
        while let Some(counts) = workers.join_next().await {
            total.add(counts.map_err(|error| format!("a worker failed: {error}"))??);
        }
        Ok(total)
    })
}

async fn run_worker(job: Arc<Job>, index: u32) -> Result<Counts, String> {
    let mut plan = WorkerPlan::new(&job.scenario, job.seed, index).with_inputs(job.sent.as_ref(), job.seed);
    let mut clients = Vec::new();
    for _ in 0..job.scenario.most_contexts() {
        clients.push(Client::new(&job).await?);
    }
    let mut counts = Counts::default();
    let mut begun = 0;
    for _ in 0..job.iterations {
        let iteration = plan.next_iteration();
        let id = correlation_id(&job.scenario, index, iteration.context);
        let at_once = if job.after_answer { 1 } else { iteration.sequences.len() };
        for sequences in iteration.sequences.chunks(at_once) {
            let mut requests = Vec::new();
            for sequence in sequences {
                let first = RequestId { worker: index, context: iteration.context, sequence: begun, step: 0 };
                requests.extend(steps(id, first, sequence, job.sent.as_ref()));
                begun += 1;
            }
            counts.requests += requests.len() as u64;
            let exchange = clients[iteration.context as usize].exchange(&job, requests, &mut counts);
            tokio::time::timeout(LIMIT, exchange)
                .await
                .map_err(|_| format!("a sequence was not done after {} s", LIMIT.as_secs()))??;
        }
    }
    Ok(counts)
}

/// The requests of a sequence, the first of which is named `first`.
fn steps(id: CorrelationId, first: RequestId, sequence: &Sequence, sent: Option<&Sent>) -> Vec<Request> {
    let last = sequence.values.len() - 1;
    let inputs = |value: i64| match sent {
        Some(sent) => sent.inputs.tensors(value).unwrap_or_default().to_vec(),
        None => vec![number(value)],
    };
    let request = |(step, (index, value)): (u32, (usize, &i64))| Request {
        id: RequestId { step, ..first },
        sequence: id,
        start: sequence.start && index == 0,
        end: sequence.end && index == last,
        inputs: inputs(*value),
    };
    (0..).zip(sequence.values.iter().enumerate()).map(request).collect()
}

/// A number as the input of a model that adds up.
fn number(value: i64) -> InputTensor {
    let data = Datatype::Int32.number(value).to_bytes();
    InputTensor { name: "INPUT".to_owned(), datatype: ElementType::Int32, shape: vec![1, 1], data }
}

/// The first number of a tensor.
fn first(bytes: &[u8]) -> Option<i64> {
    bytes.first_chunk().map(|bytes| i32::from_le_bytes(*bytes).into())
}

impl Client {
    async fn new(job: &Job) -> Result<Self, String> {
        let limit = job.scenario.limits.connect_ms.duration();
        Ok(match job.transport {
            Transport::GrpcStream | Transport::GrpcStatus => {
                Self::Stream(grpc::connect(&job.endpoint, job.tls.as_ref(), limit)?)
            }
            Transport::GrpcUnary => Self::Unary(grpc::connect(&job.endpoint, job.tls.as_ref(), limit)?),
            Transport::Http | Transport::HttpBinary => {
                let is_binary = job.transport == Transport::HttpBinary;
                Self::Http(http::Client::connect(&job.endpoint, job.tls.as_ref(), is_binary, limit).await?)
            }
        })
    }

    /// Sends requests, all at once over a stream and else one by one, and reads what comes.
    async fn exchange(&mut self, job: &Job, requests: Vec<Request>, counts: &mut Counts) -> Result<(), String> {
        match self {
            Self::Stream(service) => grpc::stream(service, job, requests, counts).await.map_err(|status| told(&status)),
            Self::Unary(service) => grpc::call(service, job, requests, counts).await.map_err(|status| told(&status)),
            Self::Http(client) => client.call(job, requests, counts).await,
        }
    }
}

fn told(status: &tonic::Status) -> String {
    format!("a call failed: {}: {}", status.code(), status.message())
}
