//! What is signed, as it travels: a statement and its signature.

use alloc::vec::Vec;

use selfsame_codec::Malformed;
use selfsame_codec::cbor::{Decoder, Encoder};

use crate::identity::Signature;

/// How far the clock of an honest node may run ahead of ours.
pub const CLOCK_SKEW_MS: u64 = 60_000;

/// Wraps a statement and its signature: `[bytes, bytes .size 64]`.
pub(crate) fn signed(statement: &[u8], signature: &Signature) -> Vec<u8> {
    let mut out = Vec::with_capacity(statement.len() + 72);
    Encoder::new(&mut out)
        .array(2)
        .bytes(statement)
        .bytes(&signature.0);
    out
}

/// A statement that was taken apart as far as its items, and its signature
pub(crate) struct Opened<'a> {
    pub(crate) statement: &'a [u8],
    pub(crate) signature: Signature,
    /// Behind the version.
    pub(crate) items: Decoder<'a>,
}

/// Opens what is signed, with its signature of at most `max` bytes, with so many items and this version.
pub(crate) fn open(bytes: &[u8], max: usize, items: usize, version: u64) -> Result<Opened<'_>, Malformed> {
    if bytes.len() > max {
        return Err(Malformed);
    }
    let (statement, signature) = unsigned(bytes, max)?;
    let mut decoder = Decoder::new(statement);
    decoder.array_of(items)?;
    if decoder.uint()? != version {
        return Err(Malformed);
    }
    Ok(Opened {
        statement,
        signature,
        items: decoder,
    })
}

/// Takes a signed statement of at most `max` bytes apart.
pub(crate) fn unsigned(bytes: &[u8], max: usize) -> Result<(&[u8], Signature), Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let statement = decoder.bytes(max)?;
    let signature = Signature(decoder.fixed()?);
    decoder.finish()?;
    Ok((statement, signature))
}
