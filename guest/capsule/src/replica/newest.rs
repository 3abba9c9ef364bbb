//! The record with the largest sequence that each writer has signed: a writer that has lost its store begins after it, also where
//! another writer's record points to it, so that it is no head.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use selfsame_codec::{Field, Reader};

use super::capsule::{CORRUPT, Capsule};
use super::index::{Index, Outcome, known};
use super::layout;
use super::space::{Missing, Space};
use crate::hash::{CapsuleName, RecordName};
use crate::header::HeaderView;
use crate::refusal::Result;

/// A signed record and its sequence: of two the larger one is newer.
pub(super) type SignedRecord = (u64, RecordName);

/// What the store says of a writer's newest signed record
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    /// It has signed none.
    Nothing,
    Record(SignedRecord),
    /// The store has damaged it, and it is not found again yet.
    Lost,
}

/// The value that stands for a damaged one.
const LOST: [u8; 1] = [0];

impl Newest {
    fn decode(value: &[u8]) -> Self {
        let mut reader = Reader::new(value);
        match (reader.field(), reader.array()) {
            (Ok(sequence), Ok(name)) => Self::Record((sequence, RecordName(name))),
            _ => Self::Lost,
        }
    }
}

fn put(space: &mut Space, capsule: &CapsuleName, writer: u16, (sequence, name): SignedRecord) {
    let mut value = Vec::with_capacity(40);
    sequence.write(&mut value);
    value.extend_from_slice(&name.0);
    space.put(layout::newest(capsule, writer), value);
}

/// The value of a writer is damaged: until all records were looked through nothing is said of it.
pub(super) fn lose(space: &mut Space, key: layout::Key) {
    space.put(key, LOST.into());
}

impl Index {
    /// The newest record that a writer has signed.
    ///
    /// # Errors
    /// [`Missing`].
    pub(super) fn newest(&self, space: &mut Space, writer: u16) -> core::result::Result<Newest, Missing> {
        let value = space.get(&layout::newest(&self.capsule, writer))?;
        Ok(value.map_or(Newest::Nothing, |value| Newest::decode(&value)))
    }

    /// A record is signed, whose writer's newest was this one.
    pub(super) fn note_newest(
        &mut self,
        space: &mut Space,
        name: &RecordName,
        header: &HeaderView<'_>,
        before: Newest,
    ) {
        let signed = (header.sequence(), *name);
        let is_newer = match before {
            Newest::Nothing => true,
            Newest::Record(before) => signed > before,
            Newest::Lost => false,
        };
        if is_newer {
            put(space, &self.capsule, header.writer(), signed);
        }
        if let Some(mend) = &mut self.damage.mend {
            mend.meet_signed(header.writer(), signed);
        }
    }
}

impl Capsule {
    /// The newest record that the writer with this key has signed; none if nobody with it may write.
    ///
    /// # Errors
    /// [`selfsame_codec::Code::StoreCorrupt`] where it is lost: to say that there is none would have its writer use a sequence twice.
    pub(super) fn newest_of(
        &self,
        space: &mut Space,
        writer: Option<&crate::keys::Key>,
    ) -> Result<Outcome<Option<RecordName>>> {
        let Some(number) = writer.and_then(|key| self.authority().number_of(key)) else {
            return Ok(Outcome::Done(None));
        };
        match known!(self.index().newest(space, number)) {
            Newest::Nothing => Ok(Outcome::Done(None)),
            Newest::Record((_, name)) => Ok(Outcome::Done(Some(name))),
            Newest::Lost => Err(CORRUPT),
        }
    }

    /// All records were looked through, and these are the newest signed ones.
    pub(super) fn mend_newest(&self, space: &mut Space, newest: &BTreeMap<u16, SignedRecord>) {
        let capsule = self.charter().name();
        for (writer, _) in self.authority().writers() {
            space.mark();
            match newest.get(&writer) {
                Some(signed) => put(space, &capsule, writer, *signed),
                None => space.delete(layout::newest(&capsule, writer)),
            }
        }
    }
}
