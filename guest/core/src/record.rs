//! Node records: what a node signs about itself so that others may dial it.
//!
//! ```cddl
//! node-record = [statement: bytes .cbor record-statement, signature: bytes .size 64]
//! record-statement = [version: 1, net: bytes .size 32, public-key: bytes .size 32, role: 0 / 1,
//!                     addresses: [0*8 text .size (1..512)], domain: text .size (0..64),
//!                     sequence-ms: uint, expiry-ms: uint]
//! ```
//!
//! The signature is over the statement under the label `selfsame/1 node record`.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed, Role};

use crate::identity::{Identity, NetworkId, PeerId, PublicKey, Signature};

/// Most addresses in a record: several transports on two or three interfaces, and still one small message.
pub const MAX_ADDRESSES: usize = 8;
/// Longest address: room for a URL with a path and a certificate hash.
pub const MAX_ADDRESS_BYTES: usize = 512;
/// Longest label of what fails together.
pub const MAX_DOMAIN_BYTES: usize = 64;
/// Longest life of a record: a node that is gone is forgotten within a day.
pub const MAX_RECORD_LIFE_MS: u64 = 24 * 60 * 60 * 1000;
/// How far the clock of an honest node may run ahead of ours.
pub const CLOCK_SKEW_MS: u64 = 60_000;
/// Longest encoding of a record that follows the limits above.
pub const MAX_RECORD_BYTES: usize = MAX_ADDRESSES * (MAX_ADDRESS_BYTES + 3) + MAX_DOMAIN_BYTES + 256;

const LABEL: &str = "selfsame/1 node record";
const VERSION: u64 = 1;
/// Schemes of the transports.
const SCHEMES: [&str; 7] = ["udp", "tcp", "ws", "wss", "http", "https", "webrtc"];
const RELAY: &str = "relay:";
/// Names that resolve inside a machine or an organisation, or to a cloud's metadata service.
const INSIDE_NAMES: [&str; 6] = ["localhost", "local", "internal", "lan", "intranet", "home.arpa"];

/// What a node says about itself, verified
#[derive(Clone, PartialEq, Eq)]
pub struct NodeRecord {
    id: PeerId,
    public: PublicKey,
    role: Role,
    addresses: Vec<String>,
    domain: String,
    sequence_ms: u64,
    expiry_ms: u64,
    encoded: Vec<u8>,
}

impl NodeRecord {
    /// Signs a record that lives from `sequence_ms` until `expiry_ms`.
    ///
    /// # Errors
    /// [`Code::BadAddress`] or [`Code::BadConfig`] when addresses, label or times are outside the limits.
    pub fn sign(
        identity: &Identity,
        role: Role,
        addresses: &[String],
        domain: &str,
        sequence_ms: u64,
        expiry_ms: u64,
    ) -> Result<Self, Code> {
        if addresses.len() > MAX_ADDRESSES || domain.len() > MAX_DOMAIN_BYTES {
            return Err(Code::BadConfig);
        }
        if expiry_ms <= sequence_ms || expiry_ms - sequence_ms > MAX_RECORD_LIFE_MS {
            return Err(Code::BadConfig);
        }
        addresses_allowed(addresses, true)?;
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(8)
            .uint(VERSION)
            .bytes(&identity.network().0)
            .bytes(&identity.public().0)
            .uint(u64::from(role == Role::Member));
        encoder.array(addresses.len());
        for address in addresses {
            encoder.text(address);
        }
        encoder.text(domain).uint(sequence_ms).uint(expiry_ms);
        let signature = identity.sign(LABEL, &statement);
        Ok(Self {
            id: identity.id(),
            public: identity.public(),
            role,
            addresses: addresses.to_vec(),
            domain: domain.into(),
            sequence_ms,
            expiry_ms,
            encoded: signed(&statement, &signature),
        })
    }

    /// Reads a record of a network and verifies its signature and times.
    ///
    /// Whether its addresses may be dialled is for [`addresses_allowed`] to say.
    ///
    /// # Errors
    /// [`Code::BadRecord`], [`Code::WrongNetwork`], [`Code::StaleRecord`] or [`Code::BadSignature`].
    pub fn decode_verified(bytes: &[u8], network: &NetworkId, now_ms: u64) -> Result<Self, Code> {
        let record = Self::decode(bytes, network)?;
        if !record.is_current(now_ms) {
            return Err(Code::StaleRecord);
        }
        Ok(record)
    }

    /// Reads a record and verifies everything but its times.
    fn decode(bytes: &[u8], network: &NetworkId) -> Result<Self, Code> {
        let (statement, signature) = unsigned(bytes, MAX_RECORD_BYTES).map_err(|_| Code::BadRecord)?;
        let (net, mut record) = Self::read_statement(statement).map_err(|_| Code::BadRecord)?;
        if net != *network {
            return Err(Code::WrongNetwork);
        }
        addresses_allowed(&record.addresses, true).map_err(|_| Code::BadRecord)?;
        if record.expiry_ms <= record.sequence_ms
            || record.expiry_ms - record.sequence_ms > MAX_RECORD_LIFE_MS
        {
            return Err(Code::BadRecord);
        }
        if !record.public.verifies(LABEL, statement, &signature) {
            return Err(Code::BadSignature);
        }
        record.id = PeerId::of(&record.public, network);
        record.encoded = bytes.to_vec();
        Ok(record)
    }

    /// The id of the node that a record claims to be of, nothing verified.
    pub(crate) fn claimed_id(bytes: &[u8], network: &NetworkId) -> Option<PeerId> {
        let (statement, _) = unsigned(bytes, MAX_RECORD_BYTES).ok()?;
        let mut decoder = Decoder::new(statement);
        decoder.array_of(8).ok()?;
        decoder.uint_max(VERSION).ok()?;
        decoder.fixed::<32>().ok()?;
        Some(PeerId::of(&PublicKey(decoder.fixed().ok()?), network))
    }

    fn read_statement(statement: &[u8]) -> Result<(NetworkId, Self), Malformed> {
        let mut decoder = Decoder::new(statement);
        decoder.array_of(8)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let network = NetworkId(decoder.fixed()?);
        let public = PublicKey(decoder.fixed()?);
        let role = match decoder.uint_max(1)? {
            1 => Role::Member,
            _ => Role::Leaf,
        };
        let count = decoder.array(MAX_ADDRESSES)?;
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            addresses.push(decoder.text(MAX_ADDRESS_BYTES)?.into());
        }
        let record = Self {
            id: PeerId([0; 32]),
            public,
            role,
            addresses,
            domain: decoder.text(MAX_DOMAIN_BYTES)?.into(),
            sequence_ms: decoder.uint()?,
            expiry_ms: decoder.uint()?,
            encoded: Vec::new(),
        };
        decoder.finish()?;
        Ok((network, record))
    }

    /// Whether the record is neither expired nor from the future.
    #[must_use]
    pub fn is_current(&self, now_ms: u64) -> bool {
        now_ms < self.expiry_ms && self.sequence_ms <= now_ms.saturating_add(CLOCK_SKEW_MS)
    }

    /// The node's id, derived from its key.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// The node's key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Member or leaf.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// URLs at which the node can be dialled, or `relay:` and the id of a member that relays for it.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Label of what fails together with it; may be empty.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// When it was signed; the higher one of two records of a node counts.
    #[must_use]
    pub fn sequence_ms(&self) -> u64 {
        self.sequence_ms
    }

    /// When it stops to count.
    #[must_use]
    pub fn expiry_ms(&self) -> u64 {
        self.expiry_ms
    }

    /// The record as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl core::fmt::Debug for NodeRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeRecord")
            .field("id", &self.id)
            .field("role", &self.role)
            .field("addresses", &self.addresses)
            .field("sequence_ms", &self.sequence_ms)
            .finish_non_exhaustive()
    }
}

/// Wraps a statement and its signature: `[bytes, bytes .size 64]`.
pub(crate) fn signed(statement: &[u8], signature: &Signature) -> Vec<u8> {
    let mut out = Vec::with_capacity(statement.len() + 72);
    Encoder::new(&mut out)
        .array(2)
        .bytes(statement)
        .bytes(&signature.0);
    out
}

/// Takes a signed statement of at most `max` bytes apart.
pub(crate) fn unsigned(bytes: &[u8], max: usize) -> Result<(&[u8], Signature), Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let statement = decoder.bytes(max)?;
    let signature = Signature(decoder.fixed()?);
    decoder.finish()?;
    Ok((statement, signature))
}

/// The address that names a member which relays for a leaf.
#[must_use]
pub fn relay_address(member: &PeerId) -> String {
    alloc::format!("{RELAY}{member}")
}

/// The member that a `relay:` address names.
#[must_use]
pub fn relay_of(address: &str) -> Option<PeerId> {
    let hex = address.strip_prefix(RELAY)?.as_bytes();
    if hex.len() != 64 {
        return None;
    }
    let mut id = [0; 32];
    for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(PeerId(id))
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Checks that every address is a URL of a known scheme and, unless `allow_private`, that none leads inside a machine
/// or a private network: otherwise a record could make a node dial what only that node can reach.
///
/// # Errors
/// [`Code::BadAddress`] or [`Code::ForbiddenAddress`].
pub fn addresses_allowed(addresses: &[String], allow_private: bool) -> Result<(), Code> {
    addresses
        .iter()
        .try_for_each(|address| address_allowed(address, allow_private))
}

fn address_allowed(address: &str, allow_private: bool) -> Result<(), Code> {
    if relay_of(address).is_some() {
        return Ok(());
    }
    // A backslash, blank or fragment is read differently by different URL parsers: what is checked here must be
    // what is dialled later.
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#');
    if address.is_empty() || address.len() > MAX_ADDRESS_BYTES || !address.bytes().all(plain) {
        return Err(Code::BadAddress);
    }
    let (scheme, rest) = address.split_once("://").ok_or(Code::BadAddress)?;
    if !SCHEMES.contains(&scheme) {
        return Err(Code::BadAddress);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let private = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(Code::BadAddress)?;
            check_port(port.strip_prefix(':'), port.is_empty())?;
            is_private_v6(&host.parse().map_err(|_| Code::BadAddress)?)
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            check_port(port, port.is_none())?;
            is_private_host(host)?
        }
    };
    if private && !allow_private {
        return Err(Code::ForbiddenAddress);
    }
    Ok(())
}

fn check_port(port: Option<&str>, absent: bool) -> Result<(), Code> {
    let valid = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if absent || port.is_some_and(valid) {
        Ok(())
    } else {
        Err(Code::BadAddress)
    }
}

/// Whether a host name or IPv4 address in any notation that URL parsers accept leads inside.
fn is_private_host(host: &str) -> Result<bool, Code> {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(known) {
        return Err(Code::BadAddress);
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return read_v4(&host).map(is_private_v4).ok_or(Code::BadAddress);
    }
    let inside = |name: &&str| {
        host.strip_suffix(*name)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    Ok(!host.contains('.') || INSIDE_NAMES.iter().any(inside))
}

/// Reads an IPv4 address as the URL standard does: one to four decimal, octal or hexadecimal numbers, the last of
/// which fills the bytes that are left.
fn read_v4(host: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = host.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut address: u32 = 0;
    for (index, part) in parts.iter().enumerate() {
        let value = if let Some(hex) = part.strip_prefix("0x") {
            u32::from_str_radix(if hex.is_empty() { "0" } else { hex }, 16).ok()?
        } else if part.len() > 1 && part.starts_with('0') {
            u32::from_str_radix(part, 8).ok()?
        } else {
            part.parse().ok()?
        };
        let is_last = index + 1 == parts.len();
        let width = if is_last { 4 - index } else { 1 };
        if width < 4 && value >> (8 * width) != 0 {
            return None;
        }
        address |= if is_last { value } else { value << (24 - 8 * index) };
    }
    Some(Ipv4Addr::from(address))
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
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

fn is_private_v6(address: &Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| is_private_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
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
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn identity() -> Identity {
        Identity::of_peer(&[1; 32], NetworkId::open("n"))
    }

    fn record() -> NodeRecord {
        let addresses = [String::from("wss://a.example/mesh")];
        NodeRecord::sign(&identity(), Role::Member, &addresses, "eu", NOW, NOW + 1000).expect("within limits")
    }

    #[test]
    fn a_record_comes_back() {
        let record = record();
        let read = NodeRecord::decode_verified(record.encoded(), &identity().network(), NOW);
        assert_eq!(read, Ok(record));
    }

    #[test]
    fn a_changed_byte_is_refused() {
        let good = record();
        for index in 0..good.encoded().len() {
            let mut bytes = good.encoded().to_vec();
            bytes[index] ^= 1;
            assert!(
                NodeRecord::decode_verified(&bytes, &identity().network(), NOW).is_err(),
                "byte {index}"
            );
        }
    }

    #[test]
    fn another_network_and_wrong_times_are_refused() {
        let record = record();
        let decode = |network: &str, now| {
            NodeRecord::decode_verified(record.encoded(), &NetworkId::open(network), now).map(|_| ())
        };
        assert_eq!(decode("n", NOW), Ok(()));
        assert_eq!(decode("m", NOW), Err(Code::WrongNetwork));
        assert_eq!(decode("n", NOW + 1000), Err(Code::StaleRecord));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS), Ok(()));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS - 1), Err(Code::StaleRecord));
    }

    #[test]
    fn a_life_beyond_a_day_is_not_signed() {
        let life = MAX_RECORD_LIFE_MS + 1;
        let signed = NodeRecord::sign(&identity(), Role::Leaf, &[], "", NOW, NOW + life);
        assert_eq!(signed, Err(Code::BadConfig));
    }

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
            "http://169.254.169.254/latest",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "http://LOCALHOST./",
            "http://db/",
            "http://x.local",
            "ws://[::1]:7000",
            "ws://[::ffff:127.0.0.1]/",
            "ws://[::127.0.0.1]/",
            "ws://[64:ff9b::7f00:1]/",
            "ws://[2002:7f00:1::]/",
            "ws://[fd00::1]",
            "ws://[fe80::1]",
            "ws://0.0.0.0/",
        ] {
            let addresses = [String::from(inside)];
            assert_eq!(
                addresses_allowed(&addresses, false),
                Err(Code::ForbiddenAddress),
                "{inside}"
            );
            assert_eq!(addresses_allowed(&addresses, true), Ok(()), "{inside}");
        }
    }

    #[test]
    fn public_addresses_are_allowed() {
        let relay = relay_address(&identity().id());
        for outside in [
            "wss://a.example/x?y",
            "udp://8.8.8.8:53",
            "ws://[2606:4700::1]:80/",
            "ws://localhost.example",
            "webrtc://9.9.9.9:1/abcd",
            &relay,
        ] {
            assert_eq!(addresses_allowed(&[outside.into()], false), Ok(()), "{outside}");
        }
        assert_eq!(relay_of(&relay), Some(identity().id()));
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
            "relay:00",
        ] {
            assert_eq!(
                addresses_allowed(&[bad.into()], true),
                Err(Code::BadAddress),
                "{bad}"
            );
        }
    }
}
