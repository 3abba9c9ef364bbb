//! Where a peer of a closed network is seen, beside the address that its certificate names.

use crate::address::{host_of, is_private_v6, read_v4, read_v6};

/// Whether a peer that was seen at `remote`, over TCP or UDP and without a proxy between, is not at its certified address.
///
/// Says nothing of names, nor of a peer with a public address that is seen at a private one: it is in the same network, or
/// behind the same translator of addresses.
pub(super) fn is_elsewhere(remote: &str, certified: &str) -> bool {
    // Hosts give the address with or without a port; with one, an IPv6 address has brackets.
    let seen = ip_of(remote).or_else(|| ip_of(host_of(remote)));
    match (ip_of(host_of(certified)), seen) {
        (Some(certified), Some(seen)) => {
            certified != seen && (is_private_v6(&certified) || !is_private_v6(&seen))
        }
        _ => false,
    }
}

/// An address of either kind, IPv4 as an IPv4-mapped one.
fn ip_of(text: &str) -> Option<[u16; 8]> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let plain = text
        .strip_prefix("::ffff:")
        .filter(|rest| rest.contains('.'))
        .unwrap_or(text);
    if let Some(v4) = read_v4(plain.as_bytes()) {
        return Some([0, 0, 0, 0, 0, 0xffff, (v4 >> 16) as u16, v4 as u16]);
    }
    read_v6(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_compared_and_not_its_spelling() {
        for (remote, certified) in [
            ("192.0.2.1", "192.0.2.1:443"),
            ("192.0.2.1:5555", "192.0.2.1:443"),
            ("::ffff:192.0.2.1", "192.0.2.1:443"),
            ("[::ffff:c000:201]:5555", "192.0.2.1:443"),
            ("2001:db8::1", "[2001:db8:0::1]:443"),
            ("[2001:db8::1]:5", "[2001:db8::1]:443"),
            ("198.51.100.7", "node.example:443"),
            ("", "192.0.2.1:443"),
            ("unix socket", "192.0.2.1:443"),
        ] {
            assert!(!is_elsewhere(remote, certified), "{remote} {certified}");
        }
    }

    #[test]
    fn another_address_is_noticed() {
        for (remote, certified) in [
            ("198.51.100.7", "192.0.2.1:443"),
            ("192.0.2.2:443", "192.0.2.1:443"),
            ("2001:db8::2", "[2001:db8::1]:443"),
            ("2001:db8::1", "192.0.2.1:443"),
            ("192.0.2.1", "[2001:db8::1]:443"),
            ("127.0.0.1", "10.0.0.1:443"),
            ("10.0.0.2", "127.0.0.1:443"),
        ] {
            assert!(is_elsewhere(remote, certified), "{remote} {certified}");
        }
    }

    #[test]
    fn peer_behind_the_same_translator_is_let_in() {
        for remote in ["10.0.0.1", "192.168.1.1:7", "127.0.0.1", "fd00::1", "::1"] {
            assert!(!is_elsewhere(remote, "192.0.2.1:443"), "{remote}");
        }
    }
}
