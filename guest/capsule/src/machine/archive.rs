//! Files of whole capsules behind the boundary: what is asked of a replica, and what comes of it.

use selfsame_codec::capsule::{Input, Output};
use selfsame_codec::{BatchWriter, Code, Item};

use crate::archive::{Export, Exported, Import};
use crate::file::{Damage, Summary};
use crate::hash::CapsuleName;
use crate::refusal::Refusal;

/// Nobody in particular: there is one replica, which the host knows.
const THE_REPLICA: [u8; 32] = [0; 32];

/// An export behind the boundary
#[derive(Debug)]
pub(super) struct ExportMachine {
    export: Export,
    /// How many bytes of the file there are.
    written: u64,
    /// The number of what was asked last; nothing before and after.
    asked: Option<u32>,
    is_over: bool,
}

impl ExportMachine {
    pub(super) fn new(capsule: [u8; 32]) -> Self {
        Self {
            export: Export::new(CapsuleName(capsule)),
            written: 0,
            asked: None,
            is_over: false,
        }
    }

    /// Takes what the replica answers.
    pub(super) fn take(&mut self, item: Item<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        let answer = answered(item, self.asked)?;
        let mut bytes = alloc::vec::Vec::new();
        let next = answer.and_then(|response| self.export.take(response, &mut bytes));
        if !bytes.is_empty() {
            self.written += bytes.len() as u64;
            Output::Piece { bytes: &bytes }.encode(out);
        }
        match next {
            Ok(Exported::Ask(message)) => self.ask(&message, out),
            Ok(Exported::Done(summary)) => {
                self.end();
                verified(&summary, out);
            }
            Err(Refusal { code, .. }) => {
                self.end();
                let at = self.written;
                damaged(Damage { code, at }, out);
            }
        }
        Ok(())
    }

    /// Begins, if it has not.
    pub(super) fn end_batch(&mut self, out: &mut BatchWriter) {
        if self.asked.is_none() && !self.is_over {
            let message = self.export.begin();
            self.ask(&message, out);
        }
    }

    fn ask(&mut self, message: &[u8], out: &mut BatchWriter) {
        let tag = next_tag(self.asked);
        self.asked = Some(tag);
        ask(tag, message, out);
    }

    fn end(&mut self) {
        (self.asked, self.is_over) = (None, true);
    }
}

/// An import behind the boundary
#[derive(Debug, Default)]
pub(super) struct ImportMachine {
    import: Import,
    last: Option<u32>,
    is_asking: bool,
    /// What the file holds, or what is wrong with it, which is told when what comes before that is stored.
    outcome: Option<Result<Summary, Damage>>,
    is_over: bool,
}

impl ImportMachine {
    /// Takes what comes next of the file, or what the replica answers.
    pub(super) fn take(&mut self, item: Item<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        if self.is_over {
            return Ok(());
        }
        let taken = match Input::decode(item) {
            // One thing at a time: so no more of a file is in memory than was given last.
            Ok(Input::Chunk { .. } | Input::End {}) if self.is_asking || self.outcome.is_some() => {
                return Err(Code::BadInput);
            }
            Ok(Input::Chunk { bytes }) => {
                self.outcome = self.import.push(bytes).err().map(Err);
                Ok(())
            }
            Ok(Input::End {}) => {
                self.outcome = Some(self.import.finish());
                Ok(())
            }
            _ => {
                let answer = answered(item, self.last.filter(|_| self.is_asking))?;
                self.is_asking = false;
                match answer {
                    Ok(response) => self.import.take(response),
                    Err(refusal) => Err(self.import.damage(refusal)),
                }
            }
        };
        match taken {
            Ok(()) => self.go_on(out),
            Err(damage) => {
                self.is_over = true;
                damaged(damage, out);
            }
        }
        Ok(())
    }

    fn go_on(&mut self, out: &mut BatchWriter) {
        if let Some(message) = self.import.ask() {
            let tag = next_tag(self.last);
            (self.last, self.is_asking) = (Some(tag), true);
            ask(tag, &message, out);
        } else if let Some(outcome) = self.outcome.take() {
            self.is_over = true;
            match outcome {
                Ok(summary) => verified(&summary, out),
                Err(damage) => damaged(damage, out),
            }
        }
    }
}

/// The answer to what was asked last, or that there is none.
fn answered(item: Item<'_>, asked: Option<u32>) -> Result<Result<&[u8], Refusal>, Code> {
    match Input::decode(item) {
        Ok(Input::Answered { tag, ok, response }) if Some(tag) == asked => match ok {
            true => Ok(Ok(response)),
            false => Ok(Err(Refusal::new(Code::Disconnected, 0))),
        },
        _ => Err(Code::BadInput),
    }
}

fn next_tag(last: Option<u32>) -> u32 {
    last.map_or(1, |last| last.wrapping_add(1))
}

fn ask(tag: u32, message: &[u8], out: &mut BatchWriter) {
    let peer = THE_REPLICA;
    Output::Ask { tag, peer, message }.encode(out);
}

/// Tells what a file holds.
pub(super) fn verified(summary: &Summary, out: &mut BatchWriter) {
    Output::Verified {
        capsule: summary.capsule.0,
        records: summary.records,
        holes: summary.holes,
    }
    .encode(out);
}

/// Tells what is wrong.
pub(super) fn damaged(Damage { code, at }: Damage, out: &mut BatchWriter) {
    let code = code.as_u16();
    Output::Damaged { code, at }.encode(out);
}
