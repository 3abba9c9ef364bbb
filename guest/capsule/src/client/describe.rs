//! The capsule's metadata, which a client that was given none asks one server after the other for.

use selfsame_codec::Reader;

use super::base::{Ask, Fault, Sent, outcome};
use super::{Client, Job};
use crate::message::Operation;
use crate::refusal::Refusal;

/// Servers that have said that they do not have the metadata, or did not answer
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refused {
    pub(super) servers: u32,
    /// The last refusal.
    last: Option<Refusal>,
    /// Servers that did not answer, and those that did not again.
    silent: [u32; 2],
}

impl Client {
    /// Reads metadata that a server gave.
    ///
    /// # Errors
    /// Why they are none.
    pub(super) fn take_metadata(&mut self, sent: &Sent, reader: &mut Reader<'_>) -> Result<(), Fault> {
        if let Err(refusal) = outcome(reader)? {
            self.miss_metadata(sent, Fault::False(refusal));
            return Ok(());
        }
        let metadata: &[u8] = reader.field()?;
        if self.base.trust.is_none() {
            self.know(metadata).map_err(Fault::False)?;
            self.base.keep_metadata(metadata);
        }
        self.base.servers[sent.server].answered();
        self.jobs.remove(&sent.job);
        Ok(())
    }

    /// A server did not answer, or does not have them.
    pub(super) fn miss_metadata(&mut self, sent: &Sent, fault: Fault) {
        let Some(Job::Describe(refused)) = self.jobs.get_mut(&sent.job) else {
            return;
        };
        let (Fault::Failed(refusal) | Fault::False(refusal)) = fault;
        let bit = 1 << sent.server;
        if matches!(fault, Fault::False(_)) {
            refused.servers |= bit;
            refused.last = Some(refusal);
        } else {
            refused.silent[1] |= refused.silent[0] & bit;
            refused.silent[0] |= bit;
        }
        // One server may know what most do not, and may not answer once.
        let left = self.base.servers.len() - refused.servers.count_ones() as usize;
        let is_over = (refused.servers | refused.silent[1]) == self.base.all();
        if !(is_over && left < self.base.read_quorum) {
            self.stalled.insert(sent.job);
            return;
        }
        let refusal = refused.last.unwrap_or(refusal);
        self.jobs.remove(&sent.job);
        for waiting in core::mem::take(&mut self.waiting) {
            self.base.reply(waiting.call.0, Err(refusal));
        }
    }

    /// Asks the next server; whether there is one.
    pub(super) fn pump_describe(&mut self, job: u32, refused: u32) -> bool {
        let Some(server) = self.base.choose(refused) else {
            return false;
        };
        let mut message = self.base.begin();
        Operation::Describe.write(&mut message);
        self.base.send(server, job, Ask::Describe, message.into());
        true
    }
}
