//! A key-value store on a capsule, as in DCS, section 6.4: each write is a record, or the writes of a batch are the sub-records of
//! one; they are signed only when one of those that are not signed yet is read.

use std::collections::{HashMap, VecDeque};

use bench_pair::Outcome;
use bytes::Bytes;
use selfsame_capsule::cache::DEFAULT_SLOTS_LOG2;
use selfsame_capsule::client::{Command, Content, Got, Reply, Signing};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::verifier::SharedVerifier;
use selfsame_capsule::writer::Backpointers;

use crate::backend::{Backend, Observer, Write};
use crate::server::Link;
use crate::session::Session;
use crate::workload::{KEY_BYTES, key};

/// What an item is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record.
    Records,
    /// A sub-record.
    Subrecords,
}

/// Where an item was written last
#[derive(Clone, Copy, Debug)]
struct Place {
    record: RecordName,
    /// Which sub-record of it.
    index: u32,
    /// How many signatures there were then.
    signatures: u64,
}

/// Reads of one command: which items, and which of the batch's reads they are
type Reads = (u32, Vec<(u32, usize)>);

/// A batch that is under way
#[derive(Debug, Default)]
struct Batch {
    /// Commands that write or sign.
    writing: Vec<u32>,
    reading: Option<Reads>,
    replies: HashMap<u32, Reply>,
}

/// The store, whose items are named by their numbers
pub(crate) struct Table<L> {
    kind: Kind,
    link: L,
    session: Session,
    /// The number of the first item.
    first: u32,
    /// Where each item is, from the first on.
    places: Vec<Option<Place>>,
    signatures: u64,
    under_way: VecDeque<Batch>,
    most: usize,
}

impl<L: Link> Table<L> {
    /// An empty store in the capsule of a number, whose items are numbered from `first` on. So many batches are under way `most` of the
    /// time.
    ///
    /// # Errors
    /// What the client or the server refuses.
    pub(crate) fn create(kind: Kind, (number, first): (u32, u32), most: usize, mut link: L) -> Outcome<Self> {
        Ok(Self {
            kind,
            session: Session::create(number, DEFAULT_SLOTS_LOG2, &SharedVerifier::default(), &mut link)?,
            link,
            first,
            places: Vec::new(),
            signatures: 0,
            under_way: VecDeque::new(),
            most,
        })
    }

    fn place(&self, item: u32) -> Option<&Place> {
        self.places.get((item - self.first) as usize)?.as_ref()
    }

    /// Whether an item is to be read that nothing signed leads to.
    fn needs_signature(&self, writes: &[Write<'_>], reads: &[u32]) -> bool {
        reads.iter().any(|read| {
            let before = self.place(*read);
            before.is_some_and(|place| place.signatures == self.signatures)
                || writes.iter().any(|(item, _)| item == read)
        })
    }

    /// Writes items; `signing` says whether they are read in the same batch.
    fn write(&mut self, writes: &[Write<'_>], signing: Signing) -> Outcome<u32> {
        let contents = contents(writes);
        let backpointers = Backpointers::Shortcuts;
        let command = match self.kind {
            Kind::Records => Command::Write {
                contents,
                backpointers,
                signing,
            },
            Kind::Subrecords => Command::Commit {
                subrecords: contents,
                backpointers,
                signing,
            },
        };
        let number = self.session.give(command, &mut self.link)?;
        let names = self.session.names(number)?;
        let is_one = self.kind == Kind::Subrecords;
        for (index, (item, _)) in (0..).zip(writes) {
            let record = names.get(if is_one { 0 } else { index as usize });
            let place = Place {
                record: *record.ok_or("a record has no name")?,
                index,
                signatures: self.signatures,
            };
            let at = (item - self.first) as usize;
            self.places.resize(self.places.len().max(at + 1), None);
            self.places[at] = Some(place);
        }
        Ok(number)
    }

    fn read(&mut self, items: &[u32]) -> Outcome<Reads> {
        let place = |item: &u32| self.place(*item).map(|place| (place.record, place.index));
        let parts: Option<Vec<(RecordName, u32)>> = items.iter().map(place).collect();
        let parts = parts.ok_or("an item was never written")?;
        let command = match self.kind {
            Kind::Records => Command::Read {
                records: parts.iter().map(|(record, _)| *record).collect(),
            },
            Kind::Subrecords => Command::ReadParts { parts },
        };
        let number = self.session.give(command, &mut self.link)?;
        Ok((number, items.iter().copied().zip(0..).collect()))
    }

    /// Waits until no more than so many batches are under way.
    fn wait(&mut self, most: usize, observer: &mut dyn Observer) -> Outcome<()> {
        while self.under_way.len() > most {
            let (command, reply) = self.session.reply(&mut self.link)?;
            let is_of = |batch: &&mut Batch| batch.has(command);
            let batch = self.under_way.iter_mut().find(is_of);
            batch
                .ok_or("a reply to no command")?
                .replies
                .insert(command, reply);
            while let Some(batch) = self.under_way.pop_front_if(|batch| batch.is_done()) {
                batch.tell(observer)?;
                observer.done();
            }
        }
        Ok(())
    }
}

impl Batch {
    fn has(&self, command: u32) -> bool {
        self.writing.contains(&command) || self.reading.iter().any(|(number, _)| *number == command)
    }

    fn is_done(&self) -> bool {
        self.replies.len() == self.writing.len() + self.reading.iter().len()
    }

    fn tell(self, observer: &mut dyn Observer) -> Outcome<()> {
        if let Some((command, reads)) = &self.reading {
            match self.replies.get(command) {
                Some(Reply::Records(records)) => {
                    for ((item, place), record) in reads.iter().zip(records) {
                        observer.value(*place, value(*item, record_content(record)?)?);
                    }
                }
                Some(Reply::Parts(parts)) => {
                    for ((item, place), part) in reads.iter().zip(parts) {
                        let part = part.as_ref().map_err(|refusal| refusal.to_string())?;
                        observer.value(*place, value(*item, part)?);
                    }
                }
                _ => return Err("nothing was read".into()),
            }
        }
        Ok(())
    }
}

/// What is written of items, in memory that all share.
fn contents(writes: &[Write<'_>]) -> Vec<Bytes> {
    let len = |(_, value): &Write<'_>| KEY_BYTES + value.len();
    let mut memory = Vec::with_capacity(writes.iter().map(len).sum());
    for (item, value) in writes {
        memory.extend_from_slice(&key(*item));
        memory.extend_from_slice(value);
    }
    let mut rest = Bytes::from(memory);
    writes.iter().map(|write| rest.split_to(len(write))).collect()
}

fn record_content<E: ToString>(got: &Result<Got, E>) -> Outcome<&[u8]> {
    match &got.as_ref().map_err(ToString::to_string)?.content {
        Content::Plain(content) => Ok(content),
        _ => Err("a record of another kind".into()),
    }
}

/// The value in what was written of an item.
fn value(item: u32, content: &[u8]) -> Outcome<&[u8]> {
    let (found, value) = content
        .split_at_checked(KEY_BYTES)
        .ok_or("no key in what was read")?;
    if found == key(item) {
        Ok(value)
    } else {
        Err("what was read is another item".into())
    }
}

impl<L: Link> Backend for Table<L> {
    fn forget(&mut self) -> Outcome<()> {
        self.session.forget(&mut self.link)
    }

    fn batch(&mut self, writes: &[Write<'_>], reads: &[u32], observer: &mut dyn Observer) -> Outcome<()> {
        let is_signed = self.needs_signature(writes, reads);
        let mut batch = Batch::default();
        if !writes.is_empty() {
            let signing = if is_signed { Signing::Last } else { Signing::Later };
            batch.writing.push(self.write(writes, signing)?);
        } else if is_signed {
            batch
                .writing
                .push(self.session.give(Command::Sign, &mut self.link)?);
        }
        self.signatures += u64::from(is_signed);
        if !reads.is_empty() {
            batch.reading = Some(self.read(reads)?);
        }
        self.under_way.push_back(batch);
        self.wait(self.most - 1, observer)
    }

    fn settle(&mut self, observer: &mut dyn Observer) -> Outcome<()> {
        self.wait(0, observer)
    }
}
