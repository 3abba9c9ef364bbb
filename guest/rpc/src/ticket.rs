//! Tickets: what lets any replica of a service open a client's first datagram (paper, section III.A).
//!
//! ```text
//! ticket: key id 4 | nonce 24 | sealed { caller 32 | expires s u32 | issued s u32 | address tag 8 } | tag 16
//! ```

use core::fmt;

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_sodium::aead::{Key, open_in_place, seal_in_place};
use selfsame_sodium::hash::{derive_key, keyed, keyed_wide};
use selfsame_sodium::memory;
use zeroize::Zeroizing;

use crate::endpoint::Endpoint;
use crate::keys::{Psk, session_of};
use crate::wire::{
    KEY_ID_BYTES, SessionId, TAG_BYTES, TICKET_BYTES, TICKET_NONCE_BYTES, Ticket, ticket_nonce,
};

const SERVICE_KEY: &str = "selfsame/1 rpc service ticket key";
const KEY_ID: &str = "selfsame/1 rpc ticket key id";
const ADDRESS_TAG: &str = "selfsame/1 rpc address tag";
const TICKET: &str = "selfsame/1 rpc ticket";
const RENEWAL: &str = "selfsame/1 rpc renewal nonce";

const CONTENT_BYTES: usize = TICKET_BYTES - KEY_ID_BYTES - TICKET_NONCE_BYTES - TAG_BYTES;
/// Each ticket has a key of its own, so that all are sealed with this nonce.
const ONLY_NONCE: [u8; 12] = [0; 12];

/// A secret that the replicas of a service share, and that tickets are sealed with.
pub struct TicketKey {
    secret: Zeroizing<[u8; 32]>,
    id: [u8; KEY_ID_BYTES],
    address_key: Zeroizing<[u8; 32]>,
}

/// What a replica learns from a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketContent {
    /// Peer id of whom it was issued to.
    pub(crate) caller: [u8; 32],
    pub(crate) expires_s: u32,
    pub(crate) issued_s: u32,
    /// Proves the address that it was issued at.
    pub(crate) address_tag: [u8; 8],
}

/// A ticket that was opened.
#[derive(Debug)]
pub(crate) struct OpenedTicket {
    pub(crate) content: TicketContent,
    pub(crate) nonce: [u8; TICKET_NONCE_BYTES],
    pub(crate) psk: Psk,
}

/// A ticket with what its holder must know: travels sealed, in a session of the core or in a response.
#[derive(Clone)]
pub struct Grant {
    pub(crate) ticket: Ticket,
    pub(crate) psk: Psk,
    /// Seconds from its issue to its expiry.
    pub(crate) life_s: u32,
}

impl TicketKey {
    /// Length of the secret that [`TicketKey::new`] takes.
    pub const SECRET_BYTES: usize = 32;

    /// The key of a service in a network: a secret that several services share by mistake opens tickets of one only.
    #[must_use]
    pub fn new(secret: &[u8; Self::SECRET_BYTES], network: &[u8], service: &[u8]) -> Self {
        // Names have at most 63 bytes.
        let len = [network.len() as u8];
        let material = Zeroizing::new([&secret[..], &len, network, service].concat());
        let secret = Zeroizing::new(derive_key(SERVICE_KEY, &material));
        let [a, b, c, d, ..] = keyed(&secret, KEY_ID.as_bytes());
        Self {
            id: [a, b, c, d],
            address_key: Zeroizing::new(keyed(&secret, ADDRESS_TAG.as_bytes())),
            secret,
        }
    }

    /// Issues a ticket; the nonce is never used twice.
    pub(crate) fn issue(&self, content: &TicketContent, nonce: &[u8; TICKET_NONCE_BYTES]) -> Grant {
        let (key, psk) = self.keys_of(nonce);
        let mut ticket = [0; TICKET_BYTES];
        ticket[..KEY_ID_BYTES].copy_from_slice(&self.id);
        ticket[KEY_ID_BYTES..][..TICKET_NONCE_BYTES].copy_from_slice(nonce);
        let sealed = &mut ticket[KEY_ID_BYTES + TICKET_NONCE_BYTES..];
        let (text, tag) = sealed.split_at_mut(CONTENT_BYTES);
        text.copy_from_slice(&content.encode());
        tag.copy_from_slice(&seal_in_place(&key, &ONLY_NONCE, &self.id, text));
        Grant {
            ticket,
            psk,
            life_s: content.expires_s.saturating_sub(content.issued_s),
        }
    }

    /// Whether a ticket says that it was issued with this key.
    pub(crate) fn is_named_by(&self, ticket: &Ticket) -> bool {
        ticket.starts_with(&self.id)
    }

    /// Opens a ticket that names this key, expired or not; `None` for a forged one.
    pub(crate) fn open(&self, ticket: &Ticket) -> Option<OpenedTicket> {
        let mut reader = Reader::new(ticket);
        let (id, nonce): ([u8; KEY_ID_BYTES], _) = (reader.field().ok()?, reader.field().ok()?);
        let (key, psk) = self.keys_of(&nonce);
        let mut text: [u8; CONTENT_BYTES] = reader.field().ok()?;
        let tag: [u8; TAG_BYTES] = reader.field().ok()?;
        open_in_place(&key, &ONLY_NONCE, &id, &mut text, &tag).ok()?;
        let content = TicketContent::decode(&text).ok()?;
        Some(OpenedTicket { content, nonce, psk })
    }

    /// Returns what a ticket says of the address that it is issued at.
    pub(crate) fn address_tag(&self, endpoint: &Endpoint) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = keyed(&self.address_key, &endpoint.address());
        [a, b, c, d, e, f, g, h]
    }

    /// Whether a ticket was issued at the address of an endpoint.
    pub(crate) fn proves(&self, content: &TicketContent, endpoint: &Endpoint) -> bool {
        memory::equal(&content.address_tag, &self.address_tag(endpoint))
    }

    /// Whether the ticket with this nonce and secret is of this key.
    pub(crate) fn has_issued(&self, nonce: &[u8; TICKET_NONCE_BYTES], psk: &Psk) -> bool {
        memory::equal(self.keys_of(nonce).1.as_bytes(), psk.as_bytes())
    }

    /// The key that one ticket is sealed with, and its secret.
    fn keys_of(&self, nonce: &[u8; TICKET_NONCE_BYTES]) -> (Key, Psk) {
        let mut input = [0; TICKET.len() + TICKET_NONCE_BYTES];
        input[..TICKET.len()].copy_from_slice(TICKET.as_bytes());
        input[TICKET.len()..].copy_from_slice(nonce);
        let wide = Zeroizing::new(keyed_wide(&self.secret, &input));
        let mut key = [0; 32];
        key.copy_from_slice(&wide[..32]);
        let mut psk = [0; Psk::BYTES];
        psk.copy_from_slice(&wide[32..]);
        let keys = (Key::new(key), Psk::new(&psk));
        memory::wipe(&mut key);
        memory::wipe(&mut psk);
        keys
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl TicketContent {
    fn encode(&self) -> [u8; CONTENT_BYTES] {
        let mut bytes = [0; CONTENT_BYTES];
        bytes[..32].copy_from_slice(&self.caller);
        bytes[32..36].copy_from_slice(&self.expires_s.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.issued_s.to_le_bytes());
        bytes[40..].copy_from_slice(&self.address_tag);
        bytes
    }

    fn decode(bytes: &[u8; CONTENT_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let content = Self {
            caller: reader.field()?,
            expires_s: reader.field()?,
            issued_s: reader.field()?,
            address_tag: reader.field()?,
        };
        reader.finish()?;
        Ok(content)
    }
}

/// Returns the nonce of the ticket that comes with a response: both sides compute it, so that it does not travel.
pub(crate) fn renewal_nonce(psk: &Psk, epoch: &[u8; 8], counter: u64) -> [u8; TICKET_NONCE_BYTES] {
    let mut input = [0; RENEWAL.len() + 16];
    input[..RENEWAL.len()].copy_from_slice(RENEWAL.as_bytes());
    input[RENEWAL.len()..][..8].copy_from_slice(epoch);
    input[RENEWAL.len() + 8..].copy_from_slice(&counter.to_le_bytes());
    let hash = keyed(psk.as_bytes(), &input);
    let mut nonce = [0; TICKET_NONCE_BYTES];
    nonce.copy_from_slice(&hash[..TICKET_NONCE_BYTES]);
    nonce
}

impl Grant {
    /// Length of an encoded grant: ticket, secret, life in seconds.
    pub const BYTES: usize = TICKET_BYTES + Psk::BYTES + 4;
    /// Length of one in a response, without the nonce.
    pub(crate) const RENEWAL_BYTES: usize = Self::BYTES - TICKET_NONCE_BYTES;

    /// Returns the encoding that a core's session carries. Secret.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<[u8; Self::BYTES]> {
        let mut bytes = Zeroizing::new([0; Self::BYTES]);
        bytes[..TICKET_BYTES].copy_from_slice(&self.ticket);
        bytes[TICKET_BYTES..][..Psk::BYTES].copy_from_slice(self.psk.as_bytes());
        bytes[TICKET_BYTES + Psk::BYTES..].copy_from_slice(&self.life_s.to_le_bytes());
        bytes
    }

    /// Reads what [`Grant::encode`] returns.
    ///
    /// # Errors
    /// [`Malformed`] when the length is another.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (ticket, psk, life_s) = (reader.field()?, reader.field()?, reader.field()?);
        reader.finish()?;
        Ok(Self {
            ticket,
            psk: Psk::new(&psk),
            life_s,
        })
    }

    /// Appends the encoding of one in a response.
    pub(crate) fn write_renewal(&self, out: &mut alloc::vec::Vec<u8>) {
        out.extend_from_slice(&self.ticket[..KEY_ID_BYTES]);
        out.extend_from_slice(&self.ticket[KEY_ID_BYTES + TICKET_NONCE_BYTES..]);
        out.extend_from_slice(self.psk.as_bytes());
        self.life_s.write(out);
    }

    /// Reads what [`Grant::write_renewal`] appended.
    pub(crate) fn read_renewal(
        reader: &mut Reader<'_>,
        nonce: &[u8; TICKET_NONCE_BYTES],
    ) -> Result<Self, Malformed> {
        let mut ticket = [0; TICKET_BYTES];
        ticket[..KEY_ID_BYTES].copy_from_slice(reader.take(KEY_ID_BYTES)?);
        ticket[KEY_ID_BYTES..][..TICKET_NONCE_BYTES].copy_from_slice(nonce);
        let sealed = &mut ticket[KEY_ID_BYTES + TICKET_NONCE_BYTES..];
        sealed.copy_from_slice(reader.take(sealed.len())?);
        let psk: [u8; Psk::BYTES] = reader.field()?;
        Ok(Self {
            ticket,
            psk: Psk::new(&psk),
            life_s: reader.field()?,
        })
    }

    /// Returns the session that the ticket begins at each replica.
    pub(crate) fn session(&self) -> SessionId {
        session_of(&ticket_nonce(&self.ticket))
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: TicketContent = TicketContent {
        caller: [7; 32],
        expires_s: 2_000,
        issued_s: 1_000,
        address_tag: [3; 8],
    };

    fn key() -> TicketKey {
        TicketKey::new(&[1; 32], b"net", b"check")
    }

    #[test]
    fn ticket_opens_with_its_key_alone() {
        let Grant { ticket, psk, .. } = key().issue(&CONTENT, &[9; 24]);
        let opened = key().open(&ticket).expect("its own");
        assert_eq!(opened.content, CONTENT);
        assert_eq!(opened.psk.as_bytes(), psk.as_bytes());
        for other in [
            TicketKey::new(&[9; 32], b"net", b"check"),
            TicketKey::new(&[1; 32], b"ne", b"tcheck"),
            TicketKey::new(&[1; 32], b"net", b"chec"),
        ] {
            assert!(other.open(&ticket).is_none());
        }
    }

    #[test]
    fn changed_ticket_does_not_open() {
        let Grant { ticket, .. } = key().issue(&CONTENT, &[9; 24]);
        for at in 0..TICKET_BYTES {
            let mut changed = ticket;
            changed[at] ^= 1;
            assert!(key().open(&changed).is_none(), "byte {at}");
        }
    }

    #[test]
    fn renewal_carries_all_but_the_nonce() {
        let grant = key().issue(&CONTENT, &[9; 24]);
        let mut bytes = alloc::vec::Vec::new();
        grant.write_renewal(&mut bytes);
        assert_eq!(bytes.len(), Grant::RENEWAL_BYTES);
        let read = Grant::read_renewal(&mut Reader::new(&bytes), &[9; 24]).expect("whole");
        assert_eq!(read.encode(), grant.encode());
        assert_eq!(
            Grant::decode(&grant.encode()[..]).expect("whole").encode(),
            grant.encode()
        );
    }
}
