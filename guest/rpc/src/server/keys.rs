//! The ticket keys of a service.

use alloc::vec::Vec;

use crate::keys::Psk;
use crate::ticket::TicketKey;
use crate::wire::{TICKET_NONCE_BYTES, Ticket};

/// Current, next and previous key, as they are told.
const MAX_KEYS: usize = 3;

/// Keys that open tickets, of which the first issues them.
#[derive(Debug)]
pub(super) struct TicketKeys(Vec<TicketKey>);

impl TicketKeys {
    /// The keys of 1 to 3 secrets; `None` if there are others.
    pub(super) fn new(secrets: &[u8], network: &[u8], service: &[u8]) -> Option<Self> {
        let (secrets, []) = secrets.as_chunks() else {
            return None;
        };
        let keys = secrets
            .iter()
            .map(|secret| TicketKey::new(secret, network, service));
        (1..=MAX_KEYS)
            .contains(&secrets.len())
            .then(|| Self(keys.collect()))
    }

    /// Returns the key that tickets are issued with.
    pub(super) fn current(&self) -> &TicketKey {
        &self.0[0]
    }

    /// Returns the key that a ticket says that it was issued with.
    pub(super) fn of(&self, ticket: &Ticket) -> Option<&TicketKey> {
        self.0.iter().find(|key| key.is_named_by(ticket))
    }

    /// Whether one of them opens the ticket with this nonce and secret.
    pub(super) fn have_issued(&self, nonce: &[u8; TICKET_NONCE_BYTES], psk: &Psk) -> bool {
        self.0.iter().any(|key| key.has_issued(nonce, psk))
    }
}
