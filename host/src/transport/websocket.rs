//! A path over a WebSocket: one binary message is one frame.

use core::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::MAX_FRAME;
use super::address::Address;
use super::keep_alive::{Side, Silence, Silent};
use crate::handle::{Handle, Inbound};
use crate::link::{LinkEnd, Outgoing};

/// The subprotocol that both sides name.
pub(crate) const PROTOCOL: &str = "selfsame.1";
/// A peer that does not take a frame in this time is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Most frames that are written before the keep-alive has its turn.
const BURST: usize = 16;
/// Time for what is queued, and for the closing handshake, when a path is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Memory of each connection for reading; a frame that is larger gets more.
const BUFFER: usize = 16 * 1024;

type Socket<S> = WebSocketStream<S>;

/// Limits of every WebSocket.
pub(crate) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME))
}

/// Speaks the opening handshake on a connection to a node.
pub(crate) async fn open<S>(io: S, address: &Address) -> Result<Socket<S>, WsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = address.url().into_client_request()?;
    request
        .headers_mut()
        .insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    // Tungstenite refuses an answer that does not name the protocol.
    let (socket, _) = client_async_with_config(request, io, Some(config())).await?;
    Ok(socket)
}

/// A signal between the two directions
#[derive(Clone, Copy, Debug)]
enum Signal {
    /// Ask whether the peer lives.
    Ping,
    /// Answer that we do.
    Pong,
    /// Close because the peer broke a rule.
    Refuse(CloseCode),
}

/// Carries frames until either side closes.
pub(super) async fn run<S>(socket: Socket<S>, side: Side, path: u32, driver: &Handle, mut link: LinkEnd)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (sink, stream) = socket.split();
    let (signals, signalled) = mpsc::channel(4);
    let killed = link.take_killed();
    let mut sending = core::pin::pin!(send(sink, link, signalled));
    let mut receiving = core::pin::pin!(receive(stream, side, path, driver, signals));
    tokio::select! {
        // What is still to be sent, such as why the peer is refused, gets a moment, and so does the answer to our
        // farewell: closing a socket with unread bytes would destroy what is under way to the peer.
        () = &mut receiving => drop(timeout(CLOSE_TIMEOUT, sending).await),
        () = &mut sending => drop(timeout(CLOSE_TIMEOUT, receiving).await),
        () = killed => {}
    }
}

async fn send<S>(
    mut sink: SplitSink<Socket<S>, Message>,
    mut link: LinkEnd,
    mut signals: mpsc::Receiver<Signal>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut close = None;
    loop {
        let message = tokio::select! {
            item = link.recv() => match item {
                Some(Outgoing::Frame(frame)) => Message::Binary(frame),
                Some(Outgoing::Busy(_)) => continue,
                None => break,
            },
            signal = signals.recv() => match signal {
                Some(Signal::Ping) => Message::text("ping"),
                Some(Signal::Pong) => Message::text("pong"),
                Some(Signal::Refuse(code)) => {
                    close = Some(CloseFrame { code, reason: "".into() });
                    break;
                }
                None => break,
            },
        };
        if let Err(error) = write(&mut sink, message, &mut link).await {
            return tracing::debug!(%error, "peer takes no frames: path closed");
        }
    }
    // Nothing can be done for a peer that does not take the farewell.
    _ = timeout(CLOSE_TIMEOUT, sink.send(Message::Close(close))).await;
}

/// Writes a message and frames that wait behind it, then flushes once.
async fn write<S>(
    sink: &mut SplitSink<Socket<S>, Message>,
    message: Message,
    link: &mut LinkEnd,
) -> Result<(), WsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    in_time(sink.feed(message)).await?;
    for item in core::iter::from_fn(|| link.try_recv().ok()).take(BURST) {
        if let Outgoing::Frame(frame) = item {
            in_time(sink.feed(Message::Binary(frame))).await?;
        }
    }
    in_time(sink.flush()).await
}

/// Gives one frame its time: a slow peer needs longer for all that waits, and more may come meanwhile.
async fn in_time(written: impl Future<Output = Result<(), WsError>>) -> Result<(), WsError> {
    let timed_out = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    timeout(WRITE_TIMEOUT, written).await.unwrap_or_else(timed_out)
}

async fn receive<S>(
    mut stream: SplitStream<Socket<S>>,
    side: Side,
    path: u32,
    driver: &Handle,
    signals: mpsc::Sender<Signal>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut silence = Silence::new(side);
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            silent = silence.lasts() => {
                if silent == Silent::GiveUp {
                    return tracing::debug!(path, "peer is silent: path closed");
                }
                // A full queue of signals has one like this in it.
                _ = signals.try_send(Signal::Ping);
                continue;
            }
        };
        silence.heard();
        match message {
            Some(Ok(Message::Binary(frame))) => {
                if deliver(driver, path, frame).await.is_err() {
                    return;
                }
            }
            Some(Ok(Message::Text(text))) => match text.as_str() {
                "ping" => _ = signals.try_send(Signal::Pong),
                "pong" => {}
                _ => return refuse(&signals, path, CloseCode::Unsupported).await,
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_))) | None => return,
            Some(Err(WsError::Capacity(_))) => return refuse(&signals, path, CloseCode::Size).await,
            Some(Err(error)) => return tracing::debug!(path, %error, "path failed"),
        }
    }
}

async fn deliver(driver: &Handle, path: u32, frame: Bytes) -> Result<(), crate::error::Error> {
    driver.send(Inbound::Frame { path, frame }).await
}

async fn refuse(signals: &mpsc::Sender<Signal>, path: u32, code: CloseCode) {
    tracing::debug!(path, %code, "peer breaks a rule: path closed");
    // The sender may have ended meanwhile.
    _ = signals.send(Signal::Refuse(code)).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;
    use crate::link::{Budget, link};

    #[tokio::test]
    async fn a_write_ends_however_much_waits_behind_it() {
        let (near, _far) = duplex(1024 * 1024);
        let socket = WebSocketStream::from_raw_socket(near, Role::Server, Some(config())).await;
        let (mut sink, _stream) = socket.split();
        let (mut driver, mut socket_end) = link(&Budget::default());
        for _ in 0..3 * BURST {
            driver.transmit(Bytes::from_static(b"frame"));
        }
        write(&mut sink, Message::text("pong"), &mut socket_end)
            .await
            .expect("the peer takes it");
        let left = core::iter::from_fn(|| socket_end.try_recv().ok()).count();
        assert_eq!(left, 2 * BURST);
    }
}
