//! What is played, and what is measured.

mod hops;
mod lookups;
mod names;
mod play;
mod schedules;
mod settle;

pub use lookups::{Lookups, lookups};
pub use names::{Finds, Published, find, publish};
pub use play::{Scenario, play};
pub use schedules::{Failure, schedule};
pub use settle::{BOOTSTRAPS, join, settle};
