//! Base32 and base64url (RFC 4648) without padding.

use alloc::string::String;
use alloc::vec::Vec;

const BASE32_DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const BASE64URL_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Bits of a digit of base64url.
const BASE64URL_BITS: u32 = 6;

/// Encodes bytes in base32, in lower case.
pub(crate) fn base32(bytes: &[u8]) -> String {
    encode(bytes, BASE32_DIGITS, 5)
}

/// Encodes bytes in base64url.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    encode(bytes, BASE64URL_DIGITS, BASE64URL_BITS)
}

/// Decodes base64url; `None` unless the text is the one encoding of its bytes.
pub(crate) fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let mut pending: u32 = 0;
    let mut bits = 0;
    for digit in text {
        let value = BASE64URL_DIGITS.iter().position(|known| known == digit)?;
        pending = (pending << BASE64URL_BITS) | value as u32;
        bits += BASE64URL_BITS;
        if bits >= 8 {
            bits -= 8;
            out.push((pending >> bits) as u8);
            pending &= (1 << bits) - 1;
        }
    }
    (bits < BASE64URL_BITS && pending == 0).then_some(out)
}

fn encode(bytes: &[u8], digits: &[u8], digit_bits: u32) -> String {
    let mut out = String::new();
    let mut pending: u32 = 0;
    let mut bits = 0;
    for byte in bytes {
        pending = (pending << 8) | u32::from(*byte);
        bits += 8;
        while bits >= digit_bits {
            bits -= digit_bits;
            out.push(char::from(digits[(pending >> bits) as usize]));
            pending &= (1 << bits) - 1;
        }
    }
    if bits > 0 {
        out.push(char::from(digits[(pending << (digit_bits - bits)) as usize]));
    }
    out
}
