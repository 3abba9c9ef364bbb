//! Where a panic happened, for whoever catches it.

use std::panic;
use std::sync::Mutex;

static PLACE: Mutex<String> = Mutex::new(String::new());

/// Notes the place of each panic in place of printing it.
pub(crate) fn note_places() {
    panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map(|at| format!(" at {}:{}", at.file(), at.line()));
        if let Ok(mut noted) = PLACE.lock() {
            *noted = place.unwrap_or_default();
        }
    }));
}

/// The place of the last panic, which is forgotten.
pub(crate) fn take_place() -> String {
    PLACE
        .lock()
        .map(|mut noted| core::mem::take(&mut *noted))
        .unwrap_or_default()
}
