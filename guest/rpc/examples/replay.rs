//! Replays a recorded script on the RPC as native code: `replay SCRIPT TRANSCRIPT`.

use std::process::ExitCode;

use selfsame_rpc::Machine;

#[path = "../../codec/examples/replay/script.rs"]
mod script;

fn main() -> ExitCode {
    script::run::<Machine>()
}

impl script::Replayed for Machine {
    fn create(config: &[u8]) -> Option<Self> {
        Self::new(config).ok()
    }

    fn step(&mut self, batch: &[u8]) -> Vec<u8> {
        Self::step(self, batch).to_vec()
    }

    fn ask(_: u8, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}
