//! What an application asks of a client, and what it is told: plain data, so that it can cross any boundary.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::authority::Fork;
use crate::authorship::Authorship;
use crate::epoch::{ReaderKey, Revoked};
use crate::hash::RecordName;
use crate::header::{EncodedHeader, Header};
use crate::keys::Key;
use crate::message::Fresh;
use crate::refusal::Result;
use crate::writer::Backpointers;

/// Most elements of one command: records, contents or indexes.
pub const MAX_ELEMENTS: usize = 1 << 16;

/// What an application asks for (DCS, sections 3.2 and 4.1); each command is answered by one [`Reply`]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates the capsule whose metadata the client was given. Gives [`Reply::Done`] when a write quorum has stored it.
    Create,
    /// Begins to write, or goes on; writing needs it once. Gives [`Reply::Ready`].
    Init {
        /// Where.
        start: Start,
    },
    /// Writes a record of each content, each after the one before. Gives [`Reply::Written`] when a write quorum has stored all.
    Write {
        /// The contents, as the application means them: the client seals them where not everybody reads.
        contents: Vec<Bytes>,
        /// What each record points to beside the one before it; those that are named belong to the first record. One that names
        /// this writer, and that it has neither written nor signed, is refused: pointing to it would make it this writer's.
        backpointers: Backpointers,
        /// What is signed.
        signing: Signing,
    },
    /// Writes one record of sub-records. Gives [`Reply::Written`] with one name.
    Commit {
        /// The sub-records.
        subrecords: Vec<Bytes>,
        /// What the record points to beside the one before it.
        backpointers: Backpointers,
        /// What is signed.
        signing: Signing,
    },
    /// Signs the last record that was written, and so all before it. Gives [`Reply::Done`].
    Sign,
    /// Changes who writes and reads; only the owner's client can. Gives [`Reply::Written`] with the epoch records.
    Govern {
        /// Keys of writers that join.
        added: Vec<Key>,
        /// Writers that leave; needs [`Period::Next`].
        revoked: Vec<Revoked>,
        /// Readers that are granted the key of the epoch. In the next epoch nobody else but the owner reads what is written.
        readers: Vec<ReaderKey>,
        /// Whether the epoch goes on.
        period: Period,
    },
    /// Reads records, proven and opened. Gives [`Reply::Records`].
    Read {
        /// Their names.
        records: Vec<RecordName>,
    },
    /// Asks a read quorum for the newest records. Gives [`Reply::Fresh`].
    QueryFresh,
    /// Reads sub-records, proven and opened. Gives [`Reply::Parts`].
    ReadParts {
        /// Of each its record, and its place there.
        parts: Vec<(RecordName, u32)>,
    },
    /// Asks for what records with sub-records begin with. Gives [`Reply::Subrecords`].
    Subrecords {
        /// The records.
        records: Vec<RecordName>,
    },
    /// Makes a file that proves a record to whoever has nothing else. Gives [`Reply::File`].
    Export {
        /// The record.
        record: RecordName,
        /// What of it.
        extent: Extent,
    },
    /// Collects evidence that a writer has used a sequence number twice. Gives [`Reply::Fork`].
    Accuse {
        /// Two records, such as [`Heads::forks`] names.
        records: [RecordName; 2],
    },
    /// Asks what the capsule is and who writes it now. Gives [`Reply::Described`].
    Describe,
}

/// Where a writer begins
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// After the last record of its own that was stored by a quorum, as the client's store remembers; without any, at the root.
    Resume,
    /// After this record, which is proven first: a branch, or going on with what somebody else wrote.
    After(RecordName),
}

/// What a write signs
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// The last of its records, and so all of them.
    Last,
    /// Nothing yet: none of its records is proven before a later one is signed.
    Later,
}

/// In which epoch something happens
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// In the present one.
    Same,
    /// In the next one, which has another key.
    Next,
}

/// What of a record a file holds
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its header.
    Header,
    /// Its header and its body, as it is stored: sealed where not everybody reads.
    Whole,
}

/// What an application is told
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A write quorum has stored it.
    Done,
    /// Writing can begin.
    Ready(Position),
    /// These records were written, in their order.
    Written(Vec<RecordName>),
    /// Of each record what it holds, or why it could not be read.
    Records(Vec<Result<Got>>),
    /// The newest records.
    Fresh(Heads),
    /// Of each sub-record what it holds, or why it could not be read.
    Parts(Vec<Result<Bytes>>),
    /// Of each record what it begins with.
    Subrecords(Vec<Result<Outline>>),
    /// A file.
    File(Vec<u8>),
    /// Evidence, verified.
    Fork(Fork),
    /// What the capsule is.
    Described(Description),
}

/// Where a writer stands
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its number in the capsule.
    pub writer: u16,
    /// The epoch that it writes in.
    pub epoch: u32,
    /// The sequence number of its next record.
    pub sequence: u64,
    /// What its next record follows.
    pub parent: Option<RecordName>,
}

/// A record that was read, in memory that it shares with those that were read with it
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// The header.
    pub header: EncodedHeader,
    /// Whether the writer that the header names has signed it, or another writer vouches for it.
    pub authorship: Authorship,
    /// What it holds.
    pub content: Content,
}

/// What a record with sub-records begins with
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The header.
    pub header: Header,
    /// Whether the writer that the header names has signed it, or another writer vouches for it.
    pub authorship: Authorship,
    /// How many sub-records it has.
    pub count: u32,
    /// The first of them, or why it cannot be opened.
    pub first: Result<Bytes>,
}

/// What a record holds
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of the application.
    Plain(Bytes),
    /// Sub-records.
    Parts(Vec<Bytes>),
    /// The body of an epoch record.
    Change(Bytes),
}

/// The newest records
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The heads, sorted by name: those that some server named and proved, without those that another server knows to be old. Each
    /// is signed by the writer that it names.
    pub heads: Vec<Head>,
    /// The answers that count, with the number of who gave each: signed over this client's nonce.
    pub answers: Vec<(u16, Fresh)>,
    /// Servers whose answers do not count, and why: [`selfsame_codec::Code::RolledBack`] if one knows less than this client has
    /// seen.
    pub refused: Vec<(u16, crate::refusal::Refusal)>,
    /// Pairs of records of one writer with one sequence number, each signed by it, that this client has seen.
    pub forks: Vec<[RecordName; 2]>,
}

/// A head
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its name.
    pub name: RecordName,
    /// Its header.
    pub header: Header,
}

/// What a capsule is
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The signed metadata.
    pub metadata: Vec<u8>,
    /// Numbers and keys of who writes now, the owner included.
    pub writers: Vec<(u16, Key)>,
    /// The present epoch.
    pub epoch: u32,
    /// How many epoch records there are.
    pub epoch_records: u32,
}
