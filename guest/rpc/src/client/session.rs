//! The client's side of a service: its tickets, their counters, and its replicas.

use alloc::vec::Vec;

use selfsame_sorted_map::Set;

use super::replicas::{ReplicaSession, Replicas};
use crate::endpoint::Endpoint;
use crate::keys::PacketKey;
use crate::ticket::Grant;
use crate::wire::{Credential, Epoch, RequestFlags, RequestHead, ResponseHead, SessionId};

/// What is sealed with one ticket.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) grant: Grant,
    id: SessionId,
    request_key: PacketKey,
    next_counter: u64,
    /// Counters of calls that have no answer yet.
    outstanding: Set<u64>,
    received_us: u64,
}

/// A response as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response<'a> {
    pub(super) source: &'a Endpoint,
    pub(super) head: &'a ResponseHead,
    pub(super) sealed: &'a [u8],
}

/// A service that calls are made to.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// The newest last, by generation; the others are kept for calls under way.
    sessions: Vec<(u32, Session)>,
    next_generation: u32,
    pub(super) replicas: Replicas,
    /// Calls that wait for a ticket.
    pub(super) waiting: Vec<u32>,
}

impl Session {
    fn new(grant: Grant, now_us: u64) -> Self {
        Self {
            id: grant.session(),
            request_key: grant.psk.request_key(),
            grant,
            next_counter: 0,
            outstanding: Set::new(),
            received_us: now_us,
        }
    }

    /// Whether servers still accept the ticket.
    fn is_valid(&self, now_us: u64) -> bool {
        self.age_ms(now_us) < u64::from(self.grant.life_s) * 1000
    }

    /// Returns the milliseconds since the ticket was issued.
    pub(super) fn age_ms(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.received_us) / 1000
    }

    /// Takes a counter whose low half is not in use.
    pub(super) fn take_counter(&mut self, is_used: impl Fn(u32) -> bool) -> u64 {
        while is_used(self.next_counter as u32) {
            self.next_counter += 1;
        }
        let counter = self.next_counter;
        self.next_counter += 1;
        self.outstanding.insert(counter);
        counter
    }

    pub(super) fn settle(&mut self, counter: u64) {
        self.outstanding.remove(&counter);
    }

    /// Returns how far back the oldest call under way is, at most what 16 bits hold.
    pub(super) fn older_than(&self, counter: u64) -> u16 {
        let oldest = self.outstanding.first().map_or(counter, |oldest| *oldest);
        u16::try_from(counter - oldest).unwrap_or(u16::MAX)
    }

    /// Returns the head of a request; a replica that knows the session does not get the ticket again.
    pub(super) fn head(
        &self,
        is_known: bool,
        flags: RequestFlags,
        counter: u64,
        packet: u16,
    ) -> RequestHead<'_> {
        let credential = match is_known {
            true => Credential::Session(self.id),
            false => Credential::Ticket(&self.grant.ticket),
        };
        RequestHead {
            credential,
            flags,
            counter,
            packet,
        }
    }

    /// Replaces `out` by a datagram of a request, whose payload `write` appends.
    pub(super) fn seal(
        &self,
        head: &RequestHead<'_>,
        bound: Option<&Epoch>,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        out.clear();
        head.write(out);
        let from = out.len();
        write(out);
        self.request_key.seal_request(head, bound, out, from);
    }
}

impl Service {
    /// Begins to use a ticket.
    pub(super) fn use_ticket(&mut self, grant: Grant, now_us: u64) {
        self.sessions
            .retain(|(_, session)| !session.outstanding.is_empty());
        self.sessions
            .push((self.next_generation, Session::new(grant, now_us)));
        self.next_generation = self.next_generation.wrapping_add(1);
    }

    /// Whether no ticket came after the one of this generation.
    pub(super) fn is_newest(&self, generation: u32) -> bool {
        self.next_generation.wrapping_sub(1) == generation
    }

    /// Throws a ticket away, if it is still the newest.
    pub(super) fn discard_ticket(&mut self, generation: u32) {
        if self.is_newest(generation)
            && let Some((_, session)) = self.sessions.last_mut()
        {
            session.grant.life_s = 0;
        }
    }

    /// Returns the session for new calls, its generation, and the replicas.
    pub(super) fn current(&mut self, now_us: u64) -> Option<(u32, &mut Session, &mut Replicas)> {
        let (generation, session) = self.sessions.last_mut()?;
        session
            .is_valid(now_us)
            .then_some((*generation, session, &mut self.replicas))
    }

    pub(super) fn session(&mut self, generation: u32) -> Option<(&mut Session, &mut Replicas)> {
        let mut sessions = self.sessions.iter_mut();
        let found = sessions.find_map(|(one, session)| (*one == generation).then_some(session));
        found.map(|session| (session, &mut self.replicas))
    }

    /// Opens a response to a request into `out`; where its server is reached, if that was right. That is where the request was sent, or
    /// what the response says: where it only seems to come from counts for nothing but to find the key.
    pub(super) fn open(
        &mut self,
        now_us: u64,
        (generation, counter, target): (u32, u64, Endpoint),
        response: Response<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Endpoint> {
        let Response { source, head, sealed } = response;
        let (session, replicas) = self.session(generation)?;
        let known = replicas.session(source, generation);
        let key = match known.filter(|known| known.epoch == head.epoch) {
            Some(known) => {
                known.key.open_response(head, counter, sealed, out).ok()?;
                None
            }
            None => {
                let key = session.grant.psk.response_key(&head.epoch);
                key.open_response(head, counter, sealed, out).ok()?;
                Some(key)
            }
        };
        let server = if head.has_address {
            take_endpoint(out)?
        } else {
            target
        };
        match replicas
            .session(&server, generation)
            .filter(|known| known.epoch == head.epoch)
        {
            Some(known) => known.heard_us = now_us,
            None => {
                let (epoch, heard_us) = (head.epoch, now_us);
                let key = key.unwrap_or_else(|| session.grant.psk.response_key(&epoch));
                let session = ReplicaSession {
                    generation,
                    epoch,
                    key,
                    heard_us,
                };
                replicas.remember(server, session);
            }
        }
        Some(server)
    }
}

/// Takes the endpoint with which an opened response begins.
fn take_endpoint(opened: &mut Vec<u8>) -> Option<Endpoint> {
    let endpoint = Endpoint(*opened.first_chunk()?);
    opened.drain(..Endpoint::BYTES);
    Some(endpoint)
}
