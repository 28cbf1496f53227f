//! Connections over TLS.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use workload::endpoint::Endpoint;

/// Secures connections to a server that an authority vouches for.
#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// For a protocol by its name in TLS.
    pub(super) fn new(ca: Option<&Path>, protocol: &[u8]) -> Result<Self, String> {
        let path = ca.ok_or("a server with TLS needs --ca FILE")?;
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| problem(&error))? {
            let certificate = certificate.map_err(|error| problem(&error))?;
            roots.add(certificate).map_err(|error| problem(&error))?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) async fn connect(&self, endpoint: &Endpoint) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(endpoint.address()).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(endpoint.host().to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
    }
}
