//! What a client keeps in its store, so that it uses no sequence number twice and takes no older state for the newest.
//!
//! ```text
//! capsule 32 | s            -> epochs u32 | last epoch record 32, if there is one | n u16 | record 32, writer u16, sequence u64, n times
//! capsule 32 | m            -> signed metadata
//! capsule 32 | w | key 32   -> reserved u64 | progress
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use crate::hash::{CapsuleName, RecordName};
use crate::heads::{Origin, newest_of_each};
use crate::keys::Key;
use crate::message::MAX_HEADS;
use crate::refusal::{Result, placed};
use crate::writer::Progress;

/// The key of what was seen.
pub(super) fn seen_key(capsule: &CapsuleName) -> Vec<u8> {
    [capsule.0.as_slice(), b"s"].concat()
}

/// The key of the metadata.
pub(super) fn metadata_key(capsule: &CapsuleName) -> Vec<u8> {
    [capsule.0.as_slice(), b"m"].concat()
}

/// The key of where a writer is.
pub(super) fn writer_key(capsule: &CapsuleName, writer: &Key) -> Vec<u8> {
    [capsule.0.as_slice(), b"w", &writer.0].concat()
}

/// What a reader has seen
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// How many epoch records.
    pub(super) epochs: u32,
    /// The last of them.
    pub(super) last_epoch: Option<RecordName>,
    /// The heads, at most [`MAX_HEADS`], each signed by its writer.
    pub(super) heads: BTreeMap<RecordName, Origin>,
}

impl Seen {
    /// Remembers these heads alone, or the newest of each writer if they are too many.
    pub(super) fn remember(&mut self, heads: impl Iterator<Item = (RecordName, Origin)>) {
        self.heads = newest_of_each(heads, MAX_HEADS).into_iter().collect();
    }

    /// Appends the value that is stored.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.epochs.write(out);
        if let Some(last) = &self.last_epoch {
            out.extend_from_slice(&last.0);
        }
        (self.heads.len() as u16).write(out);
        for (name, origin) in &self.heads {
            out.extend_from_slice(&name.0);
            origin.writer.write(out);
            origin.sequence.write(out);
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] with the offset.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        placed(bytes, Code::StoreCorrupt, |reader: &mut Reader<'_>| {
            let epochs = reader.field()?;
            let last_epoch = match epochs {
                0 => None,
                _ => Some(RecordName(reader.array()?)),
            };
            let count: u16 = reader.field()?;
            let mut heads = BTreeMap::new();
            for _ in 0..count {
                let name = RecordName(reader.array()?);
                let writer = reader.field()?;
                let sequence = reader.field()?;
                heads.insert(name, Origin { writer, sequence });
            }
            reader.clone().finish()?;
            Ok(Self {
                epochs,
                last_epoch,
                heads,
            })
        })
    }
}

/// Where a writer is
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Sequence numbers below this one may have been used.
    pub(super) reserved: u64,
    /// Where it was after the last record that a quorum has stored.
    pub(super) progress: Progress,
}

impl Kept {
    /// Appends the value that is stored.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.reserved.write(out);
        self.progress.encode(out);
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] with the offset.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let reserved = placed(bytes, Code::StoreCorrupt, |reader: &mut Reader<'_>| {
            reader.field()
        })?;
        let progress = Progress::decode(&bytes[8..]).map_err(|refusal| refusal.further(8))?;
        Ok(Self { reserved, progress })
    }
}
