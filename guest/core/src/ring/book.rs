//! Records of peers: those that are verified, and those that others have named and nobody has needed yet.
//!
//! Verifying a signature costs as much as fifty other steps of a lookup, and of what an answer names one or two members
//! are asked. The rest is kept as it came, and verified before it is used.
//!
//! A signature proves no node: keys are free. What others tell has a share of the book, and the rest is for those that
//! have spoken themselves.

use alloc::boxed::Box;
use alloc::vec::Vec;

use selfsame_codec::Role;

use super::Parameters;
use crate::admission::Gate;
use crate::boot::BootId;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::Place;
use crate::record::{MAX_RECORD_LIFE_MS, NodeRecord};
use selfsame_sorted_map::Map;

#[derive(Debug)]
enum Known {
    Verified(NodeRecord),
    /// As somebody sent it, until this time.
    Heard(Box<[u8]>, u64),
}

#[derive(Debug)]
struct Entry {
    known: Known,
    /// It did not answer when it was asked last.
    is_suspect: bool,
    /// It has spoken itself; of all others somebody has told, who may have invented them.
    is_met: bool,
    /// The run that signed a record before the last other one did.
    former: Option<BootId>,
    /// When it was last met or named, in the book's count of such moments.
    used: u64,
}

impl Entry {
    fn record(&self) -> Option<&NodeRecord> {
        match &self.known {
            Known::Verified(record) => Some(record),
            Known::Heard(..) => None,
        }
    }

    fn expiry_ms(&self) -> u64 {
        match &self.known {
            Known::Verified(record) => record.expiry_ms(),
            Known::Heard(_, until_ms) => *until_ms,
        }
    }

    fn is_member(&self) -> bool {
        self.record().is_none_or(|record| record.role() == Role::Member)
    }

    /// Whether a lookup may go through this peer.
    fn is_route(&self) -> bool {
        !self.is_suspect && self.is_member()
    }

    /// Takes a record in the place of an older one.
    fn renew(&mut self, record: NodeRecord) -> Kept {
        if self
            .record()
            .is_some_and(|known| known.sequence() >= record.sequence())
        {
            return Kept::Again;
        }
        self.is_suspect = false;
        let boot = record.boot();
        match core::mem::replace(&mut self.known, Known::Verified(record)) {
            Known::Verified(rival) if rival.boot() != boot => match self.former.replace(rival.boot()) {
                Some(former) if former == boot => Kept::Returned { rival },
                _ => Kept::Again,
            },
            _ => Kept::Again,
        }
    }
}

/// What was known of a node before a record of it was kept
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing, and there was room.
    First,
    /// Something, or there was no room.
    Again,
    /// An older record of another run, and before it one of this run: two runs live at once.
    Returned {
        /// That older record.
        rival: NodeRecord,
    },
}

/// The newest record of each peer, as far as there is room
#[derive(Debug)]
pub(crate) struct Book {
    parameters: &'static Parameters,
    entries: Map<PeerId, Entry>,
    uses: u64,
}

impl Book {
    pub(crate) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            entries: Map::new(),
            uses: 0,
        }
    }

    /// A record that is verified.
    pub(crate) fn get(&self, peer: &PeerId) -> Option<&NodeRecord> {
        self.entries.get(peer)?.record()
    }

    /// A record as it travels, verified or not, of a peer that somebody named.
    pub(crate) fn named(&mut self, peer: &PeerId) -> Option<&[u8]> {
        let used = self.use_now();
        let entry = self.entries.get_mut(peer)?;
        entry.used = used;
        Some(match &entry.known {
            Known::Verified(record) => record.encoded(),
            Known::Heard(bytes, _) => bytes,
        })
    }

    /// Keeps a verified record unless a newer one of its node is known; says what was known of the node.
    pub(crate) fn insert(&mut self, record: NodeRecord, keep: &dyn Fn(&PeerId) -> bool) -> Kept {
        let used = self.use_now();
        if let Some(entry) = self.entries.get_mut(&record.id()) {
            entry.used = used;
            return entry.renew(record);
        }
        if self.add(record.id(), Known::Verified(record), keep) {
            Kept::First
        } else {
            Kept::Again
        }
    }

    /// Keeps what somebody named of a peer of which nothing is known.
    pub(crate) fn hear(&mut self, peer: PeerId, bytes: &[u8], now_ms: u64, keep: &dyn Fn(&PeerId) -> bool) {
        let until_ms = now_ms.saturating_add(MAX_RECORD_LIFE_MS);
        self.add(peer, Known::Heard(bytes.into(), until_ms), keep);
    }

    fn add(&mut self, peer: PeerId, known: Known, keep: &dyn Fn(&PeerId) -> bool) -> bool {
        if self.entries.len() >= self.parameters.max_records {
            self.evict(keep);
        }
        if self.entries.len() >= self.parameters.max_records {
            return false;
        }
        let entry = Entry {
            known,
            is_suspect: false,
            is_met: false,
            former: None,
            used: self.use_now(),
        };
        self.entries.insert(peer, entry);
        true
    }

    fn use_now(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Gives up who did not answer, otherwise the one of its kind that was not used for longest. Lookups under way need
    /// those of which they have just heard, but who is only heard of, verified or not, is not to drive out who has spoken.
    fn evict(&mut self, keep: &dyn Fn(&PeerId) -> bool) {
        let heard = self.entries.values().filter(|entry| !entry.is_met).count();
        let of_heard = heard > self.parameters.max_heard;
        let rank = |entry: &Entry| (!entry.is_suspect, entry.is_met == of_heard, entry.used);
        let candidates = self.entries.iter().filter(|(peer, _)| !keep(peer));
        let worst = candidates.min_by_key(|(_, entry)| rank(entry));
        if let Some(peer) = worst.map(|(peer, _)| *peer) {
            self.entries.remove(&peer);
        }
    }

    pub(crate) fn forget(&mut self, peer: &PeerId) {
        self.entries.remove(peer);
    }

    /// Lets no lookup begin at a peer until it is heard of itself.
    pub(crate) fn suspect(&mut self, peer: &PeerId) {
        self.set_met(peer, false);
    }

    /// A peer has spoken itself.
    pub(crate) fn trust(&mut self, peer: &PeerId) {
        self.set_met(peer, true);
    }

    fn set_met(&mut self, peer: &PeerId, has_spoken: bool) {
        if let Some(entry) = self.entries.get_mut(peer) {
            entry.is_suspect = !has_spoken;
            entry.is_met |= has_spoken;
        }
    }

    pub(crate) fn is_met(&self, peer: &PeerId) -> bool {
        self.entries.get(peer).is_some_and(|entry| entry.is_met)
    }

    /// Drops records that have expired, and those from the future, which a clock that was ahead let in: their nodes' next
    /// ones may be below them.
    /// If most have expired at once it is the clock that jumped: they still say whom to ask for the ring.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let expired = self.entries.values().filter(|entry| entry.expiry_ms() <= now_ms);
        if expired.count() > self.entries.len() / 2 {
            return;
        }
        self.entries.retain(|_, entry| {
            let record = entry.record();
            now_ms < entry.expiry_ms() && record.is_none_or(|record| record.is_current(now_ms))
        });
    }

    /// All members, and peers that were named as such.
    pub(crate) fn members(&self) -> impl Iterator<Item = &PeerId> {
        let members = self.entries.iter().filter(|(_, entry)| entry.is_member());
        members.map(|(peer, _)| peer)
    }

    /// Whether a lookup may go through a peer: one that gave no answer has signed a newer record since.
    pub(crate) fn is_route(&self, peer: &PeerId) -> bool {
        self.entries.get(peer).is_some_and(|entry| entry.is_route())
    }

    /// Peers that a lookup may begin at, from a place on backwards around the circle.
    pub(crate) fn routes_before(&self, target: &Place) -> impl Iterator<Item = &PeerId> {
        let (before, after) = self.entries.split(&target.open_peer());
        let circle = before.iter().rev().chain(after.iter().rev());
        circle.filter(|(_, entry)| entry.is_route()).map(|(peer, _)| peer)
    }

    /// Those that a gate has shut out.
    pub(crate) fn refused(&self, gate: &Gate) -> Vec<PeerId> {
        let records = self.entries.values().filter_map(Entry::record);
        let refused = records.filter(|record| record.refusal(gate).is_some());
        refused.map(NodeRecord::id).gather()
    }

    /// The records of those peers that are known, as they are sent.
    pub(crate) fn encoded(&self, peers: &[PeerId]) -> Vec<&[u8]> {
        let records = peers.iter().filter_map(|peer| self.get(peer));
        records.map(NodeRecord::encoded).gather()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Identity, NetworkId};
    use crate::record::RecordTerms;

    const NOW: u64 = 1_800_000_000_000;

    static SMALL: Parameters = Parameters {
        max_records: 4,
        max_heard: 2,
        ..Parameters::DEFAULT
    };

    fn signed(seed: u8, sequence: u64) -> NodeRecord {
        signed_by(seed, sequence, BootId::default())
    }

    fn signed_by(seed: u8, sequence: u64, boot: BootId) -> NodeRecord {
        let mut identity = Identity::recall(&[seed; 32], NetworkId::open("n"), &[]);
        identity.set_boot(boot);
        let terms = RecordTerms::new(Role::Member, &[], sequence, NOW + 1000);
        NodeRecord::sign(&identity, &terms).expect("a record")
    }

    fn hear(book: &mut Book, peer: u8) {
        book.hear(PeerId([peer; 32]), &[peer], NOW, &|_| false);
    }

    fn knows(book: &Book, peer: u8) -> bool {
        book.entries.get(&PeerId([peer; 32])).is_some()
    }

    #[test]
    fn those_only_heard_of_drive_out_each_other_once_they_are_many() {
        let mut book = Book::new(&SMALL);
        let verified = signed(1, NOW);
        book.insert(verified.clone(), &|_| false);
        book.trust(&verified.id());
        (10..13).for_each(|peer| hear(&mut book, peer));
        assert!(book.named(&PeerId([10; 32])).is_some());
        hear(&mut book, 13);
        assert!(book.get(&verified.id()).is_some());
        assert!(knows(&book, 10) && !knows(&book, 11) && knows(&book, 12) && knows(&book, 13));
    }

    #[test]
    fn verified_records_of_others_share_with_those_heard() {
        let mut book = Book::new(&SMALL);
        let met = signed(1, NOW);
        book.insert(met.clone(), &|_| false);
        book.trust(&met.id());
        for seed in 2..20 {
            book.insert(signed(seed, NOW), &|_| false);
        }
        assert!(book.get(&met.id()).is_some() && book.is_met(&met.id()));
        assert_eq!(book.members().count(), SMALL.max_records);
    }

    #[test]
    fn who_was_just_met_stays_however_old_its_record_is() {
        let mut book = Book::new(&SMALL);
        let records: Vec<NodeRecord> = (1..=5).map(|seed| signed(seed, NOW - u64::from(seed))).collect();
        for record in &records {
            book.insert(record.clone(), &|_| false);
            book.trust(&record.id());
        }
        hear(&mut book, 10);
        let known = |record: &NodeRecord| book.get(&record.id()).is_some();
        assert_eq!(
            records.iter().map(known).collect::<Vec<_>>(),
            [false, false, true, true, true]
        );
        assert!(knows(&book, 10));
    }
}
