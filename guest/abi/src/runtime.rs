//! What a program without the standard library has to bring along.
//!
//! The standard library's panic message would have nobody to read it, since the core imports nothing, and costs a
//! twentieth of the download.

use core::panic::PanicInfo;

#[cfg(not(feature = "growing"))]
use rlsf::SmallGlobalTlsf;

#[cfg(feature = "growing")]
use crate::growing::GrowingTlsf;

#[cfg(not(feature = "growing"))]
#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

#[cfg(feature = "growing")]
#[global_allocator]
static ALLOCATOR: GrowingTlsf = GrowingTlsf::new();

/// A trap, which hosts see as the end of this instance.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
