//! Verification of signatures for who sees those of the same keys again and again.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use selfsame_sodium::hash::hash_for;
use selfsame_sodium::sign::{self, MULTIPLES_WORDS, Multiples};

use crate::keys::{Key, Signature};

/// Keys that are remembered: each has 66,560 bytes once it is prepared, and one table of as many is for all. Enough for a
/// client's servers, and for the writers that a replica hears of at a time.
const MAX_KEYS: usize = 32;
/// Valid signatures of a key before it is prepared, which takes as long as two to four verifications and saves two thirds of each.
const BEFORE_PREPARING: u32 = 8;

/// Verifies signatures, in a third of the time those of keys that it has seen often lately
///
/// It takes what [`Key::verifies`] takes.
#[derive(Default)]
pub struct Verifier {
    of_base: Option<Box<Multiples>>,
    /// What was used last comes last.
    known: Vec<Known>,
}

/// One that clients of the same servers share
pub type SharedVerifier = Rc<RefCell<Verifier>>;

/// A key under which a signature was valid
struct Known {
    key: Key,
    seen: u32,
    of_key: Option<Box<Multiples>>,
}

impl Verifier {
    /// Whether `signature` is this key's over `statement` under the label of its purpose.
    #[must_use]
    pub fn verifies(
        &mut self,
        key: &Key,
        label: &'static str,
        statement: &[u8],
        signature: &Signature,
    ) -> bool {
        let Some(place) = self.known.iter().rposition(|known| known.key == *key) else {
            let is_valid = key.verifies(label, statement, signature);
            // Who cannot sign makes nobody forgotten.
            if is_valid {
                self.remember(*key);
            }
            return is_valid;
        };
        self.known[place..].rotate_left(1);
        let of_base = self.of_base.as_deref();
        let Some(known) = self.known.last_mut() else {
            return false;
        };
        if let (Some(of_key), Some(of_base)) = (&known.of_key, of_base) {
            let digest = hash_for(label, statement);
            return sign::verify_prepared(&signature.0, &digest, &key.0, of_key, of_base);
        }
        let is_valid = key.verifies(label, statement, signature);
        known.seen += u32::from(is_valid);
        if known.seen >= BEFORE_PREPARING {
            known.prepare();
            self.of_base.get_or_insert_with(multiples_of_base);
        }
        is_valid
    }

    fn remember(&mut self, key: Key) {
        if self.known.len() == MAX_KEYS {
            self.known.remove(0);
        }
        self.known.push(Known {
            key,
            seen: 1,
            of_key: None,
        });
    }
}

impl Known {
    fn prepare(&mut self) {
        let mut of_key = multiples();
        // Signatures were valid under it, so it can be prepared.
        self.of_key = sign::prepare(&mut of_key, &self.key.0).ok().map(|()| of_key);
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = self.known.iter().filter(|known| known.of_key.is_some());
        f.debug_struct("Verifier")
            .field("known", &self.known.len())
            .field("prepared", &prepared.count())
            .finish()
    }
}

fn multiples_of_base() -> Box<Multiples> {
    let mut of_base = multiples();
    sign::prepare_base(&mut of_base);
    of_base
}

/// Made where it stays: a stack may not have room for it.
fn multiples() -> Box<Multiples> {
    let zeros: Box<[u64]> = vec![0; MULTIPLES_WORDS].into();
    zeros
        .try_into()
        .unwrap_or_else(|_| Box::new([0; MULTIPLES_WORDS]))
}
