//! Collecting into vectors with little code.
//!
//! `collect` compiles the growing of a vector anew for each kind of iterator, some hundred bytes each time in a module that
//! people download. Here it is compiled once for each kind of element.

use alloc::vec::Vec;

/// An iterator whose elements can be gathered
pub(crate) trait Gather: Iterator {
    /// All elements, as `collect` gives them.
    fn gather(mut self) -> Vec<Self::Item>
    where
        Self: Sized,
    {
        push_all(&mut || self.next())
    }
}

impl<I: Iterator> Gather for I {}

#[inline(never)]
fn push_all<T>(next: &mut dyn FnMut() -> Option<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(element) = next() {
        all.push(element);
    }
    all
}
