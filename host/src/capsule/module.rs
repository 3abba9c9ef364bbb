//! What needs no server: keys, metadata, and the verification of proof files.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use selfsame_codec::{Field, Malformed, Reader};
use zeroize::Zeroize as _;

use super::CapsuleName;
use super::reading::{Authorship, RecordHeader, read_header};
use crate::core::{Core, CoreModule};
use crate::error::Error;
use crate::id::{CapsuleKey, RecordName};
use crate::keys::{Seed, milliseconds, random_bytes};

const DERIVE_KEY: u8 = 1;
const DERIVE_READER: u8 = 2;
const DERIVE_METADATA: u8 = 3;
const VERIFY_METADATA: u8 = 1;
const VERIFY_PROOF: u8 = 3;
/// Length of the public key to which the key of an epoch is sealed.
const READER_KEY_BYTES: usize = 1216;

/// The public key to which an owner grants the keys of epochs
#[derive(Clone, PartialEq, Eq)]
pub struct ReaderKey(Box<[u8; READER_KEY_BYTES]>);

impl ReaderKey {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &*self.0
    }
}

impl fmt::Display for ReaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&*self.0))
    }
}

impl fmt::Debug for ReaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderKey").finish_non_exhaustive()
    }
}

impl FromStr for ReaderKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok();
        let key = bytes.and_then(|bytes| bytes.into_boxed_slice().try_into().ok());
        key.map(Self).ok_or_else(|| {
            let digits = 2 * READER_KEY_BYTES;
            Error::Input(format!("the key of a reader has {digits} hexadecimal digits"))
        })
    }
}

/// Which hash function gives names
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFunction {
    /// BLAKE3.
    #[default]
    Blake3,
    /// SHA-256.
    Sha256,
}

/// What a new capsule is to be
#[derive(Clone, Debug, Default)]
pub struct Plan {
    description: String,
    hash: HashFunction,
    is_sealed: bool,
    writers: Vec<CapsuleKey>,
    created: Option<SystemTime>,
}

impl Plan {
    /// A capsule that everybody reads and its owner writes; people call it by its description, at most 1024 bytes.
    #[must_use]
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            ..Self::default()
        }
    }

    /// Names come from another hash function than BLAKE3.
    #[must_use]
    pub fn hash(mut self, hash: HashFunction) -> Self {
        self.hash = hash;
        self
    }

    /// Only those read it whom the owner grants the key to.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.is_sealed = true;
        self
    }

    /// Others who may write from the beginning, at most 16.
    #[must_use]
    pub fn writers(mut self, writers: impl IntoIterator<Item = CapsuleKey>) -> Self {
        self.writers.extend(writers);
        self
    }

    /// When it was made; now unless this says otherwise.
    #[must_use]
    pub fn created(mut self, created: SystemTime) -> Self {
        self.created = Some(created);
        self
    }

    /// Signs the metadata of the capsule as its owner.
    ///
    /// # Errors
    /// [`Error::Core`] when the plan is no capsule's.
    pub fn sign(&self, owner: &Seed) -> Result<Vec<u8>, Error> {
        let writers: Vec<u8> = self.writers.iter().flat_map(|key| key.0).collect();
        let salt: [u8; 16] = random_bytes()?;
        derive(DERIVE_METADATA, owner, |request| {
            request.push(match self.hash {
                HashFunction::Blake3 => 1,
                HashFunction::Sha256 => 2,
            });
            request.push(u8::from(self.is_sealed));
            milliseconds(self.created.unwrap_or_else(SystemTime::now)).write(request);
            salt.write(request);
            writers.as_slice().write(request);
            self.description.as_str().write(request);
        })
    }
}

/// What the signed metadata of a capsule says
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapsuleInfo {
    /// The capsule's name.
    pub name: CapsuleName,
    /// Which hash function gives names.
    pub hash: HashFunction,
    /// Whether bodies are sealed for readers whom the owner grants the key to.
    pub is_sealed: bool,
    /// When the owner says it was made.
    pub created: SystemTime,
    /// The owner's public key.
    pub owner: CapsuleKey,
    /// The public keys of those who may write from the beginning, without the owner.
    pub writers: Vec<CapsuleKey>,
    /// What people call it.
    pub description: String,
}

/// Verifies signed metadata.
///
/// # Errors
/// [`Error::Core`] says what is wrong with it, and where.
pub fn describe(metadata: &[u8]) -> Result<CapsuleInfo, Error> {
    let answer = verify(VERIFY_METADATA, metadata)?;
    let mut reader = Reader::new(&answer);
    let mut read = || {
        Ok(CapsuleInfo {
            name: CapsuleName(reader.array()?),
            hash: match reader.field::<u8>()? {
                1 => HashFunction::Blake3,
                _ => HashFunction::Sha256,
            },
            is_sealed: reader.field::<u8>()? == 1,
            created: UNIX_EPOCH + Duration::from_millis(reader.field()?),
            owner: CapsuleKey(reader.array()?),
            writers: reader
                .field::<&[u8]>()?
                .as_chunks()
                .0
                .iter()
                .copied()
                .map(CapsuleKey)
                .collect(),
            description: reader.field::<&str>()?.into(),
        })
    };
    read().map_err(|_: Malformed| Error::version_skew())
}

/// The public key with which whoever has this seed signs: a replica, a writer or an owner.
///
/// # Errors
/// [`Error::Poisoned`] when the module cannot be used.
pub fn public_key(seed: &Seed) -> Result<CapsuleKey, Error> {
    let key = derive(DERIVE_KEY, seed, |_| {})?;
    let key = key.try_into().map_err(|_| Error::version_skew())?;
    Ok(CapsuleKey(key))
}

/// The public key to which an owner grants the keys of epochs for whoever has this seed.
///
/// # Errors
/// [`Error::Poisoned`] when the module cannot be used.
pub fn reader_key(seed: &Seed) -> Result<ReaderKey, Error> {
    let key = derive(DERIVE_READER, seed, |_| {})?.into_boxed_slice();
    key.try_into().map(ReaderKey).map_err(|_| Error::version_skew())
}

/// What a proof file proves
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProofInfo {
    /// The capsule.
    pub capsule: CapsuleName,
    /// The record.
    pub record: RecordName,
    /// Its header.
    pub header: RecordHeader,
    /// Whether the writer that the header names has signed it, or another writer vouches for it.
    pub authorship: Authorship,
    /// Its body as it is stored, if it is in the file: sealed where not everybody reads.
    pub body: Option<Vec<u8>>,
}

/// Verifies a proof file. Nobody is asked; whether the writer was revoked since it cannot tell.
///
/// # Errors
/// [`Error::Core`] says what is wrong with it, and at which offset.
pub fn verify_proof(file: &[u8]) -> Result<ProofInfo, Error> {
    let answer = verify(VERIFY_PROOF, file)?;
    let mut reader = Reader::new(&answer);
    let mut read = || {
        let (capsule, record) = (CapsuleName(reader.array()?), RecordName(reader.array()?));
        let header = read_header(reader.field()?)?;
        let authorship = Authorship::read(&mut reader)?;
        let body = match reader.field::<bool>()? {
            true => Some(reader.field::<&[u8]>()?.to_vec()),
            false => None,
        };
        Ok(ProofInfo {
            capsule,
            record,
            header,
            authorship,
            body,
        })
    };
    read().map_err(|_: Malformed| Error::version_skew())
}

fn derive(kind: u8, seed: &Seed, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, Error> {
    let mut rest = Vec::new();
    write(&mut rest);
    // In one piece, so that growing leaves no copy of the seed behind.
    let mut request = Vec::with_capacity(1 + seed.bytes().len() + rest.len());
    request.push(kind);
    request.extend_from_slice(seed.bytes());
    request.extend_from_slice(&rest);
    let answer = CoreModule::capsules()?.instantiate()?.derive(&request);
    request.zeroize();
    answer_of(&answer?)
}

/// Instances that wait for the next verification: to make one costs as much as it costs to verify.
static IDLE: Mutex<Vec<Core>> = Mutex::new(Vec::new());
/// How many of them are kept: as many as verify at a time on most machines.
const MOST_IDLE: usize = 8;
/// Most memory of one that is kept, so that a large file does not hold more for good.
const KEPT_MEMORY: usize = 4 << 20;

fn verify(kind: u8, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut request = vec![kind];
    bytes.write(&mut request);
    let waiting = idle().pop();
    let mut core = waiting.map_or_else(|| CoreModule::capsules()?.instantiate(), Ok)?;
    // One that traps is not kept.
    let answer = core.verify(&request)?;
    let mut idle = idle();
    if idle.len() < MOST_IDLE && core.memory_size() <= KEPT_MEMORY {
        idle.push(core);
    }
    answer_of(&answer)
}

fn idle() -> MutexGuard<'static, Vec<Core>> {
    // Nothing panics between two changes of the list.
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits an answer into its status and what follows.
fn answer_of(answer: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(answer);
    match reader.field::<u16>() {
        Ok(0) => Ok(reader.rest().to_vec()),
        Ok(code) => match reader.field::<u32>() {
            Ok(at) => Err(Error::at(code, u64::from(at))),
            Err(_) => Err(Error::core(code, "")),
        },
        Err(_) => Err(Error::version_skew()),
    }
}
