//! Replicas in the host that come to hold the same, over HTTP and in the mesh, and what a damaged store comes to.

use core::time::Duration;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use selfsame_host::capsule::{
    Capsule, CapsuleKey, CapsuleServer, Content, Peer, Plan, RecordName, WriteOptions,
};
use selfsame_host::{
    CAPSULES_FOLDER, Code, Error, Replica, ReplicateOptions, Seed, ServeOptions, StoreError, Synchronised,
};

use crate::common::nodes::ring;
use crate::common::within;

/// What only a test that hangs would wait for.
const NEVER: Duration = Duration::from_secs(100_000);

fn seed(number: u8) -> Seed {
    Seed::from_bytes([number; 32])
}

fn replica(number: u8) -> Replica {
    Replica::in_memory(&seed(number)).expect("a replica")
}

/// A client of the owner whose one server is this replica.
async fn owner_at(replica: &Replica) -> Capsule {
    let metadata = Plan::new("")
        .created(std::time::UNIX_EPOCH)
        .sign(&seed(1))
        .expect("metadata");
    let server = CapsuleServer::new(CapsuleKey(replica.key()), replica.peer());
    let opened = Capsule::builder()
        .in_memory()
        .metadata(metadata)
        .seed(seed(1))
        .server(server)
        .open();
    let capsule = within(opened).await.expect("a client");
    within(capsule.create()).await.expect("it is created");
    capsule
}

async fn append(capsule: &Capsule, texts: &[&str]) -> Vec<RecordName> {
    let contents = texts.iter().map(|text| text.as_bytes().to_vec());
    within(capsule.append(contents, WriteOptions::new()))
        .await
        .expect("they are written")
}

/// Whether a reader of this replica alone gets and believes a record with this text.
async fn holds(replica: &Replica, capsule: &Capsule, name: RecordName, text: &str) -> bool {
    let server = CapsuleServer::new(CapsuleKey(replica.key()), replica.peer());
    let opened = Capsule::builder()
        .in_memory()
        .name(capsule.name())
        .server(server)
        .open();
    let reader = within(opened).await.expect("a client");
    match within(reader.read(name)).await {
        Ok(record) => record.content == Content::Bytes(text.as_bytes().to_vec()),
        Err(error) => {
            let absent = [Code::NoRecord, Code::NoCapsule, Code::NoQuorum, Code::Unproven];
            assert!(error.code().is_some_and(|code| absent.contains(&code)), "{error}");
            false
        }
    }
}

#[tokio::test]
async fn two_replicas_come_to_hold_the_same() {
    let (one, other) = (replica(10), replica(11));
    let capsule = owner_at(&one).await;
    let names = append(&capsule, &["a", "b", "c"]).await;
    let done = within(other.synchronise(capsule.name(), &one.peer())).await;
    // Three records and the signature of the last.
    assert_eq!(counts(done.expect("they are compared")), (true, 4, 0));
    assert!(holds(&other, &capsule, names[0], "a").await);
    let more = append(&capsule, &["d"]).await;
    let done = within(one.synchronise(capsule.name(), &other.peer())).await;
    assert_eq!(counts(done.expect("they are compared")), (true, 0, 2));
    assert!(holds(&other, &capsule, more[0], "d").await);
    let done = within(one.synchronise(capsule.name(), &other.peer())).await;
    assert_eq!(counts(done.expect("they are compared")), (true, 0, 0));
}

fn counts(done: Synchronised) -> (bool, u64, u64) {
    (done.agreed, done.pulled, done.pushed)
}

#[tokio::test]
async fn what_writers_store_is_pushed_and_what_was_missed_is_fetched() {
    let (one, other) = (replica(20), replica(21));
    let capsule = owner_at(&one).await;
    let before = append(&capsule, &["before"]).await;
    let joining = other.replicate(
        ReplicateOptions::new()
            .keep([capsule.name()])
            .peer(one.peer())
            .interval(NEVER),
    );
    within(joining.joined()).await;
    assert!(holds(&other, &capsule, before[0], "before").await);
    let pushing = one.replicate(ReplicateOptions::new().peer(other.peer()).interval(NEVER));
    within(pushing.joined()).await;
    let pushed = append(&capsule, &["pushed"]).await;
    within(async {
        while !holds(&other, &capsule, pushed[0], "pushed").await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(pushing);
    one.push_to(capsule.name(), &[]).await.expect("it runs");
    let missed = append(&capsule, &["missed"]).await;
    assert!(!holds(&other, &capsule, missed[0], "missed").await);
    within(joining.round()).await;
    assert!(holds(&other, &capsule, missed[0], "missed").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_found_in_the_mesh_by_a_capsule_s_name() {
    let nodes = ring(2).await;
    let (one, other) = (replica(30), replica(31));
    let capsule = owner_at(&one).await;
    let names = append(&capsule, &["found"]).await;
    let serving = within(one.serve_capsules(&nodes[0], ServeOptions::new())).await;
    let options = ReplicateOptions::new()
        .keep([capsule.name()])
        .mesh(&nodes[1])
        .interval(NEVER);
    let replicating = other.replicate(options);
    within(replicating.joined()).await;
    assert!(holds(&other, &capsule, names[0], "found").await);
    drop(serving);
}

#[tokio::test]
async fn one_that_does_not_answer_or_lies_does_no_harm() {
    let (one, other) = (replica(40), replica(41));
    let capsule = owner_at(&one).await;
    let names = append(&capsule, &["true"]).await;
    let gone = Peer::new([1; 32], |_| async { Err(Error::from_code(Code::Disconnected)) });
    let error = within(other.synchronise(capsule.name(), &gone))
        .await
        .expect_err("nobody is there");
    assert_eq!(error.code(), Some(Code::Disconnected));
    let noise = Peer::new([2; 32], |_| async { Ok(Bytes::from_static(&[0xff; 300])) });
    let error = within(other.synchronise(capsule.name(), &noise))
        .await
        .expect_err("it is noise");
    assert!(
        matches!(&error, Error::Core { detail, .. } if detail.starts_with("at ")),
        "{error}"
    );
    let honest = one.clone();
    let liar = Peer::new([3; 32], move |message| {
        let honest = honest.clone();
        async move {
            let mut response = honest.request(message).await?.to_vec();
            if let Some(at) = response.windows(4).position(|bytes| bytes == b"true") {
                response[at] = b'T';
            }
            Ok(response.into())
        }
    });
    // It may end in any way but this one.
    let done = within(other.synchronise(capsule.name(), &liar)).await;
    assert!(!done.is_ok_and(|done| done.agreed));
    assert!(!holds(&other, &capsule, names[0], "True").await);
    let mixed = ReplicateOptions::new()
        .peer(gone)
        .peer(noise)
        .peer(liar)
        .peer(one.peer());
    within(
        other
            .replicate(mixed.keep([capsule.name()]).interval(NEVER))
            .joined(),
    )
    .await;
    assert!(holds(&other, &capsule, names[0], "true").await);
}

fn largest_file_in(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("a folder");
    let paths = files.map(|file| file.expect("a file").path());
    paths
        .max_by_key(|path| path.metadata().expect("a file").len())
        .expect("there is one")
}

#[tokio::test]
async fn a_flipped_byte_or_a_torn_end_in_a_file_is_found_and_healed_from_another_replica() {
    let healthy = replica(50);
    let capsule = owner_at(&healthy).await;
    let texts: Vec<String> = (0..200).map(|number| format!("record {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let names = append(&capsule, &texts).await;
    let folder = tempfile::tempdir().expect("a folder");
    let keep = || {
        ReplicateOptions::new()
            .keep([capsule.name()])
            .peer(healthy.peer())
            .interval(NEVER)
    };
    let fill = async || {
        let replica = Replica::open(folder.path()).expect("a replica");
        within(replica.replicate(keep()).joined()).await;
        replica
    };
    within(fill().await.close()).await;
    let store = folder.path().join(CAPSULES_FOLDER);
    for part in 0..24 {
        let file = largest_file_in(&store.join("runs/tables"));
        let mut bytes = std::fs::read(&file).expect("the file");
        let place = bytes.len() / 24 * part;
        if part % 4 == 3 {
            bytes.truncate(place + 1);
        } else {
            bytes[place + 7] ^= 0x40;
        }
        std::fs::write(&file, bytes).expect("the file");
        match Replica::open(folder.path()) {
            Err(Error::Store(StoreError::Corrupt { path, .. })) => assert_eq!(path, file),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!(
                "byte {place} of {} is not the one that was written",
                file.display()
            ),
        }
        std::fs::remove_dir_all(&store).expect("it is moved away");
        let replica = fill().await;
        for (name, text) in names.iter().zip(&texts).step_by(67) {
            assert!(holds(&replica, &capsule, *name, text).await, "{text}");
        }
        within(replica.close()).await;
    }
}
