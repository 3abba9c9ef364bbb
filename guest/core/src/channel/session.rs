use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};
use selfsame_sodium::aead::{self, Key, NONCE_BYTES, TAG_BYTES};
use selfsame_sodium::hash;
use zeroize::Zeroizing;

use super::replay::ReplayWindow;
use crate::handshake::SessionSecrets;
use crate::identity::Admitted;
use crate::identity::{PeerId, PublicKey};

const NEXT_KEY: &str = "selfsame/1 next packet key";

/// Largest frame on a path: what hosts must take in one message.
pub const MAX_FRAME: usize = 65_536;
/// Length of a packet's header.
pub(super) const HEADER_BYTES: usize = 16;
/// What a packet adds to its payload.
pub const PACKET_OVERHEAD: usize = HEADER_BYTES + TAG_BYTES;
/// Largest payload of a packet: with room for the packet to be relayed inside another one.
pub const MAX_PAYLOAD: usize = MAX_FRAME - 2 * PACKET_OVERHEAD - 64;
/// First byte of a packet.
const PACKET: u8 = 16;

/// Packets under one key; far below what ChaCha20-Poly1305 bears, so that a stolen key opens little.
const PACKETS_PER_KEY: u64 = 1 << 20;
/// Age of a key, likewise.
const KEY_LIFETIME_MS: u64 = 3_600_000;
/// How long packets under the previous key may still arrive.
const PREVIOUS_KEY_MS: u64 = 30_000;
/// A session ends before its counters do.
const LAST_COUNTER: u64 = u64::MAX - 1;

/// Which side of the handshake this was
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It sent m1.
    Initiator,
    /// It answered.
    Responder,
}

pub(super) struct SendKey {
    pub(super) key: Key,
    pub(super) phase: u8,
    pub(super) counter: u64,
    pub(super) rekey_at: u64,
    pub(super) since_ms: u64,
}

pub(super) struct ReceiveKey {
    pub(super) key: Key,
    pub(super) phase: u8,
    pub(super) previous: Option<(Key, u64)>,
    pub(super) window: ReplayWindow,
}

/// The keys and counters of one session
pub struct Session {
    pub(super) peer: PeerId,
    pub(super) peer_key: PublicKey,
    pub(super) admitted: Admitted,
    pub(super) side: Side,
    pub(super) peer_index: u32,
    pub(super) id: [u8; 16],
    pub(super) send: SendKey,
    pub(super) receive: ReceiveKey,
}

impl Session {
    /// A session out of a handshake; `peer_index` is the peer's number for it.
    #[must_use]
    pub fn new(secrets: SessionSecrets, side: Side, peer_index: u32, now_ms: u64) -> Self {
        Self {
            peer: secrets.peer,
            peer_key: secrets.peer_key,
            admitted: secrets.admitted,
            side,
            peer_index,
            id: secrets.session_id,
            send: SendKey {
                key: secrets.send,
                phase: 0,
                counter: 0,
                rekey_at: PACKETS_PER_KEY,
                since_ms: now_ms,
            },
            receive: ReceiveKey {
                key: secrets.receive,
                phase: 0,
                previous: None,
                window: ReplayWindow::default(),
            },
        }
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The peer's key.
    #[must_use]
    pub(crate) fn peer_key(&self) -> PublicKey {
        self.peer_key
    }

    /// For how long the network admits the peer.
    #[must_use]
    pub(crate) fn admitted(&self) -> Admitted {
        self.admitted
    }

    /// Whether no packet of the peer has been opened.
    pub(crate) fn is_unheard(&self) -> bool {
        self.receive.phase == 0 && self.receive.window.is_empty()
    }

    /// Takes note of a new certificate of the peer.
    pub(crate) fn set_admitted(&mut self, admitted: Admitted) {
        self.admitted = admitted;
    }

    /// Which side began.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Appends a packet whose payload `write` produces; it is sealed in place.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when the payload exceeds [`MAX_PAYLOAD`]; `out` is as it was.
    pub fn seal(
        &mut self,
        now_ms: u64,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Code> {
        if self.send.counter >= self.send.rekey_at
            || now_ms.saturating_sub(self.send.since_ms) >= KEY_LIFETIME_MS
        {
            self.rekey(now_ms);
        }
        if self.send.counter > LAST_COUNTER {
            return Err(Code::PeerClosed);
        }
        let start = out.len();
        let header = header(self.send.phase, self.peer_index, self.send.counter);
        out.extend_from_slice(&header);
        write(out);
        let payload = &mut out[start + HEADER_BYTES..];
        if payload.len() > MAX_PAYLOAD {
            out.truncate(start);
            return Err(Code::TooLarge);
        }
        let ad = self.associated_data(&header, self.side);
        let tag = aead::seal_in_place(&self.send.key, &nonce(self.send.counter), &ad, payload);
        out.extend_from_slice(&tag);
        self.send.counter += 1;
        Ok(())
    }

    /// Opens a packet in place and gives its payload. When it fails nothing has changed but the bytes of `packet`.
    ///
    /// # Errors
    /// [`Code::BadFrame`], [`Code::Replayed`] or [`Code::BadSeal`].
    pub fn open<'a>(&mut self, now_ms: u64, packet: &'a mut [u8]) -> Result<&'a [u8], Code> {
        let (header, sealed) = packet
            .split_first_chunk_mut::<HEADER_BYTES>()
            .ok_or(Code::BadFrame)?;
        let (payload, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>().ok_or(Code::BadFrame)?;
        let [_, phase, zero_low, zero_high, ..] = *header;
        if zero_low != 0 || zero_high != 0 {
            return Err(Code::BadFrame);
        }
        let counter = counter_of(header);
        if counter > LAST_COUNTER || !self.receive.window.is_new(counter) {
            return Err(Code::Replayed);
        }
        let ad = self.associated_data(header, self.side.other());
        let nonce = nonce(counter);
        if phase == self.receive.phase {
            aead::open_in_place(&self.receive.key, &nonce, &ad, payload, tag).map_err(|_| Code::BadSeal)?;
        } else if phase == self.receive.phase.wrapping_add(1) {
            let next = next_key(&self.receive.key, &self.id);
            aead::open_in_place(&next, &nonce, &ad, payload, tag).map_err(|_| Code::BadSeal)?;
            let previous = core::mem::replace(&mut self.receive.key, next);
            self.receive.previous = Some((previous, now_ms.saturating_add(PREVIOUS_KEY_MS)));
            self.receive.phase = phase;
        } else {
            let (previous, until_ms) = self.receive.previous.as_ref().ok_or(Code::BadSeal)?;
            if phase != self.receive.phase.wrapping_sub(1) || now_ms >= *until_ms {
                return Err(Code::BadSeal);
            }
            aead::open_in_place(previous, &nonce, &ad, payload, tag).map_err(|_| Code::BadSeal)?;
        }
        self.receive.window.mark(counter);
        Ok(payload)
    }

    /// When the previous receive key is to be erased, if there is one.
    #[must_use]
    pub fn previous_key_expiry_ms(&self) -> Option<u64> {
        self.receive.previous.as_ref().map(|(_, until_ms)| *until_ms)
    }

    /// Erases the previous receive key once packets under it are not accepted any more.
    pub fn drop_previous_key(&mut self, now_ms: u64) {
        if self
            .previous_key_expiry_ms()
            .is_some_and(|until_ms| now_ms >= until_ms)
        {
            self.receive.previous = None;
        }
    }

    fn rekey(&mut self, now_ms: u64) {
        self.send.key = next_key(&self.send.key, &self.id);
        self.send.phase = self.send.phase.wrapping_add(1);
        self.send.rekey_at = self.send.counter.saturating_add(PACKETS_PER_KEY);
        self.send.since_ms = now_ms;
    }

    /// Header, session id and who sends: 33 bytes.
    fn associated_data(&self, header: &[u8; HEADER_BYTES], sender: Side) -> [u8; 33] {
        let mut ad = [0; 33];
        ad[..16].copy_from_slice(header);
        ad[16..32].copy_from_slice(&self.id);
        ad[32] = u8::from(sender == Side::Responder);
        ad
    }
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// The receiver's number for the session that a packet belongs to.
///
/// # Errors
/// [`Code::BadFrame`] when the frame is too short for a packet.
pub fn packet_receiver(frame: &[u8]) -> Result<u32, Code> {
    if frame.len() < PACKET_OVERHEAD {
        return Err(Code::BadFrame);
    }
    let mut reader = Reader::new(&frame[4..]);
    reader.field().map_err(|_| Code::BadFrame)
}

fn header(phase: u8, receiver: u32, counter: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[0] = PACKET;
    out[1] = phase;
    out[4..8].copy_from_slice(&receiver.to_le_bytes());
    out[8..].copy_from_slice(&counter.to_le_bytes());
    out
}

fn counter_of(header: &[u8; HEADER_BYTES]) -> u64 {
    let [_, _, _, _, _, _, _, _, counter @ ..] = *header;
    u64::from_le_bytes(counter)
}

fn nonce(counter: u64) -> [u8; NONCE_BYTES] {
    let mut out = [0; NONCE_BYTES];
    out[4..].copy_from_slice(&counter.to_le_bytes());
    out
}

fn next_key(key: &Key, session: &[u8; 16]) -> Key {
    let mut material = Zeroizing::new([0; 48]);
    material[..32].copy_from_slice(key.as_bytes());
    material[32..].copy_from_slice(session);
    Key::new(hash::derive_key(NEXT_KEY, &material[..]))
}
