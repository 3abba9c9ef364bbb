//! What a replica exchanges with others: synchronisations and pushes.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::job::{Asker, Job};
use super::sync::{Action, Outcome, PeerId, Side, Sync, Synced, Watermark};
use super::{Effect, Replica};
use crate::hash::CapsuleName;
use crate::message::MAX_MESSAGE_BYTES;
use crate::refusal::Refusal;

/// Most synchronisations at a time: each takes as much as two sketches and two messages.
const MAX_SYNCS: usize = 4;
/// Most watermarks that are remembered; without one, whole sets are compared.
const MAX_WATERMARKS: usize = 4096;
/// Longest response: what a request may give, and what its last operation adds.
const MAX_RESPONSE_BYTES: usize = MAX_MESSAGE_BYTES + (2 << 20);

/// Synchronisations under way, by what they asked last and whom, and how far those before have come
#[derive(Debug, Default)]
pub(super) struct Syncs {
    under_way: BTreeMap<u32, (Side, Sync)>,
    /// The one that was used longest ago comes first.
    watermarks: VecDeque<(PeerId, CapsuleName, Watermark)>,
}

impl Replica {
    /// Begins to bring this replica and another one of a capsule to the same state, and creates the capsule where it is
    /// missing; [`Effect::Synced`] says what came of it. `entropy` is random and used once.
    ///
    /// A few at a time are under way; of more, and of a second one with the same peer about the same capsule, the end is at
    /// once that there are [too many](Code::TooManyRequests).
    pub fn sync(&mut self, now_ms: u64, peer: PeerId, capsule: CapsuleName, entropy: [u8; 32]) {
        self.now_ms = now_ms;
        let mut others = self.syncs.under_way.values();
        let is_busy = self.syncs.under_way.len() >= MAX_SYNCS
            || others.any(|(_, sync)| sync.peer == peer && sync.capsule == capsule);
        let mut watermarks = self.syncs.watermarks.iter();
        let known = watermarks.find(|(of, about, _)| (*of, *about) == (peer, capsule));
        let watermark = known.map(|(_, _, watermark)| *watermark);
        let mut sync = Sync::new(peer, capsule, watermark.unwrap_or_default(), entropy);
        let action = if is_busy {
            Action::End(
                Outcome::Refused(Refusal::new(Code::TooManyRequests, 0)),
                watermark,
            )
        } else {
            sync.begin()
        };
        self.perform(sync, action);
        self.carry_on();
    }

    /// Takes the response to an [`Effect::Ask`], or that there is none.
    pub fn answered(&mut self, now_ms: u64, tag: u32, response: Option<&[u8]>) {
        self.now_ms = now_ms;
        if self.pushes.end(tag, response.is_some()) {
            self.push_next();
            return;
        }
        if !matches!(self.syncs.under_way.get(&tag), Some((Side::There, _))) {
            return;
        }
        let Some((_, mut sync)) = self.syncs.under_way.remove(&tag) else {
            return;
        };
        let action = match response {
            None => Action::End(Outcome::Unreachable, None),
            Some(response) if response.len() > MAX_RESPONSE_BYTES => {
                let refusal = Refusal::new(Code::TooLarge, MAX_RESPONSE_BYTES);
                Action::End(Outcome::Refused(refusal), None)
            }
            Some(response) => sync.answered(response),
        };
        self.perform(sync, action);
        self.carry_on();
    }

    /// Says which other replicas of a capsule there are, to which what writers store here is pushed.
    pub fn set_replicas(&mut self, capsule: CapsuleName, peers: Vec<PeerId>) {
        self.pushes.set_replicas(capsule, peers);
    }

    /// Takes the replica's own response to what a synchronisation has asked it.
    pub(super) fn answered_here(&mut self, tag: u32, response: &[u8]) {
        if let Some((_, mut sync)) = self.syncs.under_way.remove(&tag) {
            let action = sync.answered(response);
            self.perform(sync, action);
        }
    }

    /// Pushes on what a writer's request has stored.
    pub(super) fn push_on(&mut self, job: &Job) {
        self.pushes.add(job);
        self.push_next();
    }

    fn push_next(&mut self) {
        while let Some((peer, message)) = self.pushes.next(self.last_tag.wrapping_add(1)) {
            let tag = self.tag();
            self.effects.push_back(Effect::Ask { tag, peer, message });
        }
    }

    fn perform(&mut self, sync: Sync, action: Action) {
        let (side, message) = match action {
            Action::Ask(request) => request,
            Action::End(outcome, watermark) => return self.end_sync(&sync, outcome, watermark),
        };
        let (tag, peer) = (self.tag(), sync.peer);
        self.syncs.under_way.insert(tag, (side, sync));
        match side {
            Side::Here => self.enqueue(Asker::Exchange(tag), peer, message.into()),
            Side::There => self.effects.push_back(Effect::Ask { tag, peer, message }),
        }
    }

    fn end_sync(&mut self, sync: &Sync, outcome: Outcome, watermark: Option<Watermark>) {
        if let Some(watermark) = watermark {
            let watermarks = &mut self.syncs.watermarks;
            watermarks.retain(|(peer, capsule, _)| (*peer, *capsule) != (sync.peer, sync.capsule));
            if watermarks.len() >= MAX_WATERMARKS {
                watermarks.pop_front();
            }
            watermarks.push_back((sync.peer, sync.capsule, watermark));
        }
        self.effects.push_back(Effect::Synced(Synced {
            peer: sync.peer,
            capsule: sync.capsule,
            outcome,
            pulled: sync.pulled,
            pushed: sync.pushed,
        }));
    }
}
