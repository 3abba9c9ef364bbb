//! A key-value store on a capsule, as in DCS, section 6.4: a record for each write, signed only when one of those that are not
//! signed yet is read.

use std::collections::HashMap;

use bench_pair::Outcome;
use selfsame_capsule::cache::DEFAULT_SLOTS_LOG2;
use selfsame_capsule::client::{Command, Content, Reply, Signing};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::writer::Backpointers;

use crate::backend::{Backend, Write};
use crate::server::Link;
use crate::session::Session;
use crate::workload::{KEY_BYTES, key};

/// The store, whose items are named by their numbers
pub(crate) struct Table<L> {
    link: L,
    session: Session,
    /// The record of each item, and how many signatures there were when it was written.
    records: HashMap<u32, (RecordName, u64)>,
    signatures: u64,
}

impl<L: Link> Table<L> {
    /// An empty store in the capsule of a number.
    ///
    /// # Errors
    /// What the client or the server refuses.
    pub(crate) fn create(number: u32, mut link: L) -> Outcome<Self> {
        Ok(Self {
            session: Session::create(number, DEFAULT_SLOTS_LOG2, &mut link)?,
            link,
            records: HashMap::new(),
            signatures: 0,
        })
    }

    /// Writes items; `signing` says whether they are read in the same batch.
    fn write(&mut self, writes: &[Write<'_>], signing: Signing) -> Outcome<()> {
        let content = |(item, value): &Write<'_>| [&key(*item)[..], value].concat();
        let command = Command::Write {
            contents: writes.iter().map(content).collect(),
            backpointers: Backpointers::Shortcuts,
            signing,
        };
        let replies = self.session.run(Vec::from([command]), &mut self.link)?;
        let Some(Reply::Written(names)) = replies.first() else {
            return Err("the records have no names".into());
        };
        for ((item, _), name) in writes.iter().zip(names) {
            self.records.insert(*item, (*name, self.signatures));
        }
        Ok(())
    }

    /// Whether an item is to be read that nothing signed leads to.
    fn needs_signature(&self, writes: &[Write<'_>], reads: &[u32]) -> bool {
        reads.iter().any(|read| {
            let before = self.records.get(read);
            before.is_some_and(|(_, signatures)| *signatures == self.signatures)
                || writes.iter().any(|(item, _)| item == read)
        })
    }

    fn read(&mut self, reads: &[u32], seen: &mut dyn FnMut(u32, &[u8])) -> Outcome<()> {
        let name = |item: &u32| self.records.get(item).map(|(name, _)| *name);
        let records: Option<Vec<RecordName>> = reads.iter().map(name).collect();
        let records = records.ok_or("an item was never written")?;
        let replies = self
            .session
            .run(Vec::from([Command::Read { records }]), &mut self.link)?;
        let Some(Reply::Records(records)) = replies.first() else {
            return Err("there are no records".into());
        };
        for (item, got) in reads.iter().zip(records) {
            let got = got.as_ref().map_err(|refusal| refusal.to_string())?;
            let Content::Plain(content) = &got.content else {
                return Err("a record of another kind".into());
            };
            let (found, value) = content.split_at_checked(KEY_BYTES).ok_or("no key in a record")?;
            if found != key(*item) {
                return Err("a record of another item".into());
            }
            seen(*item, value);
        }
        Ok(())
    }
}

impl<L: Link> Backend for Table<L> {
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
