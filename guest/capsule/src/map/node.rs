//! Nodes of a map's tree: what each key is, sorted, in sub-records that never change.
//!
//! ```text
//! node  = height u8 | n u16 | entry, n times
//! entry = length u16 | key | 1 set or 2 delete u8 | clock u64 | record 32 | index u32      height 0: a leaf
//!       | length u16 | key | reference of a node                                           otherwise
//! ```
//!
//! The keys of a node ascend. An inner entry's key is the first that its node may hold; before the first one it holds all.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};

use super::format::{Kind, Reference, Version, read_key, write_key};
use crate::refusal::{Refusal, Result, placed};

/// Most entries of a node: it is what one key's change writes anew, and what one answer of a server brings.
pub(super) const MAX_ENTRIES: usize = 32;

/// A node
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Leaf(Vec<(Vec<u8>, Version)>),
    Inner(u8, Vec<(Vec<u8>, Reference)>),
}

impl Node {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Leaf(entries) => {
                begin(0, entries.len(), &mut out);
                for (key, version) in entries {
                    write_key(key, &mut out);
                    out.push(version.kind as u8);
                    version.clock.write(&mut out);
                    version.place.write(&mut out);
                }
            }
            Self::Inner(height, children) => {
                begin(*height, children.len(), &mut out);
                for (key, child) in children {
                    write_key(key, &mut out);
                    child.write(&mut out);
                }
            }
        }
        out
    }

    /// Reads a node of this height.
    ///
    /// # Errors
    /// [`Code::BadTree`] with the offset.
    pub(super) fn decode(bytes: &[u8], height: u8) -> Result<Self> {
        placed(bytes, Code::BadTree, |reader| {
            let found: u8 = reader.field()?;
            let count: u16 = reader.field()?;
            if found != height || count == 0 || usize::from(count) > MAX_ENTRIES {
                return Err(Malformed);
            }
            let node = if height == 0 {
                Self::Leaf(read_entries(reader, count, read_version)?)
            } else {
                Self::Inner(height, read_entries(reader, count, Reference::read)?)
            };
            reader.clone().finish()?;
            Ok(node)
        })
    }
}

impl Node {
    /// Checks that no operation counts for more than the index in whose tree it is.
    ///
    /// # Errors
    /// [`Code::BadTree`].
    pub(super) fn check_clocks(&self, largest: u64) -> Result<()> {
        match self {
            Self::Leaf(entries) if entries.iter().any(|(_, version)| version.clock > largest) => {
                Err(Refusal::new(Code::BadTree, 0))
            }
            _ => Ok(()),
        }
    }
}

fn begin(height: u8, count: usize, out: &mut Vec<u8>) {
    out.push(height);
    (count as u16).write(out);
}

fn read_entries<T>(
    reader: &mut Reader<'_>,
    count: u16,
    mut read: impl FnMut(&mut Reader<'_>) -> core::result::Result<T, Malformed>,
) -> core::result::Result<Vec<(Vec<u8>, T)>, Malformed> {
    let mut entries: Vec<(Vec<u8>, T)> = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let key = read_key(reader)?;
        if entries.last().is_some_and(|(before, _)| *before >= key) {
            return Err(Malformed);
        }
        entries.push((key, read(reader)?));
    }
    Ok(entries)
}

fn read_version(reader: &mut Reader<'_>) -> core::result::Result<Version, Malformed> {
    let kind = Kind::read(reader)?;
    let clock = reader.field()?;
    let place = reader.field()?;
    Ok(Version { kind, clock, place })
}
