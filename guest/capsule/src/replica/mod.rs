//! A server of capsules: stores what writers send it, proves it to readers, and signs for what is durable (DCS, section 3.2).
//!
//! It does no I/O. A host hands it requests and what the store answers, and carries out the effects that it asks for. Requests
//! are carried out one after the other, in the order in which they came; those that wait until they are durable do not keep
//! others from it, so that many share one write to the disk.

mod answer;
pub(crate) use answer::{BAD as BAD_RESPONSE, Results, Signed};
mod capsule;
mod census;
mod changes;
mod compare;
mod damage;
mod entry;
mod epochs;
mod exchange;
mod heads;
mod heal;
mod holes;
mod index;
mod introduced;
mod job;
mod layout;
mod limits;
mod mend;
mod mending;
mod newest;
mod opening;
mod parts;
mod prove;
mod push;
mod scanning;
mod sequences;
mod serve;
mod session;
mod space;
mod staged;
mod stored;
mod strays;
mod sync;
mod transfer;
mod trees;
mod unsigned;
mod values;
mod walk;
mod ways;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field};
use selfsame_write_batch::WriteBatch;

use crate::acknowledgement::{Acknowledgement, Stored};
use crate::hash::{CapsuleName, RecordName};
use crate::heads::Origin;
use crate::keys::{Key, KeyPair};
use crate::message::VERSION;
use crate::refusal::{Refusal, Result};
use crate::verifier::Verifier;
use capsule::{Capsule, Opening};
use exchange::Syncs;
pub(crate) use heads::MAX_HELD_HEADS;
use index::Outcome;
use introduced::Introduced;
use job::{Asker, Job, has_place};
pub use limits::Limits;
use opening::OpenCapsules;
use push::Pushes;
use serve::{Progress, SERIAL, Tools, Turn};
use session::{Session, Sessions};
use space::Space;
pub use space::Value;
pub use sync::{Outcome as SyncOutcome, PeerId, Synced};
use trees::Trees;
use walk::Page;

/// Names that are read at once: what the smallest store gives in one answer.
const PAGE: usize = 500;

/// From where a request comes, as the host can tell: a peer's id, or what stands for the network that an address is in. Of what cannot
/// be told apart all is one source.
pub type Source = [u8; 32];

/// What a replica asks its host to do
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read the values of keys; answered by [`Replica::values`].
    Get {
        /// What the answer is for.
        tag: u32,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// Read at most `limit` keys with `start <= key < end`, in order; answered by [`Replica::keys`].
    Scan {
        /// What the answer is for.
        tag: u32,
        /// Where to begin.
        start: Vec<u8>,
        /// Before what to end.
        end: Vec<u8>,
        /// How many at most.
        limit: usize,
    },
    /// Write all changes or none, after all that was asked to be written before; answered by [`Replica::committed`].
    Commit {
        /// What the answer is for.
        tag: u32,
        /// The changes, in their order; of one that only makes durable there are none.
        batch: WriteBatch,
        /// Whether these and all before are to survive a power loss.
        durable: bool,
    },
    /// Answer a request.
    Respond {
        /// Which.
        request: u32,
        /// The response.
        response: Vec<u8>,
    },
    /// Send a request to another replica of a capsule; answered by [`Replica::answered`], also when there is no response.
    Ask {
        /// What the answer is for.
        tag: u32,
        /// Whom to ask.
        peer: PeerId,
        /// The request.
        message: Vec<u8>,
    },
    /// A synchronisation that was asked for with [`Replica::sync`] has come to its end.
    Synced(Synced),
}

/// What the first job waits for
#[derive(Debug)]
enum Waiting {
    Values,
    Keys {
        kind: u8,
        end: Vec<u8>,
        found: Vec<RecordName>,
        /// Where these are what is looked for.
        heads: Vec<(RecordName, Origin)>,
    },
    Page,
}

/// A response that waits until what it acknowledges is durable
#[derive(Debug)]
struct Unacknowledged {
    asker: Asker,
    capsule: CapsuleName,
    response: Vec<u8>,
    stored: Stored,
}

/// A server of capsules
#[derive(Debug)]
pub struct Replica {
    server: KeyPair,
    owners: Vec<Key>,
    now_ms: u64,
    space: Space,
    sessions: Sessions,
    trees: Trees,
    /// Of the writers.
    verifier: Verifier,
    introduced: Introduced,
    open: OpenCapsules,
    /// What the first job is opening.
    opening: Option<Opening>,
    jobs: VecDeque<Job>,
    waiting: Option<(u32, Waiting)>,
    heads: Option<Vec<(RecordName, Origin)>>,
    pending: Option<Vec<RecordName>>,
    signed: Option<Vec<RecordName>>,
    page: Page,
    unacknowledged: Vec<Unacknowledged>,
    /// The durable commit under way, and whose acknowledgement waits for it.
    syncing: Option<(u32, Vec<Unacknowledged>)>,
    last_tag: u32,
    /// The last commit that was under way when the store failed.
    failed_until: u32,
    syncs: Syncs,
    pushes: Pushes,
    /// Responses to what the replica asked itself.
    answers: VecDeque<(u32, Vec<u8>)>,
    effects: VecDeque<Effect>,
}

impl Replica {
    /// A replica that signs with this key; its store is read as it is needed.
    #[must_use]
    pub fn new(server: KeyPair, limits: Limits) -> Self {
        Self {
            server,
            owners: Vec::new(),
            now_ms: 0,
            space: Space::new(limits.cache),
            sessions: Sessions::new(limits.mirrors),
            trees: Trees::default(),
            verifier: Verifier::default(),
            introduced: Introduced::default(),
            open: OpenCapsules::default(),
            opening: None,
            jobs: VecDeque::new(),
            waiting: None,
            heads: None,
            pending: None,
            signed: None,
            page: None,
            unacknowledged: Vec::new(),
            syncing: None,
            last_tag: 0,
            failed_until: 0,
            syncs: Syncs::default(),
            pushes: Pushes::default(),
            answers: VecDeque::new(),
            effects: VecDeque::new(),
        }
    }

    /// Lets nobody but these owners create capsules here, and nobody bring such of others; everybody may if there are none.
    #[must_use]
    pub fn for_owners(mut self, owners: Vec<Key>) -> Self {
        self.owners = owners;
        self
    }

    /// What the host is to do next.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Takes a request, which [`Effect::Respond`] answers; `request` is what the host calls it, and `source` is whence it comes.
    pub fn request(&mut self, now_ms: u64, request: u32, source: Source, message: impl Into<Arc<Vec<u8>>>) {
        self.now_ms = now_ms;
        self.enqueue(Asker::Host(request), source, message.into());
        self.carry_on();
    }

    fn enqueue(&mut self, asker: Asker, source: Source, message: Arc<Vec<u8>>) {
        let job = if has_place(&self.jobs, source) {
            Job::read(asker, source, message)
        } else {
            Err(Refusal::new(Code::TooManyRequests, 0))
        };
        match job {
            Ok(job) => self.jobs.push_back(job),
            Err(refusal) => self.refuse(asker, refusal),
        }
    }

    /// Takes the keys of an [`Effect::Get`] with their values.
    pub fn values<'a>(&mut self, tag: u32, values: impl IntoIterator<Item = (&'a [u8], Value<'a>)>) {
        if !matches!(self.waiting, Some((expected, Waiting::Values)) if expected == tag) {
            return;
        }
        self.waiting = None;
        let read = values
            .into_iter()
            .filter_map(|(key, value)| Some((layout::Key::read(key)?, value)));
        self.space.learn_all(read);
        self.carry_on();
    }

    /// The store could not answer an [`Effect::Get`] or [`Effect::Scan`]: whoever waits is told.
    pub fn unread(&mut self, tag: u32) {
        if self
            .waiting
            .as_ref()
            .is_some_and(|(expected, _)| *expected == tag)
        {
            self.fail();
        }
    }

    /// Takes the outcome of an [`Effect::Commit`].
    pub fn committed(&mut self, now_ms: u64, tag: u32, is_written: bool) {
        self.now_ms = now_ms;
        if !is_written {
            // Others that were under way when one failed tell nothing new.
            if tag.wrapping_sub(self.failed_until).wrapping_sub(1) <= u32::MAX / 2 {
                self.fail();
            }
            return;
        }
        if let Some((_, synced)) = self.syncing.take_if(|(expected, _)| *expected == tag) {
            self.acknowledge(synced);
            self.make_durable();
            self.carry_on();
        }
    }

    fn carry_on(&mut self) {
        self.run_jobs();
        while let Some((exchange, response)) = self.answers.pop_front() {
            self.answered_here(exchange, &response);
            self.run_jobs();
        }
    }

    fn run_jobs(&mut self) {
        while self.waiting.is_none()
            && let Some(mut job) = self.jobs.pop_front()
        {
            match self.advance(&mut job) {
                Ok(Turn::Done) => {
                    self.forget_reading();
                    self.end(job);
                }
                Ok(Turn::Waits) => self.jobs.push_front(job),
                Ok(Turn::Yields) => {
                    self.forget_reading();
                    self.jobs.push_back(job);
                }
                Err(refusal) => {
                    // What it changed is not written, nor believed.
                    self.space.clear();
                    self.trees.clear();
                    self.forget_reading();
                    self.refuse(job.asker, refusal);
                }
            }
        }
    }

    /// Brings a job's session up to date, and expects what the job reads.
    fn begin(&mut self, job: &mut Job, capsule: Option<&mut Capsule>) {
        job.is_expected = true;
        let (name, session) = (job.envelope.capsule, job.envelope.session);
        if let Some(slots_log2) = job.opens {
            self.sessions.open(name, session, slots_log2);
        } else {
            let verified = job.envelope.verified;
            self.sessions
                .change(name, session, |session| session.verified(verified));
        }
        if let Some(capsule) = capsule {
            let session = self.sessions.get(name, session);
            let mirror = session.map(Session::mirror);
            job.expect(capsule, (&mut self.space, &self.trees), mirror);
        }
    }

    /// Carries a job on as far as it goes.
    fn advance(&mut self, job: &mut Job) -> Result<Turn> {
        let (name, session) = (job.envelope.capsule, job.envelope.session);
        let Outcome::Done(mut capsule) = self.opened(&name)? else {
            return Ok(Turn::Waits);
        };
        if let Some(open) = &mut capsule
            && self.heeds_damage(open)
        {
            return self.advance(job);
        }
        if !job.is_expected {
            self.begin(job, capsule.as_deref_mut());
            if self.ask() {
                self.keep_open(name, job.source, capsule);
                return Ok(Turn::Waits);
            }
        }
        let progress = loop {
            let mut tools = Tools {
                space: &mut self.space,
                session: self.sessions.get(name, session),
                trees: &mut self.trees,
                verifier: &mut self.verifier,
                introduced: &mut self.introduced,
                server: &self.server,
                owners: &self.owners,
                now_ms: self.now_ms,
                signed: &mut self.signed,
                page: &mut self.page,
            };
            match job.run(&mut capsule, &mut tools)? {
                Progress::Flush => _ = self.commit(false),
                Progress::Reopen => return self.advance(job),
                other => break other,
            }
        };
        if let Some(open) = &mut capsule
            && progress == Progress::Done
            && open.index_mut().damage_mut().begin_mending()
        {
            self.jobs.push_back(Job::mend(name));
        }
        self.keep_open(name, job.source, capsule);
        match progress {
            Progress::Done | Progress::Flush | Progress::Reopen => return Ok(Turn::Done),
            Progress::Wait => _ = self.ask(),
            Progress::NeedsSigned => {
                // What this request has signed itself is among it.
                self.commit(false);
                self.scan_all(&name, layout::SIGNED);
            }
            Progress::Scan(_) if job.had_page && !self.jobs.is_empty() => {
                job.had_page = false;
                return Ok(Turn::Yields);
            }
            Progress::Scan((start, end)) => {
                job.had_page = true;
                self.push_scan(Waiting::Page, start, end);
            }
        }
        Ok(Turn::Waits)
    }

    /// Answers a job, once what it stored is durable.
    fn end(&mut self, job: Job) {
        let Job { asker, envelope, .. } = job;
        if let Asker::Host(_) = asker {
            self.push_on(&job);
        }
        let (mut response, learned, stored) = job.into_parts();
        let respond = |session: &mut Session| session.respond(learned);
        let serial = self.sessions.change(envelope.capsule, envelope.session, respond);
        response[SERIAL].copy_from_slice(&serial.unwrap_or(0).to_le_bytes());
        if stored.is_empty() {
            self.commit(false);
            response.push(0);
            self.answer(asker, response);
            return;
        }
        self.unacknowledged.push(Unacknowledged {
            asker,
            capsule: envelope.capsule,
            response,
            stored,
        });
        let is_last = self.commit(self.syncing.is_none());
        if self.syncing.is_none() {
            self.syncing = Some((is_last, core::mem::take(&mut self.unacknowledged)));
        }
    }

    /// Signs for what is durable, and answers.
    fn acknowledge(&mut self, synced: Vec<Unacknowledged>) {
        let all: Vec<_> = synced.iter().map(|one| (&one.capsule, &one.stored)).collect();
        let words = Acknowledgement::sign_each(&self.server, &all, self.now_ms);
        for (mut one, word) in synced.into_iter().zip(words) {
            one.response.push(1);
            word.write(&mut one.response);
            self.answer(one.asker, one.response);
        }
    }

    fn answer(&mut self, asker: Asker, response: Vec<u8>) {
        match asker {
            Asker::Host(request) => self.effects.push_back(Effect::Respond { request, response }),
            Asker::Exchange(exchange) => self.answers.push_back((exchange, response)),
            Asker::Nobody => {}
        }
    }

    /// Makes durable what others have written meanwhile.
    fn make_durable(&mut self) {
        if !self.unacknowledged.is_empty() {
            let tag = self.tag();
            self.syncing = Some((tag, core::mem::take(&mut self.unacknowledged)));
            self.effects.push_back(Effect::Commit {
                tag,
                batch: WriteBatch::default(),
                durable: true,
            });
        }
    }

    /// Writes what was changed; returns the tag of the last commit, which is durable if asked for.
    fn commit(&mut self, durable: bool) -> u32 {
        let mut parts = self.space.take_changes();
        let last = parts.pop();
        for batch in parts {
            self.push_commit(batch, false);
        }
        match last {
            Some(batch) => self.push_commit(batch, durable),
            None if durable => self.push_commit(WriteBatch::default(), true),
            None => self.last_tag,
        }
    }

    fn push_commit(&mut self, batch: WriteBatch, durable: bool) -> u32 {
        let tag = self.tag();
        self.effects.push_back(Effect::Commit { tag, batch, durable });
        tag
    }

    /// Asks for the values that are missing; whether there are any.
    fn ask(&mut self) -> bool {
        let keys: Vec<Vec<u8>> = self.space.take_wanted().iter().map(|key| key.to_vec()).collect();
        if keys.is_empty() {
            return false;
        }
        let tag = self.tag();
        self.waiting = Some((tag, Waiting::Values));
        self.effects.push_back(Effect::Get { tag, keys });
        true
    }

    fn tag(&mut self) -> u32 {
        self.last_tag = self.last_tag.wrapping_add(1);
        self.last_tag
    }

    /// What was read for the job before is not for the next one.
    fn forget_reading(&mut self) {
        (self.heads, self.pending, self.signed, self.page) = (None, None, None, None);
        self.opening = None;
    }

    /// The store did not write: nobody is told that anything is stored, and all is read again.
    fn fail(&mut self) {
        self.failed_until = self.last_tag;
        let refusal = Refusal::new(Code::StoreFailed, 0);
        self.space.clear();
        self.trees.clear();
        self.open = OpenCapsules::default();
        self.waiting = None;
        self.forget_reading();
        let synced = self.syncing.take().map_or_else(Vec::new, |(_, synced)| synced);
        let waiting = synced
            .into_iter()
            .chain(core::mem::take(&mut self.unacknowledged));
        let mut askers: Vec<Asker> = waiting.map(|one| one.asker).collect();
        askers.extend(core::mem::take(&mut self.jobs).iter().map(|job| job.asker));
        askers.into_iter().for_each(|asker| self.refuse(asker, refusal));
        self.carry_on();
    }

    fn refuse(&mut self, asker: Asker, refusal: Refusal) {
        let mut response = Vec::from([VERSION]);
        refusal.code.as_u16().write(&mut response);
        refusal.at.write(&mut response);
        self.answer(asker, response);
    }
}
