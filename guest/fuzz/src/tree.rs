//! CBOR as a tree that can be changed anywhere and written again, with every length right.

/// Deepest nesting that is followed; our messages stay below it.
const MAX_DEPTH: usize = 12;

/// A value
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An unsigned integer.
    Uint(u64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A byte string that holds a value: a signed statement, a record in a message.
    Embedded(Box<Self>),
    /// A text string, perhaps not even UTF-8.
    Text(Vec<u8>),
    /// An array.
    Array(Vec<Self>),
    /// A boolean, null or any other simple value.
    Simple(u8),
}

impl Value {
    /// Reads a value that takes all of `bytes`, or none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match read(bytes, 0)? {
            (value, []) => Some(value),
            _ => None,
        }
    }

    /// The encoding, deterministic whatever the tree went through.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Uint(value) => head(out, 0, *value),
            Self::Bytes(bytes) => string(out, 2, bytes),
            Self::Embedded(value) => string(out, 2, &value.encode()),
            Self::Text(bytes) => string(out, 3, bytes),
            Self::Array(values) => {
                head(out, 4, values.len() as u64);
                values.iter().for_each(|value| value.write(out));
            }
            Self::Simple(value) => out.push(0xe0 | (value & 0x1f)),
        }
    }

    /// How many values there are, this one and all below.
    pub(crate) fn count(&self) -> usize {
        1 + match self {
            Self::Embedded(value) => value.count(),
            Self::Array(values) => values.iter().map(Self::count).sum(),
            _ => 0,
        }
    }

    /// The value at a place in the order in which they are written, this one at 0.
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Self> {
        if place == 0 {
            return Some(self);
        }
        let mut rest = place - 1;
        match self {
            Self::Embedded(value) => value.at(rest),
            Self::Array(values) => {
                for value in values {
                    let count = value.count();
                    if rest < count {
                        return value.at(rest);
                    }
                    rest -= count;
                }
                None
            }
            _ => None,
        }
    }
}

fn read(bytes: &[u8], depth: usize) -> Option<(Value, &[u8])> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (first, rest) = bytes.split_first()?;
    let major = first >> 5;
    if major == 7 {
        return Some((Value::Simple(first & 0x1f), rest));
    }
    let (number, rest) = argument(first & 0x1f, rest)?;
    match major {
        0 => Some((Value::Uint(number), rest)),
        2 => {
            let (bytes, rest) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            // A short string is more likely a number or a key than a message.
            let embedded = (bytes.len() > 2 && bytes[0] >> 5 == 4)
                .then(|| read(bytes, depth + 1))
                .flatten();
            let value = match embedded {
                Some((value, [])) => Value::Embedded(Box::new(value)),
                _ => Value::Bytes(bytes.to_vec()),
            };
            Some((value, rest))
        }
        3 => {
            let (bytes, rest) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            Some((Value::Text(bytes.to_vec()), rest))
        }
        4 => {
            let mut rest = rest;
            let mut values = Vec::new();
            for _ in 0..number {
                let (value, after) = read(rest, depth + 1)?;
                values.push(value);
                rest = after;
            }
            Some((Value::Array(values), rest))
        }
        _ => None,
    }
}

fn argument(info: u8, rest: &[u8]) -> Option<(u64, &[u8])> {
    let width = match info {
        0..24 => return Some((u64::from(info), rest)),
        24..28 => 1 << (info - 24),
        _ => return None,
    };
    let (bytes, rest) = rest.split_at_checked(width)?;
    let number = bytes
        .iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Some((number, rest))
}

fn string(out: &mut Vec<u8>, major: u8, bytes: &[u8]) {
    head(out, major, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn head(out: &mut Vec<u8>, major: u8, number: u64) {
    let major = major << 5;
    let bytes = number.to_be_bytes();
    match number {
        0..24 => out.push(major | bytes[7]),
        24..0x100 => out.extend_from_slice(&[major | 24, bytes[7]]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let inner = Value::Array(vec![Value::Uint(1 << 40), Value::Text(b"t".to_vec())]);
        Value::Array(vec![
            Value::Uint(300),
            Value::Embedded(Box::new(inner)),
            Value::Bytes(vec![7; 40]),
            Value::Simple(22),
        ])
    }

    #[test]
    fn a_tree_comes_back() {
        assert_eq!(Value::parse(&sample().encode()), Some(sample()));
        assert_eq!(Value::parse(&[0x9f]), None);
        assert_eq!(Value::parse(&[0x82, 0]), None);
    }

    #[test]
    fn every_value_has_a_place() {
        let mut tree = sample();
        assert_eq!(tree.count(), 8);
        assert_eq!(tree.at(1), Some(&mut Value::Uint(300)));
        assert_eq!(tree.at(5), Some(&mut Value::Text(b"t".to_vec())));
        assert_eq!(tree.at(7), Some(&mut Value::Simple(22)));
        assert_eq!(tree.at(8), None);
    }
}
