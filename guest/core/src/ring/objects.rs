//! The object table: associations that this member stores, as the responsible one or as a mirror.

use alloc::boxed::Box;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Parameters;
use super::message::{EntryBytes, MAX_ENTRIES_BYTES};
use crate::association::{Association, ObjectId};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::map::Map;
use crate::place::{Place, in_half_open};
use crate::record::NodeRecord;

/// As many as a byte has values.
const TABLES: usize = 256;

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
#[derive(Debug)]
pub(crate) struct Objects {
    parameters: &'static Parameters,
    /// One map for each first byte of an object id, so that an insertion into a full table moves little.
    tables: Vec<Map<Key, Box<Held>>>,
    of_publisher: Map<PeerId, usize>,
    len: usize,
    bytes: usize,
    /// Nothing expires before this.
    next_expiry_ms: u64,
}

impl Objects {
    pub(crate) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            tables: Vec::new(),
            of_publisher: Map::new(),
            len: 0,
            bytes: 0,
            next_expiry_ms: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn table(&self, object: &ObjectId) -> Option<&Map<Key, Box<Held>>> {
        self.tables.get(table_of(object))
    }

    fn held(&self, key: &Key) -> Option<&Held> {
        Some(self.table(&key.0)?.get(key)?)
    }

    fn all_keys(&self) -> impl Iterator<Item = &Key> {
        self.tables.iter().flat_map(Map::keys)
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
        if let Some(held) = self.held(&key) {
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
        if self.bytes + held.bytes() > self.parameters.max_table_bytes {
            return Err(Code::TooManyAssociations);
        }
        self.remove(&key);
        self.bytes += held.bytes();
        self.len += 1;
        self.next_expiry_ms = self.next_expiry_ms.min(held.expiry_ms);
        *self.of_publisher.get_or_insert_with(key.1, || 0) += 1;
        self.tables.resize_with(TABLES, Map::new);
        self.tables[table_of(&key.0)].insert(key, Box::new(held));
        Ok(Inserted::Stored)
    }

    fn check_limits(&self, key: &Key) -> Result<(), Code> {
        let of_publisher = self.of_publisher.get(&key.1).copied().unwrap_or_default();
        if self.len >= self.parameters.max_associations
            || of_publisher >= self.parameters.max_of_publisher
            || self.of_object(&key.0).len() >= self.parameters.max_publishers
        {
            return Err(Code::TooManyAssociations);
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key) {
        let table = self.tables.get_mut(table_of(&key.0));
        let Some(held) = table.and_then(|table| table.remove(key)) else {
            return;
        };
        self.len -= 1;
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
        if now_ms < self.next_expiry_ms {
            return expired;
        }
        self.next_expiry_ms = u64::MAX;
        for (key, held) in self.tables.iter().flat_map(Map::iter) {
            if held.expiry_ms <= now_ms {
                expired.push(*key);
            } else {
                self.next_expiry_ms = self.next_expiry_ms.min(held.expiry_ms);
            }
        }
        for key in &expired {
            self.remove(key);
        }
        expired
    }

    pub(crate) fn get(&self, key: &Key) -> Option<EntryBytes<'_>> {
        self.held(key).map(Held::entry)
    }

    /// What is stored for an object, in order of the publishers.
    fn of_object(&self, object: &ObjectId) -> &[(Key, Box<Held>)] {
        let Some(table) = self.table(object) else {
            return &[];
        };
        let (_, from) = table.split(&(*object, PeerId([0; 32])));
        let count = from.partition_point(|((other, _), _)| other == object);
        &from[..count]
    }

    /// How many publishers an object has.
    pub(crate) fn publishers(&self, object: &ObjectId) -> usize {
        self.of_object(object).len()
    }

    /// What is stored for an object, as much as fits a message, from the `start`-th on so that each gets its turn.
    pub(crate) fn find(&self, object: &ObjectId, start: usize, now_ms: u64) -> Vec<EntryBytes<'_>> {
        let all = self.of_object(object);
        let (before, from) = all.split_at(start.min(all.len()));
        let mut bytes = 0;
        let mut found = Vec::new();
        for (_, held) in from.iter().chain(before) {
            if held.expiry_ms <= now_ms {
                continue;
            }
            bytes += held.bytes();
            if bytes > MAX_ENTRIES_BYTES {
                break;
            }
            found.push(held.entry());
        }
        found
    }

    /// Keys of all objects after `from` up to `to` on the circle.
    pub(crate) fn keys_in(&self, from: &Place, to: &Place) -> Vec<Key> {
        self.all_keys()
            .filter(|(object, _)| in_half_open(from, &object.place(), to))
            .copied()
            .gather()
    }

    /// Takes from the front of `keys` what fits one message.
    pub(crate) fn take_chunk(&self, keys: &mut Vec<Key>) -> Vec<EntryBytes<'_>> {
        let mut bytes = 0;
        let mut taken = 0;
        let mut chunk = Vec::new();
        for key in keys.iter() {
            if let Some(held) = self.held(key) {
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
        self.all_keys().copied().gather()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.parameters);
    }
}

/// The table of an object: ids are spread evenly, so their first byte is as good as any.
fn table_of(object: &ObjectId) -> usize {
    usize::from(object.0[0])
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use selfsame_codec::Role;

    use super::*;
    use crate::association::{Leaf, Validity};
    use crate::identity::{Identity, NetworkId};
    use crate::record::RecordTerms;

    const NOW: u64 = 1_800_000_000_000;

    fn publisher(seed: u16) -> (Identity, NodeRecord) {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&seed.to_le_bytes());
        let identity = Identity::of_peer(&bytes, NetworkId::open("n"));
        let record = NodeRecord::sign(&identity, &RecordTerms::new(Role::Leaf, &[], NOW, NOW + 1000))
            .expect("a record");
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
        let mut objects = Objects::new(&Parameters::DEFAULT);
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
        let mut objects = Objects::new(&Parameters::DEFAULT);
        let (identity, record) = publisher(1);
        for association in associations(&identity, &["a", "b"], NOW) {
            assert_eq!(objects.insert(&association, &record), Ok(Inserted::Stored));
        }
        assert!(objects.expire(NOW + 999).is_empty());
        assert_eq!(objects.expire(NOW + 1000).len(), 2);
        assert_eq!(objects.len(), 0);
        assert_eq!(objects.bytes, 0);
        assert!(objects.of_publisher.is_empty());
    }

    #[test]
    fn a_publisher_and_an_object_have_their_limits() {
        let mut objects = Objects::new(&Parameters::DEFAULT);
        let mut refused = 0;
        for seed in 0..=Parameters::DEFAULT.max_publishers as u16 {
            let (identity, record) = publisher(seed);
            let association = &associations(&identity, &["a"], NOW)[0];
            refused += usize::from(objects.insert(association, &record) == Err(Code::TooManyAssociations));
        }
        assert_eq!((objects.len(), refused), (Parameters::DEFAULT.max_publishers, 1));

        let (identity, record) = publisher(9999);
        let names: Vec<_> = (0..Parameters::DEFAULT.max_of_publisher)
            .map(|n| format!("s{n}"))
            .collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        for association in associations(&identity, &names, NOW) {
            assert_eq!(objects.insert(&association, &record), Ok(Inserted::Stored));
        }
        let one_more = &associations(&identity, &["other"], NOW)[0];
        assert_eq!(objects.insert(one_more, &record), Err(Code::TooManyAssociations));
    }

    #[test]
    fn answers_and_chunks_keep_the_size_of_a_message() {
        let mut objects = Objects::new(&Parameters::DEFAULT);
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
