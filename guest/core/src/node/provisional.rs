//! Newcomers of a closed network while the host looks their certificates up in the DNS: they have a session, and what
//! would make them neighbours waits.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel, Output};

use super::Node;
use super::paths::Way;
use super::timers::Timer;
use crate::admission::{KNOWS_CLOSED, Standing};
use crate::gather::Gather as _;
use crate::identity::{Admitted, PeerId};
use crate::quota::{Holder, admits};
use crate::ring::Ring;
use selfsame_sorted_map::Map;

/// Most peers that are looked up at once; a quarter of what is free may be of one network.
const MAX_LOOKUPS: usize = 64;
/// Most messages of one peer that wait: it asks to join, and again when it heard nothing.
const MAX_HELD: usize = 4;
/// Longest request that waits, so that all take a few MiB at most; the newcomer's record and those of its predecessors fit.
const MAX_HELD_BYTES: usize = 32 * 1024;
/// How long a host may look: its resolver asks three times for three seconds each.
const LOOKUP_MS: u64 = 15_000;
/// How long a peer is ignored whose certificate is not in the DNS. The host's resolver remembers it for as long as the zone says.
const REFUSED_MS: u64 = 30_000;
/// How long a peer waits of which the DNS gave no answer.
const UNANSWERED_MS: u64 = 5_000;

/// Peers that are being looked up
#[derive(Default)]
pub(super) struct Provisional {
    lookups: Map<PeerId, LookUp>,
}

struct LookUp {
    source: Holder,
    deadline_ms: u64,
    held: Vec<Held>,
}

/// What waits for the answer
enum Held {
    Request {
        token: u64,
        source: Holder,
        body: Vec<u8>,
    },
    Answer {
        call: u64,
        body: Vec<u8>,
    },
}

impl Node {
    /// Keeps a request that makes its sender a neighbour until that is confirmed; says whether it did.
    pub(super) fn hold_request(&mut self, from: PeerId, token: u64, source: Holder, body: &[u8]) -> bool {
        if !KNOWS_CLOSED {
            return false;
        }
        let refusal = match self.ring.standing(&from, self.now_ms) {
            Standing::Confirmed => return false,
            _ if !Ring::is_for_confirmed(body) => return false,
            Standing::Refused(code) => code,
            Standing::Unknown if body.len() > MAX_HELD_BYTES => Code::TooLarge,
            Standing::Unknown => {
                let body = body.to_vec();
                let held = Held::Request { token, source, body };
                if self.hold(from, held) {
                    return true;
                }
                Code::TooManyRequests
            }
        };
        self.out
            .log_peer(LogLevel::Debug, refusal, "is no neighbour", &from);
        self.ring_with(|ring, _| ring.refuse(token, refusal));
        true
    }

    /// Keeps an answer that makes its sender a neighbour until that is confirmed; says whether it did.
    pub(super) fn hold_answer(&mut self, call: u64, body: &[u8]) -> bool {
        if !KNOWS_CLOSED {
            return false;
        }
        let Some(peer) = self.ring.neighbour_by(call) else {
            return false;
        };
        let refusal = match self.ring.standing(&peer, self.now_ms) {
            Standing::Confirmed => return false,
            Standing::Refused(code) => code,
            Standing::Unknown => {
                let body = body.to_vec();
                if self.hold(peer, Held::Answer { call, body }) {
                    return true;
                }
                Code::TooManyRequests
            }
        };
        self.ring_request_failed(call, refusal);
        true
    }

    fn hold(&mut self, peer: PeerId, held: Held) -> bool {
        if !self.look_up(peer, peer) {
            return false;
        }
        let lookup = self.provisional.lookups.get_mut(&peer);
        match lookup.filter(|lookup| lookup.held.len() < MAX_HELD) {
            Some(lookup) => {
                lookup.held.push(held);
                true
            }
            None => false,
        }
    }

    /// Asks the host for a peer of which `from` has told; says whether it is being looked up.
    pub(super) fn look_up(&mut self, peer: PeerId, from: PeerId) -> bool {
        if self.provisional.lookups.contains_key(&peer) {
            return true;
        }
        let session = self.live_connection(&peer).and_then(|index| {
            let connection = self.connections.get(&index)?;
            let path = self.paths.table.get(&connection.path)?;
            let remote = match path.way {
                Way::Host(_) => path.remote.clone(),
                Way::Relay { .. } | Way::Routed { .. } => String::new(),
            };
            Some((connection.session.peer_key(), path.source, remote))
        });
        let (key, source, remote) = match session {
            Some(session) => session,
            None => match self.ring.record_of(&peer) {
                Some(record) => (record.public(), Holder::bringing(&from), String::new()),
                None => return false,
            },
        };
        let lookups = &self.provisional.lookups;
        let own = lookups.values().filter(|lookup| lookup.source == source).count();
        if !admits(MAX_LOOKUPS, lookups.len(), source, own) {
            self.out.dropped(Code::TooManyRequests, 0);
            return false;
        }
        let deadline_ms = self.now_ms.saturating_add(LOOKUP_MS);
        let lookup = LookUp {
            source,
            deadline_ms,
            held: Vec::new(),
        };
        self.provisional.lookups.insert(peer, lookup);
        self.timers.set(deadline_ms, Timer::LookUps);
        self.out.push(&Output::LookUp {
            peer: peer.0,
            key: key.0,
            remote: &remote,
        });
        true
    }

    /// The host has looked a peer up, or tells what it met in the DNS besides, to be counted.
    pub(super) fn looked_up(&mut self, peer: [u8; 32], code: u16) -> Result<(), Code> {
        let refusal = match code {
            0 => None,
            code => Some(Code::from_u16(code).ok_or(Code::BadInput)?),
        };
        if peer == [0; 32] {
            if let Some(code) = refusal {
                self.out.log(LogLevel::Warn, code, 0, "certificates in the DNS");
            }
            return Ok(());
        }
        self.end_look_up(PeerId(peer), refusal);
        Ok(())
    }

    /// Gives up the look-ups that the host has not answered.
    pub(super) fn look_ups_timed_out(&mut self) {
        let lookups = self.provisional.lookups.iter();
        let due = lookups.filter(|(_, lookup)| lookup.deadline_ms <= self.now_ms);
        let due: Vec<PeerId> = due.map(|(peer, _)| *peer).gather();
        for peer in due {
            self.end_look_up(peer, Some(Code::TimedOut));
        }
    }

    fn end_look_up(&mut self, peer: PeerId, refusal: Option<Code>) {
        let Some(lookup) = self.provisional.lookups.remove(&peer) else {
            return;
        };
        if let Some(code) = refusal {
            self.out
                .log_peer(LogLevel::Warn, code, "a newcomer is not confirmed", &peer);
        }
        let until_ms = match refusal {
            None => self.admitted_until(&peer),
            Some(code) if is_denial(code) => self.now_ms.saturating_add(REFUSED_MS),
            Some(_) => self.now_ms.saturating_add(UNANSWERED_MS),
        };
        self.ring_with(|ring, cx| ring.looked_up(cx, peer, refusal, lookup.source, until_ms));
        for held in &lookup.held {
            self.release(peer, held, refusal);
        }
    }

    /// Takes what waited, or refuses it.
    fn release(&mut self, from: PeerId, held: &Held, refusal: Option<Code>) {
        match (held, refusal) {
            (Held::Answer { call, body }, None) => self.ring_request_answered(*call, body),
            (Held::Answer { call, .. }, Some(code)) => self.ring_request_failed(*call, code),
            (Held::Request { token, .. }, _) if !self.connections.contains_key(&((token >> 32) as u32)) => {}
            (Held::Request { token, .. }, Some(code)) => {
                self.ring_with(|ring, _| ring.refuse(*token, code));
            }
            (Held::Request { token, source, body }, None) => self.ring_with(|ring, cx| {
                cx.source = *source;
                ring.request(cx, from, *token, body);
            }),
        }
    }

    /// When the certificate of a peer expires that it has shown last.
    fn admitted_until(&self, peer: &PeerId) -> u64 {
        let session = self
            .live_connection(peer)
            .and_then(|index| self.connections.get(&index));
        let session = session.map(|connection| connection.session.admitted());
        let record = self.ring.record_of(peer).map(|record| record.admitted());
        let until = |admitted: Option<Admitted>| admitted.map_or(0, |one| one.until_ms);
        self.own_ms(until(session).max(until(record)))
    }
}

/// Whether the DNS has answered, and there is no certificate that counts.
fn is_denial(code: Code) -> bool {
    matches!(
        code,
        Code::NoCertificate
            | Code::BadCertificate
            | Code::BadDnsValue
            | Code::TooLarge
            | Code::WrongIssuer
            | Code::WrongSeat
            | Code::WrongAddress
            | Code::BadSignature
            | Code::EarlyCertificate
            | Code::ExpiredCertificate
    )
}
