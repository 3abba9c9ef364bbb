//! Prints what a client says to a replica and what that answers, at a fixed time with fixed keys:
//! `cargo run -p selfsame-capsule --example conversation > runtime/test/capsule-conversation.json`
//!
//! Every host has to answer with the same bytes.

#[path = "../tests/common/mod.rs"]
pub(crate) mod common;
#[path = "../tests/common/stepped.rs"]
pub(crate) mod stepped;

use common::server::write;
use common::single::WriteOne as _;
use common::{Log, charter, charter_of, writer};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::Signature;
use selfsame_capsule::message::{Envelope, FreshQuery, Operation, TO_THE_TOP};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Field;
use stepped::Stepped;

/// When everything happens, in milliseconds since 1970.
const NOW_MS: u64 = 1_800_000_000_000;

/// Prints the conversation.
pub(crate) fn main() {
    print!("{}", conversation());
}

/// The conversation as JSON.
pub(crate) fn conversation() -> String {
    let mut replica = Stepped::new(NOW_MS);
    let exchanges: Vec<String> = requests()
        .into_iter()
        .map(|(what, request)| {
            let response = hex(&replica.ask(&request));
            let request = hex(&request);
            format!(
                "    {{ \"what\": \"{what}\", \"request\": \"{request}\", \"response\": \"{response}\" }}"
            )
        })
        .collect();
    let seed = hex(&stepped::SEED);
    let capsule = charter().name();
    format!(
        "{{\n  \"seed\": \"{seed}\",\n  \"now_ms\": {NOW_MS},\n  \"capsule\": \"{capsule}\",\n  \"exchanges\": [\n{}\n  ]\n}}\n",
        exchanges.join(",\n")
    )
}

fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let charter = charter();
    let of = |verified: u32, operations: &[Operation<'_>]| message(&charter, verified, operations);
    let log = Log::new(charter.clone(), 9, &Backpointers::Shortcuts);
    let ([tree, long], signature) = large(&charter);
    let unsigned = Log::new(charter.clone(), 12, &Backpointers::Chain);
    let nobody = &unsigned.records[11];
    let metadata = charter.encoded();
    let mut written = vec![Operation::Open { slots_log2: 6 }];
    written.extend(log.records.iter().map(write));
    written.push(signed(&log, 8));
    let record = log.name(2);
    let damaged = Operation::Sign {
        record,
        signature: Signature([7; 64]),
    };
    let refused = [damaged, Operation::Prove { record: nobody.name }];
    let heads = Operation::QueryFresh(FreshQuery::heads([3; 32]));
    let whole = of(0, &[Operation::Describe]);
    let mut requests = vec![
        ("nothing is stored yet", whole.clone()),
        ("a capsule", of(0, &[Operation::Create { metadata }])),
        ("records and a signature", of(0, &written)),
        (
            "sub-records, and a body in chunks",
            of(
                1,
                &[
                    write(&tree),
                    write(&long),
                    Operation::Sign {
                        record: long.name,
                        signature,
                    },
                ],
            ),
        ),
        ("a record that nobody has signed", of(1, &[write(nobody)])),
        (
            "reading",
            of(
                1,
                &[Operation::Read { record }, Operation::Read { record: long.name }],
            ),
        ),
        (
            "proving",
            of(
                1,
                &[
                    Operation::Prove { record },
                    Operation::Prove { record: log.name(0) },
                ],
            ),
        ),
        (
            "proving what lies beside",
            of(4, &[Operation::Prove { record: log.name(1) }]),
        ),
        ("parts", of(4, &parts(&tree))),
        ("heads and metadata", of(4, &[heads, Operation::Describe])),
        ("a bad signature, and what is not stored", of(4, &refused)),
    ];
    requests.extend(malformed(&whole));
    requests.extend(elsewhere(metadata));
    requests
}

/// What is left of a request, or more than one.
fn malformed(whole: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a request that ends too early", whole[..whole.len() - 4].to_vec()),
        ("an operation that does not exist", [whole, &[99]].concat()),
        ("nothing at all", Vec::new()),
    ]
}

/// Requests for a capsule that hashes with SHA-256.
fn elsewhere(metadata: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let other = charter_of(HashKind::Sha256, Readers::Everybody, Vec::new());
    let log = Log::new(other.clone(), 2, &Backpointers::Chain);
    let writing = [write(&log.records[0]), write(&log.records[1]), signed(&log, 1)];
    let create = Operation::Create {
        metadata: other.encoded(),
    };
    let proving = [Operation::Prove { record: log.name(0) }];
    vec![
        (
            "metadata of another name",
            message(&other, 0, &[Operation::Create { metadata }]),
        ),
        ("another capsule", message(&other, 0, &[create])),
        ("its records", message(&other, 0, &writing)),
        ("its proof", message(&other, 0, &proving)),
    ]
}

fn signed(log: &Log, index: usize) -> Operation<'static> {
    Operation::Sign {
        record: log.name(index),
        signature: log.writer.sign(&log.name(index)),
    }
}

fn parts(tree: &Written) -> [Operation<'static>; 5] {
    let record = tree.name;
    let part = |index, levels| Operation::ReadPart {
        record,
        index,
        levels,
    };
    [
        Operation::Subrecords { record },
        part(4, TO_THE_TOP),
        part(4, 0),
        part(1, 1),
        part(5, TO_THE_TOP),
    ]
}

/// A record of sub-records and, signed, one whose body is too long for its entry.
fn large(charter: &Charter) -> ([Written; 2], Signature) {
    let mut writer = writer(charter, 0, common::owner(), None);
    let parts: Vec<Vec<u8>> = (1..6).map(|index| vec![index; usize::from(index)]).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let tree = writer.commit(&parts, &Backpointers::Chain, &[0; 16]);
    let long = writer.write(&[5; 5000], &Backpointers::Chain, &[0; 16]);
    let made = [tree, long].map(|made| made.expect("it is small"));
    let signature = writer.sign(&made[1].name);
    (made, signature)
}

fn message(charter: &Charter, verified: u32, operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let envelope = Envelope {
        capsule: charter.name(),
        session: [7; 16],
        verified,
    };
    envelope.write(&mut message);
    operations
        .iter()
        .for_each(|operation| operation.write(&mut message));
    message
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
