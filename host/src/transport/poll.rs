//! The dialling side of an exchange path: frames go out in POSTs and come back in their answers.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::address::Address;
use super::connect::{Connector, Io};
use super::exchange::{CONTENT, MAX_BODY, PATH_HEADER};
use super::frames::{FrameReader, write_frame};
use crate::error::root_cause;
use crate::handle::{Handle, Inbound};
use crate::keys::random_bytes;
use crate::link::{LinkEnd, Outgoing};

/// Most POSTs of one path at once, so that later frames need not wait for an answer that is held open.
const MAX_POSTS: usize = 6;
/// The answering side holds an answer for 20 s; one that takes longer has failed.
const POST_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between polls that bring nothing, so that a side that does not hold its answers is not asked in a loop.
const POLL_PAUSE: Duration = Duration::from_millis(500);

/// Sends requests over connections that the host opens.
pub(crate) type PostClient = Client<Sockets, Full<Bytes>>;

/// A client whose connections are opened and checked by ours.
pub(crate) fn client(connector: Connector) -> PostClient {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_timer(TokioTimer::new())
        .build(Sockets(connector))
}

/// Sends frames and receives frames until the path closes.
///
/// # Errors
/// Why a POST failed, with which the path ends.
pub(super) async fn run(
    client: &PostClient,
    address: &Address,
    path: u32,
    driver: &Handle,
    mut link: LinkEnd,
) -> Result<(), String> {
    let token = random_bytes::<16>().map_err(|error| error.to_string())?;
    let post = Arc::new(Post {
        client: client.clone(),
        url: address.url(),
        token: data_encoding::HEXLOWER.encode(&token),
        path,
        driver: driver.clone(),
    });
    let mut posts = JoinSet::new();
    let mut state = Waiting {
        busy: false,
        poll_at: Instant::now(),
    };
    let mut killed = core::pin::pin!(link.take_killed());
    loop {
        let may_poll = state.busy && posts.is_empty();
        let first = tokio::select! {
            item = link.recv(), if posts.len() < MAX_POSTS => match item {
                None => break,
                Some(Outgoing::Busy(busy)) => { state.busy = busy; continue }
                Some(Outgoing::Frame(frame)) => Some(frame),
            },
            done = posts.join_next(), if !posts.is_empty() => match done {
                Some(Ok(Ok(received))) => { state.answered(received); continue }
                Some(Ok(Err(error))) => return Err(root_cause(&error)),
                Some(Err(_)) | None => return Ok(()),
            },
            () = sleep_until(state.poll_at), if may_poll => None,
            () = &mut killed => return Ok(()),
        };
        let body = first.map_or_else(Vec::new, |frame| state.collect(frame, &mut link));
        posts.spawn(Arc::clone(&post).send(body));
    }
    // The path is closed: what was queued before is under way and may arrive.
    while let Some(Ok(Ok(_))) = posts.join_next().await {}
    Ok(())
}

/// What the path waits for
struct Waiting {
    busy: bool,
    poll_at: Instant,
}

impl Waiting {
    /// Frames that wait already go into one body.
    fn collect(&mut self, first: Bytes, link: &mut LinkEnd) -> Vec<u8> {
        let mut body = Vec::new();
        write_frame(&first, &mut body);
        while body.len() + 4 + super::MAX_FRAME <= MAX_BODY {
            match link.try_recv() {
                Ok(Outgoing::Frame(frame)) => write_frame(&frame, &mut body),
                Ok(Outgoing::Busy(busy)) => self.busy = busy,
                Err(_) => break,
            }
        }
        body
    }

    fn answered(&mut self, received: usize) {
        let pause = if received == 0 { POLL_PAUSE } else { Duration::ZERO };
        self.poll_at = Instant::now() + pause;
    }
}

struct Post {
    client: PostClient,
    url: String,
    token: String,
    path: u32,
    driver: Handle,
}

impl Post {
    /// Sends a body and delivers the frames of the answer as they come; how many there were.
    async fn send(self: Arc<Self>, body: Vec<u8>) -> io::Result<usize> {
        let answered = timeout(POST_TIMEOUT, self.exchange(body)).await;
        answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn exchange(&self, body: Vec<u8>) -> io::Result<usize> {
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, HeaderValue::from_static(CONTENT))
            .header(PATH_HEADER, &self.token)
            .body(Full::new(Bytes::from(body)))
            .map_err(io::Error::other)?;
        let answer = self.client.request(request).await.map_err(io::Error::other)?;
        if answer.status() != StatusCode::OK {
            return Err(io::Error::other(answer.status().to_string()));
        }
        let mut body = answer.into_body();
        let mut reader = FrameReader::default();
        let mut received = 0;
        while let Some(piece) = body.frame().await {
            let Ok(data) = piece.map_err(io::Error::other)?.into_data() else {
                continue;
            };
            reader.push(&data);
            while let Some(frame) = reader.next_frame().map_err(|_| io::ErrorKind::InvalidData)? {
                received += 1;
                let frame = Inbound::Frame {
                    path: self.path,
                    frame,
                };
                self.driver.send(frame).await.map_err(io::Error::other)?;
            }
        }
        if reader.is_empty() {
            Ok(received)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// Opens the connections of the HTTP client
#[derive(Clone)]
pub(crate) struct Sockets(Connector);

impl tower_service::Service<Uri> for Sockets {
    type Response = Socket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connector = self.0.clone();
        Box::pin(async move {
            let address = Address::parse(&url.to_string()).map_err(io::Error::other)?;
            connector
                .connect(&address)
                .await
                .map(|io| Socket(TokioIo::new(io)))
        })
    }
}

/// A connection of the HTTP client
pub(crate) struct Socket(TokioIo<Box<dyn Io>>);

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
