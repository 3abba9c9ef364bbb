//! A client of the servers of one capsule: writes and reads through quorums, verifies all that it is told, and keeps what it
//! must not forget (DCS, section 3.2).
//!
//! It does no I/O. A host hands it the application's commands, what servers answer, what the store answers and what time it is,
//! and carries out the effects that it asks for.

mod base;
mod catch_up;
mod command;
mod describe;
mod effect;
mod fresh;
mod govern;
mod judge;
mod memory;
mod packing;
mod parts;
mod pen;
mod pointees;
mod random;
mod reading;
mod servers;
mod sightings;
mod signed;
mod trees;
mod trust;
mod writing;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use bytes::Bytes;
use selfsame_codec::{Code, Reader};

use crate::hash::RecordName;
use crate::metadata::Charter;
use crate::refusal::{Refusal, Result};
use base::{Ask, Base, Fault, Sent};
pub use command::{
    Command, Content, Description, Extent, Got, Head, Heads, MAX_ELEMENTS, Outline, Period, Position, Reply,
    Signing, Start,
};
use describe::Refused;
pub use effect::{Config, Effect, MAX_SERVERS, Timing, Value};
use fresh::Purpose;
use memory::{Kept, Seen, metadata_key, seen_key, writer_key};
use pen::Pen;
use reading::{Query, Shape, Want};
use servers::Server;
use trust::{Identity, Trust};
use writing::Store;

/// Most commands under way: an application that has more waits for replies.
pub const MAX_COMMANDS: usize = 4096;
/// Most bytes of what is being written: an application that has more waits for replies.
pub const MAX_WRITING_BYTES: usize = 64 << 20;

/// What is under way for a command
#[derive(Debug)]
enum Job {
    Store(Store),
    Query(Query),
    Fresh(fresh::Query),
    /// The metadata.
    Describe(Refused),
}

/// A command that waits for its turn
#[derive(Debug)]
struct Waiting {
    call: (u32, u64),
    command: Command,
}

/// A client of one capsule
#[derive(Debug)]
pub struct Client {
    base: Base,
    /// The answer of the store with which everything begins.
    recalling: Option<u32>,
    /// Whether the metadata was stored before, or need not be.
    kept: Kept,
    pen: Option<Pen>,
    is_beginning: bool,
    waiting: VecDeque<Waiting>,
    /// The command whose pointers are being looked at, and what came of it.
    vetting: Option<(u32, Option<Result<()>>)>,
    jobs: BTreeMap<u32, Job>,
    /// Jobs of which not everything is under way.
    stalled: BTreeSet<u32>,
    last_job: u32,
}

impl Client {
    /// A client; the first thing it asks its host for is what it has stored.
    ///
    /// # Errors
    /// [`Code::BadConfig`] for no, too many or equal servers, or a quorum that they cannot give; what [`Charter::decode`] says
    /// of the metadata, and [`Code::BadMetadata`] if they are of another capsule.
    pub fn new(config: Config) -> Result<Self> {
        config.check()?;
        let charter = match &config.metadata {
            Some(metadata) => Some(Charter::decode(metadata)?),
            None => None,
        };
        if charter
            .as_ref()
            .is_some_and(|charter| charter.name() != config.capsule)
        {
            return Err(Refusal::new(Code::BadMetadata, 0));
        }
        let mut base = Base::new(config);
        let identity = base.identity.as_ref();
        base.trust = charter.map(|charter| Trust::new(charter, identity, base.verifier.clone()));
        let tag = base.tag();
        let mut keys = Vec::from([seen_key(&base.capsule), metadata_key(&base.capsule)]);
        if let Some(identity) = &base.identity {
            keys.push(writer_key(&base.capsule, &identity.public()));
        }
        base.effects.push_back(Effect::Get { tag, keys });
        Ok(Self {
            base,
            recalling: Some(tag),
            kept: Kept::default(),
            pen: None,
            is_beginning: false,
            waiting: VecDeque::new(),
            vetting: None,
            jobs: BTreeMap::new(),
            stalled: BTreeSet::new(),
            last_job: 0,
        })
    }

    /// What the host is to do next.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.base.effects.pop_front()
    }

    /// When [`Self::wake`] is to be called, if nothing else happens before.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        let sent = self.base.sent.values();
        let requests = sent.map(|sent| sent.hedge_at.unwrap_or(sent.expires).min(sent.expires));
        let servers = self.base.servers.iter();
        let retries = servers.filter_map(|server| server.retry_at(self.base.now));
        let retries = retries.filter(|_| !self.stalled.is_empty());
        let jobs = self.jobs.values().filter_map(deadline);
        let waiting = self.waiting.iter().map(|waiting| waiting.call.1);
        requests.chain(retries).chain(jobs).chain(waiting).min()
    }

    /// Takes a command of the application; `command` is what the host calls it.
    pub fn command(&mut self, now_ms: u64, id: u32, command: Command) {
        self.base.now = now_ms;
        let writing = self.jobs.values().map(|job| match job {
            Job::Store(store) => store.bytes(),
            _ => 0,
        });
        let is_full = self.waiting.len() + self.jobs.len() >= MAX_COMMANDS
            || writing.sum::<usize>() + self.waiting_bytes() + size(&command) > MAX_WRITING_BYTES;
        if is_full {
            let refusal = Refusal::new(Code::TooManyRequests, self.jobs.len());
            self.base.reply(id, Err(refusal));
            return;
        }
        let call = (id, now_ms + self.base.timing.deadline_ms);
        self.waiting.push_back(Waiting { call, command });
        self.pump();
    }

    /// Takes a server's response to a request.
    pub fn response(&mut self, now_ms: u64, request: u32, response: &[u8]) {
        self.base.now = now_ms;
        let Some(sent) = self.base.sent.remove(&request) else {
            return;
        };
        self.base.servers[sent.server].in_flight -= 1;
        let epochs = self.base.trust.as_ref().map(Trust::epochs);
        if let Err(fault) = self.take(&sent, response) {
            self.base.blame(sent.server, fault);
            self.miss(&sent, fault);
        }
        if self.base.trust.as_ref().map(Trust::epochs) != epochs {
            self.follow_epoch();
        }
        self.pump();
    }

    /// A request could not be sent, or its answer not received.
    pub fn failed(&mut self, now_ms: u64, request: u32) {
        self.base.now = now_ms;
        if let Some(sent) = self.base.sent.remove(&request) {
            self.fail(&sent, Code::Disconnected);
            self.pump();
        }
    }

    /// Takes the values of an [`Effect::Get`], with their keys.
    pub fn values(&mut self, now_ms: u64, tag: u32, values: &[(Vec<u8>, Value)]) {
        self.base.now = now_ms;
        if self.recalling == Some(tag) {
            self.recalling = None;
            if let Err(refusal) = self.recall(values) {
                // Without knowing what it has written and seen it may do neither.
                self.recalling = Some(0);
                for waiting in core::mem::take(&mut self.waiting) {
                    self.base.reply(waiting.call.0, Err(refusal));
                }
            }
            self.pump();
        }
    }

    /// Takes the outcome of an [`Effect::Commit`].
    pub fn committed(&mut self, now_ms: u64, tag: u32, is_written: bool) {
        self.base.now = now_ms;
        self.reserved(tag, is_written);
        self.pump();
    }

    /// The time of [`Self::next_wake`] has come.
    pub fn wake(&mut self, now_ms: u64) {
        self.base.now = now_ms;
        let is_due = |sent: &Sent| sent.expires <= now_ms || sent.hedge_at.is_some_and(|at| at <= now_ms);
        let due: Vec<u32> = self
            .base
            .sent
            .iter()
            .filter_map(|(request, sent)| is_due(sent).then_some(*request))
            .collect();
        for request in due {
            let Some(mut sent) = self.base.sent.remove(&request) else {
                continue;
            };
            if sent.expires <= now_ms {
                self.fail(&sent, Code::TimedOut);
                continue;
            }
            sent.hedge_at = None;
            if let Ask::Items(items) = &sent.ask {
                self.hedge(sent.job, items);
            }
            self.base.sent.insert(request, sent);
        }
        self.give_up(now_ms);
        self.pump();
    }

    fn fail(&mut self, sent: &Sent, code: Code) {
        self.base.servers[sent.server].in_flight -= 1;
        let fault = Fault::Failed(Refusal::new(code, sent.server));
        self.base.blame(sent.server, fault);
        self.miss(sent, fault);
    }

    fn recall(&mut self, values: &[(Vec<u8>, Value)]) -> Result<()> {
        let value = |key: Vec<u8>| {
            let found = values.iter().find(|(other, _)| *other == key);
            found.and_then(|(_, value)| value.clone())
        };
        if let Some(seen) = value(seen_key(&self.base.capsule)) {
            self.base.seen = Seen::decode(&seen)?;
        }
        if let Some(metadata) = value(metadata_key(&self.base.capsule)).filter(|_| self.base.trust.is_none())
        {
            self.know(&metadata)?;
        }
        let writer = self.base.identity.as_ref().map(Identity::public);
        if let Some(kept) = writer.and_then(|writer| value(writer_key(&self.base.capsule, &writer))) {
            self.kept = Kept::decode(&kept)?;
        }
        Ok(())
    }

    /// Takes signed metadata that are not known yet.
    fn know(&mut self, metadata: &[u8]) -> Result<()> {
        let charter = Charter::decode(metadata)?;
        if charter.name() != self.base.capsule {
            return Err(Refusal::new(Code::BadMetadata, 0));
        }
        self.base.trust = Some(Trust::new(
            charter,
            self.base.identity.as_ref(),
            self.base.verifier.clone(),
        ));
        Ok(())
    }

    fn add_job(&mut self, job: Job) -> u32 {
        self.last_job = self.last_job.wrapping_add(1);
        self.jobs.insert(self.last_job, job);
        self.stalled.insert(self.last_job);
        self.last_job
    }

    /// Reads a response.
    fn take(&mut self, sent: &Sent, response: &[u8]) -> core::result::Result<(), Fault> {
        if response.len() > crate::message::MAX_MESSAGE_BYTES + MAX_BEYOND {
            return Err(Fault::False(Refusal::new(Code::TooLarge, response.len())));
        }
        let mut reader = Reader::new(response);
        let head = self.base.read_head(sent, &mut reader)?;
        // Both give how many epoch records there were before what they store.
        if !matches!(sent.ask, Ask::Store { creating: true, .. } | Ask::CatchUp) {
            self.bring_up_to_date(sent.server, &head);
        }
        match &sent.ask {
            Ask::Store {
                part,
                creating,
                introducing,
            } => self.take_stored(sent, *part, [*creating, *introducing], &mut reader),
            Ask::Items(items) => self.take_items(sent, items, &head, &mut reader),
            Ask::Fresh(seen) => self.take_fresh(sent, seen, &head, &mut reader),
            Ask::Heads(names) => self.take_heads(sent, names, &head, &mut reader),
            Ask::Describe => self.take_metadata(sent, &mut reader),
            Ask::CatchUp => {
                self.base.servers[sent.server].catch_up.end();
                Ok(())
            }
        }
    }

    fn miss(&mut self, sent: &Sent, fault: Fault) {
        match &sent.ask {
            Ask::Store { part, .. } => self.miss_store(sent, *part, fault),
            Ask::Items(items) => self.miss_items(sent, items, fault),
            Ask::Fresh(_) | Ask::Heads(_) => self.miss_fresh(sent, fault),
            Ask::Describe => self.miss_metadata(sent, fault),
            Ask::CatchUp => self.base.miss_catch_up(sent.server),
        }
    }

    /// Begins commands whose turn it is, and sends what can be sent.
    fn pump(&mut self) {
        self.pump_once();
        if matches!(self.vetting, Some((_, Some(_)))) {
            self.pump_once();
        }
    }

    fn pump_once(&mut self) {
        while let Some(waiting) = self.waiting.pop_front() {
            match self.begin(waiting.call, &waiting.command) {
                Ok(true) => {}
                Ok(false) => {
                    self.waiting.push_front(waiting);
                    break;
                }
                Err(refusal) => self.base.reply(waiting.call.0, Err(refusal)),
            }
        }
        // While all servers have as much to do as they may, there is nothing to send, however many jobs wait.
        let mut next = self.stalled.first().copied();
        while let Some(job) = next.filter(|_| !self.base.servers.iter().all(Server::is_busy)) {
            self.stalled.remove(&job);
            next = self.stalled.range((Excluded(job), Unbounded)).next().copied();
            let Some(mut taken) = self.jobs.remove(&job) else {
                continue;
            };
            let is_all = match &mut taken {
                Job::Store(store) => self.pump_store(job, store),
                Job::Query(query) => self.pump_query(job, query),
                Job::Fresh(query) => self.pump_fresh(job, query),
                Job::Describe(refused) => self.pump_describe(job, refused.servers),
            };
            if !is_all {
                self.stalled.insert(job);
            }
            match taken {
                Job::Query(query) if query.is_done() => self.finish_query(query),
                other => _ = self.jobs.insert(job, other),
            }
        }
    }

    /// Gives up what has taken too long.
    fn give_up(&mut self, now: u64) {
        let late = |call: u64| call <= now;
        let jobs = self.jobs.iter();
        let due: Vec<u32> = jobs
            .filter_map(|(job, state)| deadline(state).is_some_and(late).then_some(*job))
            .collect();
        for job in due {
            match self.jobs.remove(&job) {
                Some(Job::Query(mut query)) => {
                    query.give_up();
                    self.finish_query(query);
                }
                Some(Job::Fresh(query)) => {
                    let refusal = self.lacking(&query);
                    self.fail_fresh(&query, refusal);
                }
                Some(Job::Store(store)) => {
                    let refusal = Refusal::new(Code::NoQuorum, Self::confirmed(&store));
                    self.jobs.insert(job, Job::Store(store));
                    self.fail_store(job, refusal);
                }
                _ => {}
            }
        }
        let (late, waiting) = core::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.call.1 <= now);
        self.waiting = waiting;
        for waiting in Vec::from(late) {
            let refusal = Refusal::new(Code::Deadline, 0);
            self.base.reply(waiting.call.0, Err(refusal));
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|waiting| size(&waiting.command)).sum()
    }

    /// Begins a command; whether its turn has come.
    fn begin(&mut self, call: (u32, u64), command: &Command) -> Result<bool> {
        if self.recalling.is_some() {
            return Ok(false);
        }
        if self.base.trust.is_none() {
            let is_asked = self.jobs.values().any(|job| matches!(job, Job::Describe(_)));
            if matches!(command, Command::Create) {
                return Err(Refusal::new(Code::BadMetadata, 0));
            }
            if !is_asked {
                self.add_job(Job::Describe(Refused::default()));
            }
            return Ok(false);
        }
        let count = command.writes();
        if count > 0
            && (self.is_beginning || self.is_governed(command) || !self.has_reserved(count as u64)?)
        {
            return Ok(false);
        }
        if !self.may_point(call, command)? {
            return Ok(false);
        }
        self.carry_out(call, command).map(|()| true)
    }

    fn is_governed(&self, command: &Command) -> bool {
        let governs = |job: &Job| matches!(job, Job::Store(store) if store.governs());
        matches!(command, Command::Govern { .. }) && self.jobs.values().any(governs)
    }

    fn carry_out(&mut self, call: (u32, u64), command: &Command) -> Result<()> {
        match command {
            Command::Create => return self.create(call.0, call.1),
            Command::Init { start } => {
                self.lay_down();
                self.is_beginning = true;
                self.ask_fresh(call, Purpose::Init(*start));
            }
            Command::Write {
                contents,
                backpointers,
                signing,
            } => return self.write(call, contents, backpointers, *signing),
            Command::Commit {
                subrecords,
                backpointers,
                signing,
            } => return self.commit(call, subrecords, backpointers, *signing),
            Command::Sign => return self.sign(call.0, call.1),
            Command::Govern {
                added,
                revoked,
                readers,
                period,
            } => return self.govern(call, added, revoked, readers, *period),
            Command::Read { records } => self.ask(call, Shape::Records, records, Want::Record)?,
            Command::Subrecords { records } => self.ask(call, Shape::Subrecords, records, Want::Tree)?,
            Command::QueryFresh => self.ask_fresh(call, Purpose::Tell),
            Command::Describe => self.ask_fresh(call, Purpose::Describe),
            Command::ReadParts { parts } => {
                check_elements(parts.len())?;
                let wants = parts.iter().map(|(record, index)| Want::Part(*record, *index));
                self.query(Query::new(call, Shape::Parts, wants.collect()));
            }
            Command::Export { record, extent } => {
                self.ask(call, Shape::File(*extent), &[*record], Want::Evidence)?;
            }
            Command::Accuse { records } => self.ask(call, Shape::Fork, records, Want::Signed)?,
        }
        Ok(())
    }

    fn ask(
        &mut self,
        call: (u32, u64),
        shape: Shape,
        records: &[RecordName],
        want: fn(RecordName) -> Want,
    ) -> Result<()> {
        check_elements(records.len())?;
        let wants = records.iter().map(|record| want(*record)).collect();
        self.query(Query::new(call, shape, wants));
        Ok(())
    }
}

/// What a response may have beyond its results: a server looks at their length before it adds the last one.
const MAX_BEYOND: usize = crate::message::MAX_MESSAGE_BYTES;

fn deadline(job: &Job) -> Option<u64> {
    match job {
        Job::Store(store) => Some(store.deadline),
        Job::Query(query) => Some(query.deadline),
        Job::Fresh(query) => Some(query.deadline),
        Job::Describe(_) => None,
    }
}

/// How many bytes of content a command brings.
fn size(command: &Command) -> usize {
    match command {
        Command::Write { contents, .. } => contents.iter().map(Bytes::len).sum(),
        Command::Commit { subrecords, .. } => subrecords.iter().map(Bytes::len).sum(),
        Command::Govern { readers, .. } => readers.iter().map(|reader| reader.len()).sum(),
        _ => 0,
    }
}

impl Command {
    /// How many records it writes at most; one that signs is as if it wrote one.
    fn writes(&self) -> usize {
        match self {
            Self::Write { contents, .. } => contents.len(),
            Self::Commit { .. } | Self::Sign => 1,
            Self::Govern { readers, .. } => govern::records(readers.len()),
            _ => 0,
        }
    }
}

fn check_elements(count: usize) -> Result<()> {
    if count > MAX_ELEMENTS {
        return Err(Refusal::new(Code::TooLarge, MAX_ELEMENTS));
    }
    Ok(())
}
