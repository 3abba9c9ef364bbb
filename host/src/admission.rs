//! Certificates of closed networks in DNS (docs/specification/dns.md).
//!
//! ```no_run
//! # async fn example(public_key: [u8; 32]) -> Result<(), Box<dyn core::error::Error>> {
//! use selfsame_host::admission::{NameServers, Resolver};
//!
//! let resolver = Resolver::new(NameServers::system()?)?;
//! let certificates = resolver.certificates(&public_key, "ring.example").await?;
//! # Ok(())
//! # }
//! ```

mod error;
pub use error::ResolveError;

mod module;

mod servers;
pub use servers::NameServers;

mod plain;

mod https;

#[cfg(feature = "authority")]
mod update;
#[cfg(feature = "authority")]
pub use update::{TsigKey, ZoneUpdates};

mod cache;

mod rate;

mod certificates;
pub use certificates::DnsCertificates;

mod resolver;
pub use resolver::{DnsValues, Resolver};
