//! How steps travel.

use std::str::FromStr;

use crate::endpoint::Protocol;

table! {
    /// How steps travel, and their answers back.
    #[derive(Default)]
    pub enum Transport: Row {
        /// A gRPC stream, `ModelStreamInfer`.
        #[default]
        GrpcStream = "grpc-stream",
            Row { is_stream: true, ..Row::of(Protocol::Grpc, "opens the stream") };
        /// One gRPC call each, `ModelInfer`.
        GrpcUnary = "grpc-unary", Row::of(Protocol::Grpc, "calls ModelInfer");
        /// One HTTP request each, its tensors in JSON.
        Http = "http", Row { is_json: true, ..Row::of(Protocol::Http, "calls over HTTP") };
        /// One HTTP request each, its tensors as bytes behind the JSON.
        HttpBinary = "http-binary", Row::of(Protocol::Http, "calls over HTTP, binary");
    }
}

/// What a transport is like.
struct Row {
    protocol: Protocol,
    opens: &'static str,
    is_stream: bool,
    is_json: bool,
}

impl Row {
    /// Calls, whose tensors are bytes.
    const fn of(protocol: Protocol, opens: &'static str) -> Self {
        Self { protocol, opens, is_stream: false, is_json: false }
    }
}

impl Transport {
    /// The names of all as a sentence has them, each between such quotes.
    pub fn listed(quote: &str) -> String {
        let [first @ .., last] = Self::ALL.map(|transport| format!("{quote}{transport}{quote}"));
        format!("{} or {last}", first.join(", "))
    }

    /// What has to be spoken at an endpoint.
    pub fn protocol(self) -> Protocol {
        self.row().protocol
    }

    /// What the client does when it begins to send, in words.
    pub fn opens(self) -> &'static str {
        self.row().opens
    }

    /// Whether steps go over one stream. If not, each is a call of its own; nothing orders two calls, so that each is made when the
    /// one before it is answered.
    pub fn is_stream(self) -> bool {
        self.row().is_stream
    }

    /// Whether it is HTTP, and not gRPC.
    pub fn is_http(self) -> bool {
        self.protocol() == Protocol::Http
    }

    /// Whether tensors are JSON, which does not have every type, and not bytes.
    pub fn is_json(self) -> bool {
        self.row().is_json
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| format!("give one of {}", Self::NAMES.join(", ")))
    }
}
