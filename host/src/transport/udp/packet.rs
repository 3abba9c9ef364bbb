//! Datagrams of a connection over UDP, read and written.

use core::ops::Range;

/// Longest datagram: what passes every path of IPv6 (RFC 8200, section 5) with its headers.
pub(super) const MAX_DATAGRAM: usize = 1200;
/// Most ranges in one packet: with them all the bytes of a segment still fit.
pub(super) const MAX_RANGES: usize = 8;
/// Most bytes of the stream in one packet, however many ranges are in it.
pub(super) const SEGMENT: usize = MAX_DATAGRAM - HEADER - MAX_RANGES * RANGE;
/// Bytes of a packet beside its ranges and the stream's.
const HEADER: usize = 31;
/// Bytes of a range.
const RANGE: usize = 8;
/// Nothing is sent beyond: sums of offsets and lengths stay far from overflow.
const MAX_OFFSET: u64 = 1 << 62;
/// The flag of the stream's end.
const ENDS: u8 = 1;

// Kinds of datagrams, apart from those of STUN, DTLS, TURN and RTP, so that all can share a port (RFC 7983).
const OPEN: u8 = 0x50;
const RETRY: u8 = 0x51;
const ACCEPT: u8 = 0x52;
const PACKET: u8 = 0x53;
const RESET: u8 = 0x54;

/// Number of a connection, chosen at random by the side that receives it
pub(super) type Id = [u8; 8];
/// What proves that an address can be answered at
pub(super) type Cookie = [u8; 16];

/// A datagram of a connection
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datagram<'a> {
    /// The dialling side asks for a connection.
    Open { id: Id, cookie: Cookie },
    /// It is to ask again with a cookie.
    Retry { id: Id, cookie: Cookie },
    /// It has a connection, on which it sends to `accepting`.
    Accept { id: Id, accepting: Id },
    /// Bytes and acknowledgements.
    Packet(Packet<'a>),
    /// There is no connection with this number.
    Reset { id: Id },
}

/// Bytes of a stream, and what of the other one has arrived
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    /// The receiver's number of the connection.
    pub(super) id: Id,
    /// Whether the stream ends behind the bytes.
    pub(super) ends: bool,
    /// Below it everything arrived.
    pub(super) acknowledged: u64,
    /// Bytes beyond it that may come.
    pub(super) window: u32,
    /// What arrived beyond it, ascending.
    pub(super) ranges: Vec<Range<u64>>,
    /// Bytes of the stream before these.
    pub(super) offset: u64,
    /// Bytes of the stream.
    pub(super) bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram; `None` when it is none.
    pub(super) fn parse(datagram: &'a [u8]) -> Option<Self> {
        if datagram.len() > MAX_DATAGRAM {
            return None;
        }
        let (kind, rest) = datagram.split_first()?;
        let (id, rest) = rest.split_first_chunk()?;
        let id = *id;
        match (*kind, rest.len()) {
            (OPEN, _) if datagram.len() == MAX_DATAGRAM => Some(Self::Open {
                id,
                cookie: *rest.first_chunk()?,
            }),
            (RETRY, 16) => Some(Self::Retry {
                id,
                cookie: rest.try_into().ok()?,
            }),
            (ACCEPT, 8) => Some(Self::Accept {
                id,
                accepting: rest.try_into().ok()?,
            }),
            (PACKET, _) => Packet::parse(id, rest).map(Self::Packet),
            (RESET, 0) => Some(Self::Reset { id }),
            _ => None,
        }
    }

    /// Appends the datagram.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open { id, cookie } => {
                write_parts(out, OPEN, &[id, cookie]);
                out.resize(MAX_DATAGRAM, 0);
            }
            Self::Retry { id, cookie } => write_parts(out, RETRY, &[id, cookie]),
            Self::Accept { id, accepting } => write_parts(out, ACCEPT, &[id, accepting]),
            Self::Packet(packet) => packet.write(out),
            Self::Reset { id } => write_parts(out, RESET, &[id]),
        }
    }
}

fn write_parts(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    out.push(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

impl<'a> Packet<'a> {
    fn parse(id: Id, rest: &'a [u8]) -> Option<Self> {
        let (&flags, rest) = rest.split_first()?;
        let (acknowledged, rest) = rest.split_first_chunk()?;
        let (window, rest) = rest.split_first_chunk()?;
        let (&count, mut rest) = rest.split_first()?;
        let acknowledged = u64::from_le_bytes(*acknowledged);
        if flags & !ENDS != 0 || usize::from(count) > MAX_RANGES || acknowledged > MAX_OFFSET {
            return None;
        }
        let mut ranges = Vec::with_capacity(count.into());
        // What touches the rest, or another range, would have been one with it.
        let mut least = acknowledged + 1;
        for _ in 0..count {
            let (from, to);
            (from, rest) = rest.split_first_chunk()?;
            (to, rest) = rest.split_first_chunk()?;
            let at = |distance: &[u8; 4]| acknowledged + u64::from(u32::from_le_bytes(*distance));
            let range = at(from)..at(to);
            if range.start < least || range.is_empty() {
                return None;
            }
            least = range.end + 1;
            ranges.push(range);
        }
        let (offset, bytes) = rest.split_first_chunk()?;
        let offset = u64::from_le_bytes(*offset);
        (offset <= MAX_OFFSET).then(|| Self {
            id,
            ends: flags & ENDS != 0,
            acknowledged,
            window: u32::from_le_bytes(*window),
            ranges,
            offset,
            bytes,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_parts(out, PACKET, &[&self.id, &[u8::from(self.ends) * ENDS]]);
        out.extend_from_slice(&self.acknowledged.to_le_bytes());
        out.extend_from_slice(&self.window.to_le_bytes());
        let count = self.ranges.len().min(MAX_RANGES);
        out.push(u8::try_from(count).unwrap_or_default());
        for range in &self.ranges[..count] {
            for edge in [range.start, range.end] {
                // What arrives is within the window, so distances are, too.
                let distance = u32::try_from(edge - self.acknowledged).unwrap_or(u32::MAX);
                out.extend_from_slice(&distance.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ranges: &[Range<u64>], bytes: &'static [u8]) -> Packet<'static> {
        Packet {
            id: [7; 8],
            ends: true,
            acknowledged: 1000,
            window: 65_536,
            ranges: ranges.to_vec(),
            offset: 5,
            bytes,
        }
    }

    fn written(datagram: &Datagram<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        datagram.write(&mut out);
        out
    }

    #[test]
    fn every_kind_comes_back_and_is_as_long_as_it_says() {
        let most: Vec<Range<u64>> = (0..MAX_RANGES as u64)
            .map(|n| 1001 + 2 * n..1002 + 2 * n)
            .collect();
        let full = &[9; SEGMENT];
        let cookie = [3; 16];
        for (datagram, len) in [
            (Datagram::Open { id: [1; 8], cookie }, MAX_DATAGRAM),
            (Datagram::Retry { id: [1; 8], cookie }, 25),
            (
                Datagram::Accept {
                    id: [1; 8],
                    accepting: [2; 8],
                },
                17,
            ),
            (Datagram::Packet(packet(&[], b"")), HEADER),
            (Datagram::Packet(packet(&most, full)), MAX_DATAGRAM),
            (Datagram::Reset { id: [1; 8] }, 9),
        ] {
            let bytes = written(&datagram);
            assert_eq!(bytes.len(), len);
            assert_eq!(Datagram::parse(&bytes), Some(datagram));
        }
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_none() {
        let sound = [
            written(&Datagram::Open {
                id: [1; 8],
                cookie: [0; 16],
            }),
            written(&Datagram::Retry {
                id: [1; 8],
                cookie: [0; 16],
            }),
            written(&Datagram::Accept {
                id: [1; 8],
                accepting: [2; 8],
            }),
            written(&Datagram::Packet(packet(&[1001..1002, 1005..1009], b""))),
            written(&Datagram::Reset { id: [1; 8] }),
        ];
        for bytes in sound {
            for len in 0..bytes.len() {
                assert_eq!(Datagram::parse(&bytes[..len]), None, "{} bytes of {bytes:?}", len);
            }
            let longer = [bytes.as_slice(), &[0; MAX_DATAGRAM]].concat();
            assert_eq!(Datagram::parse(&longer), None);
        }
    }

    #[test]
    fn what_is_not_defined_is_none() {
        let sound = written(&Datagram::Packet(packet(
            core::slice::from_ref(&(1001..1002)),
            b"",
        )));
        let changed = |at: usize, to: u8| {
            let mut bytes = sound.clone();
            bytes[at] = to;
            Datagram::parse(&bytes).is_some()
        };
        assert!(changed(1, 0));
        assert!(
            [0, 4, 0x4f, 0x55].iter().all(|kind| !changed(0, *kind)),
            "its kind"
        );
        assert!(!changed(9, 2), "its flags");
        assert!(!changed(17, 0x80), "what it acknowledges");
        assert!(!changed(22, 9), "its number of ranges");
        assert!(!changed(23, 0), "a range that touches what came before");
        assert!(!changed(27, 1), "an empty range");
        assert!(!changed(38, 0x80), "its offset");
        for ranges in [
            [1005..1006, 1001..1002],
            [1001..1004, 1003..1005],
            [1001..1004, 1004..1005],
        ] {
            let bytes = written(&Datagram::Packet(packet(&ranges, b"")));
            assert_eq!(Datagram::parse(&bytes), None, "{ranges:?}");
        }
    }
}
