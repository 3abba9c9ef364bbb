//! Outputs of every machine: datagrams, and acknowledgements that wait for the end of a batch.

use alloc::vec::Vec;

use selfsame_codec::BatchWriter;
use selfsame_codec::rpc::Output;

use crate::endpoint::Endpoint;

/// Has a datagram sent.
pub(crate) fn send(target: &Endpoint, bytes: &[u8], out: &mut BatchWriter) {
    let target = target.0;
    Output::Send { target, bytes }.encode(out);
}

/// Calls of which packets are acknowledged at the end of a batch, each once.
#[derive(Debug, Default)]
pub(crate) struct DueAcknowledgements(Vec<u32>);

impl DueAcknowledgements {
    pub(crate) fn note(&mut self, call: u32) {
        if !self.0.contains(&call) {
            self.0.push(call);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.0)
    }
}
