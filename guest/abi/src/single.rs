#![expect(unsafe_code, reason = "a static that only one thread can reach")]

use core::cell::RefCell;

#[cfg(target_feature = "atomics")]
compile_error!("the core runs in one thread and must not be compiled with shared memory");

/// A static of a module that has one thread
pub struct Single<T>(RefCell<T>);

impl<T> Single<T> {
    /// One with this value.
    pub const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Lends the value; panics when it is lent already.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

// SAFETY: without the feature `atomics` a WebAssembly memory belongs to one thread.
unsafe impl<T> Sync for Single<T> {}
