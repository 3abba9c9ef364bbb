//! A server's word that what it names is stored so that it survives a power loss (DCS, section 3.2).
//!
//! What became durable together is acknowledged together: the server signs the root of a binary Merkle tree whose leaves are hashes
//! of what each request stored, and gives each request the way from its leaf to the root. So one that many write to signs once for
//! each wait for the disk.
//!
//! ```text
//! acknowledgement = time ms u64 | server key 32 | signature 64 | sides u8 | n u8 | hash 32, n times
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_sodium::hash::{hash_for, hash_with};

use crate::hash::{CapsuleName, HASH_BYTES, RecordName};
use crate::keys::{Key, KeyPair, Signature};
use crate::message::{CREATE, SIGN, WRITE};
use crate::verifier::Verifier;

const SIGNED: &str = "selfsame/1 capsule acknowledgement";
const STORED: &str = "selfsame/1 capsule stored";

/// Levels of the largest tree: with more leaves a signature for each takes next to nothing already, and ways are longer.
const MAX_LEVELS: usize = 8;
/// Most requests that one signature acknowledges.
const MAX_TOGETHER: usize = 1 << MAX_LEVELS;

/// A hash of the tree
type Hash = [u8; HASH_BYTES];

/// What an acknowledgement is about: records and signatures in the order in which one request stored them
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    names: Vec<u8>,
}

impl Stored {
    /// Nothing yet, with room for so many.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self {
            names: Vec::with_capacity(count * (1 + HASH_BYTES)),
        }
    }

    /// Adds the capsule itself.
    pub fn capsule(&mut self) {
        self.names.push(CREATE);
    }

    /// Adds a record.
    pub fn record(&mut self, name: &RecordName) {
        self.add(WRITE, name);
    }

    /// Adds a record's signature.
    pub fn signature(&mut self, name: &RecordName) {
        self.add(SIGN, name);
    }

    fn add(&mut self, kind: u8, name: &RecordName) {
        let mut entry = [kind; 1 + HASH_BYTES];
        entry[1..].copy_from_slice(&name.0);
        self.names.extend_from_slice(&entry);
    }

    /// Whether there is nothing to acknowledge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The leaf of what was stored in this capsule.
    fn leaf(&self, capsule: &CapsuleName) -> Hash {
        let mut named = Vec::with_capacity(HASH_BYTES + self.names.len());
        named.extend_from_slice(&capsule.0);
        named.extend_from_slice(&self.names);
        hash_for(STORED, &named)
    }
}

/// The way from a leaf to the root: the hashes beside it, from the leaf up
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Way {
    /// Bit for bit from the lowest, whether the hash beside it stands on the left.
    sides: u8,
    hashes: Vec<Hash>,
}

impl Way {
    fn add(&mut self, is_left: bool, hash: Hash) {
        self.sides |= u8::from(is_left) << self.hashes.len();
        self.hashes.push(hash);
    }

    /// The root that it leads to.
    fn root(&self, leaf: Hash) -> Hash {
        let up = |below: Hash, (level, beside): (usize, &Hash)| match (self.sides >> level) & 1 {
            0 => hash_with(&below, beside),
            _ => hash_with(beside, &below),
        };
        self.hashes.iter().enumerate().fold(leaf, up)
    }
}

/// The root over at most [`MAX_TOGETHER`] leaves, and the way of each.
fn tree(leaves: Vec<Hash>) -> (Hash, Vec<Way>) {
    let mut ways = alloc::vec![Way::default(); leaves.len()];
    let mut level = leaves;
    let mut height = 0;
    while level.len() > 1 {
        for (number, way) in ways.iter_mut().enumerate() {
            let at = number >> height;
            if let Some(beside) = level.get(at ^ 1) {
                way.add(at & 1 == 1, *beside);
            }
        }
        // The last one rises as it is when it is alone.
        for at in 0..level.len().div_ceil(2) {
            let left = level[2 * at];
            let right = level.get(2 * at + 1);
            level[at] = right.map_or(left, |right| hash_with(&left, right));
        }
        level.truncate(level.len().div_ceil(2));
        height += 1;
    }
    (level[0], ways)
}

/// A server's word that what one request stored is durable
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// When, in milliseconds since 1970, by the server's clock.
    pub time_ms: u64,
    /// Who.
    pub server: Key,
    /// The server's signature of the root.
    pub signature: Signature,
    way: Way,
}

impl Acknowledgement {
    /// Signs for what is durable: an acknowledgement for what each request stored in a capsule.
    #[must_use]
    pub fn sign_each(server: &KeyPair, all: &[(&CapsuleName, &Stored)], time_ms: u64) -> Vec<Self> {
        let mut words = Vec::with_capacity(all.len());
        for together in all.chunks(MAX_TOGETHER) {
            let leaves = together.iter().map(|(capsule, stored)| stored.leaf(capsule));
            let (root, ways) = tree(leaves.collect());
            let server_key = server.public();
            let signature = server.sign(SIGNED, &statement(&server_key, time_ms, &root));
            for way in ways {
                words.push(Self {
                    time_ms,
                    server: server_key,
                    signature,
                    way,
                });
            }
        }
        words
    }

    /// Whether the server named has signed for exactly this.
    #[must_use]
    pub fn verify(&self, verifier: &mut Verifier, capsule: &CapsuleName, stored: &Stored) -> bool {
        let root = self.way.root(stored.leaf(capsule));
        let statement = statement(&self.server, self.time_ms, &root);
        verifier.verifies(&self.server, SIGNED, &statement, &self.signature)
    }
}

/// What a server signs.
fn statement(server: &Key, time_ms: u64, root: &Hash) -> [u8; 2 * HASH_BYTES + 8] {
    let mut statement = [0; 2 * HASH_BYTES + 8];
    statement[..HASH_BYTES].copy_from_slice(&server.0);
    statement[HASH_BYTES..HASH_BYTES + 8].copy_from_slice(&time_ms.to_le_bytes());
    statement[HASH_BYTES + 8..].copy_from_slice(root);
    statement
}

impl<'a> Field<'a> for Acknowledgement {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (time_ms, server, signature) =
            (reader.field()?, Key(reader.array()?), Signature(reader.array()?));
        let (sides, levels): (u8, u8) = (reader.field()?, reader.field()?);
        let levels = usize::from(levels);
        if levels > MAX_LEVELS || u16::from(sides) >> levels != 0 {
            return Err(Malformed);
        }
        let (hashes, _) = reader.take(levels * HASH_BYTES)?.as_chunks();
        Ok(Self {
            time_ms,
            server,
            signature,
            way: Way {
                sides,
                hashes: hashes.to_vec(),
            },
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Way { sides, hashes } = &self.way;
        out.reserve(8 + 32 + 64 + 2 + hashes.len() * HASH_BYTES);
        self.time_ms.write(out);
        out.extend_from_slice(&self.server.0);
        out.extend_from_slice(&self.signature.0);
        out.extend_from_slice(&[*sides, hashes.len() as u8]);
        out.extend_from_slice(hashes.as_flattened());
    }
}
