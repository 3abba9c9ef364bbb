//! Encrypted RPC (after "Encrypted R2P2"): requests and responses of one datagram or many, sealed under tickets that any replica of
//! a service opens.
//!
//! Client and server are state machines without I/O: datagrams and the time go in, datagrams and calls come out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod endpoint;
pub use endpoint::Endpoint;

mod wire;

mod keys;

mod ticket;
pub use ticket::{Grant, TicketKey};

mod window;

mod congestion;

mod transfer;

mod assembly;

mod forward;

mod outbox;

mod client;
pub use client::{Client, NewCall};

mod server;
pub use server::{Replay, Server, ServerConfig};

mod router;
pub use router::{Router, RouterConfig, Selection};

mod machine;
pub use machine::Machine;
