//! Keys of one ticket's packets, and how packets are sealed with them.

use alloc::vec::Vec;
use core::fmt;

use selfsame_sodium::Rejected;
use selfsame_sodium::aead::{Key, NONCE_BYTES, open_in_place, seal_in_place};
use selfsame_sodium::hash::keyed;
use zeroize::Zeroizing;

use crate::wire::{Epoch, RequestHead, ResponseHead, SessionId, TAG_BYTES, TICKET_NONCE_BYTES};

const REQUEST_KEY: &str = "selfsame/1 rpc request key";
const RESPONSE_KEY: &str = "selfsame/1 rpc response key";

/// The secret that a client and all replicas of a service derive the keys of one ticket from.
#[derive(Clone)]
pub(crate) struct Psk(Zeroizing<[u8; Self::BYTES]>);

impl Psk {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn new(bytes: &[u8; Self::BYTES]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Returns the key of requests.
    pub(crate) fn request_key(&self) -> PacketKey {
        PacketKey(Key::new(keyed(&self.0, REQUEST_KEY.as_bytes())))
    }

    /// Returns the key of responses in one life of the session at one replica: two replicas that answer the same request, or one
    /// before and after a restart, never seal two texts with one nonce.
    pub(crate) fn response_key(&self, epoch: &Epoch) -> PacketKey {
        let mut input = [0; RESPONSE_KEY.len() + size_of::<Epoch>()];
        input[..RESPONSE_KEY.len()].copy_from_slice(RESPONSE_KEY.as_bytes());
        input[RESPONSE_KEY.len()..].copy_from_slice(epoch);
        PacketKey(Key::new(keyed(&self.0, &input)))
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk(..)")
    }
}

/// Returns the session that a ticket with this nonce begins at each replica.
pub(crate) fn session_of(nonce: &[u8; TICKET_NONCE_BYTES]) -> SessionId {
    let mut id = [0; 8];
    id.copy_from_slice(&nonce[..8]);
    SessionId::from_le_bytes(id)
}

/// The key of one direction.
#[derive(Debug)]
pub(crate) struct PacketKey(Key);

impl PacketKey {
    /// Seals `out[from..]` in place and appends the tag.
    pub(crate) fn seal_request(
        &self,
        head: &RequestHead<'_>,
        bound: Option<&Epoch>,
        out: &mut Vec<u8>,
        from: usize,
    ) {
        let nonce = nonce(head.counter, head.nonce_packet());
        let (ad, len) = request_ad(head, bound);
        let tag = seal_in_place(&self.0, &nonce, &ad[..len], &mut out[from..]);
        out.extend_from_slice(&tag);
    }

    /// Opens a request into `out`, which it replaces.
    pub(crate) fn open_request(
        &self,
        head: &RequestHead<'_>,
        bound: Option<&Epoch>,
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Rejected> {
        let (ad, len) = request_ad(head, bound);
        self.open(&nonce(head.counter, head.nonce_packet()), &ad[..len], sealed, out)
    }

    /// Seals `out[from..]` in place and appends the tag.
    pub(crate) fn seal_response(&self, head: &ResponseHead, counter: u64, out: &mut Vec<u8>, from: usize) {
        let nonce = nonce(counter, head.nonce_packet());
        let tag = seal_in_place(&self.0, &nonce, &head.first_bytes(), &mut out[from..]);
        out.extend_from_slice(&tag);
    }

    /// Opens a response into `out`, which it replaces.
    pub(crate) fn open_response(
        &self,
        head: &ResponseHead,
        counter: u64,
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Rejected> {
        self.open(
            &nonce(counter, head.nonce_packet()),
            &head.first_bytes(),
            sealed,
            out,
        )
    }

    fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        ad: &[u8],
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Rejected> {
        let (text, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(Rejected)?;
        out.clear();
        out.extend_from_slice(text);
        open_in_place(&self.0, nonce, ad, out, tag)
    }
}

fn nonce(counter: u64, packet: u32) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..8].copy_from_slice(&counter.to_le_bytes());
    nonce[8..].copy_from_slice(&packet.to_le_bytes());
    nonce
}

/// Associated data of a request, at most one block of Poly1305: credential and counter are bound by key and nonce.
fn request_ad(head: &RequestHead<'_>, bound: Option<&Epoch>) -> ([u8; 10], usize) {
    let mut ad = [0; 10];
    ad[..2].copy_from_slice(&head.first_bytes());
    match bound {
        Some(epoch) => {
            ad[2..].copy_from_slice(epoch);
            (ad, 10)
        }
        None => (ad, 2),
    }
}
