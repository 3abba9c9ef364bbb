//! A connection over UDP without its socket: datagrams in, datagrams out.

use tokio::time::Instant;

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::packet::{Datagram, Id, Packet};

/// The peer acknowledges nothing any more
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// The numbers of a connection
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    /// The one that this side chose.
    pub(super) own: Id,
    /// The one that the peer chose.
    pub(super) peer: Id,
}

/// Both halves of a connection
#[derive(Debug)]
pub(super) struct Connection {
    ids: Ids,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
}

impl Connection {
    /// A connection that has just been opened.
    pub(super) fn new(ids: Ids, now: Instant) -> Self {
        Self {
            ids,
            outgoing: Outgoing::new(now),
            incoming: Incoming::new(),
        }
    }

    /// Its numbers.
    pub(super) fn ids(&self) -> Ids {
        self.ids
    }

    /// A packet of the peer came.
    pub(super) fn received(&mut self, packet: &Packet<'_>, now: Instant) {
        self.outgoing.acknowledged(packet, now);
        self.incoming.received(packet, now);
    }

    /// Appends the next datagram that is to be sent now; whether there was one.
    pub(super) fn write_next(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let piece = self.outgoing.next(now);
        if piece.is_none() && self.incoming.due().is_none_or(|due| due > now) {
            return false;
        }
        let (offset, bytes, ends) =
            piece.unwrap_or_else(|| (self.outgoing.offset(), bytes::Bytes::new(), false));
        let (acknowledged, window, ranges) = self.incoming.tell();
        let packet = Packet {
            id: self.ids.peer,
            ends,
            acknowledged,
            window,
            ranges,
            offset,
            bytes: &bytes,
        };
        Datagram::Packet(packet).write(out);
        true
    }

    /// When [`woken`](Self::woken) has something to do, or a datagram is to be sent.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.outgoing
            .timeout_at()
            .into_iter()
            .chain(self.incoming.due())
            .min()
    }

    /// Time has passed; whether the peer is late with an acknowledgement.
    pub(super) fn woken(&mut self, now: Instant) -> Result<bool, Gone> {
        let is_late = self.outgoing.timeout_at().is_some_and(|at| at <= now);
        if is_late && !self.outgoing.timed_out(now) {
            return Err(Gone);
        }
        Ok(is_late)
    }
}

#[cfg(test)]
mod tests;
