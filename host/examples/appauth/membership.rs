//! The node's membership of a closed network: its certificates are found in the DNS, and so are those of newcomers.

use core::error::Error;
use core::future;

use selfsame_host::admission::{DnsCertificates, NameServers, Resolver};
use selfsame_host::{Builder, Certificate, Certified, IDENTITY_FILE, Node, NodeKey, Seed};

use super::Arguments;

/// A certificate that was found in the DNS, and where the next one is found
pub(crate) struct Membership {
    key: NodeKey,
    source: DnsCertificates,
    certificate: Certificate,
    certified: Certified,
}

impl Membership {
    /// Asks the DNS for the certificate of the node, if it is to be in a closed network.
    pub(crate) async fn of(arguments: &Arguments) -> Result<Option<Self>, Box<dyn Error>> {
        let (Some(domain), Some(resolver)) = (&arguments.dns, &arguments.dns_over_https) else {
            return Ok(None);
        };
        let Arguments { network, data, .. } = arguments;
        std::fs::create_dir_all(data)?;
        let key = Seed::load_or_create(&data.join(IDENTITY_FILE))?.node_key(network)?;
        let source = DnsCertificates::new(Resolver::new(NameServers::https(resolver)?)?, domain);
        let (certificate, certified) = source.newest(network, &key).await?;
        Ok(Some(Self {
            key,
            source,
            certificate,
            certified,
        }))
    }

    /// Gives a node its certificate, and lets it look newcomers up.
    pub(crate) fn admit(&self, builder: Builder) -> Builder {
        builder
            .certificate(self.certificate.clone())
            .confirm_newcomers(self.source.clone())
    }
}

/// Renews the certificate of a node in a closed network, and never ends.
pub(crate) async fn keep(node: &Node, membership: Option<Membership>) {
    if let Some(membership) = membership {
        let in_use = membership.certified;
        membership.source.keep(node, &membership.key, in_use).await;
    }
    future::pending().await
}
