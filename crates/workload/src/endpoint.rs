//! Where the server is.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use crate::conversation::Transport;

table! {
    /// What is spoken at an endpoint.
    pub enum Protocol: Scheme {
        /// gRPC.
        Grpc = "gRPC", Scheme::Grpc;
        /// HTTP.
        Http = "HTTP", Scheme::Http;
    }
}

impl Protocol {
    /// Its scheme without TLS.
    pub fn scheme(self) -> Scheme {
        *self.row()
    }
}

table! {
    /// What is spoken at an endpoint, and whether it is secured.
    #[derive(Default)]
    pub enum Scheme: Secured {
        /// gRPC.
        #[default]
        Grpc = "grpc", Secured(Protocol::Grpc, false);
        /// gRPC over TLS.
        Grpcs = "grpcs", Secured(Protocol::Grpc, true);
        /// HTTP.
        Http = "http", Secured(Protocol::Http, false);
        /// HTTP over TLS.
        Https = "https", Secured(Protocol::Http, true);
    }
}

/// A protocol, and whether it goes over TLS.
struct Secured(Protocol, bool);

impl Scheme {
    /// What is spoken there.
    pub fn protocol(self) -> Protocol {
        self.row().0
    }

    /// Whether it is gRPC, secured or not.
    pub fn is_grpc(self) -> bool {
        self.protocol() == Protocol::Grpc
    }

    /// Whether it goes over TLS.
    pub fn is_secured(self) -> bool {
        self.row().1
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
    pub fn uri(&self) -> String {
        format!("{}://{}", if self.scheme.is_secured() { "https" } else { "http" }, self.address())
    }

    /// `HOST:PORT`, to connect to.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The host's name or address; an IPv6 address stands in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the host is this machine itself, as it is named by every machine.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether another endpoint has the same address, whatever is spoken there.
    pub fn is_at(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }

    /// The same place where something else is spoken.
    pub fn speaking(self, scheme: Scheme) -> Self {
        Self { scheme, ..self }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once("://").unwrap_or((Scheme::default().name(), text));
        let scheme = Scheme::named(name).ok_or_else(|| {
            format!(
                "'{text}': the scheme '{name}' is not known: use HOST:PORT, grpc://HOST:PORT, grpcs://, http:// or https://"
            )
        })?;
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
        match endpoint.uri().parse::<http::Uri>() {
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

/// The endpoints of one server, at each of which it is the same; never none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoints(Vec<Endpoint>);

impl Endpoints {
    /// Those of one server that speaks both.
    pub fn of_both(grpc: SocketAddr, http: SocketAddr) -> Self {
        Self(vec![grpc.into(), Endpoint::from(http).speaking(Scheme::Http)])
    }

    /// All of them.
    pub fn all(&self) -> &[Endpoint] {
        &self.0
    }

    /// The one for calls before and after a run: the first of gRPC, or the first of all.
    pub fn for_calls(&self) -> &Endpoint {
        self.of(Protocol::Grpc, 0).unwrap_or(&self.0[0])
    }

    /// Whether one of them speaks what this transport is.
    pub fn speak(&self, transport: Transport) -> bool {
        self.of(transport.protocol(), 0).is_some()
    }

    /// The transport for who has no other wish.
    pub fn usual(&self) -> Transport {
        if self.speak(Transport::GrpcStream) { Transport::GrpcStream } else { Transport::HttpBinary }
    }

    /// Adds one.
    pub fn add(&mut self, endpoint: Endpoint) {
        self.0.push(endpoint);
    }

    /// One of a protocol, taken in turn by who comes at which place.
    pub fn of(&self, protocol: Protocol, place: usize) -> Option<&Endpoint> {
        let such = || self.0.iter().filter(|endpoint| endpoint.scheme.protocol() == protocol);
        such().nth(place % such().count().max(1))
    }
}

impl TryFrom<Vec<Endpoint>> for Endpoints {
    type Error = String;

    fn try_from(all: Vec<Endpoint>) -> Result<Self, String> {
        if all.is_empty() { Err("the list of endpoints is empty".to_owned()) } else { Ok(Self(all)) }
    }
}

impl From<Endpoint> for Endpoints {
    fn from(endpoint: Endpoint) -> Self {
        Self(vec![endpoint])
    }
}

impl From<SocketAddr> for Endpoints {
    fn from(address: SocketAddr) -> Self {
        Endpoint::from(address).into()
    }
}

/// Endpoints with commas between them.
impl FromStr for Endpoints {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(|text| text.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(Endpoint::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// One as a text, several as a list.
impl Serialize for Endpoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [endpoint] => endpoint.serialize(serializer),
            all => all.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Endpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Endpoints;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an endpoint or a list of endpoints")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Endpoints, E> {
                text.parse::<Endpoint>().map(Endpoints::from).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Endpoints, A::Error> {
                let all = Vec::<Endpoint>::deserialize(SeqAccessDeserializer::new(list))?;
                Endpoints::try_from(all).map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(OneOrMore)
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
    fn endpoints_of_a_kind_are_taken_in_turn() {
        let all: Endpoints = "a:1, http://h:2,b:3".parse().expect("endpoints");
        let text = |endpoint: Option<&Endpoint>| endpoint.map(ToString::to_string).unwrap_or_default();
        assert_eq!([0, 1, 2].map(|place| text(all.of(Protocol::Grpc, place))), ["a:1", "b:3", "a:1"]);
        assert_eq!([0, 1].map(|place| text(all.of(Protocol::Http, place))), ["http://h:2", "http://h:2"]);
        assert_eq!((all.for_calls().to_string(), all.to_string()), ("a:1".into(), "a:1, http://h:2, b:3".into()));
        let alone: Endpoints = serde_json::from_str("\"http://h:2\"").expect("one");
        assert_eq!(
            (text(alone.of(Protocol::Grpc, 5)), alone.for_calls().to_string()),
            (String::new(), "http://h:2".into())
        );
        for one in [alone, all] {
            let json = serde_json::to_string(&one).expect("JSON");
            assert_eq!(serde_json::from_str::<Endpoints>(&json).expect("endpoints"), one);
        }
        assert!(serde_json::from_str::<Endpoints>("[]").is_err());
    }

    #[test]
    fn other_texts_are_rejected_with_the_reason() {
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
