//! Replays a recorded script on the core as native code: `replay SCRIPT TRANSCRIPT`.

extern crate alloc;

use std::process::ExitCode;

use selfsame_core::Node;
use selfsame_core::ring::Parameters;

/// `derive` and `verify` as the wasm exports them.
#[path = "../../wasm/src/family.rs"]
mod family;

#[path = "../../codec/examples/replay/script.rs"]
mod script;

fn main() -> ExitCode {
    script::run::<Node>()
}

impl script::Replayed for Node {
    fn create(config: &[u8]) -> Option<Self> {
        Self::new(config, &Parameters::DEFAULT).ok()
    }

    fn step(&mut self, batch: &[u8]) -> Vec<u8> {
        Self::step(self, batch).to_vec()
    }

    fn ask(operation: u8, payload: &[u8]) -> Option<Vec<u8>> {
        match operation {
            4 => Some(family::derive(payload)),
            5 => Some(family::verify(payload)),
            _ => None,
        }
    }
}
