//! A key-value store on a capsule, as in DCS, section 6.4: a record for each write, signed only when one of those that are not
//! signed yet is read.

use std::collections::HashMap;

use bench_pair::Outcome;
use selfsame_capsule::hash::RecordName;

use crate::backend::{Backend, Write};
use crate::capsule::{Client, Lengths};
use crate::server::Link;
use crate::workload::{KEY_BYTES, key};

/// The store, whose items are named by their numbers
pub(crate) struct Table<L> {
    link: L,
    client: Client,
    /// The record of each item, and how many signatures there were when it was written.
    records: HashMap<u32, (RecordName, u64)>,
    signatures: u64,
    content: Vec<u8>,
}

impl<L: Link> Table<L> {
    /// An empty store in the capsule of a number.
    ///
    /// # Errors
    /// What the server refuses.
    pub(crate) fn create(number: u32, mut link: L) -> Outcome<Self> {
        let client = Client::create(number, &mut link)?;
        Ok(Self {
            link,
            client,
            records: HashMap::new(),
            signatures: 0,
            content: Vec::new(),
        })
    }

    fn record(&self, item: u32) -> Outcome<(RecordName, u64)> {
        let record = self.records.get(&item).copied();
        record.ok_or_else(|| format!("item {item} was never written"))
    }
}

impl<L: Link> Backend for Table<L> {
    fn forget(&mut self) -> Outcome<()> {
        self.client.forget(&mut self.link)
    }

    fn batch(
        &mut self,
        writes: &[Write<'_>],
        reads: &[u32],
        seen: &mut dyn FnMut(u32, &[u8]),
    ) -> Outcome<()> {
        let mut request = self.client.request();
        for (item, value) in writes {
            self.content.clear();
            self.content.extend_from_slice(&key(*item));
            self.content.extend_from_slice(value);
            let name = self.client.write(&mut request, &self.content)?;
            self.records.insert(*item, (name, self.signatures));
        }
        let mut names = Vec::with_capacity(reads.len());
        for item in reads {
            names.push(self.record(*item)?);
        }
        if names.iter().any(|(_, signatures)| *signatures == self.signatures) {
            self.client.sign(&mut request);
            self.signatures += 1;
        }
        for (name, _) in &names {
            request.read(name);
            request.prove(name);
        }
        let mut response = self.client.send(request, &mut self.link)?;
        for (item, (name, _)) in reads.iter().zip(&names) {
            let content = self.client.read(&mut response, name)?;
            let (found, value) = content.split_at_checked(KEY_BYTES).ok_or("no key in a record")?;
            if found != key(*item) {
                return Err("a record of another item".into());
            }
            seen(*item, value);
            self.client.prove(&mut response, name, &mut Lengths::default())?;
        }
        self.client.end(response)
    }
}
