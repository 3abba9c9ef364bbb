//! Many clients of one server, each with a capsule and a session of its own (DCS, section 6.5).

use std::path::Path;
use std::time::{Duration, Instant};

use bench_pair::Outcome;
use selfsame_capsule::hash::RecordName;

use crate::backend::Durability;
use crate::capsule::{Client, Lengths};
use crate::server::Server;
use crate::workload::{Random, Values};
use crate::ycsb::Folder;

/// Operations of one request.
const BATCH: u64 = 100;
const VALUE_BYTES: usize = 16;

/// One client with what it has written
struct One {
    client: Client,
    records: Vec<RecordName>,
}

/// `count` writes, reads and proofs by all clients together, one request of one client after the other; nanoseconds each.
///
/// # Errors
/// When something is refused or not proven.
pub(crate) fn run(clients: u32, folder: &Path, count: u64) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    let mut server = Server::create(&folder.0, Durability::None)?;
    let mut all = Vec::new();
    for number in 0..clients {
        let client = Client::create(number, &mut server)?;
        all.push(One {
            client,
            records: Vec::new(),
        });
    }
    let rounds = (count / BATCH / u64::from(clients)).max(1);
    let operations = rounds * u64::from(clients) * BATCH;
    let values = Values::new(&mut Random::new(1), VALUE_BYTES);
    let write = timed(&mut all, rounds, |one, round| {
        one.write(&mut server, &values, round)
    })?;
    for one in &mut all {
        one.client.forget(&mut server)?;
    }
    let read = timed(&mut all, rounds, |one, round| one.read(&mut server, round))?;
    let prove = timed(&mut all, rounds, |one, round| one.prove(&mut server, round))?;
    let each = |took: Duration| took.as_nanos() as f64 / operations as f64;
    Ok(format!(
        r#"{{"write":{},"read":{},"prove":{}}}"#,
        each(write),
        each(read),
        each(prove)
    ))
}

fn timed(
    all: &mut [One],
    rounds: u64,
    mut turn: impl FnMut(&mut One, u64) -> Outcome<()>,
) -> Outcome<Duration> {
    let begin = Instant::now();
    for round in 0..rounds {
        for one in &mut *all {
            turn(one, round)?;
        }
    }
    Ok(begin.elapsed())
}

impl One {
    fn write(&mut self, server: &mut Server, values: &Values, round: u64) -> Outcome<()> {
        let mut request = self.client.request();
        for number in round * BATCH..(round + 1) * BATCH {
            let name = self.client.write(&mut request, values.of(number))?;
            self.records.push(name);
        }
        self.client.sign(&mut request);
        let response = self.client.send(request, server)?;
        self.client.end(response)
    }

    fn of_round(&self, round: u64) -> Vec<RecordName> {
        let first = (round * BATCH) as usize;
        self.records[first..first + BATCH as usize].to_vec()
    }

    fn read(&mut self, server: &mut Server, round: u64) -> Outcome<()> {
        let names = self.of_round(round);
        let mut request = self.client.request();
        names.iter().for_each(|name| request.read(name));
        let mut response = self.client.send(request, server)?;
        for name in &names {
            self.client.read(&mut response, name)?;
        }
        self.client.end(response)
    }

    fn prove(&mut self, server: &mut Server, round: u64) -> Outcome<()> {
        let names = self.of_round(round);
        let mut request = self.client.request();
        names.iter().for_each(|name| request.prove(name));
        let mut response = self.client.send(request, server)?;
        for name in &names {
            self.client.prove(&mut response, name, &mut Lengths::default())?;
        }
        self.client.end(response)
    }
}
