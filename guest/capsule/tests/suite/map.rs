//! A map in a capsule: several writers set, delete and list, and whoever reads it sees what a sorted map would hold.

use crate::common::dice::Dice;
use crate::common::maps::{Model, Using as _, begun, delete, entries, set, shared, text, user, value, write};
use crate::common::net::{MapUser, code, config};
use crate::common::{OWNER_SEED, charter, charter_of};
use selfsame_capsule::client::{self, Signing};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::map::{Command, MAX_KEY_BYTES, MAX_VALUE_BYTES, Operation, Range, Reply};
use selfsame_capsule::metadata::Readers;
use selfsame_codec::Code;

/// Some operations on few keys, so that they meet.
fn operations(dice: &mut Dice, model: &mut Model) -> Vec<Operation> {
    let operations = (0..=dice.below(6)).map(|_| {
        let key = format!("key {}", dice.below(90));
        if dice.below(4) == 0 {
            return delete(&key);
        }
        let len = dice.below(40) as usize;
        set(&key, &vec![dice.below(256) as u8; len])
    });
    let operations: Vec<Operation> = operations.collect();
    for Operation { key, value } in operations.clone() {
        let key = String::from_utf8(key).expect("keys are UTF-8");
        match value {
            Some(value) => _ = model.insert(key, value),
            None => _ = model.remove(&key),
        }
    }
    operations
}

#[test]
fn what_is_set_is_read_listed_and_deleted() {
    for charter in [
        charter(),
        charter_of(HashKind::Sha256, Readers::Granted, Vec::new()),
    ] {
        let (mut servers, mut owner) = begun(&charter, 3);
        assert_eq!(owner.get(&mut servers, "a"), Ok(None));
        owner.put(&mut servers, vec![set("a", b"1"), set("b", b"2"), set("c", b"")]);
        owner.put(&mut servers, vec![set("b", b"3"), delete("c"), set("d", b"4")]);
        // With nothing but what the servers have.
        let mut reader = user(&charter, 3, Some(OWNER_SEED), 2);
        for user in [&mut owner, &mut reader] {
            assert_eq!(user.get(&mut servers, "a"), Ok(Some(b"1".to_vec())));
            assert_eq!(user.get(&mut servers, "b"), Ok(Some(b"3".to_vec())));
            assert_eq!(user.get(&mut servers, "c"), Ok(None));
            assert_eq!(user.get(&mut servers, "e"), Ok(None));
            let page = user.list(&mut servers, "b", "d", 9).expect("it is listed");
            assert_eq!(page.entries.iter().map(text).collect::<Vec<_>>(), ["b"]);
            let page = user.list(&mut servers, "", "", 2).expect("it is listed");
            assert_eq!(page.entries.iter().map(text).collect::<Vec<_>>(), ["a", "b"]);
            assert!(page.more);
        }
    }
}

#[test]
fn what_cannot_be_a_key_a_value_or_a_write_is_refused_and_leaves_nothing() {
    let (mut servers, mut owner) = begun(&charter(), 1);
    let long = vec![7; MAX_VALUE_BYTES];
    let key = "k".repeat(MAX_KEY_BYTES);
    for (operations, wanted) in [
        (vec![], Code::TooLarge),
        (vec![set("", b"x")], Code::BadInput),
        (vec![set(&"k".repeat(MAX_KEY_BYTES + 1), b"x")], Code::BadInput),
        (
            vec![
                set("a", b"x"),
                Operation {
                    key: vec![0xff],
                    value: None,
                },
            ],
            Code::BadInput,
        ),
        (vec![set("a", &vec![0; MAX_VALUE_BYTES + 1])], Code::TooLarge),
        (vec![set("a", &long), set("b", &long)], Code::TooLarge),
        (vec![delete("a"); 1025], Code::TooLarge),
    ] {
        assert_eq!(code(owner.run(&mut servers, write(operations))), wanted);
    }
    assert_eq!(owner.all(&mut servers), Model::new());
    owner.put(&mut servers, vec![set(&key, &long)]);
    assert_eq!(owner.get(&mut servers, &key), Ok(Some(long)));
    let mut reader = user(&charter(), 1, None, 2);
    assert_eq!(
        code(reader.run(&mut servers, write(vec![delete("a")]))),
        Code::NotAWriter
    );
}

#[test]
fn several_writers_set_what_one_map_would_hold() {
    for seed in 1..=4_u64 {
        let seeds = [[21; 32], [22; 32]];
        let charter = shared(&seeds);
        let (mut servers, owner) = begun(&charter, 3);
        let mut users = vec![owner];
        users.extend(seeds.map(|seed| user(&charter, 3, Some(seed), seed[0])));
        let mut dice = Dice(seed * 0x9e37_79b9);
        let mut model = Model::new();
        for round in 0..220 {
            let at = dice.below(3) as usize;
            let operations = operations(&mut dice, &mut model);
            users[at].put(&mut servers, operations);
            if dice.below(12) == 0 {
                // It is started anew with what it stored.
                let store = core::mem::take(&mut users[at].store);
                let seed = [OWNER_SEED, seeds[0], seeds[1]][at];
                users[at] = MapUser::with_store(config(&charter, 3, Some(seed), round as u8), store);
            }
            if dice.below(8) == 0 {
                let key = format!("key {}", dice.below(90));
                let reader = dice.below(3) as usize;
                let found = users[reader].get(&mut servers, &key);
                assert_eq!(
                    found,
                    Ok(model.get(&key).cloned()),
                    "seed {seed}, round {round}, {key}"
                );
            }
        }
        for user in &mut users {
            assert_eq!(user.all(&mut servers), model, "seed {seed}");
        }
        let mut reader = user(&charter, 3, None, 77);
        assert_eq!(reader.all(&mut servers), model, "seed {seed}");
    }
}

#[test]
fn writers_at_the_same_time_end_with_the_same_map_whoever_reads_it_and_from_where() {
    for seed in 1..=6_u64 {
        let seeds = [[21; 32], [22; 32]];
        let charter = shared(&seeds);
        let (mut servers, owner) = begun(&charter, 3);
        let mut users = vec![owner];
        users.extend(seeds.map(|seed| user(&charter, 3, Some(seed), seed[0])));
        let mut watcher = user(&charter, 3, None, 50);
        let mut dice = Dice(seed * 0x51ed_270b);
        for _ in 0..90 {
            for user in &mut users {
                let operations = operations(&mut dice, &mut Model::new());
                user.give(write(operations));
            }
            // None of them waits for the others.
            for _ in 0..20 {
                let at = dice.below(3) as usize;
                let steps = dice.below(8);
                users[at].advance(&mut servers, steps);
            }
            if dice.below(5) == 0 {
                watcher.get(&mut servers, "key 1").expect("it is read");
            }
        }
        for user in &mut users {
            user.finish(&mut servers);
            assert!(
                user.replies
                    .values()
                    .all(|reply| matches!(reply, Ok(Reply::Written(_))))
            );
        }
        let model = watcher.all(&mut servers);
        assert!(model.len() > 20);
        for user in &mut users {
            assert_eq!(user.all(&mut servers), model, "seed {seed}");
        }
        for entropy in 60..63 {
            let mut reader = user(&charter, 3, None, entropy);
            assert_eq!(reader.all(&mut servers), model, "seed {seed}");
        }
    }
}

#[test]
fn a_large_map_is_opened_without_its_past_and_each_key_is_a_few_reads() {
    let (mut servers, mut owner) = begun(&charter(), 1);
    let mut model = Model::new();
    let name = |number: u64| format!("key {:08x}", number.wrapping_mul(0x9e37_79b9) as u32);
    for round in 0..12_u64 {
        let keys = (0..900).map(|at| name(round * 700 + at));
        let operations: Vec<Operation> = keys.map(|key| set(&key, &round.to_le_bytes())).collect();
        model.extend((0..900).map(|at| (name(round * 700 + at), round.to_le_bytes().to_vec())));
        owner.put(&mut servers, operations);
    }
    for round in 0..300_u64 {
        owner.put(
            &mut servers,
            vec![set(&name(round * 31), b"late"), delete(&name(round * 31 + 1))],
        );
        model.insert(name(round * 31), b"late".to_vec());
        model.remove(&name(round * 31 + 1));
    }
    let mut reader = user(&charter(), 1, None, 2);
    assert_eq!(reader.get(&mut servers, &name(31)), Ok(Some(b"late".to_vec())));
    assert!(
        reader.bytes < 150_000,
        "{} bytes of more than a million",
        reader.bytes
    );
    let before = reader.asked.len();
    for number in 4000..4020 {
        let key = name(number);
        assert_eq!(reader.get(&mut servers, &key), Ok(model.get(&key).cloned()));
    }
    assert!(
        reader.asked.len() - before <= 20 * 4,
        "{} requests",
        reader.asked.len() - before
    );
    assert_eq!(reader.all(&mut servers), model);
    assert_eq!(owner.all(&mut servers), model);
}

#[test]
fn the_history_of_a_key_is_told_across_indexes_and_branches() {
    let seeds = [[21; 32]];
    let charter = shared(&seeds);
    let (mut servers, owner) = begun(&charter, 2);
    let mut users = [owner, user(&charter, 2, Some(seeds[0]), 9)];
    let mut was = Vec::new();
    for round in 0..40_u32 {
        let at = (round % 3 == 0) as usize;
        let operation = if round % 7 == 3 {
            delete("k")
        } else {
            set("k", &round.to_le_bytes())
        };
        was.push(operation.value.clone());
        users[at].put(&mut servers, vec![operation]);
        // So that an index comes now and then.
        let others = (0..150).map(|number| set(&format!("other {}", number + 70 * round), b""));
        users[at].put(&mut servers, others.collect());
    }
    was.reverse();
    let mut reader = user(&charter, 2, None, 3);
    let all = reader.history(&mut servers, "k", None, 1000);
    assert!(!all.more);
    assert_eq!(all.entries.iter().map(value).collect::<Vec<_>>(), was);
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = reader.history(&mut servers, "k", before, 7);
        before = page.entries.last().map(|entry| entry.place);
        paged.extend(page.entries);
        if !page.more {
            break;
        }
    }
    assert_eq!(paged, all.entries);
    assert_eq!(reader.history(&mut servers, "never", None, 9).entries, []);
    // Several on one key in one record.
    users[0].put(&mut servers, vec![set("k", b"1"), delete("k"), set("k", b"2")]);
    let last = reader.history(&mut servers, "k", None, 3);
    let last: Vec<_> = last.entries.iter().map(value).collect();
    assert_eq!(last, [Some(b"2".to_vec()), None, Some(b"1".to_vec())]);
}

#[test]
fn what_is_signed_late_is_seen_by_others_then_and_is_not_lost_when_the_writer_stops() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let late = |key: &str, value: &[u8]| Command::Write {
        operations: vec![set(key, value)],
        signing: Signing::Later,
    };
    let mut reader = user(&charter(), 3, None, 2);
    for number in 0..5_u8 {
        owner
            .run(&mut servers, late(&format!("k{number}"), &[number]))
            .expect("written");
    }
    assert_eq!(reader.get(&mut servers, "k0"), Ok(None));
    let signed = owner.run(&mut servers, Command::Capsule(client::Command::Sign));
    assert_eq!(signed, Ok(Reply::Capsule(client::Reply::Done)));
    assert_eq!(reader.get(&mut servers, "k4"), Ok(Some(vec![4])));
    // Who reads what it has not signed signs it.
    owner.run(&mut servers, late("k5", &[5])).expect("written");
    assert_eq!(reader.get(&mut servers, "k5"), Ok(None));
    assert_eq!(owner.get(&mut servers, "k5"), Ok(Some(vec![5])));
    assert_eq!(reader.get(&mut servers, "k5"), Ok(Some(vec![5])));
    owner.run(&mut servers, late("k6", &[6])).expect("written");
    let store = core::mem::take(&mut owner.store);
    let mut again = MapUser::with_store(config(&charter(), 3, Some(OWNER_SEED), 40), store);
    again.put(&mut servers, vec![set("k7", &[7])]);
    let all: Vec<String> = reader.all(&mut servers).into_keys().collect();
    assert_eq!(all, ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"]);
}

fn changes(start: &str, end: &str, since: Option<u64>) -> Command {
    let range = Range {
        start: start.into(),
        end: end.into(),
    };
    Command::Changes {
        range,
        since,
        every_ms: 100,
    }
}

#[test]
fn who_waits_for_changes_hears_of_those_it_wants_also_of_others_deletions() {
    let seeds = [[21; 32]];
    let charter = shared(&seeds);
    let (mut servers, mut owner) = begun(&charter, 2);
    let mut other = user(&charter, 2, Some(seeds[0]), 9);
    owner.put(&mut servers, vec![set("b1", b"0"), set("b2", b"0")]);
    let begun = entries(other.run(&mut servers, changes("b", "c", None))).expect("it begins");
    assert_eq!((begun.entries.len(), begun.more), (0, false));
    let waiting = other.give(changes("b", "c", Some(begun.version)));
    other.advance(&mut servers, 60);
    assert!(!other.replies.contains_key(&waiting), "nothing has changed");
    owner.put(
        &mut servers,
        vec![set("a", b"1"), set("b1", b"1"), delete("b2"), set("c", b"1")],
    );
    other.finish(&mut servers);
    let reply = other.replies.remove(&waiting).expect("it is answered");
    let changed = entries(reply).expect("it has changed");
    let pairs: Vec<_> = changed
        .entries
        .iter()
        .map(|entry| (text(entry), value(entry)))
        .collect();
    assert_eq!(pairs, [("b1".into(), Some(b"1".to_vec())), ("b2".into(), None)]);
    // What it writes itself too, at once.
    let waiting = other.give(changes("b", "c", Some(changed.version)));
    other.put(&mut servers, vec![set("b3", b"own")]);
    let changed = entries(other.replies.remove(&waiting).expect("it is answered")).expect("changed");
    assert_eq!(changed.entries.iter().map(text).collect::<Vec<_>>(), ["b3"]);
    let waiting = other.give(changes("b", "c", Some(changed.version)));
    let cancelled = other.run(&mut servers, Command::Cancel { command: waiting });
    assert_eq!(cancelled, Ok(Reply::Done));
    assert_eq!(
        code(other.replies.remove(&waiting).expect("it is answered")),
        Code::Cancelled
    );
    // Who was away for long is told that it has missed something.
    let old = changed.version;
    for round in 0..6 {
        let many = (0..1000).map(|at| set(&format!("b {round} {at}"), b""));
        owner.put(&mut servers, many.collect());
    }
    let missed = entries(other.run(&mut servers, changes("b", "c", Some(old)))).expect("it is told");
    assert!(missed.more && missed.entries.is_empty() && missed.version > old);
}
