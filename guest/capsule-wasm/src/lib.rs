//! The exports of `capsule.wasm`: nothing but the boundary.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

mod family;

use selfsame_capsule::machine::Machine;

/// A replica, a client or a verifier, behind the table of handles
struct Capsules(Machine);

impl selfsame_abi::Machine for Capsules {
    fn create(config: &[u8]) -> Result<Self, u32> {
        Machine::new(config).map(Self).map_err(|_| 0)
    }

    fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.0.step(batch)
    }
}

selfsame_abi::exports! {
    machine: Capsules,
    version: selfsame_codec::capsule::ABI_VERSION,
    derive: family::derive,
    verify: family::verify,
}
