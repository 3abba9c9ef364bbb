//! Clocks of a map that a writer makes up: what others write counts nevertheless, for whoever reads it and wherever it begins.

use crate::common::authors::{ALICE, put};
use crate::common::maps::{Using as _, begun, set, shared, user, value, write};
use crate::common::net::{MapUser, servers};
use crate::common::server::{Server, sign, write as store};
use crate::common::{OWNER_SEED, writer};
use selfsame_capsule::client::{self, Period};
use selfsame_capsule::epoch::Revoked;
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::map::{Command, Reply};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::writer::{Backpointers, Writer, Written};

/// The largest clock that a head may say.
const LARGEST: u64 = 1 << 53;

fn alice(charter: &Charter) -> Writer {
    writer(charter, 1, KeyPair::from_seed(&ALICE), None)
}

/// The beginning of a head: its kind, how many records it follows, and its clock.
fn head(kind: u8, follows: u8, clock: u64) -> Vec<u8> {
    [&b"map\x01"[..], &[kind, follows], &clock.to_le_bytes()].concat()
}

/// A record that sets one key.
fn setting(clock: u64, follows: u8, key: u8) -> Vec<Vec<u8>> {
    let sets = [0, 1, 0, 1, 1, 0, key];
    let operation = [&[1, 1, 0, key, 0], &b"hers"[..]].concat();
    vec![[head(1, follows, clock), sets.to_vec()].concat(), operation]
}

/// An index whose tree says of one key where it was set, and with what clock.
fn index(clock: u64, follows: u8, (key, at): (u8, RecordName), leaf_clock: u64) -> Vec<Vec<u8>> {
    let root = [2, 1, 0, 0, 0, 0, 0];
    let mut leaf = vec![0, 1, 0, 1, 0, key, 1];
    leaf.extend(leaf_clock.to_le_bytes());
    leaf.extend(at.0);
    leaf.extend([1, 0, 0, 0]);
    vec![[head(3, follows, clock), root.to_vec()].concat(), leaf]
}

/// Servers store a record of Alice's that follows others.
fn give(
    all: &mut [Server],
    charter: &Charter,
    hers: &mut Writer,
    (parts, after): (&[Vec<u8>], &[RecordName]),
) -> RecordName {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let made = hers.commit(&parts, &Backpointers::Own(after.to_vec()), &[0; 16]);
    let made = made.expect("it is small");
    let signature = hers.sign(&made.name);
    put(all, charter, &[store(&made), sign(made.name, signature)]);
    made.name
}

fn put_one(user: &mut MapUser, all: &mut [Server], key: &str, value: &[u8]) -> RecordName {
    match user.run(all, write(vec![set(key, value)])) {
        Ok(Reply::Written(name)) => name,
        other => panic!("{other:?}"),
    }
}

fn revoke_alice(owner: &mut MapUser, all: &mut [Server]) {
    let command = client::Command::Govern {
        added: vec![],
        revoked: vec![Revoked {
            number: 1,
            heads: vec![],
        }],
        readers: vec![],
        period: Period::Next,
    };
    owner.run(all, Command::Capsule(command)).expect("she is revoked");
}

fn clock_of(user: &mut MapUser, all: &mut [Server], key: &str) -> u64 {
    let history = user.history(all, key, None, 1);
    history.entries[0].clock
}

/// Whoever reads: a new reader, one that has followed all, and whoever wrote it.
fn all_find(users: &mut [&mut MapUser], (all, charter): (&mut [Server], &Charter), key: &str, wanted: &[u8]) {
    let mut anew = user(charter, all.len(), None, 99);
    for user in users.iter_mut().map(|user| &mut **user).chain([&mut anew]) {
        assert_eq!(user.get(all, key), Ok(Some(wanted.to_vec())), "{key}");
    }
}

#[test]
fn largest_clock_of_one_writer_ends_no_map() {
    for clock in [LARGEST - 1, LARGEST, LARGEST + 1] {
        for follows in [0, 1] {
            let charter = shared(&[ALICE]);
            let (mut all, mut owner) = begun(&charter, 3);
            let before = put_one(&mut owner, &mut all, "before", b"1");
            let mut reader = user(&charter, 3, None, 7);
            assert_eq!(reader.get(&mut all, "before"), Ok(Some(b"1".to_vec())));
            let parts = setting(clock, follows, b'h');
            give(&mut all, &charter, &mut alice(&charter), (&parts, &[before]));
            for key in ["h", "i", "h"] {
                put_one(&mut owner, &mut all, key, b"2");
                all_find(&mut [&mut reader, &mut owner], (&mut all, &charter), key, b"2");
            }
            // A writer that begins after it.
            let mut anew = user(&charter, 3, Some(OWNER_SEED), 40);
            put_one(&mut anew, &mut all, "i", b"3");
            for (key, wanted) in [("before", b"1"), ("h", b"2"), ("i", b"3")] {
                all_find(&mut [&mut reader, &mut anew], (&mut all, &charter), key, wanted);
            }
            let history = reader.history(&mut all, "h", None, 9);
            let was: Vec<_> = history.entries.iter().filter_map(value).collect();
            assert_eq!(was[..2], [b"2", b"2"]);
            assert!(history.entries.is_sorted_by(|one, next| one.clock >= next.clock));
        }
    }
}

/// An index is believed to go on from a larger clock: what follows it counts, and is put into indexes, also where there is none larger.
#[test]
fn index_with_largest_clock_ends_no_map() {
    let charter = shared(&[ALICE]);
    let (mut all, mut owner) = begun(&charter, 3);
    let before = put_one(&mut owner, &mut all, "b", b"1");
    let mut reader = user(&charter, 3, None, 7);
    assert_eq!(reader.get(&mut all, "b"), Ok(Some(b"1".to_vec())));
    let parts = index(LARGEST, 1, (b'b', before), 1);
    give(&mut all, &charter, &mut alice(&charter), (&parts, &[before]));
    let mut anew = user(&charter, 3, Some(OWNER_SEED), 40);
    for round in 0..3 {
        for number in 0..140 {
            let key = format!("{}", number % 9);
            put_one(&mut anew, &mut all, &key, &[round, number]);
        }
        let last = [round, 139];
        all_find(&mut [&mut reader, &mut anew], (&mut all, &charter), "4", &last);
        all_find(&mut [&mut reader, &mut anew], (&mut all, &charter), "b", b"1");
        put_one(&mut anew, &mut all, "b", b"1");
    }
    // It begins at the last index, and not at the first.
    let mut late = user(&charter, 3, None, 41);
    assert_eq!(late.all(&mut all).len(), 10);
    assert!(late.asked.len() < 60, "{} requests", late.asked.len());
    // Nothing that is told has a clock that a host cannot count to.
    assert!(clock_of(&mut late, &mut all, "4") <= LARGEST);
}

#[test]
fn revocation_brings_clocks_back() {
    let charter = shared(&[ALICE]);
    let (mut all, mut owner) = begun(&charter, 3);
    let before = put_one(&mut owner, &mut all, "b", b"1");
    let parts = index(LARGEST - 9, 1, (b'b', before), 1);
    give(&mut all, &charter, &mut alice(&charter), (&parts, &[before]));
    let mut second = user(&charter, 3, Some(OWNER_SEED), 40);
    put_one(&mut second, &mut all, "c", b"2");
    assert!(clock_of(&mut second, &mut all, "c") > LARGEST - 9);
    second
        .run(
            &mut all,
            Command::Capsule(client::Command::Init {
                start: client::Start::Resume,
            }),
        )
        .expect("it begins");
    revoke_alice(&mut second, &mut all);
    for (key, wanted) in [("b", b"1"), ("c", b"2")] {
        all_find(&mut [&mut second], (&mut all, &charter), key, wanted);
    }
    put_one(&mut second, &mut all, "d", b"3");
    let mut reader = user(&charter, 3, None, 9);
    for (key, wanted) in [("b", b"1"), ("c", b"2"), ("d", b"3")] {
        all_find(&mut [&mut second, &mut reader], (&mut all, &charter), key, wanted);
    }
    assert!(clock_of(&mut reader, &mut all, "d") < 100);
}

/// What an index leaves out, or says of a key, counts for nothing against what follows it.
#[test]
fn clock_in_a_tree_brings_no_old_value_back() {
    for leaf_clock in [1, 1000, 1001, u64::MAX] {
        let charter = shared(&[ALICE]);
        let (mut all, mut owner) = begun(&charter, 3);
        let old = put_one(&mut owner, &mut all, "k", b"old");
        let parts = index(1000, 1, (b'k', old), leaf_clock);
        give(&mut all, &charter, &mut alice(&charter), (&parts, &[old]));
        for round in [b"1", b"2"] {
            put_one(&mut owner, &mut all, "k", round);
            all_find(&mut [&mut owner], (&mut all, &charter), "k", round);
            for number in 0..140 {
                put_one(&mut owner, &mut all, &format!("{}", number % 9), b"x");
            }
            all_find(&mut [&mut owner], (&mut all, &charter), "k", round);
        }
        let mut late = user(&charter, 3, None, 41);
        assert_eq!(late.get(&mut all, "k"), Ok(Some(b"2".to_vec())));
        assert!(late.asked.len() < 60, "{} requests", late.asked.len());
    }
}

/// An index on a branch that knows of no newer value says that the old one counts for more: the record that wrote it does not.
#[test]
fn tree_gives_no_operation_a_clock_that_its_record_lacks() {
    for leaf_clock in [1, 900] {
        for is_grown in [false, true] {
            let charter = shared(&[ALICE]);
            let (mut all, mut owner) = begun(&charter, 3);
            let old = put_one(&mut owner, &mut all, "k", b"old");
            put_one(&mut owner, &mut all, "k", b"new");
            let parts = index(1000, 1, (b'k', old), leaf_clock);
            give(&mut all, &charter, &mut alice(&charter), (&parts, &[old]));
            let mut anew = user(&charter, 3, Some(OWNER_SEED), 40);
            if is_grown {
                for number in 0..140 {
                    put_one(&mut anew, &mut all, &format!("{}", number % 9), b"x");
                }
            }
            all_find(&mut [&mut owner, &mut anew], (&mut all, &charter), "k", b"new");
            let mut lister = user(&charter, 3, None, 42);
            let listed = lister.list(&mut all, "k", "l", 9).expect("it is listed");
            assert_eq!(
                listed.entries.iter().filter_map(value).collect::<Vec<_>>(),
                [b"new"]
            );
        }
    }
}

/// Most records that are held beside a tree.
const MOST: usize = 1 << 16;

/// An index beside all others that says the largest clock would have whoever opens the map read all that lies before theirs.
#[test]
fn index_on_a_branch_makes_no_map_too_large() {
    let charter = shared(&[ALICE]);
    let mut all = servers(1);
    let mut owner = writer(&charter, 0, crate::common::owner(), None);
    let mut last = Vec::new();
    for _ in 0..(MOST + 500) / 500 {
        let made: Vec<Written> = (0..500)
            .map(|_| {
                let parts = setting(1, 1, b'k');
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                let made = owner.commit(&parts, &Backpointers::Chain, &[0; 16]);
                made.expect("it is small")
            })
            .collect();
        last = vec![made[499].name];
        let mut operations: Vec<_> = made.iter().map(store).collect();
        operations.push(sign(last[0], owner.sign(&last[0])));
        put(&mut all, &charter, &operations);
    }
    let parts = index(1 << 17, 1, (b'k', last[0]), 1);
    give(&mut all, &charter, &mut owner, (&parts, &[]));
    let mut hers = alice(&charter);
    // One names records that nobody has as older indexes of its own, the other none.
    for covered in [0, 2] {
        let mut parts = index(LARGEST, 0, (b'z', last[0]), 1);
        let at = parts[0].len() - 1;
        parts[0][at] = covered;
        parts[0].extend([[7; 32], [8; 32]].as_flattened()[..usize::from(covered) * 32].iter());
        give(&mut all, &charter, &mut hers, (&parts, &[]));
        let mut reader = user(&charter, 1, None, 9);
        assert_eq!(reader.get(&mut all, "k"), Ok(Some(b"hers".to_vec())), "{covered}");
    }
}
