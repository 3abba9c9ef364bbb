//! What a host says to the module.

mod common;

use common::{long_value, responses, updates};
use selfsame_admission::{derive, verify};
use selfsame_codec::admission::{Derive, Outcome, Verify};
use selfsame_codec::{BatchReader, BatchWriter, Code, Field, Reader};

fn made(request: Derive<'_>) -> Result<Vec<u8>, Code> {
    let mut batch = BatchWriter::new();
    request.encode(&mut batch);
    result(&derive(batch.as_bytes()))
}

fn checked(request: Verify<'_>) -> Result<Vec<u8>, Code> {
    let mut batch = BatchWriter::new();
    request.encode(&mut batch);
    result(&verify(batch.as_bytes()))
}

fn result(answer: &[u8]) -> Result<Vec<u8>, Code> {
    let (status, rest) = answer.split_first_chunk().expect("a status");
    match u16::from_le_bytes(*status) {
        0 => Ok(rest.to_vec()),
        code => {
            assert!(rest.is_empty(), "an error brings no result");
            Err(Code::from_u16(code).expect("a code"))
        }
    }
}

#[test]
fn query_and_response_cross_the_boundary() {
    let vector = responses()
        .into_iter()
        .find(|vector| vector.is("case", "found"))
        .expect("a response");
    let name = made(Derive::PeerName {
        key: [1; 32],
        domain: "ring.example",
    });
    let name = String::from_utf8(name.expect("a name")).expect("text");
    assert_eq!(name, vector.text("name"));
    let id = 0x1234;
    assert_eq!(made(Derive::Query { id, name: &name }), Ok(vector.bytes("query")));
    let message = vector.bytes("response");
    let answer = checked(Verify::Response {
        id,
        name: &name,
        is_datagram: true,
        message: &message,
    });
    let answer = answer.expect("an outcome");
    let item = BatchReader::new(&answer)
        .expect("one item")
        .next()
        .expect("one item");
    let Outcome::Found {
        ttl_s: 300,
        is_authentic: false,
        values,
    } = Outcome::decode(item).expect("an outcome")
    else {
        panic!("{item:?}")
    };
    let mut reader = Reader::new(values);
    assert_eq!(reader.field::<&[u8]>(), Ok(long_value().as_slice()));
    assert!(reader.is_empty());
}

#[test]
fn absence_and_truncation_cross_the_boundary() {
    let outcome = |case: &str| {
        let vector = responses()
            .into_iter()
            .find(|vector| vector.is("case", case))
            .expect("a response");
        checked(Verify::Response {
            id: 0x1234,
            name: vector.text("name"),
            is_datagram: true,
            message: &vector.bytes("response"),
        })
    };
    assert_eq!(outcome("absent"), Ok(vec![2, 4, 0, 0, 0, 120, 0, 0, 0]));
    assert_eq!(outcome("many"), Ok(vec![3, 0, 0, 0, 0]));
    assert_eq!(outcome("refused"), Err(Code::DnsRefused));
}

#[test]
fn update_and_its_response_cross_the_boundary() {
    let vector = updates()
        .into_iter()
        .find(|vector| vector.is("case", "ok"))
        .expect("an update");
    let secret: Vec<u8> = (0..32).collect();
    let (id, now_s) = (0x4321, vector.number("now_s"));
    let mut changes = Vec::new();
    "beeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeq.ring.example".write(&mut changes);
    long_value().as_slice().write(&mut changes);
    let update = made(Derive::Update {
        id,
        zone: "ring.example",
        key_name: "admin.key",
        secret: &secret,
        now_s,
        ttl_s: 300,
        changes: &changes,
    });
    let update = update.expect("an update");
    let (mac, message) = update.split_first_chunk::<32>().expect("a MAC");
    assert_eq!(
        (mac.to_vec(), message.to_vec()),
        (vector.bytes("mac"), vector.bytes("request"))
    );
    let check = |secret: &[u8]| {
        checked(Verify::Updated {
            id,
            key_name: "admin.key",
            secret,
            mac: *mac,
            now_s,
            message: &vector.bytes("response"),
        })
    };
    assert_eq!(check(&secret), Ok(Vec::new()));
    assert_eq!(check(&[]), Err(Code::DnsBadSignature));
}

#[test]
fn lines_and_the_name_of_the_authority_cross_the_boundary() {
    let name = made(Derive::AuthorityName {
        domain: "ring.example",
    });
    assert_eq!(name, Ok(b"_authority.ring.example".to_vec()));
    let line = made(Derive::ZoneLine {
        name: "_authority.ring.example",
        ttl_s: 60,
        value: b"old",
    });
    assert_eq!(
        line,
        Ok(b"_authority.ring.example. 60 IN TXT \"selfsame1=b2xk\"".to_vec())
    );
}

#[test]
fn malformed_requests_are_refused() {
    let mut sound = BatchWriter::new();
    Derive::AuthorityName { domain: "x" }.encode(&mut sound);
    let sound = sound.as_bytes();
    assert!(result(&derive(sound)).is_ok());
    for bytes in [
        [].as_slice(),
        &sound[..sound.len() - 1],
        &[sound, sound].concat(),
        &[200, 0, 0, 0, 0],
    ] {
        assert_eq!(result(&derive(bytes)), Err(Code::BadInput));
        assert_eq!(result(&verify(bytes)), Err(Code::BadInput));
    }
    let torn = made(Derive::Update {
        id: 1,
        zone: "x",
        key_name: "k",
        secret: &[],
        now_s: 1,
        ttl_s: 1,
        changes: &[1, 0, 0, 0],
    });
    assert_eq!(torn, Err(Code::BadInput));
}
