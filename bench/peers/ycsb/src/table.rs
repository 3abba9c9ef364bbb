//! A key-value store on a capsule, as in DCS, section 6.4: each write is a record, or the writes of a batch are the sub-records of
//! one; they are signed only when one of those that are not signed yet is read.

use std::collections::{BTreeMap, VecDeque};

use bench_pair::Outcome;
use futures_util::future::try_join_all;
use selfsame_host::RecordName;
use selfsame_host::capsule::{Capsule, Content, Record, WriteOptions};
use tokio::task::JoinHandle;

use crate::backend::{Backend, Observer, Write};
use crate::server::said;
use crate::session::Owner;
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

/// What the reads of a batch give: key and value of each
type Reading = JoinHandle<Outcome<Vec<Vec<u8>>>>;

/// Reads of a batch that are under way: of which items
#[derive(Debug)]
struct UnderWay {
    items: Vec<u32>,
    reading: Reading,
}

/// The store, whose items are named by their numbers
pub(crate) struct Table {
    kind: Kind,
    owner: Owner,
    capsule: Capsule,
    /// The number of the first item.
    first: u32,
    /// Where each item is, from the first on.
    places: Vec<Option<Place>>,
    signatures: u64,
    under_way: VecDeque<UnderWay>,
    most: usize,
}

impl Table {
    /// An empty store in a capsule, whose items are numbered from `first` on. Reads of fewer than `most` batches are under way when
    /// the next one begins.
    pub(crate) fn new(kind: Kind, (owner, capsule): (Owner, Capsule), first: u32, most: usize) -> Self {
        Self {
            kind,
            owner,
            capsule,
            first,
            places: Vec::new(),
            signatures: 0,
            under_way: VecDeque::new(),
            most,
        }
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

    /// Writes items, and notes where they are.
    async fn write(&mut self, writes: &[Write<'_>], options: WriteOptions) -> Outcome<()> {
        let contents = writes
            .iter()
            .map(|(item, value)| [&key(*item)[..], value].concat());
        let contents: Vec<Vec<u8>> = contents.collect();
        let names = match self.kind {
            Kind::Records => self.capsule.append(contents, options).await,
            Kind::Subrecords => self
                .capsule
                .commit(contents, options)
                .await
                .map(|name| vec![name]),
        };
        let names = names.map_err(said)?;
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
        Ok(())
    }

    /// Begins to read items.
    fn read(&self, items: &[u32]) -> Outcome<Reading> {
        let place = |item: &u32| self.place(*item).map(|place| (place.record, place.index));
        let places: Option<Vec<(RecordName, u32)>> = items.iter().map(place).collect();
        let places = places.ok_or("an item was never written")?;
        let capsule = self.capsule.clone();
        Ok(match self.kind {
            Kind::Records => tokio::spawn(async move { read_records(&capsule, &places).await }),
            Kind::Subrecords => tokio::spawn(async move { read_parts(&capsule, &places).await }),
        })
    }

    /// Waits until the reads of no more than so many batches are under way.
    async fn wait(&mut self, most: usize, observer: &mut dyn Observer) -> Outcome<()> {
        while self.under_way.len() > most
            && let Some(UnderWay { items, reading }) = self.under_way.pop_front()
        {
            let contents = reading.await.map_err(said)??;
            for (place, (item, content)) in items.iter().zip(&contents).enumerate() {
                observer.value(place, value(*item, content)?);
            }
            observer.done();
        }
        Ok(())
    }
}

async fn read_records(capsule: &Capsule, places: &[(RecordName, u32)]) -> Outcome<Vec<Vec<u8>>> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<RecordName> = places.iter().map(|(record, _)| *record).collect();
    let records = capsule.read_all(&names).await.map_err(said)?;
    records
        .into_iter()
        .map(|record| content(record.map_err(said)?))
        .collect()
}

fn content(record: Record) -> Outcome<Vec<u8>> {
    match record.content {
        Content::Bytes(content) => Ok(content),
        _ => Err("a record of another kind".into()),
    }
}

/// Asks for the sub-records of each record together.
async fn read_parts(capsule: &Capsule, places: &[(RecordName, u32)]) -> Outcome<Vec<Vec<u8>>> {
    let mut wanted: BTreeMap<RecordName, Vec<(usize, u32)>> = BTreeMap::new();
    for (place, (record, index)) in places.iter().enumerate() {
        wanted.entry(*record).or_default().push((place, *index));
    }
    let asking = wanted.into_iter().map(async |(record, parts)| {
        let indexes: Vec<u32> = parts.iter().map(|(_, index)| *index).collect();
        let contents = capsule.read_parts(record, &indexes).await.map_err(said)?;
        Outcome::Ok(
            parts
                .into_iter()
                .map(|(place, _)| place)
                .zip(contents)
                .collect::<Vec<_>>(),
        )
    });
    let mut all: Vec<(usize, Vec<u8>)> = try_join_all(asking).await?.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, content)| content).collect())
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

impl Backend for Table {
    async fn forget(&mut self) -> Outcome<()> {
        self.owner.open_anew(&mut self.capsule).await
    }

    async fn batch(
        &mut self,
        writes: &[Write<'_>],
        reads: &[u32],
        observer: &mut dyn Observer,
    ) -> Outcome<()> {
        let is_signed = self.needs_signature(writes, reads);
        if !writes.is_empty() {
            let options = WriteOptions::new();
            let options = if is_signed { options } else { options.unsigned() };
            self.write(writes, options).await?;
        } else if is_signed {
            self.capsule.sign().await.map_err(said)?;
        }
        self.signatures += u64::from(is_signed);
        let reading = self.read(reads)?;
        let items = reads.to_vec();
        self.under_way.push_back(UnderWay { items, reading });
        self.wait(self.most - 1, observer).await
    }

    async fn settle(&mut self, observer: &mut dyn Observer) -> Outcome<()> {
        self.wait(0, observer).await
    }
}
