//! The files of vectors and what is in them.

mod cbor;
mod channel;
mod handshake;
mod http;
mod identity;
mod json;
mod objects;
mod records;
mod ring;

/// Every file: its name and its text.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    vec![
        ("cbor.json", cbor::vectors().to_text()),
        ("identity.json", identity::vectors().to_text()),
        ("records.json", records::vectors().to_text()),
        ("handshake.json", handshake::vectors().to_text()),
        ("channel.json", channel::vectors().to_text()),
        ("objects.json", objects::vectors().to_text()),
        ("ring.json", ring::vectors().to_text()),
        ("http.json", http::vectors().to_text()),
    ]
}

/// When everything happens: 2027-01-15.
const NOW: u64 = 1_800_000_000_000;
/// The network in which it happens.
const NETWORK: &str = "twiitr";
