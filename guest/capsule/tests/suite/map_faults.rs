//! A map at servers that are lost, lie or forget, among records that are none of a map, and when writers come and go.

use crate::common::dice::Dice;
use crate::common::maps::{Model, Using as _, begun, set, shared, text, user, value, write};
use crate::common::net::{Fate, code};
use crate::common::{OWNER_SEED, charter};
use bytes::Bytes;
use selfsame_capsule::client::{self, Period, Signing, Start};
use selfsame_capsule::epoch::Revoked;
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::map::{Command, Reply};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn of_capsule(command: client::Command) -> Command {
    Command::Capsule(command)
}

#[test]
fn with_any_one_server_lost_reads_and_writes_go_on_and_nothing_is_lost() {
    let seeds = [[21; 32]];
    let charter = shared(&seeds);
    let (mut servers, owner) = begun(&charter, 3);
    let mut users = [owner, user(&charter, 3, Some(seeds[0]), 9)];
    let mut model = Model::new();
    for round in 0..60_u32 {
        let lost = (round / 20) as usize;
        let at = (round % 2) as usize;
        users[at].rule = Box::new(move |(server, _), _| match server == lost {
            true if round % 3 == 0 => Fate::Lost,
            true => Fate::Failed,
            false => Fate::After(5),
        });
        let key = format!("key {}", round % 25);
        users[at].put(&mut servers, vec![set(&key, &round.to_le_bytes())]);
        model.insert(key.clone(), round.to_le_bytes().to_vec());
        let found = users[1 - at].get(&mut servers, &key);
        assert_eq!(found, Ok(model.get(&key).cloned()), "round {round}");
    }
    for user in &mut users {
        assert_eq!(user.all(&mut servers), model);
        user.rule = Box::new(|(server, _), _| if server > 0 { Fate::Failed } else { Fate::After(5) });
        assert_eq!(code(user.get(&mut servers, "key 1")), Code::NoQuorum);
    }
    let written = users[0].run(&mut servers, write(vec![set("too few", b"")]));
    assert_eq!(code(written), Code::NoQuorum);
}

#[test]
fn a_server_that_lies_makes_nobody_believe_what_was_never_set() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let mut model = Model::new();
    for round in 0..4_u32 {
        let many: Vec<u32> = (0..400).map(|at| round * 300 + at).collect();
        model.extend(
            many.iter()
                .map(|at| (format!("{at:05}"), round.to_le_bytes().to_vec())),
        );
        let operations = many
            .iter()
            .map(|at| set(&format!("{at:05}"), &round.to_le_bytes()));
        owner.put(&mut servers, operations.collect());
    }
    for seed in 1..=60_u64 {
        let mut dice = Dice(seed * 0x9e37_79b9);
        // One lies, and in every other round all of them.
        let (liars, mut keys) = (if seed % 2 == 0 { 3 } else { 1 }, Dice(seed));
        let mut reader = user(&charter(), 3, None, seed as u8);
        reader.rule = Box::new(move |(server, _), bytes| {
            if server < liars && !bytes.is_empty() && dice.below(3) == 0 {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << dice.below(8);
            }
            Fate::After(5)
        });
        for _ in 0..6 {
            let key = format!("{:05}", keys.below(1400));
            match reader.get(&mut servers, &key) {
                Ok(found) => assert_eq!(found.as_ref(), model.get(&key), "seed {seed}, {key}"),
                Err(refusal) => assert!(liars == 3, "seed {seed}: {refusal}"),
            }
        }
    }
}

/// A record of the owner's that no map's writer would write, after all others.
fn wrote(tree: Vec<Vec<u8>>) -> Command {
    of_capsule(client::Command::Commit {
        subrecords: tree.into_iter().map(Bytes::from).collect(),
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    })
}

#[test]
fn records_that_are_none_of_a_map_and_those_that_break_its_rules_hold_nothing() {
    let (mut servers, mut owner) = begun(&charter(), 2);
    owner.put(&mut servers, vec![set("a", b"1")]);
    let head = |follows: u8, clock: u64, rest: &[u8]| {
        let mut head = b"map\x01\x01".to_vec();
        head.push(follows);
        head.extend(clock.to_le_bytes());
        head.extend(rest);
        head
    };
    let sets = [&[0, 1, 0, 1, 1, 0][..], b"a"].concat();
    let operation = [&[1, 1, 0][..], b"a", &[0], b"forged"].concat();
    for first in [
        b"something else".to_vec(),
        head(1, 0, &sets),
        head(1, u64::MAX, &sets),
        head(1, 9, &[&sets[..], b"more"].concat()),
        head(1, 9, &[0, 1, 0, 3, 1, 0, b'a']),
        head(1, 9, &[0, 1, 0, 1, 0, 0]),
        head(1, 9, &[0, 1, 0, 1, 1, 0, 0xff]),
        head(1, 9, &[0, 0, 0]),
    ] {
        owner
            .run(&mut servers, wrote(vec![first.clone(), operation.clone()]))
            .expect("a capsule takes it");
        let mut reader = user(&charter(), 2, None, 2);
        assert_eq!(
            reader.get(&mut servers, "a"),
            Ok(Some(b"1".to_vec())),
            "{first:?}"
        );
    }
    let plain = client::Command::Write {
        contents: vec!["plain".into()],
        backpointers: Backpointers::Chain,
        signing: Signing::Last,
    };
    owner.run(&mut servers, of_capsule(plain)).expect("it is written");
    owner.put(&mut servers, vec![set("b", b"2")]);
    let mut reader = user(&charter(), 2, None, 2);
    assert_eq!(reader.all(&mut servers).len(), 2);
    // A head that says of another key what its operation does not hold.
    let sets = [&[0, 1, 0, 1, 1, 0][..], b"c"].concat();
    owner
        .run(&mut servers, wrote(vec![head(1, 99, &sets), operation]))
        .expect("a capsule takes it");
    assert_eq!(code(reader.get(&mut servers, "c")), Code::BadRecord);
    assert_eq!(reader.get(&mut servers, "a"), Ok(Some(b"1".to_vec())));
}

/// The leaf of a tree that says where the operation on each key is.
fn leaf((record, clock): (RecordName, u64), entries: &[(u8, u32)]) -> Vec<u8> {
    let mut leaf = vec![0, entries.len() as u8, 0];
    for (key, index) in entries {
        leaf.extend([1, 0, *key, 1]);
        leaf.extend(clock.to_le_bytes());
        leaf.extend(record.0);
        leaf.extend(index.to_le_bytes());
    }
    leaf
}

#[test]
fn a_tree_cannot_invent_what_nobody_has_written() {
    type Found = Result<bool, Code>;
    type Case<'a> = (u8, &'a [(u8, u32)], Found, Found);
    let cases: [Case<'_>; 6] = [
        (0, &[(b'a', 1), (b'b', 2)], Ok(true), Ok(true)),
        (0, &[(b'a', 2), (b'b', 2)], Err(Code::BadRecord), Ok(true)),
        (
            0,
            &[(b'a', 0), (b'b', 9)],
            Err(Code::BadRecord),
            Err(Code::NoRecord),
        ),
        // What is no tree takes nothing away.
        (0, &[(b'b', 2), (b'a', 1)], Ok(true), Ok(true)),
        (1, &[(b'a', 1)], Ok(true), Ok(true)),
        (0, &[(b'b', 2)], Ok(false), Ok(true)),
    ];
    for (height, entries, a, b) in cases {
        let (mut servers, mut owner) = begun(&charter(), 1);
        let written = owner.run(&mut servers, write(vec![set("a", b"1"), set("b", b"2")]));
        let Ok(Reply::Written(record)) = written else {
            panic!("{written:?}");
        };
        let mut head = b"map\x01\x03\x01".to_vec();
        head.extend(50_u64.to_le_bytes());
        head.extend([2, 1, 0, 0, 0, height, 0]);
        let index = wrote(vec![head, leaf((record, 1), entries)]);
        owner.run(&mut servers, index).expect("a capsule takes it");
        let mut reader = user(&charter(), 1, None, 2);
        for (key, wanted) in [("a", a), ("b", b)] {
            let found = reader.get(&mut servers, key);
            let found = found.map(|value| value.is_some());
            let found = found.map_err(|refusal| refusal.code);
            assert_eq!(found, wanted, "{key} of {entries:?}");
        }
    }
}

#[test]
fn a_node_with_keys_beyond_its_place_makes_a_tree_none() {
    for (key, is_tree) in [(b'c', true), (b'z', false)] {
        let (mut servers, mut owner) = begun(&charter(), 1);
        let written = owner.run(&mut servers, write(vec![set("a", b"1"), set("m", b"2")]));
        let Ok(Reply::Written(record)) = written else {
            panic!("{written:?}");
        };
        let mut head = b"map\x01\x03\x01".to_vec();
        head.extend(50_u64.to_le_bytes());
        head.extend([2, 1, 0, 0, 0, 1, 0]);
        let inner = [1, 2, 0, 1, 0, b'a', 2, 2, 0, 0, 0, 1, 0, b'm', 2, 3, 0, 0, 0];
        let leaves = [
            leaf((record, 1), &[(b'a', 1), (key, 2)]),
            leaf((record, 1), &[(b'm', 2)]),
        ];
        let index = [vec![head, inner.to_vec()], leaves.to_vec()].concat();
        owner.run(&mut servers, wrote(index)).expect("a capsule takes it");
        let mut reader = user(&charter(), 1, None, 2);
        assert_eq!(reader.get(&mut servers, "a"), Ok(Some(b"1".to_vec())));
        // What only the tree says.
        let found = reader.get(&mut servers, core::str::from_utf8(&[key]).expect("a letter"));
        assert_eq!(found.is_err(), is_tree, "it names an operation on another key");
    }
}

/// A branch of so many records beside an index, the last of which sets a key that an earlier record before the index has set.
#[test]
fn what_was_set_at_once_with_an_index_counts_only_if_the_tree_holds_nothing_newer() {
    let seed = [21; 32];
    for (count, counts) in [(2, "tree"), (9, "late")] {
        let charter = shared(&[seed]);
        let (mut servers, mut owner) = begun(&charter, 1);
        for _ in 0..4 {
            owner.put(&mut servers, vec![set("c", b"before")]);
        }
        let written = owner.run(&mut servers, write(vec![set("a", b"tree"), set("b", b"tree")]));
        let Ok(Reply::Written(record)) = written else {
            panic!("{written:?}");
        };
        let mut head = b"map\x01\x03\x01".to_vec();
        head.extend(50_u64.to_le_bytes());
        head.extend([2, 1, 0, 0, 0, 0, 0]);
        let index = wrote(vec![head, leaf((record, 5), &[(b'a', 1), (b'b', 2)])]);
        owner.run(&mut servers, index).expect("a capsule takes it");
        let mut late = user(&charter, 1, Some(seed), 9);
        let start = Start::Resume;
        late.run(&mut servers, of_capsule(client::Command::Init { start }))
            .expect("it begins");
        for number in 0..count {
            let mut head = b"map\x01\x01".to_vec();
            head.push(u8::from(number > 0));
            head.extend(u64::to_le_bytes(number + 1));
            head.extend([0, 1, 0, 1, 1, 0, b'a']);
            let operation = [&[1, 1, 0, b'a', 0], &b"late"[..]].concat();
            late.run(&mut servers, wrote(vec![head, operation]))
                .expect("a capsule takes it");
        }
        let mut reader = user(&charter, 1, None, 2);
        assert_eq!(reader.get(&mut servers, "a"), Ok(Some(counts.into())), "{count}");
        assert_eq!(reader.get(&mut servers, "b"), Ok(Some(b"tree".to_vec())));
    }
}

#[test]
fn what_a_revoked_writer_set_counts_as_far_as_it_was_accepted() {
    let seed = [21; 32];
    let (mut servers, mut owner) = begun(&charter(), 2);
    owner.put(&mut servers, vec![set("k", b"owner")]);
    let govern = |added: Vec<_>, revoked, period| {
        of_capsule(client::Command::Govern {
            added,
            revoked,
            readers: Vec::new(),
            period,
        })
    };
    let joins = vec![KeyPair::from_seed(&seed).public()];
    owner
        .run(&mut servers, govern(joins, Vec::new(), Period::Same))
        .expect("it joins");
    let mut writer = user(&charter(), 2, Some(seed), 9);
    let accepted = writer.run(&mut servers, write(vec![set("k", b"accepted")]));
    let Ok(Reply::Written(accepted)) = accepted else {
        panic!("{accepted:?}");
    };
    let mut reader = user(&charter(), 2, None, 3);
    writer.put(&mut servers, vec![set("k", b"refused"), set("l", b"refused")]);
    assert_eq!(reader.get(&mut servers, "k"), Ok(Some(b"refused".to_vec())));
    let revoked = Revoked {
        number: 1,
        heads: vec![accepted],
    };
    owner
        .run(&mut servers, govern(Vec::new(), vec![revoked], Period::Next))
        .expect("it leaves");
    for reader in [&mut owner, &mut reader, &mut user(&charter(), 2, None, 4)] {
        assert_eq!(reader.get(&mut servers, "k"), Ok(Some(b"accepted".to_vec())));
        assert_eq!(reader.get(&mut servers, "l"), Ok(None));
    }
    let late = code(writer.run(&mut servers, write(vec![set("k", b"late")])));
    assert!(matches!(late, Code::RevokedWriter | Code::NotAWriter), "{late}");
    owner.put(&mut servers, vec![set("k", b"after")]);
    assert_eq!(reader.get(&mut servers, "k"), Ok(Some(b"after".to_vec())));
    let was = reader.history(&mut servers, "k", None, 9);
    let was: Vec<_> = was.entries.iter().filter_map(value).collect();
    assert_eq!(was, [b"after".to_vec(), b"accepted".to_vec(), b"owner".to_vec()]);
}

/// One key, two machines: they use the same sequence numbers, and all readers still see one map.
#[test]
fn a_fork_of_one_writer_is_the_same_map_for_all() {
    let (mut servers, mut owner) = begun(&charter(), 2);
    owner.put(&mut servers, vec![set("a", b"1")]);
    let mut twins = [5, 5].map(|entropy| user(&charter(), 2, Some(OWNER_SEED), entropy));
    for twin in &mut twins {
        // Both have begun before either writes.
        twin.get(&mut servers, "a").expect("it is read");
        let start = Start::Resume;
        let begins = client::Command::Init { start };
        twin.run(&mut servers, of_capsule(begins)).expect("it begins");
    }
    for (twin, by) in twins.iter_mut().zip(["one", "two"]) {
        twin.give(write(vec![set("a", by.as_bytes()), set(by, b"")]));
    }
    for _ in 0..40 {
        for twin in &mut twins {
            twin.advance(&mut servers, 1);
        }
    }
    let maps: Vec<Model> = (0..3)
        .map(|at| user(&charter(), 2, None, 50 + at).all(&mut servers))
        .collect();
    assert_eq!(maps[0], maps[1]);
    assert_eq!(maps[0], maps[2]);
    assert!(maps[0].contains_key("one") || maps[0].contains_key("two"));
    for twin in &mut twins {
        assert_eq!(twin.all(&mut servers), maps[0]);
    }
    owner.put(&mut servers, vec![set("b", b"merged")]);
    let page = owner.list(&mut servers, "b", "", 9).expect("it is listed");
    assert_eq!(page.entries.first().map(text), Some("b".into()));
}
