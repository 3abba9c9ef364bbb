//! What servers and writers sign: acknowledgements, answers about heads, introductions.

use selfsame_capsule::acknowledgement::{Acknowledgement, Stored};
use selfsame_capsule::hash::{CapsuleName, RecordName};
use selfsame_capsule::introduction::{Introduction, MAX_AGE_MS, Place, SessionId};
use selfsame_capsule::keys::{Key, Signature};
use selfsame_capsule::message::{Fresh, FreshQuery};
use selfsame_capsule::verifier::Verifier;
use selfsame_codec::{Field, Reader};

use super::fixture::{
    NOW, SERVER, WRITER, changed, cut, hexes, keys, list, open_capsule, public, refused_code,
};
use super::json::{Json, hex, number, text};

pub(super) fn vectors() -> Json {
    Json::Object(vec![
        ("server_seed", hex(&SERVER)),
        ("writer_seed", hex(&WRITER)),
        ("capsule", hex(&open_capsule().name().0)),
        ("time_ms", number(NOW)),
        ("acknowledgements", list([1, 2, 5].map(acknowledged))),
        ("refused_acknowledgements", refused_acknowledgements()),
        ("freshness", freshness()),
        ("introductions", introductions()),
    ])
}

fn name(at: u8) -> RecordName {
    RecordName([at; 32])
}

/// What requests stored: the i-th so many records and the signature of the last; the first creates the capsule.
fn requests(count: u8) -> Vec<Vec<(u8, Option<RecordName>)>> {
    let of = |at: u8| {
        let created = (at == 0).then_some((1, None));
        let records = (0..=at).map(move |record| (3, Some(name(16 * at + record))));
        created
            .into_iter()
            .chain(records)
            .chain([(4, Some(name(17 * at)))])
            .collect()
    };
    (0..count).map(of).collect()
}

fn stored(operations: &[(u8, Option<RecordName>)]) -> Stored {
    let mut stored = Stored::default();
    for operation in operations {
        match operation {
            (3, Some(record)) => stored.record(record),
            (_, Some(record)) => stored.signature(record),
            (_, None) => stored.capsule(),
        }
    }
    stored
}

fn sign(requests: &[Vec<(u8, Option<RecordName>)>]) -> Vec<Acknowledgement> {
    let capsule = open_capsule().name();
    let all: Vec<Stored> = requests.iter().map(|operations| stored(operations)).collect();
    let together: Vec<(&CapsuleName, &Stored)> = all.iter().map(|stored| (&capsule, stored)).collect();
    Acknowledgement::sign_each(&keys(&SERVER), &together, NOW)
}

fn operations_json(operations: &[(u8, Option<RecordName>)]) -> Json {
    list(operations.iter().map(|(number, record)| {
        let mut bytes = vec![*number];
        bytes.extend(record.iter().flat_map(|record| record.0));
        hex(&bytes)
    }))
}

fn encoded<'a>(field: &impl Field<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    field.write(&mut out);
    out
}

/// What a server signs together for so many requests.
fn acknowledged(count: u8) -> Json {
    let requests = requests(count);
    let words = sign(&requests);
    list(requests.iter().zip(&words).map(|(operations, word)| {
        assert!(word.verify(
            &mut Verifier::default(),
            &open_capsule().name(),
            &stored(operations)
        ));
        Json::Object(vec![
            ("stored", operations_json(operations)),
            ("acknowledgement", hex(&encoded(word))),
        ])
    }))
}

fn accepts(acknowledgement: &[u8], stored: &Stored) -> bool {
    let mut reader = Reader::new(acknowledgement);
    reader
        .field::<Acknowledgement>()
        .is_ok_and(|word| word.verify(&mut Verifier::default(), &open_capsule().name(), stored))
}

fn refused_acknowledgements() -> Json {
    let requests = requests(5);
    let words = sign(&requests);
    let right = encoded(&words[1]);
    // The way of the second of five is three hashes long.
    let (sides, count) = (8 + 32 + 64, 8 + 32 + 64 + 1);
    assert_eq!(right[count], 3);
    let set = |at: usize, value: u8| {
        let mut wrong = right.clone();
        wrong[at] = value;
        wrong
    };
    let mut other_label = sign(&requests[..1]).swap_remove(0);
    other_label.signature = keys(&SERVER).sign("selfsame/1 capsule freshness", &root_statement());
    let exchanged = [&[requests[1][2]], &requests[1][..2]].concat();
    let cases = [
        ("another time", changed(&right, 0), &requests[1]),
        ("another server's key", changed(&right, 8), &requests[1]),
        (
            "one byte of the signature is another",
            changed(&right, 40),
            &requests[1],
        ),
        (
            "a hash stands on the other side",
            changed(&right, sides),
            &requests[1],
        ),
        (
            "a side above the last hash",
            set(sides, right[sides] | 8),
            &requests[1],
        ),
        (
            "one byte of a hash is another",
            changed(&right, count + 1),
            &requests[1],
        ),
        (
            "nine hashes",
            [&set(count, 9)[..], &[0; 6 * 32]].concat(),
            &requests[1],
        ),
        ("it ends early", cut(&right).to_vec(), &requests[1]),
        ("the operations in another order", right.clone(), &exchanged),
        ("what another request stored", right.clone(), &requests[2]),
        ("another label", encoded(&other_label), &requests[0]),
    ];
    list(cases.into_iter().map(|(what, acknowledgement, operations)| {
        assert!(!accepts(&acknowledgement, &stored(operations)), "{what}");
        Json::Object(vec![
            ("what", text(what)),
            ("stored", operations_json(operations)),
            ("acknowledgement", hex(&acknowledgement)),
        ])
    }))
}

/// What a server signs for the first request alone, whose leaf is the root.
fn root_statement() -> Vec<u8> {
    let mut leaf = open_capsule().name().0.to_vec();
    for (number, record) in &requests(1)[0] {
        leaf.push(*number);
        leaf.extend(record.iter().flat_map(|record| record.0));
    }
    let leaf = selfsame_sodium::hash::hash_for("selfsame/1 capsule stored", &leaf);
    [&public(&SERVER).0[..], &NOW.to_le_bytes(), &leaf].concat()
}

/// An answer about heads, and the question that it answers.
fn asked(writer: Option<Key>, newest: Option<RecordName>) -> (FreshQuery, Fresh) {
    let query = FreshQuery {
        nonce: [6; 32],
        writer,
    };
    let heads = vec![name(9), name(3)];
    let fresh = Fresh::sign(&keys(&SERVER), &open_capsule().name(), &query, newest, heads, NOW);
    (query, fresh)
}

fn accepts_fresh(answer: &[u8], query: &FreshQuery) -> bool {
    let fresh = Reader::new(answer).field::<Fresh>();
    fresh.is_ok_and(|fresh| fresh.verify(&mut Verifier::default(), &open_capsule().name(), query))
}

fn fresh_fields(query: &FreshQuery, answer: &[u8]) -> Vec<(&'static str, Json)> {
    vec![
        ("nonce", hex(&query.nonce)),
        ("writer", hex(&query.writer.map_or([0; 32], |writer| writer.0))),
        ("answer", hex(answer)),
    ]
}

fn freshness() -> Json {
    let of_writer = asked(Some(public(&WRITER)), Some(name(5)));
    let accepted = [
        &asked(None, None),
        &asked(Some(public(&WRITER)), None),
        &of_writer,
    ];
    let accepted = accepted.map(|(query, fresh)| {
        assert!(accepts_fresh(&encoded(fresh), query));
        let mut case = fresh_fields(query, &encoded(fresh));
        case.extend([
            ("newest", hex(&fresh.newest.map_or([0; 32], |newest| newest.0))),
            ("heads", hexes(fresh.heads.iter().map(|head| head.0))),
        ]);
        Json::Object(case)
    });
    let (query, fresh) = of_writer;
    Json::Object(vec![
        ("accepted", list(accepted)),
        ("refused", refused_freshness(query, &fresh)),
    ])
}

fn refused_freshness(query: FreshQuery, fresh: &Fresh) -> Json {
    let right = encoded(fresh);
    let time = NOW.to_le_bytes();
    let (writer, names) = (public(&WRITER).0, [name(5).0, name(3).0, name(9).0]);
    let capsule = open_capsule().name().0;
    let asked = [&capsule[..], &fresh.server.0, &query.nonce, &writer, &time].concat();
    let other_label = Fresh {
        signature: keys(&SERVER).sign(
            "selfsame/1 capsule acknowledgement",
            &[&asked[..], names.as_flattened()].concat(),
        ),
        ..fresh.clone()
    };
    let other_nonce = FreshQuery {
        nonce: [7; 32],
        ..query
    };
    let other_writer = FreshQuery {
        writer: Some(public(&SERVER)),
        ..query
    };
    let cases = [
        ("another nonce", right.clone(), other_nonce),
        ("another writer", right.clone(), other_writer),
        ("another time", changed(&right, 0), query),
        ("another newest record", changed(&right, 8 + 32), query),
        (
            "one byte of a head is another",
            changed(&right, 8 + 32 + 32 + 2),
            query,
        ),
        ("it ends early", cut(&right).to_vec(), query),
        ("another label", encoded(&other_label), query),
    ];
    list(cases.into_iter().map(|(what, answer, query)| {
        assert!(!accepts_fresh(&answer, &query), "{what}");
        let mut case = vec![("what", text(what))];
        case.extend(fresh_fields(&query, &answer));
        Json::Object(case)
    }))
}

/// What is wrong, with what a server is told: the introduction, its key, the session, and the time
type Case = (&'static str, Introduction, Key, SessionId, u64);

fn introductions() -> Json {
    let (server, capsule, session) = (public(&SERVER), open_capsule().name(), [8; 16]);
    let key = keys(&WRITER);
    let here = Place {
        server: &server,
        capsule: &capsule,
        session: &session,
    };
    let right = Introduction::sign(&key, 1, &here, NOW);
    let verify = |introduction: &Introduction, server: &Key, session: &SessionId, now_ms| {
        let place = Place {
            server,
            session,
            ..here
        };
        introduction.verify(&mut Verifier::default(), &key.public(), &place, now_ms)
    };
    assert_eq!(verify(&right, &server, &session, NOW + MAX_AGE_MS), Ok(()));
    let elsewhere = public(&WRITER);
    let wrong = Introduction {
        signature: Signature(changed(&right.signature.0, 0).try_into().expect("64 bytes")),
        ..right
    };
    let statement = [&server.0[..], &capsule.0, &session, &NOW.to_le_bytes()].concat();
    let other_label = Introduction {
        signature: key.sign("selfsame/1 capsule record", &statement),
        ..right
    };
    let cases = [
        (
            "an hour and a millisecond late",
            right,
            server,
            session,
            NOW + MAX_AGE_MS + 1,
        ),
        (
            "an hour and a millisecond early",
            right,
            server,
            session,
            NOW - MAX_AGE_MS - 1,
        ),
        ("another server", right, elsewhere, session, NOW),
        ("another session", right, server, [9; 16], NOW),
        ("one byte is another", wrong, server, session, NOW),
        ("another label", other_label, server, session, NOW),
    ];
    let to_json = |(what, introduction, server, session, now_ms): Case| {
        let code = verify(&introduction, &server, &session, now_ms);
        Json::Object(vec![
            ("what", text(what)),
            ("server", hex(&server.0)),
            ("session", hex(&session)),
            ("now_ms", number(now_ms)),
            ("introduction", hex(&encoded(&introduction))),
            ("code", refused_code(what, code)),
        ])
    };
    Json::Object(vec![
        ("server", hex(&server.0)),
        ("session", hex(&session)),
        ("introduction", hex(&encoded(&right))),
        ("refused", list(cases.into_iter().map(to_json))),
    ])
}
