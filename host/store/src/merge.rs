//! Entries of what was written later over those of what was written before.

use core::cmp::Ordering;
use core::iter::from_fn;

use super::StoreError;

/// A key, and its value unless it was removed
pub(crate) type Found = Result<(Vec<u8>, Option<Vec<u8>>), StoreError>;

/// The entries of both in the order of their keys; where both have one, the upper one. What failed comes first.
pub(crate) fn over(
    upper: impl Iterator<Item = Found>,
    lower: impl Iterator<Item = Found>,
) -> impl Iterator<Item = Found> {
    over_by(upper, lower, |one, other| match (one, other) {
        (Ok((one, _)), Ok((other, _))) => one.cmp(other),
        (Err(_), _) => Ordering::Less,
        (_, Err(_)) => Ordering::Greater,
    })
}

/// What both have, which is in an order; where both have the same, that of the upper one.
pub(crate) fn over_by<T>(
    upper: impl Iterator<Item = T>,
    lower: impl Iterator<Item = T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = T> {
    let (mut upper, mut lower) = (upper.peekable(), lower.peekable());
    from_fn(move || {
        let order = match (upper.peek(), lower.peek()) {
            (Some(one), Some(other)) => order(one, other),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
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
