//! What attackers say instead of the truth.

use std::collections::BTreeMap;

use selfsame_codec::Role;
use selfsame_core::admission::Gate;
use selfsame_core::identity::Identity;
use selfsame_core::record::{NodeRecord, RecordTerms};
use selfsame_core::ring::simulation::{EntryBytes, Hop, Request, Updated, claimed_id, encode_joined};

use super::{Entry, Id, Kind, Shared};

/// Most members nearer to a position that an answer names.
const NAMED_CLOSER: usize = 3;
/// Most successors that an answer names.
const NAMED_SUCCESSORS: usize = 16;
/// An address inside somebody's network.
const FORBIDDEN: &str = "ws://127.0.0.1:9/";
const HOUR_MS: u64 = 60 * 60_000;

/// Nodes in the order of the circle, with a record of each
#[derive(Default)]
pub(super) struct Peers {
    records: BTreeMap<Id, Vec<u8>>,
}

impl Peers {
    /// Takes a node of which no record is known.
    pub(super) fn enlist(&mut self, node: Id) {
        self.records.entry(node).or_default();
    }

    pub(super) fn contains(&self, node: &Id) -> bool {
        self.records.contains_key(node)
    }

    /// Keeps the newest record of one that is among them.
    pub(super) fn renew(&mut self, node: &Id, record: &[u8]) {
        if let Some(known) = self.records.get_mut(node) {
            *known = record.to_vec();
        }
    }

    /// Keeps the first record of any node.
    pub(super) fn insert_first(&mut self, record: &[u8], gate: &Gate) {
        if let Some(peer) = claimed_id(record, gate) {
            self.records.entry(peer.0).or_insert_with(|| record.to_vec());
        }
    }

    pub(super) fn get(&self, node: &Id) -> Option<&[u8]> {
        self.records.get(node).map(Vec::as_slice)
    }

    /// From a position on, round the circle.
    pub(super) fn from<'a>(&'a self, position: &Id) -> impl Iterator<Item = (&'a Id, &'a [u8])> {
        let circle = self
            .records
            .range(*position..)
            .chain(self.records.range(..*position));
        circle
            .map(|(id, record)| (id, record.as_slice()))
            .filter(|(_, record)| !record.is_empty())
    }

    /// From a position backwards, round the circle.
    fn back_from<'a>(&'a self, position: &Id) -> impl Iterator<Item = (&'a Id, &'a [u8])> {
        let (before, after) = (self.records.range(..*position), self.records.range(*position..));
        let circle = before.rev().chain(after.rev());
        circle
            .map(|(id, record)| (id, record.as_slice()))
            .filter(|(_, record)| !record.is_empty())
    }
}

/// What one attacker is asked
pub(super) struct Question<'a> {
    pub(super) identity: &'a Identity,
    pub(super) target: Id,
    pub(super) honest: Vec<u8>,
}

impl Shared {
    /// The answer to a lookup; `None` is silence.
    pub(super) fn lie_about(&mut self, kind: Kind, question: Question<'_>) -> Option<Vec<u8>> {
        let me = question.identity.id().0;
        match kind {
            Kind::Drop => None,
            Kind::Misroute => Some(match self.dice.u32(0..3) {
                0 => self.lead_astray(&me, &question.target),
                1 => self.claim(&me, &question.target, &[]),
                _ => self.lead_back(&me),
            }),
            Kind::Forge => Some(self.forge(question)),
            Kind::Replay => Some(self.replay(question)),
            Kind::Eclipse | Kind::Grind => Some(self.lead_astray(&me, &question.target)),
            Kind::Ghost => Some(match self.ghosts.get(&question.target).cloned() {
                Some(ghost) => self.claim(&me, &question.target, &[ghost]),
                None => self.lead_astray(&me, &question.target),
            }),
            Kind::Hide => Some(match self.ghosts.get(&question.target).cloned() {
                Some(dead) => self.claim(&me, &question.target, &[dead]),
                None => question.honest,
            }),
            Kind::Leave => Some(question.honest),
        }
    }

    /// Leads to accomplices, as if there were nobody else; the first of them after the position is responsible.
    fn lead_astray(&self, me: &Id, target: &Id) -> Vec<u8> {
        let following = self.accomplices.from(target).take(NAMED_SUCCESSORS);
        let following: Vec<(&Id, &[u8])> = following.collect();
        if following.first().is_some_and(|(first, _)| *first == me) {
            return self.claim(me, target, &[]);
        }
        let closer = self.accomplices.back_from(target).take_while(|(id, _)| *id != me);
        let hop = Hop {
            closer: closer.take(NAMED_CLOSER).map(|(_, record)| record).collect(),
            successors: following.into_iter().map(|(_, record)| record).collect(),
            predecessor: self.accomplice_before(me),
            ..Hop::default()
        };
        hop.encode()
    }

    /// Claims a position, as if the next node before it were the predecessor.
    fn claim(&self, me: &Id, target: &Id, entries: &[Entry]) -> Vec<u8> {
        let before = self
            .old_records
            .back_from(target)
            .next()
            .map(|(_, record)| record);
        let following = self.accomplices.from(me).skip(1).take(NAMED_SUCCESSORS);
        let hop = Hop {
            responsible: self.accomplices.get(me),
            successors: following.map(|(_, record)| record).collect(),
            predecessor: before.or_else(|| self.accomplice_before(me)),
            entries: entries.iter().map(entry_bytes).collect(),
            ..Hop::default()
        };
        hop.encode()
    }

    /// Names honest members that lie behind the one who is asked.
    fn lead_back(&self, me: &Id) -> Vec<u8> {
        let behind = self.old_records.back_from(me).map(|(_, record)| record);
        let hop = Hop {
            closer: behind.take(NAMED_CLOSER).collect(),
            ..Hop::default()
        };
        hop.encode()
    }

    /// Breaks signatures, signs what must not be said, or speaks for another.
    fn forge(&mut self, question: Question<'_>) -> Vec<u8> {
        let Ok(honest) = Hop::decode(&question.honest) else {
            return question.honest;
        };
        let following = self.old_records.from(&question.target).next();
        let following = following.map(|(_, record)| record.to_vec());
        let responsible = match self.dice.u32(0..3) {
            0 => following,
            1 => self.inner_record(question.identity),
            _ => honest.responsible.map(|record| self.broken(record)),
        };
        let closer = self.all_broken(&honest.closer);
        let successors = self.all_broken(&honest.successors);
        let entries = honest.entries.iter();
        let entries: Vec<Entry> = entries
            .map(|entry| (self.broken(entry.association), entry.record.to_vec()))
            .collect();
        let hop = Hop {
            responsible: responsible.as_deref(),
            closer: closer.iter().map(Vec::as_slice).collect(),
            successors: successors.iter().map(Vec::as_slice).collect(),
            predecessor: honest.predecessor,
            entries: entries.iter().map(entry_bytes).collect(),
            lease: honest.lease,
        };
        hop.encode()
    }

    /// An own record with an address at which nobody should dial.
    fn inner_record(&self, identity: &Identity) -> Option<Vec<u8>> {
        let (from_ms, until_ms) = (self.now_ms, self.now_ms + HOUR_MS);
        let addresses = [FORBIDDEN.into()];
        let record = NodeRecord::sign(
            identity,
            &RecordTerms::new(Role::Member, &addresses, from_ms, until_ms),
        );
        record.ok().map(|record| record.encoded().to_vec())
    }

    /// A copy with one wrong bit.
    pub(super) fn broken(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if !bytes.is_empty() {
            let at = self.dice.usize(..bytes.len());
            bytes[at] ^= 1 << self.dice.u32(0..8);
        }
        bytes
    }

    fn all_broken(&mut self, records: &[&[u8]]) -> Vec<Vec<u8>> {
        records.iter().map(|record| self.broken(record)).collect()
    }

    /// Names nobody but peers whose certificates are revoked.
    fn replay_revoked(&self, target: &Id) -> Option<Vec<u8>> {
        let records = self
            .leases
            .revoked
            .iter()
            .filter_map(|node| self.old_records.get(node));
        let named: Vec<&[u8]> = records.take(NAMED_CLOSER).collect();
        let hop = Hop {
            closer: named.clone(),
            successors: named.clone(),
            predecessor: self.old_records.from(target).next().map(|(_, record)| record),
            ..Hop::default()
        };
        (!named.is_empty()).then(|| hop.encode())
    }

    /// An answer to something else, or the true one with the first record and associations that were seen of everybody.
    fn replay(&mut self, question: Question<'_>) -> Vec<u8> {
        if self.dice.bool()
            && let Some(revoked) = self.replay_revoked(&question.target)
        {
            return revoked;
        }
        if !self.old_answers.is_empty() && self.dice.bool() {
            let old = self.dice.usize(..self.old_answers.len());
            return self.old_answers[old].clone();
        }
        let Ok(honest) = Hop::decode(&question.honest) else {
            return question.honest;
        };
        let old = |record: &&[u8]| -> Vec<u8> {
            let peer = claimed_id(record, &self.gate);
            let known = peer.and_then(|peer| self.old_records.get(&peer.0));
            known.unwrap_or(record).to_vec()
        };
        let closer: Vec<Vec<u8>> = honest.closer.iter().map(old).collect();
        let successors: Vec<Vec<u8>> = honest.successors.iter().map(old).collect();
        let entries = self.old_entries.get(&question.target);
        let hop = Hop {
            closer: closer.iter().map(Vec::as_slice).collect(),
            successors: successors.iter().map(Vec::as_slice).collect(),
            entries: match entries {
                Some(entries) if honest.responsible.is_some() => entries.iter().map(entry_bytes).collect(),
                _ => honest.entries.clone(),
            },
            ..honest.clone()
        };
        hop.encode()
    }

    /// The answer to an update, as if there were only accomplices.
    pub(super) fn poisoned_update(&self, me: &Id, from: &Id) -> Option<Vec<u8>> {
        let between = self.accomplices.from(from).next().filter(|(id, _)| *id != me);
        let between = between.map(|(_, record)| record);
        let updated = Updated {
            record: self.accomplices.get(me)?,
            predecessor: between.or_else(|| self.accomplice_before(me)),
            successors: self.following(me),
            entries: Vec::new(),
        };
        Some(updated.encode())
    }

    /// The answer to a newcomer, as if its successor were an accomplice.
    pub(super) fn poisoned_join(&self, newcomer: &Id) -> Vec<u8> {
        let following = self.accomplices.from(newcomer).take(NAMED_CLOSER);
        encode_joined(&following.map(|(_, record)| record).collect::<Vec<&[u8]>>())
    }

    /// A hint of the accomplices that follow a member.
    pub(super) fn poisoned_hint(&self, to: &Id) -> Vec<u8> {
        let following = self.accomplices.from(to).take(NAMED_CLOSER);
        let hint = following.map(|(_, record)| record).collect();
        Request::Ping { hint }.encode()
    }

    /// A farewell that hands nothing over and names accomplices as the neighbours.
    pub(super) fn lying_leave(&self, me: &Id) -> Option<Vec<u8>> {
        let request = Request::Leave {
            record: self.accomplices.get(me).filter(|record| !record.is_empty())?,
            predecessor: self.accomplice_before(me),
            successors: self.following(me),
            entries: Vec::new(),
        };
        Some(request.encode())
    }

    /// The accomplices after one of them.
    fn following(&self, me: &Id) -> Vec<&[u8]> {
        let following = self.accomplices.from(me).filter(|(id, _)| *id != me);
        following
            .take(NAMED_SUCCESSORS)
            .map(|(_, record)| record)
            .collect()
    }

    fn accomplice_before(&self, me: &Id) -> Option<&[u8]> {
        let mut before = self.accomplices.back_from(me).filter(|(id, _)| *id != me);
        before.next().map(|(_, record)| record)
    }
}

fn entry_bytes(entry: &Entry) -> EntryBytes<'_> {
    EntryBytes {
        association: &entry.0,
        record: &entry.1,
    }
}
