//! The operations whose cost matters, each repeated often enough to time from outside.

use core::hint::black_box;

use selfsame_sodium::{aead, hash, sign, x25519, xwing};

/// What can be timed.
pub(crate) const NAMES: [&str; 16] = [
    "sign 64 B",
    "verify 64 B",
    "verify 64 B, prepared",
    "prepare",
    "x25519 base",
    "x25519",
    "xwing keypair",
    "xwing encapsulate",
    "xwing decapsulate",
    "seal + open 64 B",
    "seal 16 KiB",
    "seal + open 16 KiB",
    "blake3 16 KiB",
    "blake3 1 KiB",
    "blake3 200 B",
    "blake3 64 B",
];

/// Repeats the operation at a place in [`NAMES`].
pub(crate) fn repeat(operation: usize, count: u32) {
    let signer = sign::SigningKey::from_seed(&[1; 32]);
    let message = [2; 64];
    let signature = signer.sign(&message);
    let (secret, public) = xwing::keypair(&[3; 32]);
    let (ciphertext, _) = xwing::encapsulate(&public, &[4; 64]).expect("an honest key");
    let key = aead::Key::new([5; 32]);
    let mut large = vec![6; 16384];
    let mut small = [7; 64];
    let point = x25519::base(&[8; 32]);
    let (mut of_key, mut of_base) = ([0; sign::MULTIPLES_WORDS], [0; sign::MULTIPLES_WORDS]);
    sign::prepare(&mut of_key, &signer.public()).expect("an honest key");
    sign::prepare_base(&mut of_base);
    for round in 0..count {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&round.to_le_bytes());
        match operation {
            0 => drop(black_box(signer.sign(black_box(&message)))),
            1 => drop(black_box(sign::verify(
                black_box(&signature),
                &message,
                &signer.public(),
            ))),
            2 => drop(black_box(sign::verify_prepared(
                black_box(&signature),
                &message,
                &signer.public(),
                &of_key,
                &of_base,
            ))),
            3 => sign::prepare(black_box(&mut of_key), &signer.public()).expect("an honest key"),
            4 => drop(black_box(x25519::base(black_box(&[8; 32])))),
            5 => drop(black_box(x25519::scalarmult(black_box(&[9; 32]), &point))),
            6 => drop(black_box(xwing::keypair(black_box(&[3; 32])))),
            7 => drop(black_box(xwing::encapsulate(black_box(&public), &[4; 64]))),
            8 => drop(black_box(xwing::decapsulate(&secret, black_box(&ciphertext)))),
            9 => {
                let tag = aead::seal_in_place(&key, &nonce, &[0; 16], &mut small);
                black_box(aead::open_in_place(&key, &nonce, &[0; 16], &mut small, &tag))
                    .expect("our own tag");
            }
            10 => drop(black_box(aead::seal_in_place(
                &key,
                &nonce,
                &[0; 16],
                black_box(&mut large),
            ))),
            11 => {
                let tag = aead::seal_in_place(&key, &nonce, &[0; 16], &mut large);
                black_box(aead::open_in_place(&key, &nonce, &[0; 16], &mut large, &tag))
                    .expect("our own tag");
            }
            12 => drop(black_box(hash::hash(black_box(&large)))),
            13 => drop(black_box(hash::hash(black_box(&large[..1024])))),
            14 => drop(black_box(hash::hash(black_box(&large[..200])))),
            _ => drop(black_box(hash::hash(black_box(&large[..64])))),
        }
    }
}
