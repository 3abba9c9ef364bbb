//! Whoever sends bodies that do not end, or reads no file to its end, takes nothing of others.

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Empty, Full};
use selfsame_host::capsule::Plan;
use selfsame_host::{BoxError, CapsuleName, MAX_CAPSULE_REQUEST, Replica, ReplicaBody, Seed};
use tower::ServiceExt as _;

use crate::common::within;

const STRANGER: &str = "192.0.2.1:1000";
const OTHER: &str = "198.51.100.1:1000";
const FILE_TYPE: &str = "application/vnd.selfsame.capsule-file";
/// Longer than a request may take to arrive, or a file may stall.
const LONG: Duration = Duration::from_secs(61);

/// A body that brings what is left of it, and then nothing for ever
struct Stalled {
    left: usize,
    announced: u64,
}

impl Body for Stalled {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return Poll::Pending;
        }
        let piece = self.left.min(1 << 16);
        self.left -= piece;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; piece])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}

/// The longest request, of which so many bytes come.
fn stalled(left: usize) -> Stalled {
    Stalled {
        left,
        announced: MAX_CAPSULE_REQUEST as u64,
    }
}

type Answering = BoxFuture<'static, Response<ReplicaBody>>;

fn ask<B>(replica: &Replica, from: &str, request: Request<B>) -> Answering
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let (mut head, body) = request.into_parts();
    let from: SocketAddr = from.parse().expect("an address");
    head.extensions.insert(from);
    let answer = replica.service().oneshot(Request::from_parts(head, body));
    answer.map(|answer| answer.expect("an answer")).boxed()
}

fn post<B>(replica: &Replica, from: &str, body: B) -> Answering
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    ask(replica, from, Request::post("/").body(body).expect("a request"))
}

fn upload<B>(replica: &Replica, from: &str, body: B) -> Answering
where
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let request = Request::post("/").header("content-type", FILE_TYPE).body(body);
    ask(replica, from, request.expect("a request"))
}

fn download(replica: &Replica, from: &str, name: CapsuleName) -> Answering {
    let request = Request::get(format!("/{name}")).body(Empty::<Bytes>::new());
    ask(replica, from, request.expect("a request"))
}

fn replica() -> Replica {
    Replica::in_memory(&Seed::from_bytes([100; 32])).expect("a replica")
}

/// Starts what does not end.
fn begin(requests: &mut [Answering]) {
    for request in requests {
        assert!(request.now_or_never().is_none());
    }
}

/// Nonsense that is short enough to be taken.
fn short() -> Full<Bytes> {
    Full::new(Bytes::from_static(&[0; 100]))
}

#[tokio::test]
async fn one_source_waits_for_its_own_requests_alone() {
    let replica = replica();
    let mut flood: Vec<_> = (0..1000)
        .map(|_| post(&replica, STRANGER, stalled(MAX_CAPSULE_REQUEST / 2)))
        .collect();
    begin(&mut flood);
    let mut own = post(&replica, STRANGER, short());
    assert!((&mut own).now_or_never().is_none());
    assert_eq!(
        within(post(&replica, OTHER, short())).await.status(),
        StatusCode::OK
    );
    // Had it not waited, it would have been answered first.
    assert!((&mut own).now_or_never().is_none());
    drop(flood);
    assert_eq!(within(own).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn what_many_sources_announce_takes_nothing_of_others() {
    let replica = replica();
    let sources = (0..200).map(|number| format!("10.0.{number}.1:1000"));
    let mut flood: Vec<_> = sources
        .flat_map(|from| [(); 2].map(|()| post(&replica, &from, stalled(1))))
        .collect();
    begin(&mut flood);
    assert_eq!(
        within(post(&replica, OTHER, short())).await.status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn bytes_of_all_sources_together_are_bounded() {
    let replica = replica();
    let sources = (0..8).map(|number| format!("10.0.{number}.1:1000"));
    let mut flood: Vec<_> = sources
        .map(|from| post(&replica, &from, stalled(MAX_CAPSULE_REQUEST)))
        .collect();
    begin(&mut flood);
    let refused = within(post(&replica, OTHER, short())).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    flood.pop();
    assert_eq!(
        within(post(&replica, OTHER, short())).await.status(),
        StatusCode::OK
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let replica = replica();
    assert_eq!(
        post(&replica, STRANGER, stalled(1000)).await.status(),
        StatusCode::REQUEST_TIMEOUT
    );
    assert_eq!(
        upload(&replica, STRANGER, stalled(0)).await.status(),
        StatusCode::REQUEST_TIMEOUT
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_others_of_its_source_is_refused_as_too_many() {
    let replica = replica();
    let mut flood: Vec<_> = (0..2)
        .map(|_| post(&replica, STRANGER, stalled(MAX_CAPSULE_REQUEST)))
        .collect();
    begin(&mut flood);
    let refused = post(&replica, STRANGER, short()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn one_source_takes_half_of_the_places_for_files() {
    let replica = replica();
    let mut flood: Vec<_> = (0..2).map(|_| upload(&replica, STRANGER, stalled(0))).collect();
    begin(&mut flood);
    let refused = within(upload(&replica, STRANGER, short())).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let taken = within(upload(&replica, OTHER, short())).await;
    assert_eq!(taken.status(), StatusCode::BAD_REQUEST, "this is no file");
}

#[tokio::test]
async fn a_file_that_nobody_reads_gives_its_place_back() {
    let replica = replica();
    let metadata = Plan::new("").sign(&Seed::from_bytes([1; 32])).expect("metadata");
    let name = within(replica.hold(&metadata)).await.expect("a capsule");
    let mut unread = Vec::new();
    for _ in 0..2 {
        let answer = within(download(&replica, STRANGER, name)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        unread.push(answer);
    }
    let refused = within(download(&replica, STRANGER, name)).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    // A file that is made yet stalls later.
    loop {
        tokio::time::pause();
        tokio::time::advance(LONG).await;
        tokio::time::resume();
        if within(download(&replica, STRANGER, name)).await.status() == StatusCode::OK {
            break;
        }
    }
}
