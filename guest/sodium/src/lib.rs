//! The part of libsodium 1.0.22 that selfsame uses, one safe function for each C function, and BLAKE3.
//!
//! Every key comes from a seed that the caller gives: libsodium's own random source is replaced by one that aborts,
//! so nothing here is random behind the caller's back. Secrets are wiped when they are dropped. Nothing allocates.

#![no_std]
#![deny(unsafe_code)]

mod error;
pub use error::Rejected;

#[cfg_attr(
    feature = "insecure",
    expect(dead_code, reason = "what does cryptography is not called")
)]
mod ffi;
pub use ffi::init;

#[cfg(not(feature = "insecure"))]
use ffi as primitives;
#[cfg(feature = "insecure")]
mod insecure;
#[cfg(feature = "insecure")]
use insecure as primitives;

#[cfg(all(feature = "insecure", not(target_family = "wasm")))]
compile_error!(
    "the feature `insecure` is for a core that benchmarks compare with: nothing else may be built with it"
);

pub mod aead;
pub mod hash;
pub mod memory;
pub mod mlkem768;
pub mod random;
pub mod sign;
pub mod x25519;
#[cfg_attr(feature = "insecure", path = "insecure/xwing.rs")]
pub mod xwing;

mod secret;
pub use secret::SharedSecret;
