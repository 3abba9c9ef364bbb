//! Many clients of one server, each with a capsule and a session of its own (DCS, section 6.5).

use std::path::Path;
use std::time::{Duration, Instant};

use bench_pair::Outcome;
use bytes::Bytes;
use selfsame_capsule::client::{Command, Reply, Signing};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::verifier::SharedVerifier;
use selfsame_capsule::writer::Backpointers;

use crate::backend::Durability;
use crate::server::Server;
use crate::session::Session;
use crate::workload::{Random, Values};
use crate::ycsb::Folder;

/// Records of one command.
const BATCH: u64 = 100;
const VALUE_BYTES: usize = 16;
/// A thousand clients with caches of this size have 32 MB of them; each reads what it has written in order.
const SLOTS_LOG2: u8 = 10;

/// One client with what it has written
struct One {
    session: Session,
    records: Vec<RecordName>,
}

/// `count` writes, proofs and reads by all clients together, one command of one client after the other; nanoseconds each.
///
/// # Errors
/// When something is refused or not proven.
pub(crate) fn run(clients: u32, folder: &Path, count: u64) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    let mut server = Server::create(&folder.0, Durability::None)?;
    let verifier = SharedVerifier::default();
    let mut all = Vec::new();
    let rounds = (count / BATCH / u64::from(clients)).max(1);
    for number in 0..clients {
        let session = Session::create(number, SLOTS_LOG2, &verifier, &mut server)?;
        // As much as it will take: what is measured does not move names about.
        let records = Vec::with_capacity((rounds * BATCH) as usize);
        all.push(One { session, records });
    }
    let operations = rounds * u64::from(clients) * BATCH;
    let values = Values::new(&mut Random::new(1), VALUE_BYTES);
    let write = timed(&mut all, rounds, |one, round| {
        one.write(&mut server, &values, round)
    })?;
    for one in &mut all {
        one.session.forget(&mut server)?;
    }
    let prove = timed(&mut all, rounds, |one, round| one.prove(&mut server, round))?;
    let read = timed(&mut all, rounds, |one, round| one.read(&mut server, round))?;
    let each = |took: Duration| took.as_nanos() as f64 / operations as f64;
    Ok(format!(
        r#"{{"write":{},"prove":{},"read":{}}}"#,
        each(write),
        each(prove),
        each(read)
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
        let numbers = round * BATCH..(round + 1) * BATCH;
        let command = Command::Write {
            contents: numbers
                .map(|number| Bytes::copy_from_slice(values.of(number)))
                .collect(),
            backpointers: Backpointers::Shortcuts,
            signing: Signing::Last,
        };
        match self.session.run(Vec::from([command]), server)?.pop() {
            Some(Reply::Written(names)) => {
                self.records.extend(names);
                Ok(())
            }
            _ => Err("the records have no names".into()),
        }
    }

    fn of_round(&self, round: u64) -> Vec<RecordName> {
        let first = (round * BATCH) as usize;
        self.records[first..first + BATCH as usize].to_vec()
    }

    fn prove(&mut self, server: &mut Server, round: u64) -> Outcome<()> {
        let records = self.of_round(round);
        match self
            .session
            .run(Vec::from([Command::Prove { records }]), server)?
            .pop()
        {
            Some(Reply::Proven(proven)) if proven.iter().all(Result::is_ok) => Ok(()),
            _ => Err("a record is not proven".into()),
        }
    }

    fn read(&mut self, server: &mut Server, round: u64) -> Outcome<()> {
        let records = self.of_round(round);
        match self
            .session
            .run(Vec::from([Command::Read { records }]), server)?
            .pop()
        {
            Some(Reply::Records(records)) if records.iter().all(Result::is_ok) => Ok(()),
            _ => Err("a record cannot be read".into()),
        }
    }
}
