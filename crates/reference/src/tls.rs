//! TLS: who the server says it is, and whom it listens to.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

/// What a server needs to speak TLS, as PEM.
#[derive(Clone)]
pub struct Tls {
    /// Its certificate, and those that lead to its authority.
    pub certificates: Vec<u8>,
    /// The certificate's key.
    pub key: Vec<u8>,
    /// The authorities of clients' certificates; without them clients need none.
    pub client_authorities: Option<Vec<u8>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("client_authorities", &self.client_authorities.is_some()).finish_non_exhaustive()
    }
}

impl Tls {
    /// What takes connections on which this protocol is spoken.
    ///
    /// # Errors
    /// What is wrong with the certificates or the key, in one line.
    pub(super) fn acceptor(&self, protocol: &str) -> Result<TlsAcceptor, String> {
        let provider = Arc::new(ring::default_provider());
        let certificates =
            certificates(&self.certificates).map_err(|why| format!("the server's certificate (--tls-cert): {why}"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| format!("the server's key (--tls-key): no private key can be read from it ({error})"))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let wrong = |why: String| format!("the clients' authorities (--tls-client-ca): {why}");
                let mut roots = RootCertStore::empty();
                for authority in self::certificates(authorities).map_err(wrong)? {
                    roots.add(authority).map_err(|error| wrong(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| wrong(error.to_string()))?)
            }
        };
        let mut config = builder
            .with_single_cert(certificates, key)
            .map_err(|error| format!("the server's certificate and key do not go together: {error}"))?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = read.map_err(|error| format!("it is no PEM ({error})"))?;
    if certificates.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Tls {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        Tls {
            certificates: made.cert.pem().into_bytes(),
            key: made.signing_key.serialize_pem().into_bytes(),
            client_authorities: None,
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_in_one_line() {
        let (tls, other) = (made(), made());
        assert!(tls.acceptor("h2").is_ok());
        let mutual = Tls { client_authorities: Some(other.certificates.clone()), ..tls.clone() };
        assert!(mutual.acceptor("h2").is_ok());
        for (wrong, said) in [
            (
                Tls { certificates: b"none".to_vec(), ..tls.clone() },
                "the server's certificate (--tls-cert): there is no certificate",
            ),
            (Tls { key: b"none".to_vec(), ..tls.clone() }, "the server's key (--tls-key): no private key can be read"),
            (Tls { key: other.key.clone(), ..tls.clone() }, "the server's certificate and key do not go together"),
            (
                Tls { client_authorities: Some(tls.key.clone()), ..tls.clone() },
                "the clients' authorities (--tls-client-ca): there is no",
            ),
            (
                Tls { certificates: b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----".to_vec(), ..tls },
                "the server's certificate (--tls-cert): it is no PEM",
            ),
        ] {
            let Err(problem) = wrong.acceptor("h2") else { panic!("{said}: it is taken") };
            assert!(problem.contains(said) && !problem.contains('\n'), "{problem}");
        }
    }
}
