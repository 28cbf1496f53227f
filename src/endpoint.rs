//! Where the server is.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::{Deserialize, Serialize};

/// A server's gRPC endpoint: `HOST:PORT` or `grpc://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// A name or an address; an IPv6 address stands in brackets.
    host: String,
    port: u16,
}

impl Endpoint {
    /// The endpoint as a URI.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{self}")
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = match text.split_once("://") {
            None => text,
            Some(("grpc", address)) => address,
            Some((scheme, _)) => {
                return Err(format!("'{text}': the scheme '{scheme}' is not known: use HOST:PORT or grpc://HOST:PORT"));
            }
        };
        let no_port = || format!("'{text}' has no port: use HOST:PORT, such as localhost:8001");
        let (host, port) = address.rsplit_once(':').ok_or_else(no_port)?;
        if port.is_empty() || (host.starts_with('[') && !host.ends_with(']')) {
            return Err(no_port());
        }
        let port = match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("'{text}': '{port}' is not a port from 1 to 65535")),
        };
        let endpoint = Self { host: host.to_owned(), port };
        match endpoint.uri().parse::<tonic::transport::Uri>() {
            Ok(uri) if !host.is_empty() && uri.host() == Some(host) && uri.port_u16() == Some(port) => Ok(endpoint),
            _ => Err(format!("'{text}': '{host}' is not a host")),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let host = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        Self { host, port: address.port() }
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

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
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
