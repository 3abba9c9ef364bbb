//! A key-value store on the sub-records of a capsule, as in DCS, section 4: the writes of a batch are the sub-records of one
//! record, signed only when one of those that are not signed yet is read.

use std::collections::{BTreeMap, HashMap};

use bench_pair::Outcome;
use selfsame_capsule::cache::DEFAULT_SLOTS_LOG2;
use selfsame_capsule::client::{Command, Reply, Signing};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::writer::Backpointers;

use crate::backend::{Backend, Write};
use crate::server::Link;
use crate::session::Session;
use crate::workload::{KEY_BYTES, key};

/// Where an item was written last
#[derive(Clone, Copy, Debug)]
struct Place {
    record: RecordName,
    index: u32,
    /// How many signatures there were then.
    signatures: u64,
}

/// The store, whose items are named by their numbers
pub(crate) struct Parts<L> {
    link: L,
    session: Session,
    places: HashMap<u32, Place>,
    signatures: u64,
}

impl<L: Link> Parts<L> {
    /// An empty store in the capsule of a number.
    ///
    /// # Errors
    /// What the client or the server refuses.
    pub(crate) fn create(number: u32, mut link: L) -> Outcome<Self> {
        Ok(Self {
            session: Session::create(number, DEFAULT_SLOTS_LOG2, &mut link)?,
            link,
            places: HashMap::new(),
            signatures: 0,
        })
    }

    fn write(&mut self, writes: &[Write<'_>], signing: Signing) -> Outcome<()> {
        let content = |(item, value): &Write<'_>| [&key(*item)[..], value].concat();
        let command = Command::Commit {
            subrecords: writes.iter().map(content).collect(),
            backpointers: Backpointers::Shortcuts,
            signing,
        };
        let replies = self.session.run(Vec::from([command]), &mut self.link)?;
        let Some(Reply::Written(names)) = replies.first() else {
            return Err("the record has no name".into());
        };
        let record = *names.first().ok_or("the record has no name")?;
        for (index, (item, _)) in (0..).zip(writes) {
            let signatures = self.signatures;
            let place = Place {
                record,
                index,
                signatures,
            };
            self.places.insert(*item, place);
        }
        Ok(())
    }

    /// Whether an item is to be read that nothing signed leads to.
    fn needs_signature(&self, writes: &[Write<'_>], reads: &[u32]) -> bool {
        reads.iter().any(|read| {
            let before = self.places.get(read);
            before.is_some_and(|place| place.signatures == self.signatures)
                || writes.iter().any(|(item, _)| item == read)
        })
    }

    fn read(&mut self, reads: &[u32], seen: &mut dyn FnMut(u32, &[u8])) -> Outcome<()> {
        let mut wanted: BTreeMap<RecordName, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        for item in reads {
            let place = self.places.get(item).ok_or("an item was never written")?;
            let (indexes, items) = wanted.entry(place.record).or_default();
            indexes.push(place.index);
            items.push(*item);
        }
        let command = |(record, (indexes, _)): (&RecordName, &(Vec<u32>, _))| Command::ReadParts {
            record: *record,
            indexes: indexes.clone(),
        };
        let commands = wanted.iter().map(command).collect();
        let replies = self.session.run(commands, &mut self.link)?;
        for ((_, items), reply) in wanted.values().zip(replies) {
            let Reply::Parts(parts) = reply else {
                return Err("there are no sub-records".into());
            };
            for (item, part) in items.iter().zip(parts) {
                let part = part.map_err(|refusal| refusal.to_string())?;
                let (found, value) = part.split_at_checked(KEY_BYTES).ok_or("no key in a sub-record")?;
                if found != key(*item) {
                    return Err("a sub-record of another item".into());
                }
                seen(*item, value);
            }
        }
        Ok(())
    }
}

impl<L: Link> Backend for Parts<L> {
    fn forget(&mut self) -> Outcome<()> {
        self.session.forget(&mut self.link)
    }

    fn batch(
        &mut self,
        writes: &[Write<'_>],
        reads: &[u32],
        seen: &mut dyn FnMut(u32, &[u8]),
    ) -> Outcome<()> {
        let is_signed = self.needs_signature(writes, reads);
        if !writes.is_empty() {
            let signing = if is_signed { Signing::Last } else { Signing::Later };
            self.write(writes, signing)?;
        } else if is_signed {
            self.session.run(Vec::from([Command::Sign]), &mut self.link)?;
        }
        self.signatures += u64::from(is_signed);
        if reads.is_empty() {
            Ok(())
        } else {
            self.read(reads, seen)
        }
    }
}
