//! A call of a client, from its beginning to its answer.

use alloc::vec::Vec;

use selfsame_codec::Reader;

use super::request::Request;
use crate::assembly::Assembly;
use crate::congestion::RoundTrip;
use crate::endpoint::Endpoint;
use crate::transfer::Transfer;
use crate::wire::{COOKIE_BYTES, Control, Epoch, TAG_BYTES};

/// A call under way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) service: u32,
    pub(super) target: Endpoint,
    pub(super) policy: u8,
    pub(super) is_idempotent: bool,
    pub(super) payload: Vec<u8>,
    pub(super) deadline_us: u64,
    /// The only replica life that may carry it out.
    pub(super) bound: Option<Epoch>,
    /// Generation of the ticket that was used last: the life is one of a session under that one.
    pub(super) generation: u32,
    /// Requests that were sealed for it: a replica that keeps refusing does not keep the client busy.
    pub(super) attempts: u8,
    pub(super) attempt: Option<Attempt>,
    /// Its place among the timers.
    pub(super) timer_us: u64,
}

/// A sealed request of a call, or the question for a replica's epoch.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Of the session that it is sealed under.
    pub(super) generation: u32,
    pub(super) counter: u64,
    pub(super) purpose: Purpose,
    /// Where it was sent; once a server has answered, that one.
    pub(super) target: Endpoint,
    /// The life of the server that has taken the request.
    pub(super) epoch: Option<Epoch>,
    /// The datagram, or the first of many, as it is sent again.
    pub(super) datagram: Vec<u8>,
    pub(super) sent_us: u64,
    pub(super) sends: u32,
    /// Timeouts since a server was heard.
    pub(super) timeouts: u32,
    /// A server has said that the request arrived.
    pub(super) is_accepted: bool,
    pub(super) resend_at_us: u64,
    pub(super) upload: Option<Transfer>,
    pub(super) download: Option<Download>,
}

/// What an attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It carries the call.
    Request,
    /// It asks a replica for its epoch.
    Probe,
    /// It is answered, and acknowledges packets of the answer that come again.
    Linger,
}

/// An answer of many packets.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) epoch: Epoch,
    pub(super) assembly: Assembly,
    /// Proves to the server that its packets arrive where they are sent.
    pub(super) cookie: [u8; COOKIE_BYTES],
    /// Acknowledgements that were sealed: the number of each is its own.
    acknowledgements: u16,
}

impl Download {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            assembly: Assembly::default(),
            cookie: [0; COOKIE_BYTES],
            acknowledgements: 0,
        }
    }

    /// Takes the number of the next acknowledgement; `None` after too many.
    pub(super) fn next_acknowledgement(&mut self) -> Option<u16> {
        let number = self.acknowledgements;
        // The last one cancels.
        self.acknowledgements = number
            .checked_add(1)
            .filter(|next| *next < Control::CANCEL_PACKET)?;
        Some(number)
    }

    /// Takes a packet; whether it fits the others.
    pub(super) fn take(&mut self, packet: u16, text: &[u8]) -> bool {
        // Only the first has a cookie, after offset and total.
        let cookie = text.get(8..8 + COOKIE_BYTES).filter(|_| packet == 0);
        if let Some(cookie) = cookie {
            self.cookie.copy_from_slice(cookie);
        }
        let prefix = if packet == 0 { COOKIE_BYTES } else { 0 };
        self.assembly.take(packet, Reader::new(text), prefix).is_ok()
    }
}

impl Attempt {
    pub(super) fn new(
        generation: u32,
        counter: u64,
        target: Endpoint,
        request: Request,
        now_us: u64,
        timeout_us: u64,
    ) -> Self {
        Self {
            generation,
            counter,
            purpose: request.purpose,
            target,
            epoch: None,
            datagram: request.datagram,
            sent_us: now_us,
            sends: 1,
            timeouts: 0,
            is_accepted: false,
            resend_at_us: now_us + timeout_us,
            upload: request.upload,
            download: None,
        }
    }

    /// Whether a datagram with this tag at its end was sent.
    pub(super) fn has_tag(&self, tag: &[u8; TAG_BYTES]) -> bool {
        self.datagram.last_chunk() == Some(tag)
    }

    /// Returns when it has something to do, if nothing arrives before.
    pub(super) fn wake_at_us(&self, rtt: &RoundTrip) -> u64 {
        match self.upload.as_ref().filter(|_| self.is_accepted) {
            Some(upload) => upload
                .wake_at_us(rtt, upload.packets())
                .unwrap_or(self.resend_at_us),
            None => self.resend_at_us,
        }
    }
}
