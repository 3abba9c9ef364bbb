#![expect(
    unsafe_code,
    reason = "pointers from the host become slices here and nowhere else"
)]

use core::alloc::Layout;

/// Largest block that a host may ask for: far above any batch, far below the memory of an isolate.
const MAX_ALLOCATION: usize = 16 * 1024 * 1024;

/// A block of `len` bytes, all zero, or null.
#[must_use]
pub fn allocate(len: usize) -> *mut u8 {
    match layout(len) {
        // SAFETY: the layout's size is not zero.
        Some(layout) => unsafe { alloc::alloc::alloc_zeroed(layout) },
        None => core::ptr::null_mut(),
    }
}

/// Gives a block of [`allocate`] back.
///
/// # Safety
/// `ptr` is null or came from [`allocate`] with this `len`, and is given back once.
pub unsafe fn release(ptr: *mut u8, len: usize) {
    if let Some(layout) = layout(len).filter(|_| !ptr.is_null()) {
        // SAFETY: it was allocated with this layout, as the caller promises.
        unsafe { alloc::alloc::dealloc(ptr, layout) }
    }
}

/// The bytes that a host hands over.
///
/// # Safety
/// `ptr` is null or begins `len` bytes that stay as they are while the slice is used.
#[must_use]
#[inline]
pub unsafe fn input<'a>(ptr: *const u8, len: usize) -> &'a [u8] {
    if ptr.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { core::slice::from_raw_parts(ptr, len) }
}

fn layout(len: usize) -> Option<Layout> {
    if len == 0 || len > MAX_ALLOCATION {
        None
    } else {
        Layout::from_size_align(len, 8).ok()
    }
}
