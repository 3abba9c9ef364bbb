//! What admission to closed networks needs beside the core: certificates in DNS.
//!
//! Nothing here does I/O: messages go out and come in as bytes, and the host moves them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod dns;

mod boundary;
pub use boundary::{derive, verify};
