//! What is used soon, brought near.

/// Bytes that a processor fetches from memory at once.
const LINE: usize = 64;

/// Reads a byte of each line, so that the processor fetches what will be used soon, of many values at a time.
pub(crate) fn fetch(value: &[u8]) {
    let sum = value.iter().step_by(LINE).fold(0_u8, |sum, byte| sum ^ byte);
    core::hint::black_box(sum);
}

/// As [`fetch`], of a message that another thread has written: its lines come sooner one after the other than where many records of
/// it are hashed side by side. In WebAssembly the host has just copied it.
pub(crate) fn fetch_message(message: &[u8]) {
    if cfg!(not(target_family = "wasm")) {
        fetch(message);
    }
}
