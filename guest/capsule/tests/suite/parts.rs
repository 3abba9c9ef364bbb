//! A client that reads sub-records remembers of their trees what it has verified, and no server makes it take one for another.

use core::cell::RefCell;
use std::rc::Rc;

use crate::common::net::{Fate, User, code, config, servers};
use crate::common::server::Server;
use crate::common::{OWNER_SEED, charter, charter_of};
use bytes::Bytes;
use selfsame_capsule::Result;
use selfsame_capsule::client::{Command, Period, Reply, Signing};
use selfsame_capsule::epoch::{ReaderKeys, Revoked};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn subrecord(record: u8, index: u8) -> Bytes {
    vec![record, index, 7].into()
}

fn commit(record: u8, count: u8) -> Command {
    Command::Commit {
        subrecords: (0..count).map(|index| subrecord(record, index)).collect(),
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    }
}

/// Servers with records of so many sub-records each, their owner and their names.
fn stored(charter: &Charter, count: usize, records: &[u8]) -> (Vec<Server>, User, Vec<RecordName>) {
    let mut servers = servers(count);
    let mut owner = User::new(config(charter, count, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    let names = (0..)
        .zip(records)
        .map(|(record, parts)| owner.written(&mut servers, commit(record, *parts))[0])
        .collect();
    owner.settle(&mut servers);
    (servers, owner, names)
}

fn reader(charter: &Charter, count: usize) -> User {
    User::new(config(charter, count, None, 2))
}

fn read(user: &mut User, servers: &mut [Server], parts: &[(RecordName, u32)]) -> Vec<Result<Bytes>> {
    let parts = parts.to_vec();
    match user.run(servers, Command::ReadParts { parts }) {
        Ok(Reply::Parts(parts)) => parts,
        other => panic!("{other:?}"),
    }
}

/// All sub-records of all records, and what they are.
fn all(names: &[RecordName], counts: &[u8]) -> (Vec<(RecordName, u32)>, Vec<Bytes>) {
    let each = (0..).zip(names.iter().zip(counts));
    each.flat_map(|(record, (name, count))| {
        (0..*count).map(move |index| ((*name, u32::from(index)), subrecord(record, index)))
    })
    .unzip()
}

#[test]
fn sub_records_of_many_records_come_in_one_response_and_later_without_their_paths() {
    let counts = [1, 4, 5, 17, 70, 2];
    for charter in [
        charter(),
        charter_of(HashKind::Blake3, Readers::Granted, Vec::new()),
    ] {
        let (mut servers, owner, names) = stored(&charter, 1, &counts);
        let mut user = User::with_store(config(&charter, 1, Some(OWNER_SEED), 3), owner.store);
        let (parts, contents) = all(&names, &counts);
        let mut lengths = Vec::new();
        for _ in 0..3 {
            let before = (user.asked.len(), user.bytes);
            let got = read(&mut user, &mut servers, &parts);
            assert!(
                got.into_iter()
                    .map(|part| part.expect("it is read"))
                    .eq(contents.clone())
            );
            assert_eq!(user.asked.len(), before.0 + 1);
            lengths.push(user.bytes - before.1);
        }
        // Beside each sub-record: whether it was read, its length, how many hashes, and a seal's tag.
        let bare: usize = contents
            .iter()
            .map(|content| content.len() + 2 + 4 + 2 + 16)
            .sum();
        assert!(lengths[0] > bare + 32 * 70, "{lengths:?}");
        assert!(
            lengths[1] <= bare + 100 && lengths[2] == lengths[1],
            "{lengths:?}"
        );
    }
}

#[test]
fn what_is_known_of_a_tree_shortens_the_paths_of_its_other_sub_records() {
    let (mut servers, _, names) = stored(&charter(), 1, &[64]);
    let mut user = reader(&charter(), 1);
    let mut took = |index: u32| {
        let before = user.bytes;
        let got = read(&mut user, &mut servers, &[(names[0], index)]);
        assert_eq!(got, [Ok(subrecord(0, index as u8))]);
        user.bytes - before
    };
    let first = took(0);
    let bare = took(0);
    assert!(first >= bare + 9 * 32);
    for (index, hashes) in [(3, 0), (4, 3), (5, 0), (16, 6), (17, 0), (20, 3), (63, 6)] {
        assert_eq!(took(index), bare + hashes * 32, "sub-record {index}");
    }
}

#[test]
fn a_server_that_changes_any_byte_is_found_out_and_another_one_is_asked() {
    let counts = [9, 1, 30];
    let (mut servers, _, names) = stored(&charter(), 2, &counts);
    let (parts, contents) = all(&names, &counts);
    assert_changes_are_found(&mut servers, &parts, &contents);
}

#[test]
fn the_same_sub_record_asked_for_again_in_a_request_is_verified_as_it_came() {
    let (mut servers, mut owner, names) = stored(&charter(), 2, &[40]);
    // Their hashes are the same, their places are not.
    let twins = Command::Commit {
        subrecords: vec![subrecord(0, 3); 6],
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    };
    let twin = owner.written(&mut servers, twins)[0];
    owner.settle(&mut servers);
    let one = |part: (RecordName, u32), content: u8| vec![(part, subrecord(0, content)); 20];
    let several = [
        one((names[0], 3), 3),
        one((twin, 0), 3),
        one((twin, 5), 3),
        one((names[0], 39), 39),
    ];
    let (parts, contents): (Vec<_>, Vec<_>) = several.concat().into_iter().unzip();
    assert_changes_are_found(&mut servers, &parts, &contents);
}

/// Reads twice of two servers, of which one changes a byte of its first response: what is read is what was written, whichever byte
/// that is.
fn assert_changes_are_found(servers: &mut [Server], parts: &[(RecordName, u32)], contents: &[Bytes]) {
    let mut at = 0;
    // Every few bytes of the first response, with trees and proofs, and of the second, without.
    loop {
        let mut user = reader(&charter(), servers.len());
        let changed = Rc::new(RefCell::new(0));
        let seen = changed.clone();
        user.rule = Box::new(move |(server, _), bytes| {
            if server == 0 && at < bytes.len() {
                bytes[at] ^= 1;
                *seen.borrow_mut() += 1;
            }
            Fate::After(5)
        });
        for _ in 0..2 {
            let got = read(&mut user, servers, parts);
            let got = got.into_iter().map(|part| part.expect("it is read"));
            assert!(got.eq(contents.iter().cloned()), "byte {at}");
        }
        if *changed.borrow() == 0 {
            break;
        }
        at += 13;
    }
    assert!(at > 5000, "{at}");
}

/// What one response holds, as it came, kept and given in place of another.
#[test]
fn a_sub_record_or_path_of_another_place_or_record_is_refused() {
    let counts = [20, 20, 5];
    let (mut servers, _, names) = stored(&charter(), 1, &counts);
    let places: Vec<(RecordName, u32)> = [(0, 0), (0, 1), (0, 4), (0, 16), (1, 0), (1, 16), (2, 4), (2, 0)]
        .map(|(record, index)| (names[record], index))
        .to_vec();
    // Once with nothing known of the trees, and once with all of it.
    for knows in [false, true] {
        let mut recorded = Vec::new();
        for place in &places {
            let mut user = prepared(&mut servers, &names, &counts, knows);
            let kept = Rc::new(RefCell::new(Vec::new()));
            let keep = kept.clone();
            user.rule = Box::new(move |_, bytes| {
                keep.borrow_mut().clone_from(bytes);
                Fate::After(5)
            });
            assert!(read(&mut user, &mut servers, &[*place])[0].is_ok());
            recorded.push(kept.borrow().clone());
        }
        for (asked, place) in places.iter().enumerate() {
            for (given, response) in recorded.iter().enumerate().filter(|(given, _)| *given != asked) {
                let mut user = prepared(&mut servers, &names, &counts, knows);
                let response = response.clone();
                user.rule = Box::new(move |_, bytes| {
                    bytes.clone_from(&response);
                    Fate::After(5)
                });
                let got = read(&mut user, &mut servers, &[*place]);
                let refusal = got[0].as_ref().expect_err("it is another one");
                assert!(
                    [Code::BadTree, Code::BadHeader].contains(&refusal.code),
                    "{given} for {asked}: {refusal:?}"
                );
                assert!(!knows || refusal.code == Code::BadTree);
            }
        }
    }
}

/// A reader, which has read all sub-records if it `knows` their trees.
fn prepared(servers: &mut [Server], names: &[RecordName], counts: &[u8], knows: bool) -> User {
    let mut user = reader(&charter(), 1);
    if knows {
        let (parts, _) = all(names, counts);
        assert!(read(&mut user, servers, &parts).iter().all(Result::is_ok));
    }
    user
}

#[test]
fn what_is_no_sub_record_is_refused_alone() {
    let (mut servers, mut owner, mut names) = stored(&charter(), 2, &[3, 6]);
    let plain = owner.written(
        &mut servers,
        Command::Write {
            contents: vec!["plain".into()],
            backpointers: Backpointers::Shortcuts,
            signing: Signing::Last,
        },
    );
    names.extend(plain);
    let mut user = reader(&charter(), 2);
    for _ in 0..2 {
        let unknown = RecordName([9; 32]);
        let places = [
            (names[0], 2),
            (names[0], 3),
            (unknown, 0),
            (names[2], 0),
            (names[1], u32::MAX),
            (names[1], 5),
        ];
        let got = read(&mut user, &mut servers, &places);
        let codes: Vec<_> = got
            .iter()
            .map(|part| part.as_ref().map_err(|refusal| refusal.code))
            .collect();
        let (first, last) = (subrecord(0, 2), subrecord(1, 5));
        let none = Err(Code::NoRecord);
        assert_eq!(
            codes,
            [Ok(&first), none, none, Err(Code::BadTree), none, Ok(&last)]
        );
    }
    assert_eq!(read(&mut user, &mut servers, &[]), []);
}

#[test]
fn a_reader_that_is_granted_the_key_later_opens_what_it_could_not() {
    let charter = charter_of(HashKind::Blake3, Readers::Granted, Vec::new());
    let (mut servers, mut owner, names) = stored(&charter, 1, &[6]);
    let seed = [11; 32];
    let mut user = User::new(config(&charter, 1, Some(seed), 3));
    let places: Vec<_> = (0..6).map(|index| (names[0], index)).collect();
    for part in read(&mut user, &mut servers, &places) {
        assert_eq!(code(part), Code::NotAReader);
    }
    let grant = Command::Govern {
        added: Vec::new(),
        revoked: Vec::new(),
        readers: vec![*ReaderKeys::from_seed(&seed).public()],
        period: Period::Same,
    };
    owner.written(&mut servers, grant);
    let got = read(&mut user, &mut servers, &places);
    assert!(
        got.into_iter()
            .map(|part| part.expect("it opens"))
            .eq((0..6).map(|index| subrecord(0, index)))
    );
}

#[test]
fn trees_of_a_writer_that_is_revoked_are_forgotten() {
    let charter = charter();
    let (mut servers, mut owner, names) = stored(&charter, 1, &[5]);
    let seed = [21; 32];
    let governs = |added, revoked, period| Command::Govern {
        added,
        revoked,
        readers: Vec::new(),
        period,
    };
    let key = KeyPair::from_seed(&seed).public();
    owner.written(&mut servers, governs(vec![key], Vec::new(), Period::Same));
    let mut writer = User::new(config(&charter, 1, Some(seed), 4));
    writer.begin(&mut servers);
    let accepted = writer.written(&mut servers, commit(8, 6))[0];
    let refused = writer.written(&mut servers, commit(9, 6))[0];
    let mut user = reader(&charter, 1);
    let places = [(names[0], 4), (accepted, 5), (refused, 5)];
    let contents = [subrecord(0, 4), subrecord(8, 5), subrecord(9, 5)];
    assert_eq!(read(&mut user, &mut servers, &places), contents.clone().map(Ok));
    let revoked = Revoked {
        number: 1,
        heads: vec![accepted],
    };
    owner.written(&mut servers, governs(Vec::new(), vec![revoked], Period::Next));
    let mut got = read(&mut user, &mut servers, &places);
    assert_eq!(code(got.pop().expect("there are three")), Code::Unproven);
    assert_eq!(got, [Ok(contents[0].clone()), Ok(contents[1].clone())]);
}

#[test]
fn a_sub_record_of_a_long_record_is_read_without_the_others() {
    let part = |index: u32, len: usize| -> Bytes { (0..len).map(|at| (at as u32 ^ index) as u8).collect() };
    // Bodies that end about where chunks do, and a long one, which is cut into longer chunks.
    for (len, count) in [(900, 9), (1360, 6), (8000, 64), (8176, 64), (8180, 64)] {
        let (mut servers, mut owner, _) = stored(&charter(), 1, &[1]);
        let commit = Command::Commit {
            subrecords: (0..count).map(|index| part(index, len)).collect(),
            backpointers: Backpointers::Shortcuts,
            signing: Signing::Last,
        };
        let name = owner.written(&mut servers, commit)[0];
        let mut user = reader(&charter(), 1);
        let all: Vec<_> = (0..count).map(|index| (name, index)).collect();
        let contents: Vec<_> = (0..count).map(|index| Ok(part(index, len))).collect();
        assert_eq!(read(&mut user, &mut servers, &all), contents);
        let most = if len > 8176 { 190_000 } else { 30_000 };
        for index in 0..count {
            // Whoever has verified it once asks for it alone.
            servers = servers.into_iter().map(Server::lose_power).collect();
            let given = read(&mut user, &mut servers, &[(name, index)]);
            assert_eq!(given, contents[index as usize..][..1], "{count} of {len} bytes");
            let bytes = servers[0].read_bytes;
            assert!(
                bytes < most,
                "{bytes} bytes for {index} of {count} of {len} bytes"
            );
        }
    }
}
