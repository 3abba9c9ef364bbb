//! A request as it travels: `length u32 | request-head | body`.

use http::Method;

use crate::rpc::engine::MAX_MESSAGE_BYTES;
use selfsame_codec::http::MAX_HEAD;

const LENGTH_BYTES: usize = 4;
/// Longest body of a request: with the longest head, and what frames both, the longest message.
pub(super) const MAX_BODY_BYTES: usize = MAX_MESSAGE_BYTES - MAX_HEAD - 64;

/// Returns the value of a request.
pub(super) fn write(head: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], head, body].concat()
}

/// Returns the head and the body of a request.
pub(super) fn read(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = value.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

/// Whether a request of this method may be sent again, and so counts as a call that is idempotent.
pub(super) fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_return_from_their_bytes_and_others_do_not() {
        for (head, body) in [(&b""[..], &b""[..]), (b"head", b"body"), (b"", b"body")] {
            assert_eq!(read(&write(head, body)), Some((head, body)));
        }
        for wrong in [&b""[..], &[0, 0, 0], &[1, 0, 0, 0], &[0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
