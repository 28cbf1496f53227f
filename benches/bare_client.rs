//! A bare client, the yardstick for what the tool's own client costs.
//!
//! It sends what the tool sends, over the same streams and connections and from as many threads, through the generated
//! client, and checks nothing: it only counts answers. `scripts/bench` runs it beside the tool.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use sequence_stress::{
    endpoint::Endpoint,
    number::Datatype,
    plan::{WorkerPlan, correlation_id},
    proto::{
        InferParameter, ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
        infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
        model_infer_request::InferRequestedOutputTensor,
    },
    scenario::{ConnectionOwner, Overrides, Population, Scenario, Source, StreamLife, Window},
    seed::Seed,
    sequence::{CorrelationId, IdForm, RequestId, Sequence},
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, transport::Channel};

/// How long one stream may take, from its first request to its end.
const STREAM_LIMIT: Duration = Duration::from_secs(60);

type Service = GrpcInferenceServiceClient<Channel>;

/// Send what sequence-stress sends, and only count the answers.
#[derive(Debug, Parser)]
#[command(name = "bare_client")]
struct Args {
    /// Workers
    #[arg(short = 't', long, value_name = "N")]
    concurrency: NonZeroU32,
    /// Passes of each worker
    #[arg(short, long, value_name = "N")]
    iterations: NonZeroU64,
    /// The seed of the plan
    #[arg(short, long, value_name = "SEED")]
    random_seed: u64,
    /// The server's gRPC endpoint, HOST:PORT
    #[arg(short, long, value_name = "ENDPOINT")]
    url: Endpoint,
    /// The model, which takes INPUT and gives OUTPUT
    #[arg(short, long, value_name = "MODEL")]
    model: String,
    /// A scenario file (TOML) [default: the built-in l0-sequence-stress]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Send the second sequence of a pass when the first one was answered, on a stream of its own
    #[arg(long)]
    after_answer: bool,
    /// What cargo bench adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// What all workers have in common.
#[derive(Debug)]
struct Job {
    scenario: Scenario,
    seed: Seed,
    passes: u64,
    after_answer: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    answered: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.answered += other.answered;
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own, for a script")]
fn main() -> ExitCode {
    // As `cargo bench` and `cargo test --all-targets` run it.
    if std::env::args().skip(1).all(|argument| argument == "--bench") {
        eprintln!("bare_client: nothing to do without arguments; scripts/bench runs it");
        return ExitCode::SUCCESS;
    }
    let result = match Args::try_parse() {
        Ok(args) => job(args).and_then(run),
        Err(error) if error.exit_code() == 0 => error.exit(),
        Err(error) => Err(error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    match result {
        Ok((Counts { requests, answered }, elapsed)) => {
            let elapsed_s = elapsed.as_secs_f64();
            println!("{}", serde_json::json!({"requests": requests, "answered": answered, "elapsed_s": elapsed_s}));
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
        endpoint: Some(args.url.into()),
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
    let (seed, passes) = (Seed(args.random_seed), args.iterations.get());
    Ok(Job { scenario, seed, passes, after_answer: args.after_answer })
}

/// Runs all workers, spread over a thread per core.
fn run(job: Job) -> Result<(Counts, Duration), String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.min(job.scenario.workers() as usize);
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
    let mut plan = WorkerPlan::new(&job.scenario, job.seed, index);
    let mut services: Vec<_> =
        (0..job.scenario.most_contexts()).map(|_| connect(&job.scenario)).collect::<Result<_, _>>()?;
    let mut counts = Counts::default();
    let mut begun = 0;
    for _ in 0..job.passes {
        let pass = plan.next_pass();
        let id = correlation_id(&job.scenario, index, pass.context);
        let at_once = if job.after_answer { 1 } else { pass.sequences.len() };
        for sequences in pass.sequences.chunks(at_once) {
            let mut requests = Vec::new();
            for sequence in sequences {
                let first = RequestId { worker: index, context: pass.context, sequence: begun, step: 0 };
                requests.extend(steps(&job.scenario.target.model, id, first, sequence));
                begun += 1;
            }
            counts.requests += requests.len() as u64;
            let exchange = exchange(&mut services[pass.context as usize], requests);
            counts.answered += tokio::time::timeout(STREAM_LIMIT, exchange)
                .await
                .map_err(|_| format!("a stream was not done after {} s", STREAM_LIMIT.as_secs()))?
                .map_err(|status| format!("a stream broke: {}: {}", status.code(), status.message()))?;
        }
    }
    Ok(counts)
}

fn connect(scenario: &Scenario) -> Result<Service, String> {
    let endpoint = tonic::transport::Endpoint::from_shared(scenario.target.endpoint.for_calls().uri())
        .map_err(|error| format!("{}: {error}", scenario.target.endpoint))?;
    let limit = scenario.limits.connect_ms.duration();
    Ok(Service::new(endpoint.connect_timeout(limit).tcp_nodelay(true).connect_lazy()))
}

/// The requests of a sequence, the first of which is named `first`.
fn steps(model: &str, id: CorrelationId, first: RequestId, sequence: &Sequence) -> Vec<ModelInferRequest> {
    let last = sequence.values.len() - 1;
    let request = |(step, (index, value)): (u32, (usize, &i64))| {
        let start = sequence.start && index == 0;
        let end = sequence.end && index == last;
        ModelInferRequest {
            model_name: model.to_owned(),
            id: RequestId { step, ..first }.to_string(),
            parameters: [
                parameter("sequence_id", id.on_the_wire(IdForm::Integer).into()),
                parameter("sequence_start", ParameterChoice::BoolParam(start)),
                parameter("sequence_end", ParameterChoice::BoolParam(end)),
            ]
            .into(),
            inputs: vec![InferInputTensor {
                name: "INPUT".to_owned(),
                datatype: "INT32".to_owned(),
                shape: vec![1, 1],
                ..Default::default()
            }],
            outputs: vec![InferRequestedOutputTensor { name: "OUTPUT".to_owned(), ..Default::default() }],
            raw_input_contents: vec![Datatype::Int32.number(*value).to_bytes()],
            ..Default::default()
        }
    };
    (0..).zip(sequence.values.iter().enumerate()).map(request).collect()
}

fn parameter(name: &str, choice: ParameterChoice) -> (String, InferParameter) {
    (name.to_owned(), InferParameter { parameter_choice: Some(choice) })
}

/// Sends requests on a stream of their own, and counts what comes until the stream ends.
async fn exchange(service: &mut Service, requests: Vec<ModelInferRequest>) -> Result<u64, Status> {
    let expected = requests.len() as u64;
    let (outgoing, queue) = mpsc::channel(requests.len());
    // A server may send no headers before its first response, so the requests are there before the call.
    for request in requests {
        outgoing.try_send(request).expect("the queue has room for all");
    }
    let mut incoming = service.model_stream_infer(ReceiverStream::new(queue)).await?.into_inner();
    let mut answered = 0;
    while answered < expected && incoming.message().await?.is_some() {
        answered += 1;
    }
    drop(outgoing);
    while incoming.message().await?.is_some() {
        answered += 1;
    }
    Ok(answered)
}
