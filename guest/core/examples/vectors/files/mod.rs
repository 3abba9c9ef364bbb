//! The files that are made from the core: test vectors and the table of errors.

mod cbor;
mod channel;
mod errors;
mod handshake;
mod http;
mod identity;
mod json;
mod leases;
mod objects;
mod records;
mod ring;

/// Every file: its path in `docs` and its text.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    vec![
        ("errors.md", errors::page()),
        ("specification/vectors/cbor.json", cbor::vectors().to_text()),
        (
            "specification/vectors/identity.json",
            identity::vectors().to_text(),
        ),
        ("specification/vectors/records.json", records::vectors().to_text()),
        (
            "specification/vectors/handshake.json",
            handshake::vectors().to_text(),
        ),
        ("specification/vectors/channel.json", channel::vectors().to_text()),
        ("specification/vectors/objects.json", objects::vectors().to_text()),
        ("specification/vectors/ring.json", ring::vectors().to_text()),
        ("specification/vectors/leases.json", leases::vectors().to_text()),
        ("specification/vectors/http.json", http::vectors().to_text()),
    ]
}

/// When everything happens: 2027-01-15.
const NOW: u64 = 1_800_000_000_000;
/// The network in which it happens.
const NETWORK: &str = "twiitr";
