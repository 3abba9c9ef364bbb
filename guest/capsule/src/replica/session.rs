//! Sessions of readers: a mirror of each one's verification cache (DCS, section 3.3, client-server mirrored caching).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::cache::Mirror;
use crate::hash::{CapsuleName, RecordName};
use crate::message::SessionId;

/// Responses whose proofs are remembered until their reader says that it has verified them: more are not under way at a time.
const MAX_UNDER_WAY: usize = 16;
/// Names of proofs of one response that are remembered; what goes beyond them is not mirrored.
const MAX_LEARNED: usize = 1 << 13;
/// About what a session takes beside its mirror and the names that it remembers: its entries in two tables.
const OVERHEAD: usize = 256;

/// One reader's session with one capsule
#[derive(Debug)]
pub(super) struct Session {
    mirror: Mirror,
    serial: u32,
    under_way: VecDeque<(u32, Vec<RecordName>)>,
}

impl Session {
    /// A session whose reader has a cache of so many slots, in which there is nothing yet.
    pub(super) fn new(slots_log2: u8) -> Self {
        Self {
            mirror: Mirror::new(slots_log2),
            serial: 0,
            under_way: VecDeque::new(),
        }
    }

    /// What the reader is known to have verified.
    pub(super) fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// The reader has verified the proofs of this response, and of those before it none that it has not said so of.
    pub(super) fn verified(&mut self, serial: u32) {
        let Some(place) = self.under_way.iter().position(|(other, _)| *other == serial) else {
            return;
        };
        self.under_way.drain(..place);
        if let Some((_, names)) = self.under_way.pop_front() {
            names.iter().for_each(|name| self.mirror.insert(&name.0));
        }
    }

    /// The next response, whose proofs will have verified these names, in this order.
    pub(super) fn respond(&mut self, mut names: Vec<RecordName>) -> u32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        if !names.is_empty() {
            names.truncate(MAX_LEARNED);
            names.shrink_to(MAX_LEARNED);
            self.under_way.push_back((self.serial, names));
        }
        if self.under_way.len() > MAX_UNDER_WAY {
            self.under_way.pop_front();
        }
        self.serial
    }

    /// About how many bytes of memory it takes.
    fn bytes(&self) -> usize {
        let names: usize = self.under_way.iter().map(|(_, names)| names.capacity()).sum();
        OVERHEAD + self.mirror.bytes() + names * size_of::<RecordName>()
    }
}

/// Sessions, the one opened longest ago first; of too many it is forgotten, and its reader gets longer proofs again
#[derive(Debug)]
pub(super) struct Sessions {
    all: BTreeMap<(CapsuleName, SessionId), Session>,
    opened: VecDeque<(CapsuleName, SessionId)>,
    bytes: usize,
    limit: usize,
}

impl Sessions {
    /// No sessions, and room for so many bytes of them.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            opened: VecDeque::new(),
            bytes: 0,
            limit,
        }
    }

    /// Begins a session anew.
    pub(super) fn open(&mut self, capsule: CapsuleName, id: SessionId, slots_log2: u8) {
        self.close(&(capsule, id));
        let session = Session::new(slots_log2);
        self.bytes += session.bytes();
        self.all.insert((capsule, id), session);
        self.opened.push_back((capsule, id));
        self.make_room();
    }

    /// A session, if it is known still.
    pub(super) fn get(&self, capsule: CapsuleName, id: SessionId) -> Option<&Session> {
        self.all.get(&(capsule, id))
    }

    /// Changes a session, if it is known still, and counts what it takes from then on.
    pub(super) fn change<T>(
        &mut self,
        capsule: CapsuleName,
        id: SessionId,
        change: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let session = self.all.get_mut(&(capsule, id))?;
        let before = session.bytes();
        let result = change(session);
        self.bytes = self.bytes + session.bytes() - before;
        self.make_room();
        Some(result)
    }

    fn make_room(&mut self) {
        while self.bytes > self.limit && self.opened.len() > 1 {
            let oldest = self.opened[0];
            self.close(&oldest);
        }
    }

    fn close(&mut self, key: &(CapsuleName, SessionId)) {
        if let Some(session) = self.all.remove(key) {
            self.bytes -= session.bytes();
            self.opened.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::cache::MIN_SLOTS_LOG2;

    const CAPSULE: CapsuleName = CapsuleName([1; 32]);

    /// Names of a session with 16 slots, which takes 128 bytes, once took up to 4 MiB that nobody counted.
    #[test]
    fn names_under_way_count_against_the_limit() {
        let mut sessions = Sessions::new(1 << 20);
        for number in 0..100 {
            let id = [number; 16];
            sessions.open(CAPSULE, id, MIN_SLOTS_LOG2);
            for _ in 0..2 * MAX_UNDER_WAY {
                let names = vec![RecordName([2; 32]); MAX_LEARNED / 8];
                sessions.change(CAPSULE, id, |session| session.respond(names));
            }
            assert!(sessions.bytes <= sessions.limit);
        }
        assert!(sessions.get(CAPSULE, [0; 16]).is_none());
        let last = [99; 16];
        let serial = sessions.change(CAPSULE, last, |session| session.serial);
        sessions.change(CAPSULE, last, |session| session.verified(serial.unwrap_or(0)));
        while sessions.opened.len() > 1 {
            let oldest = sessions.opened[0];
            sessions.close(&oldest);
        }
        let empty = Session::new(MIN_SLOTS_LOG2).bytes();
        assert_eq!(sessions.bytes, empty, "what was verified is not remembered");
    }
}
