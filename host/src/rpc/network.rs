//! What the RPC knows a network by.

use crate::error::Error;
use crate::keys::{check_network, parts};

/// What comes before the key of an authority: no name of an open network has it.
const CLOSED: u8 = b'@';

/// The name of an open network; of a closed one the key of its authority, which is another one for each name and fits.
pub(super) fn network_bytes(network: &str) -> Result<Vec<u8>, Error> {
    check_network(network)?;
    Ok(match parts(network)? {
        (name, None) => name.into(),
        (_, Some(authority)) => [&[CLOSED][..], &authority.0].concat(),
    })
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use serde_json::Value;

    use super::*;

    const VECTORS: &str = include_str!("../../../docs/specification/vectors/rpc-tickets.json");

    #[test]
    fn networks_are_known_as_the_vectors_say() {
        let vectors: Value = serde_json::from_str(VECTORS).expect("JSON");
        let closed = &vectors["closed"];
        let bytes = |network: &Value| network_bytes(network.as_str().expect("text")).expect("a name");
        assert_eq!(closed["bytes"], HEXLOWER.encode(&bytes(&closed["network"])));
        assert_eq!(bytes(&vectors["network"]), b"net");
    }

    #[test]
    fn name_that_is_none_is_refused() {
        for network in [
            "",
            "@",
            "net@",
            "net@12",
            &"n".repeat(64),
            &format!("@{}", "11".repeat(32)),
        ] {
            assert!(network_bytes(network).is_err(), "{network}");
        }
    }
}
