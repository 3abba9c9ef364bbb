//! The object table: associations that this member stores, as the responsible one or as a mirror, and of each owned object
//! the newest grant.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Parameters;
use super::message::{EntryBytes, MAX_ENTRIES_BYTES};
use crate::association::{Association, ObjectId};
use crate::gather::Gather as _;
use crate::grant::Terms;
use crate::identity::PeerId;
use crate::place::{Place, in_half_open};
use crate::quota::Holder;
use crate::record::{CLOCK_SKEW_MS, NodeRecord};
use selfsame_sorted_map::{Entries, Map};

/// As many as a byte has values.
const TABLES: usize = 256;

/// Stands for the publisher in the key of an object's newest grant. It comes after all publishers: a grant is taken only
/// where associations are, so that nobody fills a table with grants.
const GRANT: PeerId = PeerId([0xff; 32]);

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

/// An association with its publisher's record, or a grant with its object's sibling number
#[derive(Debug)]
struct Held {
    sequence_ms: u64,
    expiry_ms: u64,
    is_withdrawn: bool,
    /// The publisher, and the network or member that it came from.
    holders: [Holder; 2],
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
    tables: Vec<Map<Key, Held>>,
    /// What the holders of entries have, in bytes, and how many: ids are free, so that what counts is also where they are.
    shares: Map<Holder, (usize, usize)>,
    len: usize,
    bytes: usize,
    /// Nothing expires before this.
    next_expiry_ms: u64,
    /// What was stored or dropped since [`Objects::take_changed`].
    changed: Vec<Key>,
}

impl Objects {
    pub(crate) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            tables: Vec::new(),
            shares: Map::new(),
            len: 0,
            bytes: 0,
            next_expiry_ms: 0,
            changed: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn table(&self, object: &ObjectId) -> Option<&Map<Key, Held>> {
        self.tables.get(table_of(object))
    }

    fn held(&self, key: &Key) -> Option<&Held> {
        self.table(&key.0)?.get(key)
    }

    fn all_keys(&self) -> impl Iterator<Item = &Key> {
        self.tables.iter().flat_map(Map::keys)
    }

    /// Stores a verified association with its publisher's verified record, and its grant if that is the newest.
    ///
    /// # Errors
    /// [`Code::Superseded`] when another one with this or a higher sequence is stored, [`Code::NotGranted`] for a
    /// withdrawal of an owned name that neither has a grant nor anything to withdraw, [`Code::TooManyAssociations`] at a
    /// limit.
    pub(crate) fn insert(
        &mut self,
        association: &Association,
        record: &NodeRecord,
        source: Holder,
    ) -> Result<Inserted, Code> {
        let key = (association.object(), association.publisher());
        let (validity, leaf) = (association.validity(), association.leaf());
        let (terms, known) = (association.terms(), self.held(&key));
        if let Some(held) = known {
            if held.association == association.encoded() {
                return Ok(Inserted::Same);
            }
            if held.sequence_ms >= validity.sequence_ms {
                return Err(Code::Superseded);
            }
        } else if leaf.withdrawn && leaf.owner.is_some() && terms.is_none() {
            return Err(Code::NotGranted);
        }
        let is_new = known.is_none();
        let granted_until_ms = terms.as_ref().map_or(u64::MAX, |terms| terms.expiry_ms);
        let held = Held {
            sequence_ms: validity.sequence_ms,
            expiry_ms: validity.expiry_ms.min(granted_until_ms),
            is_withdrawn: leaf.withdrawn,
            holders: [Holder::peer(&key.1), source],
            association: association.encoded().to_vec(),
            record: record.encoded().to_vec(),
        };
        self.make_room(&key, &held, is_new)?;
        self.put(key, held);
        if let Some(terms) = terms {
            let grant = EntryBytes {
                association: &leaf.grant,
                record: &[leaf.r],
            };
            self.keep_grant(key.0, &grant, &terms);
        }
        Ok(Inserted::Stored)
    }

    /// Keeps a verified grant for an object of its name if it is the newest there: it revokes others whoever is stored.
    pub(crate) fn keep_grant(&mut self, object: ObjectId, grant: &EntryBytes<'_>, terms: &Terms) {
        let key = (object, GRANT);
        let is_newer = |held: &Held| held.sequence_ms < terms.issued_ms;
        if !self.of_object(&object).is_empty() && self.held(&key).is_none_or(is_newer) {
            let held = Held {
                sequence_ms: terms.issued_ms,
                expiry_ms: terms.expiry_ms,
                is_withdrawn: false,
                holders: [Holder::EXEMPT; 2],
                association: grant.association.to_vec(),
                record: grant.record.to_vec(),
            };
            self.put(key, held);
        }
    }

    fn put(&mut self, key: Key, held: Held) {
        self.take(&key);
        self.bytes += held.bytes();
        self.next_expiry_ms = self.next_expiry_ms.min(held.expiry_ms);
        if key.1 != GRANT {
            self.len += 1;
        }
        for holder in held.holders.iter().filter(|holder| **holder != Holder::EXEMPT) {
            let (bytes, count) = self.shares.get_or_insert_with(*holder, || (0, 0));
            *bytes += held.bytes();
            *count += 1;
        }
        self.tables.resize_with(TABLES, Map::new);
        self.tables[table_of(&key.0)].insert(key, held);
        self.changed.push(key);
    }

    /// Makes room for an entry. Valid ones take it from withdrawals, and in a full table from whoever has the most bytes, be it
    /// a publisher, a network or a member that hands over: others would be crowded out by a few publishers, or by one with many
    /// ids.
    fn make_room(&mut self, key: &Key, held: &Held, is_new: bool) -> Result<(), Code> {
        let parameters = self.parameters;
        let [(bytes, count), (others, _)] = held
            .holders
            .map(|holder| self.shares.get(&holder).copied().unwrap_or_default());
        let own = bytes.max(others) + held.bytes();
        if is_new && count >= parameters.max_of_publisher {
            return Err(Code::TooManyAssociations);
        }
        loop {
            let replaced = self.held(key).map_or(0, Held::bytes);
            let victim = if is_new && self.publishers(&key.0) >= parameters.max_publishers {
                let table = table_of(&key.0);
                oldest(&self.tables[table..=table], &|(object, _), held| {
                    held.is_withdrawn && *object == key.0
                })
            } else if self.bytes + held.bytes() > parameters.max_table_bytes + replaced
                || is_new && self.len >= parameters.max_associations
            {
                let largest = self.shares.iter().max_by_key(|(_, share)| share.0);
                let largest = largest.filter(|(_, share)| share.0 > own && share.1 > 1);
                oldest(&self.tables, &|_, held| {
                    held.is_withdrawn || largest.is_some_and(|(holder, _)| held.holders.contains(holder))
                })
            } else {
                return Ok(());
            };
            let victim = victim.filter(|_| !held.is_withdrawn);
            self.remove(&victim.ok_or(Code::TooManyAssociations)?);
        }
    }

    /// Takes an entry out without a trace.
    fn take(&mut self, key: &Key) -> bool {
        let table = self.tables.get_mut(table_of(&key.0));
        let Some(held) = table.and_then(|table| table.remove(key)) else {
            return false;
        };
        self.bytes -= held.bytes();
        if key.1 == GRANT {
            return true;
        }
        self.len -= 1;
        for holder in held.holders {
            if let Some((bytes, count)) = self.shares.get_mut(&holder) {
                *bytes -= held.bytes();
                *count -= 1;
                if *count == 0 {
                    self.shares.remove(&holder);
                }
            }
        }
        true
    }

    /// Drops an entry, and the grant of an object with the last association.
    fn remove(&mut self, key: &Key) {
        if self.take(key) {
            self.changed.push(*key);
            if self.of_object(&key.0).is_empty() {
                self.remove(&(key.0, GRANT));
            }
        }
    }

    /// Keys of which an entry was stored or dropped since this was asked last.
    pub(crate) fn take_changed(&mut self) -> Vec<Key> {
        core::mem::take(&mut self.changed)
    }

    /// Lets [`Self::expire`] look at all: the clock was set back.
    pub(crate) fn clock_corrected(&mut self) {
        self.next_expiry_ms = 0;
    }

    /// Drops what has expired, and associations that were stored while the clock was ahead, which nothing could replace.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        if now_ms < self.next_expiry_ms {
            return;
        }
        self.next_expiry_ms = u64::MAX;
        let mut expired = Vec::new();
        for (key, held) in self.tables.iter().flat_map(Map::iter) {
            let is_ahead = key.1 != GRANT && held.sequence_ms > now_ms.saturating_add(CLOCK_SKEW_MS);
            if held.expiry_ms <= now_ms || is_ahead {
                expired.push(*key);
            } else {
                self.next_expiry_ms = self.next_expiry_ms.min(held.expiry_ms);
            }
        }
        expired.iter().for_each(|key| self.remove(key));
    }

    /// Drops what peers have published that the network admits no more.
    pub(crate) fn remove_of(&mut self, is_gone: &mut dyn FnMut(&[u8]) -> bool) {
        let all = self.tables.iter().flat_map(Map::iter);
        let gone = all
            .filter(|(_, held)| is_gone(&held.record))
            .map(|(key, _)| *key)
            .collect::<Vec<_>>();
        gone.iter().for_each(|key| self.remove(key));
    }

    pub(crate) fn get(&self, key: &Key) -> Option<EntryBytes<'_>> {
        self.held(key).map(Held::entry)
    }

    /// An entry with the network or member that it came from.
    pub(crate) fn get_stored(&self, key: &Key) -> Option<(EntryBytes<'_>, Holder)> {
        self.held(key).map(|held| (held.entry(), held.holders[1]))
    }

    /// The associations of an object, in order of the publishers.
    fn of_object(&self, object: &ObjectId) -> Entries<'_, Key, Held> {
        let Some(table) = self.table(object) else {
            return &[];
        };
        let (_, from) = table.split(&(*object, PeerId([0; 32])));
        let count = from.partition_point(|((other, peer), _)| other == object && *peer != GRANT);
        &from[..count]
    }

    /// How many publishers an object has.
    pub(crate) fn publishers(&self, object: &ObjectId) -> usize {
        self.of_object(object).len()
    }

    /// What is stored for an object, as much as fits a message: the newest grant, then valid associations from the
    /// `start`-th on so that each gets its turn, then withdrawals, which only its publishers' older associations need.
    pub(crate) fn find(&self, object: &ObjectId, start: usize, now_ms: u64) -> Vec<EntryBytes<'_>> {
        let all = self.of_object(object);
        let (before, from) = all.split_at(start.min(all.len()));
        let grant = self.held(&(*object, GRANT));
        let mut bytes = grant.map_or(0, Held::bytes);
        let mut found = Vec::new();
        for is_withdrawn in [false, true] {
            for (_, held) in from.iter().chain(before) {
                if held.expiry_ms <= now_ms || held.is_withdrawn != is_withdrawn {
                    continue;
                }
                bytes += held.bytes();
                if bytes > MAX_ENTRIES_BYTES {
                    break;
                }
                found.push(held.entry());
            }
        }
        if let Some(grant) = grant
            && !found.is_empty()
        {
            found.insert(0, grant.entry());
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

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        let changed = self.all_keys().copied().gather();
        *self = Self {
            changed,
            ..Self::new(self.parameters)
        };
    }
}

/// The withdrawal with the lowest sequence among those that match, or else the association.
fn oldest(tables: &[Map<Key, Held>], matches: &dyn Fn(&Key, &Held) -> bool) -> Option<Key> {
    let mut oldest = (true, u64::MAX);
    let mut found = None;
    for (key, held) in tables.iter().flat_map(Map::iter) {
        let rank = (!held.is_withdrawn, held.sequence_ms);
        if rank < oldest && matches(key, held) {
            oldest = rank;
            found = Some(*key);
        }
    }
    found
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
        let identity = Identity::recall(&bytes, NetworkId::open("n"), &[]);
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
        assert_eq!(objects.insert(new, &record, Holder::EXEMPT), Ok(Inserted::Stored));
        assert_eq!(objects.insert(new, &record, Holder::EXEMPT), Ok(Inserted::Same));
        assert_eq!(
            objects.insert(old, &record, Holder::EXEMPT),
            Err(Code::Superseded)
        );
        assert_eq!(
            objects.insert(same_sequence, &record, Holder::EXEMPT),
            Err(Code::Superseded)
        );
        assert_eq!(objects.len(), 1);
    }

    #[test]
    fn what_expires_goes_and_gives_its_room_back() {
        let mut objects = Objects::new(&Parameters::DEFAULT);
        let (identity, record) = publisher(1);
        for association in associations(&identity, &["a", "b"], NOW) {
            assert_eq!(
                objects.insert(&association, &record, Holder::EXEMPT),
                Ok(Inserted::Stored)
            );
        }
        objects.expire(NOW + 999);
        assert_eq!(objects.take_changed().len(), 2);
        objects.expire(NOW + 1000);
        assert_eq!(objects.take_changed().len(), 2);
        assert_eq!(objects.len(), 0);
        assert_eq!(objects.bytes, 0);
        assert!(objects.shares.is_empty());
    }

    #[test]
    fn a_publisher_and_an_object_have_their_limits() {
        let mut objects = Objects::new(&Parameters::DEFAULT);
        let mut refused = 0;
        for seed in 0..=Parameters::DEFAULT.max_publishers as u16 {
            let (identity, record) = publisher(seed);
            let association = &associations(&identity, &["a"], NOW)[0];
            refused += usize::from(
                objects.insert(association, &record, Holder::EXEMPT) == Err(Code::TooManyAssociations),
            );
        }
        assert_eq!((objects.len(), refused), (Parameters::DEFAULT.max_publishers, 1));

        let (identity, record) = publisher(9999);
        let names: Vec<_> = (0..Parameters::DEFAULT.max_of_publisher)
            .map(|n| format!("s{n}"))
            .collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        for association in associations(&identity, &names, NOW) {
            assert_eq!(
                objects.insert(&association, &record, Holder::EXEMPT),
                Ok(Inserted::Stored)
            );
        }
        let one_more = &associations(&identity, &["other"], NOW)[0];
        assert_eq!(
            objects.insert(one_more, &record, Holder::EXEMPT),
            Err(Code::TooManyAssociations)
        );
    }

    static SMALL: Parameters = Parameters {
        max_associations: 6,
        ..Parameters::DEFAULT
    };

    #[test]
    fn full_table_takes_from_whoever_has_the_most() {
        let mut objects = Objects::new(&SMALL);
        let (greedy, greedy_record) = publisher(1);
        let names = ["a", "b", "c", "d", "e", "f"];
        for association in associations(&greedy, &names, NOW) {
            assert_eq!(
                objects.insert(&association, &greedy_record, Holder::EXEMPT),
                Ok(Inserted::Stored)
            );
        }
        for seed in 2..8 {
            let (identity, record) = publisher(seed);
            let association = &associations(&identity, &["a"], NOW)[0];
            let expected = if seed < 7 {
                Ok(Inserted::Stored)
            } else {
                Err(Code::TooManyAssociations)
            };
            assert_eq!(
                objects.insert(association, &record, Holder::EXEMPT),
                expected,
                "publisher {seed}"
            );
            assert_eq!(objects.len(), 6);
        }
        let again = &associations(&greedy, &["g"], NOW)[0];
        assert_eq!(
            objects.insert(again, &greedy_record, Holder::EXEMPT),
            Err(Code::TooManyAssociations)
        );
        let held = objects
            .shares
            .get(&Holder::peer(&greedy.id()))
            .map(|share| share.1);
        assert_eq!(held, Some(1));
        let mut dropped = objects.take_changed();
        dropped.retain(|key| objects.get(key).is_none());
        dropped.sort_unstable();
        dropped.dedup();
        assert_eq!(dropped.len(), 5);
    }

    #[test]
    fn answers_and_chunks_keep_the_size_of_a_message() {
        let mut objects = Objects::new(&Parameters::DEFAULT);
        for seed in 0..200 {
            let (identity, record) = publisher(seed);
            let association = &associations(&identity, &["a"], NOW)[0];
            assert_eq!(
                objects.insert(association, &record, Holder::EXEMPT),
                Ok(Inserted::Stored)
            );
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
        let mut keys = objects.take_changed();
        let mut seen = 0;
        while !keys.is_empty() {
            let chunk = objects.take_chunk(&mut keys);
            assert!(size(&chunk) <= MAX_ENTRIES_BYTES && !chunk.is_empty());
            seen += chunk.len();
        }
        assert_eq!(seen, 200);
    }
}
