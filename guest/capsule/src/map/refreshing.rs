//! Learning what is new: from the newest records back to what is known, or to an index.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::format::Head;
use super::view::{Base, Found, MAX_RECORDS, View};
use super::{Call, Map, order, reading, writing};
use crate::client::{self, Content, Heads, Outline};
use crate::hash::RecordName;
use crate::header::Header;
use crate::refusal::{Refusal, Result};

/// Records that are asked for in one command.
const ASKED: usize = 512;
/// How far behind the newest clock shortcuts are followed: a little more than records between two indexes.
const AHEAD: u64 = 160;
/// So many new records are read one after the other before shortcuts are followed: they are seldom more.
const FEW: usize = 4;
/// Records after which who has fallen behind begins anew at an index, and does not hear of each change.
const MAX_BEHIND: usize = 1024;

/// What waits until it is known what is new
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    Job(u32),
    Writer,
    Watchers,
}

/// Asking what is new
#[derive(Debug, Default)]
pub(super) struct Refreshing {
    /// Whether anything is known yet.
    pub(super) is_open: bool,
    /// What waits for the answer that is under way.
    waiting: Vec<Waiter>,
    /// What came after that was asked.
    next: Vec<Waiter>,
    is_asking: bool,
    walk: Option<Walk>,
    /// The epoch of what is known.
    epoch: Option<u32>,
    /// Index records whose trees are none: all goes on as without them.
    distrusted: BTreeSet<RecordName>,
    /// Whether what is known is to be read anew without one of them.
    is_stale: bool,
}

/// Most index records that are found to be none: whoever writes more is to be revoked.
const MAX_DISTRUSTED: usize = 1024;

impl Refreshing {
    /// Whether it is under way.
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }
}

/// The way back from the newest records
#[derive(Debug)]
struct Walk {
    heads: Vec<RecordName>,
    found: BTreeMap<RecordName, Found>,
    /// Records that are on the way.
    reached: BTreeSet<RecordName>,
    /// Records that were read ahead and are not known to be on the way.
    ahead: BTreeMap<RecordName, Found>,
    asked: BTreeSet<RecordName>,
    frontier: Vec<RecordName>,
    /// The largest clock of what was read, and that of an index.
    newest: u64,
    indexed: u64,
    in_flight: usize,
    /// Index records before which it has not looked.
    stops: BTreeSet<RecordName>,
    lineage: Lineage,
    /// Whether it goes back to what is known, and not to an index only.
    is_complete: bool,
    /// Why it cannot go on.
    failed: Option<Refusal>,
}

/// The index records that one covers, as far as was asked
#[derive(Debug, Default)]
struct Lineage {
    of: Option<RecordName>,
    names: BTreeSet<RecordName>,
    asked: BTreeSet<RecordName>,
    /// The last that was named, which may name more.
    oldest: Option<RecordName>,
    /// The clock of the last that was read: what is newer and not named is not covered.
    read: u64,
}

/// What is known of an index record
enum Standing {
    Covered,
    Apart,
    Unclear(RecordName),
}

impl Lineage {
    fn new(base: &Base) -> Self {
        Self {
            of: Some(base.name),
            names: base.covered.iter().copied().collect(),
            asked: BTreeSet::new(),
            oldest: base.covered.last().copied(),
            read: base.clock,
        }
    }

    fn standing(&self, name: &RecordName, clock: u64) -> Standing {
        if self.names.contains(name) {
            return Standing::Covered;
        }
        match self.oldest {
            Some(oldest) if self.read > clock => Standing::Unclear(oldest),
            _ => Standing::Apart,
        }
    }

    /// The oldest that it names cannot be read, or there is no such record: it names no more.
    fn end(&mut self) {
        self.oldest = None;
    }

    /// Takes the oldest that it names.
    fn extend(&mut self, found: &Found) {
        let index = found.index();
        let covered = index.map_or(&[][..], |index| &index.covered);
        self.names.extend(covered);
        self.read = found.clock();
        // No way round leads further than to the beginning.
        let oldest = covered.last().copied();
        self.oldest = oldest.filter(|name| self.asked.insert(*name));
    }
}

impl Walk {
    fn new(heads: Vec<RecordName>, view: &View, is_complete: bool) -> Self {
        let mut walk = Self {
            is_complete,
            heads: heads.clone(),
            found: BTreeMap::new(),
            reached: BTreeSet::new(),
            ahead: BTreeMap::new(),
            asked: BTreeSet::new(),
            frontier: Vec::new(),
            newest: 0,
            indexed: 0,
            in_flight: 0,
            stops: BTreeSet::new(),
            lineage: Lineage::default(),
            failed: None,
        };
        walk.reach(&heads, view);
        walk
    }

    fn reach(&mut self, names: &[RecordName], view: &View) {
        let mut rest = names.to_vec();
        while let Some(name) = rest.pop() {
            if view.knows(&name) || !self.reached.insert(name) {
                continue;
            }
            match self.ahead.remove(&name) {
                Some(found) => rest.extend(self.keep(name, found)),
                None => self.ask(&[name], view),
            }
        }
    }

    fn ask(&mut self, names: &[RecordName], view: &View) {
        for name in names {
            if !view.knows(name) && self.asked.insert(*name) {
                self.frontier.push(*name);
            }
        }
    }

    fn take(&mut self, name: RecordName, found: Found, view: &View) {
        self.newest = self.newest.max(found.clock());
        if found.index().is_some() {
            self.indexed = self.indexed.max(found.clock());
        }
        // One record after the other would take as many round trips as there are records.
        let is_far = !self.is_complete || self.found.len() > FEW;
        if is_far && found.clock() > self.indexed && found.clock() + AHEAD > self.newest {
            self.ask(&found.shortcuts, view);
            self.ask(&found.follows, view);
        }
        if self.reached.contains(&name) {
            let next = self.keep(name, found);
            self.reach(&next, view);
        } else {
            self.ahead.insert(name, found);
        }
        if self.found.len() + self.ahead.len() > MAX_RECORDS {
            self.failed = Some(Refusal::new(Code::TooLarge, MAX_RECORDS));
        }
    }

    /// A record cannot be read: that matters if it is on the way.
    fn miss(&mut self, name: RecordName, refusal: Refusal) {
        self.asked.remove(&name);
        if self.reached.contains(&name) {
            self.failed = Some(refusal);
        }
    }

    /// Keeps a record that is on the way; where that leads next.
    fn keep(&mut self, name: RecordName, found: Found) -> Vec<RecordName> {
        let mut next = Vec::new();
        if found.index().is_some() {
            self.stops.insert(name);
        } else {
            next.clone_from(&found.follows);
        }
        self.found.insert(name, found);
        next
    }

    /// The newest index.
    fn best(&self, view: &View) -> Option<Base> {
        let found = self.found.iter().filter_map(|(name, found)| {
            let index = found.index()?;
            Some(Base::new(*name, found.clock(), index))
        });
        found.chain(view.base.clone()).max_by(Base::cmp)
    }

    /// Looks before index records that the newest one does not cover; what to read to know whether it does.
    fn resolve(&mut self, view: &View) -> Option<RecordName> {
        let best = self.best(view)?;
        if self.lineage.of != Some(best.name) {
            self.lineage = Lineage::new(&best);
        }
        let known = view.base.as_ref().map_or(0, |base| base.clock);
        for name in self.stops.clone() {
            let Some(found) = self.found.get(&name) else {
                continue;
            };
            let is_new = self.is_complete && found.clock() > known;
            let standing = match name == best.name {
                true => Standing::Covered,
                false => self.lineage.standing(&name, found.clock()),
            };
            match standing {
                Standing::Unclear(oldest) if !is_new => return Some(oldest),
                Standing::Covered if !is_new => {}
                _ => {
                    let follows = found.follows.clone();
                    self.reach(&follows, view);
                }
            }
            self.stops.remove(&name);
        }
        None
    }
}

impl Map {
    /// Asks what is new for something that waits for it; what was asked before does not count.
    pub(super) fn refresh(&mut self, waiter: Waiter) {
        self.refreshing.next.push(waiter);
        if !self.refreshing.is_asking {
            self.ask_fresh();
        }
    }

    fn ask_fresh(&mut self) {
        let waiting = core::mem::take(&mut self.refreshing.next);
        self.refreshing.waiting.extend(waiting);
        self.refreshing.is_asking = true;
        self.call(Call::Fresh, client::Command::QueryFresh);
    }

    /// Takes what the newest records are.
    pub(super) fn take_fresh(&mut self, fresh: Result<Heads>) {
        let heads: Vec<RecordName> = match fresh {
            Ok(fresh) => fresh.heads.iter().map(|head| head.name).collect(),
            Err(refusal) => return self.end_refresh(Err(refusal)),
        };
        let epoch = self.client.epoch();
        let is_stale = self.refreshing.is_stale || self.refreshing.epoch != epoch;
        if is_stale && self.refreshing.is_open {
            if self.writing.has_unsigned() {
                // Nobody knows of it yet, so it would be left behind.
                return self.call(Call::SignFirst, client::Command::Sign);
            }
            // What somebody wrote may count no more.
            self.forget();
        }
        self.refreshing.epoch = epoch;
        self.refreshing.is_stale = false;
        self.walk(heads);
    }

    /// What was not signed is, or cannot be.
    pub(super) fn signed_first(&mut self, is_signed: bool) {
        self.writing.all_signed();
        if !is_signed {
            self.forget();
            self.refreshing.epoch = self.client.epoch();
        }
        self.ask_fresh();
    }

    /// The tree on which all builds is none: what is known is read anew without it, the next time that it is asked what is new. False if
    /// there is no tree, or too many were none.
    pub(super) fn distrust_base(&mut self) -> bool {
        let distrusted = &mut self.refreshing.distrusted;
        let base = self
            .view
            .base
            .as_ref()
            .filter(|_| distrusted.len() < MAX_DISTRUSTED);
        if let Some(base) = base {
            distrusted.insert(base.name);
            self.refreshing.is_stale = true;
        }
        base.is_some()
    }

    /// So much lies before other indexes than the newest one, which does not cover them, that a map that is opened goes on from these.
    fn distrust_best(&mut self, walk: &Walk) -> bool {
        let indexes = walk.found.values().filter(|found| found.index().is_some());
        if walk.is_complete || indexes.count() < 2 || self.refreshing.distrusted.len() >= MAX_DISTRUSTED {
            return false;
        }
        let best = walk.best(&self.view);
        best.is_some_and(|best| self.refreshing.distrusted.insert(best.name))
    }

    /// What a record is for a map, if its first sub-record says so; all else goes on with whatever it points to. The index of a
    /// writer that was revoked since is none: neither its clock nor what it leaves out counts any more.
    fn found(&self, name: &RecordName, first: Option<&[u8]>, header: &Header) -> Found {
        let mut found = found(first, header);
        if self.client.is_revoked(header.writer) || self.refreshing.distrusted.contains(name) {
            found.forget_index();
        }
        found
    }

    fn forget(&mut self) {
        self.view = View::default();
        self.feed.lose();
        self.refreshing.is_open = false;
    }

    fn walk(&mut self, heads: Vec<RecordName>) {
        self.refreshing.walk = Some(Walk::new(heads, &self.view, self.refreshing.is_open));
        self.go_on();
    }

    fn go_on(&mut self) {
        let Some(mut walk) = self.refreshing.walk.take() else {
            return;
        };
        let is_behind = walk.is_complete && walk.found.len() > MAX_BEHIND && !self.writing.has_unsigned();
        if is_behind || walk.failed.is_some() {
            // First everything that was asked comes back.
            walk.frontier.clear();
            if walk.in_flight == 0 {
                return self.give_up_walk(walk);
            }
        } else if walk.frontier.is_empty()
            && walk.in_flight == 0
            && let Some(oldest) = walk.resolve(&self.view)
        {
            walk.in_flight = 1;
            let records = Vec::from([oldest]);
            self.call(Call::Lineage, client::Command::Subrecords { records });
        }
        for names in core::mem::take(&mut walk.frontier).chunks(ASKED) {
            walk.in_flight += 1;
            let records = names.to_vec();
            let call = Call::Outlines(records.clone());
            self.call(call, client::Command::Subrecords { records });
        }
        if walk.in_flight == 0 {
            let taken = self.take_walk(walk);
            self.end_refresh(taken);
        } else {
            self.refreshing.walk = Some(walk);
        }
    }

    /// Ends a way back, or begins it anew if there is too much on it.
    fn give_up_walk(&mut self, walk: Walk) {
        match walk.failed {
            Some(refusal) if refusal.code == Code::TooLarge && self.distrust_best(&walk) => {
                self.forget();
                self.walk(walk.heads);
            }
            Some(refusal) => self.end_refresh(Err(refusal)),
            None => {
                self.forget();
                self.walk(walk.heads);
            }
        }
    }

    /// Takes the heads of records.
    pub(super) fn take_outlines(&mut self, names: Vec<RecordName>, outlines: Vec<Result<Outline>>) {
        let mut plain = Vec::new();
        let Some(mut walk) = self.refreshing.walk.take() else {
            return;
        };
        walk.in_flight -= 1;
        for (name, outline) in names.into_iter().zip(outlines) {
            match outline.and_then(|outline| Ok((outline.first?, outline.header))) {
                Ok((first, header)) => {
                    walk.take(name, self.found(&name, Some(&first), &header), &self.view);
                }
                // It has no sub-records, or a server says so.
                Err(refusal) if refusal.code == Code::BadTree => plain.push(name),
                Err(refusal) => walk.miss(name, refusal),
            }
        }
        if !plain.is_empty() {
            walk.in_flight += 1;
            let records = plain.clone();
            self.call(Call::Plain(plain), client::Command::Read { records });
        }
        self.refreshing.walk = Some(walk);
        self.go_on();
    }

    /// Takes records that are none of a map.
    pub(super) fn take_plain(&mut self, names: Vec<RecordName>, records: Vec<Result<client::Got>>) {
        let Some(mut walk) = self.refreshing.walk.take() else {
            return;
        };
        walk.in_flight -= 1;
        for (name, record) in names.into_iter().zip(records) {
            match record {
                Ok(got) => {
                    let first = match &got.content {
                        Content::Parts(parts) => parts.first(),
                        _ => None,
                    };
                    let header = got.header.view().to_header();
                    let found = self.found(&name, first.map(|first| &**first), &header);
                    walk.take(name, found, &self.view);
                }
                Err(refusal) => walk.miss(name, refusal),
            }
        }
        self.refreshing.walk = Some(walk);
        self.go_on();
    }

    /// Takes an index record that a newer one names.
    pub(super) fn take_lineage(&mut self, mut outlines: Vec<Result<Outline>>) {
        let Some(walk) = &mut self.refreshing.walk else {
            return;
        };
        walk.in_flight -= 1;
        let outline = outlines.pop().unwrap_or_else(|| Err(super::unexpected()));
        match outline.and_then(|outline| Ok((outline.first?, outline.header))) {
            Ok((first, header)) => walk.lineage.extend(&found(Some(&first), &header)),
            // What an index names need not be there.
            Err(Refusal {
                code: Code::NoRecord | Code::Unproven | Code::BadTree,
                ..
            }) => walk.lineage.end(),
            Err(refusal) => walk.failed = Some(refusal),
        }
        self.go_on();
    }

    /// Takes in all that was found.
    fn take_walk(&mut self, walk: Walk) -> Result<()> {
        let best = walk.best(&self.view);
        let mut found = walk.found;
        let clocks = order::clocks(&found, &self.view);
        let names = clocks.into_iter().map(|(name, clock)| (clock, name));
        // In their order, so that changes are told in it.
        for (clock, name) in names.collect::<BTreeSet<_>>() {
            let Some(found) = found.remove(&name) else {
                continue;
            };
            for key in self.view.apply(name, found, clock)? {
                self.feed.push(key);
            }
        }
        if !walk.is_complete {
            self.feed.lose();
        }
        self.view.set_heads(&walk.heads);
        let known = self.view.base.as_ref().map(|base| base.name);
        if let Some(best) = best.filter(|best| known != Some(best.name)) {
            let covered = self.view.before(&[best.name]);
            if known.is_none_or(|known| covered.contains(&known) || best.covered.contains(&known)) {
                self.view.rebase(best, &covered);
            }
        }
        self.refreshing.is_open = true;
        Ok(())
    }

    fn end_refresh(&mut self, outcome: Result<()>) {
        self.refreshing.is_asking = false;
        self.refreshed_ms = self.now;
        for waiter in core::mem::take(&mut self.refreshing.waiting) {
            match waiter {
                Waiter::Job(job) => reading::refreshed(self, job, outcome),
                Waiter::Writer => writing::refreshed(self, outcome),
                // They are asked again.
                Waiter::Watchers => {}
            }
        }
        self.tell_watchers();
        if !self.refreshing.next.is_empty() && !self.refreshing.is_asking {
            self.ask_fresh();
        }
    }
}

/// What a record says of a map.
fn found(first: Option<&[u8]>, header: &Header) -> Found {
    let head = first.and_then(|first| Head::decode(first).ok());
    let follows = match &head {
        Some(head) => usize::from(head.follows).min(header.backpointers.len()),
        None => header.backpointers.len(),
    };
    let (follows, shortcuts) = header.backpointers.split_at(follows);
    Found {
        shortcuts: if head.is_some() {
            shortcuts.to_vec()
        } else {
            Vec::new()
        },
        follows: follows.to_vec(),
        head,
    }
}
