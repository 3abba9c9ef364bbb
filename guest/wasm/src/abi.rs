#![expect(
    unsafe_code,
    reason = "pointers from the host become slices here and nowhere else"
)]

use core::alloc::Layout;

use crate::family;
use crate::table::{self, Header};

/// Largest block that a host may ask for: far above any batch, far below the memory of an isolate.
const MAX_ALLOCATION: usize = 16 * 1024 * 1024;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn abi_version() -> u32 {
    if cfg!(feature = "insecure") {
        selfsame_codec::ABI_VERSION | selfsame_codec::INSECURE
    } else {
        selfsame_codec::ABI_VERSION
    }
}

/// A block of `len` bytes, or null.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn alloc(len: usize) -> *mut u8 {
    match layout(len) {
        // SAFETY: the layout's size is not zero.
        Some(layout) => unsafe { alloc::alloc::alloc_zeroed(layout) },
        None => core::ptr::null_mut(),
    }
}

/// Gives a block of `alloc` back; `len` is the length it was asked for.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn free(ptr: *mut u8, len: usize) {
    if let Some(layout) = layout(len).filter(|_| !ptr.is_null()) {
        // SAFETY: the host gives back a block of `alloc` with the length it asked for, once.
        unsafe { alloc::alloc::dealloc(ptr, layout) }
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn create(ptr: *const u8, len: usize) -> u32 {
    table::create(input(ptr, len))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn step(handle: u32, ptr: *const u8, len: usize) -> *const Header {
    table::step(handle, input(ptr, len))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn destroy(handle: u32) {
    table::destroy(handle);
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn derive(ptr: *const u8, len: usize) -> *const Header {
    table::keep(family::answer(family::derive(input(ptr, len))))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn verify(ptr: *const u8, len: usize) -> *const Header {
    table::keep(family::answer(family::verify(input(ptr, len))))
}

fn layout(len: usize) -> Option<Layout> {
    if len == 0 || len > MAX_ALLOCATION {
        None
    } else {
        Layout::from_size_align(len, 8).ok()
    }
}

fn input<'a>(ptr: *const u8, len: usize) -> &'a [u8] {
    if ptr.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the host filled `len` bytes of a block of `alloc` and leaves them alone until the call returns; the
    // slice does not outlive the call.
    unsafe { core::slice::from_raw_parts(ptr, len) }
}
