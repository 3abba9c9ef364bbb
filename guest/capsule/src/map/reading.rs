//! Reading: the newest operation on a key is looked for in what has come lately and in the tree, and its value in its record.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::Code;

use super::command::{Entries, Entry, Freshness, Held, MAX_ENTRIES, Place, Range, Reply};
use super::feed::{Changed, Watcher};
use super::format::{Head, Holds, Kind, MAX_CLOCK, Stored, Version, check_claim};
use super::parts::Parts;
use super::refreshing::Waiter;
use super::tree::{self, Leaf, Look};
use super::view::Base;
use super::{Call, Map};
use crate::client;
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result};

/// Values that are asked for at once.
const ASKED: usize = 64;
/// Bytes of values after which a reply ends.
const REPLY_BYTES: usize = 4 << 20;
/// Keys of one reply about changes.
const CHANGED: usize = 256;

/// A command that reads
#[derive(Debug)]
pub(super) struct Job {
    command: u32,
    work: Work,
    found: Vec<(Vec<u8>, Version)>,
    entries: Vec<Entry>,
    bytes: usize,
    more: bool,
    version: u64,
    /// Sub-records that it waits for.
    pending: usize,
    failed: Option<Refusal>,
}

/// What a job has yet to find
#[derive(Debug)]
enum Work {
    /// The entries of keys, the last one first; also of those that were deleted.
    Keys(Vec<Vec<u8>>, bool),
    /// Entries from a key on, at most so many, with their values.
    Scan(Range, usize, bool),
    /// Operations on a key, at most so many.
    Chain(Vec<u8>, Link, usize),
    /// The values of what was found; whether all of it is told, if need be without values.
    Values(bool),
}

/// Where the next older operation on a key is
#[derive(Clone, Copy, Debug)]
enum Link {
    /// It is the newest.
    Newest,
    /// There; whether it is told.
    At(Place, bool),
    /// In the tree of this index record.
    In(RecordName),
}

/// What a job comes to for now
enum Step {
    Done,
    Missing(Vec<Place>),
    /// What it wants to read has to be signed first.
    Unsigned,
}

/// Who waits for sub-records
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum User {
    Job(u32),
    Growth,
}

/// Reading under way
#[derive(Debug, Default)]
pub(super) struct Reading {
    jobs: BTreeMap<u32, Job>,
    last: u32,
    wanted: BTreeMap<Place, Vec<User>>,
    pub(super) watchers: Vec<Watcher>,
}

impl Map {
    /// Begins to read the entry of a key.
    pub(super) fn get(&mut self, command: u32, key: Vec<u8>, freshness: Freshness) {
        self.add_job(command, Work::Keys(Vec::from([key]), false), freshness);
    }

    /// Begins to list entries.
    pub(super) fn list(
        &mut self,
        command: u32,
        range: Range,
        (limit, values): (usize, bool),
        fresh: Freshness,
    ) {
        self.add_job(
            command,
            Work::Scan(range, limit.clamp(1, MAX_ENTRIES), values),
            fresh,
        );
    }

    /// Begins to read what a key was.
    pub(super) fn history(&mut self, command: u32, key: Vec<u8>, before: Option<Place>, limit: usize) {
        let link = before.map_or(Link::Newest, |place| Link::At(place, false));
        let limit = limit.clamp(1, MAX_ENTRIES);
        self.add_job(command, Work::Chain(key, link, limit), Freshness::Newest);
    }

    /// Begins to wait for changes.
    pub(super) fn watch(&mut self, watcher: Watcher) {
        self.reading.watchers.push(watcher);
        if self.refreshing.is_open {
            self.tell_watchers();
        } else {
            self.refresh(Waiter::Watchers);
        }
    }

    /// Says after which change is what will change.
    pub(super) fn begin_watching(&mut self, command: u32) {
        self.add_job(command, Work::Keys(Vec::new(), true), Freshness::Newest);
    }

    /// Ends waiting for changes; whether somebody waited.
    pub(super) fn cancel(&mut self, command: u32) -> bool {
        let watchers = &mut self.reading.watchers;
        let before = watchers.len();
        watchers.retain(|watcher| watcher.command != command);
        before > watchers.len()
    }

    /// Tells those who wait what has changed.
    pub(super) fn tell_watchers(&mut self) {
        if !self.refreshing.is_open {
            return;
        }
        for watcher in core::mem::take(&mut self.reading.watchers) {
            match self.feed.since(watcher.since, &watcher.range, CHANGED) {
                Changed::Nothing => self.reading.watchers.push(watcher),
                Changed::Unknown(version) => {
                    let entries = Entries {
                        entries: Vec::new(),
                        more: true,
                        version,
                    };
                    self.reply(watcher.command, Ok(Reply::Entries(entries)));
                }
                Changed::Keys(mut keys, version) => {
                    keys.reverse();
                    let job = self.add_job(watcher.command, Work::Keys(keys, true), Freshness::Known);
                    if let Some(job) = self.reading.jobs.get_mut(&job) {
                        job.version = version;
                    }
                }
            }
        }
    }

    fn add_job(&mut self, command: u32, work: Work, freshness: Freshness) -> u32 {
        self.reading.last = self.reading.last.wrapping_add(1);
        let number = self.reading.last;
        let job = Job {
            command,
            work,
            found: Vec::new(),
            entries: Vec::new(),
            bytes: 0,
            more: false,
            version: self.feed.last(),
            pending: 0,
            failed: None,
        };
        self.reading.jobs.insert(number, job);
        if freshness == Freshness::Newest || !self.refreshing.is_open {
            self.refresh(Waiter::Job(number));
        } else {
            self.ready.push_back(number);
        }
        number
    }

    /// Goes on with a job as far as it comes.
    pub(super) fn run(&mut self, number: u32) {
        let Some(mut job) = self.reading.jobs.remove(&number) else {
            return;
        };
        let step = match job.failed {
            Some(refusal) => Err(refusal),
            None => self.advance(&mut job),
        };
        match step {
            // A writer's index that is none takes nothing from what others have written.
            Err(refusal) if job.failed.is_none() && refusal.code == Code::BadTree && self.distrust_base() => {
                self.reading.jobs.insert(number, job);
                self.refresh(Waiter::Job(number));
            }
            Ok(Step::Done) => {
                let entries = Entries {
                    entries: job.entries,
                    more: job.more,
                    version: job.version,
                };
                self.reply(job.command, Ok(Reply::Entries(entries)));
            }
            Err(refusal) => self.reply(job.command, Err(refusal)),
            Ok(Step::Missing(places)) => {
                job.pending = places.len();
                self.reading.jobs.insert(number, job);
                self.want(&places, User::Job(number));
            }
            Ok(Step::Unsigned) => {
                self.reading.jobs.insert(number, job);
                self.sign_for(number);
            }
        }
    }

    fn advance(&mut self, job: &mut Job) -> Result<Step> {
        loop {
            let step = match &mut job.work {
                Work::Keys(keys, deleted) => {
                    let deleted = *deleted;
                    let Some(key) = keys.last() else {
                        job.work = Work::Values(deleted);
                        continue;
                    };
                    let version = match self.version_of(key)? {
                        Look::Found(version) => version,
                        Look::Missing(missing) => return Ok(Step::Missing(missing)),
                    };
                    let key = keys.pop().unwrap_or_default();
                    let told = version.filter(|version| deleted || version.kind == Kind::Set);
                    job.found.extend(told.map(|version| (key, version)));
                    None
                }
                Work::Scan(..) => self.scan(job)?,
                Work::Chain(..) => self.chain(job)?,
                Work::Values(all) => {
                    let all = *all;
                    return self.fill(job, all);
                }
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// The operation that counts on a key.
    fn version_of(&mut self, key: &[u8]) -> Result<Look<Option<Version>>> {
        let newest = self.view.newest(key);
        if let Some(version) = newest.filter(|version| self.view.is_settled(version)) {
            return Ok(Look::Found(Some(version)));
        }
        let Some(base) = &self.view.base else {
            return Ok(Look::Found(newest));
        };
        let old = match tree::find(&mut self.parts, base.root, key)? {
            Look::Found(old) => old,
            missing @ Look::Missing(_) => return Ok(missing),
        };
        if let (Some(old), Some(newest)) = (&old, &newest)
            && old.contradicts(newest)
            && let Look::Missing(missing) = check_claims(&mut self.parts, &[*old])?
        {
            return Ok(Look::Missing(missing));
        }
        Ok(Look::Found(Version::newer(newest, old)))
    }

    /// Takes the entries of one leaf.
    fn scan(&mut self, job: &mut Job) -> Result<Option<Step>> {
        let Work::Scan(range, limit, values) = &mut job.work else {
            return Ok(None);
        };
        let leaf = match &self.view.base {
            None => Leaf {
                entries: Vec::new(),
                next: None,
            },
            Some(base) => match tree::leaf_of(&mut self.parts, base.root, &range.start, *limit > 1)? {
                Look::Found(leaf) => leaf,
                Look::Missing(missing) => return Ok(Some(Step::Missing(missing))),
            },
        };
        let is_inside = |key: &[u8]| {
            key >= range.start.as_slice()
                && range.is_before_end(key)
                && leaf.next.as_deref().is_none_or(|next| key < next)
        };
        let old = leaf.entries.into_iter().filter(|(key, _)| is_inside(key));
        let mut merged: BTreeMap<Vec<u8>, Version> = old.collect();
        let mut claimed = Vec::new();
        for (key, version) in self.view.from(&range.start).take_while(|(key, _)| is_inside(key)) {
            let known = merged.entry(key.to_vec()).or_insert(version);
            if known.contradicts(&version) {
                claimed.push(*known);
            }
            if version.beats(known) {
                *known = version;
            }
        }
        if let Look::Missing(missing) = check_claims(&mut self.parts, &claimed)? {
            return Ok(Some(Step::Missing(missing)));
        }
        for (key, version) in merged {
            if version.kind == Kind::Set {
                if *limit == 0 {
                    job.more = true;
                    break;
                }
                *limit -= 1;
                job.found.push((key, version));
            }
        }
        match leaf.next.filter(|next| range.is_before_end(next) && !job.more) {
            Some(next) => range.start = next,
            None if *values => job.work = Work::Values(false),
            None => {
                let found = core::mem::take(&mut job.found);
                job.entries = found.into_iter().map(unread).collect();
                return Ok(Some(Step::Done));
            }
        }
        Ok(None)
    }

    /// Goes one step back in the history of a key.
    fn chain(&mut self, job: &mut Job) -> Result<Option<Step>> {
        let Work::Chain(key, link, left) = &mut job.work else {
            return Ok(None);
        };
        let next = match *link {
            Link::Newest => match self.version_of(key)? {
                Look::Missing(missing) => return Ok(Some(Step::Missing(missing))),
                Look::Found(version) => version.map(|version| Link::At(version.place, true)),
            },
            Link::In(index) => {
                let head = Place {
                    record: index,
                    index: 0,
                };
                let Some(bytes) = self.parts.get(&head) else {
                    return Ok(Some(Step::Missing(Vec::from([head]))));
                };
                let head = Head::decode(&bytes)?;
                let Holds::Index(found) = &head.holds else {
                    return Err(super::bad_record());
                };
                let root = Base::new(index, head.clock, found).root;
                // It need not be the tree on which all builds.
                match tree::find(&mut self.parts, root, key).map_err(|_| super::bad_record())? {
                    Look::Missing(missing) => return Ok(Some(Step::Missing(missing))),
                    Look::Found(version) => version.map(|version| Link::At(version.place, true)),
                }
            }
            Link::At(place, is_told) => {
                if is_told && (*left == 0 || job.bytes > REPLY_BYTES) {
                    job.more = true;
                    return Ok(Some(Step::Done));
                }
                if self.writing.is_unsigned(&place.record) {
                    return Ok(Some(Step::Unsigned));
                }
                let (mut entry, before) = match read_link(&mut self.parts, place, key)? {
                    Look::Missing(missing) => return Ok(Some(Step::Missing(missing))),
                    Look::Found(found) => found,
                };
                // It only ever leads back in time, whatever a record says.
                if let Some(last) = job.entries.last() {
                    entry.clock = entry.clock.min(last.clock);
                }
                if is_told {
                    *left -= 1;
                    job.bytes += held_bytes(&entry);
                    job.entries.push(entry);
                }
                before
            }
        };
        match next {
            Some(next) => *link = next,
            None => return Ok(Some(Step::Done)),
        }
        Ok(None)
    }

    /// Reads the values of what was found, as far as they fit in a reply.
    fn fill(&mut self, job: &mut Job, all: bool) -> Result<Step> {
        while let Some((key, version)) = job.found.get(job.entries.len()) {
            if self.writing.is_unsigned(&version.place.record) {
                return Ok(Step::Unsigned);
            }
            let is_full = job.bytes > REPLY_BYTES;
            if is_full && !all {
                job.more = true;
                break;
            }
            let held = match version.kind {
                Kind::Delete => Held::Nothing,
                Kind::Set if is_full => Held::Unread,
                Kind::Set => {
                    let Some(bytes) = self.parts.get(&version.place) else {
                        return Ok(Step::Missing(self.next_values(job)));
                    };
                    let stored = Stored::decode(&bytes)?;
                    if stored.key != *key || stored.kind != Kind::Set {
                        return Err(super::bad_record());
                    }
                    job.bytes += stored.value.len();
                    Held::Value(stored.value.to_vec())
                }
            };
            job.entries.push(Entry {
                key: key.clone(),
                place: version.place,
                clock: version.clock.min(MAX_CLOCK),
                held,
            });
        }
        Ok(Step::Done)
    }

    fn next_values(&mut self, job: &Job) -> Vec<Place> {
        let left = job.found[job.entries.len()..].iter();
        let set = left.filter(|(_, version)| version.kind == Kind::Set);
        let places = set.map(|(_, version)| version.place).take(ASKED);
        let missing = places
            .filter(|place| !self.writing.is_unsigned(&place.record) && self.parts.get(place).is_none());
        missing.collect()
    }

    /// Asks for sub-records.
    pub(super) fn want(&mut self, places: &[Place], user: User) {
        let mut asked = Vec::new();
        for place in places {
            let users = self.reading.wanted.entry(*place).or_default();
            users.push(user);
            if users.len() == 1 {
                asked.push(*place);
            }
        }
        if !asked.is_empty() {
            let parts = asked.iter().map(|place| (place.record, place.index)).collect();
            self.call(Call::Parts(asked), client::Command::ReadParts { parts });
        }
    }

    /// Takes sub-records.
    pub(super) fn take_parts(&mut self, places: &[Place], parts: Vec<Result<Bytes>>) {
        for (place, part) in places.iter().zip(parts) {
            let users = self.reading.wanted.remove(place).unwrap_or_default();
            let part: Result<Rc<[u8]>> = part.map(|part| Rc::from(&*part));
            if let Ok(bytes) = &part {
                self.parts.insert(*place, bytes.clone());
            }
            for user in users {
                match user {
                    User::Growth => self.take_node(*place, part.as_deref().map_err(|refusal| *refusal)),
                    User::Job(number) => {
                        let Some(job) = self.reading.jobs.get_mut(&number) else {
                            continue;
                        };
                        job.pending -= 1;
                        job.failed = job.failed.or_else(|| part.as_ref().err().copied());
                        if job.pending == 0 {
                            self.ready.push_back(number);
                        }
                    }
                }
            }
        }
    }
}

/// It is known what is new.
pub(super) fn refreshed(map: &mut Map, number: u32, outcome: Result<()>) {
    if let Some(job) = map.reading.jobs.get_mut(&number) {
        job.failed = outcome.err();
        job.version = map.feed.last();
        map.ready.push_back(number);
    }
}

/// What was to be signed is, or cannot be.
pub(super) fn signed(map: &mut Map, number: u32, outcome: Result<()>) {
    if let Some(job) = map.reading.jobs.get_mut(&number) {
        job.failed = outcome.err();
        map.ready.push_back(number);
    }
}

/// Checks that operations of the tree that count for more than others say so where they were written.
fn check_claims(parts: &mut Parts, claimed: &[Version]) -> Result<Look<()>> {
    let mut missing = Vec::new();
    for version in claimed {
        let head = Place::head_of(version.place.record);
        match parts.get(&head) {
            Some(head) => check_claim(&head, version.clock)?,
            None => missing.push(head),
        }
    }
    Ok(match missing.is_empty() {
        true => Look::Found(()),
        false => Look::Missing(missing),
    })
}

type Linked = (Entry, Option<Link>);

/// Reads an operation on a key, and where the one before is.
fn read_link(parts: &mut Parts, place: Place, key: &[u8]) -> Result<Look<Linked>> {
    let head_at = Place { index: 0, ..place };
    let (Some(head), Some(bytes)) = (parts.get(&head_at), parts.get(&place)) else {
        let both = [head_at, place].into_iter();
        return Ok(Look::Missing(both.filter(|at| parts.get(at).is_none()).collect()));
    };
    let head = Head::decode(&head)?;
    let stored = Stored::decode(&bytes)?;
    let Holds::Operations { base, .. } = head.holds else {
        return Err(super::bad_record());
    };
    if stored.key != key {
        return Err(super::bad_record());
    }
    let before = match stored.before {
        Some(before) => Some(Link::At(before.place(place.record), true)),
        None => base.map(Link::In),
    };
    let entry = Entry {
        key: key.to_vec(),
        place,
        clock: head.clock,
        held: match stored.kind {
            Kind::Set => Held::Value(stored.value.to_vec()),
            Kind::Delete => Held::Nothing,
        },
    };
    Ok(Look::Found((entry, before)))
}

fn held_bytes(entry: &Entry) -> usize {
    match &entry.held {
        Held::Value(value) => value.len(),
        _ => 0,
    }
}

fn unread((key, version): (Vec<u8>, Version)) -> Entry {
    Entry {
        key,
        place: version.place,
        clock: version.clock.min(MAX_CLOCK),
        held: Held::Unread,
    }
}
