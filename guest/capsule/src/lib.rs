//! DataCapsules: signed metadata whose hash is their name, and an append-only graph of records, each a header and an encrypted
//! body (DCS, sections 2 to 4).
//!
//! Whoever stores a capsule can lose it but not change it: readers verify every record they read, back to a writer's
//! signature. This crate does no I/O, knows no time and makes no randomness of its own.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod refusal;
pub use refusal::{Refusal, Result};

pub mod hash;

mod spread;

mod places;

pub mod keys;

pub mod verifier;

pub mod header;

mod heads;

pub mod authorship;

pub mod cache;

pub mod metadata;

pub mod seal;

pub mod tree;

pub mod record;

pub mod proof;

pub mod epoch;

pub mod authority;

pub mod backpointers;

pub mod writer;

pub mod witness;

pub mod sketch;

pub mod file;

pub mod introduction;

pub mod message;

pub mod acknowledgement;

pub mod replica;

pub mod client;

pub mod map;

pub mod archive;

pub mod machine;
