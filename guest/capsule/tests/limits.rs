//! What a replica holds in memory has limits, and whoever goes beyond one is told.

mod common;

use common::server::{created, sign, write};
use common::{Log, charter, owner, view, writer};
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::epoch::{EpochChange, Revoked};
use selfsame_capsule::file::{MAX_PLANNED, Plan};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

/// Most heads that a replica holds.
const HEADS: u32 = 1 << 14;
/// Most signatures with which it revokes some.
const SIGNED: u64 = 1 << 20;

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
    let branches: Vec<_> = (0..=HEADS)
        .map(|number| begin(&number.to_le_bytes(), &Backpointers::Chain))
        .collect();
    let signed = |name: RecordName| sign(name, sign_record(&owner(), &name));
    for some in branches[..HEADS as usize].chunks(2000) {
        let operations: Vec<_> = some
            .iter()
            .flat_map(|one| [write(one), signed(one.name)])
            .collect();
        assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    }
    let last = &branches[HEADS as usize];
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
    let charter = common::charter_of(HashKind::Blake3, Readers::Everybody, vec![alice.public()]);
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
