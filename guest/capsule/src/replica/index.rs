//! The graph of a capsule's records as a replica keeps it: heads, holes and witnesses (DCS, sections 3.3 and 3.4).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::census::Census;
use super::damage::Damage;
use super::entry::{Entry, Given};
use super::heads::{Heads, SHARED_HEADS, UNREAD};
use super::holes::note_hole;
use super::layout::{self, Key, of_record};
use super::sequences::Sequences;
use super::space::{Missing, Space};
use super::stored::{SUM, Stored};
use super::unsigned::Unsigned;
use super::walk::{LeftOut, Page, Step};
use crate::hash::{CapsuleName, RecordName};
use crate::heads::Origin;
use crate::keys::Signature;
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::sketch::Element;
use crate::witness::Witness;

/// The record is not stored.
pub(super) const NO_RECORD: Refusal = Refusal {
    code: Code::NoRecord,
    at: 0,
};

/// What came of something that may have to wait for the store
pub(super) enum Outcome<T> {
    /// It is done.
    Done(T),
    /// Something has to be read first; then it is tried again.
    Wait,
}

/// Continues with a value, or waits for the store.
macro_rules! known {
    ($value:expr) => {
        match $value {
            Ok(value) => value,
            Err(Missing) => return Ok(Outcome::Wait),
        }
    };
}
pub(super) use known;

/// The graph of one capsule
#[derive(Debug)]
pub(super) struct Index {
    pub(super) capsule: CapsuleName,
    heads: Heads,
    /// Numbers of writers that were revoked, whose signatures do not count. Ways that were found when there were fewer do not
    /// count either.
    revoked: Vec<u16>,
    /// Records whose backpointers may have a better witness through them.
    pub(super) spreading: VecDeque<RecordName>,
    /// Those of which the store says so.
    kept: BTreeSet<RecordName>,
    /// Whether records may be missing to which stored ones point.
    pub(super) has_holes: bool,
    /// What is stored and not proven yet, by the writers for which it is.
    pub(super) unsigned: BTreeMap<u16, Unsigned>,
    /// Records that came into the set without being written just now.
    pub(super) joined: Vec<RecordName>,
    /// Whether what is counted of these has changed since it was stored.
    pub(super) has_changed: bool,
    sequences: Sequences,
    pub(super) census: Census,
    pub(super) damage: Damage,
}

/// Which records come in that nothing proves yet
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// None.
    Proven,
    /// Those to which a signature leads that was checked.
    Signed,
    /// Those of this writer, who signs them later.
    Unsigned(u16),
}

/// What writing a record changed
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is new, and in the set from now on.
    Added,
    /// It is new, and nothing proves it yet: it comes into the set when something does.
    Kept,
    /// It was there.
    Known,
    /// Nothing proves it, and nobody answers for it: it is not stored.
    Unproven,
}

impl Index {
    /// The index of a capsule of which was read from the store what the heads are, what work is unfinished, and whether
    /// records are missing.
    pub(super) fn new(
        capsule: CapsuleName,
        heads: &[(RecordName, Origin)],
        pending: &[RecordName],
        has_holes: bool,
    ) -> Self {
        Self {
            capsule,
            heads: Heads::new(heads),
            revoked: Vec::new(),
            spreading: pending.iter().copied().collect(),
            kept: pending.iter().copied().collect(),
            has_holes,
            unsigned: BTreeMap::new(),
            joined: Vec::new(),
            has_changed: false,
            sequences: Sequences::default(),
            census: Census::default(),
            damage: Damage::default(),
        }
    }

    /// Writers were revoked: no way counts any more but those that begin at other signatures again, and of all that is signed
    /// anything may be a head.
    pub(super) fn revoke(&mut self, space: &mut Space, writers: &[u16], signed: &[RecordName]) {
        self.revoked.extend_from_slice(writers);
        for name in signed {
            if self.heads.origin(name).is_none() {
                self.heads.insert(*name, UNREAD);
                space.put_first(layout::head(&self.capsule, name, UNREAD), Vec::new());
            }
            self.spreading.push_back(*name);
        }
    }

    /// Counts signatures of these writers no more: so it was when the capsule was closed.
    pub(super) fn recall_revoked(&mut self, writers: &[u16]) {
        self.revoked.extend_from_slice(writers);
    }

    /// How many steps away a signature is that counts; more than any number where there is none.
    pub(super) fn steps(&self, entry: &Entry) -> u32 {
        match entry.witness() {
            Witness::Signed(_) if !self.revoked.contains(&entry.header().writer()) => 0,
            Witness::Through { age, steps, .. } if *age == self.age() => *steps,
            _ => u32::MAX,
        }
    }

    pub(super) fn age(&self) -> u32 {
        self.revoked.len() as u32
    }

    /// How many names and writers are in memory beside heads.
    pub(super) fn entries(&self) -> usize {
        let unfinished = self.spreading.len() + self.kept.len();
        let writers = self.revoked.len() + self.unsigned.len() + self.sequences.len();
        unfinished + writers + self.damage.len()
    }

    /// How many heads are in memory.
    pub(super) fn held_heads(&self) -> usize {
        self.heads.len()
    }

    /// How much there is, to be compared with what others have, once it was counted.
    pub(super) fn census(&self) -> &Census {
        &self.census
    }

    /// Counts on.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn count(&mut self, space: &mut Space, page: &mut Page) -> Result<Step> {
        let left_out = LeftOut::of(&self.damage, !self.unsigned.is_empty());
        self.census.step(space, page, self.capsule, left_out)
    }

    /// Something went without being taken note of: all is counted again.
    pub(super) fn count_anew(&mut self) {
        self.census = Census::default();
    }

    /// What a walk leaves out.
    pub(super) fn left_out(&self) -> LeftOut<'_> {
        LeftOut::of(&self.damage, !self.unsigned.is_empty())
    }

    /// What is damaged.
    pub(super) fn damage(&self) -> &Damage {
        &self.damage
    }

    /// What is damaged, to be told more.
    pub(super) fn damage_mut(&mut self) -> &mut Damage {
        &mut self.damage
    }

    /// Proven records to which no proven record points.
    pub(super) fn heads(&self) -> impl Iterator<Item = (RecordName, Origin)> {
        self.heads.iter()
    }

    /// A stored record.
    ///
    /// # Errors
    /// [`Missing`], or [`Code::StoreCorrupt`] inside.
    pub(super) fn entry(
        &self,
        space: &mut Space,
        name: &RecordName,
    ) -> core::result::Result<Result<Option<Entry>>, Missing> {
        space.record(&of_record(&self.capsule, layout::RECORD, name))
    }

    /// Appends header and body of a record; false if the body is in chunks.
    ///
    /// # Errors
    /// [`Missing`], or [`Code::NoRecord`] or [`Code::StoreCorrupt`] inside.
    pub(super) fn copy_whole(
        &self,
        space: &mut Space,
        name: &RecordName,
        out: &mut Vec<u8>,
    ) -> core::result::Result<Result<bool>, Missing> {
        space.view(&of_record(&self.capsule, layout::RECORD, name), |value| {
            let whole = Entry::whole_in(value.ok_or(NO_RECORD)?)?;
            out.extend_from_slice(whole.unwrap_or_default());
            Ok(whole.is_some())
        })
    }

    /// Asks for all that adding a record needs, so that the store is asked once for many.
    pub(super) fn expect_write(&mut self, space: &mut Space, name: &RecordName, record: &Record<'_>) {
        let own = of_record(&self.capsule, layout::RECORD, name);
        if self.sequences.is_new(space, &self.capsule, &record.header) == Ok(true) {
            space.assume(own);
        } else {
            _ = space.has(&own);
        }
        if self.has_holes {
            _ = space.has(&of_record(&self.capsule, layout::POINTED, name));
        }
        for pointer in record.header.backpointers() {
            _ = space.has(&of_record(&self.capsule, layout::RECORD, &pointer));
        }
    }

    /// Asks for records, and for those that prove them where that is wanted; how many bytes those have that are known.
    pub(super) fn expect(&self, space: &mut Space, records: &[(RecordName, bool)]) -> usize {
        let key = |name: &RecordName| of_record(&self.capsule, layout::RECORD, name);
        let keys: Vec<Key> = records.iter().map(|(name, _)| key(name)).collect();
        let (mut next, mut bytes) = (Vec::new(), 0);
        space.expect(&keys, |number, value| {
            bytes += value.len();
            if records[number].1
                && let Ok(Witness::Through { next: name, .. }) = Reader::new(value).field()
            {
                next.push(key(&name));
            }
        });
        space.expect(&next, |_, _| {});
        bytes
    }

    /// Adds a record that was checked, if something proves it or it is admitted.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn add(
        &mut self,
        space: &mut Space,
        name: &RecordName,
        given: &Given<'_>,
        admission: Admission,
    ) -> Result<Outcome<Written>> {
        let header = &given.record.header;
        if known!(self.sequences.is_new(space, &self.capsule, header)) {
            space.assume(of_record(&self.capsule, layout::RECORD, name));
            space.assume(of_record(&self.capsule, layout::UNSIGNED, name));
        }
        if let Some(entry) = known!(self.entry(space, name))? {
            let is_unsigned = known!(self.mark(space, name)).is_some();
            if !self.damage.regain(space, &self.capsule, name) {
                return Ok(Outcome::Done(Written::Known));
            }
            self.store(space, name, given, *entry.witness());
            if is_unsigned {
                return Ok(Outcome::Done(Written::Kept));
            }
            self.census.insert(&Element::record(*name));
            return Ok(Outcome::Done(Written::Added));
        }
        // What is left of it, if it was damaged so much that it was dropped.
        if let Some(mark) = known!(self.mark(space, name)) {
            self.drop_mark(space, name, &mark);
        }
        let pointed_key = of_record(&self.capsule, layout::POINTED, name);
        let pointing = match self.has_holes {
            true => known!(space.get(&pointed_key)),
            false => None,
        };
        let witness = match &pointing {
            Some(pointing) => match self.best_witness(space, pointing, header)? {
                Outcome::Done(witness) => witness,
                Outcome::Wait => return Ok(Outcome::Wait),
            },
            None => Witness::Unproven,
        };
        if witness == Witness::Unproven && admission == Admission::Proven {
            return Ok(Outcome::Done(Written::Unproven));
        }
        let Ok(holes) = self.holes_below(space, header) else {
            return Ok(Outcome::Wait);
        };
        self.store(space, name, given, witness);
        self.sequences.note(space, &self.capsule, header);
        self.has_holes |= !holes.is_empty();
        holes.into_iter().for_each(|hole| note_hole(space, hole, name));
        if pointing.is_some() {
            space.delete(pointed_key);
        }
        if witness != Witness::Unproven {
            self.spreading.push_back(*name);
        } else if let Admission::Unsigned(writer) = admission {
            self.put_mark(space, name, writer, given.record.len());
            return Ok(Outcome::Done(Written::Kept));
        }
        self.census.insert(&Element::record(*name));
        Ok(Outcome::Done(Written::Added))
    }

    /// Refuses a head that is one too many of its writer's, unless it takes the place of another one.
    ///
    /// # Errors
    /// [`Code::TooLarge`].
    pub(super) fn has_room_for(&self, entry: &Entry) -> Result<()> {
        let is_head = self.steps(entry) == u32::MAX;
        let mut pointers = entry.header().backpointers();
        if is_head
            && !self.heads.has_room_for(entry.header().writer())
            && !pointers.any(|pointer| self.heads.origin(&pointer).is_some())
        {
            return Err(Refusal::new(Code::TooLarge, SHARED_HEADS));
        }
        Ok(())
    }

    /// Keeps a signature of a stored record, which was verified, as its witness.
    pub(super) fn sign(
        &mut self,
        space: &mut Space,
        (name, entry, mark): (&RecordName, &Entry, Option<&Stored>),
        signature: Signature,
    ) {
        let steps = self.steps(entry);
        if let Some(mark) = mark {
            self.unmark(space, name, mark);
        }
        if steps == u32::MAX {
            self.add_head(space, *name, Origin::of(&entry.header()));
        }
        if steps > 0 {
            self.set_witness(space, name, entry.clone(), Witness::Signed(signature));
            space.put(of_record(&self.capsule, layout::SIGNED, name), Vec::new());
            self.census.insert(&Element::signature(*name));
            self.spreading.push_back(*name);
        }
    }

    /// Makes the witnesses better of what the records that wait for it point to, breadth first and no further than it makes
    /// them better; stops when there is enough for one commit. Returns whether all is done.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn spread(&mut self, space: &mut Space) -> Result<Outcome<bool>> {
        while let Some(name) = self.spreading.front().copied() {
            if space.is_full() {
                self.keep_pending(space);
                return Ok(Outcome::Done(false));
            }
            let entry = known!(self.entry(space, &name))?;
            if let Some(entry) = entry {
                if let Outcome::Wait = self.forget_revoked(space, &name, &entry) {
                    return Ok(Outcome::Wait);
                }
                match self.spread_from(space, &name, &entry)? {
                    Outcome::Done(true) => {}
                    Outcome::Done(false) => continue,
                    Outcome::Wait => return Ok(Outcome::Wait),
                }
            }
            self.spreading.pop_front();
        }
        self.keep_pending(space);
        Ok(Outcome::Done(true))
    }

    /// Whether all is done of a record: a stray or a hole is done alone, as each may fill a commit.
    fn spread_from(&mut self, space: &mut Space, name: &RecordName, entry: &Entry) -> Result<Outcome<bool>> {
        if self.steps(entry) == u32::MAX {
            self.remove_head(space, name);
            return Ok(Outcome::Done(true));
        }
        if self.heads.origin(name) == Some(UNREAD) {
            self.remove_head(space, name);
            self.add_head(space, *name, Origin::of(&entry.header()));
        }
        match self.take_in_stray(space, name, entry)? {
            Outcome::Done(false) => {}
            Outcome::Done(true) => return Ok(Outcome::Done(false)),
            Outcome::Wait => return Ok(Outcome::Wait),
        }
        let (mut better, mut holes) = (Vec::new(), Vec::new());
        let mut is_missing = false;
        let pointers = entry.header().backpointers();
        for (place, pointer) in pointers.clone().enumerate() {
            // A record may be pointed to twice, and comes into the set once.
            if pointers.clone().take(place).any(|other| other == pointer) {
                continue;
            }
            match self.entry(space, &pointer) {
                Ok(Ok(Some(below))) => {
                    let through = self.through(name, entry, &below.header());
                    let through = through.filter(|through| self.is_improved(&below, through));
                    let mark = match self.steps(&below) {
                        u32::MAX if through.is_some() => self.mark(space, &pointer),
                        _ => Ok(None),
                    };
                    match mark {
                        Ok(mark) => better.extend(through.map(|through| (pointer, below, through, mark))),
                        Err(Missing) => is_missing = true,
                    }
                }
                Ok(Ok(None)) => match self.note_proven(space, &pointer, (name, entry)) {
                    Ok(hole) => holes.extend(hole),
                    Err(Missing) => is_missing = true,
                },
                Ok(Err(refusal)) => return Err(refusal),
                Err(Missing) => is_missing = true,
            }
        }
        if is_missing {
            return Ok(Outcome::Wait);
        }
        if let Some((key, pointing)) = holes.pop() {
            space.put(key, pointing);
            return Ok(Outcome::Done(false));
        }
        for pointer in entry.header().backpointers() {
            self.remove_head(space, &pointer);
        }
        for (pointer, below, through, mark) in better {
            if let Some(mark) = &mark {
                self.unmark(space, &pointer, mark);
            }
            self.set_witness(space, &pointer, below, through);
            self.spreading.push_back(pointer);
        }
        Ok(Outcome::Done(true))
    }

    /// Stores one of the records that a proven one points to that stray; whether there was any.
    fn take_in_stray(
        &mut self,
        space: &mut Space,
        name: &RecordName,
        entry: &Entry,
    ) -> Result<Outcome<bool>> {
        let mut pointers = entry.header().backpointers();
        let stray = pointers.find_map(|pointer| Some((pointer, space.strays.get(&self.key(&pointer))?)));
        let Some((pointer, record)) = stray else {
            return Ok(Outcome::Done(false));
        };
        // It proves the stray also if more point there than are remembered.
        if let Some((key, pointing)) = known!(self.note_proven(space, &pointer, (name, entry))) {
            space.put(key, pointing);
        }
        Ok(match self.take_in(space, &pointer, &record)? {
            Outcome::Done(()) => Outcome::Done(true),
            Outcome::Wait => Outcome::Wait,
        })
    }

    /// Stores a record that strayed, now that something that is proven points to it.
    fn take_in(
        &mut self,
        space: &mut Space,
        name: &RecordName,
        record: &Arc<Vec<u8>>,
    ) -> Result<Outcome<()>> {
        let given = Given {
            record: Record::read(&mut Reader::new(record))?,
            request: record,
            at: 0,
        };
        match self.add(space, name, &given, Admission::Proven)? {
            Outcome::Wait => return Ok(Outcome::Wait),
            Outcome::Done(Written::Added) => self.joined.push(*name),
            Outcome::Done(_) => {}
        }
        space.strays.remove(&self.key(name));
        Ok(Outcome::Done(()))
    }

    fn key(&self, name: &RecordName) -> Key {
        of_record(&self.capsule, layout::RECORD, name)
    }

    /// A signature of a writer that was revoked is not stored any more, whatever proves its record.
    fn forget_revoked(&mut self, space: &mut Space, name: &RecordName, entry: &Entry) -> Outcome<()> {
        if self.revoked.is_empty() || self.steps(entry) == 0 {
            return Outcome::Done(());
        }
        let key = of_record(&self.capsule, layout::SIGNED, name);
        match space.get(&key) {
            Err(Missing) => return Outcome::Wait,
            Ok(None) => {}
            Ok(Some(_)) => {
                space.delete(key);
                self.census.remove(&Element::signature(*name));
            }
        }
        Outcome::Done(())
    }

    /// What is left to do is stored before what was done, so that an end in between leaves no witness behind.
    fn keep_pending(&mut self, space: &mut Space) {
        if self.spreading.is_empty() && self.kept.is_empty() {
            return;
        }
        let left: BTreeSet<RecordName> = self.spreading.iter().copied().collect();
        let key = |name| of_record(&self.capsule, layout::PENDING, name);
        for name in left.difference(&self.kept) {
            space.put_first(key(name), Vec::new());
        }
        for name in self.kept.difference(&left) {
            space.mark();
            space.delete(key(name));
        }
        self.kept = left;
    }

    pub(super) fn store(&self, space: &mut Space, name: &RecordName, given: &Given<'_>, witness: Witness) {
        let record = &given.record;
        // Chunks first: an entry says that its body is there.
        if record.body.len() > layout::MAX_INLINE {
            let len = layout::chunk_len(record.header.kind(), record.body.len());
            for (number, chunk) in (0..).zip(record.body.chunks(len)) {
                let mut value = Vec::with_capacity(chunk.len() + SUM);
                value.extend_from_slice(chunk);
                space.put(layout::chunk(&self.capsule, name, number), value);
                space.mark();
            }
        }
        let key = of_record(&self.capsule, layout::RECORD, name);
        space.put_record(key, Entry::of(given, witness));
    }

    pub(super) fn set_witness(&self, space: &mut Space, name: &RecordName, entry: Entry, witness: Witness) {
        let key = of_record(&self.capsule, layout::RECORD, name);
        space.put_record(key, entry.with_witness(witness));
    }

    fn add_head(&mut self, space: &mut Space, name: RecordName, origin: Origin) {
        if self.heads.insert(name, origin).is_none() {
            space.put(layout::head(&self.capsule, &name, origin), Vec::new());
        }
    }

    pub(super) fn remove_head(&mut self, space: &mut Space, name: &RecordName) {
        if let Some(origin) = self.heads.remove(name) {
            space.delete(layout::head(&self.capsule, name, origin));
        }
    }
}
