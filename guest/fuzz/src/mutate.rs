//! Makes new inputs out of old ones, along their structure: operations of a list, values of a CBOR tree, fields with a
//! length before them, and in the end just bytes.

use crate::items::{self, Item};
use crate::rng::Rng;
use crate::tree::Value;

/// How the inputs of a target are built
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Bytes with fixed fields.
    Bytes,
    /// One CBOR value.
    Cbor,
    /// A list of operations.
    Items,
}

/// Numbers at which something may change: limits of integers, of the core's buffers, windows and frames.
const NUMBERS: [u64; 20] = [
    0,
    1,
    23,
    24,
    63,
    64,
    255,
    256,
    2047,
    2048,
    0x3fff,
    0x4000,
    0xffff,
    0x1_0000,
    0x4_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    u64::MAX - 1,
    u64::MAX,
];
/// Longest run of bytes that is added at once.
const MAX_ADDED: usize = 64;
/// A run that exceeds limits on purpose: the largest frame and some more.
const OVERSIZE: usize = 66_000;

/// A changed copy of `input`; parts of `other` may come into it.
pub(crate) fn mutate(rng: &mut Rng, input: &[u8], other: &[u8], shape: Shape, max_len: usize) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 << rng.below(4) {
        // Now and then the structure itself is hit.
        let shape = if rng.one_in(16) { Shape::Bytes } else { shape };
        bytes = match shape {
            Shape::Bytes => change_bytes(rng, bytes, other),
            Shape::Cbor => change_tree(rng, bytes, other),
            Shape::Items => change_items(rng, &bytes, other),
        };
    }
    bytes.truncate(max_len);
    bytes
}

fn change_items(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut list = items::parse(bytes);
    let at = rng.below(list.len());
    match rng.below(10) {
        0 if list.len() > 1 => _ = list.remove(at),
        1 if !list.is_empty() => list.insert(at, list[rng.below(list.len())].clone()),
        2 if list.len() > 1 => {
            let to = rng.below(list.len());
            list.swap(at, to);
        }
        3 => list.truncate(at + 1),
        4 => {
            let more = items::parse(other);
            let from = rng.below(more.len());
            let until = from + rng.below(more.len() - from) + usize::from(!more.is_empty());
            list.splice(at..at, more[from..until].iter().cloned());
        }
        5 if !list.is_empty() => list[at].kind = rng.byte(),
        6 => {
            let kind = list.get(at).map_or_else(|| rng.byte(), |item| item.kind);
            let len = rng.below(MAX_ADDED);
            list.insert(at, Item::new(kind, rng.bytes(len)));
        }
        _ if list.is_empty() => list.push(Item::new(rng.byte(), [])),
        _ => {
            let theirs = items::parse(other);
            let source = rng.pick(&theirs).map_or(other, |item| &item.payload);
            let payload = core::mem::take(&mut list[at].payload);
            list[at].payload = if Value::parse(&payload).is_some() && !rng.one_in(4) {
                change_tree(rng, payload, source)
            } else {
                change_bytes(rng, payload, source)
            };
        }
    }
    items::encode(&list)
}

fn change_tree(rng: &mut Rng, bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
    let Some(mut tree) = Value::parse(&bytes) else {
        return change_bytes(rng, bytes, other);
    };
    let place = rng.below(tree.count());
    let replacement = other_value(rng, other);
    let Some(value) = tree.at(place) else {
        return bytes;
    };
    match rng.below(8) {
        0 => *value = replacement,
        1 => *value = special_value(rng),
        2 => *value = Value::Array(vec![value.clone()]),
        3 => *value = Value::Bytes(value.encode()),
        _ => change_value(rng, value, replacement),
    }
    tree.encode()
}

/// A value of another input, or a new one when it holds none.
fn other_value(rng: &mut Rng, other: &[u8]) -> Value {
    let Some(mut tree) = Value::parse(other) else {
        return special_value(rng);
    };
    let place = rng.below(tree.count());
    tree.at(place).map_or(Value::Simple(22), |value| value.clone())
}

fn special_value(rng: &mut Rng) -> Value {
    match rng.below(7) {
        0 => Value::Uint(special_number(rng)),
        1 => Value::Simple(20 + (rng.byte() & 3)),
        2 => {
            let len = special_length(rng);
            Value::Bytes(rng.bytes(len))
        }
        3 => Value::Bytes(vec![]),
        4 => Value::Text(vec![]),
        5 => Value::Array(vec![]),
        _ => {
            let len = special_length(rng);
            Value::Text(rng.bytes(len).iter().map(|byte| b'a' + byte % 26).collect())
        }
    }
}

/// Changes a value and leaves its type.
fn change_value(rng: &mut Rng, value: &mut Value, replacement: Value) {
    match value {
        Value::Uint(number) => *number = changed_number(rng, *number),
        Value::Simple(simple) => *simple ^= 1 << rng.below(5),
        Value::Bytes(bytes) | Value::Text(bytes) => {
            *bytes = change_bytes(rng, core::mem::take(bytes), &replacement.encode());
        }
        Value::Embedded(inner) => {
            *value = Value::Bytes(change_bytes(rng, inner.encode(), &replacement.encode()));
        }
        Value::Array(values) => {
            let at = rng.below(values.len());
            match rng.below(5) {
                0 => values.insert(at, replacement),
                1 if !values.is_empty() => values.insert(at, values[at].clone()),
                2 if !values.is_empty() => values[at] = replacement,
                3 if !values.is_empty() => {
                    let to = rng.below(values.len());
                    values.swap(at, to);
                }
                _ if !values.is_empty() => _ = values.remove(at),
                _ => values.push(replacement),
            }
        }
    }
}

/// A length around the limits of keys, names, labels and addresses.
fn special_length(rng: &mut Rng) -> usize {
    let limit = rng.pick(&[1, 16, 32, 64, 256, 384, 512]).copied().unwrap_or(1);
    limit - 1 + rng.below(3)
}

fn special_number(rng: &mut Rng) -> u64 {
    rng.pick(&NUMBERS).copied().unwrap_or_default()
}

fn changed_number(rng: &mut Rng, number: u64) -> u64 {
    match rng.below(4) {
        0 => special_number(rng),
        1 => number.wrapping_add(rng.next() % 16),
        2 => number.wrapping_sub(rng.next() % 16),
        _ => number ^ 1 << rng.below(64),
    }
}

fn change_bytes(rng: &mut Rng, mut bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
    let at = rng.below(bytes.len());
    match rng.below(12) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << rng.below(8),
        2 if !bytes.is_empty() => bytes[at] = rng.byte(),
        3 if !bytes.is_empty() => bytes[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff]).copied().unwrap_or(0),
        4 if !bytes.is_empty() => {
            let end = at + 1 + rng.below(bytes.len() - at);
            bytes.drain(at..end);
        }
        5 => {
            let len = 1 + rng.below(MAX_ADDED);
            bytes.splice(at..at, rng.bytes(len));
        }
        6 if !bytes.is_empty() => {
            let end = at + 1 + rng.below(bytes.len() - at);
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        7 => bytes.truncate(at),
        8 => {
            let from = rng.below(other.len());
            let end = from + rng.below(other.len() - from + 1);
            let until = at + rng.below(bytes.len() - at + 1);
            bytes.splice(at..until, other[from..end].iter().copied());
        }
        9 => change_field(rng, &mut bytes),
        10 if rng.one_in(64) => bytes.resize(OVERSIZE, 0),
        _ => write_number(rng, &mut bytes, at),
    }
    bytes
}

/// Writes a number of 1, 2, 4 or 8 bytes over what stands at a place.
fn write_number(rng: &mut Rng, bytes: &mut [u8], at: usize) {
    let width = 1 << rng.below(4);
    let Some(place) = bytes.get_mut(at..at + width) else {
        return;
    };
    let old = place
        .iter()
        .rev()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut new = changed_number(rng, old).to_le_bytes();
    if rng.one_in(4) {
        new[..width].reverse();
    }
    place.copy_from_slice(&new[..width]);
}

/// Changes the content of a field that has its `u32` length before it, and the length with it.
fn change_field(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let fields: Vec<(usize, usize)> = (0..bytes.len().saturating_sub(3))
        .filter_map(|at| {
            let len: [u8; 4] = bytes[at..at + 4].try_into().ok()?;
            let len = usize::try_from(u32::from_le_bytes(len)).ok()?;
            (at + 4 + len <= bytes.len()).then_some((at, len))
        })
        // A run of zeros looks like many empty fields.
        .filter(|(_, len)| *len > 0)
        .collect();
    let Some((at, len)) = rng.pick(&fields).copied() else {
        return;
    };
    let start = at + 4;
    let new_len = match rng.below(4) {
        0 => 0,
        1 => len.saturating_sub(1),
        2 => len + 1 + rng.below(MAX_ADDED),
        _ => rng.below(len + 1),
    };
    let mut content = bytes[start..start + len].to_vec();
    content.resize(new_len, b'a');
    bytes.splice(start..start + len, content);
    let new_len = u32::try_from(new_len).expect("a field is far below 4 GiB");
    bytes[at..start].copy_from_slice(&new_len.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_survives_every_change() {
        let tree = Value::Array(vec![Value::Uint(7), Value::Bytes(vec![1; 20])]).encode();
        let list = items::encode(&[
            Item::new(1, tree.clone()),
            Item::new(2, [5, 0, 0, 0, 1, 2, 3, 4, 5]),
        ]);
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            for shape in [Shape::Bytes, Shape::Cbor, Shape::Items] {
                for input in [&tree, &list, &Vec::new()] {
                    assert!(mutate(&mut rng, input, &tree, shape, 4096).len() <= 4096);
                    mutate(&mut rng, input, &[], shape, 4096);
                }
            }
        }
    }

    #[test]
    fn a_list_mostly_stays_a_list() {
        let list = items::encode(&[Item::new(1, [1, 2, 3]), Item::new(2, [4, 5, 6])]);
        let mut rng = Rng::new(1);
        let whole = (0..1000)
            .map(|_| mutate(&mut rng, &list, &list, Shape::Items, 4096))
            .filter(|bytes| items::encode(&items::parse(bytes)) == *bytes)
            .count();
        assert!(whole > 700, "{whole}");
    }
}
