//! The exports of `core.wasm`: nothing but the boundary.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

mod abi;
mod family;
