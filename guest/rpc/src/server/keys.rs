//! The ticket keys of a service: previous, current and next.

use crate::ticket::{OpenedTicket, TicketKey};
use crate::wire::Ticket;

/// Keys that open tickets. The one before the previous one is erased, and none of these leads back to it.
#[derive(Debug)]
pub(super) struct TicketKeys {
    previous: Option<TicketKey>,
    current: TicketKey,
    /// Other replicas may have rotated already.
    next: TicketKey,
}

impl TicketKeys {
    pub(super) fn new(current: TicketKey) -> Self {
        Self {
            previous: None,
            next: current.next(),
            current,
        }
    }

    /// Moves on by one key.
    pub(super) fn rotate(&mut self) {
        let after = self.next.next();
        let current = core::mem::replace(&mut self.next, after);
        self.previous = Some(core::mem::replace(&mut self.current, current));
    }

    /// Returns the key that tickets are issued with.
    pub(super) fn current(&self) -> &TicketKey {
        &self.current
    }

    /// Opens a ticket, and returns the key that did.
    pub(super) fn open(&self, ticket: &Ticket) -> Option<(&TicketKey, OpenedTicket)> {
        let keys = [Some(&self.current), self.previous.as_ref(), Some(&self.next)];
        keys.into_iter()
            .flatten()
            .find_map(|key| Some((key, key.open(ticket)?)))
    }
}
