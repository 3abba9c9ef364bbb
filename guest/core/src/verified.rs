//! Signatures that were verified before: a publisher signs once for a thousand names, and its record comes with each of them.

use alloc::vec::Vec;

use crate::identity::{PublicKey, Signature};
use selfsame_sorted_map::Map;

/// Most signatures that are remembered, with what they are of: some hundred bytes each, two kilobytes at most.
const MAX_VERIFIED: usize = 4096;

/// What was signed and verified, by the first half of the signature
#[derive(Debug, Default)]
pub(crate) struct Verified {
    known: Map<[u8; 32], Vec<u8>>,
}

impl Verified {
    /// What [`PublicKey::verifies`] says, of which what it has said yes to is remembered byte for byte: comparing takes a
    /// fraction of hashing.
    pub(crate) fn verifies(
        &mut self,
        key: &PublicKey,
        label: &'static str,
        statement: &[u8],
        signature: &Signature,
    ) -> bool {
        let mut first = [0; 32];
        first.copy_from_slice(&signature.0[..32]);
        // A statement begins with a byte that is in no label, so the one cannot go on in the other.
        let whole: [&[u8]; 4] = [&key.0, &signature.0[32..], label.as_bytes(), statement];
        if self
            .known
            .get(&first)
            .is_some_and(|known| is_whole(known, &whole))
        {
            return true;
        }
        let is_right = key.verifies(label, statement, signature);
        if is_right {
            if self.known.len() >= MAX_VERIFIED {
                self.known = Map::default();
            }
            self.known.insert(first, whole.concat());
        }
        is_right
    }
}

/// Whether bytes consist of these parts and nothing else.
fn is_whole(mut bytes: &[u8], parts: &[&[u8]]) -> bool {
    for part in parts {
        match bytes.strip_prefix(*part) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::identity::{Identity, NetworkId};

    const LABEL: &str = "selfsame/1 test";

    fn identity(seed: u8) -> Identity {
        Identity::recall(&[seed; 32], NetworkId::open("n"), &[])
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
        assert_eq!(verified.known.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut verified = Verified::default();
        let one = identity(1);
        for number in 0..=MAX_VERIFIED {
            let statement = format!("{number}");
            let signature = one.sign(LABEL, statement.as_bytes());
            assert!(verified.verifies(&one.public(), LABEL, statement.as_bytes(), &signature));
            assert!(verified.known.len() <= MAX_VERIFIED);
        }
        assert_eq!(verified.known.len(), 1);
    }
}
