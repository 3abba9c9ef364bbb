//! Prints requests that write a capsule, for tests of what a replica keeps: `load RECORDS KEY`, with the replica's key in hex
//!
//! The first line is the request that creates it; then each line is the request that writes one record, and signs it if it is
//! every fourth, the requests that read and prove that record, and the record with its name: hex, separated by spaces.

#[path = "../tests/common/mod.rs"]
mod common;

use common::single::WriteOne as _;
use std::io::{BufWriter, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use common::server::{sign, write};
use common::{charter, owner, writer};
use selfsame_capsule::introduction::{Introduction, Place, SessionId};
use selfsame_capsule::keys::Key;
use selfsame_capsule::message::{Envelope, Operation};
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Field;

/// Every so many records one is signed.
const SIGNED: usize = 4;
/// Of all requests.
const SESSION: SessionId = [0; 16];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, key] = &arguments[..] else {
        panic!("say how many records, and the replica's key: load RECORDS KEY");
    };
    let count: usize = count.parse().expect("a number of records");
    let charter = charter();
    let mut writer = writer(&charter, 0, owner(), None);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let metadata = charter.encoded();
    let mut line = |parts: &[Vec<u8>]| {
        let parts: Vec<String> = parts.iter().map(|part| hex(part)).collect();
        writeln!(out, "{}", parts.join(" ")).expect("somebody reads");
    };
    let introduction = Operation::Introduce(introduction(&server_key(key)));
    line(&[message(&[Operation::Create { metadata }])]);
    for index in 0..count {
        let content = format!("record {index} {}", "x".repeat(index % 700));
        let made = writer.write(content.as_bytes(), &Backpointers::Shortcuts, &[0; 16]);
        let made = made.expect("it is small");
        let mut operations = vec![introduction, write(&made)];
        if index % SIGNED == SIGNED - 1 {
            operations.push(sign(made.name, writer.sign(&made.name)));
        }
        line(&exchange(&made, &operations));
    }
}

fn server_key(hex: &str) -> Key {
    let digit = |at: usize| {
        hex.get(at..at + 2)
            .and_then(|two| u8::from_str_radix(two, 16).ok())
    };
    Key(core::array::from_fn(|index| {
        digit(2 * index).expect("a key of 64 digits")
    }))
}

/// Makes the owner known to a replica, for as long as [`selfsame_capsule::introduction::MAX_AGE_MS`].
fn introduction(server: &Key) -> Introduction {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let place = Place {
        server,
        capsule: &charter().name(),
        session: &SESSION,
    };
    let now_ms = u64::try_from(now.as_millis()).expect("a time of this age");
    Introduction::sign(&owner(), 0, &place, now_ms)
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
        session: SESSION,
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
