//! Records that were made up in the name of others lock nobody out, convict nobody, and stay vouched for wherever they go.

use crate::common::authors::{ALICE, BOB, FAR, alice, content, pointing, put, seed_of, shared};
use crate::common::dice::Dice;
use crate::common::net::{User, code, config, servers};
use crate::common::server::{Server, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::world::{World, give};
use crate::common::{fabricated, view, writer};
use bytes::Bytes;
use selfsame_capsule::authority::{Authority, sign_record};
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::client::{Command, Content, Reply};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::Operation;
use selfsame_capsule::writer::{Backpointers, Progress, Writer, Written};
use selfsame_codec::{Code, Field};

/// Memory of heads that was written when they could be made up is not believed; nor is one that does not decode.
#[test]
fn memory_of_invented_heads_locks_nobody_out() {
    let charter = shared();
    let mut all = servers(3);
    put(&mut all, &charter, &[]);
    let mut seen = Vec::new();
    0_u32.write(&mut seen);
    1_u16.write(&mut seen);
    seen.extend_from_slice(&[7; 32]);
    2_u16.write(&mut seen);
    u64::MAX.write(&mut seen);
    let key = [&charter.name().0[..], b"h"].concat();
    let store = [(key, Bytes::from(seen))].into_iter().collect();
    let mut his = User::with_store(config(&charter, 3, Some(BOB), 5), store);
    his.begin(&mut all);
    let names = his.written(&mut all, content(b"mine"));
    assert_eq!(his.heads(&mut all), names);
}

#[test]
fn a_writer_without_numbers_is_refused_and_never_wraps() {
    let charter = shared();
    let mut progress = Vec::new();
    (u64::MAX - 1).write(&mut progress);
    progress.push(0);
    let mut encoded = Vec::new();
    Progress::default().encode(&mut encoded);
    progress.extend_from_slice(&encoded[9..]);
    let pen = selfsame_capsule::writer::Pen {
        number: 1,
        key: KeyPair::from_seed(&ALICE),
        epoch: 0,
        seal: None,
    };
    let progress = Progress::decode(&progress).expect("it decodes");
    let mut hers = Writer::new(charter.clone(), pen, progress);
    let two = hers.write_each(
        &[(b"a", [0; 16]), (b"b", [0; 16])],
        &Backpointers::Chain,
        &mut |_, _| {},
    );
    assert_eq!(code(two), Code::TooLarge);
    assert!(hers.write(b"last", &Backpointers::Chain, &[0; 16]).is_ok());
    assert_eq!(
        code(hers.write(b"none", &Backpointers::Chain, &[0; 16])),
        Code::TooLarge
    );
    assert_eq!(
        code(hers.commit(&[b"none"], &Backpointers::Chain, &[0; 16])),
        Code::TooLarge
    );
    assert_eq!(
        code(hers.begin_epoch(Vec::new(), 1, None, Vec::new())),
        Code::TooLarge
    );
}

/// Anti-entropy carries what was made up as what it is.
#[test]
fn invented_records_stay_vouched_for_through_anti_entropy() {
    let charter = shared();
    let mut his = writer(&charter, 2, KeyPair::from_seed(&BOB), None);
    let first = his
        .write(b"first", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let invented = fabricated(&charter, (2, 900), vec![first.name], b"never written");
    let mut hers = alice(&charter);
    let (made, _) = pointing(&mut hers, &[&invented]);
    let mut world = World::created(2, &charter);
    give(&mut world, 0, &charter, &[&first], &[(&his, &first)]);
    give(&mut world, 1, &charter, &[&invented, &made], &[(&hers, &made)]);
    world.converge(0, 1, &charter, "what was made up");
    for index in 0..2 {
        let authorship = |world: &mut World, record: &Written| {
            let proof = world
                .ask(index, &charter, &[Operation::Prove { record: record.name }])
                .remove(0);
            let proof = proof.expect("it is proven");
            let mut nothing = selfsame_capsule::cache::Verified::new(0);
            let authority = Authority::new(charter.metadata());
            selfsame_capsule::proof::Prover::default()
                .verify(
                    charter.hasher(),
                    &authority,
                    &mut nothing,
                    &record.name,
                    &proof[4..],
                )
                .expect("it is a proof")
                .authorship(&view(record))
        };
        assert_eq!(authorship(&mut world, &first), Authorship::SignedBy(2));
        assert_eq!(authorship(&mut world, &invented), Authorship::VouchedForBy(1));
    }
}

/// What a writer wrote is its own, and nothing else that names it.
fn reads_authors(
    reader: &mut User,
    all: &mut [Server],
    (records, genuine): (&[Written], &[(u16, Written)]),
    seed: u64,
) {
    for record in records {
        let Ok(Reply::Records(read)) = reader.run(
            all,
            Command::Read {
                records: vec![record.name],
            },
        ) else {
            panic!("seed {seed}: it reads");
        };
        let Ok(read) = &read[0] else { continue };
        let author = genuine.iter().find(|(_, other)| other.name == record.name);
        if let Some((number, _)) = author {
            assert_eq!(read.authorship, Authorship::SignedBy(*number), "seed {seed}");
        } else if view(record).writer() != 1 {
            assert!(!read.authorship.is_signed(), "seed {seed}");
        }
        assert!(matches!(read.content, Content::Plain(_)));
    }
}

/// Random graphs in which Alice makes up whatever she likes beside what honest writers write and merge.
fn plays(seed: u64) {
    let mut dice = Dice(seed);
    let charter = shared();
    let mut honest =
        [0_u16, 2].map(|number| writer(&charter, number, KeyPair::from_seed(&seed_of(number)), None));
    let mut hers = alice(&charter);
    let (mut genuine, mut invented): (Vec<(u16, Written)>, Vec<Written>) = (Vec::new(), Vec::new());
    let (mut records, mut signatures): (Vec<Written>, Vec<(RecordName, Signature)>) =
        (Vec::new(), Vec::new());
    for _ in 0..30 {
        let some = |dice: &mut Dice, of: &[Written]| -> Vec<RecordName> {
            (0..dice.index(3))
                .filter(|_| !of.is_empty())
                .map(|_| of[dice.index(of.len())].name)
                .collect()
        };
        let others = some(&mut dice, &records);
        let made = match dice.index(3) {
            0 => {
                let by = &mut honest[dice.index(2)];
                let number = by.number();
                // An honest writer points to nothing that names it and that it has not written.
                let names_it = |name: &RecordName| {
                    let made_up = invented.iter().find(|record| record.name == *name);
                    made_up.is_some_and(|record| view(record).writer() == number)
                };
                let own = others.into_iter().filter(|name| !names_it(name)).collect();
                let made = by
                    .write(b"honest", &Backpointers::Own(own), &[0; 16])
                    .expect("it is small");
                signatures.push((made.name, by.sign(&made.name)));
                genuine.push((number, made.clone()));
                made
            }
            1 => {
                let victim = [0, 2][dice.index(2)];
                let sequence = [dice.index(30) as u64, FAR[dice.index(3)]][dice.index(2)];
                let made = fabricated(&charter, (victim, sequence), others, &seed.to_le_bytes());
                invented.push(made.clone());
                made
            }
            _ => {
                let made = hers
                    .write(b"hers", &Backpointers::Own(others), &[0; 16])
                    .expect("it is small");
                signatures.push((made.name, hers.sign(&made.name)));
                made
            }
        };
        records.push(made);
    }
    let mut all = servers(3);
    let mut operations: Vec<Operation<'_>> = records.iter().map(write).collect();
    dice.shuffle(&mut operations);
    operations.extend(signatures.iter().map(|(name, signature)| sign(*name, *signature)));
    put(&mut all, &charter, &operations);
    let mut reader = User::new(config(&charter, 3, None, 2));
    reads_authors(&mut reader, &mut all, (&records, &genuine), seed);
    let heads = reader.fresh(&mut all).expect("a quorum answers");
    let names = |name: &RecordName| invented.iter().any(|record| record.name == *name);
    assert!(
        heads.forks.is_empty() && !heads.heads.iter().any(|head| names(&head.name)),
        "seed {seed}"
    );
}

#[test]
fn no_honest_writer_is_ever_convicted() {
    for seed in 1..=200 {
        plays(seed);
    }
}

#[test]
fn signatures_of_one_writer_are_none_of_another() {
    let charter = shared();
    let invented = fabricated(&charter, (2, 0), Vec::new(), b"");
    let mut world = World::created(1, &charter);
    let forged = sign_record(&KeyPair::from_seed(&ALICE), &invented.name);
    let given = world.ask(0, &charter, &[write(&invented), sign(invented.name, forged)]);
    assert_eq!(given[1], Err(Code::BadSignature));
}
