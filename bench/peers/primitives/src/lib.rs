//! The cryptographic primitives of a handshake and of a message, callable one by one in WebAssembly.
//!
//! Each export does its work `count` times with a seed that changes every time, and returns a byte that depends on
//! all of it, so that nothing can be left out. Their sum is the floor under what the core needs in WebAssembly.
#![expect(unsafe_code, reason = "exports have names that the linker must keep")]

use selfsame_sodium::aead;
use selfsame_sodium::hash;
use selfsame_sodium::sign::{SigningKey, verify};
use selfsame_sodium::xwing;

/// What is signed in a handshake: a labelled hash.
const STATEMENT: [u8; 32] = [5; 32];

fn seed<const N: usize>(number: u32) -> [u8; N] {
    let mut seed = [1; N];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    seed
}

fn fold(count: u32, mut work: impl FnMut(u32) -> u8) -> u32 {
    (0..count).fold(0, |sum, number| sum.wrapping_add(u32::from(work(number))))
}

/// Key pairs of X-Wing.
#[unsafe(no_mangle)]
pub extern "C" fn xwing_keypair(count: u32) -> u32 {
    fold(count, |number| xwing::keypair(&seed(number)).1[0])
}

/// Encapsulations of X-Wing to one key.
#[unsafe(no_mangle)]
pub extern "C" fn xwing_encapsulate(count: u32) -> u32 {
    let (_, public) = xwing::keypair(&seed(0));
    fold(count, |number| {
        let (ciphertext, _) = xwing::encapsulate(&public, &seed(number)).expect("an honest key");
        ciphertext[0]
    })
}

/// Decapsulations of X-Wing of one ciphertext.
#[unsafe(no_mangle)]
pub extern "C" fn xwing_decapsulate(count: u32) -> u32 {
    let (secret, public) = xwing::keypair(&seed(0));
    let (ciphertext, _) = xwing::encapsulate(&public, &seed(1)).expect("an honest key");
    fold(count, |_| {
        let shared = xwing::decapsulate(&secret, &ciphertext).expect("an honest ciphertext");
        shared.as_bytes()[0]
    })
}

/// Ed25519 signatures of a hash.
#[unsafe(no_mangle)]
pub extern "C" fn sign(count: u32) -> u32 {
    let key = SigningKey::from_seed(&seed(0));
    fold(count, |number| key.sign(&seed::<32>(number))[0])
}

/// Ed25519 verifications of a hash.
#[unsafe(no_mangle)]
pub extern "C" fn sign_verify(count: u32) -> u32 {
    let key = SigningKey::from_seed(&seed(0));
    let signature = key.sign(&STATEMENT);
    let public = key.public();
    fold(count, |_| u8::from(verify(&signature, &STATEMENT, &public)))
}

/// A context as long as those of a handshake.
const CONTEXT: &str = "selfsame/1 handshake transcript answer";

/// One hash or derivation of BLAKE3 in a handshake: how many bytes go in, and how often both sides do it.
struct Hashed {
    input: usize,
    times: usize,
}

/// All that a handshake hashes, in the terms of the specification; a part that is hashed has its length before it.
const HASHED: [Hashed; 8] = [
    // The transcript: m1 (1328 bytes) and the clear part of m2 (1168), then that and the sealed part of m2 (114).
    Hashed::new(8 + 1328 + 8 + 1168, 2),
    Hashed::new(8 + 32 + 8 + 114, 2),
    // The roots of the keys that seal m2 and m3, and of those of the session with its id.
    Hashed::new(32 + 32 + 32, 2),
    Hashed::new(4 * 32, 2),
    // What the responder and what the initiator signs, each hashed by both; the peers' ids.
    Hashed::new(8 + 98, 2),
    Hashed::new(8 + 130, 2),
    Hashed::new(8 + 32 + 8 + 32, 2),
    // Randomness in pieces of 32 bytes: two seeds, of which X-Wing's is two pieces, and two nonces; each piece is
    // followed by the generator's next key.
    Hashed::new(32, 10),
];

impl Hashed {
    const fn new(input: usize, times: usize) -> Self {
        Self { input, times }
    }
}

/// How many keys both sides expand two roots to: two, and two with the session's id.
const EXPANDED: u8 = 2 * (2 + 3);

/// What the two sides of a handshake hash and derive with BLAKE3.
#[unsafe(no_mangle)]
pub extern "C" fn hashes(count: u32) -> u32 {
    let mut input: [u8; HASHED[0].input] = [7; _];
    let mut output = [0; hash::HASH_BYTES];
    fold(count, |number| {
        input[..4].copy_from_slice(&number.to_le_bytes());
        for hashed in &HASHED {
            for _ in 0..hashed.times {
                output = hash::derive_key(CONTEXT, &input[..hashed.input]);
            }
        }
        for number in 0..EXPANDED {
            output = hash::keyed(&output, &[number]);
        }
        output[0]
    })
}

/// The fields of a record's header, and the names of two records to which it points.
const HEADER_FIELDS: [u8; 51] = [7; _];
const BACKPOINTERS: [u8; 2 * hash::HASH_BYTES] = [7; _];

/// Names of records: the hashes of their headers.
#[unsafe(no_mangle)]
pub extern "C" fn header_name(count: u32) -> u32 {
    let (mut fields, key) = (HEADER_FIELDS, seed(0));
    fold(count, |number| {
        fields[..4].copy_from_slice(&number.to_le_bytes());
        hash::hash_with(&hash::hash_with(&key, &fields), &BACKPOINTERS)[0]
    })
}

/// What a proof of identity is: a public key, a signature and an empty evidence.
const PROOF_BYTES: usize = 32 + 64 + 2;

/// Texts of the RPC with four bytes: a request with its age, its time and how far its counter is, and an answer.
const REQUEST_BYTES: usize = 4 + 4 + 2 + 4;
const ANSWER_BYTES: usize = 4;

/// The packets of an echo of the RPC, sealed and opened again, each with two bytes of associated data.
#[unsafe(no_mangle)]
pub extern "C" fn packets(count: u32) -> u32 {
    let key = aead::Key::new([7; 32]);
    let mut texts = [7; REQUEST_BYTES + ANSWER_BYTES];
    fold(count, |number| {
        let nonce = seed(number);
        let (request, answer) = texts.split_at_mut(REQUEST_BYTES);
        for text in [request, answer] {
            let tag = aead::seal_in_place(&key, &nonce, &[0x61, 0], text);
            aead::open_in_place(&key, &nonce, &[0x61, 0], text, &tag).expect("an honest packet");
        }
        texts[0]
    })
}

/// The proofs of both sides, sealed and opened again: m2's under a hash, m3's under a hash and a header.
#[unsafe(no_mangle)]
pub extern "C" fn proofs(count: u32) -> u32 {
    let key = aead::Key::new([7; 32]);
    let mut proof = [7; PROOF_BYTES];
    fold(count, |number| {
        let nonce = seed(number);
        for ad in [&[5; 32][..], &[5; 48]] {
            let tag = aead::seal_in_place(&key, &nonce, ad, &mut proof);
            aead::open_in_place(&key, &nonce, ad, &mut proof, &tag).expect("an honest proof");
        }
        proof[0]
    })
}

/// All the primitives of handshakes, as often as both sides need them.
#[unsafe(no_mangle)]
pub extern "C" fn handshake(count: u32) -> u32 {
    [
        xwing_keypair(count),
        xwing_encapsulate(count),
        xwing_decapsulate(count),
        sign(2 * count),
        sign_verify(2 * count),
        hashes(count),
        proofs(count),
    ]
    .into_iter()
    .fold(0, u32::wrapping_add)
}

/// Messages of `len` bytes, sealed and opened again with ChaCha20-Poly1305.
#[unsafe(no_mangle)]
pub extern "C" fn aead_messages(count: u32, len: usize) -> u32 {
    let key = aead::Key::new([7; 32]);
    let mut message = vec![7; len];
    fold(count, |number| {
        let nonce = seed(number);
        let tag = aead::seal_in_place(&key, &nonce, &STATEMENT, &mut message);
        aead::open_in_place(&key, &nonce, &STATEMENT, &mut message, &tag).expect("an honest message");
        message[0]
    })
}
