//! Bytes as hexadecimal digits.

/// Lower-case digits, two a byte.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        assert_eq!(encode(&[0, 0x7f, 0xff]), "007fff");
        assert_eq!(decode("007fff"), Some(vec![0, 0x7f, 0xff]));
        assert_eq!(decode(""), Some(vec![]));
        for bad in ["0", "0g", "+1", "\u{e9}"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
