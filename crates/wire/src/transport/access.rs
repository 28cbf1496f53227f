//! What it takes to be let in at an endpoint: TLS, headers, and how connections are kept.

use std::{
    env, io,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tonic::{codec::CompressionEncoding, transport::Endpoint as TonicEndpoint};

use super::{
    call_error::{CallError, reasons},
    goaway::GoAways,
    lock,
    template::RequestTemplate,
    tls::Tls,
};
use crate::net::Socket;
use workload::{
    endpoint::Endpoint,
    event::ServerName,
    header::{HeaderName as TargetHeader, WITHHELD},
    scenario::{Compression, Millis, Target},
};

/// The fewest bytes of a secret that is looked for in what a server says: shorter ones are in everything.
const SECRET_BYTES: usize = 5;
/// The most bytes of a text that a server sent.
const SAID_MAX: usize = 4096;

/// What it takes to be let in at an endpoint, and how connections are kept there. It is made once for a run, and costs nothing to clone.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub(super) terms: Arc<Terms>,
    observed: Arc<Observed>,
}

/// What was seen of connections since the run began.
#[derive(Debug, Default)]
struct Observed {
    gone_away: Mutex<GoAways>,
    shortage: OnceLock<String>,
}

#[derive(Debug, Default)]
pub(super) struct Terms {
    /// What every call carries. Each value is marked as one that nobody is shown.
    pub(super) headers: HeaderMap,
    /// None where nothing is secured.
    tls: Option<Tls>,
    pub(super) compression: Compression,
    /// How long the making of a connection may take, where that is not as long as a call.
    pub(super) connect_timeout: Option<Duration>,
    keep_alive: Option<Duration>,
    keep_alive_timeout: Option<Duration>,
    pub(super) message_bytes_max: Option<usize>,
    /// What carries the correlation ID besides, for those who do not read messages.
    sequence_header: Option<HeaderName>,
    /// What tells which server answered.
    server_header: Option<HeaderName>,
}

impl Access {
    /// What a target asks for: files are read, and variables of the environment.
    ///
    /// # Errors
    /// What cannot be had, in one line that has no secret in it.
    pub fn new(target: &Target) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for header in &target.headers {
            let secret = header.value(|variable| env::var(variable).ok())?;
            let problem = || format!("header '{}' cannot be sent", header.name());
            let name = HeaderName::from_bytes(header.name().as_bytes()).map_err(|_| problem())?;
            let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| problem())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let named = |name: &Option<TargetHeader>| {
            let name = name.as_ref()?;
            Some(HeaderName::from_bytes(name.as_str().as_bytes()).expect("such a name is one of HTTP"))
        };
        let terms = Terms {
            headers,
            sequence_header: named(&target.sequence_header),
            server_header: named(&target.server_header),
            tls: target.is_secured().then(|| Tls::new(&target.tls)).transpose()?,
            compression: target.compression,
            connect_timeout: target.connect_timeout_ms.map(Millis::duration),
            keep_alive: target.keep_alive_ms.map(Millis::duration),
            keep_alive_timeout: target.keep_alive_timeout_ms.map(Millis::duration),
            message_bytes_max: target.message_bytes_max.map(|max| usize::try_from(max.get()).unwrap_or(usize::MAX)),
        };
        Ok(Self { terms: Arc::new(terms), observed: Arc::default() })
    }

    /// What became so far of connections that the server ended in good order.
    pub fn gone_away(&self) -> GoAways {
        *lock(&self.observed.gone_away)
    }

    /// What this machine had no more of when a connection was to be made, as the system says it; none while it had enough. The server has
    /// nothing to do with what broke then.
    pub fn shortage(&self) -> Option<&str> {
        self.observed.shortage.get().map(String::as_str)
    }

    pub(super) fn ran_short(&self, error: &io::Error) {
        // The first one says enough.
        _ = self.observed.shortage.set(error.to_string());
    }

    pub(super) fn count(&self, more: impl FnOnce(&mut GoAways)) {
        more(&mut lock(&self.observed.gone_away));
    }

    /// What a server said, as it may be shown and kept: without the values of headers, which it may repeat, and no longer than anybody
    /// reads.
    pub(super) fn shown(&self, mut said: String) -> String {
        for value in self.terms.headers.values().filter_map(|value| value.to_str().ok()) {
            // What follows a scheme's name is a secret by itself, too.
            let alone = value.split_once(' ').map_or("", |(_, alone)| alone.trim());
            for secret in [value, alone].into_iter().filter(|secret| secret.len() >= SECRET_BYTES) {
                if said.contains(secret) {
                    said = said.replace(secret, WITHHELD);
                }
            }
        }
        if said.len() > SAID_MAX {
            let end = (0..=SAID_MAX).rev().find(|end| said.is_char_boundary(*end)).unwrap_or(0);
            said = format!("{} … ({} bytes)", &said[..end], said.len());
        }
        said
    }

    /// The header with the correlation ID of a context, where the target has one.
    pub(super) fn sequence_header(&self, template: &RequestTemplate) -> Option<(HeaderName, HeaderValue)> {
        let name = self.terms.sequence_header.clone()?;
        Some((name, HeaderValue::try_from(template.id_in_a_header()).expect("what no header can have is escaped")))
    }

    /// The server that a response's headers name, where the target says which header does that.
    pub(super) fn server_of(&self, headers: &HeaderMap) -> Option<ServerName> {
        let value = headers.get(self.terms.server_header.as_ref()?)?;
        Some(ServerName::new(&self.shown(String::from_utf8_lossy(value.as_bytes()).into_owned())))
    }

    /// How messages are compressed, as gRPC has it.
    pub(super) fn encoding(&self) -> Option<CompressionEncoding> {
        match self.terms.compression {
            Compression::None => None,
            Compression::Gzip => Some(CompressionEncoding::Gzip),
            Compression::Deflate => Some(CompressionEncoding::Deflate),
        }
    }

    /// An endpoint as the library has it.
    pub(super) fn tonic(&self, endpoint: &Endpoint) -> Result<TonicEndpoint, CallError> {
        let tonic =
            TonicEndpoint::from_shared(endpoint.uri()).map_err(|error| CallError::Unreachable(reasons(&error)))?;
        let Some(keep_alive) = self.terms.keep_alive else { return Ok(tonic) };
        let tonic = tonic.http2_keep_alive_interval(keep_alive).keep_alive_while_idle(true);
        Ok(match self.terms.keep_alive_timeout {
            Some(limit) => tonic.keep_alive_timeout(limit),
            None => tonic,
        })
    }

    /// A connection to an endpoint over nothing but the system's network, secured where it has to be.
    ///
    /// # Errors
    /// When no connection can be made, or not secured.
    pub async fn connect(&self, endpoint: &Endpoint) -> io::Result<Socket> {
        self.secured(endpoint, Socket::connect(&endpoint.address()).await?).await
    }

    /// A connection that was made to an endpoint, whatever it goes through, secured where it has to be.
    pub(super) async fn secured(&self, endpoint: &Endpoint, stream: Socket) -> io::Result<Socket> {
        match &self.terms.tls {
            Some(tls) if endpoint.scheme.is_secured() => tls.secure(endpoint, stream).await,
            None if endpoint.scheme.is_secured() => {
                Err(io::Error::other(format!("{endpoint} is secured, and nothing is known of how")))
            }
            _ => Ok(stream),
        }
    }

    /// A call was answered: who calls was let in.
    pub(super) fn was_answered(&self) {
        if let Some(tls) = &self.terms.tls {
            tls.was_answered();
        }
    }

    /// Why a call that failed was not answered, where TLS has to do with it.
    pub(super) fn explain(&self, error: CallError) -> CallError {
        let is_of_the_connection = matches!(error, CallError::Unreachable(_) | CallError::NotThisProtocol(_));
        let missing = self.terms.tls.as_ref().and_then(Tls::rejected_caller).filter(|_| is_of_the_connection);
        missing.map_or(error, CallError::NotSecured)
    }
}
