//! Requests and responses between members.
//!
//! ```cddl
//! request = ping / find-node / find / store / mirror / join / update / leave / attach / detach / vouch / revoked / groups
//!         / contradictions
//! ping      = [0, hint: [0*4 record]]            ; members that the receiver may not know
//! find-node = [1, target: id]
//! find      = [2, object: id, held: bool]        ; held: answer from the table, whoever is responsible
//! store     = [3, entry]
//! mirror    = [4, entries]
//! join      = [5, record]
//! update    = [6, record, wants-objects: bool, predecessors: [0*3 record]] ; of the sender, the nearest first
//! leave     = [7, record, predecessor: record / null, successors: nodes, entries]
//! attach    = [8, record]
//! detach    = [9]
//! vouch     = [10, target: id, claimed: id]      ; like find-node, but short if the answer is this member
//! revoked   = [11, serial: uint]                 ; of the newest list of revocations that the sender knows; 0: none
//! groups    = [12, told: [0*32 [leader: id, epoch: uint, digest: bytes .size 32]], wants-members: bool]
//! contradictions = [13, known: [0*256 [public-key: bytes .size 32, before-ms: uint]]] ; who is convicted
//!
//! response = [0, result] / [1, class: uint]      ; class of the error, never its cause
//!          / [2, record]                         ; the sender's record is stale: a newer one of its node
//!          / [3, now-ms: uint]                   ; the sender's record is of another time than this
//! result   = null                                ; ping, store, mirror, leave, attach, detach
//!          / [responsible: record / null, closer: nodes, successors: nodes, predecessor: record / null,
//!             entries, ? lease]                  ; find-node, find, vouch; responsible: the one who answers, if it is
//!          / [nodes]                             ; join
//!          / [record, predecessor: record / null, successors: nodes, entries] ; update; the answerer's record first
//!          / bytes .cbor revocations / null    ; revoked; null: none that is newer
//!          / [is-within: bool, lease: bytes .cbor lease / null, differing: [0*4 bytes .cbor lease], members: [0*15 record]]
//!                                              ; groups
//!          / [0*16 bytes .cbor contradiction]  ; contradictions
//!
//! id = bytes .size 32
//! record = bytes .cbor node-record
//! nodes = [0*16 record]
//! entry = [association: bytes .cbor association, publisher: record] / [grant: bytes .cbor grant, r: bytes .size 1]
//! entries = [* entry]                            ; together at most 32 KiB
//! ```

#![cfg_attr(
    not(feature = "simulation"),
    allow(
        unreachable_pub,
        reason = "only a simulator speaks to a ring in its own messages"
    )
)]

use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Class, Code, Malformed};

use super::guard::MAX_LEASE_BYTES;
use super::guard::message::{
    ToldConviction, ToldLease, decode_convictions, decode_told, encode_convictions, encode_told,
};
use crate::admission::{KNOWS_CLOSED, MAX_REVOCATIONS_BYTES};
use crate::association::{MAX_ASSOCIATION_BYTES, ObjectId};
use crate::channel::class_of;
use crate::gather::read_list;
use crate::identity::PeerId;
use crate::place::Place;
use crate::record::MAX_RECORD_BYTES;

/// Most records in one list: a whole successor list.
pub(crate) const MAX_NODES: usize = 16;
/// Most members told in one ping: each costs the receiver a signature to verify, and members tell one at a time.
const MAX_HINT: usize = 4;
/// Most members that one names before itself: those whose mirror its successor is, beside it.
const MAX_PREDECESSORS: usize = 3;
/// Bytes of entries in one message: what a stream carries without filling its window, and two of them stay below the
/// 60 KiB that every store takes as one value.
pub(crate) const MAX_ENTRIES_BYTES: usize = 32 * 1024;
/// Bytes of records in one list; ordinary lists of 16 have 4 KiB, only records of the largest size meet this.
const MAX_NODES_BYTES: usize = 12 * 1024;
/// Smallest encoding of an entry, a grant's, which bounds how many can be in a message.
const MIN_ENTRY_BYTES: usize = 192;
/// Longest request or response: more is refused before it is read.
pub const MAX_MESSAGE_BYTES: usize =
    MAX_ENTRIES_BYTES + MAX_ASSOCIATION_BYTES + 2 * (MAX_NODES_BYTES + MAX_RECORD_BYTES) + 1024;

/// An association and its publisher's record, or an owner's grant and the number of a sibling object, as they travel
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryBytes<'a> {
    /// The association, or the grant.
    pub association: &'a [u8],
    /// The record, or the sibling number in one byte.
    pub record: &'a [u8],
}

/// A request, nothing of it verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Is the receiver alive?
    Ping {
        /// Members that it may not know.
        hint: Vec<&'a [u8]>,
    },
    /// Who is responsible for a position?
    FindNode {
        /// The position.
        target: Place,
    },
    /// Who serves the name of an object?
    Find {
        /// The object.
        object: ObjectId,
        /// Answer from the table, whoever is responsible.
        held: bool,
    },
    /// Store what the sender publishes.
    Store {
        /// Its association and record.
        entry: EntryBytes<'a>,
    },
    /// Keep copies.
    Mirror {
        /// Of these.
        entries: Vec<EntryBytes<'a>>,
    },
    /// Where on the ring is the sender's place?
    Join {
        /// Its record.
        record: &'a [u8],
    },
    /// The receiver may be the sender's successor.
    Update {
        /// The sender's record.
        record: &'a [u8],
        /// Whether the sender wants what it is responsible for.
        wants_objects: bool,
        /// The members before the sender, the nearest first.
        predecessors: Vec<&'a [u8]>,
    },
    /// The sender leaves.
    Leave {
        /// Its record.
        record: &'a [u8],
        /// Who was before it.
        predecessor: Option<&'a [u8]>,
        /// Who was after it.
        successors: Vec<&'a [u8]>,
        /// What it stored.
        entries: Vec<EntryBytes<'a>>,
    },
    /// Relay to the sender, which is a leaf.
    Attach {
        /// Its record.
        record: &'a [u8],
    },
    /// Relay to the sender no more.
    Detach,
    /// Does nobody lie between a position and the member that claims it?
    Vouch {
        /// The position.
        target: Place,
        /// The member.
        claimed: PeerId,
    },
    /// Is there a newer list of revocations?
    Revoked {
        /// Serial of the newest that the sender knows; 0 if it knows none.
        serial: u64,
    },
    /// Who is in the group of the receiver?
    Groups {
        /// Leases that the sender holds.
        told: Vec<ToldLease>,
        /// Whether the sender wants the records of the members.
        wants_members: bool,
    },
    /// Who else is convicted?
    Contradictions {
        /// Those of whom the sender knows it.
        known: Vec<ToldConviction>,
    },
}

/// A response to a lookup
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop<'a> {
    /// Record of the one who answers, if it is responsible.
    pub responsible: Option<&'a [u8]>,
    /// Members between the one who answers and the position, the nearest to the position first.
    pub closer: Vec<&'a [u8]>,
    /// Members that follow the one who answers; if it is not responsible, without those before the position.
    pub successors: Vec<&'a [u8]>,
    /// The member before the one who answers, if that one names no successor.
    pub predecessor: Option<&'a [u8]>,
    /// What is stored for the object.
    pub entries: Vec<EntryBytes<'a>>,
    /// The lease of the one who answers, if it is responsible and the network has a guard.
    pub lease: Option<&'a [u8]>,
}

/// A response to an update
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated<'a> {
    /// Record of the one who answers: those before it learn its newest only from itself.
    pub record: &'a [u8],
    /// The member that follows the asker most closely, or the one before the one who answers.
    pub predecessor: Option<&'a [u8]>,
    /// Members that follow the one who answers.
    pub successors: Vec<&'a [u8]>,
    /// What the asker is responsible for.
    pub entries: Vec<EntryBytes<'a>>,
}

impl<'a> Request<'a> {
    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        match self {
            Self::Ping { hint } => encode_nodes(encoder.array(2).uint(0), hint),
            Self::FindNode { target } => _ = encoder.array(2).uint(1).bytes(&target.0),
            Self::Find { object, held } => _ = encoder.array(3).uint(2).bytes(&object.0).bool(*held),
            Self::Store { entry } => encode_entry(encoder.array(2).uint(3), entry),
            Self::Mirror { entries } => encode_entries(encoder.array(2).uint(4), entries),
            Self::Join { record } => _ = encoder.array(2).uint(5).bytes(record),
            Self::Update {
                record,
                wants_objects,
                predecessors,
            } => {
                encoder.array(4).uint(6).bytes(record).bool(*wants_objects);
                encode_nodes(&mut encoder, predecessors);
            }
            Self::Leave {
                record,
                predecessor,
                successors,
                entries,
            } => {
                encoder.array(5).uint(7).bytes(record);
                encode_option(&mut encoder, *predecessor);
                encode_nodes(&mut encoder, successors);
                encode_entries(&mut encoder, entries);
            }
            Self::Attach { record } => _ = encoder.array(2).uint(8).bytes(record),
            Self::Detach => _ = encoder.array(1).uint(9),
            Self::Vouch { target, claimed } => {
                _ = encoder.array(3).uint(10).bytes(&target.0).bytes(&claimed.0);
            }
            Self::Revoked { serial } => _ = encoder.array(2).uint(11).uint(*serial),
            Self::Groups { told, wants_members } if KNOWS_CLOSED => {
                encode_told(encoder.array(3).uint(12), told);
                encoder.bool(*wants_members);
            }
            Self::Contradictions { known } if KNOWS_CLOSED => {
                encode_convictions(encoder.array(2).uint(13), known);
            }
            Self::Groups { .. } | Self::Contradictions { .. } => {}
        }
        out
    }

    /// Reads a request.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(Malformed);
        }
        let mut decoder = Decoder::new(bytes);
        let len = decoder.array(5)?;
        let kind = decoder.uint()?;
        let request = match (kind, len) {
            (0, 2) => Self::Ping {
                hint: decode_nodes(&mut decoder, MAX_HINT)?,
            },
            (1, 2) => Self::FindNode {
                target: Place(decoder.fixed()?),
            },
            (2, 3) => Self::Find {
                object: ObjectId(decoder.fixed()?),
                held: decoder.bool()?,
            },
            (3, 2) => Self::Store {
                entry: decode_entry(&mut decoder)?,
            },
            (4, 2) => Self::Mirror {
                entries: decode_entries(&mut decoder)?,
            },
            (5, 2) => Self::Join {
                record: decoder.bytes(MAX_RECORD_BYTES)?,
            },
            (6, 4) => Self::Update {
                record: decoder.bytes(MAX_RECORD_BYTES)?,
                wants_objects: decoder.bool()?,
                predecessors: decode_nodes(&mut decoder, MAX_PREDECESSORS)?,
            },
            (7, 5) => Self::Leave {
                record: decoder.bytes(MAX_RECORD_BYTES)?,
                predecessor: decode_option(&mut decoder)?,
                successors: decode_nodes(&mut decoder, MAX_NODES)?,
                entries: decode_entries(&mut decoder)?,
            },
            (8, 2) => Self::Attach {
                record: decoder.bytes(MAX_RECORD_BYTES)?,
            },
            (9, 1) => Self::Detach,
            (10, 3) => Self::Vouch {
                target: Place(decoder.fixed()?),
                claimed: PeerId(decoder.fixed()?),
            },
            (11, 2) => Self::Revoked {
                serial: decoder.uint()?,
            },
            (12, 3) if KNOWS_CLOSED => Self::Groups {
                told: decode_told(&mut decoder)?,
                wants_members: decoder.bool()?,
            },
            (13, 2) if KNOWS_CLOSED => Self::Contradictions {
                known: decode_convictions(&mut decoder)?,
            },
            _ => return Err(Malformed),
        };
        decoder.finish()?;
        Ok(request)
    }
}

/// The response that says no more than that the request was accepted.
pub fn encode_ack() -> Vec<u8> {
    response(|encoder| _ = encoder.null())
}

/// The response that says whose fault it is that the request was refused.
pub fn encode_error(code: Code) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).array(2).uint(1).uint(code.class() as u64);
    out
}

// A refusal shows either under one limit.
const _: () = assert!(MAX_ASSOCIATION_BYTES <= MAX_RECORD_BYTES);

/// The response to a sender whose record or association is older than this one of its node.
pub(super) fn encode_stale(newer: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).array(2).uint(2).bytes(newer);
    out
}

/// The response to a sender whose record is of another time than this.
pub(super) fn encode_wrong_clock(now_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).array(2).uint(3).uint(now_ms);
    out
}

/// The response to `join`.
pub fn encode_joined(nodes: &[&[u8]]) -> Vec<u8> {
    response(|encoder| encode_nodes(encoder.array(1), nodes))
}

/// The response to `revoked`.
pub(super) fn encode_revocations(newer: Option<&[u8]>) -> Vec<u8> {
    response(|encoder| encode_option(encoder, newer))
}

/// Reads the response to `revoked`.
pub(super) fn decode_revocations(bytes: &[u8]) -> Result<Option<&[u8]>, Refusal<'_>> {
    read_response(bytes, |decoder| {
        if decoder.null() {
            Ok(None)
        } else {
            decoder.bytes(MAX_REVOCATIONS_BYTES).map(Some)
        }
    })
}

impl<'a> Hop<'a> {
    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        response(|encoder| {
            let lease = self.lease.filter(|_| KNOWS_CLOSED);
            encoder.array(5 + usize::from(lease.is_some()));
            encode_option(encoder, self.responsible);
            encode_nodes(encoder, &self.closer);
            encode_nodes(encoder, &self.successors);
            encode_option(encoder, self.predecessor);
            encode_entries(encoder, &self.entries);
            if let Some(lease) = lease {
                encoder.bytes(lease);
            }
        })
    }

    /// Reads a response to a lookup.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Refusal<'a>> {
        read_response(bytes, |decoder| {
            let has_lease = match decoder.array(6)? {
                5 => false,
                6 if KNOWS_CLOSED => true,
                _ => return Err(Malformed),
            };
            Ok(Self {
                responsible: decode_option(decoder)?,
                closer: decode_nodes(decoder, MAX_NODES)?,
                successors: decode_nodes(decoder, MAX_NODES)?,
                predecessor: decode_option(decoder)?,
                entries: decode_entries(decoder)?,
                lease: if has_lease {
                    Some(decoder.bytes(MAX_LEASE_BYTES)?)
                } else {
                    None
                },
            })
        })
    }
}

impl<'a> Updated<'a> {
    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        response(|encoder| {
            encoder.array(4).bytes(self.record);
            encode_option(encoder, self.predecessor);
            encode_nodes(encoder, &self.successors);
            encode_entries(encoder, &self.entries);
        })
    }

    /// Reads a response to `update`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Refusal<'a>> {
        read_response(bytes, |decoder| {
            decoder.array_of(4)?;
            Ok(Self {
                record: decoder.bytes(MAX_RECORD_BYTES)?,
                predecessor: decode_option(decoder)?,
                successors: decode_nodes(decoder, MAX_NODES)?,
                entries: decode_entries(decoder)?,
            })
        })
    }
}

/// Why a response holds no result
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// It does not decode.
    Malformed,
    /// The peer refused, for a reason of this class.
    Refused(Class),
    /// The peer knows this newer record of the node that asked.
    Stale(&'a [u8]),
    /// The record of the node that asked is of another time than the peer's clock.
    WrongClock,
}

impl From<Malformed> for Refusal<'_> {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads a response without content.
pub(crate) fn decode_ack(bytes: &[u8]) -> Result<(), Refusal<'_>> {
    read_response(
        bytes,
        |decoder| if decoder.null() { Ok(()) } else { Err(Malformed) },
    )
}

/// Reads the response to `join`.
pub fn decode_joined(bytes: &[u8]) -> Result<Vec<&[u8]>, Refusal<'_>> {
    read_response(bytes, |decoder| {
        decoder.array_of(1)?;
        decode_nodes(decoder, MAX_NODES)
    })
}

pub(super) fn response(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.array(2).uint(0);
    write(&mut encoder);
    out
}

pub(super) fn read_response<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Decoder<'a>) -> Result<T, Malformed>,
) -> Result<T, Refusal<'a>> {
    let mut decoder = open_response(bytes)?;
    let result = read(&mut decoder)?;
    decoder.finish()?;
    Ok(result)
}

/// Reads a response as far as its result, or to the end if there is none.
// Never inlined, so that it is there once for all kinds of results.
#[inline(never)]
fn open_response(bytes: &[u8]) -> Result<Decoder<'_>, Refusal<'_>> {
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(Refusal::Malformed);
    }
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let refusal = match decoder.uint_max(3)? {
        0 => return Ok(decoder),
        1 => Refusal::Refused(class_of(decoder.uint()?)?),
        2 => Refusal::Stale(decoder.bytes(MAX_RECORD_BYTES)?),
        _ => {
            decoder.uint()?;
            Refusal::WrongClock
        }
    };
    decoder.finish()?;
    Err(refusal)
}

/// As many of the first records as the limits allow.
fn encode_nodes(encoder: &mut Encoder<'_>, nodes: &[&[u8]]) {
    let mut bytes = 0;
    let fitting = nodes.iter().take(MAX_NODES).take_while(|node| {
        bytes += node.len();
        bytes <= MAX_NODES_BYTES
    });
    let count = fitting.count();
    encoder.array(count);
    for node in &nodes[..count] {
        encoder.bytes(node);
    }
}

fn decode_nodes<'a>(decoder: &mut Decoder<'a>, most: usize) -> Result<Vec<&'a [u8]>, Malformed> {
    read_list(decoder, most, &|decoder| decoder.bytes(MAX_RECORD_BYTES))
}

fn encode_option(encoder: &mut Encoder<'_>, record: Option<&[u8]>) {
    match record {
        Some(record) => encoder.bytes(record),
        None => encoder.null(),
    };
}

fn decode_option<'a>(decoder: &mut Decoder<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    if decoder.null() {
        Ok(None)
    } else {
        decoder.bytes(MAX_RECORD_BYTES).map(Some)
    }
}

fn encode_entry(encoder: &mut Encoder<'_>, entry: &EntryBytes<'_>) {
    encoder.array(2).bytes(entry.association).bytes(entry.record);
}

fn decode_entry<'a>(decoder: &mut Decoder<'a>) -> Result<EntryBytes<'a>, Malformed> {
    decoder.array_of(2)?;
    Ok(EntryBytes {
        association: decoder.bytes(MAX_ASSOCIATION_BYTES)?,
        record: decoder.bytes(MAX_RECORD_BYTES)?,
    })
}

fn encode_entries(encoder: &mut Encoder<'_>, entries: &[EntryBytes<'_>]) {
    encoder.array(entries.len());
    for entry in entries {
        encode_entry(encoder, entry);
    }
}

fn decode_entries<'a>(decoder: &mut Decoder<'a>) -> Result<Vec<EntryBytes<'a>>, Malformed> {
    read_list(decoder, MAX_MESSAGE_BYTES / MIN_ENTRY_BYTES, &decode_entry)
}

/// The encoding of one entry, as it is stored.
pub(crate) fn entry_to_bytes(entry: &EntryBytes<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_entry(&mut Encoder::new(&mut out), entry);
    out
}

/// Reads one stored entry.
pub(crate) fn entry_from_bytes(bytes: &[u8]) -> Result<EntryBytes<'_>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let entry = decode_entry(&mut decoder)?;
    decoder.finish()?;
    Ok(entry)
}

#[cfg(test)]
mod tests;
