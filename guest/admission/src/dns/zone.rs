use alloc::format;
use alloc::string::String;

use selfsame_codec::Code;

use super::name::Name;
use super::value;

/// Returns the line of a zone file (RFC 1035, section 5.1) with the TXT record of a value, without an end of line.
///
/// # Errors
/// [`Code::TooLarge`] when the value is, [`Code::BadDnsValue`] when it is empty.
pub fn zone_line(name: &Name, ttl_s: u32, value: &[u8]) -> Result<String, Code> {
    let mut line = format!("{name}. {ttl_s} IN TXT");
    // Neither a quote nor a backslash is a digit of base64url: there is nothing to escape.
    for string in value::strings(value)? {
        line.push_str(&format!(" \"{string}\""));
    }
    Ok(line)
}
