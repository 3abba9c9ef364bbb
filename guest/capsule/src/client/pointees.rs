//! What a writer points to. A record that names its own number and that it never wrote becomes its own as soon as a later record of
//! its own points there: so it points to none.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Client;
use super::command::Command;
use super::judge::{Found, evidence};
use super::reading::{Query, Shape, Want};
use crate::hash::RecordName;
use crate::header::HeaderView;
use crate::places::Places;
use crate::refusal::{Refusal, Result};
use crate::writer::Backpointers;

/// Records of which it is remembered whose they are, as a power of two; of others a server is asked.
const PLACES_LOG2: u8 = 13;

/// The writer that a record names, and whether it has signed it
#[derive(Clone, Copy, Debug)]
struct Pointee {
    writer: u16,
    is_signed: bool,
}

/// Records that were seen lately, each in the place that its name says
#[derive(Debug)]
pub(super) struct Pointees(Places<Pointee>);

impl Default for Pointees {
    fn default() -> Self {
        Self(Places::new(PLACES_LOG2))
    }
}

impl Pointees {
    /// Takes the writer that a record names, and whether that one has written it.
    pub(super) fn note(&mut self, name: &RecordName, writer: u16, is_signed: bool) {
        self.0.learn(&name.0, |known| Pointee {
            writer,
            is_signed: is_signed || known.is_some_and(|known| known.is_signed),
        });
    }

    fn get(&self, name: &RecordName) -> Option<&Pointee> {
        self.0.get(&name.0)
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
