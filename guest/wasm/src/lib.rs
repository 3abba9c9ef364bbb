//! The exports of `core.wasm`: nothing but the boundary.
//!
//! Nodes live in a table; a handle is a place in it. Each node's last output lives until the next call with its
//! handle, the last answer of `derive` and `verify` until the next such call.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

mod abi;
mod family;
mod table;

#[cfg(target_family = "wasm")]
mod runtime;
mod single;
