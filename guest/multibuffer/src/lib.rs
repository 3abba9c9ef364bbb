//! BLAKE3 of many short inputs at once: a lane of a vector for each, as wide as the processor's vectors are.
//!
//! A hash of one header is a chain of dependent steps that leaves most of a processor idle. Whoever has a hundred of them gets them
//! for the time of ten. The results are exactly those of the function for one input.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod hash;
pub use hash::{HASH_BYTES, keyed, keyed_each};

mod lanes;

/// Fewer inputs than these are faster one after the other.
const MANY: usize = 5;
/// If they have fewer bytes than these. Of longer ones no two are.
const LONG: usize = 512;

/// Whether so many inputs, of so many bytes together, are faster at once. In WebAssembly, whose vectors have four lanes, they never
/// are by enough: the code would be 15 kB of every download.
fn is_many(count: usize, bytes: usize) -> bool {
    !cfg!(target_family = "wasm") && (count >= MANY || (count > 1 && bytes >= count * LONG))
}
