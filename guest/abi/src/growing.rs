//! An allocator over one piece of memory, for modules that hold large blocks.
#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};

use rlsf::{FlexSource, FlexTlsf};

use crate::single::Single;

/// Bytes of a page of memory.
const PAGE: usize = 64 * 1024;
/// Classes of sizes: as many powers of two as there are, each cut into as many parts.
const CLASSES: usize = usize::BITS as usize;

/// Adds pages at the end of the memory; where they begin, and how many bytes they have.
fn grow(bytes: usize) -> Option<(*mut u8, usize)> {
    let pages = bytes.div_ceil(PAGE);
    match memory_grow::<0>(pages) {
        usize::MAX => None,
        before => Some(((before * PAGE) as *mut u8, pages * PAGE)),
    }
}

/// The memory of the module, of which the allocator has all that was ever added
struct Memory;

// SAFETY: pages that were added belong to whoever added them, and are never taken back.
unsafe impl FlexSource for Memory {
    unsafe fn alloc(&mut self, min_size: usize) -> Option<NonNull<[u8]>> {
        let (start, len) = grow(min_size)?;
        NonNull::new(slice_from_raw_parts_mut(start, len))
    }

    unsafe fn realloc_inplace_grow(&mut self, ptr: NonNull<[u8]>, min_new_len: usize) -> Option<usize> {
        let end = ptr.as_ptr().cast::<u8>() as usize + ptr.len();
        if end != memory_size::<0>() * PAGE {
            return None;
        }
        let (_, more) = grow(min_new_len - ptr.len())?;
        Some(ptr.len() + more)
    }

    fn supports_realloc_inplace_grow(&self) -> bool {
        true
    }

    fn min_align(&self) -> usize {
        PAGE
    }
}

/// Two-level segregated fit in one piece of memory: what lies beside each other and is free is one block, whenever it was added,
/// and blocks grow in place where they can
///
/// [`rlsf::GlobalTlsf`] keeps what it adds apart, so that a block never fits where two smaller ones were.
pub(crate) struct GrowingTlsf(Single<FlexTlsf<Memory, usize, usize, CLASSES, CLASSES>>);

impl GrowingTlsf {
    /// An allocator that has no memory yet.
    pub(crate) const fn new() -> Self {
        Self(Single::new(FlexTlsf::new(Memory)))
    }
}

// SAFETY: the blocks are those of `FlexTlsf`, which are as large and as aligned as was asked for.
unsafe impl GlobalAlloc for GrowingTlsf {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.0.with(|tlsf| tlsf.allocate(layout));
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller gives back a block of this allocator with the alignment that it asked for; none is null.
        self.0
            .with(|tlsf| unsafe { tlsf.deallocate(NonNull::new_unchecked(ptr), layout.align()) });
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; the caller promises that the new size rounded up to the alignment is no overflow.
        let block = self.0.with(|tlsf| unsafe {
            let layout = Layout::from_size_align_unchecked(new_size, layout.align());
            tlsf.reallocate(NonNull::new_unchecked(ptr), layout)
        });
        block.map_or(null_mut(), NonNull::as_ptr)
    }
}
