//! The cryptographic primitives of a handshake and of a message, callable one by one in WebAssembly.
//!
//! Each export does its work `count` times with a seed that changes every time, and returns a byte that depends on
//! all of it, so that nothing can be left out. Their sum is the floor under what the core needs in WebAssembly.
#![expect(unsafe_code, reason = "exports have names that the linker must keep")]

use selfsame_sodium::aead;
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
