//! How steps travel.

use std::str::FromStr;

use crate::endpoint::Protocol;

table! {
    /// How steps travel, and their answers back.
    #[derive(Default)]
    pub enum Transport: Row {
        /// A gRPC stream, `ModelStreamInfer`.
        #[default]
        GrpcStream = "grpc-stream", Row(Protocol::Grpc, "opens the stream");
        /// One gRPC call each, `ModelInfer`.
        GrpcUnary = "grpc-unary", Row(Protocol::Grpc, "calls ModelInfer");
        /// One HTTP request each, its tensors in JSON.
        Http = "http", Row(Protocol::Http, "calls over HTTP");
        /// One HTTP request each, its tensors as bytes behind the JSON.
        HttpBinary = "http-binary", Row(Protocol::Http, "calls over HTTP, binary");
        /// A gRPC stream with the header `triton_grpc_error`: an error that comes late ends it, as its status.
        GrpcStatus = "grpc-status", Row(Protocol::Grpc, "opens the stream, errors as its status");
    }
}

/// What has to be spoken at an endpoint, and what the client does when it begins to send.
struct Row(Protocol, &'static str);

impl Transport {
    /// The names of all as a sentence has them, each between such quotes.
    pub fn listed(quote: &str) -> String {
        let [first @ .., last] = Self::ALL.map(|transport| format!("{quote}{transport}{quote}"));
        format!("{} or {last}", first.join(", "))
    }

    /// What has to be spoken at an endpoint.
    pub fn protocol(self) -> Protocol {
        self.row().0
    }

    /// What the client does when it begins to send, in words.
    pub fn opens(self) -> &'static str {
        self.row().1
    }

    /// Whether steps go over one stream. If not, each is a call of its own; nothing orders two calls, so that each is made when the
    /// one before it is answered.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::GrpcStream | Self::GrpcStatus)
    }

    /// Whether an error that the server finds after it took a request in ends the stream, with the error's code and text as its status.
    pub fn ends_with_errors(self) -> bool {
        self == Self::GrpcStatus
    }

    /// Whether it is HTTP, and not gRPC.
    pub fn is_http(self) -> bool {
        self.protocol() == Protocol::Http
    }

    /// Whether tensors are JSON, which does not have every type, and not bytes.
    pub fn is_json(self) -> bool {
        self == Self::Http
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| format!("give one of {}", Self::NAMES.join(", ")))
    }
}
