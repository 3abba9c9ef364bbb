//! The protocols of selfsame as one sans-I/O state machine.
//!
//! Bytes go in with the time, bytes come out: the core knows no socket, clock, thread or random source. Each
//! module uses only those above it in this list; [`Node`] composes them and speaks the boundary of
//! [`selfsame_codec`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod gather;
mod hex;
mod map;

pub mod random;

pub mod identity;
mod verified;

pub mod handshake;

pub mod channel;

pub mod record;

pub mod grant;

pub mod association;

pub mod ring;

pub mod mesh;

mod node;
pub use node::Node;
