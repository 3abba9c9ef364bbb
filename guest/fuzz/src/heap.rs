//! Counts what the heap holds, so that a leak of one byte is seen.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

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
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` came from `alloc` above, so from the system's allocator, with the same layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        grow(new_size);
        // SAFETY: as for `dealloc`; the caller promises that `new_size` is usable.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

/// Bytes that the heap holds now.
pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Forgets the highest point so far, and gives what the heap holds now.
pub(crate) fn mark() -> usize {
    let live = live();
    PEAK.store(live, Ordering::Relaxed);
    live
}

/// The most that the heap held since [`mark`].
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_allocated_is_counted() {
        let before = super::mark();
        let block = core::hint::black_box(vec![0_u8; 1 << 20]);
        assert!(super::peak() >= before + block.len());
    }
}
