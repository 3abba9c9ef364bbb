//! What a client in `capsule.wasm` is made of, what an application asks of it and what it is told.

use alloc::vec::Vec;

use crate::batch::items;
use crate::cbor::{Decoder, Encoder};
use crate::field::Malformed;

/// The kind from which on an input is a [`Command`] and an output a [`Reply`].
pub const FIRST_KIND: u8 = 64;

items! {
    /// What an application asks of a client
    ///
    /// `command` numbers are the host's and return with the one reply to each. Names are 32 bytes each, one after the other.
    pub enum Command {
        /// Create the capsule of the metadata in the configuration; answered by `Done`.
        64 Create { command: u32 }
        /// Begin to write: after this record, or where this writer was, if there is none; answered by `Ready`.
        65 Init { command: u32, after: &'a [u8] }
        /// Write a record of each content (see `Keys`); answered by `Written`. Beside the record before, each points to what
        /// shortens proofs (`shortcuts`), or the first one to `pointers`; the last one is signed at once (`sign`) or later.
        66 Write { command: u32, sign: bool, shortcuts: bool, pointers: &'a [u8], contents: &'a [u8] }
        /// Write one record of sub-records (see `Keys`); answered by `Written`.
        67 Commit { command: u32, sign: bool, shortcuts: bool, pointers: &'a [u8], contents: &'a [u8] }
        /// Sign the last record that was written; answered by `Done`.
        68 Sign { command: u32 }
        /// Change who writes and reads, in the next epoch (`next`) or in this one: keys of writers that join, writers that
        /// leave (`number u16 | length u32 | names`, any number), and public keys of readers; answered by `Written`.
        69 Govern { command: u32, next: bool, added: &'a [u8], revoked: &'a [u8], readers: &'a [u8] }
        /// Read records; answered by `Records`.
        70 Read { command: u32, names: &'a [u8] }
        /// Ask which records are the newest; answered by `Fresh`.
        72 QueryFresh { command: u32 }
        /// Read sub-records of a record, by their places (`u32` each); answered by `Parts`.
        73 ReadParts { command: u32, name: [u8; 32], indexes: &'a [u8] }
        /// Ask how many sub-records records have; answered by `Subrecords`.
        74 CountParts { command: u32, names: &'a [u8] }
        /// Make a file that proves a record, with its body (`whole`) or without; answered by `File`.
        75 Export { command: u32, name: [u8; 32], whole: bool }
        /// Ask what the capsule is and who writes it; answered by `Described`.
        76 Describe { command: u32 }
        /// Collect evidence that a writer has used a sequence number twice, of two records that `Fresh` names; answered by
        /// `Fork`.
        77 Accuse { command: u32, one: [u8; 32], other: [u8; 32] }
    }
}

items! {
    /// What an application is told
    ///
    /// A list of `results` has for each element `0 u16` and what is said there, or `code u16 | at u32`.
    pub enum Reply {
        /// A write quorum has stored it.
        64 Done { command: u32 }
        /// Writing can begin: the writer's number, its epoch, the sequence number of its next record, and what that follows.
        65 Ready { command: u32, writer: u16, epoch: u32, sequence: u64, after: &'a [u8] }
        /// A write quorum has stored these records.
        66 Written { command: u32, names: &'a [u8] }
        /// Of each record `length u32 | header`, then 1 and `length u32 | content`, 2 and `length u32 | sub-records` (see
        /// `Keys`), or 3 and `length u32 | body` of an epoch record.
        67 Records { command: u32, results: &'a [u8] }
        /// The newest records (`name 32 | length u32 | header`); the answers that count (`server u16 | time u64 | length u32 |
        /// names`); those that do not (`server u16 | code u16 | at u32`); pairs of records with one sequence number.
        69 Fresh { command: u32, heads: &'a [u8], answers: &'a [u8], refused: &'a [u8], forks: &'a [u8] }
        /// Of each sub-record `length u32 | content`.
        70 Parts { command: u32, results: &'a [u8] }
        /// Of each record how many sub-records it has, `u32`.
        71 Counts { command: u32, results: &'a [u8] }
        /// A file.
        72 File { command: u32, file: &'a [u8] }
        /// Signed metadata, who writes now (`number u16 | key 32`), the epoch and how many epoch records there are.
        73 Described { command: u32, metadata: &'a [u8], writers: &'a [u8], epoch: u32, records: u32 }
        /// Evidence of a fork, verified: of each record its header and a proof that begins with a signature.
        74 Fork { command: u32, header: &'a [u8], proof: &'a [u8], other_header: &'a [u8], other_proof: &'a [u8] }
        /// It failed.
        75 Failed { command: u32, code: u16, at: u32 }
    }
}

/// What `create` of a capsule module is given to make a client
///
/// ```cddl
/// config = [version: 1, client: 2, capsule: bytes .size 32, metadata: bytes, servers: bytes, seed: bytes,
///           write-quorum: uint, read-quorum: uint, hedge-ms: uint, attempt-ms: uint, avoid-ms: uint, deadline-ms: uint,
///           entropy: bytes .size 32]
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ClientConfig<'a> {
    /// The capsule.
    pub capsule: [u8; 32],
    /// Its signed metadata; empty if the servers are to be asked.
    pub metadata: &'a [u8],
    /// Public keys of its servers, 32 bytes each.
    pub servers: &'a [u8],
    /// The seed of a writer or reader, 32 bytes or none. Secret.
    pub seed: &'a [u8],
    /// How many servers must have stored something before it counts as written.
    pub write_quorum: u32,
    /// How many servers must have said which records are the newest.
    pub read_quorum: u32,
    /// How long it waits, in milliseconds: before it asks a second server, before it gives up a request, how long it leaves alone
    /// a server that failed, before it gives up a command.
    pub timing: [u32; 4],
    /// Fresh random bytes. Secret.
    pub entropy: [u8; 32],
}

const VERSION: u64 = 1;
const CLIENT: u64 = 2;

impl<'a> ClientConfig<'a> {
    /// The encoding that `create` takes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(13)
            .uint(VERSION)
            .uint(CLIENT)
            .bytes(&self.capsule)
            .bytes(self.metadata)
            .bytes(self.servers)
            .bytes(self.seed)
            .uint(u64::from(self.write_quorum))
            .uint(u64::from(self.read_quorum));
        for wait in self.timing {
            encoder.uint(u64::from(wait));
        }
        encoder.bytes(&self.entropy);
        out
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of a client of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(13)?;
        if decoder.uint()? != VERSION || decoder.uint()? != CLIENT {
            return Err(Malformed);
        }
        let config = Self {
            capsule: decoder.fixed()?,
            metadata: decoder.bytes(MAX_BYTES)?,
            servers: decoder.bytes(MAX_BYTES)?,
            seed: decoder.bytes(32)?,
            write_quorum: decoder.u32()?,
            read_quorum: decoder.u32()?,
            timing: [decoder.u32()?, decoder.u32()?, decoder.u32()?, decoder.u32()?],
            entropy: decoder.fixed()?,
        };
        decoder.finish()?;
        Ok(config)
    }
}

/// Longest metadata and list of servers, generously: whoever uses them has limits of its own.
const MAX_BYTES: usize = 1 << 16;

/// Says nothing of the secrets
impl core::fmt::Debug for ClientConfig<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ClientConfig")
            .field("write_quorum", &self.write_quorum)
            .field("read_quorum", &self.read_quorum)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
