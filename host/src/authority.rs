//! The authority of a closed network: signs certificates within quotas, and remembers what it has signed.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::certificate::{Certificate, CertificateTerms, Revocations};
use crate::error::Error;
use crate::id::{AuthorityKey, NodeKey};
use crate::keys::Seed;

mod error;
pub use error::AuthorityError;

mod holder;
use holder::Holder;

mod records;
use records::{Held, Records, Signed};

mod zone;
pub use zone::{Zone, ZoneNameServer};

/// Longest life of a certificate (`MAX_CERTIFICATE_LIFE_MS` of the core): a revoked key is on the list for so long.
const LONGEST_LIFE: Duration = Duration::from_secs(32 * 24 * 60 * 60);

/// How many certificates that count at the same time an authority signs for what one party can have many of
///
/// A place on the ring follows from an address, and whoever has many addresses can choose its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// For one network of addresses: an IPv4 /24, or an IPv6 /48, which hosting and tunnel providers give to one customer without
    /// asking for more than the order.
    pub per_prefix: usize,
    /// For the hosts below one domain that a registry has sold; names below a domain such as duckdns.org are free, and count together.
    pub per_domain: usize,
    /// For leaves that were not seen at an address.
    pub leaves: usize,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            // More machines than one party usually runs in one network, and less than a group of 15 needs of liars.
            per_prefix: 7,
            per_domain: 7,
            leaves: 256,
        }
    }
}

/// The authority of one closed network, whose secret is in a file
///
/// What it has signed is in a file beside the secret, with `.signed` behind its name, which is replaced whole.
pub struct Authority {
    seed: Seed,
    name: String,
    key_file: PathBuf,
    quotas: Quotas,
}

impl Authority {
    /// Makes the secret of a new authority in a file that must not exist.
    ///
    /// # Errors
    /// [`Error`] when the name is not usable, or the file.
    pub fn create(key_file: impl AsRef<Path>, network: &str) -> Result<Self, Error> {
        let authority = Self::new(Seed::generate()?, key_file.as_ref(), network)?;
        authority.seed.save(&authority.key_file)?;
        Ok(authority)
    }

    /// The authority whose secret is in a file.
    ///
    /// # Errors
    /// [`Error`] when the name is not usable, or the file.
    pub fn open(key_file: impl AsRef<Path>, network: &str) -> Result<Self, Error> {
        Self::new(Seed::load(key_file.as_ref())?, key_file.as_ref(), network)
    }

    fn new(seed: Seed, key_file: &Path, network: &str) -> Result<Self, Error> {
        seed.authority_key(network)?;
        Ok(Self {
            seed,
            name: network.into(),
            key_file: key_file.into(),
            quotas: Quotas::default(),
        })
    }

    /// Signs within these quotas.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Its key, which is part of the network: `name@key`.
    ///
    /// # Errors
    /// [`Error`] of the module.
    pub fn key(&self) -> Result<AuthorityKey, Error> {
        self.seed.authority_key(&self.name)
    }

    /// Certifies a node, which asked from `seen_at` if that is known; only of a leaf that is asked.
    ///
    /// # Errors
    /// [`AuthorityError::Quota`] when the network of its address, or its domain, has as many as it may;
    /// [`AuthorityError::Address`] for an address that has another spelling, by which it would have another place.
    pub fn sign(
        &self,
        terms: &CertificateTerms,
        seen_at: Option<IpAddr>,
    ) -> Result<Certificate, AuthorityError> {
        let holder = match (&terms.address, seen_at) {
            (Some(address), _) => Holder::of_address(address)?,
            (None, Some(ip)) => Holder::of_ip(ip),
            (None, None) => Holder::Leaves,
        };
        let mut records = Records::open(&self.key_file, &self.name)?;
        records.forget_expired(SystemTime::now());
        self.check_quota(&records, &holder, terms)?;
        let certificate = self.seed.certify(&self.name, terms)?;
        records.add(Signed {
            node: terms.key,
            address: terms.address.clone(),
            holder: holder.to_string(),
            since: terms.not_before,
            expires: terms.expires,
            held_until: terms.expires,
            certificate: certificate.clone(),
        });
        records.save()?;
        Ok(certificate)
    }

    /// Shuts these nodes out: signs the list with them and with all others whose certificates from before would still count.
    ///
    /// # Errors
    /// [`AuthorityError::Clock`] when the clock has gone back since the last list, [`Error::Core`] for more than 256 nodes.
    pub fn revoke(&self, nodes: &[NodeKey]) -> Result<Revocations, AuthorityError> {
        let mut records = Records::open(&self.key_file, &self.name)?;
        let now = SystemTime::now();
        records.forget_expired(now);
        for node in nodes {
            records.revoke(*node, now, now + LONGEST_LIFE);
        }
        let serial = records.next_list_serial(now)?;
        let list = self.seed.revoke_as(serial, &self.name, &records.revoked())?;
        records.save()?;
        Ok(list)
    }

    /// Sets where the certificates stand in the DNS.
    ///
    /// # Errors
    /// [`AuthorityError::Zone`] when a name is not usable.
    pub fn set_zone(&self, zone: Zone) -> Result<(), AuthorityError> {
        zone.check()?;
        self.key()?.zone_line(&zone.domain)?;
        let mut records = Records::open(&self.key_file, &self.name)?;
        records.zone = Some(zone);
        records.save()
    }

    /// The domain of the network, if its zone was made.
    ///
    /// # Errors
    /// [`AuthorityError::NoZone`] if it was not.
    pub fn domain(&self) -> Result<String, AuthorityError> {
        let records = Records::open(&self.key_file, &self.name)?;
        Ok(records.zone.ok_or(AuthorityError::NoZone)?.domain)
    }

    /// The file of the zone, with the certificates that count, and a serial above that of the last one.
    ///
    /// # Errors
    /// [`AuthorityError::NoZone`] if the zone was not made.
    pub fn zone_file(&self) -> Result<String, AuthorityError> {
        let mut records = Records::open(&self.key_file, &self.name)?;
        let now = SystemTime::now();
        records.forget_expired(now);
        let serial = records.next_zone_serial(now);
        let zone = records.zone.as_ref().ok_or(AuthorityError::NoZone)?;
        let mut text = zone.head(serial);
        text.push_str(&self.key()?.zone_line(&zone.domain)?);
        text.push('\n');
        for signed in records.published(now) {
            text.push_str(&signed.certificate.zone_line(&signed.node, &zone.domain)?);
            text.push('\n');
        }
        records.save()?;
        Ok(text)
    }

    fn check_quota(
        &self,
        records: &Records,
        holder: &Holder,
        terms: &CertificateTerms,
    ) -> Result<(), AuthorityError> {
        let most = match holder {
            Holder::V4(_) | Holder::V6(_) | Holder::Teredo => self.quotas.per_prefix,
            Holder::Domain(_) => self.quotas.per_domain,
            Holder::Leaves => self.quotas.leaves,
        };
        let signed = records.count(&Held {
            holder: &holder.to_string(),
            node: &terms.key,
            address: terms.address.as_deref(),
        });
        if signed < most {
            return Ok(());
        }
        Err(AuthorityError::Quota {
            holder: holder.to_string(),
            most,
            flag: match holder {
                Holder::Domain(_) => "--most-per-domain",
                Holder::Leaves => "--most-leaves",
                _ => "--most-per-prefix",
            },
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("name", &self.name)
            .field("key_file", &self.key_file)
            .field("quotas", &self.quotas)
            .finish_non_exhaustive()
    }
}
