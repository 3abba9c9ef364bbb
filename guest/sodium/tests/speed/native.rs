//! Prints how long each operation takes natively, in nanoseconds, one `name<TAB>ns` on a line.

mod operation;

use std::time::Instant;

/// Long enough that the clock's resolution and a stray interrupt do not show.
const RUN_NS: u128 = 100_000_000;
const ROUNDS: usize = 5;

fn main() {
    for (index, name) in operation::NAMES.iter().enumerate() {
        let mut count = 1;
        let best = (0..ROUNDS)
            .map(|_| time(index, &mut count))
            .fold(f64::INFINITY, f64::min);
        println!("{name}\t{best:.0}");
    }
}

/// Nanoseconds for one operation; raises `count` until the run is long enough.
fn time(index: usize, count: &mut u32) -> f64 {
    loop {
        let start = Instant::now();
        operation::repeat(index, *count);
        let elapsed = start.elapsed().as_nanos();
        if elapsed >= RUN_NS {
            return elapsed as f64 / f64::from(*count);
        }
        *count *= 2;
    }
}
