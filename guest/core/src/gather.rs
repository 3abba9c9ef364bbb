//! Collecting into vectors with little code.
//!
//! `collect` compiles the growing of a vector anew for each kind of iterator, some hundred bytes each time in a module that
//! people download. Here it is compiled once for each kind of element.

use alloc::vec::Vec;

use selfsame_codec::Malformed;
use selfsame_codec::cbor::Decoder;

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

/// Reads an array of at most `max` elements.
///
/// # Errors
/// [`Malformed`] when it is none, longer, or an element is malformed.
#[inline(never)]
pub(crate) fn read_list<'a, T>(
    decoder: &mut Decoder<'a>,
    max: usize,
    read: &dyn Fn(&mut Decoder<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut list = Vec::new();
    for _ in 0..decoder.array(max)? {
        list.push(read(decoder)?);
    }
    Ok(list)
}
