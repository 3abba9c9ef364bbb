//! The part of libsodium 1.0.22 that selfsame uses, one safe function for each C function, and BLAKE3.
//!
//! Every key comes from a seed that the caller gives: libsodium's own random source is replaced by one that aborts,
//! so nothing here is random behind the caller's back. Secrets are wiped when they are dropped. Nothing allocates.

#![no_std]
#![deny(unsafe_code)]

mod error;
pub use error::Rejected;

mod ffi;
pub use ffi::init;

pub mod aead;
pub mod hash;
pub mod memory;
pub mod mlkem768;
pub mod sign;
pub mod x25519;
pub mod xwing;

mod secret;
pub use secret::SharedSecret;
