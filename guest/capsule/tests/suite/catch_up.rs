//! Servers that were away when the capsule was created or its writers changed: a writer tells them, and they count again.

use core::cell::Cell;
use std::rc::Rc;

use crate::common::OWNER_SEED;
use crate::common::authors::{ALICE, content, shared};
use crate::common::net::{Fate, Rule, User, code, config, server_key, servers};
use crate::common::server::{Map, Server};
use selfsame_capsule::client::{Command, Period, Start};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::Charter;
use selfsame_codec::Code;

/// Bytes of a request before its operations, and of the one that asks for epoch records.
const BEFORE: usize = 53 + 5;
/// The operation that stores a capsule.
const CREATE: u8 = 1;

/// Where a response says how many epoch records there are: after its head, and that this was answered.
const TOTAL: core::ops::Range<usize> = 9..13;
/// Where it says how many of them it gives.
const GIVEN: core::ops::Range<usize> = 13..15;

/// A server whose store is this one.
fn server(index: usize, store: Map) -> Server {
    Server::with_key(server_key(index), store)
}

/// Three servers, and the owner whose capsule they have.
fn created() -> (Charter, Vec<Server>, User) {
    let charter = shared();
    let mut all = servers(3);
    let mut owner = User::new(config(&charter, 3, Some(OWNER_SEED), 1));
    assert!(owner.run(&mut all, Command::Create).is_ok());
    (charter, all, owner)
}

fn govern(seed: u8, period: Period) -> Command {
    Command::Govern {
        added: vec![KeyPair::from_seed(&[seed; 32]).public()],
        revoked: Vec::new(),
        readers: Vec::new(),
        period,
    }
}

/// One server of three is gone.
fn without(gone: usize) -> Rule {
    Box::new(move |(server, _), _| match server == gone {
        true => Fate::Failed,
        false => Fate::After(5),
    })
}

#[test]
fn server_that_missed_the_creation_stores_what_is_written() {
    let (charter, mut all, mut owner) = created();
    owner.begin(&mut all);
    assert!(owner.run(&mut all, govern(7, Period::Next)).is_ok());
    all[1] = server(1, Map::new());
    let mut alice = User::new(config(&charter, 3, Some(ALICE), 2));
    alice.rule = without(2);
    let began = alice.now;
    alice.begin(&mut all);
    let name = alice.written(&mut all, content(b"hers"))[0];
    assert!(alice.now - began < 1_000, "it took {} ms", alice.now - began);
    let mut reader = User::new(config(&charter, 3, None, 3));
    reader.rule = without(2);
    assert!(reader.heads(&mut all).contains(&name));
}

#[test]
fn server_that_missed_epochs_stores_what_is_written_in_the_last() {
    let (charter, mut all, mut owner) = created();
    owner.begin(&mut all);
    let before = all[1].store.clone();
    for seed in 7..10 {
        assert!(owner.run(&mut all, govern(seed, Period::Next)).is_ok());
    }
    all[1] = server(1, before);
    let mut again = User::new(config(&charter, 3, Some(OWNER_SEED), 2));
    again.rule = without(2);
    let began = again.now;
    again.begin(&mut all);
    again.written(&mut all, content(b"in the fourth epoch"));
    assert!(again.now - began < 1_000, "it took {} ms", again.now - began);
}

#[test]
fn reader_creates_nothing() {
    let (charter, mut all, mut owner) = created();
    owner.settle(&mut all);
    all[1] = server(1, Map::new());
    let mut reader = User::new(config(&charter, 3, None, 3));
    reader.rule = Box::new(|(_, request), _| {
        assert_ne!(request[BEFORE], CREATE);
        Fate::After(5)
    });
    assert!(reader.fresh(&mut all).is_ok(), "two of three answer");
    reader.settle(&mut all);
}

#[test]
fn writer_that_only_reads_creates_nothing() {
    let (charter, mut all, mut owner) = created();
    owner.settle(&mut all);
    all[1] = server(1, Map::new());
    let mut again = User::new(config(&charter, 3, Some(OWNER_SEED), 2));
    again.rule = Box::new(|(_, request), _| {
        assert_ne!(request[BEFORE], CREATE);
        Fate::After(5)
    });
    assert!(again.fresh(&mut all).is_ok(), "two of three answer");
    again.settle(&mut all);
}

/// An owner who has changed the writers twenty times and begins, with one server of three gone. Of the next one `rule` is given each
/// answer to a small request, in which it says how many epoch records it has, and what becomes of the large ones. Returns how often
/// it was told what it lacks within half a minute.
fn told(rule: impl Fn(&mut [u8]) + 'static, large: fn() -> Fate) -> usize {
    let (charter, mut all, mut owner) = created();
    owner.begin(&mut all);
    for seed in 7..27 {
        assert!(owner.run(&mut all, govern(seed, Period::Next)).is_ok());
    }
    let mut again = User::new(config(&charter, 3, Some(OWNER_SEED), 2));
    let told = Rc::new(Cell::new(0));
    let count = told.clone();
    again.rule = Box::new(move |(server, request), response| match (server, request.len()) {
        (0, _) => Fate::After(5),
        (1, 0..1000) => {
            if response.get(GIVEN) == Some(&[0, 0]) {
                rule(&mut response[TOTAL]);
            }
            Fate::After(5)
        }
        (1, _) => {
            count.set(count.get() + 1);
            large()
        }
        _ => Fate::Failed,
    });
    let (start, began) = (Start::Resume, again.now);
    assert!(again.run(&mut all, Command::Init { start }).is_err());
    assert!(again.now - began >= 25_000, "it tries until its deadline");
    told.get()
}

#[test]
fn server_that_counts_up_and_down_is_told_rarely() {
    let turn = Cell::new(0);
    let see_saw = move |total: &mut [u8]| {
        turn.set(turn.get() ^ 1_u32);
        total.copy_from_slice(&turn.get().to_le_bytes());
    };
    let count = told(see_saw, || Fate::After(5));
    assert!((1..=4).contains(&count), "told {count} times");
}

#[test]
fn server_that_counts_one_more_each_time_is_told_rarely() {
    let turn = Cell::new(0);
    let count = move |total: &mut [u8]| {
        turn.set(turn.get() + 1_u32);
        total.copy_from_slice(&turn.get().min(20).to_le_bytes());
    };
    let count = told(count, || Fate::After(5));
    assert!((1..=4).contains(&count), "told {count} times");
}

#[test]
fn server_that_fails_when_told_is_left_alone_ever_longer() {
    let nothing = |total: &mut [u8]| total.fill(0);
    let count = told(nothing, || Fate::Failed);
    assert!((2..=12).contains(&count), "told {count} times");
}

#[test]
fn server_that_takes_no_such_capsule_is_told_once() {
    let (charter, mut all, _) = created();
    let others = vec![KeyPair::from_seed(&ALICE).public()];
    for (index, one) in all.iter_mut().enumerate().skip(1) {
        *one = server(index, Map::new()).for_owners(others.clone());
    }
    let mut again = User::new(config(&charter, 3, Some(OWNER_SEED), 2));
    let told = Rc::new(Cell::new(0));
    let count = told.clone();
    again.rule = Box::new(move |(_, request), _| {
        count.set(count.get() + usize::from(request[BEFORE] == CREATE));
        Fate::After(5)
    });
    let (start, began) = (Start::Resume, again.now);
    let refused = again.run(&mut all, Command::Init { start });
    assert_eq!(code(refused), Code::NoCapsule);
    assert!(again.now - began < 1_000, "it fails before its deadline");
    assert_eq!(told.get(), 2, "each of the two servers once");
}
