//! What functions of ours compute in WebAssembly in place of libsodium's: the same as theirs.
//!
//! It runs natively as a test, and in WebAssembly through `wasm/lib.rs`.

pub(crate) mod base_multiplication;
pub(crate) mod memory_order;
pub(crate) mod scalar_product;
mod scalars;
pub(crate) mod small_order;
pub(crate) mod stream_cipher;
// 140,000 verifications: too many for WebAssembly, where `refusals.rs` verifies with prepared keys.
#[cfg(test)]
mod verification;
