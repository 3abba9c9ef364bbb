//! `derive` and `verify`: answers that need no replica.

use alloc::vec::Vec;

use selfsame_abi::Single;
use selfsame_capsule::authority::Authority;
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::cache::Verified;
use selfsame_capsule::epoch::ReaderKeys;
use selfsame_capsule::file::{ProofVerifier, Proven};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::{Key, KeyPair};
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::proof::Prover;
use selfsame_capsule::record::Record;
use selfsame_capsule::{Refusal, Result};
use selfsame_codec::{Code, Field, Reader};
use zeroize::Zeroizing;

/// Remembers of proof files that were right who writes their capsule.
static PROOFS: Single<Option<ProofVerifier>> = Single::new(None);

/// Slots of the cache of a verification that begins with none: what it learns is forgotten.
const SLOTS_LOG2: u8 = 4;

/// Makes what is public out of what is secret.
///
/// ```text
/// 1 key:      seed 32 -> public key 32, of a server, a writer or an owner
/// 2 reader:   seed 32 -> public key for grants, 1216 bytes
/// 3 metadata: owner's seed 32 | hash u8 | readers u8 | created ms u64 | salt 16 | writers bytes, 32 each | description text
///             -> signed metadata
/// ```
pub(crate) fn derive(input: &[u8]) -> Vec<u8> {
    answer(derived(input))
}

/// Checks what others have signed.
///
/// ```text
/// 1 metadata: signed metadata bytes
///             -> capsule 32 | hash u8 | readers u8 | created ms u64 | owner 32 | writers bytes, 32 each | description text
/// 2 record:   signed metadata bytes | record 32 | header and body bytes | proof bytes, beginning with a signature
///             -> authorship: 1 signed by, 2 vouched for by u8 | number u16 of a writer whom the metadata names
/// 3 proof:    proof file bytes -> capsule 32 | record 32 | header bytes | authorship | 0, or 1 and body bytes
///             | n u16 | record 32 and header bytes of each on the way from the signature there
/// ```
pub(crate) fn verify(input: &[u8]) -> Vec<u8> {
    answer(verified(input))
}

fn derived(input: &[u8]) -> Result<Vec<u8>> {
    let mut reader = Reader::new(input);
    match field::<u8>(&mut reader)? {
        1 => {
            let seed: Zeroizing<[u8; 32]> = field(&mut reader).map(Zeroizing::new)?;
            finish(reader)?;
            Ok(KeyPair::from_seed(&seed).public().0.to_vec())
        }
        2 => {
            let seed: Zeroizing<[u8; 32]> = field(&mut reader).map(Zeroizing::new)?;
            finish(reader)?;
            Ok(ReaderKeys::from_seed(&seed).public().to_vec())
        }
        3 => sign_metadata(reader),
        _ => Err(BAD_INPUT),
    }
}

fn sign_metadata(mut reader: Reader<'_>) -> Result<Vec<u8>> {
    let seed: Zeroizing<[u8; 32]> = field(&mut reader).map(Zeroizing::new)?;
    let owner = KeyPair::from_seed(&seed);
    let hash = HashKind::from_number(field::<u8>(&mut reader)?.into()).ok_or(BAD_INPUT)?;
    let is_granted: bool = field(&mut reader)?;
    let (created_ms, salt) = (field(&mut reader)?, field(&mut reader)?);
    let writers: &[u8] = field(&mut reader)?;
    let (writers, []) = writers.as_chunks() else {
        return Err(BAD_INPUT);
    };
    let description: &str = field(&mut reader)?;
    finish(reader)?;
    let metadata = Metadata {
        hash,
        readers: if is_granted {
            Readers::Granted
        } else {
            Readers::Everybody
        },
        created_ms,
        salt,
        owner: owner.public(),
        writers: writers.iter().map(|key| Key(*key)).collect(),
        description: description.into(),
    };
    Ok(Charter::sign(metadata, &owner)?.encoded().to_vec())
}

fn verified(input: &[u8]) -> Result<Vec<u8>> {
    let mut reader = Reader::new(input);
    match field::<u8>(&mut reader)? {
        1 => {
            let charter = Charter::decode(field(&mut reader)?)?;
            finish(reader)?;
            Ok(describe(&charter))
        }
        2 => {
            let charter = Charter::decode(field(&mut reader)?)?;
            let name = RecordName(field(&mut reader)?);
            let (record, proof): (&[u8], &[u8]) = (field(&mut reader)?, field(&mut reader)?);
            finish(reader)?;
            let authorship = verify_record(&charter, &name, record, proof)?;
            let mut out = Vec::new();
            authorship.write(&mut out);
            Ok(out)
        }
        3 => {
            let file = field(&mut reader)?;
            finish(reader)?;
            PROOFS.with(|proofs| Ok(tell(&proofs.get_or_insert_default().verify(file)?)))
        }
        _ => Err(BAD_INPUT),
    }
}

fn describe(charter: &Charter) -> Vec<u8> {
    let metadata = charter.metadata();
    let mut out = charter.name().0.to_vec();
    out.extend_from_slice(&[metadata.hash as u8, metadata.readers as u8]);
    metadata.created_ms.write(&mut out);
    metadata.owner.0.write(&mut out);
    let writers: Vec<u8> = metadata.writers.iter().flat_map(|writer| writer.0).collect();
    writers.as_slice().write(&mut out);
    metadata.description.as_str().write(&mut out);
    out
}

fn tell(proven: &Proven) -> Vec<u8> {
    let mut out = [proven.charter.name().0, proven.name.0].concat();
    let mut header = Vec::new();
    proven.header.encode(&mut header);
    header.as_slice().write(&mut out);
    proven.authorship.write(&mut out);
    proven.body.is_some().write(&mut out);
    if let Some(body) = &proven.body {
        body.as_slice().write(&mut out);
    }
    (proven.path.len() as u16).write(&mut out);
    for (name, header) in &proven.path {
        out.extend_from_slice(&name.0);
        header.as_slice().write(&mut out);
    }
    out
}

fn verify_record(charter: &Charter, name: &RecordName, record: &[u8], proof: &[u8]) -> Result<Authorship> {
    let mut reader = Reader::new(record);
    let read = Record::read(&mut reader)?;
    if !reader.is_empty() {
        return Err(Refusal::new(Code::BadBody, record.len() - reader.rest().len()));
    }
    let sealed = charter.is_sealed();
    if read.check(charter.hasher(), sealed)? != *name {
        return Err(Refusal::new(Code::BadHeader, 0));
    }
    let authority = Authority::new(charter.metadata());
    let mut nothing = Verified::new(SLOTS_LOG2);
    let proven = Prover::default().verify(charter.hasher(), &authority, &mut nothing, name, proof)?;
    Ok(proven.authorship(&read.header))
}

const BAD_INPUT: Refusal = Refusal {
    code: Code::BadInput,
    at: 0,
};

/// Status `u16`, 0 or a code and where as `u32`, then the result.
fn answer(result: Result<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    match result {
        Ok(bytes) => {
            0_u16.write(&mut out);
            out.extend_from_slice(&bytes);
        }
        Err(refusal) => {
            refusal.code.as_u16().write(&mut out);
            refusal.at.write(&mut out);
        }
    }
    out
}

fn field<'a, T: Field<'a>>(reader: &mut Reader<'a>) -> Result<T> {
    reader.field().map_err(|_| BAD_INPUT)
}

fn finish(reader: Reader<'_>) -> Result<()> {
    reader.finish().map_err(|_| BAD_INPUT)
}
