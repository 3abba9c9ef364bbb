//! Bodies that only readers open: a key for each record, to which its ciphertext is committed.
//!
//! ```text
//! sealed body = salt 16 | commitment 32 | ciphertext | tag 16
//! (record key 32, commitment 32) = BLAKE3(epoch key, salt | capsule 32 | epoch u32 | writer u16 | sequence u64), 64 bytes of it
//! key of sub-record i = BLAKE3(record key, i u32)
//! ```
//!
//! ChaCha20-Poly1305 with a nonce of zeros, since a key seals once. The salt is random: a writer that lost its state and
//! uses a sequence again still seals with another key. The commitment keeps a ciphertext from opening under two keys,
//! which ChaCha20-Poly1305 alone allows.

use alloc::vec::Vec;
use core::ops::Range;

use selfsame_codec::Code;
use selfsame_sodium::aead::{self, NONCE_BYTES, TAG_BYTES};
use selfsame_sodium::hash::{keyed, keyed_wide};
use selfsame_sodium::memory;
use zeroize::Zeroizing;

use crate::hash::CapsuleName;
use crate::refusal::{Refusal, Result};

/// Length of a salt.
pub const SALT_BYTES: usize = 16;
/// Length of a commitment.
const COMMITMENT_BYTES: usize = 32;
/// What stands before a record's ciphertexts.
pub const PREAMBLE_BYTES: usize = SALT_BYTES + COMMITMENT_BYTES;
/// How much longer a sealed body is.
pub const SEAL_BYTES: usize = PREAMBLE_BYTES + TAG_BYTES;

const NONCE: [u8; NONCE_BYTES] = [0; NONCE_BYTES];

/// The key of an epoch, from which those of its records come; wiped when dropped
#[derive(Clone)]
pub struct EpochKey(Zeroizing<[u8; 32]>);

impl EpochKey {
    /// Takes the bytes of a key.
    #[must_use]
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// The bytes, to be sealed for a reader.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl core::fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("EpochKey(..)")
    }
}

/// Which record is sealed
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The capsule.
    pub capsule: CapsuleName,
    /// The epoch whose key is used.
    pub epoch: u32,
    /// The writer's number.
    pub writer: u16,
    /// The writer's sequence number.
    pub sequence: u64,
}

/// The key of one record, with what stands before its ciphertexts
pub struct RecordKey {
    key: Zeroizing<[u8; 32]>,
    preamble: [u8; PREAMBLE_BYTES],
}

impl core::fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RecordKey(..)")
    }
}

impl RecordKey {
    /// The key of a record that is about to be written; `salt` is random and used once.
    #[must_use]
    pub fn new(epoch: &EpochKey, place: &Place, salt: &[u8; SALT_BYTES]) -> Self {
        let wide = Zeroizing::new(keyed_wide(&epoch.0, &derivation(place, salt)));
        let mut key = Zeroizing::new([0; 32]);
        let mut preamble = [0; PREAMBLE_BYTES];
        key.copy_from_slice(&wide[..32]);
        preamble[..SALT_BYTES].copy_from_slice(salt);
        preamble[SALT_BYTES..].copy_from_slice(&wide[32..]);
        Self { key, preamble }
    }

    /// The key of a record that begins with this preamble.
    ///
    /// # Errors
    /// [`Code::BadSeal`] when it was sealed with another epoch's key or at another place.
    pub fn recall(epoch: &EpochKey, place: &Place, preamble: &[u8; PREAMBLE_BYTES]) -> Result<Self> {
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&preamble[..SALT_BYTES]);
        let key = Self::new(epoch, place, &salt);
        if memory::equal(&key.preamble, preamble) {
            Ok(key)
        } else {
            Err(Refusal::new(Code::BadSeal, SALT_BYTES))
        }
    }

    /// What stands before the record's ciphertexts.
    #[must_use]
    pub fn preamble(&self) -> &[u8; PREAMBLE_BYTES] {
        &self.preamble
    }

    /// Appends the sealed body.
    fn seal(&self, plain: &[u8], out: &mut Vec<u8>) {
        out.reserve(SEAL_BYTES + plain.len());
        out.extend_from_slice(&self.preamble);
        seal_with(&self.key, plain, out);
    }

    /// Appends the sealed sub-records of the record, one after the other, each [`TAG_BYTES`] longer than it was.
    pub fn seal_parts(&self, parts: &[&[u8]], out: &mut Vec<u8>) {
        for (index, part) in (0..).zip(parts) {
            seal_with(&self.part(index), part, out);
        }
    }

    fn part(&self, index: u32) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(keyed(&self.key, &index.to_le_bytes()))
    }
}

/// A record that is about to be written: where it is, a random salt that is used once, and what it is to hold
pub type Unsealed<'a> = (Place, [u8; SALT_BYTES], &'a [u8]);

/// Appends the sealed bodies of records, one after the other, each [`SEAL_BYTES`] longer than what it holds.
pub fn seal_each(epoch: &EpochKey, records: &[Unsealed<'_>], out: &mut Vec<u8>) {
    out.reserve(
        records
            .iter()
            .map(|(.., content)| content.len() + SEAL_BYTES)
            .sum(),
    );
    for (place, salt, content) in records {
        RecordKey::new(epoch, place, salt).seal(content, out);
    }
}

/// Appends what sealed bodies of an epoch hold, given where each record is and its body. Where in `out` each stands, or
/// [`Code::BadSeal`].
pub fn open_each(
    epoch: &EpochKey,
    records: &[(Place, &[u8])],
    out: &mut Vec<u8>,
) -> Vec<Result<Range<usize>>> {
    out.reserve(records.iter().map(|(_, body)| body.len()).sum());
    let open = |record| open_one(epoch, record, out);
    records.iter().map(open).collect()
}

/// A sealed sub-record: the key of its record, its place there, and how it is stored
pub type SealedPart<'a> = (&'a RecordKey, u32, &'a [u8]);

/// Appends what sealed sub-records hold. Where in `out` each stands, or [`Code::BadSeal`].
pub fn open_parts(parts: &[SealedPart<'_>], out: &mut Vec<u8>) -> Vec<Result<Range<usize>>> {
    out.reserve(parts.iter().map(|(.., sealed)| sealed.len()).sum());
    parts.iter().map(|part| open_one_part(part, out)).collect()
}

fn open_one_part((key, index, sealed): &SealedPart<'_>, out: &mut Vec<u8>) -> Result<Range<usize>> {
    open_with(&key.part(*index), sealed, out)
}

fn open_one(epoch: &EpochKey, (place, body): &(Place, &[u8]), out: &mut Vec<u8>) -> Result<Range<usize>> {
    let (preamble, sealed) = body
        .split_first_chunk::<PREAMBLE_BYTES>()
        .ok_or_else(|| Refusal::new(Code::BadSeal, body.len()))?;
    let key = RecordKey::recall(epoch, place, preamble)?;
    open_with(&key.key, sealed, out)
}

fn derivation(place: &Place, salt: &[u8; SALT_BYTES]) -> [u8; 62] {
    let mut input = [0; 62];
    input[..16].copy_from_slice(salt);
    input[16..48].copy_from_slice(&place.capsule.0);
    input[48..52].copy_from_slice(&place.epoch.to_le_bytes());
    input[52..54].copy_from_slice(&place.writer.to_le_bytes());
    input[54..].copy_from_slice(&place.sequence.to_le_bytes());
    input
}

fn seal_with(key: &[u8; 32], plain: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(plain);
    let tag = aead::seal_in_place(&aead::Key::new(*key), &NONCE, &[], &mut out[start..]);
    out.extend_from_slice(&tag);
}

fn open_with(key: &[u8; 32], sealed: &[u8], out: &mut Vec<u8>) -> Result<Range<usize>> {
    let Some((cipher, tag)) = sealed.split_last_chunk::<TAG_BYTES>() else {
        return Err(Refusal::new(Code::BadSeal, sealed.len()));
    };
    let start = out.len();
    out.extend_from_slice(cipher);
    let opened = aead::open_in_place(&aead::Key::new(*key), &NONCE, &[], &mut out[start..], tag);
    match opened {
        Ok(()) => Ok(start..out.len()),
        Err(_) => {
            out.truncate(start);
            Err(Refusal::new(Code::BadSeal, PREAMBLE_BYTES))
        }
    }
}
