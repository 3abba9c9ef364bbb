//! Updates of zones, and what name servers say to them.

mod common;

use common::{Vector, long_value, updates};
use selfsame_admission::dns::{Change, Name, Signed, TsigKey, Update, zone_line};
use selfsame_codec::Code;

/// The name that every captured update is about: 32 times the byte 9.
const NAME: &str = "beeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeq.ring.example";

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn secret() -> Vec<u8> {
    (0..32).collect()
}

fn key(secret: &[u8]) -> TsigKey<'_> {
    TsigKey {
        name: name("admin.key"),
        secret,
    }
}

fn update<'a>(zone: &str, changes: Vec<Change<'a>>) -> Update<'a> {
    Update {
        id: 0x4321,
        zone: name(zone),
        ttl_s: 300,
        changes,
    }
}

fn change<'a>(of: &str, value: &'a [u8]) -> Change<'a> {
    Change {
        name: name(of),
        value,
    }
}

fn mac(vector: &Vector) -> [u8; 32] {
    vector.bytes("mac").try_into().expect("a MAC of 32 bytes")
}

fn check(vector: &Vector, response: &[u8]) -> Result<(), Code> {
    key(&secret()).check_updated(0x4321, &mac(vector), vector.number("now_s"), response)
}

fn sound() -> Vector {
    let found = updates().into_iter().find(|vector| vector.is("case", "ok"));
    found.expect("one that was made")
}

#[test]
fn updates_are_those_of_another_implementation() {
    let value = long_value();
    for vector in updates() {
        let (zone, owner) = match vector.text("case") {
            "not-zone" => ("other.example", NAME.replace("ring", "other")),
            _ => ("ring.example", NAME.to_owned()),
        };
        let value = if vector.is("case", "delete") {
            [].as_slice()
        } else {
            &value
        };
        let right = secret();
        let (key_name, secret) = match vector.text("case") {
            "bad-secret" => ("admin.key", [b'x'; 32].as_slice()),
            "unknown-key" => ("other.key", right.as_slice()),
            _ => ("admin.key", right.as_slice()),
        };
        let key = TsigKey {
            name: name(key_name),
            secret,
        };
        let expected = Signed {
            message: vector.bytes("request"),
            mac: mac(&vector),
        };
        let signed = update(zone, vec![change(&owner, value)]).sign(&key, vector.number("now_s"));
        assert_eq!(signed, Ok(expected), "{}", vector.text("case"));
    }
}

#[test]
fn responses_of_two_servers_say_what_became_of_updates() {
    for vector in updates() {
        let expected = match (vector.text("case"), vector.text("server")) {
            ("ok" | "delete", _) => Ok(()),
            ("bad-secret", _) => Err(Code::DnsBadSignature),
            ("unknown-key", _) => Err(Code::DnsBadKey),
            ("bad-time", _) => Err(Code::DnsBadTime),
            ("not-zone", _) => Err(Code::DnsRejected),
            (case, _) => panic!("{case} is not known"),
        };
        let outcome = check(&vector, &vector.bytes("response"));
        assert_eq!(
            outcome,
            expected,
            "{} {}",
            vector.text("server"),
            vector.text("case")
        );
    }
}

#[test]
fn changed_or_cut_confirmations_are_none() {
    let vector = sound();
    let bytes = vector.bytes("response");
    for len in 0..bytes.len() {
        assert!(check(&vector, &bytes[..len]).is_err(), "{len}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            // The case of the key's and the algorithm's name is not signed (RFC 8945, section 4.3.3).
            let is_case = bit == 5 && bytes[at].is_ascii_alphabetic() && at > 30;
            assert!(is_case || check(&vector, &changed).is_err(), "bit {bit} of {at}");
        }
    }
}

#[test]
fn confirmation_is_bound_to_update_key_and_time() {
    let vector = sound();
    let bytes = vector.bytes("response");
    let (now_s, mac) = (vector.number("now_s"), mac(&vector));
    let secret = secret();
    assert_eq!(
        key(&secret).check_updated(0x4321, &mac, now_s + 290, &bytes),
        Ok(())
    );
    for (case, outcome, expected) in [
        (
            "id",
            key(&secret).check_updated(0x4322, &mac, now_s, &bytes),
            Code::WrongDnsAnswer,
        ),
        (
            "MAC",
            key(&secret).check_updated(0x4321, &[0; 32], now_s, &bytes),
            Code::DnsBadSignature,
        ),
        (
            "secret",
            key(&[1; 32]).check_updated(0x4321, &mac, now_s, &bytes),
            Code::DnsBadSignature,
        ),
        (
            "late",
            key(&secret).check_updated(0x4321, &mac, now_s + 310, &bytes),
            Code::DnsBadTime,
        ),
        (
            "early",
            key(&secret).check_updated(0x4321, &mac, now_s - 310, &bytes),
            Code::DnsBadTime,
        ),
    ] {
        assert_eq!(outcome, Err(expected), "{case}");
    }
    let other = TsigKey {
        name: name("other.key"),
        secret: &secret,
    };
    assert_eq!(
        other.check_updated(0x4321, &mac, now_s, &bytes),
        Err(Code::DnsBadSignature)
    );
}

#[test]
fn unsigned_and_half_signed_confirmations_are_none() {
    let vector = sound();
    let bytes = vector.bytes("response");
    // The TSIG record: a name of 11 bytes, 10 bytes, and data of 61.
    let mut unsigned = bytes[..bytes.len() - 82].to_vec();
    unsigned[11] = 0;
    assert_eq!(check(&vector, &unsigned), Err(Code::DnsBadSignature));
    let mut refused = unsigned.clone();
    refused[3] |= 5;
    assert_eq!(check(&vector, &refused), Err(Code::DnsRefused));
    // Half a MAC, as RFC 8945 lets others truncate it: 32 bytes before id, error and length.
    let mut half = bytes.clone();
    half.drain(bytes.len() - 22..bytes.len() - 6);
    half[bytes.len() - 39] = 16;
    half[bytes.len() - 62] = 61 - 16;
    assert_eq!(check(&vector, &half), Err(Code::DnsBadSignature));
    assert_eq!(check(&vector, &vec![0; 65_536]), Err(Code::TooLarge));
}

#[test]
fn updates_of_other_zones_and_too_many_changes_are_refused() {
    let secret = secret();
    let refused = |update: &Update<'_>| update.sign(&key(&secret), 1).expect_err("a refusal");
    assert_eq!(
        refused(&update("other.example", vec![change(NAME, b"v")])),
        Code::BadDomain
    );
    assert_eq!(
        refused(&update("g.example", vec![change(NAME, b"v")])),
        Code::BadDomain
    );
    assert!(
        update("RING.example", vec![change(NAME, b"v")])
            .sign(&key(&secret), 1)
            .is_ok()
    );
    assert_eq!(
        refused(&update("ring.example", vec![change(NAME, &[0; 321])])),
        Code::TooLarge
    );
    let many = |count| update("ring.example", vec![change(NAME, &[0; 320]); count]);
    let largest = many(100).sign(&key(&secret), 1).expect("what fits a message");
    assert!(largest.message.len() <= 65_535);
    assert_eq!(refused(&many(200)), Code::TooLarge);
}

#[test]
fn key_is_not_shown() {
    let shown = format!("{:?}", key(&[0x5a; 32]));
    assert!(!shown.contains("90") && !shown.contains("5a"), "{shown}");
}

#[test]
fn zone_lines_hold_strings_of_at_most_255_bytes() {
    let line = zone_line(&name("peer.ring.example"), 300, b"old").expect("a line");
    assert_eq!(line, "peer.ring.example. 300 IN TXT \"selfsame1=b2xk\"");
    let line = zone_line(&name("peer.ring.example"), 0, &[0; 320]).expect("a line");
    let parts: Vec<&str> = line.split('"').collect();
    assert_eq!(parts.len(), 5);
    assert_eq!((parts[1].len(), parts[3].len()), (255, 10 + 427 - 255));
    assert_eq!(
        format!("{}{}", parts[1], parts[3]),
        format!("selfsame1={}", "A".repeat(427))
    );
    assert_eq!(zone_line(&name("a.b"), 0, &[0; 321]), Err(Code::TooLarge));
    assert_eq!(zone_line(&name("a.b"), 0, &[]), Err(Code::BadDnsValue));
}
