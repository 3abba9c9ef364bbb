//! A client of the servers of one capsule: writes and reads through quorums, verifies all that it is told, and keeps what it
//! must not forget (DCS, section 3.2).
//!
//! It does no I/O. A host hands it the application's commands, what servers answer, what the store answers and what time it is,
//! and carries out the effects that it asks for.

mod command;
mod effect;

pub use command::{
    Command, Content, Description, Extent, Got, Head, Heads, MAX_ELEMENTS, Period, Position, Reply, Signing,
    Start,
};
pub use effect::{Config, Effect, MAX_SERVERS, Timing};
