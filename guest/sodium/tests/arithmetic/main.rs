//! What functions of ours compute in WebAssembly in place of libsodium's: the same as theirs.
//!
//! It runs natively as a test, and in WebAssembly through `wasm/lib.rs`.

pub(crate) mod base_multiplication;
pub(crate) mod memory_order;
pub(crate) mod scalar_product;
mod scalars;
pub(crate) mod small_order;
pub(crate) mod stream_cipher;
#[cfg(all(test, target_arch = "x86_64", not(windows)))]
mod sums;
// In WebAssembly verification is libsodium's own.
#[cfg(test)]
mod verification;
