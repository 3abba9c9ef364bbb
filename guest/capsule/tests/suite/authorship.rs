//! A signature is its signer's word on the signer's own records alone: nobody speaks for another writer, takes its sequence numbers
//! away or has it convicted.

use crate::common::authors::{
    ALICE, BOB, FAR, alice, authorships, content, fork_of, pointing, put, seed_of, shared,
};
use crate::common::net::{Fate, Rule, START, User, code, config, server_key, servers};
use crate::common::server::{sign, write};
use crate::common::single::WriteOne as _;
use crate::common::{OWNER_SEED, fabricated, proof_of, view, writer};
use bytes::Bytes;
use selfsame_capsule::authority::{Authority, Evidence, Fork};
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::client::{Command, Period, Reply, Signing, Start};
use selfsame_capsule::epoch::Revoked;
use selfsame_capsule::file::{ProofFile, ProofVerifier};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Fresh, Operation};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::proof::Anchor;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Field, Reader};

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
            let query = Reader::new(&operations[6..]).field().expect("a question");
            response.truncate(15);
            0_u16.write(response);
            Fresh::sign(&server_key(0), &charter.name(), &query, None, vec![name], START).write(response);
            for _ in 0..(operations.len() - 70) / 33 {
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
    let of = |record: &Written| {
        ProofVerifier::default()
            .verify(&file(record))
            .expect("it is proven")
            .authorship
    };
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
