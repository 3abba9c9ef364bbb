//! Bytes that turn in a value of a store: the replica does not serve them, and has them again from another one.

use selfsame_codec::Operation;
use selfsame_host::capsule::{
    Capsule, CapsuleKey, CapsuleServer, Content, Governing, Plan, RecordName, WriteOptions, public_key,
};
use selfsame_host::{CAPSULES_FOLDER, Code, DiskStore, Replica, Seed, Storage as _};
use selfsame_write_batch::WriteBatch;

use crate::common::within;

/// Kinds of values, by the byte of their keys that follows the capsule's name.
const KINDS: &[u8] = b"ABEMNRS";
/// Of each value one byte is turned, and another one the next time: so many in all.
const PLACES: usize = 8;
/// Longer than a chunk.
const LONG: usize = 100_000;

fn seed(number: u8) -> Seed {
    Seed::from_bytes([number; 32])
}

fn server(replica: &Replica) -> CapsuleServer {
    CapsuleServer::new(CapsuleKey(replica.key()), replica.peer())
}

/// A capsule with short records, a long one, and an epoch record.
async fn written_at(replica: &Replica) -> (Capsule, Vec<(RecordName, Vec<u8>)>) {
    let metadata = Plan::new("").created(std::time::UNIX_EPOCH).sign(&seed(1));
    let opened = Capsule::builder()
        .in_memory()
        .metadata(metadata.expect("metadata"))
        .seed(seed(1))
        .server(server(replica))
        .open();
    let capsule = within(opened).await.expect("a client");
    within(capsule.create()).await.expect("it is created");
    let mut contents: Vec<Vec<u8>> = (0..12).map(|number| vec![number; 300]).collect();
    contents.push(vec![77; LONG]);
    let written = within(capsule.append(contents.clone(), WriteOptions::new())).await;
    let change = Governing {
        add: vec![public_key(&seed(2)).expect("a key")],
        ..Governing::default()
    };
    within(capsule.govern(&change)).await.expect("a writer joins");
    (
        capsule,
        written
            .expect("they are written")
            .into_iter()
            .zip(contents)
            .collect(),
    )
}

/// How many of the records a reader of this replica alone gets; what is not refused is what was written.
async fn served(replica: &Replica, capsule: &Capsule, records: &[(RecordName, Vec<u8>)]) -> usize {
    let opened = Capsule::builder()
        .in_memory()
        .name(capsule.name())
        .server(server(replica))
        .open();
    let reader = within(opened).await.expect("a client");
    let mut served = 0;
    for (name, content) in records {
        match within(reader.read(*name)).await {
            Ok(record) => {
                assert_eq!(record.content, Content::Bytes(content.clone()));
                served += 1;
            }
            Err(error) => {
                let absent = [Code::NoRecord, Code::NoCapsule, Code::NoQuorum, Code::Unproven];
                assert!(error.code().is_some_and(|code| absent.contains(&code)), "{error}");
            }
        }
    }
    served
}

/// Turns one byte of each value of a kind; how many values there are.
fn turn(file: &std::path::Path, kind: u8, place: usize) -> usize {
    let mut store = DiskStore::open(file).expect("the store");
    let mut entries = store.scan(&[0], &[0xff; 64], usize::MAX).expect("its entries");
    entries.retain(|(key, value)| key.get(32) == Some(&kind) && !value.is_empty());
    for (_, value) in &mut entries {
        let at = value.len() * place / PLACES;
        value[at] ^= 0x40;
    }
    let puts: Vec<Operation<'_>> = entries
        .iter()
        .map(|(key, value)| Operation::Put { key, value })
        .collect();
    store
        .commit(&WriteBatch::of(&puts), true)
        .expect("they are written");
    puts.len()
}

#[tokio::test]
async fn turned_bytes_in_a_store_are_not_served_and_come_again_from_another_replica() {
    let healthy = Replica::in_memory(&seed(10)).expect("a replica");
    let (capsule, records) = written_at(&healthy).await;
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Replica::open(folder.path()).expect("a replica");
    let replica = open();
    let filled = within(replica.synchronise(capsule.name(), &healthy.peer())).await;
    assert!(filled.expect("they are compared").agreed);
    within(replica.close()).await;
    let mut refused = 0;
    for (kind, place) in KINDS
        .iter()
        .flat_map(|kind| (0..PLACES).map(move |place| (*kind, place)))
    {
        let what = format!("byte {place} / {PLACES} of {}", char::from(kind));
        assert!(
            turn(&folder.path().join(CAPSULES_FOLDER), kind, place) > 0,
            "{what}"
        );
        let replica = open();
        refused += records.len() - served(&replica, &capsule, &records).await;
        let healed = within(replica.synchronise(capsule.name(), &healthy.peer())).await;
        assert!(healed.expect("they are compared").agreed, "{what}");
        assert_eq!(
            served(&replica, &capsule, &records).await,
            records.len(),
            "{what}"
        );
        within(replica.close()).await;
        let again = open();
        assert_eq!(
            served(&again, &capsule, &records).await,
            records.len(),
            "{what}, once more"
        );
        within(again.close()).await;
    }
    assert!(
        refused >= PLACES * records.len(),
        "{refused} were refused meanwhile"
    );
}
