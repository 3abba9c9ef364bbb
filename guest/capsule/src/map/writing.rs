//! Writing: operations that come at the same time go into one record, and now and then an index follows.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::Code;

use super::command::{MAX_OPERATIONS, MAX_VALUE_BYTES, Operation, Place, Reply};
use super::format::{Head, Holds, Index, Kind, MAX_CLOCK, Reference, Stored, is_key};
use super::growth::{Grown, Growth, Page};
use super::reading::{self, User};
use super::refreshing::Waiter;
use super::view::{Base, Found};
use super::{Call, Map, order};
use crate::client::{self, Position, Signing, Start};
use crate::hash::RecordName;
use crate::header::MAX_BACKPOINTERS;
use crate::refusal::{Refusal, Result};
use crate::writer::Backpointers;

/// Bytes of operations in one record: less than it may have, as its head and what seals it are in it too.
const RECORD_BYTES: usize = (1 << 20) - (1 << 10);
/// What an operation takes beside its key, twice, and its value.
const OPERATION_BYTES: usize = 80;
/// Bytes that wait to be written: an application that has more waits for replies.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// Heads that one record merges: others are merged by the next.
const MAX_MERGED: usize = MAX_BACKPOINTERS - 2;

/// A command that writes
#[derive(Debug)]
struct Pending {
    command: u32,
    operations: Vec<Operation>,
    signing: Signing,
    bytes: usize,
}

/// A record under way
#[derive(Debug)]
pub(super) struct Committed {
    commands: Vec<u32>,
    head: Head,
    follows: Vec<RecordName>,
    signing: Signing,
}

/// A page of an index under way
#[derive(Debug)]
pub(super) struct Paged {
    grown: Grown,
    nodes: Vec<Bytes>,
    index: Option<(Head, Index)>,
    clock: u64,
    /// What the index goes on with, and all that is in it.
    heads: Vec<RecordName>,
    covered: BTreeSet<RecordName>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// Something is awaited after which it goes on.
    Busy,
    /// Nodes of the old tree are being read.
    Growing(Growth),
}

/// Writing under way
#[derive(Debug, Default)]
pub(super) struct Writing {
    queue: VecDeque<Pending>,
    waiting_bytes: usize,
    stage: Stage,
    has_begun: bool,
    /// The last record of its own, which may not be signed.
    recovering: Option<RecordName>,
    /// Whether what is new was asked since the last write.
    is_fresh: bool,
    /// An index could not be written: it is tried again after so many writes.
    pause: u32,
    unsigned: BTreeSet<RecordName>,
    /// Jobs that wait for a signature.
    waiting: Vec<u32>,
}

/// Writes after which an index that could not be written is tried again.
const PAUSE: u32 = 16;

impl Writing {
    /// Whether a record was written here and is not signed yet.
    pub(super) fn is_unsigned(&self, record: &RecordName) -> bool {
        self.unsigned.contains(record)
    }

    pub(super) fn has_unsigned(&self) -> bool {
        !self.unsigned.is_empty()
    }

    pub(super) fn all_signed(&mut self) {
        self.unsigned.clear();
    }
}

impl Map {
    /// Takes operations to be written.
    pub(super) fn write(&mut self, command: u32, operations: Vec<Operation>, signing: Signing) {
        let bytes = operations.iter().map(size).sum();
        if let Err(refusal) = check(&operations, bytes) {
            return self.reply(command, Err(refusal));
        }
        if self.writing.waiting_bytes + bytes > MAX_WAITING_BYTES {
            let refusal = Refusal::new(Code::TooManyRequests, self.writing.queue.len());
            return self.reply(command, Err(refusal));
        }
        self.writing.waiting_bytes += bytes;
        self.writing.queue.push_back(Pending {
            command,
            operations,
            signing,
            bytes,
        });
        self.pump_writing();
    }

    /// Begins what is next, if nothing is under way.
    fn pump_writing(&mut self) {
        if !matches!(self.writing.stage, Stage::Idle) {
            return;
        }
        let is_due = self.writing.has_begun && self.writing.pause == 0 && self.view.is_long();
        if self.writing.queue.is_empty() && !is_due {
            return;
        }
        self.writing.stage = Stage::Busy;
        if !self.writing.has_begun {
            let start = Start::Resume;
            return self.call(Call::Init, client::Command::Init { start });
        }
        if !self.writing.is_fresh {
            return self.refresh(Waiter::Writer);
        }
        if is_due {
            self.begin_growth();
        } else {
            self.commit();
        }
    }

    fn idle(&mut self) {
        self.writing.stage = Stage::Idle;
        self.pump_writing();
    }

    /// Refuses all that waits.
    fn refuse_writes(&mut self, refusal: Refusal) {
        self.writing.waiting_bytes = 0;
        for pending in core::mem::take(&mut self.writing.queue) {
            self.reply(pending.command, Err(refusal));
        }
        self.idle();
    }

    /// Writing can begin: first what was written last, by whoever has this key, is signed, if nobody else knows of it.
    pub(super) fn begun(&mut self, position: Result<Position>) {
        match position {
            Ok(position) => {
                self.writing.has_begun = true;
                self.writing.recovering = position.parent;
                self.refresh(Waiter::Writer);
            }
            Err(refusal) => self.refuse_writes(refusal),
        }
    }

    /// What was written last is signed.
    pub(super) fn recovered(&mut self, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.refresh(Waiter::Writer),
            Err(refusal) => {
                self.writing.has_begun = false;
                self.refuse_writes(refusal);
            }
        }
    }

    /// Writes one record of what waits.
    fn commit(&mut self) {
        let mut operations = Vec::new();
        let (mut commands, mut signing, mut bytes) = (Vec::new(), Signing::Later, 0);
        while let Some(next) = self.writing.queue.front() {
            bytes += next.bytes;
            let count = operations.len() + next.operations.len();
            if !commands.is_empty() && (bytes > RECORD_BYTES || count > MAX_OPERATIONS) {
                break;
            }
            let Some(next) = self.writing.queue.pop_front() else {
                break;
            };
            self.writing.waiting_bytes -= next.bytes;
            commands.push(next.command);
            operations.extend(next.operations);
            if next.signing == Signing::Last {
                signing = Signing::Last;
            }
        }
        let follows = self.merged();
        let (head, stored) = self.encode(&operations, &follows);
        let mut subrecords = Vec::from([Bytes::from(head.encode())]);
        subrecords.extend(stored);
        let committed = Committed {
            commands,
            head,
            follows: follows.clone(),
            signing,
        };
        self.writing.pause = self.writing.pause.saturating_sub(1);
        let call = Call::Commit(committed);
        self.call_commit(call, subrecords, follows, signing);
    }

    fn merged(&self) -> Vec<RecordName> {
        self.view.heads.iter().take(MAX_MERGED).copied().collect()
    }

    fn call_commit(
        &mut self,
        call: Call,
        subrecords: Vec<Bytes>,
        follows: Vec<RecordName>,
        signing: Signing,
    ) {
        let backpointers = Backpointers::Following(follows);
        let commit = client::Command::Commit {
            subrecords,
            backpointers,
            signing,
        };
        self.call(call, commit);
    }

    /// The head of a record, and its other sub-records.
    fn encode(&self, operations: &[Operation], follows: &[RecordName]) -> (Head, Vec<Bytes>) {
        let (mut keys, mut stored) = (Vec::new(), Vec::new());
        for (index, Operation { key, value }) in operations.iter().enumerate() {
            let kind = if value.is_some() { Kind::Set } else { Kind::Delete };
            let newest = self.view.newest(key);
            let newest = newest.filter(|version| self.view.is_settled(version));
            let here = operations[..index].iter().rposition(|other| other.key == *key);
            let before = here.map(|index| Reference::Here(index as u32 + 1));
            let operation = Stored {
                kind,
                key: key.clone(),
                before: before.or_else(|| newest.map(|version| Reference::There(version.place))),
                value: value.as_deref().unwrap_or_default(),
            };
            stored.push(operation.encode().into());
            keys.push((kind, key.clone()));
        }
        let base = self.view.base.as_ref().map(|base| base.name);
        let head = Head {
            follows: follows.len() as u8,
            clock: next_clock(self.view.latest(follows)),
            holds: Holds::Operations { base, keys },
        };
        (head, stored)
    }

    /// A record was written, or not.
    pub(super) fn written(&mut self, committed: Committed, written: Result<RecordName>) {
        self.writing.is_fresh = !self.client.has_many_writers() && written.is_ok();
        let written = written.and_then(|name| self.take_own(name, &committed).map(|()| name));
        for command in committed.commands {
            self.reply(command, written.map(Reply::Written));
        }
        if let Err(refusal) = written {
            self.writing.has_begun &= !matches!(refusal.code, Code::NotAWriter | Code::RevokedWriter);
        }
        self.tell_watchers();
        self.idle();
    }

    fn take_own(&mut self, name: RecordName, committed: &Committed) -> Result<()> {
        match committed.signing {
            Signing::Last => self.writing.unsigned.clear(),
            Signing::Later => _ = self.writing.unsigned.insert(name),
        }
        let found = Found {
            head: Some(committed.head.clone()),
            follows: committed.follows.clone(),
            shortcuts: Vec::new(),
        };
        let clock = order::counted(&found, self.view.latest(&found.follows));
        for key in self.view.apply(name, found, clock)? {
            self.feed.push(key);
        }
        self.view.set_heads(&[name]);
        Ok(())
    }

    /// Signs what was written, so that it can be read.
    pub(super) fn sign_for(&mut self, job: u32) {
        self.writing.waiting.push(job);
        if self.writing.waiting.len() == 1 {
            self.call(Call::Sign(self.unsigned()), client::Command::Sign);
        }
    }

    /// What had been written is signed, or cannot be.
    pub(super) fn signed(&mut self, unsigned: &BTreeSet<RecordName>, outcome: Result<()>) {
        if outcome.is_ok() {
            self.writing.unsigned.retain(|name| !unsigned.contains(name));
        }
    }

    /// The same for what was to be read.
    pub(super) fn signed_for_jobs(&mut self, outcome: Result<()>) {
        for job in core::mem::take(&mut self.writing.waiting) {
            reading::signed(self, job, outcome);
        }
    }

    /// What is not signed now.
    pub(super) fn unsigned(&self) -> BTreeSet<RecordName> {
        self.writing.unsigned.clone()
    }

    /// Begins to write an index.
    fn begin_growth(&mut self) {
        let root = self.view.base.as_ref().map(|base| base.root);
        let growth = Growth::new(root, self.view.changes(), self.view.understated());
        self.grow(growth);
    }

    fn grow(&mut self, mut growth: Growth) {
        loop {
            let missing = growth.missing();
            if missing.is_empty() {
                return match growth.grow() {
                    Ok(grown) => self.begin_pages(grown),
                    Err(_) => self.fail_growth(),
                };
            }
            let mut unknown = Vec::new();
            for place in missing {
                match self.parts.get(&place) {
                    None => unknown.push(place),
                    Some(bytes) if growth.take(place, &bytes).is_ok() => {}
                    Some(_) => return self.leave_tree(),
                }
            }
            if !unknown.is_empty() {
                self.writing.stage = Stage::Growing(growth);
                return self.want(&unknown, User::Growth);
            }
        }
    }

    /// Takes a node of the old tree.
    pub(super) fn take_node(&mut self, place: Place, node: Result<&[u8]>) {
        let Stage::Growing(growth) = &mut self.writing.stage else {
            return;
        };
        let Ok(bytes) = node else {
            return self.fail_growth();
        };
        match growth.take(place, bytes) {
            Ok(true) => {}
            Ok(false) => {
                if let Stage::Growing(growth) = core::mem::replace(&mut self.writing.stage, Stage::Busy) {
                    self.grow(growth);
                }
            }
            Err(_) => self.leave_tree(),
        }
    }

    /// The old tree is none: the next index does without it.
    fn leave_tree(&mut self) {
        self.distrust_base();
        self.fail_growth();
    }

    /// Without an index all goes on as it did.
    fn fail_growth(&mut self) {
        self.writing.pause = PAUSE;
        self.writing.is_fresh = false;
        self.idle();
    }

    fn begin_pages(&mut self, grown: Grown) {
        let heads = self.merged();
        self.write_page(
            Paged {
                grown,
                nodes: Vec::new(),
                index: None,
                clock: self.view.latest(&heads),
                covered: self.view.before(&heads),
                heads: heads.clone(),
            },
            heads,
        );
    }

    /// Writes the next record of nodes.
    fn write_page(&mut self, mut paged: Paged, follows: Vec<RecordName>) {
        let Page { nodes, root } = paged.grown.next_page();
        paged.clock = next_clock(paged.clock);
        let (holds, signing) = match root {
            None => (Holds::Pages, Signing::Later),
            Some((root, height)) => {
                let index = Index {
                    root,
                    height,
                    covered: self.view.covered(),
                };
                (Holds::Index(index), Signing::Last)
            }
        };
        let head = Head {
            follows: follows.len() as u8,
            clock: paged.clock,
            holds,
        };
        let mut subrecords = Vec::from([Bytes::from(head.encode())]);
        subrecords.extend(nodes.iter().cloned());
        paged.nodes = nodes;
        if let Holds::Index(index) = &head.holds {
            let index = index.clone();
            paged.index = Some((head, index));
        }
        self.call_commit(Call::Page(Box::new(paged)), subrecords, follows, signing);
    }

    /// A record of nodes was written, or not.
    pub(super) fn paged(&mut self, mut paged: Paged, written: Result<RecordName>) {
        let Ok(name) = written else {
            return self.fail_growth();
        };
        let nodes = core::mem::take(&mut paged.nodes);
        paged.grown.written(name, nodes.len());
        for (index, node) in (1..).zip(nodes) {
            let record = name;
            self.parts.insert(Place { record, index }, Rc::from(&*node));
        }
        let Some((head, index)) = paged.index.take() else {
            return self.write_page(paged, Vec::from([name]));
        };
        self.writing
            .unsigned
            .retain(|unsigned| !paged.covered.contains(unsigned));
        let base = Base::new(name, head.clock, &index);
        let found = Found {
            head: Some(head),
            follows: paged.heads,
            shortcuts: Vec::new(),
        };
        let clock = order::counted(&found, self.view.latest(&found.follows));
        // It holds no operations, so nothing changes.
        if self.view.apply(name, found, clock).is_ok() {
            self.view.set_heads(&[name]);
            self.view.rebase(base, &paged.covered);
        }
        self.writing.is_fresh = !self.client.has_many_writers();
        self.idle();
    }
}

/// It is known what is new.
pub(super) fn refreshed(map: &mut Map, outcome: Result<()>) {
    if let Err(refusal) = outcome {
        map.writing.recovering = None;
        map.writing.has_begun = false;
        return map.refuse_writes(refusal);
    }
    if let Some(last) = map.writing.recovering.take()
        && !map.view.knows(&last)
    {
        return map.call(Call::Recover, client::Command::Sign);
    }
    map.writing.is_fresh = true;
    map.idle();
}

/// The clock that a record says which follows others. At the largest it says the same: it counts for more nevertheless.
fn next_clock(latest: u64) -> u64 {
    latest.saturating_add(1).min(MAX_CLOCK)
}

fn size(operation: &Operation) -> usize {
    2 * operation.key.len() + operation.value.as_ref().map_or(0, Vec::len) + OPERATION_BYTES
}

fn check(operations: &[Operation], bytes: usize) -> Result<()> {
    if operations.is_empty() || operations.len() > MAX_OPERATIONS {
        return Err(Refusal::new(Code::TooLarge, MAX_OPERATIONS));
    }
    for (index, Operation { key, value }) in operations.iter().enumerate() {
        if !is_key(key) {
            return Err(Refusal::new(Code::BadInput, index));
        }
        if value.as_ref().is_some_and(|value| value.len() > MAX_VALUE_BYTES) {
            return Err(Refusal::new(Code::TooLarge, index));
        }
    }
    if bytes > RECORD_BYTES {
        return Err(Refusal::new(Code::TooLarge, operations.len()));
    }
    Ok(())
}
