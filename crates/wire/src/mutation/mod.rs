//! Changes what passes between any client and any server, over gRPC and over HTTP: flags, IDs, values, order, doubles, losses, delays,
//! counts.
//!
//! It shows which client notices what. The bodies of what is not changed pass byte for byte.

mod change;
mod frames;
mod http;
mod json;
mod lines;
mod protobuf;
mod relay;

use std::{
    fmt, io,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use tokio::net::TcpListener;

use self::{change::Changed, lines::Lines};
use crate::{net::Socket, proxy::carry_each};
use workload::{
    chance::{Chances, When, named_when},
    endpoint::Protocol,
    seed::Seed,
    wording::meant,
};

workload::table! {
    /// What can be changed in what passes; its sentence says what a chance to do it is.
    pub enum Mutation: Of {
        /// a request with START loses it
        LoseStart = "lose-start", Of::Request;
        /// a request without START gets it
        AddStart = "add-start", Of::Request;
        /// a request with END loses it
        LoseEnd = "lose-end", Of::Request;
        /// a request without END gets it
        AddEnd = "add-end", Of::Request;
        /// a request of a sequence gets another correlation ID, the next number or a longer text
        OtherId = "other-id", Of::Request;
        /// the first byte of a request's first input grows by one; in JSON the first element changes by one
        ChangeInput = "change-input", Of::Request;
        /// a request never reaches the server
        LoseRequest = "lose-request", Of::Request;
        /// from now on no request of a call reaches the server, while those of streams do
        LoseCalls = "lose-calls", Of::Request;
        /// a request of a stream, or over HTTP, reaches the server twice
        RepeatRequest = "repeat-request", Of::Request;
        /// a request of a stream reaches the server behind the next one
        SwapRequests = "swap-requests", Of::Request;
        /// a request is held back (--mutate-hold-ms), and with it those behind it on its stream
        DelayRequest = "delay-request", Of::Request;
        /// a response never reaches the client
        LoseResponse = "lose-response", Of::Response;
        /// a response of a stream reaches the client twice
        RepeatResponse = "repeat-response", Of::Response;
        /// a response of a stream reaches the client behind the next one
        SwapResponses = "swap-responses", Of::Response;
        /// a response is held back (--mutate-hold-ms), and with it those behind it on its stream
        DelayResponse = "delay-response", Of::Response;
        /// a response of a stream reaches the client on another stream that is open
        CrossResponses = "cross-responses", Of::Response;
        /// the first byte of a response's first output grows by one; in JSON the first element changes by one
        ChangeOutput = "change-output", Of::Response;
        /// a response carries an ID that no request has
        OtherRequestId = "other-request-id", Of::Response;
        /// a response carries another model's name
        OtherModelName = "other-model-name", Of::Response;
        /// a response carries another version of the model
        OtherModelVersion = "other-model-version", Of::Response;
        /// the first output of a response has another name
        OtherOutputName = "other-output-name", Of::Response;
        /// the first output of a response is said to be FP32, or INT32 where that is its type
        OtherOutputType = "other-output-type", Of::Response;
        /// the first output of a response has one dimension less
        OtherOutputShape = "other-output-shape", Of::Response;
        /// the last byte of a response's first output is missing; in JSON the last element
        CutOutput = "cut-output", Of::Response;
        /// a response has no output
        NoOutput = "no-output", Of::Response;
        /// the final one of several responses to a request is not marked as such
        LoseFinalMark = "lose-final-mark", Of::Response;
        /// a response of a stream, or over HTTP, becomes an error
        ErrorForResponse = "error-for-response", Of::Response;
        /// an error within a stream, or over HTTP, becomes a response, with the output of the one before it
        ResponseForError = "response-for-error", Of::Response;
        /// an error within a stream, or over HTTP, has another text
        OtherError = "other-error", Of::Response;
        /// the client's end of a stream never reaches the server
        LoseHalfClose = "lose-half-close", Of::Stream;
        /// a stream ends in good order behind a response, whatever else is due
        EndStream = "end-stream", Of::Stream;
        /// a stream ends with the status UNAVAILABLE behind a response
        BreakStream = "break-stream", Of::Stream;
        /// the server's end of a stream never reaches the client
        KeepOpen = "keep-open", Of::Stream;
        /// from now on the server's statistics have one success more
        CountMore = "count-more", Of::Server;
        /// from now on the server's statistics have one success less
        CountLess = "count-less", Of::Server;
        /// from now on the server's statistics have one execution more
        CountExecution = "count-execution", Of::Server;
        /// a model that has answered a request is said not to be ready
        SayNotReady = "say-not-ready", Of::Server;
    }
}

/// What a mutation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// What the client sends.
    Request,
    /// What the server answers.
    Response,
    /// The end of a stream.
    Stream,
    /// What the server says of itself.
    Server,
}

impl Mutation {
    /// What it changes.
    pub fn of(self) -> Of {
        *self.row()
    }
}

/// A mutation and when it happens: `NAME`, `NAME:PROBABILITY` or `NAME:once@N`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planted {
    /// The mutation.
    pub mutation: Mutation,
    /// When.
    pub when: When,
}

impl FromStr for Planted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, when) = named_when(text);
        let Some(mutation) = Mutation::named(name) else {
            let meant = meant(name, Mutation::NAMES.iter().copied(), "list them with `sequence-stress proxy --help`");
            return Err(format!("there is no mutation '{name}'; {meant}"));
        };
        Ok(Self { mutation, when: when? })
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.mutation, self.when)
    }
}

/// The mutations of a proxy, and what was done so far.
#[derive(Debug)]
pub struct Mutations {
    planted: Vec<(Mutation, Chances)>,
    /// For how long what is delayed is held back.
    hold: Duration,
    /// Whether a model has answered a request.
    has_answered: AtomicBool,
    /// Whether all calls are lost from now on.
    loses_calls: AtomicBool,
    successes: Shift,
    executions: Shift,
    lines: Lines,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A body on its way.
type Sent = UnsyncBoxBody<Bytes, Failure>;

/// Takes connections of a protocol in and carries each to the server that `connect` connects to, until `shutdown` is done.
///
/// # Errors
/// When no connections can be taken in any more.
pub async fn serve<C>(
    listener: TcpListener,
    connect: impl Fn() -> C,
    protocol: Protocol,
    mutations: Arc<Mutations>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()>
where
    C: Future<Output = io::Result<Socket>> + Send + 'static,
{
    let carry = move |near, far| {
        let mutations = Arc::clone(&mutations);
        async move {
            match protocol {
                Protocol::Grpc => relay::carry(near, far, mutations).await,
                Protocol::Http => http::carry(near, far, mutations).await,
            }
        }
    };
    carry_each(listener, connect, carry, shutdown).await
}

/// By how much a count is off from now on.
#[derive(Debug, Default)]
struct Shift {
    more: AtomicU64,
    less: AtomicU64,
}

impl Shift {
    fn is_none(&self) -> bool {
        self.more.load(Relaxed) == 0 && self.less.load(Relaxed) == 0
    }

    fn of(&self, count: u64) -> u64 {
        (count + self.more.load(Relaxed)).saturating_sub(self.less.load(Relaxed))
    }
}

/// How often a mutation happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The mutation.
    pub mutation: Mutation,
    /// How often.
    pub times: u64,
    /// Of so many chances.
    pub chances: u64,
}

impl Mutations {
    /// These mutations, with what decides when they happen; what is delayed is held back for so long.
    pub fn new(planted: &[Planted], seed: Seed, hold: Duration) -> Self {
        let chances = |(index, its): (u32, &Planted)| (its.mutation, Chances::new(its.when, seed, index));
        Self {
            planted: (0..).zip(planted).map(chances).collect(),
            hold,
            has_answered: AtomicBool::new(false),
            loses_calls: AtomicBool::new(false),
            successes: Shift::default(),
            executions: Shift::default(),
            lines: Lines::default(),
        }
    }

    /// How often each happened so far, in the order in which they were given.
    pub fn happened(&self) -> Vec<Happened> {
        let told = |(mutation, chances): &(Mutation, Chances)| Happened {
            mutation: *mutation,
            times: chances.happened(),
            chances: chances.count(),
        };
        self.planted.iter().map(told).collect()
    }

    /// Whether it happens, at a chance.
    fn happens(&self, mutation: Mutation) -> bool {
        // Each counts each chance, so all are asked.
        self.of(mutation).filter(|chances| chances.happens()).count() > 0
    }

    /// Whether it may happen at all.
    fn is_planted(&self, mutation: Mutation) -> bool {
        self.of(mutation).next().is_some()
    }

    /// Whether this call is lost, because one before it was or for the first time.
    fn loses_call(&self) -> bool {
        self.loses_calls.fetch_or(self.happens(Mutation::LoseCalls), Relaxed) || self.loses_calls.load(Relaxed)
    }

    /// It could not be done after all.
    fn retract(&self, mutation: Mutation) {
        if let Some(chances) = self.of(mutation).find(|chances| chances.happened() > 0) {
            chances.retract();
        }
    }

    fn of(&self, mutation: Mutation) -> impl Iterator<Item = &Chances> {
        self.planted.iter().filter(move |(its, _)| *its == mutation).map(|(_, chances)| chances)
    }

    /// Waits as long as something is held back.
    async fn hold_back(&self) {
        tokio::time::sleep(self.hold).await;
    }
}
