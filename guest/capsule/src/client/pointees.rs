//! What a writer points to. A record that names its own number and that it never wrote becomes its own as soon as a later record of
//! its own points there: so it points to none.

use alloc::vec;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Client;
use super::command::Command;
use super::judge::{Found, evidence};
use super::reading::{Query, Shape, Want};
use crate::hash::RecordName;
use crate::header::HeaderView;
use crate::refusal::{Refusal, Result};
use crate::writer::Backpointers;

/// Records of which it is remembered whose they are; of others a server is asked.
const PLACES: usize = 1 << 13;

/// The writer that a record names, and whether it has signed it
#[derive(Clone, Copy, Debug)]
struct Pointee {
    name: RecordName,
    writer: u16,
    is_signed: bool,
}

/// Records that were seen lately, each in the place that its name says
#[derive(Debug, Default)]
pub(super) struct Pointees {
    places: Vec<Option<Pointee>>,
}

impl Pointees {
    /// Takes the writer that a record names, and whether that one has written it.
    pub(super) fn note(&mut self, name: &RecordName, writer: u16, is_signed: bool) {
        if self.places.is_empty() {
            self.places = vec![None; PLACES];
        }
        let known = &mut self.places[place(name)];
        let was_signed = known.is_some_and(|known| known.name == *name && known.is_signed);
        *known = Some(Pointee {
            name: *name,
            writer,
            is_signed: is_signed || was_signed,
        });
    }

    fn get(&self, name: &RecordName) -> Option<&Pointee> {
        let known = self.places.get(place(name))?.as_ref();
        known.filter(|known| known.name == *name)
    }

    /// Whether this record is known to be the writer's own.
    pub(super) fn is_own(&self, name: &RecordName, writer: u16) -> bool {
        let known = self.get(name);
        known.is_some_and(|known| known.writer == writer && known.is_signed)
    }

    /// Whether the writer may point to a record; nothing if that is not known.
    fn permits(&self, name: &RecordName, writer: u16) -> Option<bool> {
        let known = self.get(name)?;
        // That it was not signed when it was seen says nothing of now.
        match known.writer == writer {
            true if known.is_signed => Some(true),
            true => None,
            false => Some(true),
        }
    }
}

fn place(name: &RecordName) -> usize {
    usize::from(u16::from_le_bytes([name.0[0], name.0[1]])) % PLACES
}

impl Command {
    /// The records to which it lets its writer point, beside those that it has written.
    fn pointers(&self) -> Vec<RecordName> {
        match self {
            Self::Write { backpointers, .. } | Self::Commit { backpointers, .. } => match backpointers {
                Backpointers::Own(names) | Backpointers::Following(names) => names.clone(),
                Backpointers::Chain | Backpointers::Shortcuts => Vec::new(),
            },
            Self::Govern { revoked, .. } => revoked.iter().flat_map(|one| one.heads.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

impl Client {
    /// Whether it is known that a command points to nothing that names this writer but is not its own; if not, servers are asked.
    ///
    /// # Errors
    /// [`Code::Unproven`] with the number of the pointer, or why a record that it points to cannot be had.
    pub(super) fn may_point(&mut self, call: (u32, u64), command: &Command) -> Result<bool> {
        if let Some((_, outcome)) = self
            .vetting
            .take_if(|(id, outcome)| *id == call.0 && outcome.is_some())
        {
            return outcome.unwrap_or(Ok(())).map(|()| true);
        }
        let Some(pen) = &self.pen else {
            return Ok(true);
        };
        let number = pen.writer.number();
        let mut unknown = command.pointers();
        unknown
            .retain(|name| pen.last != Some(*name) && self.base.pointees.permits(name, number) != Some(true));
        if unknown.is_empty() {
            return Ok(true);
        }
        if !matches!(self.vetting, Some((_, None))) {
            self.vetting = Some((call.0, None));
            let wants = unknown.into_iter().map(Want::Evidence).collect();
            self.query(Query::new(call, Shape::Pointers, wants));
        }
        Ok(false)
    }

    /// It is known whether a command may point where it wants.
    pub(super) fn vetted(&mut self, command: u32, outcome: Result<()>) {
        if let Some((_, known)) = self.vetting.as_mut().filter(|(id, _)| *id == command) {
            *known = Some(outcome);
        }
    }

    /// Checks that none of these records names this writer without being its own.
    ///
    /// # Errors
    /// [`Code::Unproven`] with the number of the record, or why it could not be read.
    pub(super) fn check_pointees(&self, found: impl Iterator<Item = Result<Found>>) -> Result<()> {
        let number = self.pen.as_ref().map(|pen| pen.writer.number());
        for (index, found) in found.enumerate() {
            let (evidence, _, authorship) = evidence(Some(found))?;
            let names = HeaderView::decode(&evidence.header)?.writer();
            if Some(names) == number && !authorship.is_signed() {
                return Err(Refusal::new(Code::Unproven, index));
            }
        }
        Ok(())
    }
}
