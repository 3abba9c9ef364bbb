//! What is played, and what is measured.

mod lookups;
mod names;
mod play;
mod settle;

pub use lookups::{Lookups, lookups};
pub use names::{Finds, Published, find, publish};
pub use play::{Scenario, play};
pub use settle::{BOOTSTRAPS, join, settle};
