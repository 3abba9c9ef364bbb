//! Writing, reading and proving records of one capsule (DCS, section 6.3).

use std::path::Path;
use std::time::{Duration, Instant};

use bench_pair::Outcome;
use selfsame_capsule::cache::{DEFAULT_SLOTS_LOG2, MAX_SLOTS_LOG2, MIN_SLOTS_LOG2, Verified};
use selfsame_capsule::hash::{HashedHeader, RecordName};
use selfsame_capsule::header::FIELDS_BYTES;

use crate::backend::Durability;
use crate::capsule::{Client, Lengths};
use crate::server::Server;
use crate::workload::{Random, Values};
use crate::ycsb::Folder;

/// Operations of one request.
const BATCH: usize = 100;

/// A capsule with records, and how long it took to write them
struct Filled {
    client: Client,
    server: Server,
    records: Vec<RecordName>,
    took: Duration,
}

/// Measures a capsule of `count` records, each `per_signature` of them signed by the last; nanoseconds for one record, and
/// headers of one proof.
///
/// # Errors
/// When something is refused or not proven.
pub(crate) fn run(value_len: usize, per_signature: usize, folder: &Path, count: u64) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    let mut filled = fill(value_len, per_signature, &folder.0, count)?;
    let each = |took: Duration| took.as_nanos() as f64 / count as f64;
    let header = HashedHeader {
        fields: &[7; FIELDS_BYTES],
        backpointers: &[7; 2 * 32],
    };
    let begin = Instant::now();
    for _ in 0..count {
        core::hint::black_box(filled.client.hash(core::hint::black_box(header)));
    }
    let hash = begin.elapsed();
    let read = filled.read()?;
    let (cached, cached_lengths) = filled.prove_in_session(DEFAULT_SLOTS_LOG2)?;
    let (uncached, uncached_lengths) = filled.prove_alone()?;
    shuffle(&mut filled.records);
    let (scattered, scattered_lengths) = filled.prove_in_session(MAX_SLOTS_LOG2)?;
    filled.client.forget(MAX_SLOTS_LOG2, &mut filled.server)?;
    let verified_read = filled.read_proven()?;
    let mean = |lengths: Lengths| lengths.sum as f64 / count as f64;
    Ok(format!(
        r#"{{"write":{},"hash":{},"read":{},"verifiedRead":{},"cached":{},"scattered":{},"uncached":{},"lengths":{{"cached":[{},{}],"scattered":[{},{}],"uncached":[{},{}]}}}}"#,
        each(filled.took),
        each(hash),
        each(read),
        each(verified_read),
        each(cached),
        each(scattered),
        each(uncached),
        mean(cached_lengths),
        cached_lengths.most,
        mean(scattered_lengths),
        scattered_lengths.most,
        mean(uncached_lengths),
        uncached_lengths.most,
    ))
}

fn fill(value_len: usize, per_signature: usize, folder: &Path, count: u64) -> Outcome<Filled> {
    let mut server = Server::create(folder, Durability::None)?;
    let mut client = Client::create(0, &mut server)?;
    let values = Values::new(&mut Random::new(1), value_len);
    let numbers: Vec<u64> = (0..count).collect();
    let mut records = Vec::with_capacity(numbers.len());
    let begin = Instant::now();
    for batch in numbers.chunks(BATCH) {
        let mut request = client.request();
        for number in batch {
            records.push(client.write(&mut request, values.of(*number))?);
            if records.len() % per_signature == 0 || records.len() == numbers.len() {
                client.sign(&mut request);
            }
        }
        let response = client.send(request, &mut server)?;
        client.end(response)?;
    }
    Ok(Filled {
        took: begin.elapsed(),
        client,
        server,
        records,
    })
}

impl Filled {
    /// Reads all records, without proofs.
    fn read(&mut self) -> Outcome<Duration> {
        let begin = Instant::now();
        for batch in self.records.chunks(BATCH) {
            let mut request = self.client.request();
            batch.iter().for_each(|name| request.read(name));
            let mut response = self.client.send(request, &mut self.server)?;
            for name in batch {
                self.client.read(&mut response, name)?;
            }
            self.client.end(response)?;
        }
        Ok(begin.elapsed())
    }

    /// Reads all records, each proven in a session.
    fn read_proven(&mut self) -> Outcome<Duration> {
        let begin = Instant::now();
        let mut lengths = Lengths::default();
        for batch in self.records.chunks(BATCH) {
            let mut request = self.client.request();
            for name in batch {
                request.read(name);
                request.prove(name);
            }
            let mut response = self.client.send(request, &mut self.server)?;
            for name in batch {
                self.client.read(&mut response, name)?;
                self.client.prove(&mut response, name, &mut lengths)?;
            }
            self.client.end(response)?;
        }
        Ok(begin.elapsed())
    }

    /// Proves all records in a session that begins with nothing verified.
    fn prove_in_session(&mut self, slots_log2: u8) -> Outcome<(Duration, Lengths)> {
        self.client.forget(slots_log2, &mut self.server)?;
        let mut lengths = Lengths::default();
        let begin = Instant::now();
        for batch in self.records.chunks(BATCH) {
            let mut request = self.client.request();
            batch.iter().for_each(|name| request.prove(name));
            let mut response = self.client.send(request, &mut self.server)?;
            for name in batch {
                self.client.prove(&mut response, name, &mut lengths)?;
            }
            self.client.end(response)?;
        }
        Ok((begin.elapsed(), lengths))
    }

    /// Proves all records, each with nothing verified before.
    fn prove_alone(&mut self) -> Outcome<(Duration, Lengths)> {
        let mut lengths = Lengths::default();
        let mut nothing = Verified::new(MIN_SLOTS_LOG2);
        let begin = Instant::now();
        for batch in self.records.chunks(BATCH) {
            let mut request = self.client.request_without_session();
            batch.iter().for_each(|name| request.prove(name));
            let mut response = self.client.send(request, &mut self.server)?;
            for name in batch {
                self.client
                    .prove_alone(&mut response, name, &mut lengths, &mut nothing)?;
            }
            self.client.end(response)?;
        }
        Ok((begin.elapsed(), lengths))
    }
}

/// Puts names into an order that has nothing to do with when they were written.
fn shuffle(names: &mut [RecordName]) {
    names.sort_unstable();
}
