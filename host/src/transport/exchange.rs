//! The answering side of exchange paths: a POST brings frames, its answer carries what the core has to say.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::IpAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use selfsame_codec::PathKind;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::frames::{FrameReader, write_frame};
use super::network::network_of;
use crate::error::BoxError;
use crate::handle::{Handle, Inbound};
use crate::link::{Link, LinkEnd, Outgoing};
use crate::shares::{Share, Shares};

/// Names the path of a POST.
pub(crate) const PATH_HEADER: &str = "selfsame-path";
/// Type of the bodies.
pub(crate) const CONTENT: &str = "application/selfsame";
/// Longest body of a POST.
pub(crate) const MAX_BODY: usize = 1024 * 1024;
/// Longest time that an answer is held open.
const HOLD: Duration = Duration::from_secs(20);
/// A path that brings no POST for this long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// Most exchange paths at once; each costs a few kilobytes.
const MAX_PATHS: usize = 1024;
/// Most bytes of bodies that are held before the core has seen them, over all paths.
const MAX_HELD: usize = 32 * MAX_BODY;
/// Most paths and bytes of one source.
const SOURCE_PATHS: usize = MAX_PATHS / 4;
/// As above.
const SOURCE_HELD: usize = MAX_HELD / 4;
/// POSTs of one path that wait for their turn.
const ARRIVALS: usize = 8;
/// Pieces of an answer that wait for the socket.
const PIECES: usize = 4;
/// A piece of an answer is sent once it is this long.
const PIECE: usize = 64 * 1024;

type Token = [u8; 16];

/// Why a POST is not answered with frames
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) StatusCode, pub(crate) &'static str);

const GONE: Refused = Refused(StatusCode::GONE, "the path is closed");
const CROWDED: Refused = Refused(StatusCode::SERVICE_UNAVAILABLE, "too many bodies are under way");
const FULL: Refused = Refused(StatusCode::SERVICE_UNAVAILABLE, "too many paths are open");

/// The exchange paths that peers have opened
pub(crate) struct Exchanges {
    driver: Handle,
    paths: Mutex<HashMap<Token, mpsc::Sender<Arrival>>>,
    places: Arc<Shares<IpAddr>>,
    memory: Arc<Shares<IpAddr>>,
}

/// A POST
struct Arrival {
    frames: Vec<Bytes>,
    /// Keeps count of the frames' memory.
    memory: Share<IpAddr>,
    answer: oneshot::Sender<Result<Answer, Refused>>,
}

impl Exchanges {
    pub(crate) fn new(driver: Handle) -> Arc<Self> {
        Arc::new(Self {
            driver,
            paths: Mutex::default(),
            places: Shares::new(SOURCE_PATHS, MAX_PATHS),
            memory: Shares::new(SOURCE_HELD, MAX_HELD),
        })
    }

    /// Answers a POST.
    pub(crate) async fn post<B>(
        self: &Arc<Self>,
        headers: &HeaderMap,
        remote: IpAddr,
        body: B,
    ) -> Result<Answer, Refused>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let token = token_of(headers)?;
        let collected = timeout(BODY_TIMEOUT, self.collect(remote, body)).await;
        let (body, memory) = collected.unwrap_or(Err(Refused(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )))?;
        let frames = frames_of(&body)?;
        let path = self.path(token, remote)?;
        let (answer, answered) = oneshot::channel();
        path.send(Arrival {
            frames,
            memory,
            answer,
        })
        .await
        .map_err(|_| GONE)?;
        answered.await.unwrap_or(Err(GONE))
    }

    /// Reads a body as far as the memory for all bodies goes.
    async fn collect<B>(&self, remote: IpAddr, body: B) -> Result<(Vec<u8>, Share<IpAddr>), Refused>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let mut body = core::pin::pin!(body);
        let mut bytes = Vec::new();
        let mut memory = self.memory.take(network_of(remote), 0).ok_or(CROWDED)?;
        while let Some(piece) = body.frame().await {
            let piece = piece.map_err(|_| Refused(StatusCode::BAD_REQUEST, "the body broke off"))?;
            let Ok(data) = piece.into_data() else {
                continue;
            };
            if !memory.grow(data.len()) {
                return Err(CROWDED);
            }
            bytes.extend_from_slice(&data);
            if bytes.len() > MAX_BODY {
                return Err(Refused(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the body is longer than 1 MiB",
                ));
            }
        }
        Ok((bytes, memory))
    }

    /// The path of a token, opened when it is new.
    fn path(self: &Arc<Self>, token: Token, remote: IpAddr) -> Result<mpsc::Sender<Arrival>, Refused> {
        let mut paths = self.lock();
        if let Some(path) = paths.get(&token) {
            return Ok(path.clone());
        }
        let share = self.places.take(network_of(remote), 1).ok_or(FULL)?;
        let number = self.driver.next_path().ok_or(FULL)?;
        let (sender, arrivals) = mpsc::channel(ARRIVALS);
        paths.insert(token, sender.clone());
        let carried = Arc::clone(self).carry(token, number, remote.to_string(), arrivals);
        tokio::spawn(async move {
            carried.await;
            drop(share);
        });
        Ok(sender)
    }

    /// Carries a path's frames until it is closed, then remembers for a while that it was.
    async fn carry(
        self: Arc<Self>,
        token: Token,
        number: u32,
        remote: String,
        mut arrivals: mpsc::Receiver<Arrival>,
    ) {
        let (link, end) = self.driver.link();
        let mut path = ExchangePath {
            number,
            driver: self.driver.clone(),
            end,
            busy: false,
            holder: None,
        };
        path.run(link, remote, &mut arrivals).await;
        while let Ok(Some(arrival)) = timeout(IDLE, arrivals.recv()).await {
            // Whoever sent the POST may have gone away meanwhile.
            _ = arrival.answer.send(Err(GONE));
        }
        self.lock().remove(&token);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, mpsc::Sender<Arrival>>> {
        // Nothing panics between two changes of the map.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ExchangePath {
    number: u32,
    driver: Handle,
    end: LinkEnd,
    busy: bool,
    holder: Option<Holder>,
}

/// The POST whose answer takes what the core transmits; a newer one takes over
struct Holder {
    pieces: mpsc::Sender<Bytes>,
    until: Instant,
}

impl ExchangePath {
    async fn run(&mut self, link: Link, remote: String, arrivals: &mut mpsc::Receiver<Arrival>) {
        let path = self.number;
        let opened = Inbound::Opened {
            path,
            dial: None,
            kind: PathKind::Exchange,
            remote,
            link,
        };
        if self.driver.send(opened).await.is_err() {
            return;
        }
        let mut ended = core::pin::pin!(self.end.take_ended());
        let mut idle_at = Instant::now() + IDLE;
        loop {
            let is_held = self.holder.is_some();
            let until = self.holder.as_ref().map_or(idle_at, |holder| holder.until);
            tokio::select! {
                arrival = arrivals.recv() => {
                    // The table holds a sender, so there is always a next one.
                    let Some(arrival) = arrival else { break };
                    idle_at = Instant::now() + IDLE;
                    self.arrive(arrival).await;
                }
                is_open = answer(self.holder.as_ref(), &mut self.end, &mut self.busy), if is_held => match is_open {
                    Next::More => {}
                    Next::Done => self.holder = None,
                    Next::Closed => break,
                },
                () = &mut ended, if !is_held => break,
                () = sleep_until(until) => {
                    if self.holder.take().is_none() {
                        break;
                    }
                }
            }
        }
        self.holder = None;
        // A node that was stopped has closed its paths.
        _ = self.driver.send(Inbound::Closed { path }).await;
    }

    /// Feeds a POST's frames and makes it the one that is answered.
    async fn arrive(&mut self, arrival: Arrival) {
        // The answer held so far ends: what follows goes into the newer one.
        self.holder = None;
        let (settled, seen) = oneshot::channel();
        let exchange = Inbound::Exchange {
            path: self.number,
            frames: arrival.frames,
            settled,
        };
        if self.driver.send(exchange).await.is_err() {
            return;
        }
        // An error is a core that is started anew: then the path is closed, which the loop sees.
        _ = seen.await;
        drop(arrival.memory);
        if self.end.is_over() {
            // What was sent for a session of which this node knows nothing is to be sent on another one at once.
            _ = arrival.answer.send(Err(GONE));
            return;
        }
        let (pieces, answer) = mpsc::channel(PIECES);
        if arrival.answer.send(Ok(Answer::Frames(answer))).is_ok() {
            self.holder = Some(Holder {
                pieces,
                until: Instant::now() + HOLD,
            });
        }
    }
}

/// What an answer came to
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A piece was sent, and more may come.
    More,
    /// The core has nothing more to say, or nobody reads the answer any more.
    Done,
    /// The core has closed the path.
    Closed,
}

/// Sends the next piece of an answer. May be dropped at any await without losing a frame.
async fn answer(holder: Option<&Holder>, link: &mut LinkEnd, busy: &mut bool) -> Next {
    let Some(holder) = holder else {
        return Next::Done;
    };
    let Ok(place) = holder.pieces.reserve().await else {
        return Next::Done;
    };
    let mut piece = Vec::new();
    while piece.len() < PIECE {
        let item = match link.try_recv() {
            Ok(item) => Some(item),
            Err(mpsc::error::TryRecvError::Empty) if !piece.is_empty() => break,
            Err(mpsc::error::TryRecvError::Empty) if !*busy => return Next::Done,
            Err(mpsc::error::TryRecvError::Empty) => tokio::select! {
                item = link.recv() => item,
                () = holder.pieces.closed() => return Next::Done,
            },
            Err(mpsc::error::TryRecvError::Disconnected) => None,
        };
        match item {
            Some(Outgoing::Frame(frame)) => write_frame(&frame, &mut piece),
            Some(Outgoing::Busy(now_busy)) => *busy = now_busy,
            None if piece.is_empty() => return Next::Closed,
            None => break,
        }
    }
    place.send(piece.into());
    Next::More
}

/// Body of an answer
#[derive(Debug)]
pub(crate) enum Answer {
    /// Frames as the core transmits them.
    Frames(mpsc::Receiver<Bytes>),
    /// A text, or nothing.
    Text(Bytes),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Frames(pieces) => pieces
                .poll_recv(context)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
            Self::Text(text) if text.is_empty() => Poll::Ready(None),
            Self::Text(text) => Poll::Ready(Some(Ok(Frame::data(core::mem::take(text))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Frames(_) => http_body::SizeHint::default(),
            Self::Text(text) => http_body::SizeHint::with_exact(text.len() as u64),
        }
    }
}

fn token_of(headers: &HeaderMap) -> Result<Token, Refused> {
    if headers.get(CONTENT_TYPE).is_none_or(|content| content != CONTENT) {
        return Err(Refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body has to be application/selfsame",
        ));
    }
    let token = headers
        .get(PATH_HEADER)
        .and_then(|token| HEXLOWER.decode(token.as_bytes()).ok());
    token.and_then(|token| token.try_into().ok()).ok_or(Refused(
        StatusCode::BAD_REQUEST,
        "the header selfsame-path has to hold 32 hexadecimal digits",
    ))
}

fn frames_of(body: &[u8]) -> Result<Vec<Bytes>, Refused> {
    let mut reader = FrameReader::default();
    reader.push(body);
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = reader.next_frame() {
        frames.push(frame);
    }
    if reader.is_empty() {
        Ok(frames)
    } else {
        Err(Refused(
            StatusCode::BAD_REQUEST,
            "the body is not a sequence of frames of at most 65536 bytes",
        ))
    }
}
