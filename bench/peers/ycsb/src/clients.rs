//! Many clients of one server, each with a capsule and a session of its own (DCS, section 6.5).

use std::collections::VecDeque;
use std::path::Path;

use bench_pair::Outcome;
use selfsame_host::RecordName;
use selfsame_host::capsule::{Capsule, WriteOptions};
use tokio::task::JoinHandle;

use crate::backend::Durability;
use crate::clock::{Clock, Spent};
use crate::server::{Server, Way, said};
use crate::session::{Owner, read_all};
use crate::workload::{Random, Values};
use crate::ycsb::Folder;

/// Records of one command.
const BATCH: u64 = 100;
/// Commands under way of all clients together, whether of one or of a thousand, so that nothing but their number changes.
const UNDER_WAY: usize = 2;
const VALUE_BYTES: usize = 16;

/// One client with what it has written
struct One {
    owner: Owner,
    capsule: Capsule,
    records: Vec<RecordName>,
}

/// What all clients do in turn
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Each batch is signed.
    Write,
    /// What it wrote, from the first record on.
    Read,
    /// Its first records, which it has read before.
    ReadAgain,
}

/// A command of one client that is under way
struct UnderWay {
    client: usize,
    names: JoinHandle<Outcome<Vec<RecordName>>>,
}

/// `count` writes, reads with proofs and reads of what is proven by all clients together, those of one after those of the other;
/// nanoseconds each, elapsed and of the processor. Who reads is another client than who wrote, and has begun its session.
///
/// # Errors
/// When something is refused or not proven.
pub(crate) async fn run(clients: u32, folder: &Path, count: u64) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    let server = Server::start(&folder.0, Durability::None, Way::Call).await?;
    let measured = measure(clients, &server, count).await;
    server.end().await;
    measured
}

async fn measure(clients: u32, server: &Server, count: u64) -> Outcome<String> {
    let mut all = Vec::new();
    let rounds = (count / BATCH / u64::from(clients)).max(1);
    for number in 0..clients {
        let (owner, capsule) = Owner::create(number, server.way(), None).await?;
        // As much as it will take: what is measured does not move names about.
        let records = Vec::with_capacity((rounds * BATCH) as usize);
        all.push(One {
            owner,
            capsule,
            records,
        });
    }
    let operations = rounds * u64::from(clients) * BATCH;
    let write = timed(&mut all, rounds, Deed::Write).await?;
    for one in &mut all {
        one.owner.open_anew(&mut one.capsule).await?;
    }
    let last = rounds - 1;
    for client in 0..all.len() {
        let names = read(&all[client], last);
        end(&mut all, Some(UnderWay { client, names })).await?;
    }
    let prove = timed(&mut all, rounds, Deed::Read).await?;
    let read_again = timed(&mut all, rounds, Deed::ReadAgain).await?;
    for one in all {
        one.capsule.close().await;
    }
    Ok(format!(
        r#"{{"write":{},"prove":{},"read":{}}}"#,
        write.of_each(operations),
        prove.of_each(operations),
        read_again.of_each(operations)
    ))
}

/// What the commands of so many rounds take.
async fn timed(all: &mut [One], rounds: u64, deed: Deed) -> Outcome<Spent> {
    let values = Values::new(&mut Random::new(1), VALUE_BYTES);
    let begin = Clock::now();
    let mut under_way: VecDeque<UnderWay> = VecDeque::with_capacity(UNDER_WAY);
    for round in 0..rounds {
        for client in 0..all.len() {
            if under_way.len() == UNDER_WAY {
                end(all, under_way.pop_front()).await?;
            }
            let names = match deed {
                Deed::Write => write(&all[client], &values, round),
                Deed::Read => read(&all[client], round),
                Deed::ReadAgain => read(&all[client], 0),
            };
            under_way.push_back(UnderWay { client, names });
        }
    }
    while !under_way.is_empty() {
        end(all, under_way.pop_front()).await?;
    }
    Ok(Clock::now().since(begin))
}

fn write(one: &One, values: &Values, round: u64) -> JoinHandle<Outcome<Vec<RecordName>>> {
    let numbers = round * BATCH..(round + 1) * BATCH;
    let contents: Vec<Vec<u8>> = numbers.map(|number| values.of(number).to_vec()).collect();
    let capsule = one.capsule.clone();
    tokio::spawn(async move { capsule.append(contents, WriteOptions::new()).await.map_err(said) })
}

fn read(one: &One, round: u64) -> JoinHandle<Outcome<Vec<RecordName>>> {
    let first = (round * BATCH) as usize;
    let names = one.records[first..first + BATCH as usize].to_vec();
    let capsule = one.capsule.clone();
    tokio::spawn(async move {
        read_all(&capsule, &names).await?;
        Ok(Vec::new())
    })
}

/// Waits for a command.
async fn end(all: &mut [One], command: Option<UnderWay>) -> Outcome<()> {
    if let Some(UnderWay { client, names }) = command {
        all[client].records.extend(names.await.map_err(said)??);
    }
    Ok(())
}
