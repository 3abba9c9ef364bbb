//! Prints requests that write a capsule, for tests of what a replica keeps: `load RECORDS`
//!
//! The first line is the request that creates it; then each line is the request that writes one record, and signs it if it is
//! every fourth, the requests that read and prove that record, and the record with its name: hex, separated by spaces.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{BufWriter, Write as _};

use common::server::{sign, write};
use common::{charter, owner, writer};
use selfsame_capsule::message::{Envelope, Operation};
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Field;

/// Every so many records one is signed.
const SIGNED: usize = 4;

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let count: usize = count.expect("say how many records: load RECORDS");
    let charter = charter();
    let mut writer = writer(&charter, 0, owner(), None);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let metadata = charter.encoded();
    let mut line = |parts: &[Vec<u8>]| {
        let parts: Vec<String> = parts.iter().map(|part| hex(part)).collect();
        writeln!(out, "{}", parts.join(" ")).expect("somebody reads");
    };
    line(&[message(&[Operation::Create { metadata }])]);
    for index in 0..count {
        let content = format!("record {index} {}", "x".repeat(index % 700));
        let made = writer.write(content.as_bytes(), &Backpointers::Shortcuts, &[0; 16]);
        let made = made.expect("it is small");
        let mut operations = vec![write(&made)];
        if index % SIGNED == SIGNED - 1 {
            operations.push(sign(made.name, writer.sign(&made.name)));
        }
        line(&exchange(&made, &operations));
    }
}

fn exchange(made: &Written, operations: &[Operation<'_>]) -> [Vec<u8>; 5] {
    let record = made.name;
    [
        message(operations),
        message(&[Operation::Read { record }]),
        message(&[Operation::Prove { record }]),
        [made.header.as_slice(), &made.body].concat(),
        record.0.to_vec(),
    ]
}

fn message(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let envelope = Envelope {
        capsule: charter().name(),
        session: [0; 16],
        verified: 0,
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
