//! An instance of `admission.wasm` and what it is asked.

use std::sync::{Mutex, PoisonError};

use selfsame_codec::admission::{self, Derive, Verify};
use selfsame_codec::{BatchReader, BatchWriter, Code, Malformed, Reader};

use zeroize::Zeroizing;

use super::error::ResolveError;
use crate::core::{Core, CoreError, CoreModule};

/// `admission.wasm`, in an instance that is replaced when it has trapped.
pub(super) struct Module(Mutex<Core>);

/// What a response says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found {
        values: Vec<Vec<u8>>,
        ttl_s: u32,
        is_authentic: bool,
    },
    Absent {
        ttl_s: u32,
    },
    Truncated,
}

/// A query for a name under way.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) id: u16,
    pub(super) name: &'a str,
}

type Call = fn(&mut Core, &[u8]) -> Result<Vec<u8>, CoreError>;

impl Module {
    pub(super) fn load() -> Result<Self, CoreError> {
        let core = CoreModule::admission()?.instantiate()?;
        Ok(Self(Mutex::new(core)))
    }

    /// Returns the name of a peer's record.
    pub(super) fn peer_name(&self, key: &[u8; 32], domain: &str) -> Result<String, ResolveError> {
        self.name(&Derive::PeerName { key: *key, domain }, domain)
    }

    /// Returns the name of the record of a network's authority.
    pub(super) fn authority_name(&self, domain: &str) -> Result<String, ResolveError> {
        self.name(&Derive::AuthorityName { domain }, domain)
    }

    /// Returns the message of a query.
    pub(super) fn message(&self, Query { id, name }: Query<'_>) -> Result<Vec<u8>, ResolveError> {
        let message = self.call(Core::derive, |batch| Derive::Query { id, name }.encode(batch))?;
        message.map_err(|code| refused(name, code))
    }

    /// Returns what a response to a query says, or the code of what is wrong with it.
    pub(super) fn outcome(
        &self,
        Query { id, name }: Query<'_>,
        is_datagram: bool,
        message: &[u8],
    ) -> Result<Result<Outcome, Code>, ResolveError> {
        let request = Verify::Response {
            id,
            name,
            is_datagram,
            message,
        };
        let answer = self.call(Core::verify, |batch| request.encode(batch))?;
        Ok(answer.and_then(|bytes| decode(&bytes).map_err(|_| Code::BadInput)))
    }

    fn name(&self, request: &Derive<'_>, domain: &str) -> Result<String, ResolveError> {
        let name = self.call(Core::derive, |batch| request.encode(batch))?;
        let name = name.map_err(|code| refused(domain, code))?;
        String::from_utf8(name).map_err(|_| refused(domain, Code::BadInput))
    }

    pub(super) fn call(
        &self,
        call: Call,
        encode: impl FnOnce(&mut BatchWriter),
    ) -> Result<Result<Vec<u8>, Code>, CoreError> {
        let mut batch = BatchWriter::new();
        encode(&mut batch);
        let mut core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An update holds the secret of its key.
        let request = Zeroizing::new(batch.into_bytes());
        let answer = call(&mut core, &request);
        if answer.is_err() {
            *core = CoreModule::admission()?.instantiate()?;
        }
        let answer = answer?;
        let Some((status, result)) = answer.split_first_chunk() else {
            return Ok(Err(Code::BadInput));
        };
        Ok(match u16::from_le_bytes(*status) {
            0 => Ok(result.to_vec()),
            code => Err(Code::from_u16(code).unwrap_or(Code::BadInput)),
        })
    }
}

fn refused(name: &str, code: Code) -> ResolveError {
    ResolveError::Input(format!("\"{name}\": {code}"))
}

fn decode(bytes: &[u8]) -> Result<Outcome, Malformed> {
    let item = BatchReader::new(bytes)?.next().ok_or(Malformed)?;
    Ok(match admission::Outcome::decode(item)? {
        admission::Outcome::Found {
            ttl_s,
            is_authentic,
            values,
        } => Outcome::Found {
            values: read_values(values)?,
            ttl_s,
            is_authentic,
        },
        admission::Outcome::Absent { ttl_s } => Outcome::Absent { ttl_s },
        admission::Outcome::Truncated {} => Outcome::Truncated,
        _ => return Err(Malformed),
    })
}

fn read_values(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut values = Vec::new();
    while !reader.is_empty() {
        values.push(reader.field::<&[u8]>()?.to_vec());
    }
    Ok(values)
}
