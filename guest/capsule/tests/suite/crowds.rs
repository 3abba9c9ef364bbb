//! One writer's heads, however many, in the way of others.

use crate::common::authors::{BOB, alice, content, put, shared};
use crate::common::net::{User, config, servers};
use crate::common::server::{Client, Server, sign, write};
use crate::common::{OWNER_SEED, fabricated, view};
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::client::{Command, Heads};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{MAX_HEADS, Operation};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::writer::Written;
use selfsame_codec::Code;

/// Servers with two records of the owner, who goes on.
fn begun(charter: &Charter) -> (Vec<Server>, User, RecordName) {
    let mut all = servers(3);
    let mut owner = User::new(config(charter, 3, Some(OWNER_SEED), 1));
    assert!(owner.run(&mut all, Command::Create).is_ok());
    owner.begin(&mut all);
    owner.written(&mut all, content(b"first"));
    let newest = owner.written(&mut all, content(b"second"))[0];
    (all, owner, newest)
}

/// Records of Alice's that nothing points to, whose names come before another one's.
fn heads_before(charter: &Charter, count: usize, name: Option<RecordName>) -> Vec<(Written, Signature)> {
    let hers = alice(charter);
    let mut made = (0_u64..).map(|number| {
        let made = fabricated(charter, (1, number), Vec::new(), b"");
        let signature = hers.sign(&made.name);
        (made, signature)
    });
    let mut found = Vec::new();
    while found.len() < count {
        found.extend(
            made.next()
                .filter(|(made, _)| name.is_none_or(|name| made.name < name)),
        );
    }
    found
}

fn give(all: &mut [Server], charter: &Charter, records: &[(Written, Signature)]) {
    for some in records.chunks(1000) {
        let operations = some
            .iter()
            .flat_map(|(made, signature)| [write(made), sign(made.name, *signature)]);
        put(all, charter, &operations.collect::<Vec<Operation<'_>>>());
    }
}

fn names(heads: &Heads) -> Vec<RecordName> {
    heads.heads.iter().map(|head| head.name).collect()
}

/// Names are ground before they are signed, so their order is their writer's choice.
#[test]
fn heads_of_one_writer_hide_no_other() {
    let charter = shared();
    let (mut all, mut owner, newest) = begun(&charter);
    let crowd = heads_before(&charter, MAX_HEADS + 200, Some(newest));
    give(&mut all, &charter, &crowd);
    let mut reader = User::new(config(&charter, 3, None, 5));
    let heads = reader.fresh(&mut all).expect("a quorum answers");
    assert_eq!(heads.heads.len(), MAX_HEADS);
    assert!(names(&heads).contains(&newest));
    // Of hers the newest are named.
    let oldest = heads.heads.iter().filter(|head| head.header.writer == 1);
    let oldest = oldest.map(|head| head.header.sequence).min();
    let sequence = |index: usize| view(&crowd[index].0).sequence();
    assert_eq!(oldest, Some(sequence(crowd.len() + 1 - MAX_HEADS)));
    // What the owner writes next is seen, also by whoever has seen the crowd.
    let third = owner.written(&mut all, content(b"third"))[0];
    let heads = reader.fresh(&mut all).expect("a quorum answers");
    assert!(names(&heads).contains(&third));
}

/// A reader that has seen more heads than it remembers still knows the newest of each writer.
#[test]
fn reader_remembers_newest_head_of_each_writer() {
    let charter = shared();
    let (mut all, _, newest) = begun(&charter);
    let mut reader = User::new(config(&charter, 3, None, 5));
    give(
        &mut all,
        &charter,
        &heads_before(&charter, MAX_HEADS + 1, Some(newest)),
    );
    reader.fresh(&mut all).expect("a quorum answers");
    let key = [&charter.name().0[..], b"s"].concat();
    let seen = reader.store.get(&key).expect("it is kept");
    assert!(seen.windows(32).any(|name| name == newest.0));
}

/// Most heads of a capsule among which any writer may add one.
const SHARED_HEADS: usize = 1 << 14;

/// One writer takes all places and makes the owner's record no head: the owner goes on, and she may not.
#[test]
fn heads_of_one_writer_keep_nobody_from_writing() {
    let charter = shared();
    let (mut all, mut owner, newest) = begun(&charter);
    let mut crowd = heads_before(&charter, SHARED_HEADS - 1, None);
    let over = fabricated(&charter, (1, u64::MAX >> 1), vec![newest], b"");
    let signature = alice(&charter).sign(&over.name);
    crowd.push((over, signature));
    give(&mut all, &charter, &crowd);
    // From where it has written: branches of its own.
    let mut own = Vec::new();
    for text in [b"third" as &[u8], b"fourth", b"fifth"] {
        own.push(owner.written(&mut all, content(text))[0]);
    }
    let mut reader = User::new(config(&charter, 3, None, 5));
    assert!(names(&reader.fresh(&mut all).expect("a quorum answers")).contains(&own[2]));
    let outcomes = |records: &[(Written, Signature)], server: &mut Server| {
        let mut sender = Client::of(&charter);
        sender.writer = None;
        let signs = records.iter().map(|(made, signature)| {
            let given = sender.ask(server, &[write(made), sign(made.name, *signature)]);
            given[1].clone().map(|_| ())
        });
        signs.collect::<Vec<_>>()
    };
    let mut server = Server::new(core::mem::take(&mut all[0].store));
    let hers = fabricated(&charter, (1, 1 << 40), Vec::new(), b"");
    let signature = alice(&charter).sign(&hers.name);
    assert_eq!(outcomes(&[(hers, signature)], &mut server), [Err(Code::TooLarge)]);
    // Whoever has few may branch a little, also when it is opened again.
    let bob = KeyPair::from_seed(&BOB);
    let branches: Vec<(Written, Signature)> = (0..17)
        .map(|sequence| {
            let made = fabricated(&charter, (2, sequence), Vec::new(), b"");
            let signature = sign_record(&bob, &made.name);
            (made, signature)
        })
        .collect();
    let (first, rest) = branches.split_at(10);
    assert_eq!(outcomes(first, &mut server), [Ok(()); 10]);
    let mut server = Server::new(server.store);
    let mut expected = [Ok(()); 7];
    expected[6] = Err(Code::TooLarge);
    assert_eq!(outcomes(rest, &mut server), expected);
}
