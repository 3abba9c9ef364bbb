//! The exports of `admission.wasm`: nothing but the boundary.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

mod authority;

use alloc::vec::Vec;

/// What handles stand for: nothing in this module.
enum Nothing {}

impl selfsame_abi::Machine for Nothing {
    fn create(_: &[u8]) -> Result<Self, u32> {
        Err(0)
    }

    fn step(&mut self, _: &[u8]) -> &[u8] {
        match *self {}
    }
}

/// Makes what a host needs: what the authority signs, or what is of DNS.
fn derived(request: &[u8]) -> Vec<u8> {
    authority::derive(request).unwrap_or_else(|| selfsame_admission::derive(request))
}

/// Checks what came from outside.
fn verified(request: &[u8]) -> Vec<u8> {
    authority::verify(request).unwrap_or_else(|| selfsame_admission::verify(request))
}

selfsame_abi::exports! {
    machine: Nothing,
    version: selfsame_codec::admission::ABI_VERSION,
    derive: derived,
    verify: verified,
}
