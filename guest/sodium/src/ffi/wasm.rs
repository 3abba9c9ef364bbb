//! The symbols that libsodium's WebAssembly build expects from outside.

use core::arch::wasm32;

/// libsodium's source of random bytes in WebAssembly: there is none, so whoever asks is stopped.
// SAFETY: the name is free, libsodium's freestanding C library declares the function and leaves it to us.
#[unsafe(no_mangle)]
extern "C" fn arc4random_buf(_: *mut u8, _: usize) {
    wasm32::unreachable();
}
