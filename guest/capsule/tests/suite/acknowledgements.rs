//! What became durable together is acknowledged by one signature, and each acknowledgement holds for its own request only.

use selfsame_capsule::acknowledgement::{Acknowledgement, Stored};
use selfsame_capsule::hash::{CapsuleName, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::verifier::Verifier;
use selfsame_codec::{Field as _, Reader};

const CAPSULE: CapsuleName = CapsuleName([1; 32]);
const TIME_MS: u64 = 1_700_000_000_000;

fn server() -> KeyPair {
    KeyPair::from_seed(&[2; 32])
}

/// What request of a number stored.
fn stored(number: usize) -> Stored {
    let mut name = [3; 32];
    name[..8].copy_from_slice(&(number as u64).to_le_bytes());
    let mut stored = Stored::default();
    stored.record(&RecordName(name));
    stored
}

fn sign(count: usize) -> Vec<Acknowledgement> {
    let all: Vec<Stored> = (0..count).map(stored).collect();
    let all: Vec<_> = all.iter().map(|stored| (&CAPSULE, stored)).collect();
    Acknowledgement::sign_each(&server(), &all, TIME_MS)
}

fn encoded(word: &Acknowledgement) -> Vec<u8> {
    let mut bytes = Vec::new();
    word.write(&mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Option<Acknowledgement> {
    let mut reader = Reader::new(bytes);
    let word = reader.field().ok()?;
    reader.is_empty().then_some(word)
}

fn holds(word: &Acknowledgement, capsule: &CapsuleName, stored: &Stored) -> bool {
    word.verify(&mut Verifier::default(), capsule, stored)
}

#[test]
fn each_holds_for_its_own_request_after_it_was_sent() {
    for count in [1, 2, 3, 5, 6, 7, 8, 17, 255, 256] {
        let words = sign(count);
        assert_eq!(words.len(), count);
        for (number, word) in words.iter().enumerate() {
            assert_eq!(word.signature, words[0].signature, "one signature for all");
            let word = decoded(&encoded(word)).expect("what was encoded");
            assert!(holds(&word, &CAPSULE, &stored(number)), "{number} of {count}");
            assert!(
                !holds(&word, &CAPSULE, &stored(number + 1)),
                "{number} of {count}"
            );
            assert!(!holds(&word, &CapsuleName([9; 32]), &stored(number)));
        }
    }
}

#[test]
fn of_more_than_one_signature_is_for_the_ways_stay_short() {
    let words = sign(600);
    for (number, word) in words.iter().enumerate() {
        assert!(holds(word, &CAPSULE, &stored(number)), "{number}");
        assert!(encoded(word).len() <= 8 + 32 + 64 + 2 + 8 * 32);
    }
    assert_ne!(words[0].signature, words[599].signature);
}

#[test]
fn nobody_is_acknowledged_when_nothing_was_stored() {
    assert!(sign(0).is_empty());
}

#[test]
fn one_with_any_bit_turned_does_not_hold() {
    let bytes = encoded(&sign(5)[2]);
    for place in 0..bytes.len() * 8 {
        let mut turned = bytes.clone();
        turned[place / 8] ^= 1 << (place % 8);
        let held = decoded(&turned).is_some_and(|word| holds(&word, &CAPSULE, &stored(2)));
        assert!(!held, "bit {place}");
    }
}

#[test]
fn a_hash_of_the_tree_is_no_leaf_and_a_shorter_way_leads_nowhere() {
    let bytes = encoded(&sign(4)[0]);
    let end = 8 + 32 + 64;
    assert_eq!(bytes[end..end + 2], [0, 2], "two levels, all on the right");
    let mut shorter = bytes[..end].to_vec();
    shorter.extend_from_slice(&[0, 1]);
    shorter.extend_from_slice(&bytes[end + 2 + 32..]);
    let word = decoded(&shorter).expect("a way of one level");
    assert!(!holds(&word, &CAPSULE, &stored(0)));
}

#[test]
fn ways_that_are_too_long_or_say_more_sides_than_hashes_do_not_decode() {
    let bytes = encoded(&sign(1)[0]);
    let end = bytes.len() - 2;
    let with = |sides: u8, levels: u8| {
        let mut with = bytes[..end].to_vec();
        with.extend_from_slice(&[sides, levels]);
        with.extend_from_slice(&vec![0; usize::from(levels) * 32]);
        decoded(&with)
    };
    assert!(with(0, 0).is_some());
    assert!(with(0xff, 8).is_some());
    assert!(with(0, 9).is_none());
    assert!(with(1, 0).is_none());
    assert!(with(0b100, 2).is_none());
    assert!(decoded(&bytes[..bytes.len() - 1]).is_none());
}
