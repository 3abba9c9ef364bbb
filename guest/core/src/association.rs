//! Associations: what ties the objects of a name to a peer that serves it.
//!
//! A publisher signs one Merkle root over all that it publishes. What a responsible node stores and hands out is
//! one leaf with its path and the signed root, so that a holder can drop an association but never invent one.
//!
//! ```cddl
//! association = [root: bytes .cbor signed-root, leaf: bytes .cbor leaf, index: uint, path: [0*10 bytes .size 32]]
//! signed-root = [statement: bytes .cbor root-statement, signature: bytes .size 64]
//! root-statement = [version: 1, net: bytes .size 32, public-key: bytes .size 32, sequence-ms: uint,
//!                   not-before-ms: uint, expiry-ms: uint, leaves: uint, root: bytes .size 32]
//! leaf = [salt: bytes .size 16, owner: bytes .size 32 / bytes .size 0, name: text .size (1..63), r: uint,
//!         object: bytes .size 32, withdrawn: bool, version: text .size (0..64), weight: uint,
//!         grant: bytes .size (0..640)]
//! ```
//!
//! The tree has the shape of RFC 6962, section 2.1. Leaf and inner hashes carry different labels, so neither stands
//! for the other. A withdrawal is a leaf too: with a higher sequence it takes the place of what it withdraws. What a
//! grant says counts only once the grant is verified.

mod tree;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, MAX_WEIGHT, Malformed};

use crate::admission::Gate;
use crate::gather::read_list;
use crate::grant::{Grant, MAX_GRANT_BYTES, MAX_NAME_BYTES, Terms, check_name};
use crate::identity::{Identity, NetworkId, PeerId, PublicKey, Signature, labelled_hash};
use crate::place::Place;
use crate::statement::{CLOCK_SKEW_MS, signed, unsigned};
use tree::{leaf_hash, root_and_paths, root_from_path};

/// Most sibling objects of a name beyond the first (Themis: k): with three mirrors each that makes 16 copies.
pub const MAX_REPLICAS: u8 = 3;
/// Most leaves of one publication, which bounds the path to ten hashes and what one publisher costs its holders.
pub const MAX_LEAVES: usize = 1024;
/// Longest life of an association: a publisher that is gone is forgotten after it.
pub const MAX_ASSOCIATION_LIFE_MS: u64 = 2 * 60 * 60 * 1000;
/// Longest version label.
pub const MAX_VERSION_BYTES: usize = 64;
/// Longest encoding of an association that follows the limits above.
pub const MAX_ASSOCIATION_BYTES: usize =
    MAX_GRANT_BYTES + MAX_NAME_BYTES + MAX_VERSION_BYTES + MAX_PATH * 34 + 512;

/// Longest path in a tree of [`MAX_LEAVES`].
const MAX_PATH: usize = 10;
const SALT_BYTES: usize = 16;
const VERSION: u64 = 1;

const OBJECT: &str = "selfsame/1 object id";
const ROOT: &str = "selfsame/1 association root";

/// An object on the ring: hash of network, owner, name and sibling number
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// The `r`-th sibling object of a name.
    #[must_use]
    pub fn of(network: &NetworkId, owner: Option<&PublicKey>, name: &str, r: u8) -> Self {
        Self(labelled_hash(
            OBJECT,
            &[&network.0, owner_bytes(owner), name.as_bytes(), &[r]],
        ))
    }

    /// The place at which the object lies.
    #[must_use]
    pub const fn place(&self) -> Place {
        Place(self.0)
    }
}

impl core::fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ObjectId(")?;
        self.0
            .iter()
            .take(4)
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// One thing that a publisher publishes, or withdraws
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Random bytes that keep the hashes of other leaves from telling what they are.
    pub salt: [u8; SALT_BYTES],
    /// The name's owner; `None` for a name that anyone may serve.
    pub owner: Option<PublicKey>,
    /// The name.
    pub name: String,
    /// Number of the sibling object, up to [`MAX_REPLICAS`].
    pub r: u8,
    /// Whether the publisher withdraws what it published before.
    pub withdrawn: bool,
    /// Version that it serves; may be empty.
    pub version: String,
    /// Share of the requests that its version gets, in ten-thousandths, up to [`MAX_WEIGHT`].
    pub weight: u16,
    /// The owner's grant; empty for an unowned name. A withdrawal may leave it out where its publisher is stored.
    pub grant: Vec<u8>,
}

impl Leaf {
    /// The object under which the leaf is stored.
    #[must_use]
    pub fn object(&self, network: &NetworkId) -> ObjectId {
        ObjectId::of(network, self.owner.as_ref(), &self.name, self.r)
    }

    fn encode(&self, object: &ObjectId) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(&mut out)
            .array(9)
            .bytes(&self.salt)
            .bytes(owner_bytes(self.owner.as_ref()))
            .text(&self.name)
            .uint(u64::from(self.r))
            .bytes(&object.0)
            .bool(self.withdrawn)
            .text(&self.version)
            .uint(u64::from(self.weight))
            .bytes(&self.grant);
        out
    }

    fn decode(bytes: &[u8]) -> Result<(Self, ObjectId), Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(9)?;
        let salt = decoder.fixed()?;
        let owner = match decoder.bytes(32)? {
            [] => None,
            key => Some(PublicKey(key.try_into().map_err(|_| Malformed)?)),
        };
        let name = decoder.text(MAX_NAME_BYTES)?.into();
        let r = decoder.uint_max(u64::from(MAX_REPLICAS))?;
        let object = ObjectId(decoder.fixed()?);
        let leaf = Self {
            salt,
            owner,
            name,
            r: u8::try_from(r).map_err(|_| Malformed)?,
            withdrawn: decoder.bool()?,
            version: decoder.text(MAX_VERSION_BYTES)?.into(),
            weight: decoder.uint_max(MAX_WEIGHT.into())? as u16,
            grant: decoder.bytes(MAX_GRANT_BYTES)?.to_vec(),
        };
        decoder.finish()?;
        Ok((leaf, object))
    }

    /// Says whether the leaf has a grant of the owner to `publisher`, verified. An unowned name has none, and a withdrawal
    /// needs none: it only takes the place of what its publisher has stored.
    fn check_grant(&self, gate: &mut Gate, publisher: &PeerId, now_ms: u64) -> Result<bool, Code> {
        if self.grant.is_empty() && (self.withdrawn || self.owner.is_none()) {
            return Ok(false);
        }
        let owner = self.owner.as_ref().ok_or(Code::BadRecord)?;
        let refused = |code| match code {
            Code::BadSignature => code,
            _ => Code::NotGranted,
        };
        let grant = Grant::decode_with(gate, &self.grant, now_ms).map_err(refused)?;
        if grant.permits(owner, &self.name, publisher) {
            Ok(true)
        } else {
            Err(Code::NotGranted)
        }
    }
}

/// When a publication was signed and for how long it counts
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The higher sequence of two associations of one publisher and object counts; never used twice.
    pub sequence_ms: u64,
    /// From when on it counts.
    pub not_before_ms: u64,
    /// When it stops to count.
    pub expiry_ms: u64,
}

impl Validity {
    fn is_current(&self, now_ms: u64) -> bool {
        let latest = now_ms.saturating_add(CLOCK_SKEW_MS);
        now_ms < self.expiry_ms && self.sequence_ms <= latest && self.not_before_ms <= latest
    }
}

/// A leaf that is proven to be published by a peer, verified; copies share it
#[derive(Clone)]
pub struct Association(Arc<Fields>);

/// What an association says
struct Fields {
    publisher: PeerId,
    public: PublicKey,
    object: ObjectId,
    validity: Validity,
    leaf: Leaf,
    /// Whether the grant in it was verified.
    is_granted: bool,
    encoded: Vec<u8>,
}

impl Association {
    /// Signs the root over `leaves` and gives an association for each, in their order.
    ///
    /// # Errors
    /// [`Code::TooManyAssociations`] beyond [`MAX_LEAVES`], [`Code::BadName`] or [`Code::BadConfig`] when a leaf is
    /// outside the limits.
    pub fn publish(identity: &Identity, leaves: &[Leaf], validity: Validity) -> Result<Vec<Self>, Code> {
        if leaves.len() > MAX_LEAVES {
            return Err(Code::TooManyAssociations);
        }
        check_validity(&validity).map_err(|_| Code::BadConfig)?;
        for leaf in leaves {
            check_name(&leaf.name)?;
            if leaf.r > MAX_REPLICAS
                || leaf.version.len() > MAX_VERSION_BYTES
                || leaf.weight > MAX_WEIGHT
                || leaf.grant.len() > MAX_GRANT_BYTES
            {
                return Err(Code::BadConfig);
            }
        }
        if leaves.is_empty() {
            return Ok(Vec::new());
        }
        let network = identity.network();
        let (mut encoded, mut hashes) = (Vec::new(), Vec::new());
        for leaf in leaves {
            let object = leaf.object(&network);
            let bytes = leaf.encode(&object);
            hashes.push(leaf_hash(&bytes));
            encoded.push((object, bytes));
        }
        let mut paths = alloc::vec![Vec::new(); hashes.len()];
        let root = root_and_paths(&hashes, &mut paths);
        let statement = root_statement(identity, &validity, hashes.len(), &root);
        let root = signed(&statement, &identity.sign(ROOT, &statement));
        let mut proven = Vec::new();
        for (index, (leaf, (object, bytes))) in leaves.iter().zip(encoded).enumerate() {
            proven.push(Self(Arc::new(Fields {
                publisher: identity.id(),
                public: identity.public(),
                object,
                validity,
                leaf: leaf.clone(),
                is_granted: false,
                encoded: encode_association(&root, &bytes, index, &paths[index]),
            })));
        }
        Ok(proven)
    }

    /// Reads an association of a publisher whose id `id_of` knows by its key, and verifies root, path, times, object id and grant; a
    /// signature that was verified before is not verified again.
    ///
    /// # Errors
    /// [`Code::BadRecord`], [`Code::WrongNetwork`], [`Code::StaleRecord`], [`Code::BadSignature`] or
    /// [`Code::NotGranted`].
    pub fn decode_verified(
        gate: &mut Gate,
        id_of: &dyn Fn(&PublicKey) -> Option<PeerId>,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<Self, Code> {
        let network = &gate.network().clone();
        let parts = Parts::read(bytes).map_err(|_| Code::BadRecord)?;
        if parts.network != *network {
            return Err(Code::WrongNetwork);
        }
        check_validity(&parts.validity)?;
        check_name(&parts.leaf.name).map_err(|_| Code::BadRecord)?;
        if parts.object != parts.leaf.object(network) || !parts.is_proven() {
            return Err(Code::BadRecord);
        }
        let publisher = id_of(&parts.public).ok_or(Code::BadSignature)?;
        if !parts.validity.is_current(now_ms) {
            return Err(Code::StaleRecord);
        }
        if !gate.verifies(&parts.public, ROOT, parts.statement, &parts.signature) {
            return Err(Code::BadSignature);
        }
        let is_granted = parts.leaf.check_grant(gate, &publisher, now_ms)?;
        Ok(Self(Arc::new(Fields {
            publisher,
            public: parts.public,
            object: parts.object,
            validity: parts.validity,
            leaf: parts.leaf,
            is_granted,
            encoded: bytes.to_vec(),
        })))
    }

    /// Who published it.
    #[must_use]
    pub fn publisher(&self) -> PeerId {
        self.0.publisher
    }

    /// The publisher's key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.0.public
    }

    /// The object under which it is stored.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.0.object
    }

    /// Sequence and times.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.0.validity
    }

    /// What is published.
    #[must_use]
    pub fn leaf(&self) -> &Leaf {
        &self.0.leaf
    }

    /// What the name's owner granted the publisher, from a verified grant; `None` for an unowned name, for a withdrawal
    /// without a grant, and for what this node has just signed.
    #[must_use]
    pub fn terms(&self) -> Option<Terms> {
        self.0
            .is_granted
            .then(|| Grant::terms_of_verified(&self.0.leaf.grant))?
    }

    /// The association as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.0.encoded
    }
}

// What was read is equal to what was signed, whether or not its grant had to be verified.
impl PartialEq for Association {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}

impl Eq for Association {}

impl core::fmt::Debug for Association {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Association")
            .field("publisher", &self.0.publisher)
            .field("object", &self.0.object)
            .field("validity", &self.0.validity)
            .field("leaf", &self.0.leaf)
            .finish_non_exhaustive()
    }
}

/// An association taken apart, nothing of it verified
struct Parts<'a> {
    statement: &'a [u8],
    signature: Signature,
    network: NetworkId,
    public: PublicKey,
    validity: Validity,
    leaves: usize,
    root: [u8; 32],
    leaf_bytes: &'a [u8],
    leaf: Leaf,
    object: ObjectId,
    index: usize,
    path: Vec<[u8; 32]>,
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let max_index = MAX_LEAVES as u64 - 1;
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(4)?;
        let (statement, signature) = unsigned(decoder.bytes(MAX_ASSOCIATION_BYTES)?, MAX_ASSOCIATION_BYTES)?;
        let leaf_bytes = decoder.bytes(MAX_ASSOCIATION_BYTES)?;
        let index = usize::try_from(decoder.uint_max(max_index)?).map_err(|_| Malformed)?;
        let path = read_list(&mut decoder, MAX_PATH, &|decoder| decoder.fixed())?;
        decoder.finish()?;

        let (leaf, object) = Leaf::decode(leaf_bytes)?;
        let mut root = Decoder::new(statement);
        root.array_of(8)?;
        if root.uint()? != VERSION {
            return Err(Malformed);
        }
        let parts = Self {
            statement,
            signature,
            network: NetworkId(root.fixed()?),
            public: PublicKey(root.fixed()?),
            validity: Validity {
                sequence_ms: root.uint()?,
                not_before_ms: root.uint()?,
                expiry_ms: root.uint()?,
            },
            leaves: usize::try_from(root.uint_max(MAX_LEAVES as u64)?).map_err(|_| Malformed)?,
            root: root.fixed()?,
            leaf_bytes,
            leaf,
            object,
            index,
            path,
        };
        root.finish()?;
        Ok(parts)
    }

    /// Whether the path leads from the leaf to the root.
    fn is_proven(&self) -> bool {
        let leaf = leaf_hash(self.leaf_bytes);
        root_from_path(leaf, self.index, self.leaves, &self.path) == Some(self.root)
    }
}

fn check_validity(validity: &Validity) -> Result<(), Code> {
    let life = validity.expiry_ms.checked_sub(validity.not_before_ms);
    if life.is_some_and(|life| (1..=MAX_ASSOCIATION_LIFE_MS).contains(&life)) {
        Ok(())
    } else {
        Err(Code::BadRecord)
    }
}

fn owner_bytes(owner: Option<&PublicKey>) -> &[u8] {
    owner.map_or(&[], |key| &key.0)
}

fn root_statement(identity: &Identity, validity: &Validity, leaves: usize, root: &[u8; 32]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out)
        .array(8)
        .uint(VERSION)
        .bytes(&identity.network().0)
        .bytes(&identity.public().0)
        .uint(validity.sequence_ms)
        .uint(validity.not_before_ms)
        .uint(validity.expiry_ms)
        .uint(leaves as u64)
        .bytes(root);
    out
}

fn encode_association(root: &[u8], leaf: &[u8], index: usize, path: &[[u8; 32]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder
        .array(4)
        .bytes(root)
        .bytes(leaf)
        .uint(index as u64)
        .array(path.len());
    for hash in path {
        encoder.bytes(hash);
    }
    out
}

#[cfg(test)]
mod tests;
