//! Servers that were away: a writer gives them what they have missed of the capsule itself and of who writes it.

use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::base::{Ask, Base, Head};
use super::packing::{PART_BYTES, PART_OPERATIONS};
use super::trust::Trust;
use crate::file::read_epoch;
use crate::message::Operation;

/// No job waits for the answer.
const NO_JOB: u32 = 0;

/// What a server was given that had missed something
#[derive(Debug, Default)]
pub(super) struct Lesson {
    pub(super) is_under_way: bool,
    /// What it knew when it was given the last one: how many epoch records, and one for the capsule.
    known: u32,
    /// When it may be given the same once more.
    again_at: u64,
}

impl Lesson {
    /// It was not received: the next may be the same.
    pub(super) fn lost(&mut self) {
        *self = Self::default();
    }
}

impl Base {
    /// Gives a server what its answer shows it to lack, if this client is a writer's. Without it the server counts neither for what
    /// is newest nor for what is written.
    pub(super) fn teach(&mut self, server: usize, head: &Head) {
        let known = match head.epochs {
            Ok(total) => total.saturating_add(1),
            Err(refusal) if refusal.code == Code::NoCapsule => 0,
            Err(_) => return,
        };
        let lesson = &self.servers[server].lesson;
        let is_same = lesson.known == known && self.now < lesson.again_at;
        if is_same || lesson.is_under_way || known > self.epochs() {
            return;
        }
        let Some(message) = self.lesson_after(known) else {
            return;
        };
        self.servers[server].lesson = Lesson {
            is_under_way: true,
            known,
            again_at: self.now + self.timing.avoid_ms,
        };
        self.send(server, NO_JOB, Ask::Learn, message.into());
    }

    /// The request that gives what comes next; nothing if this client does not write, or keeps no epoch records.
    fn lesson_after(&self, known: u32) -> Option<Vec<u8>> {
        let trust = self.trust.as_ref()?;
        trust.number(self.identity.as_ref()).ok()?;
        let mut message = self.begin();
        if known == 0 {
            let metadata = trust.charter.encoded();
            Operation::Create { metadata }.write(&mut message);
        }
        let given = give_epochs(trust, known.saturating_sub(1), &mut message);
        (known == 0 || given > 0).then_some(message)
    }
}

/// Writes as many epoch records after the first ones as a request takes; how many.
fn give_epochs(trust: &Trust, after: u32, message: &mut Vec<u8>) -> usize {
    let mut log = Reader::new(trust.log().unwrap_or_default());
    let records = core::iter::from_fn(|| (!log.is_empty()).then(|| read_epoch(&mut log).ok()).flatten());
    let mut given = 0;
    for (record, signature) in records.skip(after as usize) {
        let name = record.header.name(trust.charter.hasher());
        let start = message.len();
        Operation::Write { record }.write(message);
        let record = name;
        Operation::Sign { record, signature }.write(message);
        if given > 0 && (message.len() > PART_BYTES || 2 * (given + 1) > PART_OPERATIONS) {
            message.truncate(start);
            break;
        }
        given += 1;
    }
    given
}
