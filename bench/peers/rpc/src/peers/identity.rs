//! A certificate that a server has and its clients trust.

use std::sync::Arc;

use bench_pair::Outcome;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};

use super::told;

/// The name in the certificate.
pub(super) const NAME: &str = "localhost";

/// A certificate and its key
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    pub(super) certificate_pem: String,
    pub(super) key_pem: String,
}

impl Identity {
    pub(super) fn new() -> Outcome<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(told)?;
        Ok(Self {
            certificate: made.cert.der().clone(),
            key: made.signing_key.serialize_der().into(),
            certificate_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
        })
    }

    /// TLS 1.3 of a server.
    pub(super) fn server(&self) -> Outcome<ServerConfig> {
        ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(told)?
            .with_no_client_auth()
            .with_single_cert(
                vec![self.certificate.clone()],
                PrivateKeyDer::Pkcs8(self.key.clone_key()),
            )
            .map_err(told)
    }

    /// TLS 1.3 of a client.
    pub(super) fn client(&self) -> Outcome<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(told)?;
        Ok(ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(told)?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }
}
