use std::io::{Read, Write};
use std::sync::Arc;

use bench_pair::{Outcome, Task, repeat};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, version};

/// Name in the server's certificate.
const NAME: &str = "bench.test";

/// Mutually authenticated handshakes with Ed25519 certificates and X25519MLKEM768, none resumed.
pub(crate) fn handshakes() -> Outcome<Task> {
    let peers = Peers::new().map_err(|error| error.to_string())?;
    Ok(repeat(move || {
        peers.handshake().map(drop).map_err(|error| error.to_string())
    }))
}

/// Messages of `len` bytes with ChaCha20-Poly1305, each sealed by the client and opened by the server.
pub(crate) fn messages(len: usize) -> Outcome<Task> {
    let peers = Peers::new().map_err(|error| error.to_string())?;
    let mut wire = peers.handshake().map_err(|error| error.to_string())?;
    let payload = vec![7; len];
    let mut opened = vec![0; len];
    Ok(repeat(move || {
        wire.message(&payload, &mut opened)
            .map_err(|error| error.to_string())
    }))
}

type Fallible<T> = Result<T, Box<dyn core::error::Error>>;

struct Peers {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: ServerName<'static>,
}

/// Two connections and the bytes between them
struct Wire {
    client: ClientConnection,
    server: ServerConnection,
    bytes: Vec<u8>,
}

impl Peers {
    fn new() -> Fallible<Self> {
        let authority = Authority::new()?;
        let provider = Arc::new(provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone())?;
        let roots = Arc::new(roots);
        let (chain, key) = authority.issue()?;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain, key)?;
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
        let (chain, key) = authority.issue()?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        server.send_tls13_tickets = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
            name: ServerName::try_from(NAME)?,
        })
    }

    fn handshake(&self) -> Fallible<Wire> {
        let client = ClientConnection::new(Arc::clone(&self.client), self.name.clone())?;
        let server = ServerConnection::new(Arc::clone(&self.server))?;
        let mut wire = Wire {
            client,
            server,
            bytes: Vec::new(),
        };
        while wire.client.is_handshaking() || wire.server.is_handshaking() {
            wire.upstream()?;
            wire.downstream()?;
        }
        Ok(wire)
    }
}

impl Wire {
    fn upstream(&mut self) -> Fallible<()> {
        self.bytes.clear();
        while self.client.wants_write() {
            self.client.write_tls(&mut self.bytes)?;
        }
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            self.server.read_tls(&mut rest)?;
            self.server.process_new_packets()?;
        }
        Ok(())
    }

    fn downstream(&mut self) -> Fallible<()> {
        self.bytes.clear();
        while self.server.wants_write() {
            self.server.write_tls(&mut self.bytes)?;
        }
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            self.client.read_tls(&mut rest)?;
            self.client.process_new_packets()?;
        }
        Ok(())
    }

    fn message(&mut self, payload: &[u8], opened: &mut [u8]) -> Fallible<()> {
        self.client.writer().write_all(payload)?;
        self.upstream()?;
        self.server.reader().read_exact(opened)?;
        Ok(())
    }
}

/// TLS 1.3 as close to our suite as it goes: X-Wing's two halves for the key, ChaCha20-Poly1305 for the data.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
        ..aws_lc_rs::default_provider()
    }
}

/// Who issues both certificates
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Fallible<Self> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key)?.der().clone();
        Ok(Self {
            issuer: Issuer::new(parameters, key),
            certificate,
        })
    }

    fn issue(&self) -> Fallible<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let certificate = CertificateParams::new([NAME.to_owned()])?.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        Ok((vec![certificate.der().clone()], key))
    }
}
