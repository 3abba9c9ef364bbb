//! The exports of `rpc.wasm`: nothing but the boundary.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::vec::Vec;

use selfsame_codec::{Code, Field};
use selfsame_rpc::Machine;

/// A client or a server, behind the table of handles.
struct Rpc(Machine);

impl selfsame_abi::Machine for Rpc {
    fn create(config: &[u8]) -> Result<Self, u32> {
        Machine::new(config).map(Self).map_err(|_| 0)
    }

    fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.0.step(batch)
    }
}

/// Answers what needs no handle: nothing in this module.
fn nothing(_: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Code::BadInput.as_u16().write(&mut out);
    out
}

selfsame_abi::exports! {
    machine: Rpc,
    version: selfsame_codec::rpc::ABI_VERSION,
    derive: nothing,
    verify: nothing,
}
