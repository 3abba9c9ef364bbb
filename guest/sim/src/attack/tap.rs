//! What sits in an attacker: it takes note of all that it sees, and lies once the attackers have turned.

use std::collections::BTreeSet;

use selfsame_core::Place;
use selfsame_core::association::ObjectId;
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::ring::simulation::{Hop, Request, Tap, Updated};

use super::lies::Question;
use super::{Coalition, Id, Kind, Lie, Shared};

/// Time between two messages that an attacker sends of its own accord to the same member.
const UNASKED_MS: u64 = 10_000;
/// Most members that an attacker sends such messages to.
const MAX_CONTACTS: usize = 32;

/// The tap of one core
pub(super) struct Liar {
    identity: Identity,
    coalition: Coalition,
    /// Members that have asked this one.
    contacts: BTreeSet<Id>,
    next_ms: u64,
}

impl Liar {
    pub(super) fn new(identity: Identity, coalition: Coalition) -> Self {
        Self {
            identity,
            coalition,
            contacts: BTreeSet::new(),
            next_ms: 0,
        }
    }

    fn me(&self) -> Id {
        self.identity.id().0
    }
}

impl Tap for Liar {
    fn sends(&mut self, _to: PeerId, request: &mut Vec<u8>) {
        let me = self.me();
        if let Ok(Request::Update { record, .. }) = Request::decode(request) {
            self.coalition.lock().accomplices.renew(&me, record);
        }
    }

    fn answers(&mut self, from: PeerId, request: &[u8], honest: Vec<u8>) -> Option<Vec<u8>> {
        let me = self.me();
        let mut shared = self.coalition.lock();
        if !shared.accomplices.contains(&me) {
            if matches!(Request::decode(request), Ok(Request::Groups { .. })) {
                shared.watch_groups(&from.0, &me, &honest);
            }
            return Some(honest);
        }
        if !shared.accomplices.contains(&from.0) && self.contacts.len() < MAX_CONTACTS {
            self.contacts.insert(from.0);
        }
        let Ok(request) = Request::decode(request) else {
            return Some(honest);
        };
        remember_request(&mut shared, &request);
        // Among themselves they tell the truth: their own tables stay right.
        if shared.accomplices.contains(&from.0) {
            return Some(honest);
        }
        match request {
            Request::Groups { .. } => return shared.lie_about_group(&self.identity, honest),
            Request::Contradictions { .. } if shared.lie == Some(Lie::Frame) => {
                return Some(shared.false_evidence(&self.identity));
            }
            _ => {}
        }
        let Some(kind) = shared.kind else {
            return Some(honest);
        };
        let is_eclipse = matches!(kind, Kind::Eclipse | Kind::Grind);
        match request {
            Request::FindNode {
                target: Place(target),
            }
            | Request::Vouch {
                target: Place(target),
                ..
            }
            | Request::Find {
                object: ObjectId(target),
                ..
            } => {
                let identity = &self.identity;
                shared.lie_about(
                    kind,
                    Question {
                        identity,
                        target,
                        honest,
                    },
                )
            }
            Request::Store { .. } if kind == Kind::Drop => None,
            Request::Update { .. } if is_eclipse => shared.poisoned_update(&me, &from.0).or(Some(honest)),
            Request::Join { .. } if is_eclipse => Some(shared.poisoned_join(&from.0)),
            _ => Some(honest),
        }
    }

    fn hears(&mut self, _from: PeerId, answer: &[u8]) {
        let me = self.me();
        let mut shared = self.coalition.lock();
        if !shared.accomplices.contains(&me) {
            return;
        }
        if let Ok(hop) = Hop::decode(answer) {
            shared.remember_answer(answer);
            shared.remember_records(&hop.closer);
            shared.remember_records(&hop.successors);
        } else if let Ok(updated) = Updated::decode(answer) {
            shared.remember_records(&updated.successors);
        } else {
            shared.remember_lease(answer);
        }
    }

    fn adds(&mut self, now_ms: u64) -> Vec<(PeerId, Vec<u8>)> {
        let me = self.me();
        let mut shared = self.coalition.lock();
        shared.now_ms = now_ms;
        if now_ms < self.next_ms || !shared.accomplices.contains(&me) {
            return Vec::new();
        }
        self.next_ms = now_ms + UNASKED_MS;
        let accusation = (shared.lie == Some(Lie::Frame)).then(|| {
            let known = shared.made_up_conviction();
            Request::Contradictions { known }.encode()
        });
        let message = |to: &Id| match shared.kind {
            Some(Kind::Eclipse | Kind::Grind) => Some(shared.poisoned_hint(to)),
            Some(Kind::Leave) => shared.lying_leave(&me),
            _ => accusation.clone(),
        };
        let contacts = self.contacts.iter();
        contacts
            .filter_map(|to| Some((PeerId(*to), message(to)?)))
            .collect()
    }
}

fn remember_request(shared: &mut Shared, request: &Request<'_>) {
    match request {
        Request::Store { entry } => shared.remember_entry(entry),
        Request::Mirror { entries } | Request::Leave { entries, .. } => {
            entries.iter().for_each(|entry| shared.remember_entry(entry));
        }
        Request::Update { record, .. } | Request::Join { record } => shared.remember_records(&[record]),
        _ => {}
    }
}
