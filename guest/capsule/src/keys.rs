//! Keys that sign: of owners, writers and servers.

use selfsame_sodium::hash::{derive_key, hash_for};
use selfsame_sodium::sign::{SigningKey, verify};
use zeroize::Zeroizing;

const SEED: &str = "selfsame/1 capsule signing seed";

/// An Ed25519 public key
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 32]);

/// An Ed25519 signature
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl Key {
    /// Whether `signature` is this key's over `statement` under the label of its purpose.
    #[must_use]
    pub fn verifies(&self, label: &'static str, statement: &[u8], signature: &Signature) -> bool {
        verify(&signature.0, &hash_for(label, statement), &self.0)
    }
}

/// A key pair that signs; its secret is wiped when it is dropped and never shown
#[derive(Debug)]
pub struct KeyPair {
    key: SigningKey,
    public: Key,
}

impl KeyPair {
    /// The key pair of whoever has this seed. What else is derived from the seed, such as the identity of a node, cannot be
    /// linked to it.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let signing_seed = Zeroizing::new(derive_key(SEED, seed));
        let key = SigningKey::from_seed(&signing_seed);
        let public = Key(key.public());
        Self { key, public }
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> Key {
        self.public
    }

    /// Signs a statement under the label of its purpose.
    #[must_use]
    pub fn sign(&self, label: &'static str, statement: &[u8]) -> Signature {
        Signature(self.key.sign(&hash_for(label, statement)))
    }
}
