//! What an application asks of a map, and what it is told: plain data, so that it can cross any boundary.

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};

use crate::client;
use crate::hash::RecordName;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;
/// Longest value, in bytes: with its key and what proves it, it fits in one record.
pub const MAX_VALUE_BYTES: usize = (1 << 20) - (1 << 13);
/// Most operations of one write: they are in one record.
pub const MAX_OPERATIONS: usize = 1024;
/// Most entries of one reply.
pub const MAX_ENTRIES: usize = 1024;

/// What an application asks for; each command is answered by one [`Reply`]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Something of the capsule that the map is in. Gives [`Reply::Capsule`].
    Capsule(client::Command),
    /// Sets and deletes keys, all or none. Gives [`Reply::Written`] when a write quorum has stored it.
    Write {
        /// The operations, in their order.
        operations: Vec<Operation>,
        /// Whether the record is signed at once; if not, nobody else sees it before a later one is.
        signing: client::Signing,
    },
    /// Asks for the entry of a key. Gives [`Reply::Entries`] with one or none.
    Get {
        /// The key.
        key: Vec<u8>,
        /// As of when.
        freshness: Freshness,
    },
    /// Asks for entries in the order of their keys. Gives [`Reply::Entries`].
    List {
        /// Their keys.
        range: Range,
        /// At most so many, and at most [`MAX_ENTRIES`].
        limit: usize,
        /// Whether values are read.
        values: bool,
        /// As of when.
        freshness: Freshness,
    },
    /// Asks what a key was before, the newest first. Gives [`Reply::Entries`].
    History {
        /// The key.
        key: Vec<u8>,
        /// Only what came before this operation.
        before: Option<Place>,
        /// At most so many, and at most [`MAX_ENTRIES`].
        limit: usize,
    },
    /// Waits until keys have changed. Gives [`Reply::Entries`] with what they are now.
    Changes {
        /// The keys.
        range: Range,
        /// The version after which changes count, as the reply before gave it; without one the reply only says the present one.
        since: Option<u64>,
        /// How often the servers are asked, in milliseconds.
        every_ms: u64,
    },
    /// Gives up a command that waits for changes. Gives [`Reply::Done`], and the other command fails.
    Cancel {
        /// The command.
        command: u32,
    },
}

/// Sets or deletes a key
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key: UTF-8, 1 to [`MAX_KEY_BYTES`] bytes.
    pub key: Vec<u8>,
    /// The value, at most [`MAX_VALUE_BYTES`]; without one the key is deleted.
    pub value: Option<Vec<u8>>,
}

/// As of when something is read
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// A read quorum is asked which records are the newest.
    Newest,
    /// What was the newest when they were last asked.
    Known,
}

/// Keys in a row
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub start: Vec<u8>,
    /// The first that is beyond; empty if there is no end.
    pub end: Vec<u8>,
}

impl Range {
    /// Whether a key is not beyond the end.
    pub(super) fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    /// Whether a key is one of them.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.is_before_end(key)
    }
}

/// Where an operation is, which names it for ever
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The record.
    pub record: RecordName,
    /// Its sub-record.
    pub index: u32,
}

impl Place {
    /// That of the head of a record.
    pub(super) fn head_of(record: RecordName) -> Self {
        Self { record, index: 0 }
    }
}

impl<'a> Field<'a> for Place {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let record = RecordName(reader.array()?);
        let index = reader.field()?;
        Ok(Self { record, index })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.record.0);
        self.index.write(out);
    }
}

/// What an application is told
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What the capsule's client says.
    Capsule(client::Reply),
    /// The record was written.
    Written(RecordName),
    /// Entries.
    Entries(Entries),
    /// It is done.
    Done,
}

/// Entries of a map
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there may be more than fitted; of changes, whether some were missed, so that what is known must be listed anew.
    pub more: bool,
    /// What to ask for changes after.
    pub version: u64,
}

/// What a key is, or was
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The operation that made it so.
    pub place: Place,
    /// Its clock: of two operations on one key the one with the larger clock counts.
    pub clock: u64,
    /// The value.
    pub held: Held,
}

/// What an entry holds
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// A value.
    Value(Vec<u8>),
    /// Nothing: the key was deleted.
    Nothing,
    /// A value that was not asked for.
    Unread,
}
