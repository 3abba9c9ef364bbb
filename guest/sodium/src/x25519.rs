//! X25519 key agreement (RFC 7748).

use crate::{Rejected, SharedSecret, ffi};

/// Length of a public key, which is the u-coordinate of a point.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Length of a secret scalar, which is clamped when it is used.
pub const SCALAR_BYTES: usize = 32;

/// The public key of a secret scalar.
pub fn base(scalar: &[u8; SCALAR_BYTES]) -> [u8; PUBLIC_KEY_BYTES] {
    let mut public = [0; PUBLIC_KEY_BYTES];
    ffi::scalarmult_base(&mut public, scalar);
    public
}

/// The secret shared with the owner of `public_key`.
///
/// # Errors
///
/// [`Rejected`] when the result is all zeros (RFC 7748, 6.1): the peer sent a point of small order, and the secret
/// would not depend on our scalar.
pub fn scalarmult(
    scalar: &[u8; SCALAR_BYTES],
    public_key: &[u8; PUBLIC_KEY_BYTES],
) -> Result<SharedSecret, Rejected> {
    let mut shared = SharedSecret::zeroed();
    ffi::scalarmult(shared.as_mut(), scalar, public_key)?;
    Ok(shared)
}
