//! The sub-records of a map's records (`docs/specification/capsules.md`, Maps).
//!
//! ```text
//! head      = "map" 0x01 | kind u8 | follows u8 | clock u64 | what the kind says
//!   1 operations   base | n u16 | (1 set or 2 delete u8 | length u16 | key), n times
//!   2 pages
//!   3 index        root | height u8 | n u8 | covered record 32, n times
//! base      = 0 | 1 record 32
//! root      = reference
//! operation = 1 set or 2 delete u8 | length u16 | key | before | value
//! before    = 0 | reference
//! reference = 1 record 32 index u32 | 2 index u32, in this record
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};

use super::command::{MAX_KEY_BYTES, MAX_OPERATIONS, Place};
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result, placed};

const MAGIC: [u8; 4] = *b"map\x01";
/// The largest clock that is written or told: what every host can count to. Whatever a record says, those that follow it come after
/// it, so that nobody uses the clocks up.
pub(super) const MAX_CLOCK: u64 = 1 << 53;
/// Most index records that one names as covered.
pub(super) const MAX_COVERED: usize = 64;
/// Most levels of a tree above its leaves.
pub(super) const MAX_HEIGHT: u8 = 16;

/// What an operation does
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Set = 1,
    Delete = 2,
}

impl Kind {
    pub(super) fn read(reader: &mut Reader<'_>) -> core::result::Result<Self, Malformed> {
        match reader.field::<u8>()? {
            1 => Ok(Self::Set),
            2 => Ok(Self::Delete),
            _ => Err(Malformed),
        }
    }
}

/// The newest operation on a key, as far as one place tells
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) kind: Kind,
    pub(super) clock: u64,
    pub(super) place: Place,
}

impl Version {
    /// Whether it counts more than another one: it has the larger clock or, if they are equal, the larger name, or it is the later
    /// one of the same record.
    pub(super) fn beats(&self, other: &Self) -> bool {
        (self.clock, self.place) > (other.clock, other.place)
    }

    /// Whether this one, of a tree, counts for more than another one that has come since: only then its clock matters, and is checked
    /// against its record's head.
    pub(super) fn contradicts(&self, since: &Self) -> bool {
        self.place != since.place && self.beats(since)
    }

    /// The one of two that counts.
    pub(super) fn newer(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if other.beats(&one) => Some(other),
            (one, other) => one.or(other),
        }
    }
}

/// A sub-record as another one names it
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    There(Place),
    /// In the same record.
    Here(u32),
}

impl Reference {
    /// Where that is, named in a record.
    pub(super) fn place(self, record: RecordName) -> Place {
        match self {
            Self::There(place) => place,
            Self::Here(index) => Place { record, index },
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::There(place) => {
                out.push(1);
                place.write(out);
            }
            Self::Here(index) => {
                out.push(2);
                index.write(out);
            }
        }
    }

    fn read_tagged(tag: u8, reader: &mut Reader<'_>) -> core::result::Result<Self, Malformed> {
        match tag {
            1 => Ok(Self::There(reader.field()?)),
            2 => Ok(Self::Here(reader.field()?)),
            _ => Err(Malformed),
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> core::result::Result<Self, Malformed> {
        let tag = reader.field()?;
        Self::read_tagged(tag, reader)
    }
}

/// Reads a key: never empty, never too long, always UTF-8.
pub(super) fn read_key(reader: &mut Reader<'_>) -> core::result::Result<Vec<u8>, Malformed> {
    let len: u16 = reader.field()?;
    let key = reader.take(usize::from(len))?;
    if is_key(key) {
        Ok(key.to_vec())
    } else {
        Err(Malformed)
    }
}

pub(super) fn write_key(key: &[u8], out: &mut Vec<u8>) {
    (key.len() as u16).write(out);
    out.extend_from_slice(key);
}

/// Whether bytes can be a key.
pub(super) fn is_key(key: &[u8]) -> bool {
    !key.is_empty() && key.len() <= MAX_KEY_BYTES && core::str::from_utf8(key).is_ok()
}

/// The first sub-record of a map's record
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// How many of the record's backpointers, from the first on, are records whose state it goes on with.
    pub(super) follows: u8,
    /// One more than the largest of these: it is believed of an index only.
    pub(super) clock: u64,
    pub(super) holds: Holds,
}

/// What a record holds beside its head
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Operations, one in each further sub-record.
    Operations {
        /// The index that its writer knew.
        base: Option<RecordName>,
        keys: Vec<(Kind, Vec<u8>)>,
    },
    /// Nodes of a tree whose root comes later.
    Pages,
    /// Nodes, and that all before it is in the tree.
    Index(Index),
}

/// A tree of all that came before
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) root: Reference,
    /// Levels above the leaves.
    pub(super) height: u8,
    /// Index records whose state is in it, the newest first.
    pub(super) covered: Vec<RecordName>,
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from(MAGIC);
        out.push(match self.holds {
            Holds::Operations { .. } => 1,
            Holds::Pages => 2,
            Holds::Index(_) => 3,
        });
        out.push(self.follows);
        self.clock.write(&mut out);
        match &self.holds {
            Holds::Operations { base, keys } => {
                out.push(u8::from(base.is_some()));
                out.extend_from_slice(base.as_ref().map_or(&[], |base| &base.0));
                (keys.len() as u16).write(&mut out);
                for (kind, key) in keys {
                    out.push(*kind as u8);
                    write_key(key, &mut out);
                }
            }
            Holds::Pages => {}
            Holds::Index(index) => {
                index.root.write(&mut out);
                out.push(index.height);
                out.push(index.covered.len() as u8);
                for name in &index.covered {
                    out.extend_from_slice(&name.0);
                }
            }
        }
        out
    }

    /// Reads a head.
    ///
    /// # Errors
    /// [`Code::BadRecord`] with the offset.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        placed(bytes, Code::BadRecord, |reader| {
            if reader.array()? != MAGIC {
                return Err(Malformed);
            }
            let kind: u8 = reader.field()?;
            let follows = reader.field()?;
            let clock = reader.field()?;
            if !(1..=MAX_CLOCK).contains(&clock) {
                return Err(Malformed);
            }
            let holds = match kind {
                1 => read_operations(reader)?,
                2 => Holds::Pages,
                3 => Holds::Index(read_index(reader)?),
                _ => return Err(Malformed),
            };
            reader.clone().finish()?;
            Ok(Self {
                follows,
                clock,
                holds,
            })
        })
    }
}

/// Checks that a record's head, which is given, says a clock with which a tree has an operation of it count, or a larger one.
///
/// # Errors
/// [`Code::BadTree`].
pub(super) fn check_claim(head: &[u8], clock: u64) -> Result<()> {
    match Head::decode(head) {
        Ok(head) if head.clock >= clock => Ok(()),
        _ => Err(Refusal::new(Code::BadTree, 0)),
    }
}

fn read_operations(reader: &mut Reader<'_>) -> core::result::Result<Holds, Malformed> {
    let base = match reader.field::<bool>()? {
        true => Some(RecordName(reader.array()?)),
        false => None,
    };
    let count: u16 = reader.field()?;
    if count == 0 || usize::from(count) > MAX_OPERATIONS {
        return Err(Malformed);
    }
    let keys = (0..count).map(|_| Ok((Kind::read(reader)?, read_key(reader)?)));
    let keys = keys.collect::<core::result::Result<_, _>>()?;
    Ok(Holds::Operations { base, keys })
}

fn read_index(reader: &mut Reader<'_>) -> core::result::Result<Index, Malformed> {
    let root = Reference::read(reader)?;
    let height: u8 = reader.field()?;
    let count: u8 = reader.field()?;
    if height > MAX_HEIGHT || usize::from(count) > MAX_COVERED {
        return Err(Malformed);
    }
    let covered = (0..count).map(|_| Ok(RecordName(reader.array()?)));
    let covered = covered.collect::<core::result::Result<_, _>>()?;
    Ok(Index {
        root,
        height,
        covered,
    })
}

/// A sub-record that sets or deletes a key
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub(super) kind: Kind,
    pub(super) key: Vec<u8>,
    /// The operation before it on the same key, if its writer has seen it since the base.
    pub(super) before: Option<Reference>,
    pub(super) value: &'a [u8],
}

impl<'a> Stored<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48 + self.key.len() + self.value.len());
        out.push(self.kind as u8);
        write_key(&self.key, &mut out);
        match self.before {
            Some(before) => before.write(&mut out),
            None => out.push(0),
        }
        out.extend_from_slice(self.value);
        out
    }

    /// Reads an operation.
    ///
    /// # Errors
    /// [`Code::BadRecord`] with the offset.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self> {
        placed(bytes, Code::BadRecord, |reader| {
            let kind = Kind::read(reader)?;
            let key = read_key(reader)?;
            let before = match reader.field()? {
                0 => None,
                tag => Some(Reference::read_tagged(tag, reader)?),
            };
            let value = reader.take(reader.rest().len())?;
            Ok(Self {
                kind,
                key,
                before,
                value,
            })
        })
    }
}
