//! The receiving half of a connection over UDP: bytes into their order, and what is to be said of them.

use alloc::collections::BTreeMap;
use core::ops::Range;
use core::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::time::Instant;

use super::packet::{MAX_RANGES, Packet, SEGMENT};

/// Most bytes that wait for the reader or for those before them: a round trip of 0.1 s carries 80 Mbit/s with it.
pub(super) const MAX_WINDOW: u64 = 1024 * 1024;
/// Most pieces that wait for those before them: a window of whole segments. Tiny ones would cost more than they hold.
const MAX_PIECES: usize = MAX_WINDOW as usize / SEGMENT + 1;
/// A window that has grown by this much is told of.
const WINDOW_STEP: u64 = MAX_WINDOW / 2;
/// Longest time until something that arrived is acknowledged.
pub(super) const DELAY: Duration = Duration::from_millis(25);

/// A stream as it arrives
#[derive(Debug)]
pub(super) struct Incoming {
    /// Below it all bytes arrived.
    next: u64,
    /// Where the stream ends, once it is known.
    end: Option<u64>,
    /// In order, not yet taken.
    ready: BytesMut,
    /// Beyond what is in order, by their offsets, without overlaps.
    ahead: BTreeMap<u64, Bytes>,
    /// Up to where the peer was told that there is room.
    told: u64,
    /// Packets that were not acknowledged yet.
    unacknowledged: u32,
    due: Option<Instant>,
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            end: None,
            ready: BytesMut::new(),
            ahead: BTreeMap::new(),
            told: MAX_WINDOW,
            unacknowledged: 0,
            due: None,
        }
    }

    /// Takes what a packet carries; what has no room, or contradicts what came before, is left out.
    pub(super) fn received(&mut self, packet: &Packet<'_>, now: Instant) {
        if packet.bytes.is_empty() && !packet.ends {
            return;
        }
        let stop = packet.offset + packet.bytes.len() as u64;
        let was_whole = self.ahead.is_empty();
        let before = self.acknowledged();
        let contradicts = match self.end {
            Some(end) => stop > end || (packet.ends && stop != end),
            None => packet.ends && stop < self.highest(),
        };
        if !contradicts && stop <= self.next + self.window() {
            if packet.ends {
                self.end = Some(stop);
            }
            self.keep(packet.offset, packet.bytes);
        }
        // A sender learns from what is told at once of a gap, or of what was sent twice.
        let is_in_order = self.acknowledged() > before && was_whole && self.ahead.is_empty();
        self.unacknowledged += if is_in_order { 1 } else { 2 };
        let due = if self.unacknowledged >= 2 {
            now
        } else {
            now + DELAY
        };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// The end of what arrived.
    fn highest(&self) -> u64 {
        let last = self.ahead.last_key_value();
        last.map_or(self.next, |(at, bytes)| at + bytes.len() as u64)
    }

    /// Puts bytes where they belong, without those that are there.
    fn keep(&mut self, offset: u64, bytes: &[u8]) {
        let stop = offset + bytes.len() as u64;
        let mut at = offset.max(self.next);
        if let Some((before, piece)) = self.ahead.range(..=at).next_back() {
            at = at.max(before + piece.len() as u64);
        }
        let part = |at: u64, to: u64| &bytes[(at - offset) as usize..(to - offset) as usize];
        while at < stop {
            let known = self.ahead.range(at..stop).next();
            let known = known.map(|(start, piece)| (*start, start + piece.len() as u64));
            let (to, then) = known.unwrap_or((stop, stop));
            if at == self.next {
                self.in_order(part(at, to));
            } else if at < to && self.ahead.len() < MAX_PIECES {
                self.ahead.insert(at, Bytes::copy_from_slice(part(at, to)));
            }
            at = then;
        }
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() == self.next) {
            let piece = entry.remove();
            self.in_order(&piece);
        }
    }

    fn in_order(&mut self, bytes: &[u8]) {
        self.next += bytes.len() as u64;
        self.ready.extend_from_slice(bytes);
    }

    /// Below it everything arrived; the end counts as a byte.
    pub(super) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.has_ended())
    }

    /// Whether everything has arrived.
    pub(super) fn has_ended(&self) -> bool {
        self.end == Some(self.next)
    }

    fn window(&self) -> u64 {
        MAX_WINDOW.saturating_sub(self.ready.len() as u64)
    }

    /// What is told of it in the next packet, which is being sent.
    pub(super) fn tell(&mut self) -> (u64, u32, Vec<Range<u64>>) {
        self.unacknowledged = 0;
        self.due = None;
        let (acknowledged, window) = (self.acknowledged(), self.window());
        self.told = self.next + window;
        (acknowledged, window as u32, self.ranges())
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let pieces = self.ahead.iter().map(|(at, piece)| *at..at + piece.len() as u64);
        // The end that came before the bytes in front of it is a byte, too.
        let end = self.end.filter(|end| *end > self.next).map(|end| end..end + 1);
        for piece in pieces.chain(end) {
            if let Some(last) = ranges.last_mut().filter(|last| last.end == piece.start) {
                last.end = piece.end;
            } else if ranges.len() < MAX_RANGES {
                ranges.push(piece);
            } else {
                break;
            }
        }
        ranges
    }

    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.ahead.len()
    }

    /// When the peer is to be told, if it is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Bytes in order that were not taken.
    pub(super) fn ready(&self) -> &[u8] {
        &self.ready
    }

    /// Forgets so many of [those](Self::ready).
    pub(super) fn taken(&mut self, count: usize, now: Instant) {
        self.ready.advance(count);
        if self.next + self.window() >= self.told + WINDOW_STEP && !self.has_ended() {
            self.due = Some(now);
        }
    }
}
