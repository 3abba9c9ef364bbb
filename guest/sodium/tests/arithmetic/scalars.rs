use blake3::Hasher;

/// A number of 256 bits, little-endian.
pub(super) type Bytes = [u8; 32];

/// The order of Ed25519's base point: 2^252 + 27742317777372353535851937790883648493.
pub(super) const ORDER: Bytes = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// Random numbers, the same every time.
pub(super) fn random(count: usize) -> Vec<Bytes> {
    let mut bytes = vec![0; 32 * count];
    Hasher::new().finalize_xof().fill(&mut bytes);
    let number = |chunk: &[u8]| Bytes::try_from(chunk).expect("32 bytes");
    bytes.chunks_exact(32).map(number).collect()
}

/// The hash of all that was added, in hexadecimal digits.
pub(super) fn digest(results: &Hasher) -> String {
    results.finalize().to_hex().to_string()
}
