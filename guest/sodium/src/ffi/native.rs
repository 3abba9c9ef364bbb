//! One-time preparation of the native library.

use core::ffi::{c_char, c_int, c_void};
use core::hint;
use core::sync::atomic::{AtomicU8, Ordering};

/// `randombytes_implementation` of randombytes.h; the optional callbacks are null.
#[repr(C)]
struct RandomSource {
    name: extern "C" fn() -> *const c_char,
    random: extern "C" fn() -> u32,
    stir: Option<extern "C" fn()>,
    uniform: Option<extern "C" fn(u32) -> u32>,
    buf: extern "C" fn(*mut c_void, usize),
    close: Option<extern "C" fn() -> c_int>,
}

unsafe extern "C" {
    fn randombytes_set_implementation(source: *const RandomSource) -> c_int;

    // What sodium_init() calls for the algorithms that we use. It would also fill a canary from the random source,
    // which is the one thing that must not be there.
    fn _sodium_runtime_get_cpu_features() -> c_int;
    fn _crypto_onetimeauth_poly1305_pick_best_implementation() -> c_int;
    fn _crypto_scalarmult_curve25519_pick_best_implementation() -> c_int;
    fn _crypto_stream_chacha20_pick_best_implementation() -> c_int;
}

static NO_RANDOMNESS: RandomSource = RandomSource {
    name,
    random,
    stir: None,
    uniform: None,
    buf,
    close: None,
};

extern "C" fn name() -> *const c_char {
    c"none".as_ptr()
}

extern "C" fn random() -> u32 {
    // A panic cannot leave an `extern "C"` function: it aborts the process.
    panic!("libsodium asked for random bytes: pass a seed instead");
}

extern "C" fn buf(_: *mut c_void, _: usize) {
    random();
}

const FRESH: u8 = 0;
const PREPARING: u8 = 1;
const READY: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(FRESH);

#[inline]
pub(super) fn prepare() {
    if STATE.load(Ordering::Acquire) != READY {
        prepare_once();
    }
}

#[cold]
fn prepare_once() {
    if STATE
        .compare_exchange(FRESH, PREPARING, Ordering::Acquire, Ordering::Acquire)
        .is_err()
    {
        while STATE.load(Ordering::Acquire) != READY {
            hint::spin_loop();
        }
        return;
    }
    // SAFETY: these functions write libsodium's static function pointers. The exchange above lets one thread in, once;
    // every other function of this crate reads those only after it saw READY, which is stored after the writes.
    // `NO_RANDOMNESS` is static, has C's layout and fills every callback that the header calls required.
    unsafe {
        randombytes_set_implementation(&raw const NO_RANDOMNESS);
        _sodium_runtime_get_cpu_features();
        _crypto_onetimeauth_poly1305_pick_best_implementation();
        _crypto_scalarmult_curve25519_pick_best_implementation();
        _crypto_stream_chacha20_pick_best_implementation();
    }
    STATE.store(READY, Ordering::Release);
}
