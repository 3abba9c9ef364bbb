//! A verifier takes what keys take, however often it has seen them.

use selfsame_capsule::keys::{Key, KeyPair, Signature};
use selfsame_capsule::verifier::Verifier;
use selfsame_sodium::hash::hash_for;
use selfsame_sodium::sign::SigningKey;

const LABEL: &str = "selfsame/1 capsule record";

fn pair(number: u8) -> KeyPair {
    KeyPair::from_seed(&[number; 32])
}

fn prepared(verifier: &Verifier) -> String {
    format!("{verifier:?}")
}

#[test]
fn only_valid_signatures_are_taken_before_and_after_a_key_is_prepared() {
    let mut verifier = Verifier::default();
    let (one, other) = (pair(1), pair(2));
    for round in 0_u32..32 {
        let statement = round.to_le_bytes();
        let signature = one.sign(LABEL, &statement);
        assert!(verifier.verifies(&one.public(), LABEL, &statement, &signature));
        assert!(!verifier.verifies(&one.public(), LABEL, &(round + 1).to_le_bytes(), &signature));
        assert!(!verifier.verifies(&one.public(), "another label", &statement, &signature));
        assert!(!verifier.verifies(&other.public(), LABEL, &statement, &signature));
        for at in [0, 31, 32, 63] {
            let mut forged = signature;
            forged.0[at] ^= 1;
            assert!(!verifier.verifies(&one.public(), LABEL, &statement, &forged));
        }
    }
    assert_eq!(prepared(&verifier), "Verifier { known: 1, prepared: 1 }");
}

#[test]
fn as_many_keys_as_there_are_are_verified_and_few_remembered() {
    let mut verifier = Verifier::default();
    for round in 0_u8..20 {
        for number in 0..40 {
            let pair = pair(number);
            let signature = pair.sign(LABEL, &[round]);
            assert!(verifier.verifies(&pair.public(), LABEL, &[round], &signature));
        }
    }
    // Each is forgotten before it comes again.
    assert_eq!(prepared(&verifier), "Verifier { known: 32, prepared: 0 }");
}

#[test]
fn of_more_keys_than_are_remembered_only_valid_signatures_are_taken() {
    let mut verifier = Verifier::default();
    let pairs: Vec<KeyPair> = (0..40).map(pair).collect();
    // Some come again before they are forgotten, and some after.
    for (round, step) in [1, 1, 3, 3, 1].into_iter().enumerate() {
        for (pair, other) in pairs.iter().zip(pairs.iter().rev()).step_by(step) {
            let statement = [round as u8];
            let signature = pair.sign(LABEL, &statement);
            assert!(verifier.verifies(&pair.public(), LABEL, &statement, &signature));
            assert!(!verifier.verifies(&other.public(), LABEL, &statement, &signature));
            let mut forged = signature;
            forged.0[round] ^= 1;
            assert!(!verifier.verifies(&pair.public(), LABEL, &statement, &forged));
        }
    }
}

#[test]
fn who_cannot_sign_makes_nobody_forgotten() {
    let mut verifier = Verifier::default();
    let one = pair(1);
    let signature = one.sign(LABEL, b"statement");
    for _ in 0..8 {
        assert!(verifier.verifies(&one.public(), LABEL, b"statement", &signature));
        for number in 0..64 {
            assert!(!verifier.verifies(&Key([number; 32]), LABEL, b"statement", &Signature([number; 64])));
        }
    }
    assert_eq!(prepared(&verifier), "Verifier { known: 1, prepared: 1 }");
}

#[test]
fn a_key_that_begins_like_another_is_another() {
    let seed = [7; 32];
    let public = Key(SigningKey::from_seed(&seed).public());
    let signature = |key: &Key| {
        let signing = SigningKey::from_parts(&seed, &key.0);
        Signature(signing.sign(&hash_for(LABEL, b"statement")))
    };
    let mut verifier = Verifier::default();
    for round in 0..12 {
        assert!(verifier.verifies(&public, LABEL, b"statement", &signature(&public)));
        for last in 0..=u8::MAX {
            let mut similar = public;
            similar.0[31] = last;
            for signer in [public, similar] {
                let is_valid = verifier.verifies(&similar, LABEL, b"statement", &signature(&signer));
                assert_eq!(is_valid, similar == public, "{round}");
            }
        }
    }
}
