//! The boundary between `admission.wasm` and its host: requests of one item to `derive` and `verify`.

use crate::batch::items;

/// Version of the boundary, returned by the export `abi_version`; none of a core's.
pub const ABI_VERSION: u32 = 0x0003_0001;

items! {
    /// What `derive` of an admission module makes; numbers from 32 on are those of certificates
    pub enum Derive {
        /// The name of a peer's TXT record, as text.
        1 PeerName { key: [u8; 32], domain: &'a str }
        /// The name of the TXT record of a network's authority, as text.
        2 AuthorityName { domain: &'a str }
        /// A query for the TXT records of a name.
        3 Query { id: u16, name: &'a str }
        /// A signed update of a zone: its MAC of 32 bytes, then the message. Changes: a name and a value each, which replaces all values
        /// of the name; an empty one leaves none. The key's secret is secret.
        4 Update { id: u16, zone: &'a str, key_name: &'a str, secret: &'a [u8], now_s: u64, ttl_s: u32, changes: &'a [u8] }
        /// The line of a zone file with a value, as text.
        5 ZoneLine { name: &'a str, ttl_s: u32, value: &'a [u8] }
        /// The public key of a closed network's authority, 32 bytes, and the network's id. The seed is secret.
        32 Authority { seed: [u8; 32], network: &'a str }
        /// A certificate of the authority for a node's key; a leaf's has no address.
        33 Certificate { seed: [u8; 32], network: &'a str, key: [u8; 32], serial: u64, not_before_ms: u64, expiry_ms: u64,
            address: &'a str }
        /// A list of the authority of the keys that it admits no more: of each 32 bytes, and the time u64 before which its
        /// certificates count no more.
        34 Revocations { seed: [u8; 32], network: &'a str, serial: u64, revoked: &'a [u8] }
    }
}

items! {
    /// What `verify` of an admission module checks; numbers from 32 on are those of certificates
    pub enum Verify {
        /// The response to a query, over UDP or not: an [`Outcome`].
        1 Response { id: u16, name: &'a str, is_datagram: bool, message: &'a [u8] }
        /// The response to an update: nothing.
        2 Updated { id: u16, key_name: &'a str, secret: &'a [u8], mac: [u8; 32], now_s: u64, message: &'a [u8] }
        /// A certificate for a key, whether or not it counts now: the holder's id, serial u64, from when and until when it counts, each
        /// u64, and the address as text.
        32 Certificate { authority: [u8; 32], network: &'a str, key: [u8; 32], certificate: &'a [u8] }
    }
}

items! {
    /// What a response says of a name, in one item
    pub enum Outcome {
        /// It has values, which are good for so many seconds: each is a field of bytes. Whether DNSSEC has verified them.
        1 Found { ttl_s: u32, is_authentic: bool, values: &'a [u8] }
        /// It has none, for so many seconds.
        2 Absent { ttl_s: u32 }
        /// The response did not fit its datagram: ask over TCP.
        3 Truncated {}
    }
}
