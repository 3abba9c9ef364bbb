//! Peers that have not taken this node's proof: asked again at once they would refuse it again.

use selfsame_codec::Code;

use crate::identity::PeerId;
use selfsame_sorted_map::Map;

/// How long such a peer is left alone.
const REST_MS: u64 = 60_000;
/// Most peers that are left alone: as many as one lookup meets.
const MAX_REFUSALS: usize = 64;

/// Who has refused this node, until when that counts, and why
#[derive(Default)]
pub(super) struct Refusals {
    table: Map<PeerId, (u64, Code)>,
}

impl Refusals {
    /// A peer has refused; the oldest refusal gives way if there are many.
    pub(super) fn add(&mut self, peer: PeerId, why: Code, now_ms: u64) {
        if self.table.len() >= MAX_REFUSALS {
            let oldest = self.table.iter().min_by_key(|(_, (until_ms, _))| *until_ms);
            if let Some(oldest) = oldest.map(|(peer, _)| *peer) {
                self.table.remove(&oldest);
            }
        }
        self.table.insert(peer, (now_ms.saturating_add(REST_MS), why));
    }

    /// Why a peer is not asked now.
    pub(super) fn why(&self, peer: &PeerId, now_ms: u64) -> Option<Code> {
        let (until_ms, why) = self.table.get(peer)?;
        (now_ms < *until_ms).then_some(*why)
    }

    /// Asks all again: what they refused is another one now.
    pub(super) fn clear(&mut self) {
        self.table = Map::default();
    }
}
