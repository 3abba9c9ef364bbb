//! Writing, reading and proving records of one capsule (DCS, section 6.3).

use std::path::Path;

use bench_pair::Outcome;
use selfsame_host::RecordName;
use selfsame_host::capsule::{Capsule, WriteOptions, verify_proof};

use crate::backend::Durability;
use crate::clock::{Clock, Spent};
use crate::primitive::Primitive;
use crate::server::{Server, Way, said};
use crate::session::{Owner, read_all};
use crate::workload::{Random, Values};
use crate::ycsb::Folder;

/// Records that are read with one command, and written at most.
const BATCH: usize = 100;
/// Of so many records one is proven by a file.
const PROVEN: usize = 100;

/// A capsule with records, and what it took to write them
struct Filled {
    owner: Owner,
    capsule: Capsule,
    records: Vec<RecordName>,
    took: Spent,
}

/// Measures a capsule of `count` records, each `per_signature` of them signed by the last; nanoseconds for one record, elapsed and of
/// the processor.
///
/// # Errors
/// When something is refused or not proven.
pub(crate) async fn run(
    value_len: usize,
    per_signature: usize,
    (folder, primitives): (&Path, &Path),
    count: u64,
) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    let server = Server::start(&folder.0, Durability::None, Way::Call).await?;
    let hash = Primitive::load(primitives, "header_name")?.run(count)?;
    let mut filled = fill(&server, value_len, per_signature, count as usize).await?;
    filled.forget().await?;
    let (first, again) = filled.read_twice().await?;
    filled.records.sort_unstable();
    filled.forget().await?;
    let any_order = filled.read().await?;
    let (prove, verify) = filled.prove().await?;
    filled.capsule.close().await;
    server.end().await;
    let proven = filled.records.len().div_ceil(PROVEN) as u64;
    Ok(format!(
        r#"{{"write":{},"hash":{},"first":{},"again":{},"anyOrder":{},"prove":{},"verify":{}}}"#,
        filled.took.of_each(count),
        hash.of_each(count),
        first.of_each(count),
        again.of_each(count),
        any_order.of_each(count),
        prove.of_each(proven),
        verify.of_each(proven),
    ))
}

async fn fill(server: &Server, value_len: usize, per_signature: usize, count: usize) -> Outcome<Filled> {
    let (owner, capsule) = Owner::create(0, server.way(), None).await?;
    let values = Values::new(&mut Random::new(1), value_len);
    let mut records = Vec::with_capacity(count);
    let begin = Clock::now();
    while records.len() < count {
        let unsigned = per_signature - records.len() % per_signature;
        let more = BATCH.min(unsigned).min(count - records.len());
        let contents: Vec<Vec<u8>> = (records.len()..records.len() + more)
            .map(|number| values.of(number as u64).to_vec())
            .collect();
        let is_signed = more == unsigned || records.len() + more == count;
        let options = WriteOptions::new();
        let options = if is_signed { options } else { options.unsigned() };
        records.extend(capsule.append(contents, options).await.map_err(said)?);
    }
    Ok(Filled {
        took: Clock::now().since(begin),
        owner,
        capsule,
        records,
    })
}

impl Filled {
    /// Goes on with a client that has verified nothing.
    async fn forget(&mut self) -> Outcome<()> {
        self.owner.open_anew(&mut self.capsule).await
    }

    /// Reads all records, each proven.
    async fn read(&self) -> Outcome<Spent> {
        let begin = Clock::now();
        for batch in self.records.chunks(BATCH) {
            read_all(&self.capsule, batch).await?;
        }
        Ok(Clock::now().since(begin))
    }

    /// Reads all records from the last to the first, so that each is proven by one that was verified before, and each batch again,
    /// when no more is to be proven.
    async fn read_twice(&self) -> Outcome<(Spent, Spent)> {
        let (mut first, mut again) = (Spent::default(), Spent::default());
        for batch in self.records.rchunks(BATCH) {
            let begin = Clock::now();
            read_all(&self.capsule, batch).await?;
            let middle = Clock::now();
            read_all(&self.capsule, batch).await?;
            first += middle.since(begin);
            again += Clock::now().since(middle);
        }
        Ok((first, again))
    }

    /// Makes files that prove some records, and verifies them.
    async fn prove(&self) -> Outcome<(Spent, Spent)> {
        let begin = Clock::now();
        let mut files = Vec::new();
        for name in self.records.iter().step_by(PROVEN) {
            files.push(self.capsule.prove(*name, false).await.map_err(said)?);
        }
        let middle = Clock::now();
        for file in &files {
            verify_proof(file).map_err(said)?;
        }
        Ok((middle.since(begin), Clock::now().since(middle)))
    }
}
