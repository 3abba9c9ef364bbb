//! What a capsule is: its metadata, whose hash is its name (DCS, section 2.2).
//!
//! ```cddl
//! signed-metadata = [metadata: bytes .cbor metadata, signature: bytes .size 64]
//! metadata = [version: 1, hash: 1..2, readers: 0..1, created-ms: uint, salt: bytes .size 16,
//!             owner: bytes .size 32, writers: [0*16 bytes .size 32], description: text .size (0..1024)]
//! ```
//!
//! The signature is the owner's over the name, under the label `selfsame/1 capsule metadata`.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};

use crate::hash::{CapsuleName, HashKind, Hasher};
use crate::keys::{Key, KeyPair, Signature};
use crate::refusal::{Refusal, Result};

/// Longest description in bytes.
pub const MAX_DESCRIPTION: usize = 1024;
/// Most writers that metadata names: later ones are added by epoch records.
pub const MAX_FIRST_WRITERS: usize = 16;
/// Longest signed metadata: all fields at their longest.
pub const MAX_METADATA_BYTES: usize = 2048;

const LABEL: &str = "selfsame/1 capsule metadata";
const VERSION: u64 = 1;

/// Who may read a capsule
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Readers {
    /// Whoever has its records: bodies are not encrypted.
    Everybody = 0,
    /// Whom the owner has granted the key of an epoch.
    Granted = 1,
}

/// The metadata of a capsule
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Which hash function gives names.
    pub hash: HashKind,
    /// Who may read.
    pub readers: Readers,
    /// When it was made, in milliseconds since 1970, as the owner says.
    pub created_ms: u64,
    /// Random bytes that tell it from any other capsule of this owner.
    pub salt: [u8; 16],
    /// Who adds and removes writers and readers, and may write too.
    pub owner: Key,
    /// Who else may write from the beginning.
    pub writers: Vec<Key>,
    /// What people call it.
    pub description: String,
}

/// Metadata with its name and the owner's signature, both verified
#[derive(Clone, Debug)]
pub struct Charter {
    metadata: Metadata,
    name: CapsuleName,
    hasher: Hasher,
    encoded: Vec<u8>,
}

impl Charter {
    /// Signs metadata with the owner's key, which it names.
    ///
    /// # Errors
    /// [`Code::BadMetadata`] when the key is not the owner's or a field is out of its bounds.
    pub fn sign(metadata: Metadata, owner: &KeyPair) -> Result<Self> {
        let statement = metadata.encode();
        let name = metadata.hash.capsule_name(&statement);
        let mut encoded = Vec::new();
        Encoder::new(&mut encoded)
            .array(2)
            .bytes(&statement)
            .bytes(&owner.sign(LABEL, &name.0).0);
        Self::decode(&encoded)
    }

    /// Whether bodies are sealed: only whom the owner grants a key can read them.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.metadata.readers == Readers::Granted
    }

    /// Reads signed metadata and verifies it.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::BadMetadata`] or [`Code::BadSignature`], with the offset.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        if encoded.len() > MAX_METADATA_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_METADATA_BYTES));
        }
        let mut decoder = Decoder::new(encoded);
        let parts = read_signed(&mut decoder);
        let at = encoded.len() - decoder.rest().len();
        let (statement, signature) = parts.map_err(|_| Refusal::new(Code::BadMetadata, at))?;
        // The statement ends where the head of the signature, 2 bytes, and the signature begin.
        let start = encoded.len() - (2 + signature.0.len()) - statement.len();
        let metadata = Metadata::decode(statement).map_err(|refusal| refusal.further(start))?;
        let name = metadata.hash.capsule_name(statement);
        if !metadata.owner.verifies(LABEL, &name.0, &signature) {
            return Err(Refusal::new(
                Code::BadSignature,
                encoded.len() - signature.0.len(),
            ));
        }
        Ok(Self {
            hasher: Hasher::new(metadata.hash, &name),
            metadata,
            name,
            encoded: encoded.to_vec(),
        })
    }

    /// The metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The capsule's name.
    #[must_use]
    pub fn name(&self) -> CapsuleName {
        self.name
    }

    /// The capsule's hashes.
    #[must_use]
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// The signed metadata as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl Metadata {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(8)
            .uint(VERSION)
            .uint(self.hash as u64)
            .uint(self.readers as u64)
            .uint(self.created_ms)
            .bytes(&self.salt)
            .bytes(&self.owner.0)
            .array(self.writers.len());
        for writer in &self.writers {
            encoder.bytes(&writer.0);
        }
        encoder.text(&self.description);
        out
    }

    fn decode(statement: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new(statement);
        let metadata = Self::read(&mut decoder);
        let at = statement.len() - decoder.rest().len();
        metadata.map_err(|_| Refusal::new(Code::BadMetadata, at))
    }

    fn read(decoder: &mut Decoder<'_>) -> core::result::Result<Self, Malformed> {
        decoder.array_of(8)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let metadata = Self {
            hash: HashKind::from_number(decoder.uint()?).ok_or(Malformed)?,
            readers: match decoder.uint()? {
                0 => Readers::Everybody,
                1 => Readers::Granted,
                _ => return Err(Malformed),
            },
            created_ms: decoder.uint()?,
            salt: decoder.fixed()?,
            owner: Key(decoder.fixed()?),
            writers: {
                let count = decoder.array(MAX_FIRST_WRITERS)?;
                (0..count)
                    .map(|_| decoder.fixed().map(Key))
                    .collect::<core::result::Result<_, _>>()?
            },
            description: decoder.text(MAX_DESCRIPTION)?.into(),
        };
        if decoder.rest().is_empty() && metadata.has_each_writer_once() {
            Ok(metadata)
        } else {
            Err(Malformed)
        }
    }

    /// A key has one number: the owner's is 0, the first writers' follow.
    fn has_each_writer_once(&self) -> bool {
        let is_new = |(place, key): (usize, &Key)| *key != self.owner && !self.writers[..place].contains(key);
        self.writers.iter().enumerate().all(is_new)
    }
}

fn read_signed<'a>(decoder: &mut Decoder<'a>) -> core::result::Result<(&'a [u8], Signature), Malformed> {
    decoder.array_of(2)?;
    let statement = decoder.bytes(MAX_METADATA_BYTES)?;
    let signature = Signature(decoder.fixed()?);
    if decoder.rest().is_empty() {
        Ok((statement, signature))
    } else {
        Err(Malformed)
    }
}
