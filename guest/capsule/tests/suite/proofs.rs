//! Proofs of integrity: what is right is believed, and nothing else (DCS, section 3.3).

use crate::common::single::WriteOne as _;
use crate::common::{Log, charter, charter_of, nobody, proof_of, verify};
use selfsame_capsule::cache::Verified;
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::proof::{Anchor, MAX_PROOF_BYTES};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn empty() -> Verified {
    Verified::new(10)
}

fn refusal(result: selfsame_capsule::Result<()>) -> Code {
    result.expect_err("it must not be believed").code
}

/// The published client believed a header as soon as the one after it was proven, before it looked whether that one points to it.
/// The proof is spliced: honest headers, then one of the attacker's that no honest one points to.
#[test]
fn a_spliced_proof_is_refused() {
    let log = Log::new(charter(), 6, &Backpointers::Chain);
    let forged = {
        let mut other = crate::common::writer(&log.charter, 0, crate::common::owner(), None);
        other
            .write(b"forged", &Backpointers::Chain, &[0; 16])
            .expect("it is small")
    };
    let mut verified = empty();
    // Signed and honest down to record 3, then the forged header.
    let mut headers = log.headers(&[5, 4, 3]);
    headers.push(&forged.header);
    let spliced = proof_of(&log.sign(5), &headers);
    let result = verify(&log.charter, &mut verified, &forged.name, &spliced);
    assert_eq!(refusal(result), Code::BadProof);
    // The forged header first and the honest, signed ones after it.
    headers.rotate_right(1);
    let spliced = proof_of(&log.sign(5), &headers);
    let result = verify(&log.charter, &mut verified, &log.name(2), &spliced);
    assert_eq!(refusal(result), Code::BadProof);
    // The forged header in the middle, which itself points nowhere.
    headers.rotate_left(2);
    let spliced = proof_of(&log.sign(5), &headers);
    assert!(verify(&log.charter, &mut verified, &log.name(2), &spliced).is_err());
    // Nothing of it was kept.
    assert!(verified == empty());
    assert!(
        log.verify(&mut verified, 2, &log.proof(&log.sign(5), &[5, 4, 3]))
            .is_ok()
    );
}

#[test]
fn a_record_is_proven_by_a_signature_of_its_own_or_of_one_that_leads_to_it() {
    for hash in [HashKind::Blake3, HashKind::Sha256] {
        let charter = charter_of(hash, Readers::Everybody, Vec::new());
        let log = Log::new(charter, 6, &Backpointers::Chain);
        for (index, path) in [
            (5, &[5][..]),
            (4, &[5]),
            (4, &[5, 4]),
            (0, &[5, 4, 3, 2, 1]),
            (0, &[5, 4, 3, 2, 1, 0]),
        ] {
            let proof = log.proof(&log.sign(5), path);
            assert_eq!(log.verify(&mut empty(), index, &proof), Ok(()), "{path:?}");
        }
        for (index, path) in [
            (4, &[5, 3][..]),
            (3, &[5]),
            (5, &[4]),
            (5, &[4, 5]),
            (0, &[5, 4, 3, 2]),
        ] {
            let proof = log.proof(&log.sign(5), path);
            assert!(log.verify(&mut empty(), index, &proof).is_err(), "{path:?}");
        }
    }
}

#[test]
fn what_was_verified_makes_later_proofs_shorter() {
    let log = Log::new(charter(), 10, &Backpointers::Chain);
    let mut verified = empty();
    assert_eq!(
        log.verify(&mut verified, 8, &log.proof(&log.sign(9), &[9, 8])),
        Ok(())
    );
    // Record 8 points to record 7, which is verified by that: nothing more is needed for it.
    assert_eq!(
        log.verify(&mut verified, 7, &log.proof(&Anchor::Verified, &[])),
        Ok(())
    );
    assert_eq!(
        log.verify(&mut verified, 5, &log.proof(&Anchor::Verified, &[7, 6])),
        Ok(())
    );
    // Without it nobody vouches for the anchor.
    let result = log.verify(&mut empty(), 5, &log.proof(&Anchor::Verified, &[7, 6]));
    assert_eq!(refusal(result), Code::UnknownAnchor);
    let result = log.verify(&mut empty(), 5, &log.proof(&Anchor::Verified, &[]));
    assert_eq!(refusal(result), Code::UnknownAnchor);
}

#[test]
fn nothing_is_believed_of_a_proof_that_is_changed_cut_or_too_long() {
    let log = Log::new(charter(), 5, &Backpointers::Chain);
    let proof = log.proof(&log.sign(4), &[4, 3, 2]);
    let mut verified = empty();
    for bit in 0..proof.len() * 8 {
        let mut hostile = proof.clone();
        hostile[bit / 8] ^= 1 << (bit % 8);
        assert!(log.verify(&mut verified, 1, &hostile).is_err(), "bit {bit}");
    }
    for len in 0..proof.len() {
        assert!(
            log.verify(&mut verified, 1, &proof[..len]).is_err(),
            "{len} bytes"
        );
    }
    let longer = [proof.as_slice(), &[0]].concat();
    assert!(log.verify(&mut verified, 1, &longer).is_err());
    let huge = vec![1; MAX_PROOF_BYTES + 1];
    assert_eq!(refusal(log.verify(&mut verified, 1, &huge)), Code::TooLarge);
    assert!(verified == empty());
    assert_eq!(log.verify(&mut verified, 1, &proof), Ok(()));
}

#[test]
fn a_signature_counts_for_its_capsule_and_of_its_writer_only() {
    let log = Log::new(charter(), 3, &Backpointers::Chain);
    let other = charter_of(HashKind::Sha256, Readers::Everybody, Vec::new());
    let proof = log.proof(&log.sign(2), &[2]);
    let in_other = verify(&other, &mut empty(), &log.name(2), &proof);
    assert!(in_other.is_err());
    let unsigned = log.proof(&Anchor::Signed(nobody()), &[2]);
    assert_eq!(
        refusal(log.verify(&mut empty(), 2, &unsigned)),
        Code::BadSignature
    );
    // A writer with a number that nobody has.
    let stranger = crate::common::writer(&log.charter, 7, crate::common::owner(), None)
        .write(b"from nobody", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let signed = Anchor::Signed(log.writer.sign(&stranger.name));
    let proof = proof_of(&signed, &[&stranger.header]);
    let result = verify(&log.charter, &mut empty(), &stranger.name, &proof);
    assert_eq!(refusal(result), Code::NotAWriter);
}

/// 1000 records with one signature: with shortcuts a proof takes tens of headers, in a chain up to 999.
#[test]
fn shortcuts_keep_proofs_short() {
    let log = Log::new(charter(), 1000, &Backpointers::Shortcuts);
    let path = shortest(&log, 999, 0);
    assert!(path.len() <= 24, "{} headers", path.len());
    let proof = log.proof(&log.sign(999), &path);
    assert_eq!(log.verify(&mut empty(), 0, &proof), Ok(()));
}

/// The records from one to another that lie on a shortest way, without the last.
fn shortest(log: &Log, from: usize, to: usize) -> Vec<usize> {
    let index_of = |name| log.records.iter().position(|record| record.name == name);
    let mut came_from = vec![usize::MAX; log.records.len()];
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for next in crate::common::view(&log.records[at])
            .backpointers()
            .filter_map(index_of)
        {
            if came_from[next] == usize::MAX {
                came_from[next] = at;
                queue.push_back(next);
            }
        }
    }
    let mut path = Vec::new();
    let mut at = to;
    while at != from {
        at = came_from[at];
        path.push(at);
    }
    path.reverse();
    path
}
