//! A signature is its signer's word on the signer's own records alone: nobody speaks for another writer, takes its sequence numbers
//! away or has it convicted.

mod common;

use bytes::Bytes;
use common::dice::Dice;
use common::net::{Fate, Rule, START, User, code, config, server_key, servers};
use common::server::{Server, sign, write};
use common::world::{World, give};
use common::{OWNER_SEED, charter_of, fabricated, proof_of, view, writer};
use selfsame_capsule::authority::{Authority, Evidence, Fork, sign_record};
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::client::{Command, Content, Period, Reply, Signing, Start};
use selfsame_capsule::epoch::Revoked;
use selfsame_capsule::file::ProofFile;
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Envelope, Fresh, Operation};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::proof::Anchor;
use selfsame_capsule::writer::{Backpointers, Progress, Writer, Written};
use selfsame_codec::{Code, Field};

const ALICE: [u8; 32] = [51; 32];
const BOB: [u8; 32] = [52; 32];
/// Sequences that once locked a writer out when others made them up.
const FAR: [u64; 3] = [1 << 40, u64::MAX - 1, u64::MAX];

/// A capsule of its owner, Alice, who is writer 1, and Bob, who is writer 2.
fn shared() -> Charter {
    let keys = [ALICE, BOB].map(|seed| KeyPair::from_seed(&seed).public());
    charter_of(HashKind::Blake3, Readers::Everybody, keys.to_vec())
}

fn alice(charter: &Charter) -> Writer {
    writer(charter, 1, KeyPair::from_seed(&ALICE), None)
}

fn seed_of(writer: u16) -> [u8; 32] {
    [OWNER_SEED, ALICE, BOB][usize::from(writer)]
}

/// A record of a writer's that points to others.
fn pointing(by: &mut Writer, to: &[&Written]) -> (Written, Signature) {
    let names = to.iter().map(|record| record.name).collect();
    let made = by.write(b"mine", &Backpointers::Own(names), &[0; 16]);
    let made = made.expect("it is small");
    let signature = by.sign(&made.name);
    (made, signature)
}

/// Gives servers operations, and the capsule before.
fn put(servers: &mut [Server], charter: &Charter, operations: &[Operation<'_>]) {
    for server in servers {
        let mut message = Vec::new();
        Envelope {
            capsule: charter.name(),
            session: [0; 16],
            verified: 0,
        }
        .write(&mut message);
        let metadata = charter.encoded();
        Operation::Create { metadata }.write(&mut message);
        operations
            .iter()
            .for_each(|operation| operation.write(&mut message));
        assert_eq!(server.respond(message)[..3], [1, 0, 0]);
    }
}

fn content(text: &'static [u8]) -> Command {
    Command::Write {
        contents: vec![Bytes::from_static(text)],
        backpointers: Backpointers::Chain,
        signing: Signing::Last,
    }
}

fn fork_of(path: &[&Written], pair: [&Written; 2], signature: Signature) -> Fork {
    let evidence = |record: &Written| {
        let mut headers: Vec<&[u8]> = path.iter().map(|record| record.header.as_slice()).collect();
        headers.push(&record.header);
        Evidence {
            header: record.header.clone(),
            proof: proof_of(&Anchor::Signed(signature), &headers),
        }
    };
    Fork {
        one: evidence(pair[0]),
        other: evidence(pair[1]),
    }
}

/// What a reader is told of records.
fn authorships(user: &mut User, servers: &mut [Server], records: &[RecordName]) -> Vec<Authorship> {
    let records = records.to_vec();
    match user.run(servers, Command::Read { records }) {
        Ok(Reply::Records(records)) => records
            .into_iter()
            .map(|record| record.expect("it is proven").authorship)
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_writer_cannot_frame_another_with_fork_evidence() {
    let charter = shared();
    let authority = Authority::new(charter.metadata());
    for victim in [2, 0] {
        let mut hers = alice(&charter);
        let one = fabricated(&charter, (victim, 7), Vec::new(), b"pay alice");
        let other = fabricated(&charter, (victim, 7), Vec::new(), b"pay bob");
        let between = fabricated(&charter, (victim, 9), vec![one.name, other.name], b"");
        let (direct, first) = pointing(&mut hers, &[&one, &other]);
        let (indirect, second) = pointing(&mut hers, &[&between]);
        for (path, signature) in [(vec![&direct], first), (vec![&indirect, &between], second)] {
            let fork = fork_of(&path, [&one, &other], signature);
            assert_eq!(code(fork.verify(charter.hasher(), &authority)), Code::BadFork);
        }
        let mut all = servers(3);
        put(
            &mut all,
            &charter,
            &[&one, &other, &direct].map(|record| write(record)),
        );
        put(&mut all, &charter, &[sign(direct.name, first)]);
        let mut reader = User::new(config(&charter, 3, None, 2));
        let vouched = authorships(&mut reader, &mut all, &[one.name, other.name, direct.name]);
        assert_eq!(vouched[..2], [Authorship::VouchedForBy(1); 2]);
        assert_eq!(vouched[2], Authorship::SignedBy(1));
        assert!(reader.fresh(&mut all).expect("a quorum answers").forks.is_empty());
        let records = [one.name, other.name];
        assert_eq!(
            code(reader.run(&mut all, Command::Accuse { records })),
            Code::BadFork
        );
    }
}

/// A writer that has used a number twice is convicted by anybody, over its own records.
#[test]
fn a_fork_that_its_writer_signed_convicts_it() {
    let charter = shared();
    let mut hers = alice(&charter);
    let (one, first) = pointing(&mut hers, &[]);
    let mut again = alice(&charter);
    let other = again
        .write(b"another", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let later = again
        .write(b"later", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let second = again.sign(&later.name);
    let fork = Fork {
        one: Evidence {
            header: one.header.clone(),
            proof: proof_of(&Anchor::Signed(first), &[&one.header]),
        },
        other: Evidence {
            header: other.header.clone(),
            proof: proof_of(&Anchor::Signed(second), &[&later.header]),
        },
    };
    assert_eq!(
        fork.verify(charter.hasher(), &Authority::new(charter.metadata())),
        Ok(1)
    );
    let mut all = servers(3);
    put(
        &mut all,
        &charter,
        &[&one, &other, &later].map(|record| write(record)),
    );
    put(
        &mut all,
        &charter,
        &[sign(one.name, first), sign(later.name, second)],
    );
    let mut reader = User::new(config(&charter, 3, None, 2));
    let records = [one.name, other.name];
    assert_eq!(
        authorships(&mut reader, &mut all, &records),
        [Authorship::SignedBy(1); 2]
    );
    assert_eq!(reader.fresh(&mut all).expect("a quorum answers").forks.len(), 1);
    assert!(matches!(
        reader.run(&mut all, Command::Accuse { records }),
        Ok(Reply::Fork(_))
    ));
}

/// A sequence that does not fall, and an equal one in another epoch, break the way from a signature.
#[test]
fn sequences_that_do_not_fall_are_not_their_writers() {
    let charter = shared();
    let authority = Authority::new(charter.metadata());
    for sequence in [0, 1, u64::MAX] {
        let mut hers = writer(&charter, 1, KeyPair::from_seed(&ALICE), None);
        let below = fabricated(&charter, (1, sequence), Vec::new(), b"");
        let (made, signature) = pointing(&mut hers, &[&below]);
        assert_eq!(view(&made).sequence(), 0);
        let fork = Fork {
            one: Evidence {
                header: made.header.clone(),
                proof: proof_of(&Anchor::Signed(signature), &[&made.header]),
            },
            other: Evidence {
                header: below.header.clone(),
                proof: proof_of(&Anchor::Signed(signature), &[&made.header]),
            },
        };
        assert_eq!(
            code(fork.verify(charter.hasher(), &authority)),
            Code::BadFork,
            "{sequence}"
        );
    }
}

/// Server 0 names a record that Alice made up as the only head, and proves it over what she has signed.
fn lying_server(charter: &Charter, made: &Written, signature: Signature, invented: &Written) -> Rule {
    let (charter, name) = (charter.clone(), invented.name);
    let proof = proof_of(&Anchor::Signed(signature), &[&made.header, &invented.header]);
    Box::new(move |(server, request), response| {
        let operations = &request[53..];
        let asks = |kind: u8| server == 0 && operations.len() >= 38 && operations[5] == kind;
        if asks(7) {
            let nonce = operations[6..38].try_into().expect("a nonce");
            response.truncate(15);
            0_u16.write(response);
            Fresh::sign(&server_key(0), &charter.name(), &nonce, vec![name], START).write(response);
            for _ in 0..(operations.len() - 38) / 33 {
                Code::Unproven.as_u16().write(response);
                0_u32.write(response);
            }
            response.push(0);
        } else if asks(6) && operations[6..38] == name.0 {
            response.truncate(15);
            0_u16.write(response);
            proof.as_slice().write(response);
            response.push(0);
        }
        Fate::After(5)
    })
}

#[test]
fn invented_heads_neither_hide_nor_silence_a_writer() {
    for (victim, sequence) in [2, 0].into_iter().flat_map(|victim| FAR.map(|far| (victim, far))) {
        let charter = shared();
        let mut all = servers(3);
        put(&mut all, &charter, &[]);
        let mut theirs = User::new(config(&charter, 3, Some(seed_of(victim)), 5));
        theirs.begin(&mut all);
        let written = theirs.written(&mut all, content(b"acknowledged"));
        theirs.settle(&mut all);
        let invented = fabricated(&charter, (victim, sequence), Vec::new(), b"never written");
        let (made, signature) = pointing(&mut alice(&charter), &[&invented]);
        for quorum in [2, 3] {
            let mut reading = config(&charter, 3, None, 2);
            reading.read_quorum = quorum;
            let mut reader = User::new(reading);
            reader.rule = lying_server(&charter, &made, signature, &invented);
            let heads = reader.heads(&mut all);
            assert!(heads.contains(&written[0]) && !heads.contains(&invented.name));
        }
        let mut reading = config(&charter, 3, Some(seed_of(victim)), 6);
        reading.read_quorum = 3;
        let mut again = User::with_store(reading, theirs.store.clone());
        again.rule = lying_server(&charter, &made, signature, &invented);
        let start = Start::Resume;
        let ready = again.run(&mut all, Command::Init { start });
        assert!(matches!(ready, Ok(Reply::Ready(position)) if position.sequence < 1 << 20));
        let next = again.written(&mut all, content(b"next"));
        again.settle(&mut all);
        let mut later = User::with_store(
            config(&charter, 3, Some(seed_of(victim)), 7),
            again.durable.clone(),
        );
        later.begin(&mut all);
        let last = later.written(&mut all, content(b"later"));
        assert_eq!(
            authorships(&mut later, &mut all, &[next[0], last[0]]),
            [Authorship::SignedBy(victim); 2]
        );
    }
}

/// An honest server that holds what a writer made up tells nobody that the victim is ahead of itself.
#[test]
fn invented_records_at_honest_servers_take_no_numbers_away() {
    for (victim, sequence) in [2, 0].into_iter().flat_map(|victim| FAR.map(|far| (victim, far))) {
        let charter = shared();
        let mut all = servers(3);
        let invented = fabricated(&charter, (victim, sequence), Vec::new(), b"never written");
        let (made, signature) = pointing(&mut alice(&charter), &[&invented]);
        put(
            &mut all,
            &charter,
            &[write(&invented), write(&made), sign(made.name, signature)],
        );
        let mut theirs = User::new(config(&charter, 3, Some(seed_of(victim)), 5));
        theirs.begin(&mut all);
        let names = theirs.written(&mut all, content(b"mine"));
        let records = names.clone();
        let Ok(Reply::Records(read)) = theirs.run(&mut all, Command::Read { records }) else {
            panic!("it reads");
        };
        let read = read[0].as_ref().expect("it is proven");
        assert_eq!(read.header.view().sequence(), 0);
        assert!(theirs.heads(&mut all).contains(&names[0]));
    }
}

/// The victim itself points to a record that names it: that would make it the victim's own.
#[test]
fn a_writer_never_points_to_what_was_made_up_under_its_number() {
    for victim in [2, 0] {
        let charter = shared();
        let mut all = servers(3);
        let invented = fabricated(&charter, (victim, 7), Vec::new(), b"never written");
        let (made, signature) = pointing(&mut alice(&charter), &[&invented]);
        put(
            &mut all,
            &charter,
            &[write(&invented), write(&made), sign(made.name, signature)],
        );
        let mut theirs = User::new(config(&charter, 3, Some(seed_of(victim)), 5));
        theirs.begin(&mut all);
        let own = theirs.written(&mut all, content(b"mine"));
        let point = |names: Vec<RecordName>, follows: bool| Command::Write {
            contents: vec![Bytes::from_static(b"merged")],
            backpointers: match follows {
                true => Backpointers::Following(names),
                false => Backpointers::Own(names),
            },
            signing: Signing::Last,
        };
        for follows in [true, false] {
            let refused = theirs.run(&mut all, point(vec![own[0], invented.name], follows));
            assert_eq!(
                refused.map(|_| ()).map_err(|refusal| (refusal.code, refusal.at)),
                Err((Code::Unproven, 0))
            );
            let unknown = theirs.run(&mut all, point(vec![RecordName([9; 32])], follows));
            assert_eq!(code(unknown), Code::NoRecord);
            // What names somebody else, or is its own, it may merge.
            let merged = theirs.written(&mut all, point(vec![made.name, own[0]], follows));
            let both = authorships(&mut theirs, &mut all, &[merged[0], invented.name]);
            assert_eq!(both, [Authorship::SignedBy(victim), Authorship::VouchedForBy(1)]);
        }
        let start = Start::After(invented.name);
        assert_eq!(
            code(theirs.run(&mut all, Command::Init { start })),
            Code::Unproven
        );
        if victim == 0 {
            theirs.begin(&mut all);
            let heads = vec![made.name, invented.name];
            let refused = theirs.run(
                &mut all,
                Command::Govern {
                    added: Vec::new(),
                    revoked: vec![Revoked { number: 1, heads }],
                    readers: Vec::new(),
                    period: Period::Next,
                },
            );
            assert_eq!(code(refused), Code::Unproven);
        }
    }
}

/// Writers who go on after one another, each batch signed at its end or later: all that each wrote is shown to be its own.
#[test]
fn authorship_is_established_across_merges() {
    for signing in [Signing::Last, Signing::Later] {
        let charter = shared();
        let mut all = servers(3);
        put(&mut all, &charter, &[]);
        let mut users: Vec<User> = (0..3)
            .map(|number| User::new(config(&charter, 3, Some(seed_of(number)), 5 + number as u8)))
            .collect();
        let (mut written, mut last) = (Vec::new(), None);
        for round in 0..9_usize {
            let number = round % 3;
            let user = &mut users[number];
            let start = last.map_or(Start::Resume, Start::After);
            assert!(matches!(
                user.run(&mut all, Command::Init { start }),
                Ok(Reply::Ready(_))
            ));
            for _ in 0..2 {
                let names = user.written(
                    &mut all,
                    Command::Write {
                        contents: vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")],
                        backpointers: Backpointers::Chain,
                        signing,
                    },
                );
                written.extend(names.iter().map(|name| (number as u16, *name)));
                last = names.last().copied();
            }
            assert_eq!(user.run(&mut all, Command::Sign), Ok(Reply::Done));
        }
        let mut reader = User::new(config(&charter, 3, None, 2));
        let names: Vec<RecordName> = written.iter().map(|(_, name)| *name).collect();
        // At once, and one by one from the newest, where each is known from what points to it.
        let expected: Vec<Authorship> = written
            .iter()
            .map(|(number, _)| Authorship::SignedBy(*number))
            .collect();
        assert_eq!(authorships(&mut reader, &mut all, &names), expected);
        let mut reader = User::new(config(&charter, 3, None, 3));
        for (number, name) in written.iter().rev() {
            let one = authorships(&mut reader, &mut all, &[*name]);
            assert_eq!(one, [Authorship::SignedBy(*number)]);
        }
        assert!(reader.fresh(&mut all).expect("a quorum answers").forks.is_empty());
    }
}

/// What another writer vouches for first is its writer's as soon as that one signs, at every replica.
#[test]
fn a_late_signature_makes_a_vouched_record_its_writers() {
    let charter = shared();
    let mut his = writer(&charter, 2, KeyPair::from_seed(&BOB), None);
    let chain: Vec<Written> = (0..40_u8)
        .map(|byte| {
            his.write(&[byte], &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    let (made, signature) = pointing(&mut alice(&charter), &[&chain[3], &chain[0]]);
    let mut all = servers(3);
    let mut operations: Vec<Operation<'_>> = chain.iter().map(write).collect();
    operations.extend([write(&made), sign(made.name, signature)]);
    put(&mut all, &charter, &operations);
    let mut reader = User::new(config(&charter, 3, None, 2));
    let names = [chain[0].name, chain[3].name];
    assert_eq!(
        authorships(&mut reader, &mut all, &names),
        [Authorship::VouchedForBy(1); 2]
    );
    // The way from his signature is far longer than hers.
    let last = &chain[39];
    let mut operations: Vec<Operation<'_>> = chain.iter().map(write).collect();
    operations.push(sign(last.name, his.sign(&last.name)));
    put(&mut all, &charter, &operations);
    assert_eq!(
        authorships(&mut reader, &mut all, &names),
        [Authorship::SignedBy(2); 2]
    );
    let mut another = User::new(config(&charter, 3, None, 3));
    assert_eq!(
        authorships(&mut another, &mut all, &names),
        [Authorship::SignedBy(2); 2]
    );
}

#[test]
fn proof_files_tell_signed_from_vouched_for() {
    let charter = shared();
    let invented = fabricated(&charter, (2, 7), Vec::new(), b"never written");
    let (made, signature) = pointing(&mut alice(&charter), &[&invented]);
    let file = |record: &Written| {
        let proof = proof_of(&Anchor::Signed(signature), &[&made.header]);
        ProofFile {
            metadata: charter.encoded(),
            epochs: &[],
            header: &record.header,
            proof: &proof,
            body: Some(&record.body),
        }
        .encode()
    };
    let of = |record: &Written| ProofFile::verify(&file(record)).expect("it is proven").authorship;
    assert_eq!(of(&made), Authorship::SignedBy(1));
    assert_eq!(of(&invented), Authorship::VouchedForBy(1));
}

/// What the owner accepts of a revoked writer is the owner's word from then on, and no evidence against anybody.
#[test]
fn records_of_a_revoked_writer_are_vouched_for_by_the_owner() {
    let charter = shared();
    let mut all = servers(3);
    put(&mut all, &charter, &[]);
    let mut hers = User::new(config(&charter, 3, Some(ALICE), 5));
    hers.begin(&mut all);
    let names = hers.written(&mut all, content(b"mine"));
    let mut owners = User::new(config(&charter, 3, Some(OWNER_SEED), 6));
    owners.begin(&mut all);
    owners.written(
        &mut all,
        Command::Govern {
            added: Vec::new(),
            revoked: vec![Revoked {
                number: 1,
                heads: names.clone(),
            }],
            readers: Vec::new(),
            period: Period::Next,
        },
    );
    let mut reader = User::new(config(&charter, 3, None, 7));
    assert_eq!(
        authorships(&mut reader, &mut all, &names),
        [Authorship::VouchedForBy(0)]
    );
}

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
    for record in &records {
        let Ok(Reply::Records(read)) = reader.run(
            &mut all,
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
