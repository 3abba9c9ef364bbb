//! What members tell each other of groups and of who is convicted, as it travels; [`Request`](super::super::message::Request)
//! and the [messages](super::super::message) of the ring hold it.

#![cfg_attr(
    not(feature = "simulation"),
    allow(
        unreachable_pub,
        reason = "only a simulator speaks to a ring in its own messages"
    )
)]

use alloc::vec::Vec;

use selfsame_codec::Malformed;
use selfsame_codec::cbor::{Decoder, Encoder};

use super::super::message::{Refusal, read_response, response};
use super::contradiction::MAX_CONTRADICTION_BYTES;
use super::lease::MAX_LEASE_BYTES;
use crate::gather::read_list;
use crate::identity::{PeerId, PublicKey};
use crate::record::MAX_RECORD_BYTES;

/// Most leases that one message tells of by their digests: two of each group that one peer is in.
pub(crate) const MAX_TOLD: usize = 32;
/// Most leases given because they differ from those told of: one is enough to convict.
pub(crate) const MAX_DIFFERING: usize = 4;
/// Most contradictions in one message: together as much as a message of entries.
pub(crate) const MAX_GIVEN: usize = 16;
/// Most peers that are convicted at a time: as many as a list of revocations names, which takes their place.
pub(crate) const MAX_CONVICTIONS: usize = 256;

/// A lease that the sender holds
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldLease {
    /// Whose.
    pub leader: PeerId,
    /// For which epoch.
    pub epoch: u64,
    /// Hash of its statement.
    pub digest: [u8; 32],
}

/// A conviction that the sender knows of
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldConviction {
    /// Whose.
    pub public: PublicKey,
    /// Certificates from before this time are refused.
    pub before_ms: u64,
}

/// The response to `groups`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups<'a> {
    /// Whether the one who asked is in the group of the one who answers.
    pub is_within: bool,
    /// The lease of the one who answers, unless that was told.
    pub lease: Option<&'a [u8]>,
    /// Leases of the same leaders and epochs as some that were told, and different.
    pub differing: Vec<&'a [u8]>,
    /// Records of the members of its group, if they are wanted.
    pub members: Vec<&'a [u8]>,
}

pub(crate) fn encode_told(encoder: &mut Encoder<'_>, told: &[ToldLease]) {
    encoder.array(told.len());
    for lease in told {
        encoder
            .array(3)
            .bytes(&lease.leader.0)
            .uint(lease.epoch)
            .bytes(&lease.digest);
    }
}

pub(crate) fn decode_told(decoder: &mut Decoder<'_>) -> Result<Vec<ToldLease>, Malformed> {
    read_list(decoder, MAX_TOLD, &|decoder| {
        decoder.array_of(3)?;
        Ok(ToldLease {
            leader: PeerId(decoder.fixed()?),
            epoch: decoder.uint()?,
            digest: decoder.fixed()?,
        })
    })
}

pub(crate) fn encode_convictions(encoder: &mut Encoder<'_>, known: &[ToldConviction]) {
    encoder.array(known.len());
    for one in known {
        encoder.array(2).bytes(&one.public.0).uint(one.before_ms);
    }
}

pub(crate) fn decode_convictions(decoder: &mut Decoder<'_>) -> Result<Vec<ToldConviction>, Malformed> {
    read_list(decoder, MAX_CONVICTIONS, &|decoder| {
        decoder.array_of(2)?;
        Ok(ToldConviction {
            public: PublicKey(decoder.fixed()?),
            before_ms: decoder.uint()?,
        })
    })
}

/// Writes a list of items that are byte strings.
fn encode_list(encoder: &mut Encoder<'_>, items: &[&[u8]]) {
    encoder.array(items.len());
    for item in items {
        encoder.bytes(item);
    }
}

impl<'a> Groups<'a> {
    fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.array(4).bool(self.is_within);
        match self.lease {
            Some(lease) => encoder.bytes(lease),
            None => encoder.null(),
        };
        encode_list(encoder, &self.differing);
        encode_list(encoder, &self.members);
    }

    fn read(decoder: &mut Decoder<'a>) -> Result<Self, Malformed> {
        decoder.array_of(4)?;
        Ok(Self {
            is_within: decoder.bool()?,
            lease: if decoder.null() {
                None
            } else {
                Some(decoder.bytes(MAX_LEASE_BYTES)?)
            },
            differing: read_list(decoder, MAX_DIFFERING, &|decoder| decoder.bytes(MAX_LEASE_BYTES))?,
            members: read_list(decoder, super::MAX_GROUP, &|decoder| {
                decoder.bytes(MAX_RECORD_BYTES)
            })?,
        })
    }
}

/// The response to `groups`.
pub fn encode_groups(groups: &Groups<'_>) -> Vec<u8> {
    response(|encoder| groups.write(encoder))
}

/// Reads the response to `groups`.
pub fn decode_groups(bytes: &[u8]) -> Result<Groups<'_>, Refusal<'_>> {
    read_response(bytes, Groups::read)
}

/// The response to `contradictions`.
pub fn encode_contradictions(given: &[&[u8]]) -> Vec<u8> {
    response(|encoder| encode_list(encoder, given))
}

/// Reads the response to `contradictions`.
pub(crate) fn decode_contradictions(bytes: &[u8]) -> Result<Vec<&[u8]>, Refusal<'_>> {
    read_response(bytes, |decoder| {
        read_list(decoder, MAX_GIVEN, &|decoder| {
            decoder.bytes(MAX_CONTRADICTION_BYTES)
        })
    })
}
