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

/// Takes a signed statement of at most `max` bytes apart.
pub(crate) fn unsigned(bytes: &[u8], max: usize) -> Result<(&[u8], Signature), Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let statement = decoder.bytes(max)?;
    let signature = Signature(decoder.fixed()?);
    decoder.finish()?;
    Ok((statement, signature))
}
