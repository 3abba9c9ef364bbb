//! The library prepares itself once, whichever thread comes first.

use selfsame_sodium::sign;

#[test]
fn many_threads_may_start_at_once() {
    std::thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || {
                let key = sign::SigningKey::from_seed(&[seed; 32]);
                assert!(sign::verify(&key.sign(b"message"), b"message", &key.public()));
            });
        }
    });
}
