//! Certificates, and a server that secures connections and carries them on.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tokio_rustls::TlsAcceptor;

use super::runs::runtime;

/// An authority, and what it has certified, as PEM files `ca.pem`, `NAME.pem` and `NAME.key`.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    /// One that has certified a server on this machine (`server`) and a client (`client`).
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("it is written");
        let authority = Self { issuer: Issuer::new(params, key), folder };
        authority.certify("server", &["localhost", "127.0.0.1"], |_| {});
        authority.certify("client", &["client.test"], |_| {});
        authority
    }

    /// Certifies somebody with these names.
    pub fn certify(&self, name: &str, names: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("parameters");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).expect("it is written");
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).expect("it is written");
    }

    /// Certifies a server on this machine until the year 2001.
    pub fn certify_until_2001(&self, name: &str) {
        self.certify(name, &["localhost", "127.0.0.1"], |params| {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        });
    }

    pub fn file(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    }
}

/// Secures connections with a certificate and carries them to a server, until it is dropped.
pub struct TlsFront {
    pub address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl TlsFront {
    pub fn start(upstream: SocketAddr, authority: &Authority, name: &str, wants_client: bool) -> Self {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_file(authority.file("ca.pem")).expect("a certificate"))
                .expect("it is one");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_file(authority.file(&format!("{name}.pem"))).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(authority.file(&format!("{name}.key"))).expect("a key");
        let mut config = builder.with_single_cert(chain, key).expect("they go together");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = runtime();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("a test that waits");
                let accept = async {
                    loop {
                        let (near, _) = listener.accept().await.expect("a connection");
                        tokio::spawn(carry(acceptor.clone(), near, upstream));
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { address: address.recv().expect("it starts"), _stop: stop }
    }
}

async fn carry(acceptor: TlsAcceptor, near: TcpStream, upstream: SocketAddr) {
    near.set_nodelay(true).expect("it is set");
    // Clients that cannot be let in are what some tests are about.
    let Ok(mut near) = acceptor.accept(near).await else { return };
    let mut far = TcpStream::connect(upstream).await.expect("a server");
    far.set_nodelay(true).expect("it is set");
    // Clients end connections as they like.
    let _ = copy_bidirectional(&mut near, &mut far).await;
}
