//! Tests of the core through its boundary, and of the ring. They are one program: each one more would compile and link what they share
//! again.

extern crate alloc;

mod calls;
mod channel;
mod closed;
mod confirmed;
mod crowding;
mod dialling;
mod guard;
mod handshake;
mod heads;
mod intruders;
mod leaving;
mod mesh;
mod recover;
mod relays;
mod ring;
mod route;
#[path = "../support/mod.rs"]
mod support;
