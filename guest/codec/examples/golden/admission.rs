//! Vectors of the boundary of `admission.wasm`.

use selfsame_codec::admission::{Derive, Outcome, Verify};

use super::{ENDPOINT_HEX, ID, ID_HEX, items};

pub(super) fn sections() -> [(&'static str, String); 3] {
    [
        (
            "admission_derive",
            items(&requests(), |request, batch| request.encode(batch)),
        ),
        (
            "admission_verify",
            items(&checks(), |request, batch| request.encode(batch)),
        ),
        (
            "admission_outcomes",
            items(&outcomes(), |outcome, batch| outcome.encode(batch)),
        ),
    ]
}

fn requests() -> Vec<(String, Derive<'static>)> {
    vec![
        item!(Derive::PeerName, ", \"key\": \"ID\", \"domain\": \"ring.example\"",
            { key: ID, domain: "ring.example" }),
        item!(Derive::AuthorityName, ", \"domain\": \"ring.example\"", { domain: "ring.example" }),
        item!(Derive::Query, ", \"id\": 4660, \"name\": \"a.b\"", { id: 0x1234, name: "a.b" }),
        item!(Derive::Update, ", \"id\": 4660, \"zone\": \"b\", \"key_name\": \"k\", \"secret\": \"ID\", \"now_s\": 1790000000, \
            \"ttl_s\": 300, \"changes\": \"03000000612e620200000001ff\"",
            { id: 0x1234, zone: "b", key_name: "k", secret: &ID, now_s: 1_790_000_000, ttl_s: 300,
              changes: b"\x03\0\0\0a.b\x02\0\0\0\x01\xff" }),
        item!(Derive::ZoneLine, ", \"name\": \"a.b\", \"ttl_s\": 300, \"value\": \"01ff\"",
            { name: "a.b", ttl_s: 300, value: &[1, 255] }),
        item!(Derive::Authority, ", \"seed\": \"ID\", \"network\": \"n\"", { seed: ID, network: "n" }),
        item!(Derive::Certificate, ", \"seed\": \"ID\", \"network\": \"n\", \"key\": \"ID\", \"serial\": 7, \
            \"not_before_ms\": 1790000000000, \"expiry_ms\": 1790000000001, \"address\": \"h:1\"",
            { seed: ID, network: "n", key: ID, serial: 7, not_before_ms: 1_790_000_000_000, expiry_ms: 1_790_000_000_001,
              address: "h:1" }),
        item!(Derive::Revocations, ", \"seed\": \"ID\", \"network\": \"n\", \"serial\": 7, \"revoked\": \"01ff\"",
            { seed: ID, network: "n", serial: 7, revoked: &[1, 255] }),
    ]
}

fn checks() -> Vec<(String, Verify<'static>)> {
    vec![
        item!(Verify::Response, ", \"id\": 4660, \"name\": \"a.b\", \"is_datagram\": true, \"message\": \"1234\"",
            { id: 0x1234, name: "a.b", is_datagram: true, message: &[0x12, 0x34] }),
        item!(Verify::Updated, ", \"id\": 4660, \"key_name\": \"k\", \"secret\": \"00ff\", \"mac\": \"ID\", \"now_s\": 1790000000, \
            \"message\": \"1234\"",
            { id: 0x1234, key_name: "k", secret: &[0, 255], mac: ID, now_s: 1_790_000_000, message: &[0x12, 0x34] }),
        item!(Verify::Certificate, ", \"authority\": \"ID\", \"network\": \"n\", \"key\": \"ID\", \"certificate\": \"01ff\"",
            { authority: ID, network: "n", key: ID, certificate: &[1, 255] }),
    ]
}

fn outcomes() -> Vec<(String, Outcome<'static>)> {
    vec![
        item!(Outcome::Found, ", \"ttl_s\": 300, \"is_authentic\": true, \"values\": \"0200000001ff\"",
            { ttl_s: 300, is_authentic: true, values: b"\x02\0\0\0\x01\xff" }),
        item!(Outcome::Absent, ", \"ttl_s\": 120", { ttl_s: 120 }),
        item!(Outcome::Truncated, "", {}),
    ]
}
