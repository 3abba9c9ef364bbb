//! Servers that were away: a writer gives them what they have missed of the capsule itself and of who writes it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::base::{Ask, Base, Head};
use super::packing::{Packer, with_before};
use crate::file::read_epoch;

/// No job waits for the answer.
const NO_JOB: u32 = 0;

/// How a server is brought up to date
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    pub(super) is_under_way: bool,
    /// What it had when it was last given something: how many epoch records, and one for the capsule.
    had: u32,
    /// When it may be given the same once more.
    again_at: u64,
}

impl CatchUp {
    /// The request was not answered: the next may be the same.
    pub(super) fn lost(&mut self) {
        *self = Self::default();
    }
}

impl Base {
    /// Gives a server what its answer shows it to lack, if this client is a writer's. Without it the server counts neither for what
    /// is newest nor for what is written.
    pub(super) fn bring_up_to_date(&mut self, server: usize, head: &Head) {
        let had = match head.epochs {
            Ok(total) => total.saturating_add(1),
            Err(refusal) if refusal.code == Code::NoCapsule => 0,
            Err(_) => return,
        };
        let before = &self.servers[server].catch_up;
        let is_same = before.had == had && self.now < before.again_at;
        if is_same || before.is_under_way || had > self.epochs() {
            return;
        }
        let Some(request) = self.missed_after(had) else {
            return;
        };
        self.servers[server].catch_up = CatchUp {
            is_under_way: true,
            had,
            again_at: self.now + self.timing.avoid_ms,
        };
        self.send(server, NO_JOB, Ask::CatchUp, request);
    }

    /// The request that stores what comes next; nothing if this client does not write, or keeps no epoch records.
    fn missed_after(&self, had: u32) -> Option<Arc<Vec<u8>>> {
        let trust = self.trust.as_ref()?;
        trust.number(self.identity.as_ref()).ok()?;
        let mut log = Reader::new(trust.log().unwrap_or_default());
        let records = core::iter::from_fn(|| read_epoch(&mut log).ok());
        let mut packer = Packer::new(self);
        for (record, signature) in records.skip(had.saturating_sub(1) as usize) {
            let name = record.header.name(trust.charter.hasher());
            packer.write(&name, record);
            packer.sign(name, signature);
        }
        // The parts after it follow when its next answer shows that it has this one.
        let part = packer.finish().into_iter().next()?;
        let metadata = (had == 0).then_some(trust.charter.encoded());
        let is_empty = metadata.is_none() && part.stored.is_empty();
        (!is_empty).then(|| with_before(&part, (metadata, None), &self.uncached))
    }
}
