//! What it takes to be let in at the endpoint, and how its connections are kept.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::Target;
use crate::{endpoint::Endpoints, header::Header, said::is_default};

/// Whom a secured endpoint has to be, and who calls there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A PEM file with the certificates of the authorities that are trusted; without it the system's are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A PEM file with the client's certificate, and those between it and its authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// A PEM file with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// The name for which the server's certificate has to be, where it is not the endpoint's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

table! {
    /// How messages are compressed.
    #[derive(Default)]
    pub enum Compression {
        /// Not at all.
        #[default]
        None = "none";
        /// With gzip, both ways.
        Gzip = "gzip";
        /// With deflate, both ways.
        Deflate = "deflate";
    }
}

/// What the command line says of it in place of the file.
#[derive(Clone, Debug, Default)]
pub struct AccessOverrides {
    /// Key by key in place of `target.tls`.
    pub tls: Tls,
    /// Besides `target.headers`, and in place of those of the same names.
    pub headers: Vec<Header>,
    /// In place of `target.compression`.
    pub compression: Option<Compression>,
}

impl Target {
    /// Puts what the command line says in place of what the file does.
    pub fn override_access(&mut self, AccessOverrides { tls, headers, compression }: AccessOverrides) {
        let Tls { ca, client_cert, client_key, server_name } = tls;
        let own = &mut self.tls;
        own.ca = ca.or(own.ca.take());
        own.client_cert = client_cert.or(own.client_cert.take());
        own.client_key = client_key.or(own.client_key.take());
        own.server_name = server_name.or(own.server_name.take());
        self.headers.retain(|own| headers.iter().all(|header| header.name() != own.name()));
        self.headers.extend(headers);
        self.compression = compression.unwrap_or(self.compression);
    }

    /// Puts a server of this process in place of the endpoint: it needs nobody's secrets.
    pub fn embed(&mut self, grpc: SocketAddr, http: SocketAddr) {
        self.endpoint = Endpoints::of_both(grpc, http);
        self.tls = Tls::default();
        self.headers.clear();
        (self.replicas, self.sequence_header, self.server_header) = (None, None, None);
    }

    /// Whether anything there goes over TLS.
    pub fn is_secured(&self) -> bool {
        self.endpoint
            .all()
            .iter()
            .chain(self.servers())
            .chain(&self.metrics)
            .any(|endpoint| endpoint.scheme.is_secured())
    }

    pub(super) fn check_access(&self) -> Result<(), (String, String)> {
        let Tls { client_cert, client_key, .. } = &self.tls;
        let at = |key: &str, problem: &str| Err((key.to_owned(), problem.to_owned()));
        if client_cert.is_some() != client_key.is_some() {
            return at("target.tls", "a client's certificate and its key go together: --client-cert and --client-key");
        }
        if !is_default(&self.tls) && !self.is_secured() {
            return at(
                "target.tls",
                "--ca, --client-cert, --client-key and --server-name are for a secured endpoint, such as grpcs://HOST:PORT",
            );
        }
        for (index, header) in self.headers.iter().enumerate() {
            if self.headers[..index].iter().any(|other| other.name() == header.name()) {
                return at("target.headers", &format!("there are two headers '{}'", header.name()));
            }
        }
        if self.keep_alive_timeout_ms.is_some() && self.keep_alive_ms.is_none() {
            return at("target.keep_alive_timeout_ms", "it does nothing without target.keep_alive_ms");
        }
        Ok(())
    }
}
