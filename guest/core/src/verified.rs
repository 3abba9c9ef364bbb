//! Signatures that were verified before: a publisher signs once for a thousand names, and its record comes with each of them.

use crate::identity::{PublicKey, Signature, labelled_hash};
use crate::map::Set;

/// Most signatures that are remembered, 32 bytes each.
const MAX_VERIFIED: usize = 4096;

/// Signatures that were verified
#[derive(Debug, Default)]
pub(crate) struct Verified {
    hashes: Set<[u8; 32]>,
}

impl Verified {
    /// What [`PublicKey::verifies`] says, of which what it has said yes to is remembered byte for byte.
    pub(crate) fn verifies(
        &mut self,
        key: &PublicKey,
        label: &'static str,
        statement: &[u8],
        signature: &Signature,
    ) -> bool {
        let hash = labelled_hash(label, &[&key.0, statement, &signature.0]);
        if self.hashes.contains(&hash) {
            return true;
        }
        let is_right = key.verifies(label, statement, signature);
        if is_right {
            if self.hashes.len() >= MAX_VERIFIED {
                self.hashes.clear();
            }
            self.hashes.insert(hash);
        }
        is_right
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::identity::{Identity, NetworkId};

    const LABEL: &str = "selfsame/1 test";

    fn identity(seed: u8) -> Identity {
        Identity::of_peer(&[seed; 32], NetworkId::open("n"))
    }

    #[test]
    fn what_was_verified_counts_for_its_key_label_statement_and_signature() {
        let mut verified = Verified::default();
        let one = identity(1);
        let signature = one.sign(LABEL, b"statement");
        let of_another = identity(2).sign(LABEL, b"statement");
        for _ in 0..2 {
            assert!(verified.verifies(&one.public(), LABEL, b"statement", &signature));
            assert!(!verified.verifies(&one.public(), LABEL, b"statement", &of_another));
            assert!(!verified.verifies(&one.public(), LABEL, b"other", &signature));
            assert!(!verified.verifies(&one.public(), "selfsame/1 other", b"statement", &signature));
            assert!(!verified.verifies(&identity(2).public(), LABEL, b"statement", &signature));
        }
        assert_eq!(verified.hashes.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut verified = Verified::default();
        let one = identity(1);
        for number in 0..=MAX_VERIFIED {
            let statement = format!("{number}");
            let signature = one.sign(LABEL, statement.as_bytes());
            assert!(verified.verifies(&one.public(), LABEL, statement.as_bytes(), &signature));
            assert!(verified.hashes.len() <= MAX_VERIFIED);
        }
        assert_eq!(verified.hashes.len(), 1);
    }
}
