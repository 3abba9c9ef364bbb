//! Counts what the heap holds, so that a leak of one byte is seen.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

// Each thread counts for itself: the fuzzer has one, and its tests do not count for each other.
thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted
pub(crate) struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counters do not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises about `layout` are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: `ptr` came from `alloc` above, so from the system's allocator, with the same layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        shrink(layout.size());
        grow(new_size);
        // SAFETY: as for `dealloc`; the caller promises that `new_size` is usable.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

fn grow(bytes: usize) {
    let live = LIVE.get() + bytes.cast_signed();
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

fn shrink(bytes: usize) {
    // What another thread allocated may be freed here.
    LIVE.set(LIVE.get() - bytes.cast_signed());
}

/// Bytes that this thread has allocated and nobody has freed.
pub(crate) fn live() -> isize {
    LIVE.get()
}

/// Forgets the highest point so far, and gives [`live`].
pub(crate) fn mark() -> isize {
    PEAK.set(LIVE.get());
    LIVE.get()
}

/// The highest point since [`mark`].
pub(crate) fn peak() -> isize {
    PEAK.get()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_allocated_is_counted() {
        let before = super::mark();
        let block = core::hint::black_box(vec![0_u8; 1 << 20]);
        assert!(super::peak() >= before + block.len().cast_signed());
    }
}
