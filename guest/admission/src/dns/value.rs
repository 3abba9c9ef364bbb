//! Values of TXT records: `selfsame1=` and base64url.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::{Code, Malformed};

use super::base::{base64url, decode_base64url};

/// Longest value: a certificate.
pub const MAX_VALUE_BYTES: usize = 320;
/// What the text of our values begins with; other TXT records of a name are none of ours.
const PREFIX: &str = "selfsame1=";
/// Length of the text of the longest value.
const MAX_TEXT_BYTES: usize = PREFIX.len() + (MAX_VALUE_BYTES * 4).div_ceil(3);
/// Longest string of a TXT record (RFC 1035, section 3.3).
const MAX_STRING_BYTES: usize = 255;

/// Returns the strings that a TXT record holds a value in.
///
/// # Errors
/// [`Code::TooLarge`] when the value is longer than [`MAX_VALUE_BYTES`], [`Code::BadDnsValue`] when it is empty.
pub(crate) fn strings(value: &[u8]) -> Result<Vec<String>, Code> {
    if value.is_empty() {
        return Err(Code::BadDnsValue);
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(Code::TooLarge);
    }
    let mut first = String::from(PREFIX);
    first.push_str(&base64url(value));
    let rest = first.split_off(first.len().min(MAX_STRING_BYTES));
    Ok([first, rest]
        .into_iter()
        .filter(|string| !string.is_empty())
        .collect())
}

/// Returns the data of a TXT record with a value.
///
/// # Errors
/// As [`strings`].
pub(crate) fn data(value: &[u8]) -> Result<Vec<u8>, Code> {
    let mut data = Vec::new();
    for string in strings(value)? {
        data.push(string.len() as u8);
        data.extend_from_slice(string.as_bytes());
    }
    Ok(data)
}

/// What the data of a TXT record holds.
pub(crate) enum Value {
    /// One of ours.
    Ours(Vec<u8>),
    /// One that begins as ours and is none, and why.
    Bad(Code),
    /// Another use of TXT records.
    Foreign,
}

/// Reads the data of a TXT record.
///
/// # Errors
/// [`Malformed`] when it is no sequence of strings.
pub(crate) fn read(data: &[u8]) -> Result<Value, Malformed> {
    let text = concatenated(data)?;
    Ok(match text.strip_prefix(PREFIX.as_bytes()) {
        None => Value::Foreign,
        Some(_) if text.len() > MAX_TEXT_BYTES => Value::Bad(Code::TooLarge),
        Some(digits) => match decode_base64url(digits) {
            Some(value) if !value.is_empty() => Value::Ours(value),
            _ => Value::Bad(Code::BadDnsValue),
        },
    })
}

fn concatenated(mut data: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut text = Vec::new();
    while let [len, rest @ ..] = data {
        let (string, next) = rest.split_at_checked(usize::from(*len)).ok_or(Malformed)?;
        text.extend_from_slice(string);
        data = next;
    }
    Ok(text)
}
