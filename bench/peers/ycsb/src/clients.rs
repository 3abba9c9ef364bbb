//! Many clients of one server, each with a capsule and a session of its own (DCS, section 6.5).

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use bench_pair::Outcome;
use bytes::Bytes;
use selfsame_capsule::client::{Command, Reply, Signing};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::verifier::SharedVerifier;
use selfsame_capsule::writer::Backpointers;

use crate::backend::Durability;
use crate::server::{Address, Channel, beside};
use crate::session::Session;
use crate::workload::{Random, Values};
use crate::ycsb::{Folder, UNDER_WAY};

/// Records of one command.
const BATCH: u64 = 100;
const VALUE_BYTES: usize = 16;
/// Enough for who reads what it has written in order: with four times as many one client is no faster, and a thousand touch 70 MB in
/// place of 18 in all.
const SLOTS_LOG2: u8 = 8;

/// One client with what it has written
struct One {
    session: Session,
    link: Channel,
    records: Vec<RecordName>,
}

/// `count` writes, proofs and reads by all clients together, in one thread beside the server's: two commands are under way at a
/// time, those of one client after those of the other; nanoseconds each.
///
/// # Errors
/// When something is refused or not proven.
pub(crate) fn run(clients: u32, folder: &Path, count: u64) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    beside(&folder.0, Durability::None, |server| {
        measure(clients, server, count)
    })
}

fn measure(clients: u32, server: &Address, count: u64) -> Outcome<String> {
    let verifier = SharedVerifier::default();
    let mut all = Vec::new();
    let rounds = (count / BATCH / u64::from(clients)).max(1);
    for number in 0..clients {
        let mut link = Channel::new(server);
        let session = Session::create(number, SLOTS_LOG2, &verifier, &mut link)?;
        // As much as it will take: what is measured does not move names about.
        let records = Vec::with_capacity((rounds * BATCH) as usize);
        all.push(One {
            session,
            link,
            records,
        });
    }
    let operations = rounds * u64::from(clients) * BATCH;
    let values = Values::new(&mut Random::new(1), VALUE_BYTES);
    let write = timed(&mut all, rounds, |_, round| write(&values, round))?;
    for one in &mut all {
        one.session.forget(&mut one.link)?;
    }
    let prove = timed(&mut all, rounds, |one, round| Command::Prove {
        records: one.of_round(round),
    })?;
    let read = timed(&mut all, rounds, |one, round| Command::Read {
        records: one.of_round(round),
    })?;
    let each = |took: Duration| took.as_nanos() as f64 / operations as f64;
    Ok(format!(
        r#"{{"write":{},"prove":{},"read":{}}}"#,
        each(write),
        each(prove),
        each(read)
    ))
}

/// How long the commands of so many rounds take.
fn timed(all: &mut [One], rounds: u64, command: impl Fn(&One, u64) -> Command) -> Outcome<Duration> {
    let begin = Instant::now();
    let mut under_way: VecDeque<usize> = VecDeque::with_capacity(UNDER_WAY);
    for round in 0..rounds {
        for place in 0..all.len() {
            if under_way.len() == UNDER_WAY
                && let Some(first) = under_way.pop_front()
            {
                all[first].end()?;
            }
            let command = command(&all[place], round);
            all[place].give(command)?;
            under_way.push_back(place);
        }
    }
    for place in under_way {
        all[place].end()?;
    }
    Ok(begin.elapsed())
}

fn write(values: &Values, round: u64) -> Command {
    let numbers = round * BATCH..(round + 1) * BATCH;
    Command::Write {
        contents: numbers
            .map(|number| Bytes::copy_from_slice(values.of(number)))
            .collect(),
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    }
}

impl One {
    fn of_round(&self, round: u64) -> Vec<RecordName> {
        let first = (round * BATCH) as usize;
        self.records[first..first + BATCH as usize].to_vec()
    }

    fn give(&mut self, command: Command) -> Outcome<()> {
        self.session.give(command, &mut self.link).map(drop)
    }

    /// Waits for the reply to its first command that is under way.
    fn end(&mut self) -> Outcome<()> {
        match self.session.reply(&mut self.link)?.1 {
            Reply::Written(names) => self.records.extend(names),
            Reply::Proven(proven) if proven.iter().all(Result::is_ok) => {}
            Reply::Records(records) if records.iter().all(Result::is_ok) => {}
            _ => return Err("a record is not written, proven or read".into()),
        }
        Ok(())
    }
}
