use crate::batch::items;
use crate::field::{Field, Malformed, Reader};
use alloc::vec::Vec;

/// How much a log record matters
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A dropped frame, a refused message: expected of an open network.
    Debug,
    /// A change of the ring or of a session.
    Info,
    /// Something an operator should look at.
    Warn,
    /// The node cannot do its work.
    Error,
}

impl<'a> Field<'a> for LogLevel {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.field::<u8>()? {
            0 => Ok(Self::Debug),
            1 => Ok(Self::Info),
            2 => Ok(Self::Warn),
            3 => Ok(Self::Error),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

/// What an event tells
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// What the store held is loaded: from now on frames find the node as it was. No body.
    Ready,
    /// A session with a peer is established. Body: its id, 32 bytes.
    PeerConnected,
    /// The last session with a peer ended. Body: its id, 32 bytes.
    PeerDisconnected,
    /// Predecessor, successor list or role changed: ask for `Status`. No body.
    RingChanged,
    /// A name is stored at every responsible node that could be reached. Body: the name.
    Published,
    /// Two nodes run with one identity, this node's or a peer's. Body: CBOR, `duplicate` in the specification.
    DuplicateIdentity,
    /// A peer of a closed network has contradicted itself and is refused from now on. Body: the evidence, for the authority.
    Convicted,
}

impl<'a> Field<'a> for EventKind {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.field::<u8>()? {
            1 => Ok(Self::Ready),
            2 => Ok(Self::PeerConnected),
            3 => Ok(Self::PeerDisconnected),
            4 => Ok(Self::RingChanged),
            5 => Ok(Self::Published),
            6 => Ok(Self::DuplicateIdentity),
            7 => Ok(Self::Convicted),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Ready => 1,
            Self::PeerConnected => 2,
            Self::PeerDisconnected => 3,
            Self::RingChanged => 4,
            Self::Published => 5,
            Self::DuplicateIdentity => 6,
            Self::Convicted => 7,
        });
    }
}

items! {
    /// What a core asks of its host, and tells it; the last one of a batch is always `Wake`
    pub enum Output {
        /// Send a frame on a path.
        1 Transmit { path: u32, frame: &'a [u8] }
        /// Open a path to an address; answered by `PathOpened` or `DialFailed` with the same number.
        2 Dial { dial: u32, address: &'a str }
        /// Close a path; answered by `PathClosed`.
        3 ClosePath { path: u32 }
        /// Keep this with a hibernating path, in place of the last one, before any frame of this batch is sent.
        4 Snapshot { path: u32, snapshot: &'a [u8] }
        /// The core's random bytes run low: answer with `Entropy`.
        5 NeedEntropy {}
        /// Read one value; answered by `StoreRead`.
        6 StoreGet { tag: u32, key: &'a [u8] }
        /// Read at most `limit` entries with `start <= key < end`, in order; answered by `StoreRead`.
        7 StoreScan { tag: u32, start: &'a [u8], end: &'a [u8], limit: u32 }
        /// Apply all operations or none (see `Operations`); answered by `StoreCommitted`. `durable` asks that they
        /// survive a power loss before the answer.
        8 StoreCommit { tag: u32, durable: bool, operations: &'a [u8] }
        /// Whether the core awaits something on an exchange path: the side that dialled asks again while it is busy, the
        /// other one holds its answer open.
        9 Busy { path: u32, busy: bool }
        /// Whether a certificate of a peer stands in the DNS under its key, for the place that its id has; answered by `LookedUp`.
        /// `remote` is the address from which it connected as the host has told it, for the host's own limits, or empty.
        10 LookUp { peer: [u8; 32], key: [u8; 32], remote: &'a str }

        /// A stream is open: to a peer, in answer to `Call` with this tag, or from a peer, with tag 0. `service` is
        /// the name called, `head` what the caller sent with it (empty in an answer).
        16 StreamOpened { stream: u32, tag: u32, peer: [u8; 32], service: &'a str, head: &'a [u8] }
        /// Bytes arrived on a stream.
        17 StreamData { stream: u32, data: &'a [u8] }
        /// The peer has sent its last byte on a stream.
        18 StreamEnd { stream: u32 }
        /// A stream is gone, both ways.
        19 StreamReset { stream: u32, code: u16 }
        /// The application may send `bytes` more on a stream.
        20 StreamCredit { stream: u32, bytes: u32 }

        /// A command succeeded.
        32 Reply { tag: u32, body: &'a [u8] }
        /// A command failed. Tag 0 is the node as a whole. `detail` is empty, or of a call the providers that were tried, as
        /// `id=code` with 64 hex digits and a decimal number, separated by spaces.
        33 Failed { tag: u32, code: u16, detail: &'a str }
        /// An input of this batch was refused; `input` is its position, from 0.
        34 Refused { input: u32, code: u16 }
        /// Something happened that nobody asked for.
        35 Event { event: EventKind, body: &'a [u8] }
        /// A record for the log. `path` is 0 where none is concerned; `text` never holds a
        /// secret and is empty when the code says it all.
        36 Log { level: LogLevel, code: u16, path: u32, text: &'a str }
        /// Who serves a name that is watched with this tag. Body: CBOR, `providers` in the specification.
        37 Providers { tag: u32, body: &'a [u8] }
        /// A message was routed to this member, for the target that its sender named; answered by `AnswerRouted`.
        38 Routed { message: u32, peer: [u8; 32], target: [u8; 32], body: &'a [u8] }

        /// Call `step` again at this time at the latest, in milliseconds since 1970; `u64::MAX` is never.
        255 Wake { at_ms: u64 }
    }
}
