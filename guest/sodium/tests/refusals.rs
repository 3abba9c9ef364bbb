//! What must be refused and is in no file of test vectors, each beside what must be accepted.
//!
//! These run natively as tests, and in WebAssembly through the list at the end.

use selfsame_sodium::{Rejected, aead, hash, memory, mlkem768, sign, x25519, xwing};

/// Encodings of points whose order divides 8, also unreduced ones and ones with the ignored top bit set
/// (Bernstein, "Curve25519", and libsodium's own list).
const LOW_ORDER: [&str; 12] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b880",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f11d7",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

fn bytes(hex: &str) -> [u8; 32] {
    core::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal"))
}

#[cfg_attr(test, test)]
fn x25519_refuses_every_point_of_small_order() {
    assert!(x25519::scalarmult(&[9; 32], &x25519::base(&[8; 32])).is_ok());
    for point in LOW_ORDER {
        assert_eq!(
            x25519::scalarmult(&[9; 32], &bytes(point)).err(),
            Some(Rejected),
            "{point}"
        );
    }
}

#[cfg_attr(test, test)]
fn xwing_refuses_every_point_of_small_order() {
    let (secret, public) = xwing::keypair(&[1; 32]);
    let (ciphertext, _) = xwing::encapsulate(&public, &[2; 64]).expect("an honest key");
    for point in LOW_ORDER {
        let mut key = public;
        key[mlkem768::PUBLIC_KEY_BYTES..].copy_from_slice(&bytes(point));
        assert_eq!(
            xwing::encapsulate(&key, &[2; 64]).err(),
            Some(Rejected),
            "{point}"
        );
        let mut forged = ciphertext;
        forged[mlkem768::CIPHERTEXT_BYTES..].copy_from_slice(&bytes(point));
        assert_eq!(
            xwing::decapsulate(&secret, &forged).err(),
            Some(Rejected),
            "{point}"
        );
    }
}

#[cfg_attr(test, test)]
fn xwing_refuses_an_unreduced_lattice_key() {
    let (_, mut public) = xwing::keypair(&[1; 32]);
    // The first coefficient, 12 bits little-endian, becomes q = 3329.
    public[0] = 0x01;
    public[1] = public[1] & 0xf0 | 0x0d;
    assert_eq!(xwing::encapsulate(&public, &[2; 64]).err(), Some(Rejected));
    // One less is the largest that is allowed.
    public[0] = 0x00;
    assert!(xwing::encapsulate(&public, &[2; 64]).is_ok());
}

#[cfg_attr(test, test)]
fn xwing_secrets_agree_only_for_the_right_ciphertext() {
    for seed in 0..32 {
        let (secret, public) = xwing::keypair(&[seed; 32]);
        let (mut ciphertext, ours) = xwing::encapsulate(&public, &[seed ^ 0x55; 64]).expect("an honest key");
        let theirs = xwing::decapsulate(&secret, &ciphertext).expect("an honest ciphertext");
        assert!(memory::equal(ours.as_bytes(), theirs.as_bytes()));
        ciphertext[usize::from(seed) * 33] ^= 1;
        let other = xwing::decapsulate(&secret, &ciphertext).expect("no point of small order");
        assert!(!memory::equal(ours.as_bytes(), other.as_bytes()));
    }
}

#[cfg_attr(test, test)]
fn signature_of_another_message_or_key_is_refused() {
    let key = sign::SigningKey::from_seed(&[7; 32]);
    let signature = key.sign(b"one");
    assert!(sign::verify(&signature, b"one", &key.public()));
    assert!(!sign::verify(&signature, b"two", &key.public()));
    assert!(!sign::verify(
        &signature,
        b"one",
        &sign::SigningKey::from_seed(&[8; 32]).public()
    ));
}

#[cfg_attr(test, test)]
fn signature_under_a_key_of_small_order_is_refused() {
    // With the neutral element as key and as R, and S = 0, the equation of RFC 8032 holds for every message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&neutral);
    assert!(!sign::verify(&signature, b"any message", &neutral));
}

/// Encodings of points of the signatures' curve whose order divides 8, and two that are not reduced.
const LOW_ORDER_KEYS: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

#[cfg_attr(test, test)]
fn keys_under_which_nothing_is_valid_are_not_prepared() {
    let mut multiples = Box::new([0; sign::MULTIPLES_WORDS]);
    let honest = sign::SigningKey::from_seed(&[7; 32]).public();
    assert_eq!(sign::prepare(&mut multiples, &honest), Ok(()));
    for key in LOW_ORDER_KEYS {
        for sign_bit in [0, 0x80] {
            let mut key = bytes(key);
            key[31] |= sign_bit;
            assert_eq!(sign::prepare(&mut multiples, &key), Err(Rejected), "{key:02x?}");
        }
    }
    // No point has this y.
    let mut no_point = [0; 32];
    no_point[0] = 2;
    assert_eq!(sign::prepare(&mut multiples, &no_point), Err(Rejected));
    // Not below 2^255 - 19, and no point of small order: y = 3 + p, where 3 is a point's.
    let mut unreduced = [0xff; 32];
    (unreduced[0], unreduced[31]) = (0xed + 3, 0x7f);
    assert_eq!(sign::prepare(&mut multiples, &unreduced), Err(Rejected));
}

#[cfg_attr(test, test)]
fn signature_whose_point_is_of_small_order_is_refused() {
    // What the holder of the key can make with the neutral element as R: the equation of RFC 8032 holds.
    let public = sign::SigningKey::from_seed(&[7; 32]).public();
    let mut signature = [0; 64];
    signature[0] = 1;
    signature[32..].copy_from_slice(&bytes(
        "da24dd301f3fcaf1c146f65c196ec2bd17c39a49daf98b27130be7c9642a180a",
    ));
    let [mut of_key, mut of_base] = [(); 2].map(|()| Box::new([0; sign::MULTIPLES_WORDS]));
    sign::prepare_base(&mut of_base);
    sign::prepare(&mut of_key, &public).expect("an honest key");
    assert!(!sign::verify(&signature, b"any message", &public));
    assert!(!sign::verify_prepared(
        &signature,
        b"any message",
        &public,
        &of_key,
        &of_base
    ));
}

#[cfg_attr(test, test)]
fn a_prepared_key_takes_what_the_key_takes() {
    let [mut of_key, mut of_base] = [(); 2].map(|()| Box::new([0; sign::MULTIPLES_WORDS]));
    sign::prepare_base(&mut of_base);
    for seed in 0..16 {
        let key = sign::SigningKey::from_seed(&[seed; 32]);
        let public = key.public();
        sign::prepare(&mut of_key, &public).expect("an honest key");
        for number in 0_u32..16 {
            let message = number.to_le_bytes();
            let mut signature = key.sign(&message);
            assert!(sign::verify_prepared(
                &signature, &message, &public, &of_key, &of_base
            ));
            let at = usize::from(seed) * 4 + (number as usize & 3);
            signature[at] ^= 1 << (number & 7);
            assert!(!sign::verify_prepared(
                &signature, &message, &public, &of_key, &of_base
            ));
        }
    }
}

#[cfg_attr(test, test)]
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
    assert_eq!(
        aead::open_in_place(&key, &[4; 12], b"AD", &mut data, &tag),
        Err(Rejected)
    );
    assert_eq!(data, [0; 14]);
    data = sealed;
    tag[15] ^= 0x80;
    assert_eq!(
        aead::open_in_place(&key, &[4; 12], b"ad", &mut data, &tag),
        Err(Rejected)
    );
    assert_eq!(data, [0; 14]);
}

#[cfg_attr(test, test)]
fn empty_inputs_are_fine() {
    let key = aead::Key::new([3; 32]);
    let tag = aead::seal_in_place(&key, &[0; 12], &[], &mut []);
    assert_eq!(aead::open_in_place(&key, &[0; 12], &[], &mut [], &tag), Ok(()));
    assert_eq!(
        aead::open_in_place(&key, &[1; 12], &[], &mut [], &tag),
        Err(Rejected)
    );
    let signer = sign::SigningKey::from_seed(&[0; 32]);
    assert!(sign::verify(&signer.sign(&[]), &[], &signer.public()));
}

#[cfg_attr(test, test)]
fn derived_keys_depend_on_their_context() {
    let first = hash::derive_key("selfsame/1 test a", b"material");
    assert_ne!(first, hash::derive_key("selfsame/1 test b", b"material"));
    assert_ne!(first, <[u8; 32]>::from(blake3::hash(b"material")));
}

#[cfg_attr(test, test)]
fn comparing_and_wiping() {
    assert!(memory::equal(b"", b""));
    assert!(memory::equal(b"same", b"same"));
    assert!(!memory::equal(b"same", b"sane"));
    assert!(!memory::equal(b"same", b"sam"));
    let mut secret = [0xff; 33];
    memory::wipe(&mut secret);
    assert_eq!(secret, [0; 33]);
}

#[cfg_attr(test, test)]
fn debug_output_holds_no_secret() {
    let (secret, _) = xwing::keypair(&[0x5a; 32]);
    let lines = [
        format!("{:?}", sign::SigningKey::from_seed(&[0x5a; 32])),
        format!("{:?}", aead::Key::new([0x5a; 32])),
        format!("{secret:?}"),
    ];
    for line in lines {
        assert!(line.ends_with("(..)"), "{line}");
    }
}

/// The tests above by name, for a caller that has no test harness.
#[cfg(not(test))]
pub(crate) const ALL: [(&str, fn()); 14] = [
    (
        "x25519_refuses_every_point_of_small_order",
        x25519_refuses_every_point_of_small_order,
    ),
    (
        "xwing_refuses_every_point_of_small_order",
        xwing_refuses_every_point_of_small_order,
    ),
    (
        "xwing_refuses_an_unreduced_lattice_key",
        xwing_refuses_an_unreduced_lattice_key,
    ),
    (
        "xwing_secrets_agree_only_for_the_right_ciphertext",
        xwing_secrets_agree_only_for_the_right_ciphertext,
    ),
    (
        "signature_of_another_message_or_key_is_refused",
        signature_of_another_message_or_key_is_refused,
    ),
    (
        "signature_under_a_key_of_small_order_is_refused",
        signature_under_a_key_of_small_order_is_refused,
    ),
    (
        "keys_under_which_nothing_is_valid_are_not_prepared",
        keys_under_which_nothing_is_valid_are_not_prepared,
    ),
    (
        "signature_whose_point_is_of_small_order_is_refused",
        signature_whose_point_is_of_small_order_is_refused,
    ),
    (
        "a_prepared_key_takes_what_the_key_takes",
        a_prepared_key_takes_what_the_key_takes,
    ),
    ("refused_ciphertext_is_wiped", refused_ciphertext_is_wiped),
    ("empty_inputs_are_fine", empty_inputs_are_fine),
    (
        "derived_keys_depend_on_their_context",
        derived_keys_depend_on_their_context,
    ),
    ("comparing_and_wiping", comparing_and_wiping),
    ("debug_output_holds_no_secret", debug_output_holds_no_secret),
];
