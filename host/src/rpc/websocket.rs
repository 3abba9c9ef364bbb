//! What both sides of a WebSocket of the RPC have in common (docs/specification/rpc.md, "Over WebSocket").

use core::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::http_service::MAX_BODY_BYTES;

/// The subprotocol that both sides name.
pub(super) const SUBPROTOCOL: &str = "selfsame-rpc.1";
/// Memory of each socket for reading and for writing; a message that is longer gets more until it is whole.
const BUFFER_BYTES: usize = 8 * 1024;
/// Longest frame that is sent: the library keeps the memory of the longest one as long as the socket lives.
const FRAME_BYTES: usize = 64 * 1024;
/// Time for what is still to be sent, and for the answer to the farewell, when a socket is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The sending half of a socket.
pub(super) type Sink<S> = SplitSink<WebSocketStream<S>, Message>;

/// What ends a socket: the code of its close frame, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Farewell(pub(super) CloseCode, pub(super) &'static str);

/// Limits of every socket, which reads its frames as [`FrameParts`](super::frame_parts::FrameParts).
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(Some(MAX_BODY_BYTES))
        .max_frame_size(Some(MAX_BODY_BYTES))
}

/// What was heard of the other side.
#[derive(Debug)]
pub(super) enum Heard {
    Datagram(Bytes),
    /// It breaks a rule.
    Wrong(Farewell),
    /// It is gone.
    End,
}

/// The receiving half of a socket.
pub(super) struct Source<S>(SplitStream<WebSocketStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> Source<S> {
    /// Waits for a datagram, or the end. May be dropped and called again.
    pub(super) async fn hear(&mut self) -> Heard {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Binary(datagram))) => Heard::Datagram(datagram),
                Some(Ok(Message::Text(_))) => {
                    let why = "a message is one datagram, in binary";
                    Heard::Wrong(Farewell(CloseCode::Unsupported, why))
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Err(WsError::Capacity(_))) => {
                    let why = "a message has the length of one datagram at most";
                    Heard::Wrong(Farewell(CloseCode::Size, why))
                }
                Some(Err(WsError::Protocol(_))) => {
                    Heard::Wrong(Farewell(CloseCode::Protocol, "a frame breaks RFC 6455"))
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => Heard::End,
            };
        }
    }
}

/// Returns both halves of a socket.
pub(super) fn halves<S>(socket: WebSocketStream<S>) -> (Sink<S>, Source<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sink, stream) = socket.split();
    (sink, Source(stream))
}

/// Sends a datagram as one message.
pub(super) async fn send<S>(sink: &mut Sink<S>, datagram: Bytes) -> Result<(), WsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if datagram.len() <= FRAME_BYTES {
        return sink.send(Message::Binary(datagram)).await;
    }
    let mut left = datagram;
    let mut kind = Data::Binary;
    while !left.is_empty() {
        let part = left.split_to(left.len().min(FRAME_BYTES));
        let frame = Frame::message(part, OpCode::Data(kind), left.is_empty());
        sink.send(Message::Frame(frame)).await?;
        kind = Data::Continue;
    }
    Ok(())
}

/// Says farewell, and waits a moment until the other side has taken it: who closes a connection with unread bytes destroys what is under way.
pub(super) async fn close<S>(mut sink: Sink<S>, source: Source<S>, Farewell(code, reason): Farewell)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    let closing = async {
        sink.send(Message::Close(Some(frame))).await?;
        let Ok(socket) = sink.reunite(source.0) else {
            return Ok(());
        };
        let mut io = socket.into_inner();
        let mut unread = [0; 4096];
        while io.read(&mut unread).await? > 0 {}
        Ok::<_, WsError>(())
    };
    // Nothing can be done for who does not take the farewell.
    _ = timeout(CLOSE_TIMEOUT, closing).await;
}
