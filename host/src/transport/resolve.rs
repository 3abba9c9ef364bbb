use core::net::IpAddr;
use core::time::Duration;
use std::io;

use tokio::net::lookup_host;
use tokio::time::timeout;

use super::address::{Address, is_public};
use crate::error::Error;

/// Time for the name to be looked up.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An IP address that the name in a node's URL leads to
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedAddress {
    /// The IP address.
    pub ip: IpAddr,
    /// Whether other nodes dial it that are not allowed private addresses.
    pub is_public: bool,
}

/// Looks up the host of a node's URL, such as `wss://node.example`.
///
/// # Errors
/// [`Error::Input`] when the URL is none of a node, [`Error::Io`] when the name leads nowhere.
pub async fn resolve_address(url: &str) -> Result<Vec<ResolvedAddress>, Error> {
    let address = Address::parse(url)?;
    let failed = |error| Error::io(format_args!("the name {}", address.host), error);
    let looked_up = timeout(TIMEOUT, lookup_host((address.host.as_str(), address.port))).await;
    let found = looked_up
        .map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
        .map_err(failed)?;
    let resolved = found.map(|place| ResolvedAddress {
        ip: place.ip(),
        is_public: is_public(place.ip()),
    });
    Ok(resolved.collect())
}
