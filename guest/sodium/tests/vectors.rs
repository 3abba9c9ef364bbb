//! Every test vector of others that concerns what this crate offers, natively.

mod common;

use std::fs;
use std::path::Path;

/// Each file below `tests/vectors`, how many cases it has, and what stands before an expected output in it.
const FILES: [(&str, usize, &str); 13] = [
    ("blake3/test_vectors.json", 35, "\"derive_key\": \""),
    (
        "rfc/asymmetric_Ed25519_sign.input",
        1024,
        "511a:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a::",
    ),
    ("rfc/asymmetric_X25519_rfc7748.txt", 3, "OUTPUT_U = "),
    ("rfc/ciphers_ChaCha20Poly1305_boringssl.txt", 66, "TAG= "),
    ("rfc/ciphers_ChaCha20Poly1305_openssl.txt", 5, "Ciphertext = "),
    ("wycheproof/chacha20_poly1305_test.json", 325, "\"tag\": \""),
    ("wycheproof/ed25519_test.json", 151, "\"sig\": \""),
    ("wycheproof/mlkem_768_encaps_test.json", 265, "\"K\": \""),
    ("wycheproof/mlkem_768_keygen_seed_test.json", 100, "\"dk\": \""),
    ("wycheproof/mlkem_768_test.json", 193, "\"K\": \""),
    ("wycheproof/x25519_test.json", 518, "\"shared\": \""),
    ("wycheproof/xchacha20_poly1305_test.json", 315, "\"ct\": \""),
    ("xwing/test-vectors.json", 3, "\"ss\": \""),
];

fn read(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn every_case_of_every_file_passes() {
    for (path, cases, _) in FILES {
        let report = common::run(path, &read(path)).expect("a known file");
        assert!(report.failures.is_empty(), "{path}: {:#?}", report.failures);
        assert_eq!(report.passed, cases, "{path}");
    }
}

#[test]
fn one_changed_digit_in_an_expected_output_is_noticed() {
    for (path, _, marker) in FILES {
        let mut contents = read(path);
        let ends = contents.match_indices(marker).map(|(at, _)| at + marker.len());
        // An empty output has no digit to change.
        let mut filled = ends.filter(|end| !contents[*end..].starts_with('"'));
        let at = filled.next().unwrap_or_else(|| panic!("{path} has no {marker}"));
        let digit = if contents[at..].starts_with('0') { "1" } else { "0" };
        contents.replace_range(at..=at, digit);
        let report = common::run(path, &contents).expect("a known file");
        assert_eq!(report.failures.len(), 1, "{path}: {:?}", report.failures);
    }
}

#[test]
fn no_file_is_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut found = Vec::new();
    for group in fs::read_dir(folder).expect("the folder of vectors").flatten() {
        for file in fs::read_dir(group.path()).into_iter().flatten().flatten() {
            let name = format!("{}/{}", group.file_name().display(), file.file_name().display());
            if !name.contains("/LICENSE") {
                found.push(name);
            }
        }
    }
    found.sort();
    assert_eq!(found, FILES.map(|(path, _, _)| path));
}
