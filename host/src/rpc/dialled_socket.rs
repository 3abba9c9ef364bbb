//! The WebSocket of a client to one server, from when it is dialled.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::datagram::{RequestHead, ResponseHead, Tag};
use super::http_service::MAX_BODY_BYTES;
use super::websocket::{self, Farewell, Heard, Sink, Source};
use crate::lock::lock;

/// Most bytes that wait to be sent: two of the longest messages.
const MAX_WAITING_BYTES: usize = 2 * MAX_BODY_BYTES;
/// Requests without an answer: fewer than a server lets one source have.
const MAX_OPEN: usize = 1000;
/// When for so long nothing was sent, or nothing was heard, a request that comes again is sent again: its server says that it has it.
const QUIET: Duration = Duration::from_secs(10);
/// A server that has said nothing for so long, though it was asked, is not there any more.
const SILENCE: Duration = Duration::from_secs(30);
/// A socket that nobody uses is closed after so long: before the server does so.
const IDLE: Duration = Duration::from_secs(30);

const UNUSED: Farewell = Farewell(CloseCode::Normal, "it is not used any more");
const SILENT: Farewell = Farewell(CloseCode::Away, "the server is silent");

/// A socket that is dialled, open or at its end.
pub(super) struct DialledSocket {
    state: Mutex<State>,
    /// Something is to be sent.
    queued: Notify,
    /// It is to be closed.
    ending: Notify,
}

struct State {
    /// Datagrams that wait until it is open, or until those before them are sent.
    queue: VecDeque<(RequestHead, Bytes)>,
    /// Bytes of the queue, and of what is being sent.
    waiting_bytes: usize,
    /// Tags of requests without an answer, by their calls.
    open: HashMap<u32, Tag>,
    is_open: bool,
    farewell: Option<Farewell>,
    used: Instant,
    sent: Instant,
    /// Since when an answer is waited for and nothing was heard.
    asked: Option<Instant>,
    repeated: Option<Instant>,
    /// What waited when something came again last.
    waited_bytes: usize,
    has_heard: bool,
}

impl DialledSocket {
    /// A socket that is not open yet.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                waiting_bytes: 0,
                open: HashMap::new(),
                is_open: false,
                farewell: None,
                used: now,
                sent: now,
                asked: None,
                repeated: None,
                waited_bytes: 0,
                has_heard: false,
            }),
            queued: Notify::new(),
            ending: Notify::new(),
        }
    }

    /// Sends a datagram; one that does not leave is lost.
    pub(super) fn send(&self, head: RequestHead, datagram: &[u8]) {
        let mut state = lock(&self.state);
        state.used = Instant::now();
        if state.farewell.is_some() {
            return;
        }
        if state.is_open {
            state.transmit(head, datagram);
        } else {
            state.enqueue(head, datagram);
        }
        if state.farewell.is_some() {
            self.ending.notify_one();
        } else {
            self.queued.notify_one();
        }
    }

    /// Forgets what it was asked to send: nobody waits for an answer.
    pub(super) fn rest(&self) {
        lock(&self.state).rest();
    }

    /// Closes it.
    pub(super) fn close(&self) {
        lock(&self.state).finish(UNUSED);
        self.ending.notify_one();
    }

    /// Whether it takes no datagrams any more.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).farewell.is_some()
    }

    /// Whether the server was heard.
    pub(super) fn has_heard(&self) -> bool {
        lock(&self.state).has_heard
    }

    /// Carries datagrams until it ends; `receive` takes those of the server.
    pub(super) async fn carry<S>(&self, socket: WebSocketStream<S>, receive: impl Fn(Bytes))
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        lock(&self.state).opened();
        let (mut sink, mut source) = websocket::halves(socket);
        let farewell = tokio::select! {
            farewell = self.receive(&mut source, receive) => farewell,
            () = self.send_all(&mut sink) => None,
            () = self.idle() => Some(UNUSED),
            farewell = self.ended() => Some(farewell),
        };
        self.end();
        if let Some(farewell) = farewell {
            websocket::close(sink, source, farewell).await;
        }
    }

    /// Notes that it has ended; what was under way is lost.
    pub(super) fn end(&self) {
        lock(&self.state).finish(UNUSED);
    }

    async fn receive<S>(&self, source: &mut Source<S>, receive: impl Fn(Bytes)) -> Option<Farewell>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            match source.hear().await {
                Heard::Datagram(datagram) => {
                    lock(&self.state).hear(&datagram);
                    receive(datagram);
                }
                Heard::Wrong(farewell) => return Some(farewell),
                Heard::End => return None,
            }
        }
    }

    /// Sends what waits, until that fails.
    async fn send_all<S>(&self, sink: &mut Sink<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            let next = lock(&self.state).queue.pop_front();
            let Some((_, datagram)) = next else {
                self.queued.notified().await;
                continue;
            };
            let bytes = datagram.len();
            if let Err(error) = websocket::send(sink, datagram).await {
                return tracing::debug!(%error, "a server takes no datagrams");
            }
            lock(&self.state).waiting_bytes -= bytes;
        }
    }

    /// Waits until it is to be closed.
    pub(super) async fn ended(&self) -> Farewell {
        loop {
            if let Some(farewell) = lock(&self.state).farewell {
                return farewell;
            }
            self.ending.notified().await;
        }
    }

    async fn idle(&self) {
        loop {
            let end = lock(&self.state).used + IDLE;
            if Instant::now() >= end {
                return;
            }
            sleep_until(end).await;
        }
    }
}

impl State {
    fn enqueue(&mut self, head: RequestHead, datagram: &[u8]) {
        if head.is_cancel {
            return self.withdraw(head.call);
        }
        let has_room =
            self.queue.len() < MAX_OPEN && self.waiting_bytes + datagram.len() <= MAX_WAITING_BYTES;
        if has_room && !self.queue.iter().any(|(queued, _)| queued.tag == head.tag) {
            self.push(head, datagram);
        }
    }

    fn withdraw(&mut self, call: u32) {
        self.queue.retain(|(head, _)| head.call != call);
        self.waiting_bytes = self.queue.iter().map(|(_, datagram)| datagram.len()).sum();
    }

    fn opened(&mut self) {
        self.is_open = true;
        for (head, datagram) in core::mem::take(&mut self.queue) {
            self.waiting_bytes -= datagram.len();
            self.transmit(head, &datagram);
        }
    }

    fn transmit(&mut self, head: RequestHead, datagram: &[u8]) {
        let is_repeated = self.open.get(&head.call) == Some(&head.tag);
        if is_repeated && !self.may_repeat() {
            return;
        }
        let has_room = self.waiting_bytes == 0 || self.waiting_bytes + datagram.len() <= MAX_WAITING_BYTES;
        if !has_room || !self.note(head) {
            return;
        }
        self.sent = Instant::now();
        if self.open.get(&head.call) == Some(&head.tag) {
            self.asked.get_or_insert(self.sent);
        }
        self.push(head, datagram);
    }

    /// Notes a request that is to be answered; whether there is room for it.
    fn note(&mut self, head: RequestHead) -> bool {
        if head.is_cancel {
            self.open.remove(&head.call);
            return true;
        }
        let is_known = self.open.contains_key(&head.call);
        // A control packet is about a request that is under way, but for a probe.
        if head.is_control && is_known {
            return true;
        }
        if !is_known && self.open.len() >= MAX_OPEN {
            return false;
        }
        self.open.insert(head.call, head.tag);
        true
    }

    /// A stream loses nothing; a datagram that comes again asks whether the server is still there.
    fn may_repeat(&mut self) -> bool {
        let now = Instant::now();
        // The server takes what was sent.
        if self.waiting_bytes < self.waited_bytes {
            self.asked = Some(now);
        }
        self.waited_bytes = self.waiting_bytes;
        let silent = now - self.asked.unwrap_or(now);
        if silent >= SILENCE {
            self.finish(SILENT);
            return false;
        }
        let is_quiet = silent.max(now - self.sent) >= QUIET;
        let may_ask = self.repeated.is_none_or(|repeated| now - repeated >= QUIET);
        if !is_quiet || self.waiting_bytes > 0 || !may_ask {
            return false;
        }
        self.repeated = Some(now);
        true
    }

    fn hear(&mut self, datagram: &[u8]) {
        self.used = Instant::now();
        self.asked = None;
        self.has_heard = true;
        if let Some(head) = ResponseHead::of(datagram).filter(|head| head.is_final) {
            self.open.remove(&head.call);
        }
    }

    fn push(&mut self, head: RequestHead, datagram: &[u8]) {
        self.waiting_bytes += datagram.len();
        self.queue.push_back((head, Bytes::copy_from_slice(datagram)));
    }

    fn rest(&mut self) {
        let queued: usize = self.queue.drain(..).map(|(_, datagram)| datagram.len()).sum();
        self.waiting_bytes -= queued;
        self.open.clear();
        self.asked = None;
    }

    fn finish(&mut self, farewell: Farewell) {
        self.farewell.get_or_insert(farewell);
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(call: u8, tag: u8) -> (RequestHead, [u8; 118]) {
        let mut datagram = [tag; 118];
        datagram[..2].copy_from_slice(&[0x60, 0]);
        datagram[94..98].copy_from_slice(&[call; 4]);
        datagram[102..110].copy_from_slice(&[call; 8]);
        (RequestHead::of(&datagram).expect("a head"), datagram)
    }

    /// Sends a request; whether it leaves.
    fn send(socket: &DialledSocket, call: u8, tag: u8) -> bool {
        let (head, datagram) = request(call, tag);
        socket.send(head, &datagram);
        take(socket)
    }

    /// Takes what waits, as the task does.
    fn take(socket: &DialledSocket) -> bool {
        let mut state = lock(&socket.state);
        let next = state.queue.pop_front();
        if let Some((_, datagram)) = &next {
            state.waiting_bytes -= datagram.len();
        }
        next.is_some()
    }

    fn open() -> DialledSocket {
        let socket = DialledSocket::new();
        lock(&socket.state).opened();
        socket
    }

    async fn after(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn datagram_is_sent_once_and_again_when_it_was_quiet_for_long() {
        let socket = open();
        assert!(send(&socket, 1, 1));
        assert!(!send(&socket, 1, 1));
        assert!(send(&socket, 2, 2));
        after(9).await;
        assert!(!send(&socket, 1, 1));
        after(1).await;
        assert!(send(&socket, 1, 1), "nothing was sent for 10 s");
        after(9).await;
        assert!(!send(&socket, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_is_silent_though_it_was_asked_ends_the_socket() {
        for is_heard in [false, true] {
            let socket = open();
            assert!(send(&socket, 1, 1));
            after(20).await;
            assert!(send(&socket, 1, 1));
            if is_heard {
                // An acknowledgement.
                let mut acknowledgement = [1; 40];
                acknowledgement[..2].copy_from_slice(&[0x62, 1]);
                lock(&socket.state).hear(&acknowledgement);
            }
            after(10).await;
            assert_eq!(send(&socket, 1, 1), is_heard);
            assert_eq!(socket.is_over(), !is_heard);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_for_the_socket_are_bounded_and_withdrawn() {
        let socket = DialledSocket::new();
        for call in 0..=255 {
            for tag in [1, 1, 2, 3, 4, 5] {
                let (head, datagram) = request(call, tag);
                socket.send(head, &datagram);
            }
        }
        assert_eq!(lock(&socket.state).queue.len(), MAX_OPEN);
        let (head, datagram) = request(0, 9);
        let cancel = RequestHead {
            is_control: true,
            is_cancel: true,
            ..head
        };
        socket.send(cancel, &datagram);
        let state = lock(&socket.state);
        assert_eq!(state.queue.len(), MAX_OPEN - 5);
        assert_eq!(state.waiting_bytes, (MAX_OPEN - 5) * datagram.len());
        assert!(state.queue.iter().all(|(head, _)| head.call != 0));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_and_requests_under_way_are_bounded() {
        let socket = open();
        let (head, datagram) = request(1, 1);
        let long = vec![0; MAX_WAITING_BYTES];
        socket.send(head, &long);
        assert_eq!(lock(&socket.state).waiting_bytes, MAX_WAITING_BYTES);
        let (other, _) = request(2, 2);
        socket.send(other, &datagram);
        assert_eq!(lock(&socket.state).waiting_bytes, MAX_WAITING_BYTES);
        socket.rest();
        assert_eq!(lock(&socket.state).waiting_bytes, 0);
        for call in 0..=MAX_OPEN as u32 {
            socket.send(RequestHead { call, ..head }, &datagram);
        }
        assert_eq!(lock(&socket.state).queue.len(), MAX_OPEN);
    }
}
