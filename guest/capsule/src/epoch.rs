//! Epoch records: the owner's word on who writes and who reads from now on.
//!
//! ```cddl
//! epoch-body = [version: 1, added: [0*64 [number: uint .size 2, key: bytes .size 32]],
//!               revoked: [0*64 [number: uint .size 2, heads: [0*16 bytes .size 32]]],
//!               grants: [0*512 [reader: bytes .size 32, ciphertext: bytes .size 1120, sealed: bytes .size 48]]]
//! ```
//!
//! Its header's first backpointer is the epoch record before it, if there is one, and its epoch that one's or the next: a new
//! epoch has a new key. Every head that a revocation accepts is a backpointer too, so all that the revoked writer wrote before
//! is proven by the owner's signature, and nothing that it signs counts any more (THREATS: a revoked writer cannot backdate).

use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};
use selfsame_sodium::aead::{self, NONCE_BYTES, TAG_BYTES};
use selfsame_sodium::hash::{derive_key, hash_for};
use selfsame_sodium::xwing;
use zeroize::Zeroizing;

use crate::hash::{CapsuleName, RecordName};
use crate::keys::Key;
use crate::refusal::{Refusal, Result};
use crate::seal::EpochKey;

/// Most epoch records of a capsule: a replica reads them all when it opens it.
pub const MAX_EPOCHS: u64 = 1 << 16;
/// Most writers that one record adds or revokes.
pub const MAX_CHANGES: usize = 64;
/// Most heads of a revoked writer that one record accepts: its branches.
pub const MAX_ACCEPTED: usize = 16;
/// Most readers that one record grants the key to: more follow in further records of the same epoch.
pub const MAX_GRANTS: usize = 512;

const VERSION: u64 = 1;
const READER: &str = "selfsame/1 capsule reader";
const READER_SEED: &str = "selfsame/1 capsule reader seed";
const GRANT: &str = "selfsame/1 capsule grant";
const EPOCH_KEY: &str = "selfsame/1 capsule epoch key";

/// A writer that joins
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its number in this capsule: one that nobody had before.
    pub number: u16,
    /// Its key.
    pub key: Key,
}

/// A writer that leaves
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Its number.
    pub number: u16,
    /// Those of its records, with all that they point to, that still count; backpointers of the epoch record.
    pub heads: Vec<RecordName>,
}

/// An epoch's key, sealed for one reader
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which reader: [`ReaderKeys::id`].
    pub reader: [u8; 32],
    ciphertext: Vec<u8>,
    sealed: [u8; 32 + TAG_BYTES],
}

/// The body of an epoch record
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochChange {
    /// Writers that join.
    pub added: Vec<Added>,
    /// Writers that leave.
    pub revoked: Vec<Revoked>,
    /// Readers that get the key of this epoch.
    pub grants: Vec<Grant>,
}

/// Public key of a reader, to which an owner seals keys of epochs
pub type ReaderKey = [u8; xwing::PUBLIC_KEY_BYTES];

/// The keys of a reader; wiped when dropped
#[derive(Debug)]
pub struct ReaderKeys {
    secret: xwing::SecretKey,
    public: ReaderKey,
    id: [u8; 32],
}

impl ReaderKeys {
    /// The keys of whoever has this seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let (secret, public) = xwing::keypair(&Zeroizing::new(derive_key(READER_SEED, seed)));
        let id = reader_id(&public);
        Self { secret, public, id }
    }

    /// The public key, for the owner.
    #[must_use]
    pub fn public(&self) -> &ReaderKey {
        &self.public
    }

    /// What grants name the reader by.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// The key that a grant holds.
    ///
    /// # Errors
    /// [`Code::BadSeal`] when it is another reader's, or of another capsule or epoch.
    pub fn open(&self, capsule: &CapsuleName, epoch: u32, grant: &Grant) -> Result<EpochKey> {
        let refused = Refusal::new(Code::BadSeal, 0);
        let ciphertext = grant.ciphertext.as_slice().try_into().map_err(|_| refused)?;
        let shared = xwing::decapsulate(&self.secret, ciphertext).map_err(|_| refused)?;
        let key = grant_key(shared.as_bytes(), capsule, epoch, &self.id);
        let (cipher, tag) = grant.sealed.split_last_chunk::<TAG_BYTES>().ok_or(refused)?;
        let mut opened = Zeroizing::new([0; 32]);
        opened.copy_from_slice(cipher);
        aead::open_in_place(
            &aead::Key::new(*key),
            &[0; NONCE_BYTES],
            &[],
            &mut opened[..],
            tag,
        )
        .map_err(|_| refused)?;
        Ok(EpochKey::new(opened))
    }
}

impl Grant {
    /// Seals an epoch's key for a reader; `seed` is random and used once.
    ///
    /// # Errors
    /// [`Code::BadReaderKey`] when the reader's key is none.
    pub fn seal(
        capsule: &CapsuleName,
        epoch: u32,
        key: &EpochKey,
        reader: &ReaderKey,
        seed: &[u8; xwing::ENCAPSULATION_SEED_BYTES],
    ) -> Result<Self> {
        let (ciphertext, shared) =
            xwing::encapsulate(reader, seed).map_err(|_| Refusal::new(Code::BadReaderKey, 0))?;
        let id = reader_id(reader);
        let sealing = grant_key(shared.as_bytes(), capsule, epoch, &id);
        let mut sealed = [0; 32 + TAG_BYTES];
        sealed[..32].copy_from_slice(key.as_bytes());
        let (plain, tag) = sealed.split_at_mut(32);
        let made = aead::seal_in_place(&aead::Key::new(*sealing), &[0; NONCE_BYTES], &[], plain);
        tag.copy_from_slice(&made);
        Ok(Self {
            reader: id,
            ciphertext: ciphertext.to_vec(),
            sealed,
        })
    }
}

/// The key of an epoch, which an owner makes again from its seed whenever it needs it.
#[must_use]
pub fn epoch_key(owner_seed: &[u8; 32], capsule: &CapsuleName, epoch: u32) -> EpochKey {
    let mut material = Zeroizing::new([0; 68]);
    material[..32].copy_from_slice(owner_seed);
    material[32..64].copy_from_slice(&capsule.0);
    material[64..].copy_from_slice(&epoch.to_le_bytes());
    EpochKey::new(Zeroizing::new(derive_key(EPOCH_KEY, &material[..])))
}

fn reader_id(public: &ReaderKey) -> [u8; 32] {
    hash_for(READER, public)
}

fn grant_key(shared: &[u8; 32], capsule: &CapsuleName, epoch: u32, reader: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut material = Zeroizing::new([0; 100]);
    material[..32].copy_from_slice(shared);
    material[32..64].copy_from_slice(&capsule.0);
    material[64..68].copy_from_slice(&epoch.to_le_bytes());
    material[68..].copy_from_slice(reader);
    Zeroizing::new(derive_key(GRANT, &material[..]))
}

impl EpochChange {
    /// Whether a writer leaves.
    #[must_use]
    pub fn revokes(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// The body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.array(4).uint(VERSION).array(self.added.len());
        for added in &self.added {
            encoder.array(2).uint(u64::from(added.number)).bytes(&added.key.0);
        }
        encoder.array(self.revoked.len());
        for revoked in &self.revoked {
            encoder
                .array(2)
                .uint(u64::from(revoked.number))
                .array(revoked.heads.len());
            for head in &revoked.heads {
                encoder.bytes(&head.0);
            }
        }
        encoder.array(self.grants.len());
        for grant in &self.grants {
            encoder
                .array(3)
                .bytes(&grant.reader)
                .bytes(&grant.ciphertext)
                .bytes(&grant.sealed);
        }
        out
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`Code::BadEpoch`] with the offset.
    pub fn decode(body: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new(body);
        let change = Self::read(&mut decoder);
        let at = body.len() - decoder.rest().len();
        change.map_err(|_| Refusal::new(Code::BadEpoch, at))
    }

    fn read(decoder: &mut Decoder<'_>) -> core::result::Result<Self, Malformed> {
        decoder.array_of(4)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let change = Self {
            added: several(decoder, MAX_CHANGES, |decoder| {
                decoder.array_of(2)?;
                Ok(Added {
                    number: number(decoder)?,
                    key: Key(decoder.fixed()?),
                })
            })?,
            revoked: several(decoder, MAX_CHANGES, |decoder| {
                decoder.array_of(2)?;
                Ok(Revoked {
                    number: number(decoder)?,
                    heads: several(decoder, MAX_ACCEPTED, |decoder| decoder.fixed().map(RecordName))?,
                })
            })?,
            grants: several(decoder, MAX_GRANTS, |decoder| {
                decoder.array_of(3)?;
                Ok(Grant {
                    reader: decoder.fixed()?,
                    ciphertext: decoder.fixed::<{ xwing::CIPHERTEXT_BYTES }>()?.to_vec(),
                    sealed: decoder.fixed()?,
                })
            })?,
        };
        if decoder.rest().is_empty() {
            Ok(change)
        } else {
            Err(Malformed)
        }
    }
}

fn number(decoder: &mut Decoder<'_>) -> core::result::Result<u16, Malformed> {
    decoder
        .uint_max(u64::from(u16::MAX))
        .and_then(|number| u16::try_from(number).map_err(|_| Malformed))
}

fn several<T>(
    decoder: &mut Decoder<'_>,
    most: usize,
    mut read: impl FnMut(&mut Decoder<'_>) -> core::result::Result<T, Malformed>,
) -> core::result::Result<Vec<T>, Malformed> {
    let count = decoder.array(most)?;
    (0..count).map(|_| read(decoder)).collect()
}
