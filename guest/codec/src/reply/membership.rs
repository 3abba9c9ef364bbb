use alloc::vec::Vec;

use super::decode_list;
use crate::cbor::{Decoder, Encoder};
use crate::field::Malformed;

/// A node's membership of a closed network
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Public key of the network's authority.
    pub authority: [u8; 32],
    /// When the node's certificate counts.
    pub certificate: Validity,
    /// Serial of the newest list of revocations, 0 without one.
    pub serial: u64,
    /// Keys in that list.
    pub revoked: u64,
    /// When the certificates of its neighbours count, by their ids.
    pub neighbours: Vec<([u8; 32], Validity)>,
}

/// The time in which a certificate counts, in milliseconds since 1970
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From when on.
    pub since_ms: u64,
    /// Until when.
    pub until_ms: u64,
}

impl Membership {
    pub(super) fn encode_into(&self, encoder: &mut Encoder<'_>) {
        encoder
            .array(6)
            .bytes(&self.authority)
            .uint(self.certificate.since_ms)
            .uint(self.certificate.until_ms)
            .uint(self.serial)
            .uint(self.revoked)
            .array(self.neighbours.len());
        for (id, validity) in &self.neighbours {
            encoder
                .array(3)
                .bytes(id)
                .uint(validity.since_ms)
                .uint(validity.until_ms);
        }
    }

    pub(super) fn decode_from(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        decoder.array_of(6)?;
        Ok(Self {
            authority: decoder.fixed()?,
            certificate: Validity::decode_from(decoder)?,
            serial: decoder.uint()?,
            revoked: decoder.uint()?,
            neighbours: decode_list(decoder, |decoder| {
                decoder.array_of(3)?;
                Ok((decoder.fixed()?, Validity::decode_from(decoder)?))
            })?,
        })
    }
}

impl Validity {
    fn decode_from(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            since_ms: decoder.uint()?,
            until_ms: decoder.uint()?,
        })
    }
}
