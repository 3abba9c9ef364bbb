//! A server of capsules: stores what writers send it, proves it to readers, and signs for what is durable (DCS, section 3.2).
//!
//! It does no I/O. A host hands it requests and what the store answers, and carries out the effects that it asks for. Requests
//! are carried out one after the other, in the order in which they came; those that wait until they are durable do not keep
//! others from it, so that many share one write to the disk.

mod capsule;
mod entry;
mod epochs;
mod index;
mod job;
mod layout;
mod prove;
mod session;
mod space;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use crate::hash::{CapsuleName, RecordName};
use crate::keys::KeyPair;
use crate::message::{Acknowledgement, Envelope, Stored, VERSION};
use crate::refusal::{Refusal, Result};
use capsule::Capsule;
use index::Outcome;
use job::{Job, Progress, Tools};
use session::Sessions;
pub use space::{Change, Value};
use space::{Missing, Space};

/// Most requests that wait for their turn.
const MAX_JOBS: usize = 4096;
/// Most capsules that are open at a time: each takes some kilobytes.
const MAX_OPEN: usize = 256;
/// Names that are read at once: what the smallest store gives in one answer.
const PAGE: usize = 500;

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
        changes: Vec<Change>,
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
}

/// How much memory a replica uses
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the store that it remembers.
    pub cache: usize,
    /// Bytes of mirrors of readers' caches.
    pub mirrors: usize,
}

impl Default for Limits {
    /// For the smallest platform: an isolate of 128 MB that it shares with others.
    fn default() -> Self {
        Self {
            cache: 16 << 20,
            mirrors: 8 << 20,
        }
    }
}

/// What the first job waits for
#[derive(Debug)]
enum Waiting {
    Values,
    Keys {
        kind: u8,
        end: Vec<u8>,
        found: Vec<RecordName>,
    },
}

/// A response that waits until what it acknowledges is durable
#[derive(Debug)]
struct Unacknowledged {
    request: u32,
    capsule: CapsuleName,
    response: Vec<u8>,
    stored: Stored,
}

/// A server of capsules
#[derive(Debug)]
pub struct Replica {
    server: KeyPair,
    now_ms: u64,
    space: Space,
    sessions: Sessions,
    open: BTreeMap<CapsuleName, Capsule>,
    jobs: VecDeque<Job>,
    is_expected: bool,
    waiting: Option<(u32, Waiting)>,
    heads: Option<Vec<RecordName>>,
    pending: Option<Vec<RecordName>>,
    signed: Option<Vec<RecordName>>,
    unacknowledged: Vec<Unacknowledged>,
    /// The durable commit under way, and whose acknowledgement waits for it.
    syncing: Option<(u32, Vec<Unacknowledged>)>,
    last_tag: u32,
    effects: VecDeque<Effect>,
}

impl Replica {
    /// A replica that signs with this key; its store is read as it is needed.
    #[must_use]
    pub fn new(server: KeyPair, limits: Limits) -> Self {
        Self {
            server,
            now_ms: 0,
            space: Space::new(limits.cache),
            sessions: Sessions::new(limits.mirrors),
            open: BTreeMap::new(),
            jobs: VecDeque::new(),
            is_expected: false,
            waiting: None,
            heads: None,
            pending: None,
            signed: None,
            unacknowledged: Vec::new(),
            syncing: None,
            last_tag: 0,
            effects: VecDeque::new(),
        }
    }

    /// What the host is to do next.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Takes a request, which [`Effect::Respond`] answers; `request` is what the host calls it.
    pub fn request(&mut self, now_ms: u64, request: u32, message: Vec<u8>) {
        self.now_ms = now_ms;
        let job = if self.jobs.len() < MAX_JOBS {
            Job::read(request, message)
        } else {
            Err(Refusal::new(Code::TooManyRequests, 0))
        };
        match job {
            Ok(job) => self.jobs.push_back(job),
            Err(refusal) => self.refuse(request, refusal),
        }
        self.carry_on();
    }

    /// Takes the keys of an [`Effect::Get`] with their values.
    pub fn values(&mut self, tag: u32, values: Vec<(Vec<u8>, Value)>) {
        if !matches!(self.waiting, Some((expected, Waiting::Values)) if expected == tag) {
            return;
        }
        self.waiting = None;
        for (key, value) in values {
            self.space.learn(key, value);
        }
        self.carry_on();
    }

    /// Takes the keys of an [`Effect::Scan`].
    pub fn keys(&mut self, tag: u32, keys: &[Vec<u8>]) {
        let Some((_, Waiting::Keys { kind, end, mut found })) = self
            .waiting
            .take_if(|(expected, waiting)| *expected == tag && matches!(waiting, Waiting::Keys { .. }))
        else {
            return;
        };
        found.extend(keys.iter().filter_map(|key| layout::record_in(key)));
        match keys.last().filter(|_| keys.len() >= PAGE) {
            Some(last) => {
                let start = [last.as_slice(), &[0]].concat();
                self.scan(kind, start, end, found);
            }
            None => {
                let place = match kind {
                    layout::HEAD => &mut self.heads,
                    layout::PENDING => &mut self.pending,
                    _ => &mut self.signed,
                };
                *place = Some(found);
                self.carry_on();
            }
        }
    }

    /// Takes the outcome of an [`Effect::Commit`].
    pub fn committed(&mut self, now_ms: u64, tag: u32, is_written: bool) {
        self.now_ms = now_ms;
        if !is_written {
            self.fail();
            return;
        }
        if let Some((_, synced)) = self.syncing.take_if(|(expected, _)| *expected == tag) {
            for one in synced {
                self.acknowledge(one);
            }
            self.sync();
        }
    }

    fn carry_on(&mut self) {
        while self.waiting.is_none()
            && let Some(mut job) = self.jobs.pop_front()
        {
            match self.advance(&mut job) {
                Ok(true) => {
                    self.forget_reading();
                    self.end(job);
                }
                Ok(false) => self.jobs.push_front(job),
                Err(refusal) => {
                    self.forget_reading();
                    self.refuse(job.request, refusal);
                }
            }
        }
    }

    /// Carries a job on; whether it is done. If not, something is waited for.
    fn advance(&mut self, job: &mut Job) -> Result<bool> {
        let Envelope {
            capsule: name,
            session,
            verified,
        } = job.envelope;
        let Outcome::Done(mut capsule) = self.opened(&name)? else {
            return Ok(false);
        };
        if !self.is_expected {
            self.is_expected = true;
            match job.opens {
                Some(slots_log2) => self.sessions.open(name, session, slots_log2),
                None => {
                    _ = self
                        .sessions
                        .get(name, session)
                        .map(|session| session.verified(verified))
                }
            }
            if let Some(capsule) = &capsule {
                job.expect(capsule, &mut self.space);
            }
            if self.ask() {
                self.keep_open(name, capsule);
                return Ok(false);
            }
        }
        let progress = loop {
            let mut tools = Tools {
                space: &mut self.space,
                session: self.sessions.get(name, session),
                server: &self.server,
                now_ms: self.now_ms,
                signed: self.signed.as_deref(),
            };
            match job.run(&mut capsule, &mut tools) {
                Progress::Flush => self.commit(false),
                other => break other,
            };
        };
        self.keep_open(name, capsule);
        match progress {
            Progress::Wait => _ = self.ask(),
            Progress::NeedsSigned => self.scan_all(&name, layout::SIGNED),
            Progress::Done | Progress::Flush => return Ok(true),
        }
        Ok(false)
    }

    /// The capsule, taken out of those that are open; nothing if it is not stored.
    fn opened(&mut self, name: &CapsuleName) -> Result<Outcome<Option<Capsule>>> {
        if let Some(capsule) = self.open.remove(name) {
            return Ok(Outcome::Done(Some(capsule)));
        }
        let is_stored = match self.space.get(&layout::single(name, layout::METADATA)) {
            Ok(metadata) => metadata.is_some(),
            Err(Missing) => {
                self.ask();
                return Ok(Outcome::Wait);
            }
        };
        if !is_stored {
            return Ok(Outcome::Done(None));
        }
        let (Some(heads), Some(pending)) = (&self.heads, &self.pending) else {
            let kind = if self.heads.is_none() {
                layout::HEAD
            } else {
                layout::PENDING
            };
            self.scan_all(name, kind);
            return Ok(Outcome::Wait);
        };
        let opened = Capsule::open(&mut self.space, name, heads, pending)?;
        if matches!(opened, Outcome::Wait) {
            self.ask();
        }
        Ok(opened)
    }

    fn keep_open(&mut self, name: CapsuleName, capsule: Option<Capsule>) {
        if let Some(capsule) = capsule {
            if self.open.len() >= MAX_OPEN {
                self.open.pop_first();
            }
            self.open.insert(name, capsule);
        }
    }

    /// Answers a job, once what it stored is durable.
    fn end(&mut self, job: Job) {
        let Job {
            request, envelope, ..
        } = job;
        let (results, learned, stored) = job.into_parts();
        let session = self.sessions.get(envelope.capsule, envelope.session);
        let serial = session.map_or(0, |session| session.respond(learned));
        let mut response = Vec::with_capacity(results.len() + 128);
        response.push(VERSION);
        0_u16.write(&mut response);
        serial.write(&mut response);
        response.extend_from_slice(&results);
        if stored.is_empty() {
            self.commit(false);
            response.push(0);
            self.effects.push_back(Effect::Respond { request, response });
            return;
        }
        self.unacknowledged.push(Unacknowledged {
            request,
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
    fn acknowledge(&mut self, one: Unacknowledged) {
        let Unacknowledged {
            request,
            capsule,
            mut response,
            stored,
        } = one;
        response.push(1);
        Acknowledgement::sign(&self.server, &capsule, &stored, self.now_ms).write(&mut response);
        self.effects.push_back(Effect::Respond { request, response });
    }

    /// Makes durable what others have written meanwhile.
    fn sync(&mut self) {
        if !self.unacknowledged.is_empty() {
            let tag = self.tag();
            self.syncing = Some((tag, core::mem::take(&mut self.unacknowledged)));
            self.effects.push_back(Effect::Commit {
                tag,
                changes: Vec::new(),
                durable: true,
            });
        }
    }

    /// Writes what was changed; returns the tag of the last commit, which is durable if asked for.
    fn commit(&mut self, durable: bool) -> u32 {
        let mut parts = self.space.take_changes();
        let last = parts.pop();
        for changes in parts {
            self.push_commit(changes, false);
        }
        match last {
            Some(changes) => self.push_commit(changes, durable),
            None if durable => self.push_commit(Vec::new(), true),
            None => self.last_tag,
        }
    }

    fn push_commit(&mut self, changes: Vec<Change>, durable: bool) -> u32 {
        let tag = self.tag();
        self.effects.push_back(Effect::Commit {
            tag,
            changes,
            durable,
        });
        tag
    }

    /// Asks for the values that are missing; whether there are any.
    fn ask(&mut self) -> bool {
        let keys = self.space.take_wanted();
        if keys.is_empty() {
            return false;
        }
        let tag = self.tag();
        self.waiting = Some((tag, Waiting::Values));
        self.effects.push_back(Effect::Get { tag, keys });
        true
    }

    fn scan_all(&mut self, name: &CapsuleName, kind: u8) {
        let (start, end) = layout::range(name, kind);
        self.scan(kind, start, end, Vec::new());
    }

    fn scan(&mut self, kind: u8, start: Vec<u8>, end: Vec<u8>, found: Vec<RecordName>) {
        let tag = self.tag();
        let waiting = Waiting::Keys {
            kind,
            end: end.clone(),
            found,
        };
        self.waiting = Some((tag, waiting));
        self.effects.push_back(Effect::Scan {
            tag,
            start,
            end,
            limit: PAGE,
        });
    }

    fn tag(&mut self) -> u32 {
        self.last_tag = self.last_tag.wrapping_add(1);
        self.last_tag
    }

    /// What was read for the job before is not for the next one.
    fn forget_reading(&mut self) {
        self.is_expected = false;
        (self.heads, self.pending, self.signed) = (None, None, None);
    }

    /// The store did not write: nobody is told that anything is stored, and all is read again.
    fn fail(&mut self) {
        let refusal = Refusal::new(Code::StoreFailed, 0);
        self.space.clear();
        self.open.clear();
        self.waiting = None;
        self.forget_reading();
        let synced = self.syncing.take().map_or_else(Vec::new, |(_, synced)| synced);
        let waiting = synced
            .into_iter()
            .chain(core::mem::take(&mut self.unacknowledged));
        let mut requests: Vec<u32> = waiting.map(|one| one.request).collect();
        requests.extend(core::mem::take(&mut self.jobs).iter().map(|job| job.request));
        requests
            .into_iter()
            .for_each(|request| self.refuse(request, refusal));
    }

    fn refuse(&mut self, request: u32, refusal: Refusal) {
        let mut response = Vec::from([VERSION]);
        refusal.code.as_u16().write(&mut response);
        refusal.at.write(&mut response);
        self.effects.push_back(Effect::Respond { request, response });
    }
}
