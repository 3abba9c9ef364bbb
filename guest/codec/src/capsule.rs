//! The boundary between `capsule.wasm` and its host: the same framing as a core's, other items.

use alloc::vec::Vec;

use crate::batch::items;
use crate::cbor::{Decoder, Encoder};
use crate::field::{Field, Malformed, Reader};

/// Version of the boundary, returned by the export `abi_version`; none of a core's.
pub const ABI_VERSION: u32 = 0x0001_0001;

items! {
    /// What a host tells a capsule module
    ///
    /// `request` numbers are the host's; `tag` numbers are the module's and return with the answer.
    pub enum Input {
        /// Somebody sends a request to the replica; answered by `Respond`.
        1 Request { request: u32, source: [u8; 32], message: &'a [u8] }
        /// Answer to `StoreGet`: a value for each key, in their order (see `Values`).
        2 StoreValues { tag: u32, ok: bool, values: &'a [u8] }
        /// Answer to `StoreScan`: the keys, in their order (see `Keys`).
        3 StoreKeys { tag: u32, ok: bool, keys: &'a [u8] }
        /// Answer to `StoreCommit`.
        4 StoreCommitted { tag: u32, ok: bool }
        /// Answer to `Ask`; without `ok` there is none.
        5 Answered { tag: u32, ok: bool, response: &'a [u8] }
        /// A replica is to come to hold the same as another one of a capsule; `entropy` is random and used once. Ends with
        /// `Synced`.
        6 Sync { peer: [u8; 32], capsule: [u8; 32], entropy: [u8; 32] }
        /// Which other replicas of a capsule there are, 32 bytes each, to which a replica pushes what writers store.
        7 Replicas { capsule: [u8; 32], peers: &'a [u8] }
        /// The next bytes of an export file, to a verifier or an importer; to the latter when it asks nothing.
        8 Chunk { bytes: &'a [u8] }
        /// The export file ends here; answered by `Verified` or `Damaged`.
        9 End {}
    }
}

items! {
    /// What a capsule module asks of its host
    pub enum Output {
        /// Answer a request.
        1 Respond { request: u32, response: &'a [u8] }
        /// Read the values of keys (see `Keys`); answered by `StoreValues`.
        2 StoreGet { tag: u32, keys: &'a [u8] }
        /// Read at most `limit` keys with `start <= key < end`, in order; answered by `StoreKeys`.
        3 StoreScan { tag: u32, start: &'a [u8], end: &'a [u8], limit: u32 }
        /// Apply all operations or none, after all commits before (see `Operations`); when `durable`, answered once they and
        /// all before survive a power loss, even if there are no operations. Answered by `StoreCommitted`.
        4 StoreCommit { tag: u32, durable: bool, operations: &'a [u8] }
        /// Send a request to a replica, which answers it as it answers any other; answered by `Answered`.
        5 Ask { tag: u32, peer: [u8; 32], message: &'a [u8] }
        /// What came of `Sync`: 0 both hold the same, 1 they still differ, 2 one refused something (`code`, `at`), 3 there was no
        /// answer; how many records and signatures came and went.
        6 Synced { peer: [u8; 32], capsule: [u8; 32], outcome: u8, code: u16, at: u32, pulled: u64, pushed: u64 }
        /// The last item of a client's batch: step it again by this time; the largest number is never.
        7 Wake { at_ms: u64 }
        /// An export file is what the owner and the writers of this capsule have signed; so many records are in it, and so many
        /// that these point to are not. What was to be written or stored of it, is.
        8 Verified { capsule: [u8; 32], records: u64, holes: u64 }
        /// An export file is none, or a replica does not give or take it; what is wrong first, and at which offset. That was all.
        9 Damaged { code: u16, at: u64 }
        /// The next bytes of an export file.
        10 Piece { bytes: &'a [u8] }
        /// An input of this batch was refused; `input` is its position.
        34 Refused { input: u32, code: u16 }
    }
}

/// What `create` of a capsule module is given
///
/// ```cddl
/// config = [version: 1, replica: 1, seed: bytes .size 32, cache: uint, mirrors: uint, owners: bytes]
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The seed of the key that the replica signs with. Secret.
    pub seed: [u8; 32],
    /// Bytes of the store that it remembers.
    pub cache: u32,
    /// Bytes of mirrors of readers' caches.
    pub mirrors: u32,
    /// The keys of those whose capsules it holds, at most [`MAX_OWNERS`]; everybody's if there are none.
    pub owners: Vec<[u8; 32]>,
}

/// Most owners whose capsules alone a replica holds: a megabyte of keys.
pub const MAX_OWNERS: usize = 1 << 15;

const VERSION: u64 = 1;
const REPLICA: u64 = 1;
const VERIFIER: u64 = 3;
const EXPORTER: u64 = 4;
const IMPORTER: u64 = 5;

/// What `create` is given to make a verifier of one export file: `[version: 1, verifier: 3]`
pub const VERIFIER_CONFIG: [u8; 3] = [0x82, VERSION as u8, VERIFIER as u8];

/// What `create` is given to make an importer of one export file, which asks one replica to store it: `[version: 1, importer: 5]`
pub const IMPORTER_CONFIG: [u8; 3] = [0x82, VERSION as u8, IMPORTER as u8];

/// What `create` is given to make an exporter, which asks one replica for all of a capsule and writes its export file
///
/// ```cddl
/// config = [version: 1, exporter: 4, capsule: bytes .size 32]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExporterConfig {
    /// The capsule.
    pub capsule: [u8; 32],
}

impl ExporterConfig {
    /// The encoding that `create` takes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.array(3).uint(VERSION).uint(EXPORTER).bytes(&self.capsule);
        out
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of an exporter of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(3)?;
        if decoder.uint()? != VERSION || decoder.uint()? != EXPORTER {
            return Err(Malformed);
        }
        let capsule = decoder.fixed()?;
        decoder.finish()?;
        Ok(Self { capsule })
    }
}

impl ReplicaConfig {
    /// The encoding that `create` takes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(&mut out)
            .array(6)
            .uint(VERSION)
            .uint(REPLICA)
            .bytes(&self.seed)
            .uint(u64::from(self.cache))
            .uint(u64::from(self.mirrors))
            .bytes(self.owners.as_flattened());
        out
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of a replica of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(6)?;
        if decoder.uint()? != VERSION || decoder.uint()? != REPLICA {
            return Err(Malformed);
        }
        let config = Self {
            seed: decoder.fixed()?,
            cache: decoder.uint_max(u64::from(u32::MAX))? as u32,
            mirrors: decoder.uint_max(u64::from(u32::MAX))? as u32,
            owners: read_owners(decoder.bytes(32 * MAX_OWNERS)?)?,
        };
        decoder.finish()?;
        Ok(config)
    }
}

fn read_owners(bytes: &[u8]) -> Result<Vec<[u8; 32]>, Malformed> {
    match bytes.as_chunks() {
        (owners, []) => Ok(owners.to_vec()),
        _ => Err(Malformed),
    }
}

/// Says nothing of the secret
impl core::fmt::Debug for ReplicaConfig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReplicaConfig")
            .field("cache", &self.cache)
            .field("mirrors", &self.mirrors)
            .field("owners", &self.owners.len())
            .finish_non_exhaustive()
    }
}

/// Reads `keys`: each after its `u32` length
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    reader: Reader<'a>,
}

impl<'a> Keys<'a> {
    /// Keys in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(bytes),
        }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<&'a [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        take(&mut self.reader, Reader::field)
    }
}

/// Reads `values`: for each key 0, if it has none, or 1 and the value after its `u32` length
#[derive(Clone, Debug)]
pub struct Values<'a> {
    reader: Reader<'a>,
}

impl<'a> Values<'a> {
    /// Values in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(bytes),
        }
    }

    /// Appends a value.
    pub fn write(value: Option<&[u8]>, out: &mut Vec<u8>) {
        value.is_some().write(out);
        if let Some(value) = value {
            value.write(out);
        }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Option<&'a [u8]>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        take(&mut self.reader, |reader| {
            Ok(if reader.field()? {
                Some(reader.field()?)
            } else {
                None
            })
        })
    }
}

/// The next element, unless all was read; after one that does not decode there is none.
fn take<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Option<Result<T, Malformed>> {
    if reader.is_empty() {
        return None;
    }
    let element = read(reader);
    if element.is_err() {
        *reader = Reader::new(&[]);
    }
    Some(element)
}
