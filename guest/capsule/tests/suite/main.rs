//! Tests of capsules through the public interface. They are one program: each one more would compile and link what they share again.

extern crate alloc;

#[path = "../common/mod.rs"]
mod common;

mod acknowledgements;
mod archive;
mod authorship;
mod begin;
mod boundary;
mod catch_up;
mod client;
mod crowds;
mod damage;
mod epochs;
mod file;
mod holes;
mod hostile;
mod hostile_sync;
mod invented;
mod limits;
mod map;
mod map_clocks;
mod map_faults;
mod owners;
mod parts;
mod proofs;
mod quotas;
mod reads;
mod replica;
mod responses;
mod restarts;
mod subrecords;
mod sync;
mod trees;
mod unsigned;
mod verifier;
mod witnesses;
