//! `sequence-stress proxy`.

use std::{
    fs::File,
    future::pending,
    io::{self, Read as _, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use futures_util::future::try_join_all;
use tokio::{net::TcpListener, sync::oneshot, time::timeout};

use super::{
    Failure,
    output::{ResultFile, print, say_error},
    runtime, seed_from_the_clock,
    signals::Signals,
};
use crate::cli::ProxyArgs;
use wire::{
    mutation::{self, Happened, Mutations},
    net::Socket,
    proxy::{Copy, Path, serve},
    recording::{MEMORY_MAX, Recorder, Summary},
    transport::Access,
};
use workload::{
    endpoint::{Endpoint, Scheme},
    scenario::{Network, Scenario, Source},
    seed::Seed,
    wording::counted,
};

/// How long the making of a connection to the server may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long the end of a recording may take.
const FINISH_LIMIT: Duration = Duration::from_secs(30);

/// Where clients connect to for an endpoint of the server.
struct Way {
    to: Endpoint,
    listener: TcpListener,
    address: SocketAddr,
}

/// Carries connections until it is told to stop.
pub(super) fn proxy(args: &ProxyArgs) -> Result<u8, Failure> {
    let network = args.network().map_err(Failure::wrong_input)?;
    let ways = args.ways().map_err(Failure::wrong_input)?;
    let json = args.json.as_deref().map(|path| ResultFile::check("json", "the counts", path)).transpose();
    let json = json.map_err(Failure::wrong_input)?;
    let runtime = runtime()?;
    let listening = runtime.block_on(async { try_join_all(ways.into_iter().map(Way::listen)).await })?;
    // An old file is not replaced where nothing is recorded.
    let recording = args.record.as_ref().map(|path| Recording::start(args, path)).transpose()?;
    let seed = Seed(args.random_seed.unwrap_or_else(seed_from_the_clock));
    let hold = Duration::from_millis(args.mutate_hold_ms.into());
    let mutations = Arc::new(Mutations::new(&args.mutate, seed, hold));
    let how = How { args, network: &network, seed, recording: recording.as_ref(), mutations: &mutations };
    let carried = runtime.block_on(how.carry(listening));
    // What is still under way ends with it.
    runtime.shutdown_background();
    // However it ended, the file gets what was recorded.
    let finished = recording.map_or(Ok(0), Recording::finish);
    print(|out| {
        mutations.happened().iter().try_for_each(|Happened { mutation, times, chances }| {
            writeln!(out, "{mutation} happened at {times} of {}", counted(*chances, "chance"))
        })
    });
    let written = json.map_or(Ok(()), |file| file.write(&as_json(seed, &mutations.happened())));
    carried.and(written.map_err(Failure::wrong_input)).and(finished)
}

/// How often each mutation happened, for programs.
fn as_json(seed: Seed, happened: &[Happened]) -> Vec<u8> {
    let of_one = |Happened { mutation, times, chances }: &Happened| serde_json::json!({ "mutation": mutation.to_string(), "times": times, "chances": chances });
    let all: Vec<_> = happened.iter().map(of_one).collect();
    let document = serde_json::json!({ "seed": seed.0, "mutations": all });
    format!("{document:#}\n").into_bytes()
}

fn cannot_listen(at: SocketAddr) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::could_not_test(format!("cannot listen on {at}: {error}; choose another port"))
}

impl Way {
    async fn listen((to, at): (Endpoint, SocketAddr)) -> Result<Self, Failure> {
        let listener = TcpListener::bind(at).await.map_err(cannot_listen(at))?;
        let address = listener.local_addr().map_err(cannot_listen(at))?;
        Ok(Self { to, listener, address })
    }
}

/// What happens to connections on the way.
struct How<'p> {
    args: &'p ProxyArgs,
    network: &'p Network,
    seed: Seed,
    recording: Option<&'p Recording>,
    mutations: &'p Arc<Mutations>,
}

impl How<'_> {
    async fn carry(&self, ways: Vec<Way>) -> Result<(), Failure> {
        let Self { args, network, seed, recording, mutations } = *self;
        let mut signals =
            Signals::new().map_err(|error| Failure::could_not_test(format!("cannot wait for Ctrl-C: {error}")))?;
        print(|out| {
            if !network.is_clear() || !args.mutate.is_empty() {
                writeln!(out, "seed {seed}")?;
            }
            for Way { to, address, .. } in &ways {
                writeln!(out, "the server is {to}; clients connect to {address}")?;
            }
            if let Some(Recording { path, .. }) = recording {
                writeln!(out, "recording to {}; Ctrl-C ends it", path.display())?;
            }
            out.flush()
        });
        let serving = (0..).zip(ways).map(|(worker, Way { to, listener, address })| {
            let mut path = Path::new(network.clone(), None, seed, worker);
            if let Some(Recording { recorder, .. }) = recording {
                let taps = recorder.taps();
                path = path.copied(move || -> Copy {
                    let mut tap = taps();
                    Box::new(move |bytes| tap.came(bytes))
                });
            }
            let protocol = to.scheme.protocol();
            let server = Arc::new(Server::new(to, recording));
            async move {
                let connect = move || Arc::clone(&server).connect();
                let carried = if args.mutate.is_empty() {
                    serve(listener, connect, path, pending()).await
                } else {
                    mutation::serve(listener, connect, protocol, Arc::clone(mutations), pending()).await
                };
                carried.map_err(cannot_listen(address))
            }
        });
        tokio::select! {
            served = try_join_all(serving) => served.map(drop),
            () = signals.recv() => Ok(()),
            () = end_of_input(args.while_stdin_is_open) => Ok(()),
        }
    }
}

/// The server that connections are carried to.
struct Server {
    endpoint: Endpoint,
    access: Access,
    /// Whether it was said that no connection can be made.
    is_told: AtomicBool,
    /// Whether that is said at all.
    tells: bool,
}

impl Server {
    fn new(endpoint: Endpoint, recording: Option<&Recording>) -> Self {
        // What is not recorded need not be read: whatever clients encrypt passes as it is.
        let plain = if endpoint.scheme.is_grpc() { Scheme::Grpc } else { Scheme::Http };
        let (endpoint, access) = match recording {
            Some(Recording { access, .. }) => (endpoint, access.clone()),
            None => (endpoint.speaking(plain), Access::default()),
        };
        Self { endpoint, access, is_told: AtomicBool::new(false), tells: recording.is_some() }
    }

    async fn connect(self: Arc<Self>) -> io::Result<Socket> {
        let made = match timeout(CONNECT_LIMIT, self.access.connect(&self.endpoint)).await {
            Ok(made) => made,
            Err(late) => Err(late.into()),
        };
        match &made {
            Ok(_) => self.is_told.store(false, Relaxed),
            Err(error) if self.tells && !self.is_told.swap(true, Relaxed) => say_error(&format!(
                "cannot connect to {}: {error}; clients' connections end until the server is there",
                self.endpoint
            )),
            Err(_) => {}
        }
        made
    }
}

/// A recording and where it goes.
struct Recording {
    recorder: Recorder,
    path: PathBuf,
    access: Access,
}

impl Recording {
    fn start(args: &ProxyArgs, path: &std::path::Path) -> Result<Self, Failure> {
        let scenario = Scenario::resolve(&Source::default_scenario(), args.overrides())?;
        let access = Access::new(&scenario.target).map_err(Failure::wrong_input)?;
        let at = path.display().to_string();
        let cannot = |error: io::Error| Failure::wrong_input(format!("cannot write the recording {at}: {error}"));
        let told = format!("the recording {at} ends here, and calls still pass");
        let failed = move |error: &io::Error| say_error(&format!("{told}: {error}"));
        let recorder = File::create(path)
            .and_then(|file| Recorder::start(file, args.model.clone(), MEMORY_MAX, failed))
            .map_err(cannot)?;
        Ok(Self { recorder, path: path.to_owned(), access })
    }

    /// Ends it, and says what was recorded.
    fn finish(self) -> Result<u8, Failure> {
        let Self { recorder, path, .. } = self;
        let at = path.display();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(recorder.finish()));
        // A file such as a pipe that nobody reads takes nothing for ever.
        let (summary, error) = match told.recv_timeout(FINISH_LIMIT) {
            Ok(Ok(summary)) => (summary, None),
            Ok(Err((summary, error))) => (summary, Some(error)),
            Err(_) => {
                let limit = FINISH_LIMIT.as_secs();
                let problem = format!(
                    "the recording {at} took nothing for {limit} s; what it has is good to its last whole line"
                );
                return Err(Failure::could_not_test(problem));
            }
        };
        let lines = lines(&summary);
        print(|out| {
            writeln!(out, "recorded in {at}:")?;
            lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
        });
        let problem =
            |error| format!("cannot write the recording {at}: {error}; what it has is good to its last whole line");
        error.map_or(Ok(0), |error| Err(Failure::could_not_test(problem(error))))
    }
}

/// What became of a recording, a line each.
fn lines(summary: &Summary) -> Vec<String> {
    let Summary { requests, sequences, whole, without_start, left_out, unreadable_connections } = summary;
    let mut lines = vec![format!(
        "{} of {}: {whole} whole, {} without END or with a gap",
        counted(*requests, "request"),
        counted(*sequences, "sequence"),
        sequences - whole
    )];
    if *without_start > 0 {
        lines.push(format!("{} of these came after no START, or after a gap", counted(*without_start, "request")));
    }
    lines.extend(
        left_out
            .iter()
            .map(|(reason, count)| format!("not recorded: {}, because {reason}", counted(*count, "request"))),
    );
    if *unreadable_connections > 0 {
        let hint = "they are not HTTP, or the client uses TLS";
        lines.push(format!("not recorded: {}, because {hint}", counted(*unreadable_connections, "connection")));
    }
    lines
}

/// Waits for the end of the standard input, where that is asked for.
async fn end_of_input(is_asked_for: bool) {
    if !is_asked_for {
        return pending().await;
    }
    let (tell, told) = oneshot::channel();
    // Nobody waits for the thread: a read from the input cannot be taken back.
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        // Where nobody waits for it the program is ending anyway.
        let _ = tell.send(());
    });
    let _ = told.await;
}
