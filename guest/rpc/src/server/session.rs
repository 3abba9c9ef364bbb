//! A client's ticket at one replica: its keys, its replay window and its latest answers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::endpoint::Endpoint;
use crate::keys::{PacketKey, Psk};
use crate::ticket::OpenedTicket;
use crate::window::ReplayWindow;
use crate::wire::{Epoch, TICKET_NONCE_BYTES};

/// One life of a session: it ends with the replica, or when it is evicted.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) nonce: [u8; TICKET_NONCE_BYTES],
    pub(super) caller: [u8; 32],
    pub(super) issued_s: u32,
    pub(super) expires_s: u32,
    pub(super) psk: Psk,
    pub(super) request_key: PacketKey,
    pub(super) response_key: PacketKey,
    pub(super) epoch: Epoch,
    pub(super) window: ReplayWindow,
    /// Counter of the request that began this life.
    pub(super) first: u64,
    /// Whose quota it counts against.
    pub(super) source: Endpoint,
    /// The last address that was proven.
    pub(super) proven: Option<[u8; 16]>,
    /// When the latest request claims to have been sent: no later one was carried out.
    pub(super) latest_ms: u64,
    pub(super) used_us: u64,
    /// When a new ticket was given last.
    pub(super) renewed_s: u32,
    /// Calls under way: counter and number.
    pub(super) calls: Vec<(u64, u32)>,
    /// Number of the next response that asks for a bound request and names the server.
    binds: u16,
    kept: VecDeque<(u64, Vec<u8>)>,
    kept_bytes: usize,
}

impl Session {
    pub(super) fn new(opened: OpenedTicket, epoch: Epoch, source: Endpoint, now_us: u64) -> Self {
        let OpenedTicket { content, nonce, psk } = opened;
        Self {
            nonce,
            caller: content.caller,
            issued_s: content.issued_s,
            expires_s: content.expires_s,
            request_key: psk.request_key(),
            response_key: psk.response_key(&epoch),
            psk,
            epoch,
            window: ReplayWindow::new(),
            first: 0,
            source,
            proven: None,
            latest_ms: 0,
            used_us: now_us,
            renewed_s: 0,
            calls: Vec::new(),
            binds: 1,
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    pub(super) fn is_proven(&self, endpoint: &Endpoint) -> bool {
        self.proven == Some(endpoint.address())
    }

    /// Takes the number of the next response that asks for a bound request and names the server; `None` after too many.
    pub(super) fn next_bind(&mut self) -> Option<u16> {
        let number = self.binds;
        self.binds = number.checked_add(1)?;
        Some(number)
    }

    /// Returns the number of the call with this counter, if it is under way.
    pub(super) fn call(&self, counter: u64) -> Option<u32> {
        self.calls
            .iter()
            .find_map(|(one, call)| (*one == counter).then_some(*call))
    }

    /// Returns the answer to the request with this counter, if it is kept.
    pub(super) fn kept(&self, counter: u64) -> Option<&[u8]> {
        self.kept
            .iter()
            .find_map(|(one, bytes)| (*one == counter).then_some(&bytes[..]))
    }

    /// Keeps an answer, for a request that comes again; the oldest go when they take more than `limit` bytes.
    pub(super) fn keep(&mut self, counter: u64, answer: &[u8], limit: usize) {
        self.kept_bytes += answer.len();
        self.kept.push_back((counter, answer.to_vec()));
        while self.kept_bytes > limit {
            self.forget_oldest();
        }
    }

    /// Forgets answers that the client has, to requests before a counter.
    pub(super) fn settle(&mut self, before: u64) {
        while self.kept.front().is_some_and(|(counter, _)| *counter < before) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, bytes)) = self.kept.pop_front() {
            self.kept_bytes -= bytes.len();
        }
    }
}
