//! What a hash costs, alone and with others: nanoseconds each.

use core::hint::black_box;
use std::time::Instant;

use selfsame_multibuffer::keyed;

const MANY: usize = 96;
const TURNS: u32 = 2000;

fn timed(name: &str, mut turn: impl FnMut()) {
    turn();
    let begin = Instant::now();
    (0..TURNS).for_each(|_| turn());
    let each = begin.elapsed().as_nanos() as f64 / f64::from(TURNS) / MANY as f64;
    println!("{name:40} {each:8.1} ns");
}

fn main() {
    let key = [7; 32];
    for len in [62, 80, 200, 1104] {
        let inputs = vec![vec![1; len]; MANY];
        let slices: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        timed(&format!("hash of {len} B, alone"), || {
            for input in &inputs {
                black_box(blake3::keyed_hash(&key, black_box(input)));
            }
        });
        timed(&format!("hash of {len} B, of {MANY}"), || {
            black_box(keyed(&key, &slices));
        });
    }
}
