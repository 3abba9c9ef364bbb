//! Receiving a message of many packets.

use alloc::vec::Vec;

use selfsame_codec::{Malformed, Reader};

use crate::transfer::{Acknowledgement, MAX_MESSAGE_BYTES};

/// Bytes beyond what has arrived that a packet may claim: more than any sender has in flight, so that one packet does not make the
/// receiver set aside the largest message.
const MAX_AHEAD_BYTES: usize = 2 * 1024 * 1024;

/// A message of which some packets have arrived.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    body: Vec<u8>,
    /// Zero until a packet tells it.
    total_bytes: usize,
    received_bytes: usize,
    received: Vec<u64>,
    /// The first packet that has not arrived, and one above the last that has.
    next: u16,
    end: u16,
}

impl Assembly {
    /// Takes what a packet holds after `prefix` bytes that are the caller's; whether it was new.
    ///
    /// # Errors
    /// [`Malformed`] when it does not fit the others.
    pub(crate) fn take(
        &mut self,
        packet: u16,
        mut reader: Reader<'_>,
        prefix: usize,
    ) -> Result<bool, Malformed> {
        let (offset, total): (u32, u32) = (reader.field()?, reader.field()?);
        reader.take(prefix)?;
        let (start, total, bytes) = (offset as usize, total as usize, reader.rest());
        let end = start.checked_add(bytes.len()).ok_or(Malformed)?;
        let known = if total == 0 { self.total_bytes } else { total };
        let limit = if known == 0 { MAX_MESSAGE_BYTES } else { known };
        let is_consistent = self.total_bytes == 0 || known == self.total_bytes;
        if !is_consistent
            || known > MAX_MESSAGE_BYTES
            || end > limit
            || end > self.received_bytes + MAX_AHEAD_BYTES
        {
            return Err(Malformed);
        }
        if self.has(packet) {
            return Ok(false);
        }
        self.total_bytes = known;
        if self.body.len() < end {
            self.body.resize(end, 0);
        }
        self.body[start..end].copy_from_slice(bytes);
        self.received_bytes += bytes.len();
        self.mark(packet);
        Ok(true)
    }

    fn has(&self, packet: u16) -> bool {
        let word = self.received.get(usize::from(packet / 64)).copied().unwrap_or(0);
        word & (1 << (packet % 64)) != 0
    }

    fn mark(&mut self, packet: u16) {
        let word = usize::from(packet / 64);
        if self.received.len() <= word {
            self.received.resize(word + 1, 0);
        }
        self.received[word] |= 1 << (packet % 64);
        self.end = self.end.max(packet.saturating_add(1));
        while self.has(self.next) {
            self.next += 1;
        }
    }

    /// Returns which packets have arrived.
    pub(crate) fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::of(self.next, self.end, |packet| self.has(packet))
    }

    /// Returns how many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether all of it is there.
    pub(crate) fn is_complete(&self) -> bool {
        self.total_bytes != 0 && self.received_bytes == self.total_bytes && self.next == self.end
    }

    /// Takes the message out; which packets have arrived is still known.
    pub(crate) fn take_body(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::RoundTrip;
    use crate::transfer::Transfer;

    /// Sends `len` bytes over a network that drops by `drops`; how many packets were sent.
    fn carry(len: usize, mut drops: impl FnMut(usize) -> bool) -> usize {
        let body: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let mut transfer = Transfer::new(body.clone(), 100, 1000);
        let mut assembly = Assembly::default();
        let mut rtt = RoundTrip::default();
        let (mut now, mut sent) = (0, 0);
        while !transfer.is_complete() {
            let limit = transfer.packets();
            while let Some(packet) = transfer.next_packet(now, &rtt, limit) {
                sent += 1;
                if drops(sent) {
                    continue;
                }
                let mut bytes = Vec::new();
                transfer.write(packet, packet > 0, &[], &mut bytes);
                assembly.take(packet, Reader::new(&bytes), 0).expect("it fits");
            }
            now += 1_000;
            transfer.acknowledge(now, &mut rtt, &assembly.acknowledgement());
            now = now.max(transfer.wake_at_us(&rtt, limit).unwrap_or(0));
            transfer.check_timeout(now, &rtt);
        }
        assert!(assembly.is_complete());
        assert_eq!(assembly.take_body(), body);
        sent
    }

    #[test]
    fn message_arrives_without_a_packet_too_many() {
        assert_eq!(carry(50_100, |_| false), 51);
    }

    #[test]
    fn message_arrives_though_packets_are_lost() {
        let mut state = 1_u64;
        let sent = carry(300_000, |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 61 == 0
        });
        assert!((330..500).contains(&sent), "{sent}");
    }

    #[test]
    fn packet_beyond_the_message_is_refused() {
        let packet = |offset: u32, total: u32, len: usize| {
            let mut bytes = [offset.to_le_bytes(), total.to_le_bytes()].concat();
            bytes.resize(8 + len, 1);
            bytes
        };
        let take =
            |assembly: &mut Assembly, number, bytes: &[u8]| assembly.take(number, Reader::new(bytes), 0);
        let mut assembly = Assembly::default();
        assert_eq!(take(&mut assembly, 0, &packet(0, 0, 10)), Ok(true));
        assert_eq!(take(&mut assembly, 1, &packet(10, 30, 10)), Ok(true));
        for (offset, total, len) in [(20, 30, 11), (20, 31, 5), (u32::MAX, 0, 5), (20, u32::MAX, 5)] {
            assert_eq!(
                take(&mut assembly, 2, &packet(offset, total, len)),
                Err(Malformed)
            );
        }
        assert_eq!(take(&mut assembly, 1, &packet(10, 30, 10)), Ok(false));
        let mut assembly = Assembly::default();
        assert_eq!(take(&mut assembly, 1, &packet(8_000_000, 0, 10)), Err(Malformed));
        assert_eq!(take(&mut assembly, 1, &packet(9, 17_000_000, 10)), Err(Malformed));
        assert_eq!(assembly.len(), 0);
    }
}
