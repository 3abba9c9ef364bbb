//! The object table: associations that this member stores, as the responsible one or as a mirror.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::message::{EntryBytes, MAX_ENTRIES_BYTES};
use super::position::{Position, in_half_open};
use crate::association::{Association, ObjectId};
use crate::identity::PeerId;
use crate::record::NodeRecord;

/// Most publishers of one object: more replicas of a service than one answer can name.
pub(crate) const MAX_PUBLISHERS: usize = 256;
/// Most associations altogether: the share of one member among few when thousands of services are published.
pub(crate) const MAX_ASSOCIATIONS: usize = 65_536;
/// Most associations of one publisher: as many as it can sign at once, so that none fills the table alone.
pub(crate) const MAX_OF_PUBLISHER: usize = 1024;
/// Most bytes altogether: a quarter of the memory of the smallest platform (128 MB).
pub(crate) const MAX_TABLE_BYTES: usize = 32 * 1024 * 1024;

/// Which association: its object and publisher
pub(crate) type Key = (ObjectId, PeerId);

/// What an insertion did
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is new, or takes the place of an older one.
    Stored,
    /// Exactly this was stored before.
    Same,
}

#[derive(Debug)]
struct Held {
    sequence_ms: u64,
    expiry_ms: u64,
    association: Vec<u8>,
    record: Vec<u8>,
}

impl Held {
    fn entry(&self) -> EntryBytes<'_> {
        EntryBytes {
            association: &self.association,
            record: &self.record,
        }
    }

    fn bytes(&self) -> usize {
        self.association.len() + self.record.len()
    }
}

/// Associations by object and publisher
#[derive(Debug, Default)]
pub(crate) struct Objects {
    table: BTreeMap<Key, Held>,
    by_expiry: BTreeSet<(u64, Key)>,
    of_publisher: BTreeMap<PeerId, usize>,
    bytes: usize,
}

impl Objects {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Stores a verified association with its publisher's verified record.
    ///
    /// # Errors
    /// [`Code::StaleRecord`] when another one with this or a higher sequence is stored, [`Code::TooManyAssociations`]
    /// at a limit.
    pub(crate) fn insert(
        &mut self,
        association: &Association,
        record: &NodeRecord,
    ) -> Result<Inserted, Code> {
        let key = (association.object(), association.publisher());
        let validity = association.validity();
        if let Some(held) = self.table.get(&key) {
            if held.association == association.encoded() {
                return Ok(Inserted::Same);
            }
            if held.sequence_ms >= validity.sequence_ms {
                return Err(Code::StaleRecord);
            }
        } else {
            self.check_limits(&key)?;
        }
        let held = Held {
            sequence_ms: validity.sequence_ms,
            expiry_ms: validity.expiry_ms,
            association: association.encoded().to_vec(),
            record: record.encoded().to_vec(),
        };
        if self.bytes + held.bytes() > MAX_TABLE_BYTES {
            return Err(Code::TooManyAssociations);
        }
        self.remove(&key);
        self.bytes += held.bytes();
        self.by_expiry.insert((held.expiry_ms, key));
        *self.of_publisher.entry(key.1).or_default() += 1;
        self.table.insert(key, held);
        Ok(Inserted::Stored)
    }

    fn check_limits(&self, key: &Key) -> Result<(), Code> {
        let of_publisher = self.of_publisher.get(&key.1).copied().unwrap_or_default();
        if self.table.len() >= MAX_ASSOCIATIONS
            || of_publisher >= MAX_OF_PUBLISHER
            || self.of_object(&key.0).count() >= MAX_PUBLISHERS
        {
            return Err(Code::TooManyAssociations);
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key) {
        let Some(held) = self.table.remove(key) else {
            return;
        };
        self.by_expiry.remove(&(held.expiry_ms, *key));
        self.bytes -= held.bytes();
        if let Some(count) = self.of_publisher.get_mut(&key.1) {
            *count -= 1;
            if *count == 0 {
                self.of_publisher.remove(&key.1);
            }
        }
    }

    /// Drops what has expired and says which that was.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Key> {
        let mut expired = Vec::new();
        while let Some((expiry_ms, key)) = self.by_expiry.first().copied()
            && expiry_ms <= now_ms
        {
            self.remove(&key);
            expired.push(key);
        }
        expired
    }

    pub(crate) fn get(&self, key: &Key) -> Option<EntryBytes<'_>> {
        self.table.get(key).map(Held::entry)
    }

    fn of_object(&self, object: &ObjectId) -> impl Iterator<Item = &Held> {
        let range = (*object, PeerId([0; 32]))..=(*object, PeerId([0xff; 32]));
        self.table.range(range).map(|(_, held)| held)
    }

    /// How many publishers an object has.
    pub(crate) fn publishers(&self, object: &ObjectId) -> usize {
        self.of_object(object).count()
    }

    /// What is stored for an object, as much as fits a message, from the `start`-th on so that each gets its turn.
    pub(crate) fn find(&self, object: &ObjectId, start: usize, now_ms: u64) -> Vec<EntryBytes<'_>> {
        let mut bytes = 0;
        let turned = self
            .of_object(object)
            .skip(start)
            .chain(self.of_object(object).take(start));
        turned
            .filter(|held| now_ms < held.expiry_ms)
            .take_while(|held| {
                bytes += held.bytes();
                bytes <= MAX_ENTRIES_BYTES
            })
            .map(Held::entry)
            .collect()
    }

    /// Keys of all objects after `from` up to `to` on the circle.
    pub(crate) fn keys_in(&self, from: &Position, to: &Position) -> Vec<Key> {
        let keys = self.table.keys();
        keys.filter(|(object, _)| in_half_open(from, &object.0, to))
            .copied()
            .collect()
    }

    /// Takes from the front of `keys` what fits one message.
    pub(crate) fn take_chunk(&self, keys: &mut Vec<Key>) -> Vec<EntryBytes<'_>> {
        let mut bytes = 0;
        let mut taken = 0;
        let mut chunk = Vec::new();
        for key in keys.iter() {
            if let Some(held) = self.table.get(key) {
                bytes += held.bytes();
                if bytes > MAX_ENTRIES_BYTES {
                    break;
                }
                chunk.push(held.entry());
            }
            taken += 1;
        }
        keys.drain(..taken);
        chunk
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.table.keys().copied().collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use selfsame_codec::Role;

    use super::*;
    use crate::association::{Leaf, Validity};
    use crate::identity::{Identity, NetworkId};

    const NOW: u64 = 1_800_000_000_000;

    fn publisher(seed: u16) -> (Identity, NodeRecord) {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&seed.to_le_bytes());
        let identity = Identity::of_peer(&bytes, NetworkId::open("n"));
        let record = NodeRecord::sign(&identity, Role::Leaf, &[], "", NOW, NOW + 1000).expect("a record");
        (identity, record)
    }

    fn associations(identity: &Identity, names: &[&str], sequence_ms: u64) -> Vec<Association> {
        let leaves: Vec<Leaf> = names
            .iter()
            .map(|name| Leaf {
                salt: [0; 16],
                owner: None,
                name: (*name).into(),
                r: 0,
                withdrawn: false,
                version: "1".into(),
                weight: 1,
                grant: Vec::new(),
            })
            .collect();
        let validity = Validity {
            sequence_ms,
            not_before_ms: sequence_ms,
            expiry_ms: sequence_ms + 1000,
        };
        Association::publish(identity, &leaves, validity).expect("associations")
    }

    #[test]
    fn the_highest_sequence_stays() {
        let mut objects = Objects::default();
        let (identity, record) = publisher(1);
        let old = &associations(&identity, &["a"], NOW)[0];
        let new = &associations(&identity, &["a"], NOW + 1)[0];
        let same_sequence = &associations(&identity, &["a", "b"], NOW + 1)[0];
        assert_eq!(objects.insert(new, &record), Ok(Inserted::Stored));
        assert_eq!(objects.insert(new, &record), Ok(Inserted::Same));
        assert_eq!(objects.insert(old, &record), Err(Code::StaleRecord));
        assert_eq!(objects.insert(same_sequence, &record), Err(Code::StaleRecord));
        assert_eq!(objects.len(), 1);
    }

    #[test]
    fn what_expires_goes_and_gives_its_room_back() {
        let mut objects = Objects::default();
        let (identity, record) = publisher(1);
        for association in associations(&identity, &["a", "b"], NOW) {
            assert_eq!(objects.insert(&association, &record), Ok(Inserted::Stored));
        }
        assert!(objects.expire(NOW + 999).is_empty());
        assert_eq!(objects.expire(NOW + 1000).len(), 2);
        assert_eq!(objects.len(), 0);
        assert_eq!(objects.bytes, 0);
        assert!(objects.of_publisher.is_empty() && objects.by_expiry.is_empty());
    }

    #[test]
    fn a_publisher_and_an_object_have_their_limits() {
        let mut objects = Objects::default();
        let mut refused = 0;
        for seed in 0..=MAX_PUBLISHERS as u16 {
            let (identity, record) = publisher(seed);
            let association = &associations(&identity, &["a"], NOW)[0];
            refused += usize::from(objects.insert(association, &record) == Err(Code::TooManyAssociations));
        }
        assert_eq!((objects.len(), refused), (MAX_PUBLISHERS, 1));

        let (identity, record) = publisher(9999);
        let names: Vec<_> = (0..MAX_OF_PUBLISHER).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        for association in associations(&identity, &names, NOW) {
            assert_eq!(objects.insert(&association, &record), Ok(Inserted::Stored));
        }
        let one_more = &associations(&identity, &["other"], NOW)[0];
        assert_eq!(objects.insert(one_more, &record), Err(Code::TooManyAssociations));
    }

    #[test]
    fn answers_and_chunks_keep_the_size_of_a_message() {
        let mut objects = Objects::default();
        for seed in 0..200 {
            let (identity, record) = publisher(seed);
            let association = &associations(&identity, &["a"], NOW)[0];
            assert_eq!(objects.insert(association, &record), Ok(Inserted::Stored));
        }
        let object = ObjectId::of(&NetworkId::open("n"), None, "a", 0);
        let answer = objects.find(&object, 150, NOW);
        let size = |entries: &[EntryBytes<'_>]| {
            entries
                .iter()
                .map(|entry| entry.association.len() + entry.record.len())
                .sum::<usize>()
        };
        assert!(size(&answer) <= MAX_ENTRIES_BYTES && answer.len() > 30);
        assert_ne!(answer, objects.find(&object, 0, NOW));
        let mut keys = objects.keys();
        let mut seen = 0;
        while !keys.is_empty() {
            let chunk = objects.take_chunk(&mut keys);
            assert!(size(&chunk) <= MAX_ENTRIES_BYTES && !chunk.is_empty());
            seen += chunk.len();
        }
        assert_eq!(seen, 200);
    }
}
