//! Files of a capsule: the same bytes from whoever has the same records, and nothing that is wrong passes.

use crate::common::net::{User, config, servers};
use crate::common::server::Server;
use crate::common::{OWNER_SEED, charter_of, nobody, owner, view};
use bytes::Bytes;
use selfsame_capsule::client::{Command, Extent, Period, Reply, Signing, Start};
use selfsame_capsule::epoch::ReaderKeys;
use selfsame_capsule::file::{Damage, Entry, Exporter, Plan, ProofVerifier, Summary, Verifier};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::header::{HeaderView, RecordKind};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::record::Record;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Reader};

fn sealed() -> Charter {
    charter_of(HashKind::Blake3, Readers::Granted, Vec::new())
}

/// A capsule with branches, a merge, epochs, two writers and sub-records.
struct Built {
    servers: Vec<Server>,
    owner: User,
    names: Vec<RecordName>,
}

fn built() -> Built {
    let mut servers = servers(1);
    let mut owner = User::new(config(&sealed(), 1, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    let write = |contents: &[&str], backpointers| Command::Write {
        contents: contents
            .iter()
            .map(|content| Bytes::copy_from_slice(content.as_bytes()))
            .collect(),
        backpointers,
        signing: Signing::Last,
    };
    let mut names = owner.written(
        &mut servers,
        write(&["a", "b", "c", "d", "e"], Backpointers::Shortcuts),
    );
    let seed = [33; 32];
    names.extend(owner.written(
        &mut servers,
        Command::Govern {
            added: vec![KeyPair::from_seed(&seed).public()],
            revoked: Vec::new(),
            readers: vec![*ReaderKeys::from_seed(&seed).public()],
            period: Period::Next,
        },
    ));
    let mut writer = User::new(config(&sealed(), 1, Some(seed), 2));
    writer.begin(&mut servers);
    names.extend(writer.written(&mut servers, write(&["x", "y", "z"], Backpointers::Chain)));
    let start = Start::After(names[1]);
    owner
        .run(&mut servers, Command::Init { start })
        .expect("it begins");
    let merge = Backpointers::Own(vec![names[8]]);
    names.extend(owner.written(
        &mut servers,
        Command::Commit {
            subrecords: vec!["part".into(); 9],
            backpointers: merge,
            signing: Signing::Last,
        },
    ));
    names.extend(owner.written(&mut servers, write(&["last", "of all"], Backpointers::Shortcuts)));
    Built {
        servers,
        owner,
        names,
    }
}

/// The records as the store of a replica holds them, with their signatures.
struct Stored {
    records: Vec<(Written, Option<Signature>)>,
}

impl Stored {
    fn of(server: &Server, charter: &Charter) -> Self {
        use selfsame_capsule::witness::Witness;
        let mut records = Vec::new();
        for (key, value) in &server.store {
            if key[32] != b'R' {
                continue;
            }
            let mut reader = Reader::new(value);
            let witness: Witness = reader.field().expect("a witness");
            let record = Record::read(&mut reader).expect("a short record");
            let written = Written {
                name: record.header.name(charter.hasher()),
                header: record.header.encoded().to_vec(),
                body: record.body.to_vec(),
            };
            let signature = match witness {
                Witness::Signed(signature) => Some(signature),
                _ => None,
            };
            records.push((written, signature));
        }
        Self { records }
    }

    fn get(&self, name: &RecordName) -> &(Written, Option<Signature>) {
        let found = self.records.iter().find(|(written, _)| written.name == *name);
        found.expect("the record is stored")
    }

    /// In the order that is found when they are added in an order that `seed` chooses.
    fn order(&self, seed: usize) -> Vec<RecordName> {
        let mut plan = Plan::new();
        let count = self.records.len();
        for index in 0..count {
            let (written, _) = &self.records[(index * 7 + seed) % count];
            plan.add(written.name, &view(written)).expect("they are few");
        }
        let upcoming = plan.upcoming(usize::MAX);
        let mut order = Vec::new();
        while let Some(name) = plan.next_record() {
            order.push(name);
            plan.came(&view(&self.get(&name).0));
        }
        assert_eq!(upcoming, order);
        order
    }

    fn export(&self, charter: &Charter, order: &[RecordName]) -> Result<Vec<u8>, Code> {
        let mut epochs: Vec<&(Written, Option<Signature>)> = self
            .records
            .iter()
            .filter(|(written, _)| view(written).kind() == RecordKind::Epoch)
            .collect();
        epochs.sort_by_key(|(written, _)| view(written).sequence());
        let mut out = Vec::new();
        let mut exporter = Exporter::new(charter.clone(), epochs.len() as u32, &mut out);
        for (written, signature) in epochs {
            // Epoch records stand before all others, as they are.
            out.extend(
                [
                    written.header.as_slice(),
                    &written.body,
                    &signature.expect("it is signed").0,
                ]
                .concat(),
            );
        }
        for name in order {
            let (written, signature) = self.get(name);
            exporter
                .record(&record(written), signature.as_ref(), &mut out)
                .map_err(|refusal| refusal.code)?;
        }
        exporter.finish(&mut out);
        Ok(out)
    }
}

fn record(written: &Written) -> Record<'_> {
    Record {
        header: view(written),
        body: &written.body,
    }
}

fn verify(file: &[u8], chunk: usize) -> Result<(Summary, Vec<RecordName>), Damage> {
    let mut verifier = Verifier::default();
    let mut names = Vec::new();
    for chunk in file.chunks(chunk) {
        verifier.push(chunk, &mut |entry| match entry {
            Entry::Record(record) | Entry::Head(_, record, _) => {
                names.push(record.header.name(sealed().hasher()))
            }
            Entry::Capsule(_) | Entry::Epoch(..) => {}
        })?;
    }
    verifier.finish().map(|summary| (summary, names))
}

#[test]
fn the_same_records_give_the_same_file_and_it_verifies_in_pieces_of_any_size() {
    let built = built();
    let stored = Stored::of(&built.servers[0], &sealed());
    assert_eq!(stored.records.len(), built.names.len());
    let order = stored.order(0);
    let file = stored.export(&sealed(), &order).expect("it is in order");
    assert_eq!(verify(&file, 999).map(|(summary, _)| summary.holes), Ok(0));
    for seed in 1..9 {
        assert_eq!(stored.order(seed), order);
    }
    for chunk in [1, 2, 3, 64, 1000, file.len()] {
        let (summary, names) = verify(&file, chunk).expect("it is right");
        assert_eq!(summary.capsule, sealed().name());
        assert_eq!((summary.records, summary.holes), (built.names.len() as u64, 0));
        assert_eq!(names.len(), built.names.len() - 1, "all but the epoch record");
    }
}

#[test]
fn no_byte_of_a_file_can_be_changed_removed_or_added() {
    let built = built();
    let stored = Stored::of(&built.servers[0], &sealed());
    let file = stored
        .export(&sealed(), &stored.order(0))
        .expect("it is in order");
    for at in 0..file.len() {
        let mut wrong = file.clone();
        wrong[at] ^= 1 << (at % 8);
        let damage = verify(&wrong, 500).expect_err("it was changed");
        assert!(damage.at <= file.len() as u64, "byte {at}: {damage:?}");
        let cut = verify(&file[..at], 500).expect_err("it was cut");
        assert_eq!((cut.code, cut.at), (Code::BadFile, at as u64));
    }
    let longer = [file.as_slice(), &[0]].concat();
    let damage = verify(&longer, 500).expect_err("something follows");
    assert_eq!((damage.code, damage.at), (Code::BadFile, file.len() as u64));
    assert_eq!(verify(&[], 1).map_err(|damage| damage.at), Err(0));
}

#[test]
fn the_same_is_found_wrong_at_the_same_place_in_whatever_pieces_a_file_comes() {
    let built = built();
    let stored = Stored::of(&built.servers[0], &sealed());
    let file = stored.export(&sealed(), &stored.order(0)).expect("a file");
    // A number that is no divisor of the length of anything.
    for at in (0..file.len()).step_by(11) {
        let mut wrong = file.clone();
        wrong[at] ^= 0xff;
        // Cut right after it, soon after it, and not at all.
        for end in [at + 1, at + 9, at + 70, file.len()] {
            let wrong = &wrong[..end.min(file.len())];
            let whole = verify(wrong, wrong.len()).expect_err("it was changed");
            for chunk in [1, 7, 64] {
                let damage = verify(wrong, chunk).expect_err("it was changed");
                assert_eq!(
                    damage,
                    whole,
                    "byte {at} of {}, in pieces of {chunk}",
                    wrong.len()
                );
            }
        }
    }
}

#[test]
fn records_in_another_order_are_refused_by_who_writes_and_by_who_reads() {
    let built = built();
    let stored = Stored::of(&built.servers[0], &sealed());
    let order = stored.order(0);
    let mut refused = 0;
    for (one, other) in (0..order.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let mut wrong = order.clone();
        wrong.swap(one, other);
        // Whoever writes regardless of the order: entries cut out of files.
        match stored.export(&sealed(), &wrong) {
            Err(code) => {
                assert!(matches!(code, Code::BadFile | Code::Unproven));
                refused += 1;
            }
            // One that comes before what points to it, where names allow it: then it is waited for until the end.
            Ok(file) => {
                let (summary, _) = verify(&file, 999).expect("each is proven");
                assert_eq!(summary.holes, 1, "{one} and {other} may not change places");
            }
        }
    }
    assert!(refused > 50);
    let file = stored.export(&sealed(), &order).expect("it is in order");
    assert_eq!(verify(&file, 999).map(|(summary, _)| summary.holes), Ok(0));
    let (entries, first) = entries(&file, stored.records.len());
    for index in 0..entries.len() - 1 {
        let mut parts: Vec<&[u8]> = entries.iter().map(|(start, end)| &file[*start..*end]).collect();
        parts.swap(index, index + 1);
        let wrong = [
            &file[..first],
            &parts.concat(),
            &file[entries[entries.len() - 1].1..],
        ]
        .concat();
        assert!(verify(&wrong, 999).is_err(), "entries {index} and the next");
        let mut parts: Vec<&[u8]> = entries.iter().map(|(start, end)| &file[*start..*end]).collect();
        parts.insert(index, parts[index]);
        let wrong = [
            &file[..first],
            &parts.concat(),
            &file[entries[entries.len() - 1].1..],
        ]
        .concat();
        assert!(verify(&wrong, 999).is_err(), "entry {index} twice");
        parts.drain(index..index + 2);
        let wrong = [
            &file[..first],
            &parts.concat(),
            &file[entries[entries.len() - 1].1..],
        ]
        .concat();
        assert!(verify(&wrong, 999).is_err(), "without entry {index}");
    }
}

/// Where each entry begins and ends, and the first of them.
fn entries(file: &[u8], count: usize) -> (Vec<(usize, usize)>, usize) {
    let mut reader = Reader::new(&file[19..]);
    _ = reader.field::<&[u8]>().expect("metadata");
    let epochs: u32 = reader.field().expect("a count");
    for _ in 0..epochs {
        Record::read(&mut reader).expect("an epoch record");
        reader.take(64).expect("a signature");
    }
    let at = |reader: &Reader<'_>| file.len() - reader.rest().len();
    let first = at(&reader);
    let mut all = Vec::new();
    for _ in 0..count {
        let start = at(&reader);
        let kind: u8 = reader.field().expect("a kind");
        let header = HeaderView::read(&mut reader).expect("a header");
        if kind == 2 {
            reader.take(64).expect("a signature");
        }
        if kind != 3 {
            reader.take(header.body_len() as usize).expect("a body");
        }
        all.push((start, at(&reader)));
    }
    (all, first)
}

#[test]
fn a_capsule_with_a_hole_is_exported_with_the_hole_named() {
    let charter = charter_of(HashKind::Blake3, Readers::Everybody, Vec::new());
    let log = crate::common::Log::new(charter.clone(), 9, &Backpointers::Shortcuts);
    let signature = log.writer.sign(&log.name(8));
    let mut records: Vec<(Written, Option<Signature>)> = log
        .records
        .iter()
        .map(|written| (written.clone(), None))
        .collect();
    records[8].1 = Some(signature);
    records.remove(0);
    let stored = Stored { records };
    let file = stored.export(&charter, &stored.order(3)).expect("it is in order");
    let (summary, _) = verify(&file, 100).expect("it is right");
    assert_eq!((summary.records, summary.holes), (8, 1));
    assert_eq!(file[file.len() - 32..], log.name(0).0);
    // A head that is not signed, or by nobody who may.
    let mut unsigned = Stored {
        records: stored.records.clone(),
    };
    unsigned.records[7].1 = None;
    assert_eq!(unsigned.export(&charter, &stored.order(0)), Err(Code::Unproven));
    unsigned.records[7].1 = Some(nobody());
    let file = unsigned
        .export(&charter, &stored.order(0))
        .expect("it is not looked at");
    assert_eq!(
        verify(&file, 100).map_err(|damage| damage.code),
        Err(Code::BadSignature)
    );
    assert_eq!(owner().public(), charter.metadata().owner);
}

/// A long capsule in little memory: what is kept are names that have to come still.
#[test]
fn a_long_chain_streams_by() {
    let charter = charter_of(HashKind::Blake3, Readers::Everybody, Vec::new());
    let log = crate::common::Log::new(charter.clone(), 20_000, &Backpointers::Shortcuts);
    let mut out = Vec::new();
    let mut exporter = Exporter::new(charter, 0, &mut out);
    let mut verifier = Verifier::default();
    let mut count = 0;
    let signature = log.writer.sign(&log.name(19_999));
    for written in log.records.iter().rev() {
        exporter
            .record(
                &record(written),
                Some(&signature).filter(|_| out.len() > 19),
                &mut out,
            )
            .expect("it is its turn");
        verifier
            .push(&out, &mut |entry| {
                count += usize::from(matches!(entry, Entry::Record(..) | Entry::Head(..)))
            })
            .expect("it is right");
        out.clear();
    }
    exporter.finish(&mut out);
    verifier.push(&out, &mut |_| {}).expect("it is right");
    assert_eq!(verifier.finish().map(|summary| summary.records), Ok(20_000));
    assert_eq!(count, 20_000);
}

#[test]
fn a_proof_file_proves_a_record_to_whoever_has_nothing_else() {
    let mut built = built();
    for (extent, place) in [
        (Extent::Header, 0),
        (Extent::Whole, 0),
        (Extent::Whole, 7),
        (Extent::Header, 5),
    ] {
        let record = built.names[place];
        let exported = built
            .owner
            .run(&mut built.servers, Command::Export { record, extent });
        let Ok(Reply::File(file)) = exported else {
            panic!("{exported:?}");
        };
        let mut knowing = ProofVerifier::default();
        let proven = knowing.verify(&file).expect("it is right");
        assert_eq!((proven.name, proven.charter.name()), (record, sealed().name()));
        assert_eq!(proven.body.is_some(), extent == Extent::Whole);
        for at in 0..file.len() {
            let mut wrong = file.clone();
            wrong[at] ^= 1 << (at % 8);
            let refusal = ProofVerifier::default()
                .verify(&wrong)
                .expect_err("it was changed");
            assert!(refusal.at as usize <= file.len(), "byte {at}: {refusal:?}");
            let known = knowing.verify(&wrong).map(|_| ());
            assert_eq!(known, Err(refusal), "byte {at}, after one that is right");
            for verifier in [&mut knowing, &mut ProofVerifier::default()] {
                assert!(verifier.verify(&file[..at]).is_err(), "cut at {at}");
            }
        }
        let again = knowing.verify(&file).expect("it is still right");
        assert_eq!((again.name, again.path), (proven.name, proven.path));
        let longer = [file.as_slice(), &[0]].concat();
        assert_eq!(
            knowing
                .verify(&longer)
                .map(|_| ())
                .map_err(|refusal| (refusal.code, refusal.at as usize)),
            Err((Code::BadFile, file.len()))
        );
    }
}
