//! How the steps of a population travel.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Distribution, Window};
use crate::conversation::Transport;

/// How the steps travel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sending {
    /// What they travel over; none where that follows from the endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// How long a gRPC stream lives.
    pub stream: StreamLife,
    /// Who shares a connection.
    pub connection: ConnectionOwner,
    /// When an ID's next START is sent.
    pub reuse: Reuse,
    /// How many steps of a sequence may be unanswered at a time.
    pub window: Window,
    /// The deadlines in ms of the pattern that has one; none where they are drawn from 1 to 30 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Distribution>,
}

table! {
    /// How long a gRPC stream lives.
    pub enum StreamLife {
        /// A new stream for each sequence. Sequences that are sent back to back share one: nothing orders the requests of two.
        PerSequence = "per-sequence";
        /// One stream for the context's life.
        PerContext = "per-context";
    }
}

table! {
    /// Who shares a connection.
    pub enum ConnectionOwner {
        /// Each context has its own.
        PerContext = "per-context";
        /// The contexts of a worker share one.
        PerWorker = "per-worker";
    }
}

table! {
    /// When the second sequence of an iteration is sent.
    pub enum Reuse {
        /// At once, behind the first one's END.
        Pipelined = "pipelined";
        /// When the first one's END was answered.
        AfterResponse = "after-response";
    }
}

impl Sending {
    /// What the steps travel over.
    pub fn transport(&self) -> Transport {
        self.transport.unwrap_or_default()
    }

    /// How the steps travel, in a few words.
    pub fn travels(&self) -> String {
        let [stream, connection] = [self.stream.name(), self.connection.name()].map(|per| per.replace('-', " "));
        match self.transport() {
            Transport::GrpcStream => format!("a connection {connection}, a stream {stream}"),
            Transport::GrpcStatus => format!("a connection {connection}, a stream {stream} that late errors end"),
            call => format!("a connection {connection}, a call per step ({call})"),
        }
    }

    /// How many steps may be unanswered at a time, where calls have no order but their answers'.
    pub fn window(&self) -> Window {
        if self.transport().is_stream() { self.window } else { Window::Steps(NonZeroU32::MIN) }
    }
}
