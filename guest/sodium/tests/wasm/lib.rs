//! The vector tests as a WebAssembly module: the same cases, through the library that the core links.

#[path = "../arithmetic/main.rs"]
mod arithmetic;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/random_source.rs"]
mod random_source;
#[path = "../refusals.rs"]
mod refusals;

use std::sync::Mutex;

static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static REPORT: Mutex<String> = Mutex::new(String::new());

/// What [`run`] returns when it could not run the file.
const UNREADABLE: u32 = u32::MAX;

/// A buffer for [`run`]: a path, then the contents of that file.
// SAFETY: no other function of this module or of its libraries has this name; the same holds for those below.
#[unsafe(no_mangle)]
pub extern "C" fn input(len: u32) -> *mut u8 {
    let mut input = INPUT.lock().expect("one thread");
    input.clear();
    input.resize(len as usize, 0);
    input.as_mut_ptr()
}

/// Runs the file in the input buffer and returns how many of its cases passed.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn run(path_len: u32) -> u32 {
    let input = INPUT.lock().expect("one thread");
    let (path, contents) = input.split_at(path_len as usize);
    let outcome = match (str::from_utf8(path), str::from_utf8(contents)) {
        (Ok(path), Ok(contents)) => common::run(path, contents),
        _ => Err("not UTF-8".into()),
    };
    let (passed, lines) = match outcome {
        Ok(report) => (report.passed as u32, report.failures.join("\n")),
        Err(reason) => (UNREADABLE, reason),
    };
    *REPORT.lock().expect("one thread") = lines;
    passed
}

/// Where the failures of the last run are: one line each, as UTF-8.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn report() -> *const u8 {
    REPORT.lock().expect("one thread").as_ptr()
}

/// How long the text at [`report`] is.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn report_len() -> u32 {
    REPORT.lock().expect("one thread").len() as u32
}

/// Runs one of the tests of refusals, which traps when it fails, and leaves its name as the report. Returns how many
/// there are.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn refuse(index: u32) -> u32 {
    let (name, test) = refusals::ALL[index as usize];
    *REPORT.lock().expect("one thread") = name.into();
    test();
    refusals::ALL.len() as u32
}

/// Compares two ways to compute what our own C functions compute; traps when they differ.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn compare_arithmetic() {
    use arithmetic::{base_multiplication, memory_order, scalar_product, small_order, stream_cipher};

    base_multiplication::base_point_is_multiplied_like_any_other();
    small_order::exactly_the_points_of_small_order_are_told();
    scalar_product::product_and_sum_are_the_same_at_once();
    scalar_product::numbers_of_64_bytes_are_reduced_the_same_everywhere();
    memory_order::every_length_and_place_has_the_order_of_its_first_difference();
    stream_cipher::every_length_is_encrypted_with_the_stream_of_the_standard();
    stream_cipher::every_length_is_authenticated_the_same_everywhere();
}

/// Asks libsodium for random bytes, which must end in a trap.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn ask_for_randomness() {
    random_source::ask();
}
