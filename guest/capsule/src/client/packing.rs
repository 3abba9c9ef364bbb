//! Requests that store: the same for all servers, but for what comes before their operations.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::base::Base;
use crate::hash::{HASH_BYTES, RecordName};
use crate::header::{FIXED_BYTES, HeaderView, MAX_HEADER_BYTES};
use crate::introduction::{Introduction, MAX_AGE_MS, Place};
use crate::keys::Signature;
use crate::message::{MAX_OPERATIONS, Operation, SessionId};
use crate::record::Record;
use crate::refusal::Result;
use crate::seal::SEAL_BYTES;
use crate::writer::Written;

/// Bytes after which a request ends, so that a server has not to hold much at a time.
const PART_BYTES: usize = 1 << 20;
/// About how many bytes of a request a record takes beside what it holds: mostly it has two backpointers.
const RECORD_BYTES: usize = 1 + FIXED_BYTES + 2 * HASH_BYTES + SEAL_BYTES;
/// More than the operation takes that signs the last record.
const SIGNING_BYTES: usize = 128;
/// Operations after which a request ends: less than it may have, as others stand before and after.
const PART_OPERATIONS: usize = MAX_OPERATIONS - 8;
/// Where a request names its session: after its version and its capsule.
const SESSION_AT: usize = 1 + HASH_BYTES;
/// A part of what a job writes: one request, the same for all servers
#[derive(Debug)]
pub(super) struct Part {
    pub(super) bytes: Arc<Vec<u8>>,
    /// Where the operations that store begin.
    start: usize,
    /// What is stored: whether it is a signature, and the record.
    pub(super) stored: Vec<(bool, RecordName)>,
    pub(super) acknowledged: u32,
    pub(super) refused: u32,
    pub(super) flying: u32,
    /// Servers that were given the capsule too.
    pub(super) creating: u32,
    /// Servers to which it was sent again in another session, as they did not know who asks.
    pub(super) renewed: u32,
}

impl Part {
    /// Whether a signature covers all of it; if not, servers keep it for the writer alone.
    pub(super) fn is_signed(&self) -> bool {
        let last = self.stored.iter().rev().find(|(is_signature, _)| !is_signature);
        last.is_none_or(|(_, last)| self.stored.contains(&(true, *last)))
    }
}

/// Puts operations that store into requests
pub(super) struct Packer {
    head: Vec<u8>,
    bytes: Vec<u8>,
    stored: Vec<(bool, RecordName)>,
    parts: Vec<Part>,
}

impl Packer {
    pub(super) fn new(base: &Base) -> Self {
        let head = base.begin();
        Self {
            bytes: head.clone(),
            head,
            stored: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Makes room for records that come next, with bodies of so many bytes, and for a signature.
    pub(super) fn reserve(&mut self, records: usize, bytes: usize) {
        self.stored.reserve(records.min(PART_OPERATIONS) + 1);
        let all = bytes + records * RECORD_BYTES;
        self.bytes.reserve(all.min(PART_BYTES) + SIGNING_BYTES);
    }

    pub(super) fn write(&mut self, name: &RecordName, record: Record<'_>) {
        let len = record.header.encoded().len() + record.body.len();
        if !self.stored.is_empty()
            && (self.bytes.len() + len > PART_BYTES || self.stored.len() >= PART_OPERATIONS)
        {
            self.cut();
        }
        Operation::Write { record }.write(&mut self.bytes);
        self.stored.push((false, *name));
    }

    pub(super) fn write_one(&mut self, written: &Written) -> Result<()> {
        let record = Record {
            header: HeaderView::decode(&written.header)?,
            body: &written.body,
        };
        self.write(&written.name, record);
        Ok(())
    }

    pub(super) fn sign(&mut self, record: RecordName, signature: Signature) {
        Operation::Sign { record, signature }.write(&mut self.bytes);
        self.stored.push((true, record));
    }

    fn cut(&mut self) {
        let bytes = core::mem::replace(&mut self.bytes, self.head.clone());
        self.parts.push(Part {
            bytes: bytes.into(),
            start: self.head.len(),
            stored: core::mem::take(&mut self.stored),
            acknowledged: 0,
            refused: 0,
            flying: 0,
            creating: 0,
            renewed: 0,
        });
    }

    pub(super) fn finish(mut self) -> Vec<Part> {
        if !self.stored.is_empty() || self.parts.is_empty() {
            self.cut();
        }
        self.parts
    }
}

/// The request with the capsule, or who asks, before all else that it stores, in this session.
pub(super) fn with_before(
    part: &Part,
    (metadata, introduction): (Option<&[u8]>, Option<Introduction>),
    session: &SessionId,
) -> Arc<Vec<u8>> {
    let more = metadata.map_or(0, <[u8]>::len) + SIGNING_BYTES;
    let mut bytes = Vec::with_capacity(part.bytes.len() + more);
    bytes.extend_from_slice(&part.bytes[..part.start]);
    bytes[SESSION_AT..SESSION_AT + session.len()].copy_from_slice(session);
    if let Some(metadata) = metadata {
        Operation::Create { metadata }.write(&mut bytes);
    }
    if let Some(introduction) = introduction {
        Operation::Introduce(introduction).write(&mut bytes);
    }
    bytes.extend_from_slice(&part.bytes[part.start..]);
    bytes.into()
}

impl Base {
    /// What makes this client known to a server as a writer, if it is one.
    pub(super) fn introduce(&mut self, server: usize) -> Option<Introduction> {
        let (now, session) = (self.now, self.uncached);
        let known = self.servers[server].introduced;
        let known =
            known.filter(|(of, known)| *of == session && now.abs_diff(known.time_ms) < MAX_AGE_MS / 2);
        if let Some((_, known)) = known {
            return Some(known);
        }
        let identity = self.identity.as_ref();
        let number = self.trust.as_ref()?.number(identity).ok()?;
        let place = Place {
            server: &self.servers[server].key,
            capsule: &self.capsule,
            session: &session,
        };
        let made = Introduction::sign(&identity?.key_pair(), number, &place, now);
        self.servers[server].introduced = Some((session, made));
        Some(made)
    }

    /// Begins another session for what is not read through a cache, unless the one that this server refused is over already.
    pub(super) fn renew_session(&mut self, server: usize) {
        let known = self.servers[server].introduced;
        if known.is_some_and(|(of, _)| of == self.uncached) {
            self.uncached = self.random.bytes();
        }
    }
}

const _: () = assert!(PART_BYTES + MAX_HEADER_BYTES < crate::message::MAX_MESSAGE_BYTES);
