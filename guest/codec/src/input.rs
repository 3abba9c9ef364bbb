use crate::batch::items;
use crate::field::{Field, Malformed, Reader};
use alloc::vec::Vec;

/// How a path carries frames
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Ordered and reliable, both ways at any time: WebSocket, TCP.
    Ordered,
    /// Request and answer: frames may overtake each other, and only the side that dialled can begin: HTTPS POST.
    Exchange,
    /// Ordered as well, but the host forgets its memory between frames: a hibernating WebSocket. The core gives
    /// a snapshot of the path's state before it transmits.
    Hibernating,
    /// As `Ordered`, over TCP or UDP without a proxy between: `remote` is the address of the peer itself.
    Direct,
}

impl<'a> Field<'a> for PathKind {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.field::<u8>()? {
            0 => Ok(Self::Ordered),
            1 => Ok(Self::Exchange),
            2 => Ok(Self::Hibernating),
            3 => Ok(Self::Direct),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Ordered => 0,
            Self::Exchange => 1,
            Self::Hibernating => 2,
            Self::Direct => 3,
        });
    }
}

/// How a provider is chosen among those of a version that serve a name
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Of two at random, the one with less latency and fewer requests in flight.
    PowerOfTwo,
    /// Any, uniformly.
    Random,
}

impl<'a> Field<'a> for Policy {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.field::<u8>()? {
            0 => Ok(Self::PowerOfTwo),
            1 => Ok(Self::Random),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

items! {
    /// What a host tells a core
    ///
    /// `path` numbers are chosen by the host and never reused while a core lives; `tag` numbers come from whoever
    /// asks and return with the answer; `stream` numbers are chosen by the core.
    pub enum Input {
        /// A frame arrived on a path.
        1 Received { path: u32, frame: &'a [u8] }
        /// A path is open; `dial` is the number of the core's `Dial`, or 0 for an incoming path. `remote` is the
        /// peer's address as the host sees it, used only to spread limits and bind cookies.
        2 PathOpened { path: u32, dial: u32, kind: PathKind, remote: &'a str }
        /// A path is closed, whoever closed it.
        3 PathClosed { path: u32 }
        /// An incoming hibernating path that survived the loss of memory, with the last snapshot the core gave of it.
        4 PathResumed { path: u32, remote: &'a str, snapshot: &'a [u8] }
        /// A `Dial` came to nothing.
        5 DialFailed { dial: u32 }
        /// 32 fresh random bytes, in answer to `NeedEntropy` or at any time.
        6 Entropy { bytes: [u8; 32] }
        /// Answer to `StoreGet` or `StoreScan`: entries in order of their keys (see `Entries`).
        7 StoreRead { tag: u32, ok: bool, entries: &'a [u8] }
        /// Answer to `StoreCommit`.
        8 StoreCommitted { tag: u32, ok: bool }
        /// Answer to `LookUp`: 0 if a certificate that counts stands in the DNS, else the code of why not. What the host meets
        /// besides comes with a `peer` of zeros, to be counted.
        9 LookedUp { peer: [u8; 32], code: u16 }

        /// The application sends bytes on a stream, at most the credit it has.
        16 StreamData { stream: u32, data: &'a [u8] }
        /// The application has sent its last byte on a stream.
        17 StreamEnd { stream: u32 }
        /// The application gives up a stream, both ways.
        18 StreamReset { stream: u32, code: u16 }
        /// The application has consumed `bytes` more of what a stream delivered.
        19 StreamCredit { stream: u32, bytes: u32 }

        /// Join the ring through the bootstraps of the configuration. Reply: none but success.
        32 Join { tag: u32 }
        /// Hand over what this node is responsible for and leave the ring.
        33 Leave { tag: u32 }
        /// Find who serves a name. `owner` is the 32-byte owner key, or empty for an unowned name.
        /// Reply: CBOR, `providers` in the specification.
        34 Find { tag: u32, owner: &'a [u8], name: &'a str }
        /// Publish this node as a provider of a name until `Withdraw`. `grant` is the owner's grant, or empty for an
        /// unowned name; `replicas` is k, so k + 1 objects are stored; `weight` is in ten-thousandths.
        35 Publish { tag: u32, grant: &'a [u8], name: &'a str, replicas: u8, version: &'a str, weight: u16 }
        /// Stop publishing a name.
        36 Withdraw { tag: u32, owner: &'a [u8], name: &'a str }
        /// Open a stream to a provider of a name; `head` goes with the first frame. Reply: `StreamOpened` with this tag.
        /// Calls of equal `key` go to the same provider while there is one; an empty key is none. `tried` are the ids of the
        /// providers that failed this request before, 32 bytes each: with any, the call is a retry, for which there is a
        /// budget. Unless the answer begins within `timeout_ms` (0: 30 s) the call fails or its stream is reset.
        37 Call { tag: u32, owner: &'a [u8], name: &'a str, key: &'a [u8], tried: &'a [u8], policy: Policy,
            timeout_ms: u32, head: &'a [u8] }
        /// Open a stream to one peer, known by its 32-byte id, for a service it serves.
        38 CallPeer { tag: u32, peer: [u8; 32], owner: &'a [u8], name: &'a str, timeout_ms: u32, head: &'a [u8] }
        /// Find the node responsible for a 32-byte id. Reply: CBOR, `found-node` in the specification.
        39 FindNode { tag: u32, id: [u8; 32] }
        /// What this node knows of itself and the ring. Reply: CBOR, `status` in the specification.
        40 Status { tag: u32 }
        /// Connect to a peer by id or, when `id` is all zero, to whoever answers at `address`. Reply: its id, 32 bytes.
        41 Connect { tag: u32, peer: [u8; 32], address: &'a str }
        /// Give up a command that was not answered yet.
        42 Cancel { tag: u32 }
        /// Follow who serves a name: `Providers` with this tag now and whenever that changes, until `Cancel`.
        43 Watch { tag: u32, owner: &'a [u8], name: &'a str }
        /// Go on with a new certificate of admission, for the same id. Reply: none but success.
        44 Certify { tag: u32, certificate: &'a [u8] }
        /// Take a list of revocations of the network's authority, and pass it on. Reply: none but success.
        45 Revoke { tag: u32, list: &'a [u8] }
        /// Send a message from member to member: to the one responsible for `target`, or if `is_peer` to the one with that id.
        /// The answer must come within `timeout_ms` (0: 10 s, at most 60 s). Reply: what the other member's application answers.
        46 Route { tag: u32, target: [u8; 32], is_peer: bool, timeout_ms: u32, body: &'a [u8] }

        /// The application answers a `Routed` message, or if not `ok` refuses it.
        47 AnswerRouted { message: u32, ok: bool, body: &'a [u8] }
    }
}
