//! Calls what the crate does not offer: libsodium's random source.

use core::ffi::c_void;

unsafe extern "C" {
    fn randombytes_buf(buffer: *mut c_void, size: usize);
}

/// Asks for random bytes. It must not return.
pub(crate) fn ask() {
    selfsame_sodium::init();
    let mut buffer = [0_u8; 16];
    // SAFETY: the buffer is writable for the 16 bytes that are asked for.
    unsafe { randombytes_buf(buffer.as_mut_ptr().cast(), buffer.len()) };
}
