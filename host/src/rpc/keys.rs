//! Secrets of a service's ticket keys.

use ring::hmac;
use zeroize::{Zeroize as _, Zeroizing};

use crate::keys::Seed;

const NEXT_SECRET: &[u8] = b"selfsame/1 rpc next ticket secret";

/// The current secret, the next one, and after a rotation the previous one.
#[derive(Debug)]
pub(super) struct TicketKeys {
    current: Seed,
    next: Seed,
    previous: Option<Seed>,
}

impl TicketKeys {
    pub(super) fn new(current: Seed) -> Self {
        Self {
            next: after(&current),
            current,
            previous: None,
        }
    }

    /// Makes the next secret the current one, and erases the one before the current one.
    pub(super) fn rotate(&mut self) {
        let after = after(&self.next);
        let next = core::mem::replace(&mut self.next, after);
        self.previous = Some(core::mem::replace(&mut self.current, next));
    }

    /// Returns the oldest secret that is left, from which the others follow, and whether it is the previous one.
    pub(super) fn oldest(&self) -> (&Seed, bool) {
        self.previous
            .as_ref()
            .map_or((&self.current, false), |previous| (previous, true))
    }

    /// Returns the secrets as the module takes them.
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let secrets = [Some(&self.current), Some(&self.next), self.previous.as_ref()];
        let mut bytes = Zeroizing::new(Vec::with_capacity(secrets.len() * 32));
        for secret in secrets.into_iter().flatten() {
            bytes.extend_from_slice(secret.bytes());
        }
        bytes
    }
}

/// Returns the secret that follows one, from which that cannot be computed.
fn after(secret: &Seed) -> Seed {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.bytes()), NEXT_SECRET);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    let next = Seed::from_bytes(bytes);
    bytes.zeroize();
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HMAC-SHA-256 of 32 bytes of 5, as another implementation has it.
    const AFTER_FIVES: &str = "59f524a90458e9cf571a586f911145b0ff4d8f9553f531fc4e466e1988dbe9b6";

    #[test]
    fn secrets_follow_from_each_other_and_one_of_those_before_is_kept() {
        let mut chain = vec![Seed::from_bytes([5; 32])];
        for at in 0..4 {
            chain.push(after(&chain[at]));
        }
        assert_eq!(data_encoding::HEXLOWER.encode(chain[1].bytes()), AFTER_FIVES);
        let mut keys = TicketKeys::new(chain[0].clone());
        let known = |places: &[usize]| -> Vec<u8> {
            places.iter().flat_map(|place| *chain[*place].bytes()).collect()
        };
        assert_eq!(*keys.encode(), known(&[0, 1]));
        for rotations in 1..3 {
            keys.rotate();
            assert_eq!(*keys.encode(), known(&[rotations, rotations + 1, rotations - 1]));
            assert_eq!(keys.oldest().0.bytes(), chain[rotations - 1].bytes());
        }
    }
}
