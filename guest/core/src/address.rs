//! Which addresses a record may name, and which of them may be dialled.

use alloc::string::String;

use selfsame_codec::{Code, Role};

use crate::hex;
use crate::identity::PeerId;

/// Longest address: room for a URL with a path and a certificate hash.
pub const MAX_ADDRESS_BYTES: usize = 512;

/// Schemes of the transports.
const SCHEMES: [&str; 7] = ["udp", "tcp", "ws", "wss", "http", "https", WEBRTC];
/// Its path says who is asked for a connection, and is no path of HTTP.
const WEBRTC: &str = "webrtc";
/// Where servers accept peers.
const MESH: &[u8] = b"/.mesh";
const RELAY: &str = "relay:";
/// Names that resolve inside a machine or an organisation, or to a cloud's metadata service.
const INSIDE_NAMES: [&[u8]; 6] = [
    b"localhost",
    b"local",
    b"internal",
    b"lan",
    b"intranet",
    b"home.arpa",
];

/// The address that names a member which relays for a leaf.
#[must_use]
pub fn relay_address(member: &PeerId) -> String {
    let mut address = String::from(RELAY);
    hex::push(&mut address, &member.0);
    address
}

/// The member that a `relay:` address names.
#[must_use]
pub fn relay_of(address: &str) -> Option<PeerId> {
    hex::parse(address.strip_prefix(RELAY)?).map(PeerId)
}

/// Checks that every address is a URL of a known scheme, or that of a relay if it is a leaf's, and, unless `allow_private`,
/// that none leads inside a machine or a private network: otherwise a record could make a node dial what only that node can
/// reach. A member is dialled itself: relays of a member could have relays, and so on.
///
/// # Errors
/// [`Code::BadAddress`] or [`Code::ForbiddenAddress`].
pub fn addresses_allowed(role: Role, addresses: &[String], allow_private: bool) -> Result<(), Code> {
    for address in addresses {
        if role == Role::Member || relay_of(address).is_none() {
            let is_private = leads_inside(address).ok_or(Code::BadAddress)?;
            if is_private && !allow_private {
                return Err(Code::ForbiddenAddress);
            }
        }
    }
    Ok(())
}

/// The scheme of a URL.
pub(crate) fn scheme_of(address: &str) -> Option<&'static str> {
    let is_its = |scheme: &&str| {
        address
            .strip_prefix(*scheme)
            .is_some_and(|rest| rest.starts_with("://"))
    };
    SCHEMES.into_iter().find(is_its)
}

/// The host of a URL, or of `host:port`, in the spelling of the URL.
pub(crate) fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = rest.get(..end).unwrap_or_default();
    match authority.rsplit_once(':') {
        // The colons within brackets are those of an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}

/// Whether a URL leads inside; `None` when it is none.
fn leads_inside(address: &str) -> Option<bool> {
    // A backslash, blank or fragment is read differently by different URL parsers: what is checked here must be
    // what is dialled later.
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#');
    if address.len() > MAX_ADDRESS_BYTES || !address.bytes().all(plain) {
        return None;
    }
    let scheme = scheme_of(address)?;
    let rest = address.as_bytes().get(scheme.len() + 3..)?;
    let authority = before(rest, |byte| matches!(byte, b'/' | b'?'));
    if scheme != WEBRTC && !is_mesh_path(&rest[authority.len()..]) {
        return None;
    }
    if let Some(rest) = authority.strip_prefix(b"[") {
        let host = before(rest, |byte| byte == b']');
        let port = rest.get(host.len() + 1..)?;
        is_port(port).then_some(is_private_v6(&read_v6(host)?))
    } else {
        let host = before(authority, |byte| byte == b':');
        let port = authority.get(host.len()..)?;
        is_port(port).then_some(is_private_host(host)?)
    }
}

/// Whether peers are accepted at a path: at none, at `/.mesh` behind any other, and at one name behind that. A record must
/// not make a node ask for anything else of a server.
fn is_mesh_path(path: &[u8]) -> bool {
    let name_at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let (parent, name) = path.split_at(name_at);
    // A name that begins with a dot is the folder itself or the one above it.
    let is_named = || matches!(name, [b'/', first, ..] if *first != b'.') && name[1..].iter().all(is_in_name);
    matches!(path, b"" | b"/")
        || !path.contains(&b'?') && (name == MESH || parent.ends_with(MESH) && is_named())
}

fn is_in_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

pub(crate) fn before(text: &[u8], ends: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|byte| ends(*byte)).unwrap_or(text.len());
    &text[..end]
}

/// Nothing, or a colon and a number of 16 bits.
fn is_port(text: &[u8]) -> bool {
    let Some(digits) = text.strip_prefix(b":") else {
        return text.is_empty();
    };
    number(digits, 10).is_some_and(|port| port <= 0xffff)
}

/// Reads digits of a base; there has to be one.
fn number(digits: &[u8], base: u32) -> Option<u32> {
    let mut value: u32 = 0;
    for digit in digits {
        let digit = char::from(*digit).to_digit(base)?;
        value = value.checked_mul(base)?.checked_add(digit)?;
    }
    (!digits.is_empty()).then_some(value)
}

/// Whether a host name or IPv4 address in any notation that URL parsers accept leads inside.
fn is_private_host(host: &[u8]) -> Option<bool> {
    let host = &host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()[..];
    if host.is_empty() || !host.iter().all(is_in_name) {
        return None;
    }
    let last = host.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    if last.starts_with(b"0x") || last.iter().all(u8::is_ascii_digit) {
        return read_v4(host).map(is_private_v4);
    }
    let inside = |name: &&[u8]| {
        host.strip_suffix(*name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
    };
    let is_one_label = last.len() == host.len();
    Some(is_one_label || INSIDE_NAMES.iter().any(inside))
}

/// Reads an IPv4 address as the URL standard does: one to four decimal, octal or hexadecimal numbers, the last of
/// which fills the bytes that are left.
// This and what reads IPv6 is not inlined: engines compile a function when it is first called, and most hosts are names.
#[inline(never)]
pub(crate) fn read_v4(host: &[u8]) -> Option<u32> {
    let count = host.split(|byte| *byte == b'.').count();
    if count > 4 {
        return None;
    }
    let mut address: u32 = 0;
    for (index, part) in host.split(|byte| *byte == b'.').enumerate() {
        let value = match part {
            b"0x" => 0,
            [b'0', b'x', hex @ ..] => number(hex, 16)?,
            [b'0', octal @ ..] if !octal.is_empty() => number(octal, 8)?,
            decimal => number(decimal, 10)?,
        };
        let is_last = index + 1 == count;
        let width = if is_last { 4 - index } else { 1 };
        if width < 4 && value >> (8 * width) != 0 {
            return None;
        }
        address |= if is_last { value } else { value << (24 - 8 * index) };
    }
    Some(address)
}

/// Reads an IPv6 address (RFC 4291, section 2.2) as the URL standard writes it: without a zone, and never with an IPv4 address
/// at its end.
#[inline(never)]
pub(crate) fn read_v6(text: &[u8]) -> Option<[u16; 8]> {
    let mut groups = [0; 8];
    let mut count = 0;
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix(b"::") {
        (gap, rest) = (Some(0), after);
    }
    while !rest.is_empty() {
        let part = before(rest, |byte| byte == b':');
        if part.len() > 4 {
            return None;
        }
        *groups.get_mut(count)? = number(part, 16)? as u16;
        count += 1;
        rest = &rest[part.len()..];
        if let Some(after) = rest.strip_prefix(b"::") {
            if gap.is_some() {
                return None;
            }
            (gap, rest) = (Some(count), after);
        } else if let Some(after) = rest.strip_prefix(b":") {
            if after.is_empty() {
                return None;
            }
            rest = after;
        }
    }
    match gap {
        None if count == 8 => {}
        Some(gap) if count < 8 => groups[gap..].rotate_right(8 - count),
        _ => return None,
    }
    Some(groups)
}

fn is_private_v4(address: u32) -> bool {
    let [a, b, c, _] = address.to_be_bytes();
    match a {
        // This host, private, loopback, multicast and reserved.
        0 | 10 | 127 | 224.. => true,
        // Carrier networks, among them a cloud's metadata service.
        100 => b & 0xc0 == 64,
        // Link-local, among them the metadata service of most clouds.
        169 => b == 254,
        172 => b & 0xf0 == 16,
        192 => b == 168 || (b == 0 && c == 0),
        198 => b & 0xfe == 18,
        _ => false,
    }
}

#[inline(never)]
pub(crate) fn is_private_v6(address: &[u16; 8]) -> bool {
    let [a, b, c, d, e, f, g, h] = *address;
    let v4 = |high: u16, low: u16| is_private_v4(u32::from(high) << 16 | u32::from(low));
    if [a, b, c, d] == [0; 4] {
        // Unspecified, loopback, and IPv4 in its compatible, mapped and translated forms.
        return match (e, f) {
            (0, 0) => true,
            (0, 0xffff) | (0xffff, 0) => v4(g, h),
            _ => true,
        };
    }
    match a {
        0x64 if b == 0xff9b => c != 0 || v4(g, h),
        0x2002 => v4(b, c),
        // Unique local, link-local, site-local, multicast.
        _ => a & 0xfe00 == 0xfc00 || a & 0xff80 == 0xfe80 || a & 0xff00 == 0xff00,
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv6Addr;

    use super::*;

    #[test]
    fn addresses_that_lead_inside_are_refused_unless_allowed() {
        for inside in [
            "http://127.0.0.1:80/",
            "ws://127.1",
            "ws://2130706433/",
            "ws://0x7f.1/",
            "ws://0177.0.0.1/",
            "tcp://10.1.2.3:1",
            "udp://172.31.0.1:1",
            "ws://192.168.1.1",
            "http://169.254.169.254/",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "http://LOCALHOST./",
            "http://db/",
            "http://x.local",
            "ws://[::1]:7000",
            "ws://[::ffff:7f00:1]/",
            "ws://[::7f00:1]/",
            "ws://[64:ff9b::7f00:1]/",
            "ws://[2002:7f00:1::]/",
            "ws://[fd00::1]",
            "ws://[fe80::1]",
            "ws://0.0.0.0/",
        ] {
            let addresses = [String::from(inside)];
            assert_eq!(
                addresses_allowed(Role::Leaf, &addresses, false),
                Err(Code::ForbiddenAddress),
                "{inside}"
            );
            assert_eq!(
                addresses_allowed(Role::Leaf, &addresses, true),
                Ok(()),
                "{inside}"
            );
        }
    }

    #[test]
    fn public_addresses_are_allowed() {
        let relay = relay_address(&PeerId([7; 32]));
        for outside in [
            "wss://a.example/.mesh",
            "https://a.example:8443/behind/a/proxy/.mesh",
            "https://a.example/.mesh/eu-1.b_2",
            "udp://8.8.8.8:53",
            "ws://[2606:4700::1]:80/",
            "ws://localhost.example",
            "webrtc://9.9.9.9:1/abcd",
            &relay,
        ] {
            assert_eq!(
                addresses_allowed(Role::Leaf, &[outside.into()], false),
                Ok(()),
                "{outside}"
            );
        }
        assert_eq!(relay_of(&relay), Some(PeerId([7; 32])));
        let of_member = addresses_allowed(Role::Member, &[relay], true);
        assert_eq!(of_member, Err(Code::BadAddress), "a member is dialled itself");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "",
            "a.example",
            "ftp://a.example",
            "ws://",
            "ws://user@a.example",
            "ws://a.example:99999",
            "ws://a.example:",
            "ws://a.example:+1",
            "ws://a.example#id",
            "ws://a.example\\@b",
            "ws://a b",
            "ws://256.1.1.1",
            "ws://1.2.3.4.5",
            "ws://%31%32%37.1",
            "ws://[::1",
            "ws://[::1]x",
            "ws://[fe80::1%25eth0]/",
            "ws://[::ffff:127.0.0.1]/",
            "relay:00",
            "http://a.example/delete?all",
            "http://a.example/?/.mesh",
            "https://a.example/x?y/.mesh",
            "https://a.example/x",
            "https://a.example/.mesh/",
            "https://a.example/.mesh/..",
            "https://a.example/.mesh/%2e%2e",
            "https://a.example/.mesh/a/b",
            "https://a.example/.meshes",
            "tcp://a.example:1/x",
        ] {
            assert_eq!(
                addresses_allowed(Role::Leaf, &[bad.into()], true),
                Err(Code::BadAddress),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_ipv6_address_is_read_as_the_standard_library_reads_it() {
        const PARTS: [&str; 14] = [
            ":",
            "::",
            "0",
            "1",
            "ffff",
            "12345",
            "g",
            "1.2.3.4",
            "01.2.3.4",
            "256.1.1.1",
            ".",
            "1.2.3",
            "a",
            "F0",
        ];
        let mut state = 1_u32;
        let mut valid = 0;
        for _ in 0..300_000 {
            let mut text = String::new();
            let mut next = |bound: u32| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) % bound
            };
            for _ in 0..next(18) {
                // Every second part a colon, mostly.
                let part = if next(3) == 0 {
                    next(14)
                } else {
                    next(2) * (2 + next(3))
                };
                text.push_str(PARTS[part as usize]);
            }
            let expected = text.parse::<Ipv6Addr>().ok();
            let expected = expected
                .filter(|_| !text.contains('.'))
                .map(|address| address.segments());
            valid += usize::from(expected.is_some());
            assert_eq!(read_v6(text.as_bytes()), expected, "{text}");
        }
        assert!(valid > 1000, "{valid}");
    }
}
