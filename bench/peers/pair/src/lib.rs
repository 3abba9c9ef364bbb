//! Two cores joined by a wire in memory, and the line protocol of a benchmark process.

mod pair;
pub use pair::{Core, Pair, configuration, now_ms};

mod runner;
pub use runner::{Outcome, Task, repeat, serve};
