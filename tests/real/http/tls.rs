//! TLS and mutual TLS, for both protocols.

use std::{net::SocketAddr, sync::Arc};

use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reference::{Options, Server, Tls};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tonic::transport::Endpoint;
use tower::service_fn;
use wire::proto::{ServerLiveRequest, grpc_inference_service_client::GrpcInferenceServiceClient};

use super::{
    MODEL,
    http::{connect, request, try_ask},
    options,
};

/// A certificate and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
        Self { issuer }
    }

    fn pair(&self) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }
}

fn server(own: &Pair, clients: Option<&Authority>) -> Server {
    let tls = Tls {
        certificates: own.certificate.clone().into_bytes(),
        key: own.key.clone().into_bytes(),
        client_authorities: clients.map(|authority| authority.pem().into_bytes()),
    };
    Server::start(Options { tls: Some(tls), ..options() }).expect("free ports")
}

fn client(trusts: &Authority, own: Option<&Pair>, protocol: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusts.pem().as_bytes()).expect("PEM")).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("it has them")
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(Pair { certificate, key }) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(vec![certificate], key).expect("they go together")
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Arc::new(config)
}

fn name() -> ServerName<'static> {
    "localhost".try_into().expect("a name")
}

fn over_http(server: &Server, trusts: &Authority, own: Option<&Pair>) -> Option<u16> {
    let connection = ClientConnection::new(client(trusts, own, "http/1.1"), name()).expect("it is right");
    let stream = StreamOwned::new(connection, connect(server.http));
    try_ask(stream, &request("GET", MODEL, &[], b"")).map(|answer| answer.status)
}

fn over_grpc(server: &Server, trusts: &Authority, own: Option<&Pair>) -> bool {
    let connector = tokio_rustls::TlsConnector::from(client(trusts, own, "h2"));
    let address: SocketAddr = server.address;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connect = service_fn(move |_| {
            let connector = connector.clone();
            async move {
                let stream = tokio::net::TcpStream::connect(address).await?;
                connector.connect(name(), stream).await.map(TokioIo::new)
            }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let Ok(channel) = endpoint.connect_with_connector(connect).await else { return false };
        GrpcInferenceServiceClient::new(channel).server_live(ServerLiveRequest {}).await.is_ok()
    })
}

#[test]
fn both_protocols_are_secured() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority.pair(), None);
    assert_eq!(over_http(&server, &authority, None), Some(200));
    assert!(over_grpc(&server, &authority, None));
    // Whom the client does not know it does not talk to.
    assert_eq!(over_http(&server, &other, None), None);
    assert!(!over_grpc(&server, &other, None));
    // What is not TLS is not answered, and does no harm.
    assert!(try_ask(connect(server.http), &request("GET", MODEL, &[], b"")).is_none_or(|answer| answer.status != 200));
    assert_eq!(over_http(&server, &authority, None), Some(200));
}

#[test]
fn clients_show_who_they_are() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = server(&authority.pair(), Some(&clients));
    let (known, unknown) = (clients.pair(), authority.pair());
    assert_eq!(over_http(&server, &authority, Some(&known)), Some(200));
    assert!(over_grpc(&server, &authority, Some(&known)));
    for own in [None, Some(&unknown)] {
        assert_eq!(over_http(&server, &authority, own), None);
        assert!(!over_grpc(&server, &authority, own));
    }
}
