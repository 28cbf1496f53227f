//! The small language that conversations are written in. [`crate::runner`] carries them out.

use std::fmt;

use crate::{setup::Setup, step::Step};

/// A name for a stream or for a call that is under way: what is sent on it and what comes back.
pub(crate) type Link = &'static str;

/// What a stream is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Errors come as messages within the stream.
    Plain,
    /// `triton_grpc_error`: the first error ends the stream with a status.
    GrpcError,
    /// Through a proxy, which can cut the connection without a word.
    Proxied,
}

/// What a request travels over that is a call of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// gRPC's `ModelInfer`.
    Unary,
    /// HTTP, with the tensors in the JSON.
    Http,
    /// HTTP, with the tensors' bytes behind the JSON.
    HttpBinary,
}

/// A call that is no inference.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    Live,
    Ready,
    ModelReady {
        model: &'static str,
        version: &'static str,
    },
    ServerMetadata,
    ModelMetadata {
        model: &'static str,
        version: &'static str,
    },
    ModelConfig {
        model: &'static str,
    },
    Index {
        ready: bool,
    },
    /// The statistics of a model, of which only the outcome is told: for models that are not there.
    StatisticsOf {
        model: &'static str,
    },
    LoadUnchanged {
        model: &'static str,
    },
    LoadConfig {
        model: &'static str,
        config: &'static str,
    },
    Load(Box<Setup>),
    Unload {
        model: &'static str,
    },
}

/// One thing that a conversation does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Opens a stream otherwise than [`Opening::Plain`], which a first `Send` does by itself.
    Open(Link, Opening),
    /// Sends a request on a stream. Between requests on different links time passes, so that they arrive in this order.
    Send(Link, Step),
    /// Sends a request on a stream without any time between it and the last one.
    SendAtOnce(Link, Step),
    /// Begins a call. Answers of one link are taken in the order of its calls.
    Call(Link, By, Step),
    /// Begins a call without any time between it and what was before.
    CallAtOnce(Link, By, Step),
    /// Waits for so many answers of a link and writes them down.
    Take(Link, usize),
    /// Waits for the end of a link and writes it down, with all that comes before.
    TakeEnd(Link),
    /// Waits this long and writes down what links have got an answer.
    Quiet(u64),
    Pause(u64),
    Cancel(Link),
    /// Cuts a proxied stream's connection.
    Disconnect(Link),
    /// Says that no more requests come on a stream.
    HalfClose(Link),
    /// Makes a call that is no inference and writes its outcome down.
    Ask(Query),
    /// Waits until the model's statistics stand still and writes them down.
    Statistics,
    /// As `Statistics`, without executions and their batches: where it is not determined what goes together.
    Counts,
    /// Waits until a model has this state in the index.
    AwaitState(&'static str, &'static str),
}

/// What Triton's Python backend has to say in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnPython {
    /// What the native models say.
    Same,
    /// Something else, which is kept in a file of its own, for this reason.
    Other(&'static str),
    /// It is not asked, for this reason.
    Not(&'static str),
}

/// What is said to a server, and in which order.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) about: &'static str,
    pub(crate) setup: Setup,
    /// Whether nothing else may be loaded, and nothing have been loaded since it was unloaded.
    pub(crate) is_alone: bool,
    pub(crate) on_python: OnPython,
    pub(crate) actions: Vec<Action>,
}

/// Begins a conversation with a model that is loaded afresh.
pub(crate) fn conversation(name: impl Into<String>, about: &'static str, setup: Setup) -> Conversation {
    Conversation { name: name.into(), about, setup, is_alone: false, on_python: OnPython::Same, actions: Vec::new() }
}

impl Conversation {
    pub(crate) fn then(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// All models are unloaded before this one's is loaded.
    pub(crate) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    pub(crate) fn on_python(self, on_python: OnPython) -> Self {
        Self { on_python, ..self }
    }

    pub(crate) fn open(self, link: Link, opening: Opening) -> Self {
        self.then(Action::Open(link, opening))
    }

    pub(crate) fn send(self, link: Link, step: Step) -> Self {
        self.then(Action::Send(link, step))
    }

    pub(crate) fn send_at_once(self, link: Link, step: Step) -> Self {
        self.then(Action::SendAtOnce(link, step))
    }

    pub(crate) fn send_all(self, link: Link, steps: impl IntoIterator<Item = Step>) -> Self {
        steps.into_iter().fold(self, |conversation, step| conversation.send(link, step))
    }

    pub(crate) fn take(self, link: Link, count: usize) -> Self {
        self.then(Action::Take(link, count))
    }

    /// Sends a step and waits for its answer.
    pub(crate) fn exchange(self, link: Link, step: Step) -> Self {
        self.send(link, step).take(link, 1)
    }

    /// Begins a unary inference.
    pub(crate) fn call(self, link: Link, step: Step) -> Self {
        self.then(Action::Call(link, By::Unary, step))
    }

    /// The same conversation with calls in place of streams; none where it is about streams, or about steps that are sent at once,
    /// which calls have no order for.
    pub(crate) fn over(mut self, by: By) -> Option<Self> {
        let mut actions = Vec::new();
        let mut left = self.actions.into_iter().peekable();
        while let Some(action) = left.next() {
            actions.push(match action {
                Action::Send(link, step) | Action::Call(link, _, step) => Action::Call(link, by, step),
                Action::SendAtOnce(link, step) => match left.peek() {
                    Some(Action::Take(of, 1)) if *of == link => Action::CallAtOnce(link, by, step),
                    _ => return None,
                },
                Action::Open(..)
                | Action::CallAtOnce(..)
                | Action::TakeEnd(_)
                | Action::Cancel(_)
                | Action::Disconnect(_)
                | Action::HalfClose(_) => return None,
                action => action,
            });
        }
        self.actions = actions;
        self.name = format!("{}-by-{by}", self.name);
        Some(self.on_python(OnPython::Not("what requests travel over is the same whatever the models run on")))
    }

    /// Makes a unary inference and waits for its answer.
    pub(crate) fn infer(self, step: Step) -> Self {
        self.call("unary", step).take("unary", 1)
    }

    pub(crate) fn ask(mut self, query: Query) -> Self {
        // The index tells of every model.
        self.is_alone |= matches!(query, Query::Index { .. });
        self.then(Action::Ask(query))
    }

    pub(crate) fn quiet(self, ms: u64) -> Self {
        self.then(Action::Quiet(ms))
    }

    pub(crate) fn pause(self, ms: u64) -> Self {
        self.then(Action::Pause(ms))
    }

    pub(crate) fn cancel(self, link: Link) -> Self {
        self.then(Action::Cancel(link))
    }

    pub(crate) fn disconnect(self, link: Link) -> Self {
        self.then(Action::Disconnect(link))
    }

    pub(crate) fn half_close(self, link: Link) -> Self {
        self.then(Action::HalfClose(link))
    }

    pub(crate) fn take_end(self, link: Link) -> Self {
        self.then(Action::TakeEnd(link))
    }

    pub(crate) fn statistics(self) -> Self {
        self.then(Action::Statistics)
    }

    pub(crate) fn counts(self) -> Self {
        self.then(Action::Counts)
    }

    pub(crate) fn await_state(self, model: &'static str, state: &'static str) -> Self {
        self.then(Action::AwaitState(model, state))
    }
}

impl fmt::Display for By {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unary => "unary",
            Self::Http => "http",
            Self::HttpBinary => "http-binary",
        })
    }
}

impl fmt::Display for Query {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => write!(out, "ServerLive"),
            Self::Ready => write!(out, "ServerReady"),
            Self::ModelReady { model, version } => write!(out, "ModelReady '{model}' '{version}'"),
            Self::ServerMetadata => write!(out, "ServerMetadata"),
            Self::ModelMetadata { model, version } => write!(out, "ModelMetadata '{model}' '{version}'"),
            Self::ModelConfig { model } => write!(out, "ModelConfig '{model}'"),
            Self::Index { ready } => write!(out, "RepositoryIndex{}", if *ready { " of what is ready" } else { "" }),
            Self::StatisticsOf { model } => write!(out, "ModelStatistics '{model}'"),
            Self::LoadUnchanged { model } => write!(out, "RepositoryModelLoad '{model}' without a configuration"),
            Self::LoadConfig { model, config } => write!(out, "RepositoryModelLoad '{model}' with {config}"),
            Self::Load(setup) => write!(out, "RepositoryModelLoad {setup}"),
            Self::Unload { model } => write!(out, "RepositoryModelUnload '{model}'"),
        }
    }
}
