//! What the WebAssembly modules have in common: their exports, their allocator and the table of what lives in them.
//!
//! What is created lives in a table; a handle is a place in it. The last output of each lives until the next call with its
//! handle, the last answer of `derive` and `verify` until the next such call.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

mod memory;
pub use memory::{allocate, input, release};

#[cfg(all(target_family = "wasm", feature = "growing"))]
mod growing;
#[cfg(target_family = "wasm")]
mod runtime;

mod single;
pub use single::Single;

mod table;
pub use table::{Header, Machine, Table};

/// The exports of a module.
///
/// `machine` is what handles stand for, a [`Machine`]; `version` that of the boundary; `derive` and `verify` answer
/// without a handle, each a function from a request's bytes to an answer's.
#[macro_export]
macro_rules! exports {
    (machine: $machine:ty, version: $version:expr, derive: $derive:path, verify: $verify:path $(,)?) => {
        static TABLE: $crate::Table<$machine> = $crate::Table::new();

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn abi_version() -> u32 {
            $version
        }

        /// A block of `len` bytes, or null.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn alloc(len: usize) -> *mut u8 {
            $crate::allocate(len)
        }

        /// Gives a block of `alloc` back; `len` is the length it was asked for.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn free(ptr: *mut u8, len: usize) {
            // SAFETY: the host gives back a block of `alloc` with the length it asked for, once.
            unsafe { $crate::release(ptr, len) }
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn create(ptr: *const u8, len: usize) -> u32 {
            // SAFETY: the host filled `len` bytes of a block of `alloc` and leaves them alone until the call returns.
            TABLE.create(unsafe { $crate::input(ptr, len) })
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn step(handle: u32, ptr: *const u8, len: usize) -> *const $crate::Header {
            // SAFETY: as for `create`.
            TABLE.step(handle, unsafe { $crate::input(ptr, len) })
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn destroy(handle: u32) {
            TABLE.destroy(handle);
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn derive(ptr: *const u8, len: usize) -> *const $crate::Header {
            // SAFETY: as for `create`.
            TABLE.keep($derive(unsafe { $crate::input(ptr, len) }))
        }

        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn verify(ptr: *const u8, len: usize) -> *const $crate::Header {
            // SAFETY: as for `create`.
            TABLE.keep($verify(unsafe { $crate::input(ptr, len) }))
        }
    };
}
