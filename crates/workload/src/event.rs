//! What happens after something was sent: the one thing that the oracle and the recorder look at.

use std::{fmt, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    controls::Seen,
    conversation::{Connection, Lane, Transport},
    number::Number,
    sequence::{RequestId, Step},
    tensor::{Tensor, TensorData},
};

/// Nanoseconds since the run began, from the monotonic clock.
pub type Nanos = u64;

/// Something that happened on one context.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When the client saw it.
    pub at: Nanos,
    /// Where: a context has one correlation ID.
    pub context: ContextId,
    /// On which of the context's streams.
    pub lane: Lane,
    /// What.
    pub kind: EventKind,
}

/// One context of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ContextId {
    /// The worker's index.
    pub worker: u32,
    /// The context's index in the worker.
    pub context: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A new stream was opened over a connection, or calls are made over it one after the other; what it carries follows.
    Opened(Connection, Transport),
    /// The next step of the stream was due at this time, and is sent now.
    Due(Due),
    /// A step was handed to the stream.
    Sent(Step),
    /// The stream brought an answer that is in every way as it should be, but for its sum: to this request, with this sum, and with
    /// what the model saw, where that is asked for.
    Answered(RequestId, Number, Option<Seen>),
    /// The stream brought a message of any other form, or one that the oracle has not read.
    Received(Box<Received>),
    /// What the stream brings from now on was answered by this server, as a header or the endpoint tells it; nobody knows by which where
    /// there is none. Told where that changes; a new stream begins without.
    ServedBy(Option<ServerName>),
    /// The client gave up waiting for the oldest request in flight.
    GaveUp,
    /// The client said that no further step follows; answers may still be due.
    HalfClosed,
    /// The client read nothing for so many microseconds from now on.
    StoppedReading(u64),
    /// The stream ended while requests may have been in flight: what becomes of them is not known.
    Cut(Cut),
    /// The stream ended in good order, every request answered.
    Closed,
    /// The stream stayed open although the client had closed it and had every answer.
    NotClosed,
    /// The model or the server is being exchanged for another, as the scenario has it; it concerns all of the context's streams.
    Disturbed(Disturbance),
}

impl EventKind {
    /// About how many bytes of memory it takes besides its own size.
    pub fn memory(&self) -> usize {
        match self {
            Self::Received(received) => received.memory(),
            Self::Cut(Cut::Broken(reason) | Cut::Status(_, reason)) => reason.len(),
            _ => 0,
        }
    }
}

/// The most bytes of a server's name that are kept.
const SERVER_NAME_MAX: usize = 128;

/// One of several servers, by what a header or an endpoint calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// The name that a server, or what is before it, gives it, as far as anybody reads it.
    pub fn new(text: &str) -> Self {
        let is_shown = |c: &char| !c.is_control();
        let end = (0..=SERVER_NAME_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let shown: String = text[..end].chars().filter(is_shown).collect();
        Self(shown.into())
    }
}

impl From<String> for ServerName {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<ServerName> for String {
    fn from(name: ServerName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a step was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Due {
    /// Since the run began.
    pub at: Nanos,
    /// Whether the client waited for that time alone, or was late by itself; if not, the server was late before, or no worker was free.
    pub waited: bool,
}

/// How far an exchange of the model or the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disturbance {
    /// From now on, what was under way may be lost, and what is sent may be rejected.
    Begins,
    /// From now on an instance of the model fails: the state that it kept may be lost, and what is sent to it rejected. No sequence goes on
    /// from another state than its own.
    InstanceFails,
    /// The other one serves; of sequences that were begun before it may know nothing.
    IsOver,
}

/// Why a stream ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// The client ended it, because what it brought could not be trusted any more or took too long.
    ByClient,
    /// The client cancelled it, as its conversation has it.
    Cancelled,
    /// The deadline passed that the client had set for it, as its conversation has it.
    Deadline,
    /// The client reset its connection, as its conversation has it.
    Reset,
    /// The process that it went through was killed, as its conversation has it.
    Killed,
    /// The faulty network between the client and the server took its connection, as the scenario has it.
    ByNetwork,
    /// The server ended its connection in good order: it had said so (GOAWAY), or the connection had carried nothing for a while.
    Lapsed,
    /// The run was ended and did not wait any longer.
    Interrupted,
    /// The server ended it without an error.
    Ended,
    /// The server ended it with the code and the text of a request's error, as the transport has it.
    Status(Code, String),
    /// The server or the network ended it with an error, for the reason given.
    Broken(String),
}

impl Cut {
    /// Whether it is the client's doing, or the network's, and nothing that anybody is to blame for.
    pub fn is_blameless(&self) -> bool {
        match self {
            Self::Cancelled | Self::Deadline | Self::Reset | Self::Killed | Self::ByNetwork | Self::Lapsed => true,
            Self::ByClient | Self::Interrupted | Self::Ended | Self::Status(..) | Self::Broken(_) => false,
        }
    }

    /// Why, in the words of the transport, where the server or the network ended the stream.
    pub fn reason(&self) -> &str {
        match self {
            Self::Broken(reason) | Self::Status(_, reason) => reason,
            _ => "the server ended the stream",
        }
    }
}

/// A message that came over a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The request's ID as the message has it, empty where it has none.
    pub id: String,
    /// The response, or the text of the error.
    pub result: Result<Response, String>,
    /// The error's code, where the transport has one.
    pub code: Option<Code>,
    /// How many outputs an error carries besides.
    pub outputs: u32,
}

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A status code of gRPC.
    Grpc(u16),
    /// A status of HTTP.
    Http(u16),
}

impl Received {
    fn memory(&self) -> usize {
        let tensor = |tensor: &Tensor| {
            let data = match &tensor.data {
                TensorData::Raw(bytes) => bytes.len(),
                TensorData::Int32(elements) => elements.len() * size_of::<i32>(),
                TensorData::Absent => 0,
            };
            size_of::<Tensor>()
                + tensor.name.len()
                + tensor.datatype.len()
                + tensor.shape.len() * size_of::<i64>()
                + data
        };
        let response = |response: &Response| {
            size_of::<Response>()
                + response.model.len()
                + response.version.len()
                + response.outputs.iter().map(tensor).sum::<usize>()
        };
        let result = match &self.result {
            Ok(first) => response(first) + first.series.further.iter().map(response).sum::<usize>(),
            Err(text) => text.len(),
        };
        size_of::<Self>() + self.id.len() + result
    }

    /// The request that the message says it answers; none where that is no request of this tool.
    pub fn request(&self) -> Option<RequestId> {
        self.id.parse().ok()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc(code) => write!(f, "gRPC code {code}"),
            Self::Http(status) => write!(f, "HTTP status {status}"),
        }
    }
}

/// A response that is not an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The model that answered.
    pub model: String,
    /// The version of the model, empty where the server does not tell it.
    pub version: String,
    /// Its outputs.
    pub outputs: Vec<Tensor>,
    /// What came for the same request after it.
    pub series: Series,
}

impl Response {
    /// The responses that came for the request, in their order: none where what came was empty, which only tells of the end.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        let all = std::iter::once(self).chain(&self.series.further);
        all.filter(|response| !response.outputs.is_empty())
    }

    /// Whether nothing is in it: so a stream tells of a request's end, and of its cancellation.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.series.further.is_empty()
    }
}

/// What came for a request after the first response, where the model is decoupled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The further responses, in the order in which they came.
    pub further: Vec<Response>,
    /// Whether no response said that it is the last, however long that was waited for.
    pub is_unfinished: bool,
    /// How long after the first response the last one came; zero where there was one. None where it is not known.
    pub spread: Option<Duration>,
}
