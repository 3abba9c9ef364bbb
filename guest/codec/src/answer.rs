use alloc::vec::Vec;

use crate::code::Code;
use crate::field::Field;

/// What `derive` and `verify` of a module answer: the status `u16`, 0 or a code, then the result.
#[must_use]
pub fn answer(result: Result<Vec<u8>, Code>) -> Vec<u8> {
    let mut out = Vec::new();
    match result {
        Ok(bytes) => {
            0_u16.write(&mut out);
            out.extend_from_slice(&bytes);
        }
        Err(code) => code.as_u16().write(&mut out),
    }
    out
}
