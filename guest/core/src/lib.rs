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
pub mod random;

mod boot;
pub use boot::BootId;

pub mod identity;

mod place;
pub use place::Place;
mod verified;

mod address;
mod statement;

mod quota;
pub use quota::Holder;

pub mod admission;
pub use admission::MAX_EVIDENCE_BYTES;

pub mod handshake;

pub mod channel;

pub mod record;

pub mod grant;

pub mod association;

pub mod ring;

pub mod mesh;

mod node;
pub use node::Node;
