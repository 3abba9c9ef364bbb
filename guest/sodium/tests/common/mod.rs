//! Runs files of test vectors against the crate. The native tests and the WebAssembly test share it.

mod case;
mod text;
mod upstream;
mod wycheproof;

use case::Outcome;
use serde_json::Value;

/// What became of one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Cases that gave what the file says.
    pub(crate) passed: usize,
    /// One line for each case that did not.
    pub(crate) failures: Vec<String>,
}

impl Report {
    fn add(&mut self, label: impl core::fmt::Display, outcome: Outcome) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(reason) => self.failures.push(format!("{label}: {reason}")),
        }
    }
}

/// Runs every case of a file, chosen by its path below `tests/vectors`.
///
/// # Errors
///
/// A sentence, when the file is unknown or not in the form it should have.
pub(crate) fn run(path: &str, contents: &str) -> Result<Report, String> {
    match path {
        "rfc/asymmetric_Ed25519_sign.input" => text::ed25519(contents),
        "rfc/asymmetric_X25519_rfc7748.txt" => text::x25519(contents),
        "rfc/ciphers_ChaCha20Poly1305_boringssl.txt" | "rfc/ciphers_ChaCha20Poly1305_openssl.txt" => {
            text::chacha20poly1305(contents)
        }
        _ => {
            let json: Value = serde_json::from_str(contents).map_err(|error| format!("{path}: {error}"))?;
            match path {
                "xwing/test-vectors.json" => wycheproof::flat(&json, case::xwing),
                "blake3/test_vectors.json" => wycheproof::blake3(&json),
                "wycheproof/chacha20_poly1305_test.json" => {
                    wycheproof::grouped(&json, case::chacha20poly1305)
                }
                "wycheproof/xchacha20_poly1305_test.json" => {
                    wycheproof::grouped(&json, case::xchacha20poly1305)
                }
                "wycheproof/ed25519_test.json" => wycheproof::grouped(&json, case::ed25519),
                "wycheproof/x25519_test.json" => wycheproof::grouped(&json, case::x25519),
                "wycheproof/mlkem_768_test.json" => wycheproof::grouped(&json, case::mlkem768_decapsulate),
                "wycheproof/mlkem_768_encaps_test.json" => {
                    wycheproof::grouped(&json, case::mlkem768_encapsulate)
                }
                "wycheproof/mlkem_768_keygen_seed_test.json" => {
                    wycheproof::grouped(&json, case::mlkem768_keypair)
                }
                _ => Err(format!("{path}: no test knows this file")),
            }
        }
    }
}
