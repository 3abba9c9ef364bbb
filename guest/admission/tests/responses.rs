//! Responses of name servers, and of those that pretend to be one.

mod common;

use common::{record, response, responses, strings, wire};
use selfsame_admission::dns::{MAX_VALUE_BYTES, Name, Outcome, Query, Transport};
use selfsame_codec::Code;

const OK: u16 = 0x8180;
const TXT: u16 = 16;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const NS: u16 = 2;
const OPT: u16 = 41;
const NAME: &str = "peer.ring.example";

fn query(name: &str) -> Query {
    Query {
        id: 0x1234,
        name: Name::parse(name).expect("a name"),
    }
}

fn read(bytes: &[u8]) -> Result<Outcome, Code> {
    query(NAME).read_response(bytes, Transport::Datagram)
}

fn answered(answers: &[Vec<u8>]) -> Vec<u8> {
    response(&wire(NAME), OK, [answers, &[], &[]])
}

fn txt(owner: &str, text: &str) -> Vec<u8> {
    record(&wire(owner), TXT, 300, &strings(&[text]))
}

fn found(values: &[&[u8]], ttl_s: u32) -> Result<Outcome, Code> {
    Ok(Outcome::Found {
        values: values.iter().map(|value| value.to_vec()).collect(),
        ttl_s,
        is_authentic: false,
    })
}

fn soa(ttl_s: u32, minimum_s: u32) -> Vec<u8> {
    let mut data = [wire("ns.ring.example"), wire("admin.ring.example")].concat();
    data.extend_from_slice(&[0; 16]);
    data.extend_from_slice(&minimum_s.to_be_bytes());
    record(&wire("ring.example"), SOA, ttl_s, &data)
}

fn transport(name: &str) -> Transport {
    if name == "udp" {
        Transport::Datagram
    } else {
        Transport::Stream
    }
}

#[test]
fn queries_are_those_of_another_implementation() {
    for vector in responses() {
        assert_eq!(query(vector.text("name")).encode(), vector.bytes("query"));
    }
}

#[test]
fn responses_of_three_servers_say_what_their_zones_hold() {
    for vector in responses() {
        let outcome = query(vector.text("name"))
            .read_response(&vector.bytes("response"), transport(vector.text("transport")));
        let case = format!(
            "{} {} {}",
            vector.text("server"),
            vector.text("transport"),
            vector.text("case")
        );
        match vector.text("case") {
            "found" => assert_eq!(outcome, found(&[&common::long_value()], 300), "{case}"),
            "alias" => assert_eq!(outcome, found(&[&common::long_value()], 60), "{case}"),
            "two" => {
                let Ok(Outcome::Found { mut values, .. }) = outcome else {
                    panic!("{case}: {outcome:?}")
                };
                values.sort();
                assert_eq!(values, [b"new", b"old"], "{case}");
            }
            "nodata" | "absent" => assert_eq!(outcome, Ok(Outcome::Absent { ttl_s: 120 }), "{case}"),
            "foreign" => assert_eq!(outcome, Ok(Outcome::Absent { ttl_s: 300 }), "{case}"),
            "bad-value" => assert_eq!(outcome, Err(Code::BadDnsValue), "{case}"),
            "many" if vector.is("transport", "udp") => assert_eq!(outcome, Ok(Outcome::Truncated), "{case}"),
            "many" => {
                let Ok(Outcome::Found { mut values, .. }) = outcome else {
                    panic!("{case}: {outcome:?}")
                };
                values.sort();
                assert_eq!(
                    values,
                    (0..8).map(|byte| vec![byte; 320]).collect::<Vec<_>>(),
                    "{case}"
                );
            }
            "referral" => assert_eq!(outcome, Err(Code::DnsNoAnswer), "{case}"),
            "refused" => assert_eq!(outcome, Err(Code::DnsRefused), "{case}"),
            _ => panic!("{case} is not known"),
        }
    }
}

#[test]
fn prefixes_of_responses_are_refused() {
    for vector in responses() {
        let (query, bytes) = (query(vector.text("name")), vector.bytes("response"));
        let transport = transport(vector.text("transport"));
        for len in 0..bytes.len() {
            let outcome = query.read_response(&bytes[..len], transport);
            let expected = if len < 2 {
                Code::WrongDnsAnswer
            } else {
                Code::BadDnsMessage
            };
            assert_eq!(outcome, Err(expected), "{len} of {}", vector.text("case"));
        }
    }
}

/// Where the texts of TXT records lie in a message.
fn is_in_text(bytes: &[u8], at: usize) -> bool {
    bytes.windows(10).enumerate().any(|(start, window)| {
        // Up to 428 digits in two strings follow.
        window == b"selfsame1=" && (start..start + 10 + 428 + 1).contains(&at)
    })
}

#[test]
fn changed_bits_yield_no_value_of_another_name() {
    for vector in responses().iter().filter(|vector| vector.is("transport", "udp")) {
        let (query, bytes) = (query(vector.text("name")), vector.bytes("response"));
        let sound = query.read_response(&bytes, Transport::Datagram);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let outcome = query.read_response(&changed, Transport::Datagram);
                let Ok(Outcome::Found { values, .. }) = &outcome else {
                    continue;
                };
                let Ok(Outcome::Found { values: sound, .. }) = &sound else {
                    panic!("bit {bit} of {at} of {} makes a value", vector.text("case"));
                };
                let is_of_name = is_in_text(&bytes, at) || values.iter().all(|value| sound.contains(value));
                assert!(
                    is_of_name,
                    "bit {bit} of {at} of {} makes a value",
                    vector.text("case")
                );
            }
        }
    }
}

#[test]
fn answers_to_other_queries_are_refused() {
    let sound = answered(&[txt(NAME, "selfsame1=b2xk")]);
    assert_eq!(read(&sound), found(&[b"old"], 300));
    let changed = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        bytes
    };
    let type_at = 12 + wire(NAME).len();
    for (name, bytes) in [
        ("id", changed(1, 0x35)),
        ("a query", changed(2, 0x01)),
        ("an update", changed(2, 0xa9)),
        ("name", changed(13, b'q')),
        ("type", changed(type_at + 1, 1)),
        ("class", changed(type_at + 3, 3)),
        (
            "no question",
            [&[0x12, 0x34, 0x81, 0x80], [0; 8].as_slice()].concat(),
        ),
        ("nothing", Vec::new()),
    ] {
        assert_eq!(read(&bytes), Err(Code::WrongDnsAnswer), "{name}");
    }
    assert_eq!(read(&changed(5, 2)), Err(Code::BadDnsMessage), "two questions");
}

#[test]
fn case_of_names_does_not_matter() {
    let bytes = response(
        &wire("PEER.ring.Example"),
        OK,
        [&[txt("peer.RING.example", "selfsame1=b2xk")], &[], &[]],
    );
    assert_eq!(read(&bytes), found(&[b"old"], 300));
    let asked = Query {
        id: 0x1234,
        name: Name::parse("pEEr.RiNG.example").expect("a name"),
    };
    assert_eq!(
        asked.read_response(&bytes, Transport::Stream),
        found(&[b"old"], 300)
    );
    assert!(asked.encode().windows(4).any(|label| label == b"pEEr"));
}

#[test]
fn records_of_other_names_are_no_answer() {
    let bytes = answered(&[txt("other.ring.example", "selfsame1=b2xk")]);
    assert_eq!(read(&bytes), Ok(Outcome::Absent { ttl_s: 10 }));
    let bytes = response(&wire(NAME), OK, [&[], &[], &[txt(NAME, "selfsame1=b2xk")]]);
    assert_eq!(read(&bytes), Ok(Outcome::Absent { ttl_s: 10 }), "not an answer");
}

#[test]
fn authenticated_data_is_noted() {
    let bytes = response(&wire(NAME), OK | 0x20, [&[txt(NAME, "selfsame1=b2xk")], &[], &[]]);
    assert!(matches!(
        read(&bytes),
        Ok(Outcome::Found {
            is_authentic: true,
            ..
        })
    ));
}

#[test]
fn pointers_that_lead_nowhere_are_refused() {
    let question_end = 12 + wire(NAME).len() + 4;
    let pointer = |target: usize| vec![0xc0 | (target >> 8) as u8, target as u8];
    for (name, owner) in [
        ("itself", pointer(question_end)),
        ("ahead", pointer(question_end + 20)),
        ("the header", pointer(4)),
        ("past the end", pointer(0x3fff)),
        ("a reserved kind", vec![0x40, 0]),
        ("half a pointer", vec![0xc0]),
    ] {
        let bytes = answered(&[record(&owner, TXT, 300, &strings(&["selfsame1=b2xk"]))]);
        assert_eq!(read(&bytes), Err(Code::BadDnsMessage), "{name}");
    }
    let bytes = answered(&[record(&pointer(12), TXT, 300, &strings(&["selfsame1=b2xk"]))]);
    assert_eq!(read(&bytes), found(&[b"old"], 300));
    let data = strings(&["selfsame1=b2xk"]);
    let next = question_end + 2 + 10 + data.len();
    let to_next = record(&pointer(next), TXT, 300, &data);
    let bytes = answered(&[to_next, record(&wire(NAME), 99, 300, &[])]);
    assert_eq!(read(&bytes), Err(Code::BadDnsMessage), "a name that follows");
}

#[test]
fn chains_of_pointers_and_long_names_end() {
    let start = 12 + wire(NAME).len() + 4;
    // The data of a record of another type: pointers, each to the one before.
    let chain = |len: usize| {
        let first = start + wire(NAME).len() + 10;
        let mut data = vec![0xc0, 12];
        for index in 1..len {
            let target = first + 2 * (index - 1);
            data.extend_from_slice(&[0xc0 | (target >> 8) as u8, target as u8]);
        }
        let last = first + 2 * (len - 1);
        let owner = [0xc0 | (last >> 8) as u8, last as u8];
        answered(&[
            record(&wire(NAME), 99, 300, &data),
            record(&owner, TXT, 300, &strings(&["selfsame1=b2xk"])),
        ])
    };
    assert_eq!(read(&chain(31)), found(&[b"old"], 300));
    assert_eq!(read(&chain(32)), Err(Code::BadDnsMessage));
    let owner: Vec<u8> = [1, b'a'].repeat(127).into_iter().chain([0]).collect();
    assert_eq!(owner.len(), 255);
    let longest = answered(&[record(&owner, TXT, 300, &strings(&["x"]))]);
    assert_eq!(read(&longest), Ok(Outcome::Absent { ttl_s: 10 }));
    let longer: Vec<u8> = [&[2, b'a'], &owner[1..]].concat();
    assert_eq!(longer.len(), 256);
    let longer = answered(&[record(&longer, TXT, 300, &strings(&["x"]))]);
    assert_eq!(read(&longer), Err(Code::BadDnsMessage));
}

#[test]
fn aliases_are_followed_so_far() {
    let alias = |from: &str, to: &str| record(&wire(from), CNAME, 100, &wire(to));
    let chain = |len: usize| {
        let name = |index: usize| {
            if index == 0 {
                NAME.to_owned()
            } else {
                format!("a{index}.example")
            }
        };
        let mut answers: Vec<Vec<u8>> = (0..len)
            .map(|index| alias(&name(index), &name(index + 1)))
            .collect();
        answers.push(txt(&name(len), "selfsame1=b2xk"));
        answers.reverse();
        answered(&answers)
    };
    assert_eq!(read(&chain(8)), found(&[b"old"], 100));
    assert_eq!(read(&chain(9)), Err(Code::BadDnsMessage));
    let circle = answered(&[alias(NAME, "b.example"), alias("b.example", NAME)]);
    assert_eq!(read(&circle), Err(Code::BadDnsMessage));
    let unfinished = answered(&[alias(NAME, "b.example")]);
    assert_eq!(read(&unfinished), Err(Code::DnsNoAnswer));
    let crooked = answered(&[record(
        &wire(NAME),
        CNAME,
        100,
        &[wire("b.example"), vec![0]].concat(),
    )]);
    assert_eq!(read(&crooked), Err(Code::BadDnsMessage));
}

#[test]
fn times_of_values_have_bounds() {
    for (ttl_s, expected) in [
        (0, 30),
        (29, 30),
        (31, 31),
        (86_400, 86_400),
        (86_401, 86_400),
        (1 << 31, 30),
    ] {
        let bytes = answered(&[record(&wire(NAME), TXT, ttl_s, &strings(&["selfsame1=b2xk"]))]);
        assert_eq!(read(&bytes), found(&[b"old"], expected), "{ttl_s}");
    }
}

#[test]
fn times_of_absence_are_those_of_the_zone_within_bounds() {
    for (flags, ttl_s, minimum_s, expected) in [
        (OK, 3600, 120, 120),
        (OK | 3, 60, 3600, 60),
        (OK, 0, 3600, 10),
        (OK | 3, 1 << 31, 3600, 10),
        (OK | 3, 86_400, 86_400, 900),
    ] {
        let bytes = response(&wire(NAME), flags, [&[], &[soa(ttl_s, minimum_s)], &[]]);
        assert_eq!(read(&bytes), Ok(Outcome::Absent { ttl_s: expected }));
    }
    let nothing = response(&wire(NAME), OK | 3, [&[], &[], &[]]);
    assert_eq!(read(&nothing), Ok(Outcome::Absent { ttl_s: 10 }), "no SOA record");
    let mut stranger = soa(600, 600);
    stranger[1] = b'w';
    let bytes = response(&wire(NAME), OK | 3, [&[], &[stranger], &[]]);
    assert_eq!(
        read(&bytes),
        Ok(Outcome::Absent { ttl_s: 10 }),
        "the SOA record of another zone"
    );
    let mut short = soa(600, 600);
    short.pop();
    let len_at = wire("ring.example").len() + 9;
    short[len_at] -= 1;
    let bytes = response(&wire(NAME), OK | 3, [&[], &[short], &[]]);
    assert_eq!(read(&bytes), Err(Code::BadDnsMessage), "a short SOA record");
}

#[test]
fn referrals_are_no_absence() {
    let referral = record(&wire("ring.example"), NS, 300, &wire("ns.example"));
    let bytes = response(&wire(NAME), OK, [&[], &[referral], &[]]);
    assert_eq!(read(&bytes), Err(Code::DnsNoAnswer));
}

#[test]
fn response_codes_have_their_errors() {
    for (flags, expected) in [
        (1, Code::DnsRejected),
        (2, Code::DnsFailed),
        (4, Code::DnsRejected),
        (5, Code::DnsRefused),
        (9, Code::DnsRejected),
    ] {
        let bytes = response(&wire(NAME), OK | flags, [&[], &[], &[]]);
        assert_eq!(read(&bytes), Err(expected), "{flags}");
    }
    // BADVERS, whose bits lie in both places.
    let options = record(&[0], OPT, 1 << 24, &[]);
    let bytes = response(&wire(NAME), OK, [&[txt(NAME, "selfsame1=b2xk")], &[], &[options]]);
    assert_eq!(read(&bytes), Err(Code::DnsRejected));
}

#[test]
fn values_have_one_form() {
    for (text, expected) in [
        ("selfsame1=", Err(Code::BadDnsValue)),
        ("selfsame1=A", Err(Code::BadDnsValue)),
        ("selfsame1=AB", Err(Code::BadDnsValue)),
        ("selfsame1=AA==", Err(Code::BadDnsValue)),
        ("selfsame1=A+A/", Err(Code::BadDnsValue)),
        ("selfsame1= AAAA", Err(Code::BadDnsValue)),
        ("selfsame1=AA", found(&[&[0]], 300)),
        ("selfsame1=-_-_", found(&[&[0xfb, 0xff, 0xbf]], 300)),
        ("SELFSAME1=AAAA", Ok(Outcome::Absent { ttl_s: 300 })),
        ("selfsame2=AAAA", Ok(Outcome::Absent { ttl_s: 300 })),
        ("", Ok(Outcome::Absent { ttl_s: 300 })),
    ] {
        assert_eq!(read(&answered(&[txt(NAME, text)])), expected, "{text}");
    }
    let parts = strings(&["self", "same1=", "", "b2", "xk"]);
    assert_eq!(
        read(&answered(&[record(&wire(NAME), TXT, 300, &parts)])),
        found(&[b"old"], 300)
    );
    let torn = [strings(&["selfsame1=b2xk"]), vec![9, 1]].concat();
    assert_eq!(
        read(&answered(&[record(&wire(NAME), TXT, 300, &torn)])),
        Err(Code::BadDnsMessage)
    );
}

#[test]
fn bad_value_beside_good_one_is_left_out() {
    let bytes = answered(&[
        txt(NAME, "selfsame1=!"),
        txt(NAME, "selfsame1=b2xk"),
        txt(NAME, "selfsame1="),
    ]);
    assert_eq!(read(&bytes), found(&[b"old"], 300));
}

#[test]
fn oversized_is_refused() {
    let long = |len: usize| {
        let digits = "A".repeat((len * 4).div_ceil(3));
        let (head, tail) = digits.split_at(240);
        answered(&[record(
            &wire(NAME),
            TXT,
            300,
            &strings(&["selfsame1=", head, tail]),
        )])
    };
    assert_eq!(read(&long(MAX_VALUE_BYTES)), found(&[&[0; MAX_VALUE_BYTES]], 300));
    assert_eq!(read(&long(MAX_VALUE_BYTES + 1)), Err(Code::TooLarge));
    let values = |count| answered(&vec![txt(NAME, "selfsame1=b2xk"); count]);
    assert!(matches!(read(&values(8)), Ok(Outcome::Found { .. })));
    assert_eq!(read(&values(9)), Err(Code::TooLarge));
    let records = |count| {
        response(
            &wire(NAME),
            OK,
            [&vec![record(&[0], 99, 0, &[]); count], &[], &[]],
        )
    };
    assert_eq!(read(&records(256)), Ok(Outcome::Absent { ttl_s: 10 }));
    assert_eq!(read(&records(257)), Err(Code::BadDnsMessage));
    let padded = |len: usize| {
        let empty = answered(&[record(&wire(NAME), 99, 0, &[])]).len();
        answered(&[record(&wire(NAME), 99, 0, &vec![0; len - empty])])
    };
    let by = |len, transport| query(NAME).read_response(&padded(len), transport);
    let nothing = Ok(Outcome::Absent { ttl_s: 10 });
    assert_eq!(by(4096, Transport::Datagram), nothing);
    assert_eq!(by(4097, Transport::Datagram), Err(Code::TooLarge));
    assert_eq!(by(65_535, Transport::Stream), nothing);
    assert_eq!(by(65_536, Transport::Stream), Err(Code::TooLarge));
}

#[test]
fn bytes_after_the_message_and_truncation_over_tcp_are_refused() {
    let sound = answered(&[txt(NAME, "selfsame1=b2xk")]);
    assert_eq!(read(&[sound, vec![0]].concat()), Err(Code::BadDnsMessage));
    let truncated = response(&wire(NAME), OK | 0x200, [&[], &[], &[]]);
    assert_eq!(read(&truncated), Ok(Outcome::Truncated));
    let outcome = query(NAME).read_response(&truncated, Transport::Stream);
    assert_eq!(outcome, Err(Code::BadDnsMessage));
}

#[test]
fn noise_is_no_answer() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let sound = answered(&[txt(NAME, "selfsame1=b2xk")]);
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        bytes.truncate(next() as usize % (bytes.len() + 1));
        bytes.resize(bytes.len() + next() as usize % 64, 0);
        for _ in 0..next() % 8 {
            let len = bytes.len().max(1) as u64;
            if let Some(byte) = bytes.get_mut((next() % len) as usize) {
                *byte = next() as u8;
            }
        }
        if let Ok(Outcome::Found { values, .. }) = read(&bytes) {
            assert!(values.iter().all(|value| value.len() <= MAX_VALUE_BYTES));
        }
    }
}
