//! How steps travel.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// How steps travel, and their answers back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A gRPC stream, `ModelStreamInfer`.
    #[default]
    GrpcStream,
    /// One gRPC call each, `ModelInfer`.
    GrpcUnary,
    /// One HTTP request each, its tensors in JSON.
    Http,
    /// One HTTP request each, its tensors as bytes behind the JSON.
    HttpBinary,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::GrpcStream, Self::GrpcUnary, Self::Http, Self::HttpBinary];

    /// The name that scenario files and reports have.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GrpcStream => "grpc-stream",
            Self::GrpcUnary => "grpc-unary",
            Self::Http => "http",
            Self::HttpBinary => "http-binary",
        }
    }

    /// Whether steps go over one stream. If not, each is a call of its own; nothing orders two calls, so that each is made when the
    /// one before it is answered.
    #[must_use]
    pub fn is_stream(self) -> bool {
        self == Self::GrpcStream
    }

    /// Whether it is HTTP, and not gRPC.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::HttpBinary)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|transport| transport.name() == text);
        named.ok_or_else(|| format!("it has to be one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}
