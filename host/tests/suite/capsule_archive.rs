//! Whole capsules as files: written by any replica byte for byte the same, and stored only as far as they are right.

use std::path::Path;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use selfsame_host::capsule::{
    Capsule, CapsuleKey, CapsuleServer, Content, Export, ExportInfo, Import, Peer, Plan, RecordName,
    WriteOptions, verify_export,
};
use selfsame_host::{Code, Error, Replica, Seed};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::common::within;

const FILE_TYPE: &str = "application/vnd.selfsame.capsule-file";

fn seed(number: u8) -> Seed {
    Seed::from_bytes([number; 32])
}

fn replica(number: u8) -> Replica {
    Replica::in_memory(&seed(number)).expect("a replica")
}

fn server(replica: &Replica) -> CapsuleServer {
    CapsuleServer::new(CapsuleKey(replica.key()), replica.peer())
}

/// A capsule with branches, a merge, sub-records and a large record.
async fn filled(replica: &Replica) -> (Capsule, Vec<RecordName>) {
    let metadata = Plan::new("to be kept").sealed().sign(&seed(1)).expect("metadata");
    let builder = Capsule::builder().in_memory().metadata(metadata).seed(seed(1));
    let capsule = within(builder.server(server(replica)).open())
        .await
        .expect("a client");
    within(capsule.create()).await.expect("it is created");
    let texts = (0..300).map(|number| format!("record {number}").into_bytes());
    let mut names = within(capsule.append(texts, WriteOptions::new()))
        .await
        .expect("records");
    names.extend(
        within(capsule.append([vec![7; 1 << 19]], WriteOptions::new()))
            .await
            .expect("a record"),
    );
    within(capsule.begin(Some(names[100]))).await.expect("a branch");
    let merge = WriteOptions::new().merge([names[200]]);
    let parts = vec![b"part".to_vec(); 10];
    names.push(within(capsule.commit(parts, merge)).await.expect("a record"));
    (capsule, names)
}

/// Bytes after the last record of a file without holes: a mark, how many records there are, and how many holes.
const END: usize = 1 + 8 + 4;

async fn exported(capsule: &Capsule, peer: &Peer) -> Result<(Vec<u8>, ExportInfo), Error> {
    let mut export = Export::begin(capsule.name(), peer)?;
    let mut file = Vec::new();
    while let Some(bytes) = within(export.next()).await? {
        file.extend_from_slice(&bytes);
    }
    Ok((file, export.info().expect("it has ended")))
}

async fn imported(file: &[u8], peer: &Peer, chunk: usize) -> Result<ExportInfo, Error> {
    let mut import = Import::begin(peer)?;
    for bytes in file.chunks(chunk) {
        within(import.push(bytes)).await?;
    }
    within(import.finish()).await
}

#[tokio::test]
async fn a_file_is_verified_stored_read_and_written_again_byte_for_byte() {
    let (one, other) = (replica(10), replica(11));
    let (capsule, names) = filled(&one).await;
    let (file, info) = exported(&capsule, &one.peer()).await.expect("a file");
    assert_eq!((info.capsule, info.records, info.holes), (capsule.name(), 302, 0));
    assert_eq!(verify_export(file.as_slice()).expect("it is right"), info);
    assert_eq!(
        imported(&file, &other.peer(), 100_000)
            .await
            .expect("it is stored"),
        info
    );
    let builder = Capsule::builder().in_memory().name(capsule.name()).seed(seed(1));
    let reader = within(builder.server(server(&other)).open())
        .await
        .expect("a client");
    for (number, name) in names[..300].iter().enumerate().step_by(43) {
        let record = within(reader.read(*name)).await.expect("a record");
        assert_eq!(
            record.content,
            Content::Bytes(format!("record {number}").into_bytes())
        );
    }
    let (again, _) = exported(&capsule, &other.peer()).await.expect("a file");
    assert!(again == file, "both hold the same");
}

#[tokio::test]
async fn over_http_a_file_of_a_foreign_owner_is_forbidden() {
    let metadata = Plan::new("").sign(&seed(1)).expect("metadata");
    let one = replica(23);
    let name = within(one.hold(&metadata)).await.expect("a capsule");
    let get = Request::get(format!("/{name}")).body(Full::<Bytes>::default());
    let given = within(one.service().oneshot(get.expect("a request"))).await;
    let file = within(given.expect("an answer").into_body().collect()).await;
    let owners = Replica::builder().owners([CapsuleKey([7; 32])]);
    let other = owners.in_memory(&seed(24)).expect("a replica");
    let post = Request::post("/")
        .header("content-type", FILE_TYPE)
        .body(Full::new(file.expect("a file").to_bytes()));
    let refused = within(other.service().oneshot(post.expect("a request"))).await;
    let refused = refused.expect("an answer");
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(!refused.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn over_http_a_file_is_given_and_taken() {
    let (one, other) = (replica(20), replica(21));
    let (capsule, _) = filled(&one).await;
    let name = capsule.name();
    let get = |path: String| {
        Request::get(path)
            .body(Full::<Bytes>::default())
            .expect("a request")
    };
    let response = within(one.service().oneshot(get(format!("/capsules/{name}"))))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], FILE_TYPE);
    let file = within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    assert_eq!(file, exported(&capsule, &one.peer()).await.expect("a file").0);
    let post = |body: Bytes| {
        let request = Request::post("/")
            .header("content-type", FILE_TYPE)
            .body(Full::new(body));
        other.service().oneshot(request.expect("a request"))
    };
    let mut wrong = file.to_vec();
    wrong[file.len() / 2] ^= 1;
    let response = within(post(wrong.into())).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let said = within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    assert!(
        said["error"].is_string() && said["at"].as_u64() <= Some(file.len() as u64),
        "{said}"
    );
    let response = within(post(file)).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let said = within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!(
        (&said["capsule"], &said["records"]),
        (&name.to_string().into(), &302.into())
    );
    let missing = within(replica(22).service().oneshot(get(format!("/{name}"))))
        .await
        .expect("an answer");
    let said = within(missing.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!(said["error"], "NoCapsule");
}

#[tokio::test]
async fn a_replica_that_lies_makes_no_file() {
    let honest = replica(30);
    let (capsule, _) = filled(&honest).await;
    let lies = Peer::new([0; 32], move |message| {
        let honest = honest.clone();
        async move {
            let mut response = honest.request(message).await?.to_vec();
            // The body of the last record: answers that only say what there is are shorter.
            if let Some(last) = response.len().checked_sub(2).filter(|_| response.len() > 400) {
                response[last] ^= 1;
            }
            Ok(response.into())
        }
    });
    exported(&capsule, &lies).await.expect_err("it is false");
    let nobody = Peer::new([0; 32], |_| async { Err(Error::from_code(Code::Disconnected)) });
    let error = exported(&capsule, &nobody).await.expect_err("nobody is there");
    assert_eq!(error.code(), Some(Code::Disconnected));
}

#[tokio::test]
async fn what_a_damaged_file_says_after_the_damage_is_not_stored() {
    let one = replica(40);
    let (capsule, _) = filled(&one).await;
    let (file, whole) = exported(&capsule, &one.peer()).await.expect("a file");
    for at in (0..file.len()).step_by(file.len() / 20) {
        let mut wrong = file.clone();
        wrong[at] ^= 0x20;
        let other = replica(41);
        let error = imported(&wrong, &other.peer(), 4096)
            .await
            .expect_err("a byte is wrong");
        assert!(
            error.place().is_some_and(|place| place <= file.len() as u64),
            "byte {at}: {error}"
        );
        if let Ok((part, info)) = exported(&capsule, &other.peer()).await {
            let has_all = at >= file.len() - END;
            assert!(info.records < whole.records || has_all, "byte {at}");
            verify_export(part.as_slice()).expect("what is there is right");
        }
    }
    let other = replica(42);
    let error = imported(b"what is no file", &other.peer(), 4096)
        .await
        .expect_err("it is none");
    assert_eq!((error.code(), error.place()), (Some(Code::BadFile), Some(0)));
    assert_eq!(other.capsules(), []);
    verify_export(std::fs::File::open(Path::new("Cargo.toml")).expect("a file")).expect_err("it is none");
}
