//! What writing and reading cost that is not in memory any more: `cold [MIB]` writes as much, in values of 1,100 and of 100 bytes, and
//! then reads keys that are there and keys that are not.

use std::time::Instant;

use selfsame_codec::Operation;
use selfsame_store::{DiskStore, Storage as _, StoreError};
use selfsame_write_batch::WriteBatch;

const LENGTHS: [usize; 2] = [1100, 100];
/// Keys of a commit, of each length.
const TOGETHER: u64 = 50;
const READS: u64 = 100_000;
const TURNS: u64 = 3;

/// The key of a number, as random as a hash.
fn key(number: u64, len: usize) -> [u8; 32] {
    let mut key = [0; 32];
    let mut state = number.wrapping_mul(len as u64 + 1);
    for word in key.as_chunks_mut().0 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = (mixed ^ (mixed >> 31)).to_le_bytes();
    }
    key
}

fn write(store: &mut DiskStore, count: u64) -> Result<(), StoreError> {
    let value = vec![7; LENGTHS[0]];
    for first in (0..count).step_by(TOGETHER as usize) {
        let numbers = (first..first + TOGETHER).flat_map(|number| LENGTHS.map(|len| (number, len)));
        let keys: Vec<_> = numbers.map(|(number, len)| (key(number, len), len)).collect();
        let put = |(key, len): &'_ ([u8; 32], usize)| (*key, &value[..*len]);
        let puts: Vec<_> = keys.iter().map(put).collect();
        let changes: Vec<_> = puts
            .iter()
            .map(|(key, value)| Operation::Put { key, value })
            .collect();
        store.commit(&WriteBatch::of(&changes), false)?;
    }
    Ok(())
}

/// Microseconds of a read of keys that are there, or that are not.
fn read(store: &DiskStore, numbers: impl Iterator<Item = u64>, are_there: bool) -> Result<f64, StoreError> {
    let begin = Instant::now();
    for number in numbers {
        let found = store.get(&key(number, LENGTHS[0]))?;
        assert_eq!(found.is_some(), are_there, "number {number}");
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / READS as f64)
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mib: u64 = std::env::args().nth(1).map_or(Ok(480), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store");
    let count = (mib << 20) / (LENGTHS.iter().sum::<usize>() as u64 + 2 * 32);
    let begin = Instant::now();
    let mut store = DiskStore::open(&path)?;
    write(&mut store, count)?;
    drop(store);
    println!("written in {:.2} s", begin.elapsed().as_secs_f64());
    let store = DiskStore::open(&path)?;
    for turn in 0..TURNS {
        let there = (0..READS).map(|number| (number + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) % count);
        let there = read(&store, there, true)?;
        let absent = read(&store, (0..READS).map(|number| (1 << 40) + number), false)?;
        println!("a read of what is there {there:.2} us, of what is not {absent:.2} us");
    }
    Ok(())
}
