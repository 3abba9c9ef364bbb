//! A WebSocket of a client: each message is a request, and each response one.

use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::arrivals::ArrivalSender;
use super::binding::{Arrival, Exchanges};
use super::datagram::RequestHead;
use super::frame_parts::FrameParts;
use super::http_service::CROWDED;
use super::socket_responses::{Ending, SocketResponses};
use super::websocket::{self, Farewell, Heard, Sink, Source};
use crate::lock::lock;
use crate::shares::{Share, Shares};

/// A socket that brings no request for so long is closed: its client asks again, while it waits, well before that.
const IDLE: Duration = Duration::from_secs(60);
/// Time for responses that wait when it is closed.
const LAST_RESPONSES: Duration = Duration::from_secs(2);

/// The parts of a socket that was accepted.
pub(super) struct AcceptedSocket {
    /// The address that it counts for.
    pub(super) ip: IpAddr,
    pub(super) network: Option<IpAddr>,
    /// Its memory for messages that are not whole, among that of all.
    pub(super) held: Arc<Shares<IpAddr>>,
    pub(super) responses: Arc<SocketResponses>,
    pub(super) exchanges: Arc<Exchanges>,
    pub(super) arrivals: ArrivalSender<Arrival>,
}

impl AcceptedSocket {
    /// Carries requests and responses until it ends.
    pub(super) async fn carry<S>(self, io: S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // A share of nothing is always to be had.
        let Some(held) = self.held.take(self.network, 0) else {
            return;
        };
        let arriving = Arc::new(Arriving::new(held));
        let counted = Counted {
            io,
            arriving: Arc::clone(&arriving),
        };
        let parts = FrameParts::new(counted);
        let socket = WebSocketStream::from_raw_socket(parts, Role::Server, Some(websocket::config())).await;
        let (mut sink, mut source) = websocket::halves(socket);
        let farewell = {
            let mut sending = core::pin::pin!(self.send_all(&mut sink));
            let ending = tokio::select! {
                // One that has an end sends the rest and then nothing.
                biased;
                ending = self.responses.ended() => ending,
                () = self.exchanges.ended() => Ending::Farewell(ENDED),
                () = &mut sending => Ending::Broken,
                ending = self.receive(&mut source, &arriving) => ending,
            };
            self.responses.end(ending);
            match ending {
                Ending::Farewell(farewell) => {
                    let sent = timeout(LAST_RESPONSES, sending).await;
                    sent.is_ok().then_some(farewell)
                }
                Ending::Broken => None,
            }
        };
        if let Some(farewell) = farewell {
            arriving.stop_counting();
            websocket::close(sink, source, farewell).await;
        }
        self.responses.clear();
    }

    async fn receive<S>(&self, source: &mut Source<S>, arriving: &Arriving) -> Ending
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut heard = Instant::now();
        loop {
            let message = tokio::select! {
                message = source.hear() => message,
                () = sleep_until(heard + IDLE) => return Ending::Farewell(IDLE_FOR_LONG),
            };
            let farewell = match message {
                Heard::Datagram(datagram) => {
                    heard = Instant::now();
                    self.begin(datagram, arriving).err()
                }
                Heard::Wrong(farewell) => Some(farewell),
                Heard::End if arriving.is_crowded() => Some(FULL),
                Heard::End => return Ending::Broken,
            };
            if let Some(farewell) = farewell {
                return Ending::Farewell(farewell);
            }
        }
    }

    /// Gives a request to the instance.
    fn begin(&self, datagram: Bytes, arriving: &Arriving) -> Result<(), Farewell> {
        let held = self.held.take(self.network, 0).ok_or(FULL)?;
        let held = arriving.replace(held);
        let wrong = Farewell(CloseCode::Policy, "a message is one whole request");
        let head = RequestHead::of(&datagram)
            .filter(|head| !head.is_part)
            .ok_or(wrong)?;
        let port = self.exchanges.begin_on(head.id, &self.responses).ok_or(FULL)?;
        let arrival = Arrival {
            source: SocketAddr::new(self.ip, port),
            bytes: datagram,
            held,
        };
        if self.arrivals.send(arrival) {
            Ok(())
        } else {
            Err(ENDED)
        }
    }

    /// Sends responses until it has an end and all are sent, or one is not taken.
    async fn send_all<S>(&self, sink: &mut Sink<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // Each counts until it is sent.
        while let Some((datagram, _share)) = self.responses.next().await {
            if let Err(error) = websocket::send(sink, datagram).await {
                return tracing::debug!(%error, "a client takes no responses");
            }
        }
    }
}

const IDLE_FOR_LONG: Farewell = Farewell(CloseCode::Normal, "no request came for long");
const FULL: Farewell = Farewell(CloseCode::Again, CROWDED);
const ENDED: Farewell = Farewell(CloseCode::Away, "the server has ended");

/// The memory of what has arrived since the last whole message.
struct Arriving(Mutex<Counting>);

struct Counting {
    held: Share<IpAddr>,
    is_over: bool,
    is_crowded: bool,
}

impl Arriving {
    fn new(held: Share<IpAddr>) -> Self {
        Self(Mutex::new(Counting {
            held,
            is_over: false,
            is_crowded: false,
        }))
    }

    /// Counts bytes; whether there is room for them.
    fn grow(&self, bytes: usize) -> bool {
        let mut counting = lock(&self.0);
        if !counting.is_over && !counting.held.grow(bytes) {
            counting.is_crowded = true;
        }
        !counting.is_crowded
    }

    /// Returns the memory of a message that is whole.
    fn replace(&self, held: Share<IpAddr>) -> Share<IpAddr> {
        core::mem::replace(&mut lock(&self.0).held, held)
    }

    fn is_crowded(&self) -> bool {
        lock(&self.0).is_crowded
    }

    /// What still arrives is dropped at once.
    fn stop_counting(&self) {
        let mut counting = lock(&self.0);
        (counting.is_over, counting.is_crowded) = (true, false);
    }
}

/// A connection whose bytes count until they are whole messages.
struct Counted<S> {
    io: S,
    arriving: Arc<Arriving>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        if self.arriving.grow(buffer.filled().len() - before) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()))
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
