//! libsodium's own random source must stop whoever asks it, so that no key can come from it unseen.

#[path = "common/random_source.rs"]
mod random_source;

use std::env;
use std::process::Command;

const CHILD: &str = "SELFSAME_ASK_FOR_RANDOMNESS";

#[test]
fn asking_libsodium_for_random_bytes_aborts() {
    if env::var_os(CHILD).is_some() {
        random_source::ask();
        return;
    }
    let output = Command::new(env::current_exe().expect("this test's path"))
        .args([
            "--exact",
            "asking_libsodium_for_random_bytes_aborts",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .expect("the test runs itself");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "random bytes were given");
    assert!(
        message.contains("libsodium asked for random bytes: pass a seed instead"),
        "{message}"
    );
}
