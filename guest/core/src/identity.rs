//! Who a node is: the network it belongs to, its key in that network, and the id that both give it.

use alloc::vec::Vec;

use selfsame_sodium::hash::derive_key;
use selfsame_sodium::sign::{SigningKey, verify};
use zeroize::{Zeroize, Zeroizing};

/// Longest name of a network: one label of a domain name.
pub const MAX_NETWORK_NAME: usize = 63;

const NETWORK: &str = "selfsame/1 network id";
const PEER: &str = "selfsame/1 peer id";
const PEER_SEED: &str = "selfsame/1 peer signing seed";
const OWNER_SEED: &str = "selfsame/1 owner signing seed";

/// Admission mode of a network whose members need no permission.
const OPEN: &[u8] = b"open";
/// Protocol constants that all members must share, as one version number.
const CONSTANTS: &[u8] = &[1];

/// A network: hash of its name, admission mode and protocol constants
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub [u8; 32]);

/// A peer of one network: hash of its public key and the network (Themis, section 5.1.1)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub [u8; 32]);

/// An Ed25519 public key
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// An Ed25519 signature
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

/// Hashes `parts`, each after its length, under the label of their purpose.
#[must_use]
pub fn labelled_hash(label: &'static str, parts: &[&[u8]]) -> [u8; 32] {
    let len = parts.iter().map(|part| size_of::<u64>() + part.len()).sum();
    // One of the parts may be a seed.
    let mut material = Zeroizing::new(Vec::with_capacity(len));
    for part in parts {
        material.extend_from_slice(&(part.len() as u64).to_le_bytes());
        material.extend_from_slice(part);
    }
    derive_key(label, &material)
}

impl NetworkId {
    /// The open network with this name.
    #[must_use]
    pub fn open(name: &str) -> Self {
        Self(labelled_hash(NETWORK, &[name.as_bytes(), OPEN, &[], CONSTANTS]))
    }
}

impl PeerId {
    /// The id that a public key has in a network.
    #[must_use]
    pub fn of(key: &PublicKey, network: &NetworkId) -> Self {
        Self(labelled_hash(PEER, &[&key.0, &network.0]))
    }
}

impl PublicKey {
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
}

impl Identity {
    /// The identity of a node in a network.
    #[must_use]
    pub fn of_peer(seed: &[u8; 32], network: NetworkId) -> Self {
        Self::derive(PEER_SEED, seed, network)
    }

    /// The identity of an owner of names in a network.
    #[must_use]
    pub fn of_owner(seed: &[u8; 32], network: NetworkId) -> Self {
        Self::derive(OWNER_SEED, seed, network)
    }

    fn derive(label: &'static str, seed: &[u8; 32], network: NetworkId) -> Self {
        let mut signing_seed = Zeroizing::new(labelled_hash(label, &[seed, &network.0]));
        let key = SigningKey::from_seed(&signing_seed);
        signing_seed.zeroize();
        let public = PublicKey(key.public());
        Self {
            key,
            public,
            network,
            id: PeerId::of(&public, &network),
        }
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

    /// Signs a statement under the label of its purpose.
    #[must_use]
    pub fn sign(&self, label: &'static str, statement: &[u8]) -> Signature {
        Signature(self.key.sign(&labelled_hash(label, &[statement])))
    }
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
        let one = Identity::of_peer(&seed, NetworkId::open("one"));
        let two = Identity::of_peer(&seed, NetworkId::open("two"));
        assert_ne!(one.public(), two.public());
        assert_ne!(one.id(), two.id());
        assert_ne!(
            one.public(),
            Identity::of_owner(&seed, NetworkId::open("one")).public()
        );
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
        let identity = Identity::of_peer(&[1; 32], NetworkId::open("n"));
        let signature = identity.sign(PEER, b"statement");
        assert!(identity.public().verifies(PEER, b"statement", &signature));
        assert!(!identity.public().verifies(NETWORK, b"statement", &signature));
        assert!(!identity.public().verifies(PEER, b"other", &signature));
    }
}
