//! A peer that is in no ring and speaks to nodes in bytes of its own.

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Class, Code, Role};
use selfsame_core::Holder;
use selfsame_core::association::{Association, Leaf, Validity};
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::record::{NodeRecord, RecordTerms};

use super::network::Network;

pub(crate) const HOUR_MS: u64 = 3_600_000;

/// Sends raw bytes to a node and gives its answer: the class of the refusal, or none.
pub(crate) fn ask(net: &mut Network, node: usize, from: PeerId, body: &[u8]) -> Option<Class> {
    ask_from(net, node, Holder::EXEMPT, from, body)
}

/// The same from a network.
pub(crate) fn ask_from(
    net: &mut Network,
    node: usize,
    source: Holder,
    from: PeerId,
    body: &[u8],
) -> Option<Class> {
    let body = net.request(node, source, from, body);
    let mut decoder = Decoder::new(&body);
    decoder.array_of(2).expect("a response");
    match decoder.uint().expect("a kind of response") {
        0 => None,
        1 => Some(class_of(decoder.uint().expect("a class"))),
        // With something newer of the sender, or with the time.
        2 => Some(Code::Superseded.class()),
        3 => Some(Code::WrongClock.class()),
        other => panic!("no kind of response: {other}"),
    }
}

fn class_of(class: u64) -> Class {
    match class {
        1 => Class::Usage,
        2 => Class::Malformed,
        3 => Class::Misbehaved,
        4 => Class::Incompatible,
        6 => Class::Limit,
        8 => Class::Service,
        other => panic!("a class that is expected, not {other}"),
    }
}

pub(crate) fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out));
    out
}

pub(crate) fn update(record: &[u8]) -> Vec<u8> {
    encoded(|encoder| _ = encoder.array(4).uint(6).bytes(record).bool(true).array(0))
}

/// Tells of a node.
pub(crate) fn hint(about: &NodeRecord) -> Vec<u8> {
    encoded(|encoder| _ = encoder.array(2).uint(0).array(1).bytes(about.encoded()))
}

pub(crate) fn store(association: &[u8], record: &[u8]) -> Vec<u8> {
    encoded(|encoder| _ = encoder.array(2).uint(3).array(2).bytes(association).bytes(record))
}

/// Hands entries over: associations with records, or grants with objects.
pub(crate) fn mirror(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
    encoded(|encoder| {
        let encoder = encoder.array(2).uint(4).array(entries.len());
        for (association, record) in entries {
            encoder.array(2).bytes(association).bytes(record);
        }
    })
}

pub(crate) fn stranger(seed: u8) -> Identity {
    Identity::recall(&[seed; 32], Network::network_id(), &[])
}

pub(crate) fn record_at(identity: &Identity, sequence_ms: u64) -> NodeRecord {
    let addresses = [String::from("wss://stranger.example/")];
    let expiry_ms = sequence_ms + 20 * HOUR_MS;
    let terms = RecordTerms::new(Role::Member, &addresses, sequence_ms, expiry_ms);
    NodeRecord::sign(identity, &terms).expect("a record")
}

pub(crate) fn leaf(name: &str) -> Leaf {
    Leaf {
        salt: [1; 16],
        owner: None,
        name: name.into(),
        r: 0,
        withdrawn: false,
        version: String::new(),
        weight: 1,
        grant: Vec::new(),
    }
}

pub(crate) fn association(identity: &Identity, leaf: Leaf, sequence_ms: u64) -> Association {
    let validity = Validity {
        sequence_ms,
        not_before_ms: sequence_ms,
        expiry_ms: sequence_ms + HOUR_MS,
    };
    Association::publish(identity, &[leaf], validity)
        .expect("an association")
        .remove(0)
}
