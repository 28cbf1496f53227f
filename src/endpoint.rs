//! Where the server is.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::{Deserialize, Serialize};

/// What is spoken at an endpoint, and whether it is secured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// gRPC.
    #[default]
    Grpc,
    /// gRPC over TLS.
    Grpcs,
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    const ALL: [Self; 4] = [Self::Grpc, Self::Grpcs, Self::Http, Self::Https];

    /// The scheme as a URL has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Whether it is gRPC, secured or not.
    #[must_use]
    pub fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::Grpcs)
    }

    /// Whether it goes over TLS.
    #[must_use]
    pub fn is_secured(self) -> bool {
        matches!(self, Self::Grpcs | Self::Https)
    }
}

/// A server's endpoint: `HOST:PORT`, which is gRPC, or `SCHEME://HOST:PORT` with one of [`Scheme`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// What is spoken there.
    pub scheme: Scheme,
    /// A name or an address; an IPv6 address stands in brackets.
    host: String,
    port: u16,
}

impl Endpoint {
    /// The endpoint as the URI of HTTP requests, `http` or `https`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{}://{}", if self.scheme.is_secured() { "https" } else { "http" }, self.address())
    }

    /// `HOST:PORT`, to connect to.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The host's name or address; an IPv6 address stands in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The same place where something else is spoken.
    #[must_use]
    pub fn speaking(self, scheme: Scheme) -> Self {
        Self { scheme, ..self }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, address) = match text.split_once("://") {
            None => (Scheme::default(), text),
            Some((name, address)) => match Scheme::ALL.into_iter().find(|scheme| scheme.name() == name) {
                Some(scheme) => (scheme, address),
                None => {
                    return Err(format!(
                        "'{text}': the scheme '{name}' is not known: use HOST:PORT, grpc://HOST:PORT, grpcs://, http:// or https://"
                    ));
                }
            },
        };
        // As copied from a browser.
        let address = if scheme.is_grpc() { address } else { address.trim_end_matches('/') };
        let no_port = || format!("'{text}' has no port: use HOST:PORT, such as localhost:8001");
        let (host, port) = address.rsplit_once(':').ok_or_else(no_port)?;
        if port.is_empty() || (host.starts_with('[') && !host.ends_with(']')) {
            return Err(no_port());
        }
        let port = match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("'{text}': '{port}' is not a port from 1 to 65535")),
        };
        let endpoint = Self { scheme, host: host.to_owned(), port };
        match endpoint.uri().parse::<tonic::transport::Uri>() {
            Ok(uri) if !host.is_empty() && uri.host() == Some(host) && uri.port_u16() == Some(port) => Ok(endpoint),
            _ => Err(format!("'{text}': '{host}' is not a host")),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let host = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        Self { scheme: Scheme::default(), host, port: address.port() }
    }
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

/// `HOST:PORT` for plain gRPC, the scheme before it for others.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Grpc => f.write_str(&self.address()),
            other => write!(f, "{}://{}", other.name(), self.address()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_other_clients_take_them() {
        for (text, endpoint) in [
            ("localhost:8001", "localhost:8001"),
            ("grpc://127.0.0.1:9", "127.0.0.1:9"),
            ("[::1]:8001", "[::1]:8001"),
            ("a-server.example:65535", "a-server.example:65535"),
            ("grpcs://h:1", "grpcs://h:1"),
            ("http://h:8000/", "http://h:8000"),
            ("https://[::1]:8000", "https://[::1]:8000"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|e| e.to_string()), Ok(endpoint.to_owned()));
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, reason) in [
            ("localhost", "has no port"),
            ("localhost:", "has no port"),
            ("grpc://localhost", "has no port"),
            ("[::1]", "has no port"),
            ("localhost:0", "not a port"),
            ("localhost:65536", "not a port"),
            ("localhost:http", "not a port"),
            ("tcp://localhost:8001", "scheme 'tcp'"),
            ("http://localhost:8000/v2", "not a port"),
            ("://localhost:8001", "scheme ''"),
            (":8001", "not a host"),
            ("a b:8001", "not a host"),
            ("user@host:8001", "not a host"),
            ("", "has no port"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
