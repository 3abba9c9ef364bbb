//! What clients and replicas say to each other: operations on one capsule, as many in one message as one likes (DCS, section
//! 3.2, Init).
//!
//! ```text
//! request  = version u8 | capsule 32 | session 16 | verified u32 | operation ...
//! response = version u8 | code u16 | at u32, if the code is not 0
//!     | serial u32 | result ... in the order of the operations | acknowledgement, if it is
//! result   = code u16 | at u32, if the code is not 0 | what the operation gives, if it is
//! ```
//!
//! The acknowledgement is 0 where nothing was stored, or 1 and the server's word.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};

use crate::hash::{CapsuleName, HASH_BYTES, RecordName};
use crate::introduction::Introduction;
pub use crate::introduction::SessionId;
use crate::keys::{Key, KeyPair, Signature};
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::sketch::{MAX_SYMBOLS, Salt};
use crate::verifier::Verifier;

/// Version of the messages.
pub const VERSION: u8 = 1;
/// Longest request or response: some large records, or tens of thousands of small ones.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// Most operations of one request.
pub const MAX_OPERATIONS: usize = 4096;

/// Bytes of epoch records after which an answer ends: whoever asked asks for the rest.
pub const MAX_EPOCH_BYTES: usize = 1 << 20;

const FRESH: &str = "selfsame/1 capsule freshness";

/// The session of requests of replicas: what they store is not pushed on to further replicas.
pub const REPLICAS: SessionId = [0; 16];

/// What every request begins with
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The capsule that all operations are about.
    pub capsule: CapsuleName,
    /// The session, to which the mirror of the reader's cache belongs.
    pub session: SessionId,
    /// Serial of the last response whose proofs the reader has all verified, or 0.
    pub verified: u32,
}

impl<'a> Field<'a> for Envelope {
    fn read(reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        if reader.field::<u8>()? != VERSION {
            return Err(Malformed);
        }
        Ok(Self {
            capsule: CapsuleName(reader.array()?),
            session: reader.array()?,
            verified: reader.field()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend_from_slice(&self.capsule.0);
        out.extend_from_slice(&self.session);
        self.verified.write(out);
    }
}

/// Which elements two replicas compare
///
/// ```text
/// part = since u64 | first u64 | last u64
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Those alone that arrived after so many others; all if 0. Each replica counts its own.
    pub since: u64,
    /// Least first eight bytes of the record's name, big-endian.
    pub first: u64,
    /// Greatest.
    pub last: u64,
}

impl Part {
    /// All elements.
    pub const WHOLE: Self = Self {
        since: 0,
        first: 0,
        last: u64::MAX,
    };
}

impl<'a> Field<'a> for Part {
    fn read(reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        let part = Self {
            since: reader.field()?,
            first: reader.field()?,
            last: reader.field()?,
        };
        if part.first <= part.last {
            Ok(part)
        } else {
            Err(Malformed)
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.since.write(out);
        self.first.write(out);
        self.last.write(out);
    }
}

/// One operation
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Creates the capsule. Gives nothing.
    Create {
        /// Signed metadata.
        metadata: &'a [u8],
    },
    /// Says how large the reader's verification cache is, whose mirror is empty from now on. Gives nothing.
    Open {
        /// Slots of the cache, as a power of two.
        slots_log2: u8,
    },
    /// Stores a record. Gives nothing.
    Write {
        /// The record.
        record: Record<'a>,
    },
    /// Stores a signature of a stored record. Gives nothing.
    Sign {
        /// The record.
        record: RecordName,
        /// Its writer's signature.
        signature: Signature,
    },
    /// Reads a record. Gives `header | body`.
    Read {
        /// The record.
        record: RecordName,
    },
    /// Proves a record. Gives `length u32 | proof`.
    Prove {
        /// The record.
        record: RecordName,
    },
    /// Asks which records nothing points to, and which one a writer has signed last. Gives [`Fresh`].
    QueryFresh(FreshQuery),
    /// Reads a sub-record, with what proves it against its record's tree, or against the node so many levels above it. Gives `length
    /// u32 | sub-record | hashes u16 | hash 32, as often as said`.
    ReadPart {
        /// The record.
        record: RecordName,
        /// Place of the sub-record.
        index: u32,
        /// How many levels up the reader knows a node; [`TO_THE_TOP`] if it knows none.
        levels: u8,
    },
    /// Asks what sub-records a record has. Gives `header | sub-records u32 | preamble length u32 | preamble`.
    Subrecords {
        /// The record.
        record: RecordName,
    },
    /// Asks for the metadata. Gives `length u32 | signed metadata`.
    Describe,
    /// Asks another replica for a sketch of what it stores. Gives `arrivals u64 | fingerprint 32 |
    /// symbols u32 | elements u64 and the symbols, if there are any`.
    Compare {
        /// What the sketch's ids are salted with.
        salt: Salt,
        /// Of which elements.
        part: Part,
        /// How many symbols.
        symbols: u32,
        /// No sketch is wanted if this is the fingerprint of all that the other stores.
        unless: Fingerprint,
    },
    /// Asks another replica which elements have these ids. Gives `elements u32 | element 33, as often as said`.
    Elements {
        /// What the ids are salted with.
        salt: Salt,
        /// Among which elements.
        part: Part,
        /// The ids, eight bytes each.
        ids: &'a [u8],
    },
    /// Asks for the signature of a record. Gives `is epoch u8 | sequence u64 | signature 64`.
    Signature {
        /// The record.
        record: RecordName,
    },
    /// Asks for the epoch records in force, in their order, from one on. Gives `total u32 | n u16 | header, body, signature 64, n
    /// times`.
    Epochs {
        /// How many the reader has.
        from: u32,
    },
    /// Says which writer asks: what it writes and has not signed yet is kept. Gives nothing.
    Introduce(Introduction),
}

/// More levels than any tree has: a sub-record is proven by all of its path.
pub const TO_THE_TOP: u8 = u8::MAX;

/// A fingerprint of all elements of a replica's set: of how many there are, and the sum of their hashes modulo 2^256
pub type Fingerprint = [u8; HASH_BYTES];

/// Most ids that one operation asks for.
pub const MAX_IDS: usize = MAX_SYMBOLS;

impl<'a> Operation<'a> {
    /// Reads one operation.
    ///
    /// # Errors
    /// [`Code::BadMessage`], or what [`Record::read`] says, with the offset from where the reader stood.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let whole = reader.rest();
        let place = |reader: &Reader<'_>| whole.len() - reader.rest().len();
        let kind: u8 = reader.field().map_err(|_| Refusal::new(Code::BadMessage, 0))?;
        if kind == WRITE {
            let record = Record::read(reader).map_err(|refusal| refusal.further(1))?;
            return Ok(Self::Write { record });
        }
        Self::read_small(kind, reader).map_err(|Malformed| Refusal::new(Code::BadMessage, place(reader)))
    }

    fn read_small(kind: u8, reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        Ok(match kind {
            CREATE => Self::Create {
                metadata: reader.field()?,
            },
            OPEN => Self::Open {
                slots_log2: reader.field()?,
            },
            SIGN => Self::Sign {
                record: RecordName(reader.array()?),
                signature: Signature(reader.array()?),
            },
            READ => Self::Read {
                record: RecordName(reader.array()?),
            },
            PROVE => Self::Prove {
                record: RecordName(reader.array()?),
            },
            QUERY_FRESH => Self::QueryFresh(reader.field()?),
            READ_PART => Self::ReadPart {
                record: RecordName(reader.array()?),
                index: reader.field()?,
                levels: reader.field()?,
            },
            SUBRECORDS => Self::Subrecords {
                record: RecordName(reader.array()?),
            },
            DESCRIBE => Self::Describe,
            COMPARE => Self::Compare {
                salt: reader.array()?,
                part: reader.field()?,
                symbols: at_most(reader.field()?, MAX_SYMBOLS)?,
                unless: reader.array()?,
            },
            ELEMENTS => Self::Elements {
                salt: reader.array()?,
                part: reader.field()?,
                ids: {
                    let count = at_most(reader.field()?, MAX_IDS)?;
                    reader.take(count as usize * 8)?
                },
            },
            SIGNATURE => Self::Signature {
                record: RecordName(reader.array()?),
            },
            EPOCHS => Self::Epochs {
                from: reader.field()?,
            },
            INTRODUCE => Self::Introduce(reader.field()?),
            _ => return Err(Malformed),
        })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create { metadata } => {
                out.push(CREATE);
                metadata.write(out);
            }
            Self::Open { slots_log2 } => out.extend_from_slice(&[OPEN, *slots_log2]),
            Self::Write { record } => {
                out.push(WRITE);
                out.extend_from_slice(record.header.encoded());
                out.extend_from_slice(record.body);
            }
            Self::Sign { record, signature } => {
                out.push(SIGN);
                out.extend_from_slice(&record.0);
                out.extend_from_slice(&signature.0);
            }
            Self::Read { record } => named(READ, record, out),
            Self::Prove { record } => named(PROVE, record, out),
            Self::QueryFresh(query) => {
                out.push(QUERY_FRESH);
                query.write(out);
            }
            Self::ReadPart {
                record,
                index,
                levels,
            } => {
                named(READ_PART, record, out);
                index.write(out);
                levels.write(out);
            }
            Self::Subrecords { record } => named(SUBRECORDS, record, out),
            Self::Describe => out.push(DESCRIBE),
            Self::Compare {
                salt,
                part,
                symbols,
                unless,
            } => {
                out.push(COMPARE);
                out.extend_from_slice(salt);
                part.write(out);
                symbols.write(out);
                out.extend_from_slice(unless);
            }
            Self::Elements { salt, part, ids } => {
                out.push(ELEMENTS);
                out.extend_from_slice(salt);
                part.write(out);
                ((ids.len() / 8) as u32).write(out);
                out.extend_from_slice(ids);
            }
            Self::Signature { record } => named(SIGNATURE, record, out),
            Self::Epochs { from } => {
                out.push(EPOCHS);
                from.write(out);
            }
            Self::Introduce(introduction) => {
                out.push(INTRODUCE);
                introduction.write(out);
            }
        }
    }
}

pub(crate) const CREATE: u8 = 1;
const OPEN: u8 = 2;
pub(crate) const WRITE: u8 = 3;
pub(crate) const SIGN: u8 = 4;
const READ: u8 = 5;
const PROVE: u8 = 6;
const QUERY_FRESH: u8 = 7;
const READ_PART: u8 = 8;
const SUBRECORDS: u8 = 9;
const DESCRIBE: u8 = 10;
const COMPARE: u8 = 11;
const ELEMENTS: u8 = 12;
const SIGNATURE: u8 = 13;

fn at_most(count: u32, most: usize) -> core::result::Result<u32, Malformed> {
    if count as usize <= most {
        Ok(count)
    } else {
        Err(Malformed)
    }
}
const EPOCHS: u8 = 14;
const INTRODUCE: u8 = 15;

fn named(kind: u8, record: &RecordName, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&record.0);
}

/// Most heads that an answer names: more branches than any application merges.
pub const MAX_HEADS: usize = 1024;

/// A question for the newest records
///
/// ```text
/// query = nonce 32 | writer's key 32, zeros for none
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshQuery {
    /// Random bytes, to which the answer is bound.
    pub nonce: [u8; 32],
    /// The writer whose newest signed record is asked for: heads do not show it where another writer's record points to it.
    pub writer: Option<Key>,
}

impl FreshQuery {
    /// A question for the heads alone.
    #[must_use]
    pub fn heads(nonce: [u8; 32]) -> Self {
        Self { nonce, writer: None }
    }
}

impl<'a> Field<'a> for FreshQuery {
    fn read(reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        Ok(Self {
            nonce: reader.array()?,
            writer: read_optional(reader)?.map(Key),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.writer.map_or(NONE, |writer| writer.0));
    }
}

/// Stands for a key or a name where there is none: neither is ever zero.
const NONE: [u8; HASH_BYTES] = [0; HASH_BYTES];

fn read_optional(reader: &mut Reader<'_>) -> core::result::Result<Option<[u8; HASH_BYTES]>, Malformed> {
    let bytes = reader.array()?;
    Ok((bytes != NONE).then_some(bytes))
}

/// A server's word on the heads of its graph, bound to the reader's question
///
/// ```text
/// fresh = time ms u64 | server 32 | newest 32, zeros for none | heads u16 | head 32, as often as said | signature 64
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// When, by the server's clock.
    pub time_ms: u64,
    /// Who.
    pub server: Key,
    /// The record with the largest sequence that the writer in question has signed.
    pub newest: Option<RecordName>,
    /// Proven records that no proven record points to, sorted.
    pub heads: Vec<RecordName>,
    /// The server's signature.
    pub signature: Signature,
}

impl Fresh {
    /// Signs an answer that names at most [`MAX_HEADS`].
    #[must_use]
    pub fn sign(
        server: &KeyPair,
        capsule: &CapsuleName,
        query: &FreshQuery,
        newest: Option<RecordName>,
        mut heads: Vec<RecordName>,
        time_ms: u64,
    ) -> Self {
        heads.sort_unstable();
        let mut fresh = Self {
            time_ms,
            server: server.public(),
            newest,
            heads,
            signature: Signature([0; 64]),
        };
        fresh.signature = server.sign(FRESH, &fresh.statement(capsule, query));
        fresh
    }

    /// Whether the server named has signed this for this question.
    #[must_use]
    pub fn verify(&self, verifier: &mut Verifier, capsule: &CapsuleName, query: &FreshQuery) -> bool {
        let statement = self.statement(capsule, query);
        verifier.verifies(&self.server, FRESH, &statement, &self.signature)
    }

    /// The newest record that is named, as its 32 bytes.
    fn newest_bytes(&self) -> [u8; HASH_BYTES] {
        self.newest.map_or(NONE, |newest| newest.0)
    }

    /// What the server signs.
    fn statement(&self, capsule: &CapsuleName, query: &FreshQuery) -> Vec<u8> {
        let mut statement = Vec::with_capacity((5 + self.heads.len()) * HASH_BYTES + 8);
        statement.extend_from_slice(&capsule.0);
        statement.extend_from_slice(&self.server.0);
        query.write(&mut statement);
        self.time_ms.write(&mut statement);
        statement.extend_from_slice(&self.newest_bytes());
        let heads = self.heads.iter();
        heads.for_each(|head| statement.extend_from_slice(&head.0));
        statement
    }
}

impl<'a> Field<'a> for Fresh {
    fn read(reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        Ok(Self {
            time_ms: reader.field()?,
            server: Key(reader.array()?),
            newest: read_optional(reader)?.map(RecordName),
            heads: {
                let count = usize::from(reader.field::<u16>()?);
                if count > MAX_HEADS {
                    return Err(Malformed);
                }
                (0..count)
                    .map(|_| reader.array().map(RecordName))
                    .collect::<core::result::Result<_, _>>()?
            },
            signature: Signature(reader.array()?),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.time_ms.write(out);
        out.extend_from_slice(&self.server.0);
        out.extend_from_slice(&self.newest_bytes());
        (self.heads.len() as u16).write(out);
        self.heads.iter().for_each(|head| out.extend_from_slice(&head.0));
        out.extend_from_slice(&self.signature.0);
    }
}
