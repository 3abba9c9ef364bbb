//! A round trip through each algorithm, and the refusals that need no vector file.

use selfsame_sodium::{Rejected, aead, hash, memory, sign, x25519, xwing};

#[test]
fn signature_of_another_message_is_refused() {
    let key = sign::SigningKey::from_seed(&[7; 32]);
    let mut signature = key.sign(b"one");
    assert!(sign::verify(&signature, b"one", &key.public()));
    assert!(!sign::verify(&signature, b"two", &key.public()));
    signature[0] ^= 1;
    assert!(!sign::verify(&signature, b"one", &key.public()));
}

#[test]
fn xwing_round_trip_and_low_order_points() {
    let (secret, public) = xwing::keypair(&[1; 32]);
    let (ciphertext, ours) = xwing::encapsulate(&public, &[2; 64]).expect("an honest key");
    let theirs = xwing::decapsulate(&secret, &ciphertext).expect("an honest ciphertext");
    assert!(memory::equal(ours.as_bytes(), theirs.as_bytes()));

    for low_order in [[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }] {
        let mut bad_key = public;
        bad_key[1184..].copy_from_slice(&low_order);
        assert_eq!(xwing::encapsulate(&bad_key, &[2; 64]).err(), Some(Rejected));
        let mut bad_ciphertext = ciphertext;
        bad_ciphertext[1088..].copy_from_slice(&low_order);
        assert_eq!(xwing::decapsulate(&secret, &bad_ciphertext).err(), Some(Rejected));
        assert_eq!(x25519::scalarmult(&[9; 32], &low_order).err(), Some(Rejected));
    }
}

#[test]
fn refused_ciphertext_is_wiped() {
    let key = aead::Key::new([3; 32]);
    let mut data = *b"attack at dawn";
    let mut tag = aead::seal_in_place(&key, &[4; 12], b"ad", &mut data);
    let sealed = data;
    assert_eq!(
        aead::open_in_place(&key, &[4; 12], b"ad", &mut data, &tag),
        Ok(())
    );
    assert_eq!(&data, b"attack at dawn");
    data = sealed;
    tag[15] ^= 0x80;
    assert_eq!(
        aead::open_in_place(&key, &[4; 12], b"ad", &mut data, &tag),
        Err(Rejected)
    );
    assert_eq!(data, [0; 14]);
}

#[test]
fn derived_keys_depend_on_their_context() {
    let first = hash::derive_key("selfsame/1 test a", b"material");
    assert_ne!(first, hash::derive_key("selfsame/1 test b", b"material"));
    let mut hasher = hash::Hasher::new_derive_key("selfsame/1 test a");
    assert_eq!(hasher.update(b"mate").update(b"rial").finish(), first);
}
