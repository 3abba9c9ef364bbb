//! What the module says of records, as values.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use selfsame_codec::capsule::Keys;
use selfsame_codec::client::Reply;
use selfsame_codec::{Malformed, Reader};

use crate::error::Error;
use crate::id::{CapsuleKey, RecordName};

/// Length of a name or a key.
const NAME_BYTES: usize = 32;

/// What the body of a record is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Bytes of the application.
    Plain,
    /// Sub-records.
    Tree,
    /// The owner's word on who writes and reads.
    Epoch,
}

/// Who answers for a record that is proven
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorship {
    /// The writer that the record names, whose number this is, has signed it, or a later record of its own that leads there.
    SignedBy(u16),
    /// The writer with this number, another one, has signed what leads there: nothing shows that the writer that the record names
    /// made it.
    VouchedForBy(u16),
}

impl Authorship {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind: u8 = reader.field()?;
        let signer = reader.field()?;
        match kind {
            1 => Ok(Self::SignedBy(signer)),
            2 => Ok(Self::VouchedForBy(signer)),
            _ => Err(Malformed),
        }
    }
}

impl core::fmt::Display for Authorship {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::SignedBy(signer) => write!(f, "signed by {signer}"),
            Self::VouchedForBy(signer) => write!(f, "vouched for by {signer}"),
        }
    }
}

/// The header of a record
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordHeader {
    /// What the body is.
    pub kind: RecordKind,
    /// The number of the writer that it names, 0 for the owner: [`Authorship`] says whether that one has signed it.
    pub writer: u16,
    /// The epoch that it was written in.
    pub epoch: u32,
    /// How many records its writer had written before it; a writer may leave numbers out.
    pub sequence: u64,
    /// Length of the body in bytes, as it is stored.
    pub body_length: u32,
    /// Names of earlier records: the first is the primary parent.
    pub backpointers: Vec<RecordName>,
}

/// A record that was read: proven and opened
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its name.
    pub name: RecordName,
    /// Its header.
    pub header: RecordHeader,
    /// Whether the writer that the header names has signed it, or another writer vouches for it.
    pub authorship: Authorship,
    /// What it holds.
    pub content: Content,
}

/// What a record holds
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of the application.
    Bytes(Vec<u8>),
    /// Sub-records.
    Parts(Vec<Vec<u8>>),
    /// The body of an epoch record.
    Change(Vec<u8>),
}

/// A record that no proven record points to, signed by the writer that it names
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// Its name.
    pub name: RecordName,
    /// Its header.
    pub header: RecordHeader,
}

/// The newest records of a capsule
#[derive(Debug)]
#[non_exhaustive]
pub struct Heads {
    /// The heads, sorted by name: those that some server named and proved, without those that another one knows to be old.
    pub heads: Vec<Head>,
    /// The answers that count.
    pub answers: Vec<Answer>,
    /// The servers whose answers do not count, and why: `RolledBack` for one that knows less than this client has seen.
    pub refused: Vec<(CapsuleKey, Error)>,
    /// Pairs of records in which a writer has used one sequence number twice, both signed by it, as far as this client has seen.
    pub forks: Vec<[RecordName; 2]>,
}

impl Heads {
    /// Whether all servers whose answers count named the same.
    #[must_use]
    pub fn agreed(&self) -> bool {
        self.answers.windows(2).all(|pair| pair[0].heads == pair[1].heads)
    }
}

/// What a server says is newest, signed over this client's nonce
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The server.
    pub server: CapsuleKey,
    /// Its time.
    pub time: SystemTime,
    /// The heads that it names.
    pub heads: Vec<RecordName>,
}

/// Where a writer stands
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// Its number in the capsule.
    pub writer: u16,
    /// The epoch that it writes in.
    pub epoch: u32,
    /// The sequence number of its next record.
    pub sequence: u64,
    /// What its next record follows, if there is something.
    pub after: Option<RecordName>,
}

/// What a capsule is, and who writes it now
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The signed metadata, which [`describe`](super::describe) reads.
    pub metadata: Vec<u8>,
    /// Who writes: the number and the public key of each, the owner included, whose number is 0.
    pub writers: Vec<(u16, CapsuleKey)>,
    /// The present epoch.
    pub epoch: u32,
    /// How many epoch records there are.
    pub epoch_records: u32,
}

/// Evidence that a writer has used one sequence number twice: two records with it, each proven
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkEvidence {
    /// The two.
    pub records: [SignedHeader; 2],
}

/// A header and its proof, which begins with a signature, as they are encoded
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedHeader {
    /// The header.
    pub header: Vec<u8>,
    /// The proof.
    pub proof: Vec<u8>,
}

/// Reads a header that the module has verified.
pub(super) fn read_header(encoded: &[u8]) -> Result<RecordHeader, Malformed> {
    let mut reader = Reader::new(encoded);
    let pointers: u8 = reader.field()?;
    let kind = match reader.field::<u8>()? {
        1 => RecordKind::Plain,
        2 => RecordKind::Tree,
        3 => RecordKind::Epoch,
        _ => return Err(Malformed),
    };
    let (writer, epoch, sequence) = (reader.field()?, reader.field()?, reader.field()?);
    let body_length = reader.field()?;
    let _body_hash: [u8; NAME_BYTES] = reader.array()?;
    let backpointers = read_names(reader.take(usize::from(pointers) * NAME_BYTES)?)?;
    Ok(RecordHeader {
        kind,
        writer,
        epoch,
        sequence,
        body_length,
        backpointers,
    })
}

/// Names, one after the other.
pub(super) fn read_names(bytes: &[u8]) -> Result<Vec<RecordName>, Malformed> {
    let (names, rest) = bytes.as_chunks();
    if rest.is_empty() {
        Ok(names.iter().copied().map(RecordName).collect())
    } else {
        Err(Malformed)
    }
}

/// Reads of each element what is said there, or why there is nothing; `read` is told which element it is.
pub(super) fn read_results<T>(
    bytes: &[u8],
    mut read: impl FnMut(&mut Reader<'_>, usize) -> Result<T, Malformed>,
) -> Result<Vec<Result<T, Error>>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut results = Vec::new();
    while !reader.is_empty() {
        let code: u16 = reader.field()?;
        results.push(match code {
            0 => Ok(read(&mut reader, results.len())?),
            _ => Err(Error::at(code, u64::from(reader.field::<u32>()?))),
        });
    }
    Ok(results)
}

/// Reads a record of this name.
pub(super) fn read_record(reader: &mut Reader<'_>, name: RecordName) -> Result<Record, Malformed> {
    let header = read_header(reader.field()?)?;
    let authorship = Authorship::read(reader)?;
    let kind: u8 = reader.field()?;
    let bytes: &[u8] = reader.field()?;
    let content = match kind {
        1 => Content::Bytes(bytes.to_vec()),
        2 => Content::Parts(
            Keys::new(bytes)
                .map(|part| part.map(<[u8]>::to_vec))
                .collect::<Result<_, _>>()?,
        ),
        3 => Content::Change(bytes.to_vec()),
        _ => return Err(Malformed),
    };
    Ok(Record {
        name,
        header,
        authorship,
        content,
    })
}

/// Reads where a writer stands.
pub(super) fn read_position(reply: &Reply<'_>) -> Result<Position, Malformed> {
    let Reply::Ready {
        writer,
        epoch,
        sequence,
        after,
        ..
    } = *reply
    else {
        return Err(Malformed);
    };
    Ok(Position {
        writer,
        epoch,
        sequence,
        after: read_names(after)?.first().copied(),
    })
}

/// Reads which records are the newest; `servers` are the keys of all servers, by their numbers.
pub(super) fn read_heads(reply: &Reply<'_>, servers: &[CapsuleKey]) -> Result<Heads, Malformed> {
    let Reply::Fresh {
        heads,
        answers,
        refused,
        forks,
        ..
    } = *reply
    else {
        return Err(Malformed);
    };
    let server = |number: u16| servers.get(usize::from(number)).copied().ok_or(Malformed);
    let heads = read_all(heads, |reader| {
        Ok(Head {
            name: RecordName(reader.array()?),
            header: read_header(reader.field()?)?,
        })
    })?;
    let answers = read_all(answers, |reader| {
        Ok(Answer {
            server: server(reader.field()?)?,
            time: UNIX_EPOCH + Duration::from_millis(reader.field()?),
            heads: read_names(reader.field()?)?,
        })
    })?;
    let refused = read_all(refused, |reader| {
        let server = server(reader.field()?)?;
        let (code, at): (u16, u32) = (reader.field()?, reader.field()?);
        Ok((server, Error::at(code, u64::from(at))))
    })?;
    let forks = read_names(forks)?.as_chunks().0.to_vec();
    Ok(Heads {
        heads,
        answers,
        refused,
        forks,
    })
}

/// Reads what a capsule is.
pub(super) fn read_description(reply: &Reply<'_>) -> Result<Description, Malformed> {
    let Reply::Described {
        metadata,
        writers,
        epoch,
        records,
        ..
    } = *reply
    else {
        return Err(Malformed);
    };
    let writers = read_all(writers, |reader| {
        Ok((reader.field()?, CapsuleKey(reader.array()?)))
    })?;
    Ok(Description {
        metadata: metadata.to_vec(),
        writers,
        epoch,
        epoch_records: records,
    })
}

/// Reads evidence of a fork.
pub(super) fn read_fork(reply: &Reply<'_>) -> Result<ForkEvidence, Malformed> {
    let Reply::Fork {
        header,
        proof,
        other_header,
        other_proof,
        ..
    } = *reply
    else {
        return Err(Malformed);
    };
    let signed = |header: &[u8], proof: &[u8]| SignedHeader {
        header: header.to_vec(),
        proof: proof.to_vec(),
    };
    Ok(ForkEvidence {
        records: [signed(header, proof), signed(other_header, other_proof)],
    })
}

fn read_all<T>(
    bytes: &[u8],
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(read(&mut reader)?);
    }
    Ok(all)
}
