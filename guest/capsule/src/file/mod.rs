//! Files of a capsule that anybody verifies without asking anybody: a whole capsule, and the proof of one record.

mod export;
mod order;
mod proof;
mod verify;

pub use export::Exporter;
pub use order::{MAX_PLANNED, Plan};
pub use proof::{MAX_PROOF_FILE_BYTES, ProofFile, ProofVerifier, Proven};
pub use verify::{Damage, Entry, Summary, Verifier};

use selfsame_codec::{Code, Reader};

use crate::keys::Signature;
use crate::record::Record;
use crate::refusal::{Refusal, Result};

/// What an export begins with.
const EXPORT: &[u8; 19] = b"selfsame capsule 1\n";
/// What a proof file begins with.
const PROOF: &[u8; 17] = b"selfsame proof 1\n";

/// What comes next in an export
const END: u8 = 0;
const INNER: u8 = 1;
const HEAD: u8 = 2;
const EPOCH: u8 = 3;

/// Reads one epoch record with its signature.
///
/// # Errors
/// What [`Record::read`] says, [`Code::BadSignature`] when it is cut short.
pub(crate) fn read_epoch<'a>(reader: &mut Reader<'a>) -> Result<(Record<'a>, Signature)> {
    let whole = reader.rest().len();
    let record = Record::read(reader)?;
    let at = whole - reader.rest().len();
    let signature = reader.array().map_err(|_| Refusal::new(Code::BadSignature, at))?;
    Ok((record, Signature(signature)))
}
