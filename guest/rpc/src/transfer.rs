//! Sending a message of many packets: what was acknowledged, what was lost, what may leave now.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};

use crate::congestion::{CongestionWindow, RoundTrip};

/// Largest message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Packets that are acknowledged after one that is not, before that one counts as lost (RFC 9002, section 6.1.1).
const REORDERING: u32 = 3;
/// Bytes of the bitmap in an acknowledgement.
const MAX_BITMAP_BYTES: usize = 32;

/// Which packets of a message have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// The first that has not arrived.
    pub(crate) next: u16,
    /// A bit for each of those after it, the first in the lowest bit.
    pub(crate) later: Vec<u8>,
}

impl Acknowledgement {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.next.write(out);
        out.extend_from_slice(&self.later);
    }

    /// Reads the rest of a packet.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let next = reader.field()?;
        let later = reader.rest();
        if later.len() > MAX_BITMAP_BYTES {
            return Err(Malformed);
        }
        reader.take(later.len())?;
        Ok(Self {
            next,
            later: later.to_vec(),
        })
    }

    /// The acknowledgement of all packets.
    pub(crate) fn all() -> Self {
        Self {
            next: u16::MAX,
            later: Vec::new(),
        }
    }

    /// The acknowledgement of those packets for which `has` says so.
    pub(crate) fn of(next: u16, end: u16, has: impl Fn(u16) -> bool) -> Self {
        let mut later = Vec::new();
        let first = next.saturating_add(1);
        for (at, packet) in (first..end).take(8 * MAX_BITMAP_BYTES).enumerate() {
            if has(packet) {
                later.resize(at / 8 + 1, 0);
                later[at / 8] |= 1 << (at % 8);
            }
        }
        Self { next, later }
    }

    /// Returns the packets that have arrived, without those before `first`.
    fn packets(&self, first: u16) -> impl Iterator<Item = u16> {
        let later = (0..8 * self.later.len())
            .filter(|at| self.later[at / 8] & (1 << (at % 8)) != 0)
            .filter_map(|at| self.next.checked_add(1)?.checked_add(at as u16));
        (first..self.next).chain(later)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketState {
    /// Never sent, or lost.
    Waiting,
    InFlight {
        /// Rises with each packet that is sent, of whatever number.
        order: u32,
        sent_us: u64,
        /// Of a packet that was sent twice nobody knows which one was acknowledged.
        is_first: bool,
    },
    Acknowledged,
}

/// A message that leaves in packets.
#[derive(Debug)]
pub(crate) struct Transfer {
    body: Vec<u8>,
    first_bytes: usize,
    packet_bytes: usize,
    packets: Vec<PacketState>,
    /// The first packet that is not acknowledged, and the first that was never sent.
    first: u16,
    unsent: u16,
    lost: VecDeque<u16>,
    in_flight: usize,
    orders: u32,
    /// Losses of packets before this one count as one.
    recovery: u32,
    window: CongestionWindow,
    timeouts: u32,
    timeout_from_us: u64,
}

impl Transfer {
    /// A message whose first packet holds so many bytes, and each of the others.
    pub(crate) fn new(body: Vec<u8>, first_bytes: usize, packet_bytes: usize) -> Self {
        debug_assert!(body.len() <= MAX_MESSAGE_BYTES);
        let first_bytes = first_bytes.min(body.len());
        let count = 1 + (body.len() - first_bytes).div_ceil(packet_bytes);
        Self {
            body,
            first_bytes,
            packet_bytes,
            packets: alloc::vec![PacketState::Waiting; count],
            first: 0,
            unsent: 0,
            lost: VecDeque::new(),
            in_flight: 0,
            orders: 0,
            recovery: 0,
            window: CongestionWindow::new(),
            timeouts: 0,
            timeout_from_us: 0,
        }
    }

    /// Appends what a packet holds: `offset u32 | total u32 | bytes`; the total is 0 where it is not told.
    pub(crate) fn write(&self, packet: u16, tells_total: bool, prefix: &[u8], out: &mut Vec<u8>) {
        let (start, end) = self.range(packet);
        (start as u32).write(out);
        let total = if tells_total { self.body.len() } else { 0 };
        (total as u32).write(out);
        out.extend_from_slice(prefix);
        out.extend_from_slice(&self.body[start..end]);
    }

    fn range(&self, packet: u16) -> (usize, usize) {
        match usize::from(packet).checked_sub(1) {
            None => (0, self.first_bytes),
            Some(before) => {
                let start = self.first_bytes + before * self.packet_bytes;
                (start, (start + self.packet_bytes).min(self.body.len()))
            }
        }
    }

    /// Takes the next packet that may leave now, of the first `limit`.
    pub(crate) fn next_packet(&mut self, now_us: u64, rtt: &RoundTrip, limit: usize) -> Option<u16> {
        if self.in_flight >= self.window.packets() || self.window.send_at_us(rtt) > now_us {
            return None;
        }
        let (packet, is_first) = match self.lost.pop_front() {
            Some(packet) => (packet, false),
            None if usize::from(self.unsent) < self.packets.len().min(limit) => {
                self.unsent += 1;
                (self.unsent - 1, true)
            }
            None => return None,
        };
        self.packets[usize::from(packet)] = PacketState::InFlight {
            order: self.orders,
            sent_us: now_us,
            is_first,
        };
        if self.in_flight == 0 {
            self.timeout_from_us = now_us;
        }
        self.orders += 1;
        self.in_flight += 1;
        self.window.sent(now_us, rtt);
        Some(packet)
    }

    /// Takes what the receiver says it has.
    pub(crate) fn acknowledge(&mut self, now_us: u64, rtt: &mut RoundTrip, ack: &Acknowledgement) {
        let mut newest = None;
        for packet in ack.packets(self.first).filter(|packet| *packet < self.unsent) {
            let state = &mut self.packets[usize::from(packet)];
            match *state {
                PacketState::InFlight {
                    order,
                    sent_us,
                    is_first,
                } => {
                    *state = PacketState::Acknowledged;
                    self.in_flight -= 1;
                    self.window.acknowledged();
                    if is_first && newest.is_none_or(|(newest, _)| newest < order) {
                        newest = Some((order, sent_us));
                    }
                }
                PacketState::Waiting => {
                    // It was thought lost, and was late.
                    *state = PacketState::Acknowledged;
                    self.lost.retain(|lost| *lost != packet);
                }
                PacketState::Acknowledged => {}
            }
        }
        while self.packets.get(usize::from(self.first)) == Some(&PacketState::Acknowledged) {
            self.first += 1;
        }
        if let Some((order, sent_us)) = newest {
            rtt.sample(now_us.saturating_sub(sent_us));
            self.timeouts = 0;
            self.timeout_from_us = now_us;
            self.detect_losses(order);
        }
    }

    /// Finds packets that were sent well before one that has arrived.
    fn detect_losses(&mut self, newest: u32) {
        let mut is_loss_new = false;
        for packet in self.first..self.unsent {
            if let PacketState::InFlight { order, .. } = self.packets[usize::from(packet)]
                && order + REORDERING <= newest
            {
                self.lose(packet);
                is_loss_new |= order >= self.recovery;
            }
        }
        if is_loss_new {
            self.window.lost();
            self.recovery = self.orders;
        }
    }

    fn lose(&mut self, packet: u16) {
        self.packets[usize::from(packet)] = PacketState::Waiting;
        self.in_flight -= 1;
        self.lost.push_back(packet);
    }

    /// Counts all that is in flight as lost if nothing was acknowledged in time.
    pub(crate) fn check_timeout(&mut self, now_us: u64, rtt: &RoundTrip) {
        if self.in_flight == 0 || now_us < self.timeout_at_us(rtt) {
            return;
        }
        for packet in self.first..self.unsent {
            if matches!(self.packets[usize::from(packet)], PacketState::InFlight { .. }) {
                self.lose(packet);
            }
        }
        self.window.collapsed();
        self.recovery = self.orders;
        self.timeouts += 1;
        self.timeout_from_us = now_us;
    }

    /// Returns when there is something to do, if nothing arrives before, of the first `limit` packets.
    pub(crate) fn wake_at_us(&self, rtt: &RoundTrip, limit: usize) -> Option<u64> {
        let timeout_us = (self.in_flight > 0).then(|| self.timeout_at_us(rtt));
        let has_waiting = !self.lost.is_empty() || usize::from(self.unsent) < self.packets.len().min(limit);
        let is_paced = has_waiting && self.in_flight < self.window.packets();
        let send_us = is_paced.then(|| self.window.send_at_us(rtt));
        timeout_us.into_iter().chain(send_us).min()
    }

    fn timeout_at_us(&self, rtt: &RoundTrip) -> u64 {
        self.timeout_from_us + rtt.backed_off_us(self.timeouts)
    }

    /// Returns how many bytes of the message the first packet holds.
    pub(crate) fn first_bytes(&self) -> usize {
        self.first_bytes
    }

    /// Returns the number of packets.
    pub(crate) fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_complete(&self) -> bool {
        usize::from(self.first) == self.packets.len()
    }
}
