//! The exports of `admission.wasm`: nothing but the boundary.
#![cfg_attr(target_family = "wasm", no_std)]

/// What handles stand for: nothing in this module.
enum Nothing {}

impl selfsame_abi::Machine for Nothing {
    fn create(_: &[u8]) -> Option<Self> {
        None
    }

    fn step(&mut self, _: &[u8]) -> &[u8] {
        match *self {}
    }
}

selfsame_abi::exports! {
    machine: Nothing,
    version: selfsame_codec::admission::ABI_VERSION,
    derive: selfsame_admission::derive,
    verify: selfsame_admission::verify,
}
