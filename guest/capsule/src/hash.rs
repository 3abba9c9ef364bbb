//! Names, and the hash functions that give them.
//!
//! A capsule chooses its hash once, in its metadata. Every hash has a key that is derived from the capsule's name and a
//! label for what is hashed, so no hash of one thing, or of one capsule, is ever one of another.

use alloc::vec::Vec;

use selfsame_sodium::hash::{hash_for, hash_with, sha256};

/// Length of a hash and of a name.
pub const HASH_BYTES: usize = 32;

/// Most bytes that are hashed as one with SHA-256 after its prefix without a second buffer.
const SHORT_BYTES: usize = 256;

/// Name of a capsule: the hash of its metadata (DCS, section 2.2)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapsuleName(pub [u8; HASH_BYTES]);

/// Name of a record: the hash of its header (DCS, section 3.1)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName(pub [u8; HASH_BYTES]);

/// The hash function of a capsule
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashKind {
    /// BLAKE3, the default.
    Blake3 = 1,
    /// SHA-256, for whoever has to use what NIST has standardised.
    Sha256 = 2,
}

impl HashKind {
    /// The function with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Blake3),
            2 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The key under which one kind of thing is hashed in one capsule.
    fn key(self, label: &'static str, capsule: &CapsuleName) -> [u8; HASH_BYTES] {
        match self {
            Self::Blake3 => hash_for(label, &capsule.0),
            Self::Sha256 => prefixed(&sha256(label.as_bytes()), &capsule.0),
        }
    }

    /// The hash of `data` under a key of [`Self::key`].
    fn hash(self, key: &[u8; HASH_BYTES], data: &[u8]) -> [u8; HASH_BYTES] {
        match self {
            Self::Blake3 => hash_with(key, data),
            Self::Sha256 => prefixed(key, data),
        }
    }

    /// The name of the capsule with this metadata, as it is encoded.
    #[must_use]
    pub fn capsule_name(self, metadata: &[u8]) -> CapsuleName {
        CapsuleName(match self {
            Self::Blake3 => hash_for(CAPSULE, metadata),
            Self::Sha256 => prefixed(&sha256(CAPSULE.as_bytes()), metadata),
        })
    }
}

const CAPSULE: &str = "selfsame/1 capsule";
const HEADER: &str = "selfsame/1 capsule header";
const BODY: &str = "selfsame/1 capsule body";
const LEAF: &str = "selfsame/1 capsule leaf";
const NODE: &str = "selfsame/1 capsule node";
const ROOT: &str = "selfsame/1 capsule root";

/// SHA-256 of a prefix of one block's half and `data`.
fn prefixed(prefix: &[u8; HASH_BYTES], data: &[u8]) -> [u8; HASH_BYTES] {
    if data.len() <= SHORT_BYTES {
        let mut joined = [0; HASH_BYTES + SHORT_BYTES];
        joined[..HASH_BYTES].copy_from_slice(prefix);
        joined[HASH_BYTES..HASH_BYTES + data.len()].copy_from_slice(data);
        return sha256(&joined[..HASH_BYTES + data.len()]);
    }
    let mut joined = Vec::with_capacity(HASH_BYTES + data.len());
    joined.extend_from_slice(prefix);
    joined.extend_from_slice(data);
    sha256(&joined)
}

/// What a record's name is the hash of: first the fields, and under their hash the backpointers
#[derive(Clone, Copy, Debug)]
pub struct HashedHeader<'a> {
    /// The fields, as they are encoded.
    pub fields: &'a [u8],
    /// The names to which it points, one after the other.
    pub backpointers: &'a [u8],
}

/// The hashes of one capsule
#[derive(Clone)]
pub struct Hasher {
    kind: HashKind,
    header: [u8; HASH_BYTES],
    body: [u8; HASH_BYTES],
    leaf: [u8; HASH_BYTES],
    node: [u8; HASH_BYTES],
    root: [u8; HASH_BYTES],
}

impl Hasher {
    /// The hashes of the capsule with this name.
    #[must_use]
    pub fn new(kind: HashKind, capsule: &CapsuleName) -> Self {
        Self {
            kind,
            header: kind.key(HEADER, capsule),
            body: kind.key(BODY, capsule),
            leaf: kind.key(LEAF, capsule),
            node: kind.key(NODE, capsule),
            root: kind.key(ROOT, capsule),
        }
    }

    /// The name of the record with this header.
    #[must_use]
    pub fn record_name(&self, header: HashedHeader<'_>) -> RecordName {
        self.record_name_of(&self.fields(header.fields), header.backpointers)
    }

    /// The hash of a header's fields, with which [`Self::record_name_of`] goes on.
    #[must_use]
    pub fn fields(&self, fields: &[u8]) -> [u8; HASH_BYTES] {
        self.kind.hash(&self.header, fields)
    }

    /// The name of the record with a header whose fields have this hash, and with these backpointers.
    #[must_use]
    pub fn record_name_of(&self, fields: &[u8; HASH_BYTES], backpointers: &[u8]) -> RecordName {
        RecordName(self.kind.hash(fields, backpointers))
    }

    /// The hash of a record's body, to which its header points.
    #[must_use]
    pub fn body(&self, body: &[u8]) -> [u8; HASH_BYTES] {
        self.kind.hash(&self.body, body)
    }

    /// The hash of a sub-record, a leaf of its record's tree.
    #[must_use]
    pub fn leaf(&self, subrecord: &[u8]) -> [u8; HASH_BYTES] {
        self.kind.hash(&self.leaf, subrecord)
    }

    /// The hash of an inner node of a tree, of its children's hashes one after the other.
    #[must_use]
    pub fn node(&self, children: &[u8]) -> [u8; HASH_BYTES] {
        self.kind.hash(&self.node, children)
    }

    /// The hash of a tree: of how many leaves it has, what belongs to all of them, and its topmost node.
    #[must_use]
    pub fn root(&self, whole: &[u8]) -> [u8; HASH_BYTES] {
        self.kind.hash(&self.root, whole)
    }
}

impl core::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Hasher({:?})", self.kind)
    }
}

macro_rules! show_as_hex {
    ($($name:ident),*) => {$(
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "("))?;
                self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(")")
            }
        }
    )*};
}

show_as_hex!(CapsuleName, RecordName);

#[cfg(test)]
mod tests {
    use super::*;

    const CAPSULE: CapsuleName = CapsuleName([7; HASH_BYTES]);
    const FIELDS: [u8; 51] = [3; 51];

    fn header(backpointers: &[u8]) -> HashedHeader<'_> {
        HashedHeader {
            fields: &FIELDS,
            backpointers,
        }
    }

    #[test]
    fn names_are_those_of_the_specification() {
        for count in [0, 1, 2, 32] {
            let backpointers = alloc::vec![9; count * HASH_BYTES];
            let key = hash_for(HEADER, &CAPSULE.0);
            let expected = hash_with(&hash_with(&key, &FIELDS), &backpointers);
            let hasher = Hasher::new(HashKind::Blake3, &CAPSULE);
            assert_eq!(hasher.record_name(header(&backpointers)).0, expected, "{count}");

            let key = sha256(&[&sha256(HEADER.as_bytes()), &CAPSULE.0[..]].concat());
            let fields = sha256(&[&key, &FIELDS[..]].concat());
            let expected = sha256(&[&fields, &backpointers[..]].concat());
            let hasher = Hasher::new(HashKind::Sha256, &CAPSULE);
            assert_eq!(hasher.record_name(header(&backpointers)).0, expected, "{count}");
        }
    }
}
