//! A deterministic simulator: many cores on one thread and one virtual clock.
//!
//! Everything that happens follows from one seed, so that a run that fails can be replayed exactly. The cores are used
//! through their boundary, as every host uses them, natively or as WebAssembly.

pub mod attack;
mod disk;
mod host;
mod invariant;
mod machine;
mod network;
mod queue;
mod report;
mod ring;
pub mod scenario;
mod traffic;
mod world;

pub use disk::Disk;
pub use host::{Answer, Host, Opened, Outcome};
pub use invariant::Broken;
pub use machine::{Handle, Machine, Native};
pub use network::{Network, Transport};
pub use report::{Bar, Report, Row};
pub use ring::{Faults, RingState};
pub use traffic::{Requests, Traffic};
pub use world::{End, START_MS, World};
