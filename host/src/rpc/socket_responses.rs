//! What is to be sent on an accepted socket, and its requests that have no answer yet.

use alloc::sync::Arc;
use core::net::IpAddr;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::Notify;

use super::datagram::RequestId;
use super::websocket::Farewell;
use crate::lock::lock;
use crate::shares::{Share, Shares};

/// Longest head of a frame that a server sends (RFC 6455, section 5.2).
const HEAD_BYTES: usize = 10;

/// The end of a socket
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// What waits is sent first.
    Farewell(Farewell),
    /// The client takes nothing.
    Broken,
}

/// What one socket shares with the others.
pub(super) struct SocketShares {
    /// Requests that connections wait for.
    pub(super) open: Arc<Shares<IpAddr>>,
    /// Bytes that wait to be sent.
    pub(super) waiting: Arc<Shares<IpAddr>>,
    /// The network that it counts for.
    pub(super) network: Option<IpAddr>,
}

/// The responses of one socket.
pub(super) struct SocketResponses {
    shares: SocketShares,
    state: Mutex<State>,
    /// Something is to be sent.
    queued: Notify,
    /// It is to be closed.
    ending: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Bytes, Share<IpAddr>)>,
    /// Requests without an answer, with their ports.
    open: HashMap<RequestId, (u16, Share<IpAddr>)>,
    ending: Option<Ending>,
}

impl SocketResponses {
    pub(super) fn new(shares: SocketShares) -> Self {
        Self {
            shares,
            state: Mutex::default(),
            queued: Notify::new(),
            ending: Notify::new(),
        }
    }

    /// Notes a request that has a port; whether its source may have another one.
    pub(super) fn begin(&self, id: RequestId, port: u16) -> bool {
        let mut state = lock(&self.state);
        if let Some((known, _)) = state.open.get_mut(&id) {
            *known = port;
            return true;
        }
        let Some(share) = self.shares.open.take(self.shares.network, 1) else {
            return false;
        };
        state.open.insert(id, (port, share));
        true
    }

    /// Notes that nothing more comes of a request at a port.
    pub(super) fn end_request(&self, id: &RequestId, port: u16) {
        let mut state = lock(&self.state);
        if state.open.get(id).is_some_and(|(known, _)| *known == port) {
            state.open.remove(id);
        }
    }

    /// Sends a response; a client that takes too little is cut off.
    pub(super) fn respond(&self, datagram: Bytes) {
        let mut state = lock(&self.state);
        if state.ending.is_some() {
            return;
        }
        let bytes = HEAD_BYTES + datagram.len();
        let Some(share) = self.shares.waiting.take(self.shares.network, bytes) else {
            drop(state);
            return self.end(Ending::Broken);
        };
        state.queue.push_back((datagram, share));
        self.queued.notify_one();
    }

    /// Closes it: later responses are not sent here any more.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = lock(&self.state);
        state.ending.get_or_insert(ending);
        state.open.clear();
        self.queued.notify_one();
        self.ending.notify_one();
    }

    /// Drops what was not sent.
    pub(super) fn clear(&self) {
        lock(&self.state).queue.clear();
    }

    /// Returns what is to be sent next; `None` when it is to be closed.
    pub(super) async fn next(&self) -> Option<(Bytes, Share<IpAddr>)> {
        loop {
            {
                let mut state = lock(&self.state);
                let next = state.queue.pop_front();
                if next.is_some() || state.ending.is_some() {
                    return next;
                }
            }
            self.queued.notified().await;
        }
    }

    /// Waits until it is to be closed.
    pub(super) async fn ended(&self) -> Ending {
        loop {
            if let Some(ending) = lock(&self.state).ending {
                return ending;
            }
            self.ending.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responses(open: usize, waiting: usize) -> SocketResponses {
        SocketResponses::new(SocketShares {
            open: Shares::new(open, open),
            waiting: Shares::new(waiting, waiting),
            network: Some(IpAddr::from([1, 1, 1, 0])),
        })
    }

    #[test]
    fn request_that_comes_again_takes_no_more_and_its_end_gives_back() {
        let responses = responses(1, 0);
        let [first, other] = [1, 2].map(|byte| [byte; 118]);
        assert!(responses.begin(first, 1));
        assert!(responses.begin(first, 2));
        assert!(!responses.begin(other, 3));
        responses.end_request(&first, 1);
        assert!(!responses.begin(other, 3), "its present port goes on");
        responses.end_request(&first, 2);
        assert!(responses.begin(other, 3));
    }

    #[tokio::test]
    async fn client_that_takes_too_little_is_cut_off() {
        let responses = responses(1, 200);
        for _ in 0..2 {
            responses.respond(Bytes::from_static(&[0; 90]));
        }
        drop(responses.next().await);
        responses.respond(Bytes::from_static(&[0; 90]));
        responses.respond(Bytes::from_static(&[0; 1]));
        assert_eq!(responses.ended().await, Ending::Broken);
    }
}
