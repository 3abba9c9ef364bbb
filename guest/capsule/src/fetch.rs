//! What is used soon, brought near.

use selfsame_write_batch::fetch;

/// As [`fetch`], of a message that another thread has written: its lines come sooner one after the other than where many records of
/// it are hashed side by side. In WebAssembly the host has just copied it.
pub(crate) fn fetch_message(message: &[u8]) {
    if cfg!(not(target_family = "wasm")) {
        fetch(message);
    }
}
