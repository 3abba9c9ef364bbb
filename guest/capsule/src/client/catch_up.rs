//! Servers that were away: a writer gives them what they have missed of the capsule itself and of who writes it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::Client;
use super::base::{Ask, Base, Head};
use super::packing::{Packer, with_before};
use super::servers::pause_after;
use crate::file::read_epoch;

/// No job waits for the answer.
const NO_JOB: u32 = 0;

/// How a server is brought up to date
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    pub(super) is_under_way: bool,
    /// What it has once it has taken what it was given last: how many epoch records, and one for the capsule.
    goal: u32,
    /// When it may be given something again without having all of that.
    again_at: u64,
    /// How many requests in a row it has not answered.
    losses: u32,
}

impl CatchUp {
    /// The request was answered: the next answer shows what the server has now.
    pub(super) fn end(&mut self) {
        (self.is_under_way, self.losses) = (false, 0);
    }

    /// The request was not answered: the next may be the same, after a pause of so many milliseconds.
    fn lose(&mut self) -> u64 {
        *self = Self {
            losses: self.losses.saturating_add(1),
            ..Self::default()
        };
        pause_after(self.losses)
    }
}

impl Client {
    /// Gives a server what its answer shows it to lack, if this client writes. Without it the server counts neither for what is
    /// newest nor for what is written.
    pub(super) fn bring_up_to_date(&mut self, server: usize, head: &Head) {
        // Whoever only reads need not say who it is.
        if self.pen.is_some() || self.is_beginning() {
            self.base.bring_up_to_date(server, head);
        }
    }
}

impl Base {
    fn bring_up_to_date(&mut self, server: usize, head: &Head) {
        let had = match head.epochs {
            Ok(total) => total.saturating_add(1),
            Err(refusal) if refusal.code == Code::NoCapsule => 0,
            Err(_) => return,
        };
        let before = &self.servers[server].catch_up;
        let is_early = had < before.goal && self.now < before.again_at;
        if is_early || before.is_under_way || had > self.epochs() {
            return;
        }
        let losses = before.losses;
        let Some((request, records)) = self.missed_after(had) else {
            return;
        };
        self.servers[server].catch_up = CatchUp {
            is_under_way: true,
            goal: had.max(1).saturating_add(records),
            again_at: self.now + self.timing.avoid_ms,
            losses,
        };
        self.send(server, NO_JOB, Ask::CatchUp, request);
    }

    /// A server did not answer what was to bring it up to date: it is left alone.
    pub(super) fn miss_catch_up(&mut self, server: usize) {
        let most = self.timing.avoid_ms;
        let server = &mut self.servers[server];
        let pause = server.catch_up.lose().min(most);
        server.avoid(self.now + pause);
    }

    /// The request that stores what comes next, and how many epoch records it holds; nothing if this client is no writer's, or keeps
    /// no epoch records.
    fn missed_after(&self, had: u32) -> Option<(Arc<Vec<u8>>, u32)> {
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
        let records = part
            .stored
            .iter()
            .filter(|(is_signature, _)| !is_signature)
            .count();
        let request = with_before(&part, (metadata, None), &self.uncached);
        (!is_empty).then_some((request, u32::try_from(records).unwrap_or(u32::MAX)))
    }
}
