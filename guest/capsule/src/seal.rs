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
use core::ops::{Deref, Range};

use selfsame_codec::Code;
use selfsame_multibuffer::{Message, apply, is_many, keyed_wide, keyed_wide_each, tags};
use selfsame_sodium::aead::{self, NONCE_BYTES, TAG_BYTES};
use selfsame_sodium::hash::{keyed, keyed_wide as keyed_wide_one};
use selfsame_sodium::memory;
use zeroize::{Zeroize as _, Zeroizing};

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
        let wide = Zeroizing::new(keyed_wide_one(&epoch.0, &derivation(place, salt)));
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
        if !is_many(parts.len(), parts.iter().map(|part| part.len()).sum()) {
            for (index, part) in (0..).zip(parts) {
                seal_with(&self.part(index), part, out);
            }
            return;
        }
        let start = out.len();
        let places: Vec<[u8; 4]> = (0..parts.len() as u32).map(u32::to_le_bytes).collect();
        let places: Vec<&[u8]> = places.iter().map(<[u8; 4]>::as_slice).collect();
        let keys = Keys(keyed_wide(&self.key, &places));
        for part in parts {
            out.extend_from_slice(part);
            out.extend_from_slice(&[0; TAG_BYTES]);
        }
        let lens = parts.iter().map(|part| part.len());
        seal_in_place(&keys, 0, lens, &mut out[start..]);
    }

    fn part(&self, index: u32) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(keyed(&self.key, &index.to_le_bytes()))
    }
}

/// A record that is about to be written: where it is, a random salt that is used once, and what it is to hold
pub type Unsealed<'a> = (Place, [u8; SALT_BYTES], &'a [u8]);

/// Appends the sealed bodies of records, one after the other, each [`SEAL_BYTES`] longer than what it holds.
pub fn seal_each(epoch: &EpochKey, records: &[Unsealed<'_>], out: &mut Vec<u8>) {
    let bytes = records.iter().map(|(.., content)| content.len()).sum();
    out.reserve(bytes + records.len() * SEAL_BYTES);
    if is_many(records.len(), bytes) {
        together(records, bytes).for_each(|records| seal_some(epoch, records, out));
    } else {
        for (place, salt, content) in records {
            RecordKey::new(epoch, place, salt).seal(content, out);
        }
    }
}

/// About how many bytes are sealed or opened at once: so few that what one step leaves is still near when the next one needs it.
const TOGETHER: usize = 256 << 10;

/// Parts of about the same length, of records that have so many bytes.
fn together<T>(records: &[T], bytes: usize) -> impl Iterator<Item = &[T]> {
    let parts = bytes.div_ceil(TOGETHER).max(1);
    records.chunks(records.len().div_ceil(parts).max(1))
}

fn seal_some(epoch: &EpochKey, records: &[Unsealed<'_>], out: &mut Vec<u8>) {
    let inputs: Vec<_> = records
        .iter()
        .map(|(place, salt, _)| derivation(place, salt))
        .collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(<[u8; 62]>::as_slice).collect();
    let keys = Keys(keyed_wide(&epoch.0, &inputs));
    let start = out.len();
    for ((_, salt, content), wide) in records.iter().zip(keys.iter()) {
        out.extend_from_slice(salt);
        out.extend_from_slice(&wide[KEY_BYTES..]);
        out.extend_from_slice(content);
        out.extend_from_slice(&[0; TAG_BYTES]);
    }
    let lens = records.iter().map(|(.., content)| content.len());
    seal_in_place(&keys, PREAMBLE_BYTES, lens, &mut out[start..]);
}

/// Seals texts that lie one after the other, each behind so many bytes and before those of its tag.
fn seal_in_place(
    keys: &Keys<64>,
    behind: usize,
    lens: impl ExactSizeIterator<Item = usize>,
    mut rest: &mut [u8],
) {
    let (mut texts, mut tags) = (Vec::with_capacity(lens.len()), Vec::with_capacity(lens.len()));
    for len in lens {
        let (text, others) = rest[behind..].split_at_mut(len);
        let (tag, others) = others.split_at_mut(TAG_BYTES);
        texts.push(text);
        tags.push(tag);
        rest = others;
    }
    let tag_keys = apply_each(keys, texts.iter_mut().map(|text| &mut **text));
    let ciphers = texts.iter().map(|text| &**text);
    for (tag, made) in tags.into_iter().zip(tags_of(&tag_keys, ciphers)) {
        tag.copy_from_slice(&made);
    }
}

/// Appends what sealed bodies of an epoch hold, given where each record is and its body. Where in `out` each stands, or
/// [`Code::BadSeal`].
pub fn open_each(
    epoch: &EpochKey,
    records: &[(Place, &[u8])],
    out: &mut Vec<u8>,
) -> Vec<Result<Range<usize>>> {
    let bytes = records.iter().map(|(_, body)| body.len()).sum();
    out.reserve(bytes);
    if !is_many(records.len(), bytes) {
        return records
            .iter()
            .map(|record| open_one(epoch, record, out))
            .collect();
    }
    let mut opened = Vec::with_capacity(records.len());
    together(records, bytes).for_each(|records| open_some(epoch, records, out, &mut opened));
    opened
}

fn open_some(
    epoch: &EpochKey,
    records: &[(Place, &[u8])],
    out: &mut Vec<u8>,
    opened: &mut Vec<Result<Range<usize>>>,
) {
    let parts: Vec<Result<Parts<'_>>> = records.iter().map(|(_, body)| parts_of(body)).collect();
    let input = |((place, _), parts): (&(Place, &[u8]), &Result<Parts<'_>>)| {
        let salt = parts.map_or([0; SALT_BYTES], |parts| parts.salt);
        derivation(place, &salt)
    };
    let inputs: Vec<_> = records.iter().zip(&parts).map(input).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(<[u8; 62]>::as_slice).collect();
    let keys = Keys(keyed_wide(&epoch.0, &inputs));
    let ciphers = parts
        .iter()
        .map(|parts| parts.map_or(&[][..], |parts| parts.cipher));
    let tags = open_in(out, &keys, ciphers.clone());
    let is_whole = |place: usize| {
        let parts = parts[place]?;
        if !memory::equal(&keys[place][KEY_BYTES..], parts.commitment) {
            return Err(Refusal::new(Code::BadSeal, SALT_BYTES));
        }
        if !memory::equal(&tags[place], parts.tag) {
            return Err(Refusal::new(Code::BadSeal, PREAMBLE_BYTES));
        }
        Ok(())
    };
    leave_whole(out, ciphers.map(<[u8]>::len), is_whole, opened);
}

/// Appends ciphertexts, decrypts them where they stand then, and says which tag each must have.
fn open_in<'a>(
    out: &mut Vec<u8>,
    keys: &Keys<{ 2 * KEY_BYTES }>,
    ciphers: impl Iterator<Item = &'a [u8]> + Clone,
) -> Vec<[u8; TAG_BYTES]> {
    let start = out.len();
    ciphers.clone().for_each(|cipher| out.extend_from_slice(cipher));
    let mut rest = &mut out[start..];
    let texts = ciphers.clone().map(|cipher| {
        let (text, others) = core::mem::take(&mut rest).split_at_mut(cipher.len());
        rest = others;
        text
    });
    let tag_keys = apply_each(keys, texts);
    tags_of(&tag_keys, ciphers)
}

/// Says where each of the texts stands with which `out` ends; one that is not whole was turned into something nobody is to see.
fn leave_whole(
    out: &mut [u8],
    lens: impl Iterator<Item = usize> + Clone,
    is_whole: impl Fn(usize) -> Result<()>,
    opened: &mut Vec<Result<Range<usize>>>,
) {
    let mut start = out.len() - lens.clone().sum::<usize>();
    for (place, len) in lens.enumerate() {
        let text = start..start + len;
        start = text.end;
        opened.push(match is_whole(place) {
            Ok(()) => Ok(text),
            Err(refusal) => {
                out[text].zeroize();
                Err(refusal)
            }
        });
    }
}

/// A sealed sub-record: the key of its record, its place there, and how it is stored
pub type SealedPart<'a> = (&'a RecordKey, u32, &'a [u8]);

/// Appends what sealed sub-records hold. Where in `out` each stands, or [`Code::BadSeal`].
pub fn open_parts(parts: &[SealedPart<'_>], out: &mut Vec<u8>) -> Vec<Result<Range<usize>>> {
    let bytes = parts.iter().map(|(.., sealed)| sealed.len()).sum();
    out.reserve(bytes);
    if !is_many(parts.len(), bytes) {
        return parts.iter().map(|part| open_one_part(part, out)).collect();
    }
    let mut opened = Vec::with_capacity(parts.len());
    together(parts, bytes).for_each(|parts| open_some_parts(parts, out, &mut opened));
    opened
}

fn open_some_parts(parts: &[SealedPart<'_>], out: &mut Vec<u8>, opened: &mut Vec<Result<Range<usize>>>) {
    let places: Vec<[u8; 4]> = parts.iter().map(|(_, index, _)| index.to_le_bytes()).collect();
    let keyed = parts
        .iter()
        .zip(&places)
        .map(|((key, ..), place)| (&*key.key, place.as_slice()));
    let keys = Keys(keyed_wide_each(&keyed.collect::<Vec<_>>()));
    let sealed: Vec<_> = parts
        .iter()
        .map(|(.., sealed)| sealed.split_last_chunk::<TAG_BYTES>())
        .collect();
    let ciphers = sealed
        .iter()
        .map(|sealed| sealed.map_or(&[][..], |(cipher, _)| cipher));
    let tags = open_in(out, &keys, ciphers.clone());
    let is_whole = |place: usize| match sealed[place] {
        Some((_, tag)) if memory::equal(&tags[place], tag) => Ok(()),
        Some(_) => Err(Refusal::new(Code::BadSeal, PREAMBLE_BYTES)),
        None => Err(Refusal::new(Code::BadSeal, parts[place].2.len())),
    };
    leave_whole(out, ciphers.map(<[u8]>::len), is_whole, opened);
}

fn open_one_part((key, index, sealed): &SealedPart<'_>, out: &mut Vec<u8>) -> Result<Range<usize>> {
    open_with(&key.part(*index), sealed, out)
}

const KEY_BYTES: usize = aead::KEY_BYTES;

fn open_one(epoch: &EpochKey, (place, body): &(Place, &[u8]), out: &mut Vec<u8>) -> Result<Range<usize>> {
    let (preamble, sealed) = body
        .split_first_chunk::<PREAMBLE_BYTES>()
        .ok_or_else(|| Refusal::new(Code::BadSeal, body.len()))?;
    let key = RecordKey::recall(epoch, place, preamble)?;
    open_with(&key.key, sealed, out)
}

/// The parts of a sealed body
#[derive(Clone, Copy)]
struct Parts<'a> {
    salt: [u8; SALT_BYTES],
    commitment: &'a [u8],
    cipher: &'a [u8],
    tag: &'a [u8; TAG_BYTES],
}

fn parts_of(body: &[u8]) -> Result<Parts<'_>> {
    let (preamble, sealed) = body
        .split_first_chunk::<PREAMBLE_BYTES>()
        .ok_or_else(|| Refusal::new(Code::BadSeal, body.len()))?;
    let (cipher, tag) = sealed
        .split_last_chunk::<TAG_BYTES>()
        .ok_or_else(|| Refusal::new(Code::BadSeal, sealed.len()))?;
    let mut salt = [0; SALT_BYTES];
    salt.copy_from_slice(&preamble[..SALT_BYTES]);
    Ok(Parts {
        salt,
        commitment: &preamble[SALT_BYTES..],
        cipher,
        tag,
    })
}

/// Keys that are wiped, all at once, when they are dropped
struct Keys<const N: usize>(Vec<[u8; N]>);

impl<const N: usize> Deref for Keys<N> {
    type Target = [[u8; N]];

    fn deref(&self) -> &[[u8; N]] {
        &self.0
    }
}

impl<const N: usize> Drop for Keys<N> {
    fn drop(&mut self) {
        memory::wipe(self.0.as_flattened_mut());
    }
}

/// Encrypts or decrypts each text with the first half of its key, and gives the keys of their tags.
fn apply_each<'a>(
    keys: &[[u8; 2 * KEY_BYTES]],
    texts: impl Iterator<Item = &'a mut [u8]>,
) -> Keys<KEY_BYTES> {
    let mut tags = Keys(alloc::vec![[0; KEY_BYTES]; keys.len()]);
    let each = keys.iter().zip(texts).zip(tags.0.iter_mut());
    let message = |((key, bytes), authenticator)| Message {
        key: first_half(key),
        bytes,
        authenticator,
    };
    let mut messages: Vec<Message<'_>> = each.map(message).collect();
    apply(&mut messages);
    drop(messages);
    tags
}

fn first_half(wide: &[u8; 2 * KEY_BYTES]) -> &[u8; KEY_BYTES] {
    let (halves, _) = wide.as_chunks();
    &halves[0]
}

/// The tag of each ciphertext under its key.
fn tags_of<'a>(keys: &[[u8; KEY_BYTES]], ciphers: impl Iterator<Item = &'a [u8]>) -> Vec<[u8; TAG_BYTES]> {
    let sealed: Vec<_> = keys.iter().zip(ciphers).collect();
    tags(&sealed).unwrap_or_else(|| {
        let mut padded = Vec::new();
        let tag = |(key, cipher): &(&[u8; KEY_BYTES], &[u8])| tag_of(key, cipher, &mut padded);
        sealed.iter().map(tag).collect()
    })
}

/// The tag of a ciphertext without associated data (RFC 8439, section 2.8).
fn tag_of(key: &[u8; KEY_BYTES], cipher: &[u8], padded: &mut Vec<u8>) -> [u8; TAG_BYTES] {
    padded.clear();
    padded.extend_from_slice(cipher);
    padded.resize(cipher.len().next_multiple_of(TAG_BYTES), 0);
    padded.extend_from_slice(&0_u64.to_le_bytes());
    padded.extend_from_slice(&(cipher.len() as u64).to_le_bytes());
    aead::authenticate(key, padded)
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
