//! What `derive` and `verify` of `admission.wasm` answer (docs/specification/admission-boundary.md).

use alloc::string::ToString;
use alloc::vec::Vec;

use selfsame_codec::admission::{self, Derive, Verify};
use selfsame_codec::{BatchReader, BatchWriter, Code, Field, Item, Reader, answer};

use crate::dns::{Change, Name, Outcome, Query, Transport, TsigKey, Update, zone_line};

/// Makes what a host needs; the status, and what was made.
#[must_use]
pub fn derive(request: &[u8]) -> Vec<u8> {
    answer(derived(request))
}

/// Checks what came from outside; the status, and what it says.
#[must_use]
pub fn verify(request: &[u8]) -> Vec<u8> {
    answer(verified(request))
}

fn derived(request: &[u8]) -> Result<Vec<u8>, Code> {
    match Derive::decode(only_item(request)?).map_err(|_| Code::BadInput)? {
        Derive::PeerName { key, domain } => Ok(text(&Name::of_peer(&key, domain)?)),
        Derive::AuthorityName { domain } => Ok(text(&Name::of_authority(domain)?)),
        Derive::Query { id, name } => {
            let name = Name::parse(name)?;
            Ok(Query { id, name }.encode())
        }
        Derive::Update {
            id,
            zone,
            key_name,
            secret,
            now_s,
            ttl_s,
            changes,
        } => {
            let update = Update {
                id,
                zone: Name::parse(zone)?,
                ttl_s,
                changes: read_changes(changes)?,
            };
            let signed = update.sign(&key(key_name, secret)?, now_s)?;
            Ok([signed.mac.as_slice(), &signed.message].concat())
        }
        Derive::ZoneLine { name, ttl_s, value } => {
            Ok(zone_line(&Name::parse(name)?, ttl_s, value)?.into_bytes())
        }
        _ => Err(Code::BadInput),
    }
}

fn verified(request: &[u8]) -> Result<Vec<u8>, Code> {
    match Verify::decode(only_item(request)?).map_err(|_| Code::BadInput)? {
        Verify::Response {
            id,
            name,
            is_datagram,
            message,
        } => {
            let name = Name::parse(name)?;
            let transport = if is_datagram {
                Transport::Datagram
            } else {
                Transport::Stream
            };
            Ok(outcome(&Query { id, name }.read_response(message, transport)?))
        }
        Verify::Updated {
            id,
            key_name,
            secret,
            mac,
            now_s,
            message,
        } => {
            key(key_name, secret)?.check_updated(id, &mac, now_s, message)?;
            Ok(Vec::new())
        }
        _ => Err(Code::BadInput),
    }
}

fn only_item(request: &[u8]) -> Result<Item<'_>, Code> {
    let mut items = BatchReader::new(request).map_err(|_| Code::BadInput)?;
    match (items.next(), items.next()) {
        (Some(item), None) => Ok(item),
        _ => Err(Code::BadInput),
    }
}

fn key<'a>(name: &str, secret: &'a [u8]) -> Result<TsigKey<'a>, Code> {
    let name = Name::parse(name)?;
    Ok(TsigKey { name, secret })
}

fn read_changes(bytes: &[u8]) -> Result<Vec<Change<'_>>, Code> {
    let mut reader = Reader::new(bytes);
    let mut changes = Vec::new();
    while !reader.is_empty() {
        let name: &str = reader.field().map_err(|_| Code::BadInput)?;
        let value = reader.field().map_err(|_| Code::BadInput)?;
        let name = Name::parse(name)?;
        changes.push(Change { name, value });
    }
    Ok(changes)
}

fn outcome(outcome: &Outcome) -> Vec<u8> {
    let mut batch = BatchWriter::new();
    match outcome {
        Outcome::Found {
            values,
            ttl_s,
            is_authentic,
        } => {
            let mut fields = Vec::new();
            for value in values {
                value.as_slice().write(&mut fields);
            }
            let found = admission::Outcome::Found {
                ttl_s: *ttl_s,
                is_authentic: *is_authentic,
                values: &fields,
            };
            found.encode(&mut batch);
        }
        Outcome::Absent { ttl_s } => admission::Outcome::Absent { ttl_s: *ttl_s }.encode(&mut batch),
        Outcome::Truncated => admission::Outcome::Truncated {}.encode(&mut batch),
    }
    batch.as_bytes().to_vec()
}

fn text(name: &Name) -> Vec<u8> {
    name.to_string().into_bytes()
}
