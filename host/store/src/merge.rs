//! Entries of what was written later over those of what was written before.

use core::cmp::Ordering;
use core::iter::from_fn;

use super::StoreError;

/// A key, and its value unless it was removed
pub(crate) type Found = Result<(Vec<u8>, Option<Vec<u8>>), StoreError>;

/// The entries of both in the order of their keys; where both have one, the upper one.
pub(crate) fn over(
    upper: impl Iterator<Item = Found>,
    lower: impl Iterator<Item = Found>,
) -> impl Iterator<Item = Found> {
    let (mut upper, mut lower) = (upper.peekable(), lower.peekable());
    from_fn(move || {
        let order = match (upper.peek(), lower.peek()) {
            (Some(Ok((one, _))), Some(Ok((other, _)))) => one.cmp(other),
            (Some(_), None) | (Some(Err(_)), _) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => upper.next(),
            Ordering::Greater => lower.next(),
            Ordering::Equal => {
                lower.next();
                upper.next()
            }
        }
    })
}
