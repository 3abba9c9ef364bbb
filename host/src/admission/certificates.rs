use alloc::sync::Arc;
use core::time::Duration;
use std::time::SystemTime;

use selfsame_codec::Code;
use tokio::time::sleep;

use super::Resolver;
use crate::certificate::{Certificate, Certified};
use crate::error::Error;
use crate::id::NodeKey;
use crate::newcomers::{Confirmation, Newcomer, Newcomers};
use crate::node::Node;

/// Least time between two lookups of one node's certificate, also while none is found.
const LEAST_WAIT: Duration = Duration::from_secs(60);

/// Where nodes of a closed network get their certificates: the domain of the network
#[derive(Clone, Debug)]
pub struct DnsCertificates {
    resolver: Resolver,
    domain: String,
}

impl DnsCertificates {
    /// The certificates under a domain.
    #[must_use]
    pub fn new(resolver: Resolver, domain: impl Into<String>) -> Self {
        Self {
            resolver,
            domain: domain.into(),
        }
    }

    /// The certificate of a key in a closed network that counts now, and of several the one that does so for longest.
    ///
    /// # Errors
    /// [`Code::NoCertificate`] when the DNS holds none, or what is wrong with the only ones there are; else why it gives no answer.
    pub async fn newest(&self, network: &str, key: &NodeKey) -> Result<(Certificate, Certified), Error> {
        let found = self.resolver.certificates(&key.0, &self.domain).await?;
        let mut newest: Option<(Certificate, Certified)> = None;
        let mut wrong = self.missing(key);
        for value in &found.values {
            let certificate = Certificate::from_bytes(value.clone());
            match certificate.verify(network, key).and_then(counting) {
                Ok(certified)
                    if newest
                        .as_ref()
                        .is_none_or(|(_, other)| other.expires < certified.expires) =>
                {
                    newest = Some((certificate, certified));
                }
                Ok(_) => {}
                Err(error) => wrong = error,
            }
        }
        newest.ok_or(wrong)
    }

    /// Renews the certificate of a node for as long as this is awaited: it looks for the next one once half of the time that is left to
    /// the one in use is over.
    pub async fn keep(&self, node: &Node, key: &NodeKey, mut in_use: Certified) {
        loop {
            let left = in_use
                .expires
                .duration_since(SystemTime::now())
                .unwrap_or_default();
            sleep((left / 2).max(LEAST_WAIT)).await;
            let renewed = self.renew(node, key, &in_use).await;
            if self.resolver.take_strays() {
                node.count_own(Code::WrongDnsAnswer);
            }
            match renewed {
                Ok(Some(next)) => in_use = next,
                Ok(None) => {}
                Err(error) => {
                    node.count_own(error.code().unwrap_or(Code::DnsNoAnswer));
                    tracing::warn!(domain = self.domain, %error, "the certificate of admission is not renewed");
                }
            }
        }
    }

    /// The same place for a node that has newcomers to its network confirmed.
    pub(crate) fn newcomers(self, network: &str) -> Newcomers {
        let network: Arc<str> = network.into();
        let resolver = self.resolver.clone();
        let look_up = move |newcomer: Newcomer| -> Confirmation {
            let (source, network) = (self.clone(), Arc::clone(&network));
            Box::pin(async move {
                let confirmed = source.confirm(&network, newcomer).await;
                confirmed.map_err(|error| {
                    tracing::info!(domain = source.domain, peer = %newcomer.peer, %error, "a newcomer is not confirmed");
                    error.code().unwrap_or(Code::DnsNoAnswer)
                })
            })
        };
        Newcomers::new(look_up, move || resolver.take_strays())
    }

    /// Checks that a certificate which counts now stands in the DNS for a newcomer, at the place that its id says.
    async fn confirm(&self, network: &str, newcomer: Newcomer) -> Result<(), Error> {
        let Newcomer { peer, key, source } = newcomer;
        let found = self
            .resolver
            .certificates_of_stranger(&key.0, &self.domain, source)
            .await?;
        let mut wrong = self.missing(&key);
        for value in &found.values {
            let certificate = Certificate::from_bytes(value.clone());
            match certificate.verify(network, &key).and_then(counting) {
                Ok(certified) if certified.peer == peer => return Ok(()),
                Ok(_) => wrong = Error::from_code(Code::WrongAddress),
                Err(error) => wrong = error,
            }
        }
        Err(wrong)
    }

    fn missing(&self, key: &NodeKey) -> Error {
        Error::Core {
            code: Code::NoCertificate,
            detail: format!("under {} for the key {key}", self.domain),
        }
    }

    async fn renew(
        &self,
        node: &Node,
        key: &NodeKey,
        in_use: &Certified,
    ) -> Result<Option<Certified>, Error> {
        let (certificate, certified) = self.newest(node.network(), key).await?;
        if certified.expires <= in_use.expires {
            return Ok(None);
        }
        node.renew_certificate(&certificate).await?;
        Ok(Some(certified))
    }
}

/// What a certificate says, if it counts now.
fn counting(certified: Certified) -> Result<Certified, Error> {
    let now = SystemTime::now();
    if now < certified.not_before {
        Err(Error::from_code(Code::EarlyCertificate))
    } else if now >= certified.expires {
        Err(Error::from_code(Code::ExpiredCertificate))
    } else {
        Ok(certified)
    }
}
