//! TLS: whom the server has to be, who calls, and what is said where they do not come together.

use std::{
    error::Error,
    fmt, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, SignatureScheme,
    client::{ResolvesClientCert, WantsClientCert},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::CertifiedKey,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};
use tokio_rustls::{TlsConnector, TlsStream};

use super::call_error::chain;
use crate::net::Socket;
use workload::{endpoint::Endpoint, scenario};

/// Secures connections.
#[derive(Clone)]
pub(super) struct Tls {
    http2: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    /// In place of the endpoint's host.
    server_name: Option<ServerName<'static>>,
    caller: Arc<Caller>,
}

/// Why a connection could not be secured, for people.
#[derive(Debug)]
pub(super) struct TlsFailure(String);

/// Who calls, with a certificate or without, and what came of it.
#[derive(Debug)]
struct Caller {
    own: Arc<dyn ResolvesClientCert>,
    was_asked: AtomicBool,
    /// Whether a call was ever answered.
    was_let_in: AtomicBool,
}

/// A byte with which a server's first record begins: an alert, or a part of the handshake.
const RECORD_TYPES: [u8; 2] = [21, 22];

impl Tls {
    /// What the scenario says of it; where a file cannot be used, why, in one line.
    pub(super) fn new(settings: &scenario::Tls) -> Result<Self, String> {
        let roots = match &settings.ca {
            Some(path) => roots_in(path)?,
            None => roots_of_the_system()?,
        };
        let builder = trusting(roots).map_err(|error| error.to_string())?;
        let mut config = match (&settings.client_cert, &settings.client_key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate, "--client-cert, target.tls.client_cert")?;
                let read = PrivateKeyDer::from_pem_file(key).map_err(|error| {
                    unreadable("the client's key", key, "--client-key, target.tls.client_key", &error)
                })?;
                builder.with_client_auth_cert(chain, read).map_err(|error| {
                    let (certificate, key) = (certificate.display(), key.display());
                    format!("the client's certificate in {certificate} cannot be used with the key in {key}: {error}")
                })?
            }
            _ => builder.with_no_client_auth(),
        };
        let caller = Arc::new(Caller {
            own: Arc::clone(&config.client_auth_cert_resolver),
            was_asked: AtomicBool::new(false),
            was_let_in: AtomicBool::new(false),
        });
        config.client_auth_cert_resolver = Arc::clone(&caller) as Arc<dyn ResolvesClientCert>;
        let server_name = settings.server_name.as_deref().map(|name| {
            ServerName::try_from(name.to_owned())
                .map_err(|_| format!("'{name}' is no server's name (--server-name, target.tls.server_name)"))
        });
        let speaking = |name: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![name.to_vec()];
            Arc::new(config)
        };
        Ok(Self { http2: speaking(b"h2"), http1: speaking(b"http/1.1"), server_name: server_name.transpose()?, caller })
    }

    pub(super) async fn secure(&self, endpoint: &Endpoint, stream: Socket) -> io::Result<Socket> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => name_of(endpoint)?,
        };
        let config = if endpoint.scheme.is_grpc() { &self.http2 } else { &self.http1 };
        match TlsConnector::from(Arc::clone(config)).connect(name, stream).await {
            Ok(stream) => Ok(TlsStream::from(stream).into()),
            Err(error) => Err(io::Error::new(error.kind(), TlsFailure(self.explain(endpoint, &error)))),
        }
    }

    /// Why nobody is let in, where a server asked for the client's certificate and answered no call yet.
    pub(super) fn rejected_caller(&self) -> Option<String> {
        let Caller { own, was_asked, was_let_in } = &*self.caller;
        if !was_asked.load(Relaxed) || was_let_in.load(Relaxed) {
            return None;
        }
        Some(if own.has_certs() {
            "the server asks for the client's certificate, and does not take this one: is it still valid, and of an authority that \
             the server trusts (--client-cert)?"
                .to_owned()
        } else {
            "the server asks for the client's certificate, and there is none: give it with --client-cert FILE and --client-key FILE"
                .to_owned()
        })
    }

    pub(super) fn was_answered(&self) {
        self.caller.was_let_in.store(true, Relaxed);
    }

    fn explain(&self, endpoint: &Endpoint, error: &io::Error) -> String {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(why)) => explain_certificate(why),
            Some(rustls::Error::InvalidMessage(_)) => no_tls(endpoint),
            Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                format!("the endpoint speaks TLS, and not {}: is it another port?", endpoint.scheme.name())
            }
            Some(rustls::Error::AlertReceived(alert)) => self
                .rejected_caller()
                .unwrap_or_else(|| format!("the server ends the TLS handshake with the alert {alert:?}")),
            Some(other) => other.to_string(),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("the connection was closed in the TLS handshake; {}", no_tls(endpoint))
            }
            None => error.to_string(),
        }
    }
}

fn no_tls(endpoint: &Endpoint) -> String {
    let plain = if endpoint.scheme.is_grpc() { "grpc" } else { "http" };
    format!("what answers there seems to speak no TLS: without TLS the endpoint is {plain}://{}", endpoint.address())
}

fn explain_certificate(why: &CertificateError) -> String {
    match why {
        // A signature is wrong where another authority has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the server's certificate is of no authority that is trusted here: give the authority's own with --ca FILE"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: the server needs a new one, or this machine's clock is wrong"
                .to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: is this machine's clock right?".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| plain_name(name)).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            format!(
                "the server's certificate is not for '{}', but for {names}: give the name it is for with --server-name NAME",
                expected.to_str()
            )
        }
        CertificateError::NotValidForName => {
            "the server's certificate is for another name: give the name it is for with --server-name NAME".to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server's certificate is an authority's (CA:TRUE), which cannot be a server's own: have one made with CA:FALSE, or signed by \
             the authority of --ca"
                .to_owned()
        }
        other => format!("the server's certificate cannot be used: {other}"),
    }
}

/// A name as the library has it, such as `DnsName("a")`, without what is around it.
fn plain_name(name: &str) -> &str {
    name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name).trim_matches('"')
}

fn name_of(endpoint: &Endpoint) -> io::Result<ServerName<'static>> {
    let host = endpoint.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(|_| {
        let why = format!("'{}' is no name that a certificate can be for: --server-name NAME", endpoint.host());
        io::Error::new(io::ErrorKind::InvalidInput, TlsFailure(why))
    })
}

fn trusting(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots))
}

fn roots_in(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, "--ca, target.tls.ca")? {
        roots
            .add(certificate)
            .map_err(|error| format!("a certificate in {} cannot be used: {error}", path.display()))?;
    }
    Ok(roots)
}

fn roots_of_the_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
    Err(format!("this system has no certificates of authorities{why}: give that of the server's with --ca FILE"))
}

fn certificates(path: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let what = "certificates";
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| unreadable(what, path, key, &error))?;
    if read.is_empty() {
        return Err(format!("there are no {what} in {} ({key}): it has to be a PEM file", path.display()));
    }
    Ok(read)
}

fn unreadable(what: &str, path: &Path, key: &str, error: &rustls::pki_types::pem::Error) -> String {
    let why = match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "there is none in it; it has to be a PEM file".to_owned(),
        other => other.to_string(),
    };
    format!("cannot read {what} in {} ({key}): {why}", path.display())
}

/// Whether it speaks TLS at an endpoint.
pub async fn speaks_tls(endpoint: &Endpoint, limit: Duration) -> bool {
    timeout(limit, first_byte(endpoint)).await.is_ok_and(|first| first.is_ok_and(|first| RECORD_TYPES.contains(&first)))
}

/// The first byte with which a TLS handshake is answered.
async fn first_byte(endpoint: &Endpoint) -> io::Result<u8> {
    let config = trusting(RootCertStore::empty()).map_err(io::Error::other)?.with_no_client_auth();
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name_of(endpoint)?).map_err(io::Error::other)?.write_tls(&mut hello)?;
    let mut stream = Socket::connect(&endpoint.address()).await?;
    stream.write_all(&hello).await?;
    stream.read_u8().await
}

impl ResolvesClientCert for Caller {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Relaxed);
        self.own.resolve(authorities, schemes)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.own.only_raw_public_keys()
    }

    fn has_certs(&self) -> bool {
        self.own.has_certs()
    }
}

/// A key is a secret.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for TlsFailure {}

/// Why no connection could be secured, where that is what an error comes from.
pub(super) fn tls_failure(error: &(dyn Error + 'static)) -> Option<String> {
    chain(error).find_map(|error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<TlsFailure>());
        inner.or_else(|| error.downcast_ref()).map(ToString::to_string)
    })
}
