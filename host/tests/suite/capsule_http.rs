//! What is wrong is named, with its place, and not stored; what is too long is not read.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Mutex;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use selfsame_host::capsule::{
    Capsule, CapsuleKey, CapsuleServer, Governing, Peer, Plan, RecordName, WriteOptions, public_key,
    reader_key,
};
use selfsame_host::{BoxError, MAX_CAPSULE_REQUEST, Replica, Seed};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::common::within;

/// Where the operations of a request begin.
const OPERATIONS: usize = 1 + 32 + 16 + 4;

fn seed(number: u8) -> Seed {
    Seed::from_bytes([number; 32])
}

fn replica() -> Replica {
    Replica::in_memory(&seed(100)).expect("a replica")
}

fn metadata() -> Vec<u8> {
    Plan::new("").sealed().sign(&seed(1)).expect("metadata")
}

/// The owner's client at a replica, and what it sends.
async fn owner_at(replica: &Replica, metadata: &[u8]) -> (Capsule, Arc<Mutex<Vec<Bytes>>>) {
    let sent: Arc<Mutex<Vec<Bytes>>> = Arc::default();
    let (seen, asked) = (Arc::clone(&sent), replica.clone());
    let peer = Peer::new([0; 32], move |message: Bytes| {
        seen.lock().expect("a list").push(message.clone());
        let asked = asked.clone();
        async move { asked.request(message).await }
    });
    let server = CapsuleServer::new(CapsuleKey(replica.key()), peer);
    let builder = Capsule::builder()
        .in_memory()
        .metadata(metadata)
        .seed(seed(1))
        .server(server);
    let capsule = within(builder.open()).await.expect("a client");
    within(capsule.create()).await.expect("it is created");
    (capsule, sent)
}

async fn post<B>(replica: &Replica, body: B) -> (StatusCode, Bytes)
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let request = Request::post("/").header("accept", "application/json").body(body);
    answer(replica, request.expect("a request")).await
}

async fn answer<B>(replica: &Replica, request: Request<B>) -> (StatusCode, Bytes)
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let response: Response<_> = within(replica.service().oneshot(request))
        .await
        .expect("an answer");
    let status = response.status();
    let body = within(response.into_body().collect()).await.expect("a body");
    (status, body.to_bytes())
}

/// What a replica holds: its proven heads and how many epoch records are in force.
async fn held(replica: &Replica, metadata: &[u8]) -> (Vec<RecordName>, u32) {
    let server = CapsuleServer::new(CapsuleKey(replica.key()), replica.peer());
    let opened = Capsule::builder()
        .in_memory()
        .metadata(metadata)
        .server(server)
        .open();
    let reader = within(opened).await.expect("a client");
    let heads = within(reader.heads()).await.expect("heads").heads;
    let epochs = within(reader.describe())
        .await
        .expect("a description")
        .epoch_records;
    (heads.iter().map(|head| head.name).collect(), epochs)
}

/// Replays what stored something, each time with another byte changed, at a replica that has the capsule and nothing else: what
/// is refused is named with its place, and what is held then is what was written or nothing.
async fn replay(create: &Bytes, storing: &Bytes, metadata: &[u8]) {
    let whole = replica();
    within(whole.request(create.clone())).await.expect("a response");
    within(whole.request(storing.clone())).await.expect("a response");
    let right = held(&whole, metadata).await;
    assert_eq!(right.0.len(), 1);
    let mut named = 0;
    for at in (OPERATIONS..storing.len()).step_by(5) {
        let mut wrong = storing.to_vec();
        wrong[at] ^= 0x81;
        let replica = replica();
        within(replica.request(create.clone())).await.expect("a response");
        let (status, body) = post(&replica, Full::new(Bytes::from(wrong))).await;
        if status == StatusCode::BAD_REQUEST || status == StatusCode::PAYLOAD_TOO_LARGE {
            let said: Value = serde_json::from_slice(&body).expect("JSON");
            let place = said["at"].as_u64().expect("a place");
            assert!(
                said["error"].is_string() && place <= storing.len() as u64,
                "{said}"
            );
            named += 1;
        } else {
            assert_eq!(status, StatusCode::OK, "byte {at}");
        }
        let found = held(&replica, metadata).await;
        let nothing = (Vec::new(), 0);
        assert!(found == right || found == nothing, "byte {at}: {found:?}");
        if status != StatusCode::OK {
            assert_eq!(found, nothing, "byte {at}");
        }
    }
    assert!(named > 0, "some bytes make a request that does not decode");
}

#[tokio::test]
async fn a_record_or_signature_with_a_byte_changed_is_refused_and_not_stored() {
    let metadata = metadata();
    let (owner, sent) = owner_at(&replica(), &metadata).await;
    let create = sent.lock().expect("a list").last().expect("a request").clone();
    let written = within(owner.append([b"one".to_vec(), b"two".to_vec()], WriteOptions::new())).await;
    written.expect("they are written");
    let storing = sent.lock().expect("a list").last().expect("a request").clone();
    replay(&create, &storing, &metadata).await;
}

#[tokio::test]
async fn a_grant_or_epoch_record_with_a_byte_changed_is_refused_and_not_stored() {
    let metadata = metadata();
    let (owner, sent) = owner_at(&replica(), &metadata).await;
    let create = sent.lock().expect("a list").last().expect("a request").clone();
    let change = Governing {
        add: vec![public_key(&seed(2)).expect("a key")],
        readers: vec![reader_key(&seed(2)).expect("a key")],
        ..Governing::default()
    };
    within(owner.govern(&change)).await.expect("an epoch record");
    let storing = sent.lock().expect("a list").last().expect("a request").clone();
    replay(&create, &storing, &metadata).await;
}

/// A body that says how long it is, or does not, and counts what is read of it
struct Endless {
    announced: Option<u64>,
    read: Arc<Mutex<usize>>,
}

impl Body for Endless {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = Bytes::from_static(&[0; 1 << 16]);
        *self.read.lock().expect("a number") += piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        self.announced
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read_whole() {
    let replica = replica();
    let limit = MAX_CAPSULE_REQUEST as u64;
    for (announced, most) in [(Some(limit + 1), 0), (None, MAX_CAPSULE_REQUEST + (1 << 16))] {
        let read = Arc::default();
        let endless = Endless {
            announced,
            read: Arc::clone(&read),
        };
        let (status, body) = post(&replica, endless).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        let said: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(said["error"], "TooLarge");
        assert!(*read.lock().expect("a number") <= most);
    }
    assert_eq!(replica.capsules(), []);
}
