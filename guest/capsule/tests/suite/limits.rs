//! What a replica, or whoever reads a file, holds in memory has limits, and whoever goes beyond one is told.

use crate::common::server::{created, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::{Log, charter, fabricated, owner, view, writer};
use selfsame_capsule::archive::Import;
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::epoch::{EpochChange, Revoked};
use selfsame_capsule::file::{Exporter, MAX_PLANNED, Plan, Verifier};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::record::Record;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Code;

/// Most heads that a replica holds, and of them those that one writer may take.
const HEADS: u32 = 1 << 15;
const BRANCHES: u32 = 1 << 14;
/// Most signatures with which it revokes some.
const SIGNED: u64 = 1 << 20;
/// Most epoch records of a capsule.
const EPOCHS: u32 = 1 << 16;
/// Most records that whoever reads a file waits for.
const AWAITED: u32 = 1 << 17;

#[test]
fn branches_beyond_the_limit_are_refused_until_some_are_merged() {
    let charter = charter();
    let (mut server, mut client) = created(&charter);
    let begin = |content: &[u8], backpointers: &Backpointers| {
        let mut by_owner = writer(&charter, 0, owner(), None);
        by_owner
            .write(content, backpointers, &[0; 16])
            .expect("it is small")
    };
    let branches: Vec<_> = (0..=BRANCHES)
        .map(|number| begin(&number.to_le_bytes(), &Backpointers::Chain))
        .collect();
    let signed = |name: RecordName| sign(name, sign_record(&owner(), &name));
    for some in branches[..BRANCHES as usize].chunks(2000) {
        let operations: Vec<_> = some
            .iter()
            .flat_map(|one| [write(one), signed(one.name)])
            .collect();
        assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    }
    let last = &branches[BRANCHES as usize];
    let given = client.ask(&mut server, &[write(last), signed(last.name)]);
    assert_eq!(given, [Ok(Vec::new()), Err(Code::TooLarge)]);
    let merge = begin(b"", &Backpointers::Own(vec![branches[0].name, branches[1].name]));
    let operations = [write(&merge), signed(merge.name)];
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert_eq!(client.ask(&mut server, &[signed(last.name)]), [Ok(Vec::new())]);
}

#[test]
fn a_revocation_among_too_many_signatures_is_refused() {
    let alice = KeyPair::from_seed(&[2; 32]);
    let charter = crate::common::charter_of(HashKind::Blake3, Readers::Everybody, vec![alice.public()]);
    let (mut server, mut client) = created(&charter);
    let mut by_owner = writer(&charter, 0, owner(), None);
    let leaves = EpochChange {
        revoked: vec![Revoked {
            number: 1,
            heads: Vec::new(),
        }],
        ..EpochChange::default()
    };
    let leaves = by_owner
        .begin_epoch(leaves.encode(), 1, None, Vec::new())
        .expect("it is small");
    let operations = [write(&leaves), sign(leaves.name, by_owner.sign(&leaves.name))];
    for number in 0..=SIGNED {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_be_bytes());
        let key = [&charter.name().0[..], b"G", &name].concat();
        server.store.insert(key, bytes::Bytes::new());
    }
    assert_eq!(
        client.ask(&mut server, &operations),
        [Ok(Vec::new()), Err(Code::TooLarge)]
    );
}

#[test]
fn an_export_of_more_records_than_its_memory_holds_is_refused() {
    let log = Log::new(charter(), 1, &Backpointers::Chain);
    let mut plan = Plan::new();
    let name = |number: usize| {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&(number as u64).to_be_bytes());
        RecordName(name)
    };
    for number in 0..=MAX_PLANNED {
        assert_eq!(plan.add(name(number), &view(&log.records[0])), Ok(Vec::new()));
    }
    let refused = plan.add(name(MAX_PLANNED + 1), &view(&log.records[0]));
    assert_eq!(refused.map_err(|refusal| refusal.code), Err(Code::TooLarge));
}

/// Heads of a capsule in the order of a file, each with as many pointers to records that nobody has.
fn heads(count: u32, pointers: u32) -> Vec<Written> {
    let missing = |number: u32| {
        let mut name = [7; 32];
        name[..4].copy_from_slice(&number.to_be_bytes());
        RecordName(name)
    };
    let charter = charter();
    let head = |number: u32| {
        let names = (number * pointers..(number + 1) * pointers).map(missing);
        fabricated(&charter, (0, number.into()), names.collect(), b"")
    };
    let mut all: Vec<Written> = (0..count).map(head).collect();
    all.sort_by_key(|head| head.name);
    all
}

fn append(exporter: &mut Exporter, head: &Written, file: &mut Vec<u8>) -> Result<(), Code> {
    let record = Record {
        header: view(head),
        body: &head.body,
    };
    let signature = sign_record(&owner(), &head.name);
    let appended = exporter.record(&record, Some(&signature), file);
    appended.map(drop).map_err(|refusal| refusal.code)
}

#[test]
fn file_of_too_many_epochs_is_refused_at_once() {
    let verified = |epochs: u32| {
        let mut file = Vec::new();
        _ = Exporter::new(charter(), epochs, &mut file);
        let mut verifier = Verifier::default();
        let pushed = verifier.push(&file, &mut |_| {});
        (pushed.map_err(|damage| damage.code), file.len())
    };
    assert_eq!(verified(EPOCHS).0, Ok(()));
    assert_eq!(verified(EPOCHS + 1).0, Err(Code::TooLarge));
    assert_eq!(verified(u32::MAX).0, Err(Code::TooLarge));
}

#[test]
fn file_that_awaits_too_many_records_is_refused() {
    let all = heads(AWAITED / 32 + 1, 32);
    let (last, others) = all.split_last().expect("some");
    let mut file = Vec::new();
    let mut exporter = Exporter::new(charter(), 0, &mut file);
    for head in others {
        assert_eq!(append(&mut exporter, head, &mut file), Ok(()));
    }
    assert_eq!(append(&mut exporter, last, &mut file), Err(Code::TooLarge));
    let mut verifier = Verifier::default();
    assert_eq!(verifier.push(&file, &mut |_| {}), Ok(()));
    // As whoever heeds no limit writes it.
    let signature = sign_record(&owner(), &last.name);
    let more = [&[2], last.header.as_slice(), &signature.0].concat();
    let damage = verifier.push(&more, &mut |_| {}).expect_err("they are too many");
    assert_eq!(damage.code, Code::TooLarge);
}

/// A replica refuses signatures that may count later, as some of a file do: of too many it will never take all.
#[test]
fn import_of_too_many_refused_signatures_ends() {
    let refused = [&[1, 0, 0, 0, 0, 0, 0][..], &refusals(4096)].concat();
    let mut file = Vec::new();
    let mut exporter = Exporter::new(charter(), 0, &mut file);
    let mut import = Import::default();
    let all = heads(EPOCHS + HEADS + 1, 0);
    let (last, others) = all.split_last().expect("some");
    for some in others.chunks(1024).chain([core::slice::from_ref(last)]) {
        for head in some {
            append(&mut exporter, head, &mut file).expect("it is in order");
        }
        let taken = import.push(&file).map_err(|damage| damage.code);
        file.clear();
        let is_last = some[0].name == last.name;
        assert_eq!(taken, if is_last { Err(Code::TooLarge) } else { Ok(()) });
        while import.ask().is_some() {
            import.take(&refused).expect("it goes on");
        }
    }
}

/// Results of so many operations that are refused.
fn refusals(count: usize) -> Vec<u8> {
    let [low, high] = Code::Unproven.as_u16().to_le_bytes();
    [low, high, 0, 0, 0, 0].repeat(count)
}
