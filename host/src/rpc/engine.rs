//! An instance of `rpc.wasm`, stepped by one thread.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use selfsame_codec::BatchWriter;
use selfsame_codec::rpc::Input;

use crate::core::{Core, CoreModule};
use crate::error::Error;

/// Bytes of inputs that are batched, and memory that is kept for the next batch; a longer input comes alone.
const BATCH_BYTES: usize = 1 << 20;
/// Longest request and answer: 16 MiB, the longest message of the protocol and the largest buffer of the module at once, less what
/// frames it.
pub(super) const MAX_MESSAGE_BYTES: usize = (16 << 20) - (64 << 10);

/// A client or server of the RPC, with the inputs that it gets next.
#[derive(Debug)]
pub(super) struct Engine {
    core: Core,
    /// Batches that are full, of inputs before the others.
    full: VecDeque<BatchWriter>,
    inputs: BatchWriter,
}

impl Engine {
    /// Creates what an encoded configuration describes, which is wiped.
    pub(super) fn new(config: Vec<u8>) -> Result<Self, Error> {
        let mut core = CoreModule::rpc()
            .and_then(|module| module.instantiate())
            .map_err(Error::Poisoned)?;
        core.create_encoded(config).map_err(Error::Poisoned)?;
        Ok(Self {
            core,
            full: VecDeque::new(),
            inputs: BatchWriter::new(),
        })
    }

    /// Adds an input to the last batch, or to a new one.
    pub(super) fn give(&mut self, input: &Input<'_>) {
        let is_full = self.inputs.len() + payload_bytes(input) > BATCH_BYTES;
        if is_full && !self.inputs.is_empty() {
            self.full.push_back(core::mem::take(&mut self.inputs));
        }
        input.encode(&mut self.inputs);
    }

    /// Whether there are inputs that it has not got yet.
    pub(super) fn has_inputs(&self) -> bool {
        !self.inputs.is_empty() || !self.full.is_empty()
    }

    /// Gives it the first batch of inputs; the outputs.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when it trapped: it takes no more calls.
    pub(super) fn step(&mut self) -> Result<Vec<u8>, Error> {
        self.step_at(unix_us())
    }

    /// As [`Self::step`], at a time that is later than those of the steps before.
    pub(super) fn step_at(&mut self, now_us: u64) -> Result<Vec<u8>, Error> {
        let outputs = if let Some(batch) = self.full.pop_front() {
            self.core.step(now_us, batch.as_bytes())
        } else {
            let outputs = self.core.step(now_us, self.inputs.as_bytes());
            self.inputs.clear(BATCH_BYTES);
            outputs
        };
        outputs.map_err(Error::Poisoned)
    }
}

/// Returns the length of an input's field that may be long.
fn payload_bytes(input: &Input<'_>) -> usize {
    match *input {
        Input::Datagram { bytes, .. } => bytes.len(),
        Input::Call { payload, .. } | Input::Answer { payload, .. } => payload.len(),
        _ => 0,
    }
}

/// Returns the time, in microseconds since 1970.
pub(super) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
