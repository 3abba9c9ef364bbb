use alloc::vec::Vec;

use selfsame_codec::{Code, Entries, EventKind, LogLevel, Operation, OperationWriter, Output};

use super::Node;
use crate::admission::KNOWS_CLOSED;
use crate::ring::Ring;

/// Entries that are read at once: what the smallest store gives in one answer.
const PAGE: u32 = 500;
/// Most operations in one commit, and bytes: the limits of the smallest store.
const MAX_OPERATIONS: usize = 500;
const MAX_COMMIT_BYTES: usize = 480 * 1024;
/// Tag of the pages that are read at the start.
const LOAD_TAG: u32 = 0;

/// What goes to and comes from the store
#[derive(Default)]
pub(super) struct StoreState {
    pending: OperationWriter,
    durable: bool,
    /// Whether the ring is to be told that these operations are stored.
    is_awaited: bool,
    /// The last commit of which the ring is to be told.
    awaited: Option<u32>,
    next_tag: u32,
    loaded: bool,
    /// Whether it was loaded in an earlier step.
    loaded_before: bool,
}

impl StoreState {
    /// Whether the ring may act. In the step that loads the last of the store it may not: a host that wakes up tells
    /// only in the next one which paths it still has, and until then the ring would dial peers that are connected.
    pub(super) fn lets_ring_act(&self) -> bool {
        self.loaded_before
    }

    pub(super) fn end_step(&mut self) {
        self.loaded_before = self.loaded;
    }
}

impl Node {
    /// Asks for all that an earlier start has stored.
    pub(super) fn load_store(&mut self) {
        self.scan_from(Ring::STORE_PREFIX);
    }

    fn scan_from(&mut self, start: &[u8]) {
        let mut end = Ring::STORE_PREFIX.to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        self.out.push(&Output::StoreScan {
            tag: LOAD_TAG,
            start,
            end: &end,
            limit: PAGE,
        });
    }

    pub(super) fn store_read(&mut self, tag: u32, ok: bool, entries: &[u8]) -> Result<(), Code> {
        if tag != LOAD_TAG || self.store.loaded {
            return Err(Code::BadInput);
        }
        if !ok {
            self.store_broken(Code::StoreFailed);
            return Ok(());
        }
        let mut count = 0;
        let mut last = Vec::new();
        for entry in Entries::new(entries) {
            let (key, value) = entry.map_err(|_| Code::BadInput)?;
            count += 1;
            last = key.to_vec();
            if let Err(code) = self.ring_with(|ring, cx| ring.load(cx, key, value)) {
                self.store_broken(code);
                return Ok(());
            }
        }
        if count < PAGE {
            self.store.loaded = true;
            self.event(EventKind::Ready, &[]);
        } else {
            last.push(0);
            self.scan_from(&last);
        }
        Ok(())
    }

    /// The node cannot go on with this store; tag 0 is the node as a whole.
    fn store_broken(&mut self, code: Code) {
        self.out.log(LogLevel::Error, code, 0, "");
        self.fail(0, code);
    }

    pub(super) fn store_put(&mut self, key: &[u8], value: &[u8], durable: bool) {
        self.make_room(key.len() + value.len());
        self.store.durable |= durable;
        self.store.pending.push(Operation::Put { key, value });
    }

    /// Stores a value, and tells the ring when it is.
    pub(super) fn store_commit(&mut self, key: &[u8], value: &[u8]) {
        self.store_put(key, value, true);
        self.store.is_awaited = true;
    }

    pub(super) fn store_delete(&mut self, key: &[u8]) {
        self.make_room(key.len());
        self.store.pending.push(Operation::Delete { key });
    }

    fn make_room(&mut self, bytes: usize) {
        let pending = &self.store.pending;
        if pending.count() >= MAX_OPERATIONS || pending.as_bytes().len() + bytes > MAX_COMMIT_BYTES {
            self.commit_store();
        }
    }

    /// Hands the operations of this step to the store.
    pub(super) fn commit_store(&mut self) {
        if self.store.pending.count() == 0 {
            return;
        }
        let pending = core::mem::take(&mut self.store.pending);
        let durable = core::mem::take(&mut self.store.durable);
        self.store.next_tag = self.store.next_tag.checked_add(1).unwrap_or(1);
        if KNOWS_CLOSED && core::mem::take(&mut self.store.is_awaited) {
            self.store.awaited = Some(self.store.next_tag);
        }
        self.out.push(&Output::StoreCommit {
            tag: self.store.next_tag,
            durable,
            operations: pending.as_bytes(),
        });
    }

    pub(super) fn store_committed(&mut self, tag: u32, ok: bool) -> Result<(), Code> {
        if !ok {
            self.store_broken(Code::StoreFailed);
        } else if KNOWS_CLOSED && self.store.awaited == Some(tag) {
            self.store.awaited = None;
            self.ring_with(|ring, cx| ring.committed(cx));
        }
        Ok(())
    }
}
