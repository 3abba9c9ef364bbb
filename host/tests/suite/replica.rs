//! A replica of capsules in the host: the same bytes as anywhere, over HTTP and in the mesh, and nothing lost.

use std::path::Path;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use selfsame_host::capsule::{CapsuleKey, Plan, public_key, verify_export};
use selfsame_host::{
    CapsuleName, Code, Ended, FetchOptions, MAX_CAPSULE_REQUEST, MemoryStore, Owner, Replica, ReplicaService,
    Seed, ServeOptions, Storage, StoreError,
};
use selfsame_write_batch::WriteBatch;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tower::ServiceExt as _;

use crate::common::nodes::ring;
use crate::common::within;

/// What every replica answers, at the time and with the key that it names.
fn conversation() -> Value {
    serde_json::from_str(include_str!("../../../runtime/test/capsule-conversation.json")).expect("JSON")
}

fn unhex(value: &Value) -> Bytes {
    let text = value.as_str().expect("text");
    Bytes::from(HEXLOWER.decode(text.as_bytes()).expect("hex"))
}

fn seed() -> Seed {
    let bytes = unhex(&conversation()["seed"]);
    Seed::from_bytes(bytes.as_ref().try_into().expect("32 bytes"))
}

fn exchange(what: &str) -> (Bytes, Bytes) {
    let conversation = conversation();
    let exchanges = conversation["exchanges"].as_array().expect("a list");
    let found = exchanges
        .iter()
        .find(|one| one["what"] == what)
        .expect("it is there");
    (unhex(&found["request"]), unhex(&found["response"]))
}

fn code_of(response: &[u8]) -> u16 {
    u16::from_le_bytes([response[1], response[2]])
}

/// A response without what depends on the time: the signature, and when it was made.
fn timeless(response: &[u8]) -> &[u8] {
    const ACKNOWLEDGEMENT: usize = 8 + 32 + 64 + 2;
    let split = response.len().checked_sub(ACKNOWLEDGEMENT + 1);
    match split.filter(|at| response[*at] == 1) {
        Some(at) => &response[..at],
        None => response,
    }
}

#[tokio::test]
async fn it_answers_like_the_replica_that_is_no_webassembly() {
    let replica = Replica::in_memory(&seed()).expect("a replica");
    for one in conversation()["exchanges"].as_array().expect("a list") {
        if one["what"] == "heads and metadata" {
            // Signed over the time.
            continue;
        }
        let response = within(replica.request(unhex(&one["request"])))
            .await
            .expect("a response");
        let expected = unhex(&one["response"]);
        // What was left out counts as a response of the session.
        let serial = if timeless(&expected).len() >= 7 && code_of(&expected) == 0 {
            3..7
        } else {
            0..0
        };
        let without = |bytes: &[u8]| [&bytes[..serial.start], &bytes[serial.end..]].concat();
        assert_eq!(
            without(timeless(&response)),
            without(timeless(&expected)),
            "{}",
            one["what"]
        );
        assert_eq!(response.len(), expected.len(), "{}", one["what"]);
    }
}

#[tokio::test]
async fn what_it_acknowledged_is_there_when_it_is_opened_again_and_so_is_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Replica::open(folder.path()).expect("a replica");
    let key = first.key();
    for what in ["a capsule", "records and a signature", "another capsule"] {
        let response = within(first.request(exchange(what).0)).await.expect("a response");
        assert_eq!(code_of(&response), 0, "{what}");
    }
    let names = first.capsules();
    assert_eq!(names.len(), 2);
    drop(first);
    let again = reopen(folder.path()).await;
    assert_eq!((again.key(), again.capsules()), (key, names));
    let (request, expected) = exchange("reading");
    let response = within(again.request(request)).await.expect("a response");
    assert_eq!(response[7..9], expected[7..9], "the first record is read");
}

/// Opens a replica as soon as the one before has closed its file.
async fn reopen(folder: &Path) -> Replica {
    within(async {
        loop {
            match Replica::open(folder) {
                Ok(replica) => return replica,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

/// A store that fails when told to
#[derive(Default)]
struct Failing {
    store: MemoryStore,
    fails: std::sync::Arc<core::sync::atomic::AtomicBool>,
}

impl Storage for Failing {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        self.store.scan(start, end, limit)
    }

    fn commit(&mut self, batch: &WriteBatch, durable: bool) -> Result<(), StoreError> {
        if self.fails.load(core::sync::atomic::Ordering::Relaxed) {
            return Err(StoreError::Io {
                path: "memory".into(),
                why: "the disk is full".into(),
            });
        }
        self.store.commit(batch, durable)
    }
}

#[tokio::test]
async fn who_waits_is_told_when_the_store_fails_and_all_works_once_it_does() {
    let store = Failing::default();
    let fails = std::sync::Arc::clone(&store.fails);
    let replica = Replica::start(&seed(), store).expect("a replica");
    within(replica.request(exchange("a capsule").0))
        .await
        .expect("a response");
    fails.store(true, core::sync::atomic::Ordering::Relaxed);
    let response = within(replica.request(exchange("records and a signature").0)).await;
    let failed = Code::StoreFailed.as_u16();
    assert_eq!(code_of(&response.expect("a response")), failed);
    fails.store(false, core::sync::atomic::Ordering::Relaxed);
    let response = within(replica.request(exchange("records and a signature").0)).await;
    assert_eq!(code_of(&response.expect("a response")), 0);
}

/// A store whose waits for the disk end when the test lets them
struct Slow {
    store: MemoryStore,
    begun: UnboundedSender<Ended>,
    fails: std::sync::Arc<core::sync::atomic::AtomicBool>,
}

impl Storage for Slow {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        self.store.scan(start, end, limit)
    }

    fn commit(&mut self, batch: &WriteBatch, durable: bool) -> Result<(), StoreError> {
        self.store.commit(batch, durable)
    }

    fn begin_sync(&mut self, ended: Ended) -> Result<bool, StoreError> {
        self.begun.send(ended).expect("the test waits");
        Ok(true)
    }

    fn end_sync(&mut self) -> Result<(), StoreError> {
        match self.fails.load(core::sync::atomic::Ordering::Relaxed) {
            true => Err(StoreError::io(Path::new("memory"), "the disk is gone")),
            false => Ok(()),
        }
    }
}

/// The disk has written: as a store, its thread says so.
fn end(ended: Ended) {
    std::thread::spawn(ended).join().expect("it is heard");
}

#[tokio::test]
async fn it_serves_others_while_the_disk_writes_and_acknowledges_once_it_has() {
    let (begun, mut waits) = unbounded_channel();
    let fails = std::sync::Arc::default();
    let store = Slow {
        store: MemoryStore::new(),
        begun,
        fails: std::sync::Arc::clone(&fails),
    };
    let replica = Replica::start(&seed(), store).expect("a replica");
    for (what, is_written) in [("a capsule", true), ("records and a signature", false)] {
        let mut writing = core::pin::pin!(replica.request(exchange(what).0));
        let ended = tokio::select! {
            _ = &mut writing => panic!("{what}: it is acknowledged before it is durable"),
            ended = waits.recv() => ended.expect("a wait for the disk"),
        };
        let read = within(replica.request(exchange("reading").0))
            .await
            .expect("a response");
        assert_ne!(code_of(&read), Code::StoreFailed.as_u16());
        tokio::select! {
            biased;
            _ = &mut writing => panic!("{what}: it is acknowledged before it is durable"),
            () = core::future::ready(()) => {}
        }
        fails.store(!is_written, core::sync::atomic::Ordering::Relaxed);
        end(ended);
        let code = code_of(&within(writing).await.expect("a response"));
        assert_eq!(code == 0, is_written, "{what}");
        assert!(is_written || code == Code::StoreFailed.as_u16(), "{code}");
    }
}

async fn send(service: ReplicaService, request: Request<Full<Bytes>>) -> (Response<()>, Bytes) {
    let response = within(service.oneshot(request)).await.expect("an answer");
    let (head, body) = response.into_parts();
    let body = within(body.collect()).await.expect("a body").to_bytes();
    (Response::from_parts(head, ()), body)
}

#[tokio::test]
async fn over_http_it_refuses_in_words_what_is_no_request() {
    let replica = Replica::in_memory(&seed()).expect("a replica");
    let post = |body: Bytes| {
        Request::post("/")
            .header("accept", "application/json")
            .body(Full::new(body))
    };
    let long = Bytes::from(vec![0; MAX_CAPSULE_REQUEST + 1]);
    let (head, body) = send(replica.service(), post(long).expect("a request")).await;
    assert_eq!(head.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let said: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(said["error"], "TooLarge");
    let (request, _) = exchange("a request that ends too early");
    let (head, body) = send(replica.service(), post(request).expect("a request")).await;
    assert_eq!(
        (head.status(), &head.headers()["content-type"]),
        (
            StatusCode::BAD_REQUEST,
            &"application/problem+json".parse().expect("a value")
        )
    );
    let said: Value = serde_json::from_slice(&body).expect("JSON");
    assert!(said["error"] == "BadMessage" && said["at"].is_u64(), "{said}");
}

#[tokio::test]
async fn over_http_another_method_is_told_those_that_a_path_has() {
    let replica = Replica::in_memory(&seed()).expect("a replica");
    let name = "a".repeat(52);
    for (method, path, allowed) in [
        ("GET", "/", "POST"),
        ("PUT", "/", "POST"),
        ("PUT", &format!("/{name}"), "GET, POST"),
        ("HEAD", &format!("/capsules/{name}"), "GET, POST"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            // A file is stored by no other method than POST.
            .header("content-type", "application/vnd.selfsame.capsule-file")
            .body(Full::default());
        let (head, body) = send(replica.service(), request.expect("a request")).await;
        assert_eq!(
            (head.status(), &head.headers()["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &allowed.parse().expect("a value")),
            "{method} {path}"
        );
        let said: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(
            said["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains("GET")),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capsule_is_found_in_the_mesh_by_its_name() {
    let nodes = ring(2).await;
    let replica = Replica::in_memory(&seed()).expect("a replica");
    within(replica.request(exchange("a capsule").0))
        .await
        .expect("a response");
    let serving = within(replica.serve_capsules(&nodes[0], ServeOptions::new()))
        .await
        .expect("it is published");
    let name = replica.capsules()[0];
    assert_eq!(name.to_string().len(), 52);
    let ask = async |request: Bytes| {
        let options = FetchOptions::new().owner(Owner::Unowned);
        let request = Request::post(format!("https://{name}.mesh/"))
            .extension(options)
            .body(Full::new(request));
        let response = within(nodes[1].fetch(request.expect("a request")))
            .await
            .expect("an answer");
        (
            response.status(),
            within(response.into_body().collect())
                .await
                .expect("a body")
                .to_bytes(),
        )
    };
    let (status, response) = ask(exchange("records and a signature").0).await;
    assert_eq!((status, code_of(&response)), (StatusCode::OK, 0));
    // Under its name no other capsule comes here.
    assert_eq!(
        ask(exchange("another capsule").0).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(replica.capsules(), [name]);
    // Whatever the path, its export file is there.
    let get = Request::get(format!("https://{name}.mesh/"))
        .extension(FetchOptions::new().owner(Owner::Unowned))
        .body(Full::<Bytes>::default());
    let given = within(nodes[1].fetch(get.expect("a request")))
        .await
        .expect("an answer");
    let file = within(given.into_body().collect()).await.expect("a body");
    let file = verify_export(file.to_bytes().as_ref()).expect("an export file");
    assert_eq!(file.capsule, name);
    drop(serving);
}

#[tokio::test]
async fn it_holds_a_capsule_that_it_is_given_by_its_metadata() {
    let (created, _) = exchange("a capsule");
    // version, capsule 32, session 16, verified u32, operation, length u32, metadata
    let name = CapsuleName(*created[1..].first_chunk().expect("a name"));
    let length = u32::from_le_bytes(*created[54..].first_chunk().expect("a length")) as usize;
    let metadata = &created[58..58 + length];
    let replica = Replica::in_memory(&seed()).expect("a replica");
    for _ in 0..2 {
        let held = within(replica.hold(metadata)).await.expect("it is held");
        assert_eq!(held, name);
    }
    assert_eq!(replica.capsules(), [name]);
    within(replica.hold(&metadata[1..]))
        .await
        .expect_err("it is no metadata");
    assert_eq!(replica.capsules(), [name]);
}

#[tokio::test]
async fn one_for_certain_owners_takes_capsules_of_nobody_else() {
    let [known, stranger] = [1, 2].map(|number| Seed::from_bytes([number; 32]));
    let metadata = |owner| Plan::new("").sign(owner).expect("metadata");
    let open = || {
        let owner = public_key(&known).expect("a key");
        Replica::builder().owners([owner])
    };
    let replica = open().in_memory(&seed()).expect("a replica");
    let refused = within(replica.hold(&metadata(&stranger))).await;
    let error = refused.expect_err("it is a stranger's");
    assert_eq!(error.code(), Some(Code::OwnerRefused));
    let held = within(replica.hold(&metadata(&known))).await.expect("it is held");
    assert_eq!(replica.capsules(), [held]);
    // Neither does one of a stranger come from another replica.
    let other = Replica::in_memory(&Seed::from_bytes([3; 32])).expect("a replica");
    let name = within(other.hold(&metadata(&stranger)))
        .await
        .expect("it is held");
    let brought = within(replica.synchronise(name, &other.peer())).await;
    let error = brought.expect_err("it is a stranger's");
    assert_eq!(error.code(), Some(Code::OwnerRefused));
    assert_eq!(replica.capsules(), [held]);
    let owners = vec![CapsuleKey([0; 32]); (1 << 15) + 1];
    let many = Replica::builder().owners(owners).in_memory(&seed());
    let error = many.expect_err("these are too many");
    assert!(error.to_string().contains("32768"), "{error}");
}

#[tokio::test]
async fn what_it_held_before_it_was_for_certain_owners_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let everybodys = Replica::open(folder.path()).expect("a replica");
    let metadata = Plan::new("").sign(&seed()).expect("metadata");
    let name = within(everybodys.hold(&metadata)).await.expect("it is held");
    within(everybodys.close()).await;
    let again = Replica::builder().owners([CapsuleKey([0; 32])]);
    let again = again.open(folder.path()).expect("a replica");
    assert_eq!(again.capsules(), [name]);
    within(again.hold(&metadata)).await.expect("it is there");
}
