//! Who a node is: the network it belongs to, its key in that network, and the id that both give it.

use alloc::vec::Vec;

use selfsame_codec::Admission;
use selfsame_sodium::hash::{derive_key, hash_for};
use selfsame_sodium::memory;
use selfsame_sodium::sign::{SigningKey, verify};
use zeroize::Zeroizing;

use crate::boot::BootId;
use crate::hex;

/// Longest name of a network: one label of a domain name.
pub const MAX_NETWORK_NAME: usize = 63;

const NETWORK: &str = "selfsame/1 network id";
const PEER: &str = "selfsame/1 peer id";
const PEER_SEED: &str = "selfsame/1 peer signing seed";
const KNOWN_KEY: &str = "selfsame/1 known public key";
const OWNER_SEED: &str = "selfsame/1 owner signing seed";
const SEAT: &str = "selfsame/1 seat of an address";
const AUTHORITY_SEED: &str = "selfsame/1 authority signing seed";

/// Length of [`Identity::known_key`]: a public key and its proof.
const KNOWN_KEY_BYTES: usize = 64;

/// Protocol constants that all members must share, as one version number.
const CONSTANTS: &[u8] = &[1];

/// A network: hash of its name, admission mode, authority and protocol constants
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub [u8; 32]);

/// A peer of one network: hash of its public key and the network (Themis, section 5.1.1), whose first half gives way to the
/// peer's [`Seat`] if that is a member of a closed network
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub [u8; 32]);

/// An Ed25519 public key
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// An Ed25519 signature
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

/// Length of a seat: half of an id.
const SEAT_BYTES: usize = 16;

/// The first half of the id of a member of a closed network, which its certificate names; the other half is of its key
///
/// A member cannot choose where it stands, since its address decides that (Secure Chord, section 3.1), and nobody else has its
/// id, since that commits to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat(pub [u8; SEAT_BYTES]);

/// For how long a network admits a node
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// From when on its certificate counts.
    pub since_ms: u64,
    /// When it stops to count.
    pub until_ms: u64,
}

impl Admitted {
    /// In an open network.
    pub const EVER: Self = Self {
        since_ms: 0,
        until_ms: u64::MAX,
    };
}

/// Hashes public `parts`, each after its length, under the label of their purpose.
#[must_use]
pub fn labelled_hash(label: &'static str, parts: &[&[u8]]) -> [u8; 32] {
    hash_for(label, &joined(parts))
}

/// What [`labelled_hash`] gives, of parts one of which is secret.
fn labelled_secret(label: &'static str, parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let material = Zeroizing::new(joined(parts));
    Zeroizing::new(derive_key(label, &material))
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let len = parts.iter().map(|part| size_of::<u64>() + part.len()).sum();
    // Of the right size at once, so that nothing that must be wiped is left behind by a move.
    let mut material = Vec::with_capacity(len);
    for part in parts {
        material.extend_from_slice(&(part.len() as u64).to_le_bytes());
        material.extend_from_slice(part);
    }
    material
}

impl NetworkId {
    /// The network with this name whose `authority`, none in an open network, admits its members.
    #[must_use]
    pub fn of(name: &str, admission: Admission, authority: Option<&PublicKey>) -> Self {
        let mode = name_of(admission);
        let authority = authority.map_or(&[][..], |key| &key.0);
        Self(labelled_hash(
            NETWORK,
            &[name.as_bytes(), mode, authority, CONSTANTS],
        ))
    }

    /// The open network with this name.
    #[must_use]
    pub fn open(name: &str) -> Self {
        Self::of(name, Admission::Open, None)
    }
}

/// Name of a mode, as it goes into the network id.
const fn name_of(admission: Admission) -> &'static [u8] {
    match admission {
        Admission::Open => b"open",
        Admission::Dns => b"dns",
    }
}

impl Seat {
    /// The seat of an address, `host:port`, as certificates hold it.
    #[must_use]
    pub fn of_address(address: &str) -> Self {
        let mut seat = [0; SEAT_BYTES];
        seat.copy_from_slice(&labelled_hash(SEAT, &[address.as_bytes()])[..SEAT_BYTES]);
        Self(seat)
    }
}

impl PeerId {
    /// The id that a public key has in a network.
    #[must_use]
    pub fn of(key: &PublicKey, network: &NetworkId) -> Self {
        Self(labelled_hash(PEER, &[&key.0, &network.0]))
    }

    /// The id of the same key at a seat.
    pub(crate) fn at(mut self, seat: &Seat) -> Self {
        self.0[..SEAT_BYTES].copy_from_slice(&seat.0);
        self
    }

    /// Whether this is an id that a key may have in a closed network, at whatever seat.
    pub(crate) fn commits_to(&self, key: &PublicKey, network: &NetworkId) -> bool {
        self.0[SEAT_BYTES..] == Self::of(key, network).0[SEAT_BYTES..]
    }
}

impl PublicKey {
    /// Reads a key from 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::parse(text).map(Self)
    }

    /// Whether `signature` is this key's over `statement` under the label of its purpose.
    #[must_use]
    pub fn verifies(&self, label: &'static str, statement: &[u8], signature: &Signature) -> bool {
        verify(&signature.0, &labelled_hash(label, &[statement]), &self.0)
    }
}

/// A signing key in one network, derived from a master seed so that two networks cannot be linked
///
/// The key is wiped when it is dropped and never shown.
pub struct Identity {
    key: SigningKey,
    public: PublicKey,
    network: NetworkId,
    id: PeerId,
    boot: BootId,
    evidence: Vec<u8>,
    admitted: Admitted,
}

impl Identity {
    /// The identity of a node in a network, whose public key is not computed again when `known` is what
    /// [`Self::known_key`] gave at an earlier start; anything else counts as nothing.
    #[must_use]
    pub fn recall(seed: &[u8; 32], network: NetworkId, known: &[u8]) -> Self {
        let signing_seed = labelled_secret(PEER_SEED, &[seed, &network.0]);
        let key = match proven_key(&signing_seed, known) {
            Some(public) => SigningKey::from_parts(&signing_seed, public),
            None => SigningKey::from_seed(&signing_seed),
        };
        Self::new(key, network)
    }

    /// This node's public key and its proof, for the next start with the same seed.
    ///
    /// The proof is a hash under the seed. Who can write where a host keeps this cannot make one, and so cannot have the
    /// node sign under a public key that is not its own, which would give the private key away.
    #[must_use]
    pub fn known_key(&self, seed: &[u8; 32]) -> [u8; KNOWN_KEY_BYTES] {
        let signing_seed = labelled_secret(PEER_SEED, &[seed, &self.network.0]);
        let mut known = [0; KNOWN_KEY_BYTES];
        known[..32].copy_from_slice(&self.public.0);
        known[32..].copy_from_slice(&key_proof(&signing_seed, &self.public.0)[..]);
        known
    }

    /// The identity of an owner of names in a network.
    #[must_use]
    pub fn of_owner(seed: &[u8; 32], network: NetworkId) -> Self {
        let signing_seed = labelled_secret(OWNER_SEED, &[seed, &network.0]);
        Self::new(SigningKey::from_seed(&signing_seed), network)
    }

    /// The identity of the authority of a closed network with this name.
    ///
    /// The network's id holds the authority's key, which therefore follows from the name alone.
    #[must_use]
    pub fn of_authority(seed: &[u8; 32], name: &str, admission: Admission) -> Self {
        let signing_seed = labelled_secret(AUTHORITY_SEED, &[seed, name.as_bytes()]);
        let key = SigningKey::from_seed(&signing_seed);
        let network = NetworkId::of(name, admission, Some(&PublicKey(key.public())));
        Self::new(key, network)
    }

    fn new(key: SigningKey, network: NetworkId) -> Self {
        let public = PublicKey(key.public());
        Self {
            key,
            public,
            network,
            id: PeerId::of(&public, &network),
            boot: BootId::default(),
            evidence: Vec::new(),
            admitted: Admitted::EVER,
        }
    }

    /// Takes the id that this identity has by a certificate, and the evidence that it is.
    pub(crate) fn admit(&mut self, id: PeerId, admitted: Admitted, evidence: &[u8]) {
        self.id = id;
        self.admitted = admitted;
        self.evidence = evidence.to_vec();
    }

    /// The run of the node that has this identity.
    #[must_use]
    pub fn boot(&self) -> BootId {
        self.boot
    }

    /// Sets which run of the node this is.
    pub fn set_boot(&mut self, boot: BootId) {
        self.boot = boot;
    }

    /// Evidence that the network admits this identity, which goes into handshakes and records; empty in an open network.
    #[must_use]
    pub fn evidence(&self) -> &[u8] {
        &self.evidence
    }

    /// For how long the network admits it.
    #[must_use]
    pub fn admitted(&self) -> Admitted {
        self.admitted
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The network it belongs to.
    #[must_use]
    pub fn network(&self) -> NetworkId {
        self.network
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// The id of a key, if it is this one's.
    pub(crate) fn id_of(&self, key: &PublicKey) -> Option<PeerId> {
        (self.public == *key).then_some(self.id)
    }

    /// Signs a statement under the label of its purpose.
    #[must_use]
    pub fn sign(&self, label: &'static str, statement: &[u8]) -> Signature {
        Signature(self.key.sign(&labelled_hash(label, &[statement])))
    }
}

/// The public key in `known`, if it comes with its proof.
fn proven_key<'a>(signing_seed: &[u8; 32], known: &'a [u8]) -> Option<&'a [u8; 32]> {
    let (public, proof) = known.split_first_chunk()?;
    memory::equal(&key_proof(signing_seed, public)[..], proof).then_some(public)
}

fn key_proof(signing_seed: &[u8; 32], public: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    labelled_secret(KNOWN_KEY, &[signing_seed, public])
}

macro_rules! show_as_hex {
    ($($name:ident),*) => {$(
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "("))?;
                self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(")")
            }
        }
    )*};
}

show_as_hex!(NetworkId, PeerId, PublicKey, Signature);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_networks_cannot_be_linked() {
        let seed = [7; 32];
        let one = Identity::recall(&seed, NetworkId::open("one"), &[]);
        let two = Identity::recall(&seed, NetworkId::open("two"), &[]);
        assert_ne!(one.public(), two.public());
        assert_ne!(one.id(), two.id());
        assert_ne!(
            one.public(),
            Identity::of_owner(&seed, NetworkId::open("one")).public()
        );
    }

    #[test]
    fn a_known_key_is_taken_with_its_proof_and_else_computed() {
        let (seed, network) = ([7; 32], NetworkId::open("one"));
        let identity = Identity::recall(&seed, network, &[]);
        let known = identity.known_key(&seed);
        let is_right = |known: &[u8]| {
            let recalled = Identity::recall(&seed, network, known);
            let signature = recalled.sign(PEER, b"statement");
            recalled.id() == identity.id() && identity.public().verifies(PEER, b"statement", &signature)
        };
        assert!(is_right(&known));
        for bit in 0..known.len() * 8 {
            let mut hostile = known;
            hostile[bit / 8] ^= 1 << (bit % 8);
            assert!(is_right(&hostile), "bit {bit}");
        }
        for len in 0..known.len() {
            assert!(is_right(&known[..len]), "{len} bytes");
        }
        assert!(is_right(&[known, known].concat()));
        assert!(is_right(&[]));
        // What is proven is not computed: only who knows the seed can lead a node to another key.
        let signing_seed = labelled_secret(PEER_SEED, &[&seed, &network.0]);
        let led = [[9; 32], *key_proof(&signing_seed, &[9; 32])].concat();
        assert_eq!(
            Identity::recall(&seed, network, &led).public(),
            PublicKey([9; 32])
        );
        let of_other_seed = Identity::recall(&[8; 32], network, &[]).known_key(&[8; 32]);
        let of_other_network = Identity::recall(&seed, NetworkId::open("two"), &[]).known_key(&seed);
        assert!(is_right(&of_other_seed) && is_right(&of_other_network));
    }

    #[test]
    fn concatenation_is_not_ambiguous() {
        assert_ne!(
            labelled_hash(PEER, &[b"ab", b"c"]),
            labelled_hash(PEER, &[b"a", b"bc"])
        );
        assert_ne!(labelled_hash(PEER, &[b"ab"]), labelled_hash(NETWORK, &[b"ab"]));
    }

    #[test]
    fn a_signature_counts_for_one_purpose_and_statement() {
        let identity = Identity::recall(&[1; 32], NetworkId::open("n"), &[]);
        let signature = identity.sign(PEER, b"statement");
        assert!(identity.public().verifies(PEER, b"statement", &signature));
        assert!(!identity.public().verifies(NETWORK, b"statement", &signature));
        assert!(!identity.public().verifies(PEER, b"other", &signature));
    }
}
