//! Whether the members form the ring that they should.

use selfsame_codec::Role;
use selfsame_core::identity::PeerId;
use selfsame_core::record::NodeRecord;

use super::network::{IDLE_MS, Network};

impl Network {
    /// What is wrong with the ring formed by these members, if anything. The ends of successor lists come last: each
    /// member learns them from the next one, once in an interval.
    pub(crate) fn fault_among(&self, members: &[usize], length: usize) -> Option<String> {
        let ids: Vec<PeerId> = members.iter().map(|index| self.id(*index)).collect();
        for (place, index) in members.iter().enumerate() {
            let ring = &self.nodes[*index].ring;
            let after = |step: usize| ids[(place + step) % ids.len()];
            let expected: Vec<PeerId> = (1..ids.len().min(length + 1)).map(after).collect();
            let successors: Vec<PeerId> = ring
                .successors()
                .iter()
                .take(length)
                .map(|record| record.id())
                .collect();
            if successors != expected {
                return Some(format!(
                    "successors of {index} are {successors:?}, not {expected:?}"
                ));
            }
            let predecessor = ring.predecessor().map(NodeRecord::id);
            let expected = (ids.len() > 1).then(|| after(ids.len() - 1));
            if predecessor != expected {
                return Some(format!(
                    "predecessor of {index} is {predecessor:?}, not {expected:?}"
                ));
            }
        }
        None
    }

    /// What is wrong with the ring of all living members, looking so far along their successor lists.
    pub(crate) fn fault(&self, length: usize) -> Option<String> {
        let alive = self.nodes.iter().filter(|node| node.is_alive);
        let expected = alive.filter(|node| node.settings.role == Role::Member).count();
        let members = self.members();
        if members.len() == expected {
            self.fault_among(&members, length)
        } else {
            Some(format!("{} of {expected} have joined", members.len()))
        }
    }

    /// Lets time pass until every living member knows its neighbours; says how long it took.
    pub(crate) fn settle(&mut self, limit_ms: u64) -> u64 {
        self.shape(limit_ms, 1)
    }

    /// Lets time pass until every living member knows all its successors; says how long it took.
    pub(crate) fn converge(&mut self) -> u64 {
        self.shape(20 * IDLE_MS, 16)
    }

    fn shape(&mut self, limit_ms: u64, length: usize) -> u64 {
        let start_ms = self.now_ms;
        while let Some(fault) = self.fault(length) {
            let more = self.step(start_ms + limit_ms);
            assert!(more, "no ring within {limit_ms} ms: {fault} (seed {})", self.seed);
        }
        self.now_ms - start_ms
    }

    /// The member that is responsible for an id.
    pub(crate) fn responsible(&self, id: &[u8; 32]) -> usize {
        let members = self.members();
        let next = members.iter().find(|index| self.id(**index).0 >= *id);
        *next.unwrap_or(&members[0])
    }
}
