//! An instance of `rpc.wasm`, stepped by one thread.

use std::time::{SystemTime, UNIX_EPOCH};

use selfsame_codec::BatchWriter;
use selfsame_codec::rpc::Input;

use crate::core::{Core, CoreModule};
use crate::error::Error;

/// Memory that is kept for the next batch of inputs.
const KEPT_BYTES: usize = 1 << 20;

/// A client or server of the RPC, with the inputs that it gets next.
#[derive(Debug)]
pub(super) struct Engine {
    core: Core,
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
            inputs: BatchWriter::new(),
        })
    }

    /// Adds an input to the next batch.
    pub(super) fn give(&mut self, input: &Input<'_>) {
        input.encode(&mut self.inputs);
    }

    /// Whether there are inputs that it has not got yet.
    pub(super) fn has_inputs(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// Gives it the inputs; the outputs.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when it trapped: it takes no more calls.
    pub(super) fn step(&mut self) -> Result<Vec<u8>, Error> {
        let outputs = self.core.step(unix_us(), self.inputs.as_bytes());
        self.inputs.clear(KEPT_BYTES);
        outputs.map_err(Error::Poisoned)
    }
}

/// Returns the time, in microseconds since 1970.
pub(super) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
