//! HMAC-SHA-256 gives what RFC 4231, section 4, says.

use selfsame_sodium::hash::hmac_sha256;

const CASES: [(&[u8], &[u8], &str); 5] = [
    (
        &[0x0b; 20],
        b"Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    ),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    (
        &[0xaa; 20],
        &[0xdd; 50],
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
    ),
    (
        &[0xaa; 131],
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        &[0xaa; 131],
        b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed \
          before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
];

#[test]
fn mac_is_that_of_the_standard_however_it_is_cut() {
    for (key, data, expected) in CASES {
        for cut in 0..=data.len() {
            let (head, tail) = data.split_at(cut);
            let mac: String = hmac_sha256(key, &[head, &[], tail])
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(mac, expected);
        }
    }
}
