//! A client of a capsule in the host: what it writes, what it believes, and what it does not forget.

use bytes::Bytes;
use selfsame_host::capsule::{
    Capsule, CapsuleBuilder, CapsuleKey, CapsuleServer, Content, Governing, HashFunction, Peer, Plan,
    RecordKind, Revocation, Timing, WriteOptions, describe, public_key, reader_key, verify_proof,
};
use selfsame_host::{Code, Error, Replica, Seed, ServeOptions};

use crate::common::nodes::ring;
use crate::common::within;

fn seed(number: u8) -> Seed {
    Seed::from_bytes([number; 32])
}

fn replicas(count: u8) -> Vec<Replica> {
    let replica = |number| Replica::in_memory(&seed(100 + number)).expect("a replica");
    (0..count).map(replica).collect()
}

fn server(replica: &Replica) -> CapsuleServer {
    CapsuleServer::new(CapsuleKey(replica.key()), replica.peer())
}

/// A client through these replicas, which keeps nothing.
fn through(replicas: &[Replica]) -> CapsuleBuilder {
    replicas
        .iter()
        .fold(Capsule::builder().in_memory(), |builder, replica| {
            builder.server(server(replica))
        })
}

/// A capsule of owner 1 at these replicas.
async fn created(plan: Plan, replicas: &[Replica]) -> Capsule {
    let metadata = plan.sign(&seed(1)).expect("metadata");
    let opened = through(replicas).metadata(metadata).seed(seed(1)).open();
    let capsule = within(opened).await.expect("a client");
    within(capsule.create()).await.expect("it is created");
    capsule
}

/// A client of the same capsule with another seed.
async fn joined(capsule: &Capsule, replicas: &[Replica], number: u8) -> Capsule {
    let opened = through(replicas).name(capsule.name()).seed(seed(number)).open();
    within(opened).await.expect("a client")
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn content(text: &str) -> Content {
    Content::Bytes(text.as_bytes().to_vec())
}

#[tokio::test]
async fn what_one_client_writes_another_reads_and_proves() {
    let replicas = replicas(3);
    let plan = Plan::new("a diary").hash(HashFunction::Sha256);
    let owner = created(plan, &replicas).await;
    let names = within(owner.append(texts(&["one", "two", "three"]), WriteOptions::new()))
        .await
        .expect("they are written");
    let reader = within(through(&replicas).name(owner.name()).open())
        .await
        .expect("a client");
    let record = within(reader.read(names[1])).await.expect("a record");
    assert_eq!((record.name, &record.content), (names[1], &content("two")));
    assert_eq!((record.header.writer, record.header.kind), (0, RecordKind::Plain));
    assert_eq!(record.header.backpointers[0], names[0]);
    let heads = within(reader.heads()).await.expect("heads");
    assert_eq!(
        heads.heads.iter().map(|head| head.name).collect::<Vec<_>>(),
        [names[2]]
    );
    assert!(heads.agreed() && heads.answers.len() >= 2 && heads.refused.is_empty());
    let file = within(reader.prove(names[0], true)).await.expect("a file");
    let proof = verify_proof(&file).expect("it verifies");
    assert_eq!((proof.capsule, proof.record), (owner.name(), names[0]));
    assert_eq!(proof.body.as_deref(), Some(&b"one"[..]));
    let described = within(reader.describe()).await.expect("a description");
    let info = describe(&described.metadata).expect("metadata");
    assert_eq!(
        (info.description.as_str(), info.hash),
        ("a diary", HashFunction::Sha256)
    );
    assert_eq!(described.writers, [(0, public_key(&seed(1)).expect("a key"))]);
}

#[tokio::test]
async fn a_proof_file_with_any_byte_flipped_is_refused_with_its_place() {
    let replicas = replicas(1);
    let owner = created(Plan::new(""), &replicas).await;
    let written = within(owner.append(texts(&["one"]), WriteOptions::new())).await;
    let file = within(owner.prove(written.expect("a record")[0], true))
        .await
        .expect("a file");
    for at in (0..file.len()).step_by(7) {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        let error = verify_proof(&bad).expect_err("a byte is wrong");
        assert!(
            matches!(&error, Error::Core { detail, .. } if detail.starts_with("at ")),
            "{at}: {error}"
        );
    }
    verify_proof(&file[..file.len() - 1]).expect_err("it is cut short");
}

#[tokio::test]
async fn sub_records_are_read_one_by_one() {
    let replicas = replicas(1);
    let owner = created(Plan::new("").sealed(), &replicas).await;
    let parts: Vec<Vec<u8>> = (0..100_u32).map(|part| part.to_string().into_bytes()).collect();
    let name = within(owner.commit(parts.clone(), WriteOptions::new()))
        .await
        .expect("a record");
    assert_eq!(within(owner.subrecords(name)).await.expect("a count"), 100);
    let some = within(owner.read_parts(name, &[0, 99, 17])).await.expect("parts");
    assert_eq!(some, texts(&["0", "99", "17"]));
    let whole = within(owner.read(name)).await.expect("a record");
    assert_eq!(whole.content, Content::Parts(parts));
    let refused = within(owner.read_parts(name, &[100])).await;
    refused.expect_err("there is no such part");
}

#[tokio::test]
async fn what_is_not_signed_is_not_proven_until_it_is() {
    let replicas = replicas(2);
    let owner = created(Plan::new(""), &replicas).await;
    let written = within(owner.append(texts(&["later"]), WriteOptions::new().unsigned())).await;
    let name = written.expect("a record")[0];
    let reader = joined(&owner, &replicas, 9).await;
    let unread = within(reader.read(name)).await.expect_err("it is not signed");
    assert_eq!(unread.code(), Some(Code::Unproven));
    within(owner.sign()).await.expect("it is signed");
    assert_eq!(
        within(reader.read(name)).await.expect("a record").content,
        content("later")
    );
}

#[tokio::test]
async fn branches_are_merged() {
    let replicas = replicas(1);
    let owner = created(Plan::new(""), &replicas).await;
    let root = within(owner.append(texts(&["root"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    let one = within(owner.append(texts(&["one"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    let position = within(owner.begin(Some(root))).await.expect("a branch");
    assert!(
        position.after == Some(root) && position.sequence > 1,
        "{position:?}"
    );
    let other = within(owner.append(texts(&["other"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    assert_eq!(within(owner.heads()).await.expect("heads").heads.len(), 2);
    let merge = WriteOptions::new().merge([one]);
    let merged = within(owner.append(texts(&["merged"]), merge))
        .await
        .expect("a record")[0];
    let heads = within(owner.heads()).await.expect("heads");
    assert_eq!(heads.heads.len(), 1);
    assert_eq!(heads.heads[0].name, merged);
    assert_eq!(heads.heads[0].header.backpointers, [other, one]);
}

#[tokio::test]
async fn the_owner_says_who_writes_and_who_reads() {
    let replicas = replicas(1);
    let owner = created(Plan::new("").sealed(), &replicas).await;
    let guest = joined(&owner, &replicas, 2).await;
    let refused = within(guest.append(texts(&["hello"]), WriteOptions::new())).await;
    assert_eq!(refused.expect_err("it may not").code(), Some(Code::NotAWriter));
    let change = Governing {
        add: vec![public_key(&seed(2)).expect("a key")],
        readers: vec![reader_key(&seed(2)).expect("a key")],
        ..Governing::default()
    };
    within(owner.govern(&change)).await.expect("an epoch record");
    let guest = joined(&owner, &replicas, 2).await;
    let hello = within(guest.append(texts(&["hello"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    assert_eq!(
        within(owner.read(hello)).await.expect("a record").content,
        content("hello")
    );
    let stranger = joined(&owner, &replicas, 3).await;
    let closed = within(stranger.read(hello)).await.expect_err("it is sealed");
    assert_eq!(closed.code(), Some(Code::NotAReader));
    let revoke = Governing {
        revoke: vec![Revocation {
            writer: 1,
            heads: vec![hello],
        }],
        ..Governing::default()
    };
    within(owner.govern(&revoke)).await.expect("an epoch record");
    let refused = within(guest.append(texts(&["again"]), WriteOptions::new())).await;
    refused.expect_err("it is revoked");
    assert_eq!(
        within(owner.read(hello)).await.expect("a record").content,
        content("hello")
    );
}

#[tokio::test]
async fn a_writer_that_is_opened_again_goes_on_where_it_was() {
    let replicas = replicas(1);
    let folder = tempfile::tempdir().expect("a folder");
    let metadata = Plan::new("").sign(&seed(1)).expect("metadata");
    let open = async || {
        let builder = Capsule::builder()
            .metadata(metadata.clone())
            .seed(seed(1))
            .server(server(&replicas[0]))
            .storage(folder.path());
        within(builder.open()).await
    };
    let first = open().await.expect("a client");
    within(first.create()).await.expect("it is created");
    let one = within(first.append(texts(&["one"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    let second = open().await.expect_err("another client has the file");
    assert!(second.to_string().contains("in use"), "{second}");
    within(first.close()).await;
    let again = open().await.expect("a client");
    let two = within(again.append(texts(&["two"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    let header = within(again.read(two)).await.expect("a record").header;
    assert_eq!(header.backpointers[0], one);
    assert!(header.sequence > 0);
}

#[tokio::test]
async fn a_server_that_lies_is_found_out_and_another_one_is_asked() {
    let replicas = replicas(2);
    let owner = created(Plan::new(""), &replicas).await;
    let name = within(owner.append(texts(&["true"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    let liar = replicas[0].clone();
    let lies = Peer::new([0; 32], move |message: Bytes| {
        let liar = liar.clone();
        async move {
            let mut response = liar.request(message).await?.to_vec();
            if let Some(at) = response.windows(4).position(|bytes| bytes == b"true") {
                response[at..at + 4].copy_from_slice(b"lies");
            }
            Ok(response.into())
        }
    });
    let both = Capsule::builder()
        .in_memory()
        .name(owner.name())
        .server(CapsuleServer::new(CapsuleKey(replicas[0].key()), lies.clone()))
        .server(server(&replicas[1]));
    let reader = within(both.open()).await.expect("a client");
    assert_eq!(
        within(reader.read(name)).await.expect("a record").content,
        content("true")
    );
    let alone = Capsule::builder()
        .in_memory()
        .name(owner.name())
        .server(CapsuleServer::new(CapsuleKey(replicas[0].key()), lies));
    let reader = within(alone.open()).await.expect("a client");
    within(reader.read(name)).await.expect_err("there is nobody else");
}

#[tokio::test]
async fn without_enough_servers_nothing_counts_as_written() {
    let replicas = replicas(1);
    let gone = CapsuleServer::new(
        public_key(&seed(50)).expect("a key"),
        Peer::new([0; 32], |_| async { Err(Error::from_code(Code::Disconnected)) }),
    );
    let timing = Timing {
        deadline: core::time::Duration::from_millis(300),
        ..Timing::default()
    };
    let opened = through(&replicas)
        .server(gone)
        .metadata(Plan::new("").sign(&seed(1)).expect("metadata"))
        .seed(seed(1))
        .timing(timing)
        .open();
    let capsule = within(opened).await.expect("a client");
    let error = within(capsule.create()).await.expect_err("one of two is too few");
    assert_eq!(error.code(), Some(Code::NoQuorum));
}

/// A client through servers that were named without their keys: these replicas, one that refuses, and one that hangs.
fn through_unknown(replicas: &[Replica]) -> CapsuleBuilder {
    let refuses = Peer::new([1; 32], |_| async { Err(Error::from_code(Code::Disconnected)) });
    let hangs = Peer::new([2; 32], |_| core::future::pending());
    let known = replicas.iter().map(Replica::peer);
    let timing = Timing {
        attempt: core::time::Duration::from_millis(300),
        ..Timing::default()
    };
    known
        .chain([refuses, hangs])
        .fold(Capsule::builder().in_memory(), |builder, peer| {
            builder.server(CapsuleServer::unknown(peer))
        })
        .metadata(Plan::new("").sign(&seed(1)).expect("metadata"))
        .seed(seed(1))
        .timing(timing)
}

#[tokio::test]
async fn servers_that_do_not_say_who_they_are_count_as_without_the_capsule() {
    let error = within(through_unknown(&replicas(2)).open())
        .await
        .expect_err("two of four are too few");
    assert_eq!(error.code(), Some(Code::NoQuorum));
    for place in ["01".repeat(32), "02".repeat(32)] {
        assert!(error.to_string().contains(&place), "{error}");
    }
    let replicas = replicas(3);
    let owner = within(through_unknown(&replicas).open())
        .await
        .expect("three of five are enough");
    within(owner.create()).await.expect("it is created");
    let name = within(owner.append(texts(&["three times"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    for replica in &replicas {
        let alone = through(core::slice::from_ref(replica)).name(owner.name());
        let reader = within(alone.open()).await.expect("a client");
        within(reader.read(name)).await.expect("each has it");
    }
}

#[tokio::test]
async fn server_that_is_named_twice_is_told() {
    let replicas = replicas(1);
    let twice = through(&[replicas[0].clone(), replicas[0].clone()]);
    let error = within(
        twice
            .metadata(Plan::new("").sign(&seed(1)).expect("metadata"))
            .open(),
    )
    .await
    .expect_err("it counts once");
    assert!(error.to_string().contains("name each once"), "{error}");
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let error = within(Capsule::builder().in_memory().open())
        .await
        .expect_err("no capsule");
    assert!(error.to_string().contains("which capsule"), "{error}");
    let metadata = Plan::new("").sign(&seed(1)).expect("metadata");
    let nobody = Capsule::builder().in_memory().metadata(metadata.clone()).open();
    let error = within(nobody).await.expect_err("no server");
    assert!(error.to_string().contains("who serves"), "{error}");
    let replicas = replicas(1);
    let nowhere = Capsule::builder()
        .server(server(&replicas[0]))
        .metadata(metadata.clone())
        .open();
    let error = within(nowhere).await.expect_err("no store");
    assert!(error.to_string().contains("in_memory"), "{error}");
    let many = through(&replicas).metadata(metadata).write_quorum(2).open();
    let error = within(many).await.expect_err("a quorum of more than there are");
    assert!(error.to_string().contains("1 to 1"), "{error}");
    Peer::at("ftp://x/").expect_err("no URL of HTTP");
    let long = Plan::new("x".repeat(1025)).sign(&seed(1));
    long.expect_err("the description is too long");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_found_in_the_mesh_by_the_capsule_s_name() {
    let nodes = ring(2).await;
    let replicas = replicas(1);
    let owner = created(Plan::new(""), &replicas).await;
    let name = within(owner.append(texts(&["found"]), WriteOptions::new()))
        .await
        .expect("a record")[0];
    let serving = within(replicas[0].serve_capsules(&nodes[0], ServeOptions::new())).await;
    let opened = Capsule::builder()
        .in_memory()
        .name(owner.name())
        .mesh(&nodes[1])
        .open();
    let reader = within(opened).await.expect("a client");
    assert_eq!(reader.servers(), [CapsuleKey(replicas[0].key())]);
    assert_eq!(
        within(reader.read(name)).await.expect("a record").content,
        content("found")
    );
    drop(serving);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capsule_is_opened_in_a_task_of_its_own() {
    let replicas = replicas(1);
    let metadata = Plan::new("a diary").sign(&seed(1)).expect("metadata");
    let opened = through(&replicas).metadata(metadata).seed(seed(1)).open();
    let opened = within(tokio::spawn(opened)).await.expect("a task");
    within(opened.expect("a client").create())
        .await
        .expect("it is created");
}
