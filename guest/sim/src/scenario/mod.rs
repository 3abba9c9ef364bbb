//! What is played, and what is measured.

mod attack;
mod curve;
mod episodes;
mod hops;
mod liars;
mod lookups;
mod messages;
mod names;
mod play;
mod schedules;
mod settle;

pub use episodes::Fault;
pub use lookups::{Lookups, lookups, lookups_among};
pub use names::{Finds, GET, Published, call, find, publish};
pub use play::{Plan, Scenario, play};
pub use schedules::{Failure, Schedule, schedule};

use play::settled;
use settle::join_telling;
pub use settle::{BOOTSTRAPS, join, settle};
