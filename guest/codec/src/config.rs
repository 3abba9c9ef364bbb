use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{Decoder, Encoder};
use crate::field::Malformed;

/// What part a node takes in the ring
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Attached to members that relay for it; owns no key space.
    Leaf,
    /// Can be dialled at its addresses and owns key space.
    Member,
}

/// How a network admits its members
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Anybody may take part.
    Open,
    /// Who has a certificate of the network's authority, which finds its way through the DNS.
    Dns,
}

/// What a core is created with
///
/// ```cddl
/// config = [version: 4, seed: bytes .size 32, entropy: bytes .size 32, known-key: bytes .size (0..64),
///           network: text, role: 0 / 1, addresses: [* text], bootstraps: [* text], dials: [* text], private: bool,
///           trust-on-first-use: bool, idle-ms: uint, domain: text, admission: 0 / 1, authority: bytes .size (0 / 32),
///           certificate: bytes .size (0..320), confirms: bool, take-over: bool]
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// The master seed; the key of each network is derived from it. Secret.
    pub seed: [u8; 32],
    /// Fresh random bytes of this start, never used before. Secret.
    pub entropy: [u8; 32],
    /// Public key that belongs to the seed in this network and its proof, as `derive` gave them; when it is empty or not
    /// proven the node computes the key.
    pub known_key: Vec<u8>,
    /// Name of the network, 1 to 63 characters.
    pub network: String,
    /// Member or leaf.
    pub role: Role,
    /// URLs at which this node can be dialled, at most 8.
    pub addresses: Vec<String>,
    /// `url#peer-id` of nodes to join through.
    pub bootstraps: Vec<String>,
    /// URL schemes that the host can dial, without the colon.
    pub dials: Vec<String>,
    /// Whether private, loopback and link-local addresses in records may be dialled.
    pub allow_private: bool,
    /// Whether a bootstrap without a peer id is accepted.
    pub trust_on_first_use: bool,
    /// How long the node may sleep when nothing happens, in milliseconds; 60,000 where waking costs money.
    pub idle_ms: u64,
    /// Label of what fails together with this node (a platform, a region); may be empty.
    pub domain: String,
    /// How the network admits its members.
    pub admission: Admission,
    /// Public key of the authority; empty in an open network.
    pub authority: Vec<u8>,
    /// This node's certificate; empty in an open network.
    pub certificate: Vec<u8>,
    /// Whether this start takes the identity over from another node that runs with it.
    pub take_over: bool,
    /// Whether the host looks certificates of newcomers to a closed network up: they become neighbours once it has found them.
    pub confirms: bool,
}

/// Items of a configuration.
const ITEMS: usize = 18;
/// Version of the configuration.
const VERSION: u64 = 4;
/// Longest list of addresses or bootstraps: a record holds 8 addresses, a configuration may name some more bootstraps.
const MAX_LIST: usize = 64;
/// Longest known key: a public key and its proof.
const MAX_KNOWN_KEY: usize = 64;
/// Longest key of an authority.
const MAX_AUTHORITY: usize = 32;
/// Longest certificate.
const MAX_CERTIFICATE: usize = 320;
/// Longest URL.
const MAX_URL: usize = 512;

impl Config {
    /// The encoding that `create` takes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(ITEMS)
            .uint(VERSION)
            .bytes(&self.seed)
            .bytes(&self.entropy)
            .bytes(&self.known_key)
            .text(&self.network);
        encoder.uint(u64::from(self.role == Role::Member));
        for list in [&self.addresses, &self.bootstraps, &self.dials] {
            encoder.array(list.len());
            for text in list {
                encoder.text(text);
            }
        }
        encoder
            .bool(self.allow_private)
            .bool(self.trust_on_first_use)
            .uint(self.idle_ms)
            .text(&self.domain)
            .uint(u64::from(self.admission == Admission::Dns))
            .bytes(&self.authority)
            .bytes(&self.certificate)
            .bool(self.confirms)
            .bool(self.take_over);
        out
    }

    /// A configuration that says nothing yet.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            seed: [0; 32],
            entropy: [0; 32],
            known_key: Vec::new(),
            network: String::new(),
            role: Role::Leaf,
            addresses: Vec::new(),
            bootstraps: Vec::new(),
            dials: Vec::new(),
            allow_private: false,
            trust_on_first_use: false,
            idle_ms: 0,
            domain: String::new(),
            admission: Admission::Open,
            authority: Vec::new(),
            certificate: Vec::new(),
            take_over: false,
            confirms: false,
        }
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut config = Self::empty();
        config.read(bytes)?;
        Ok(config)
    }

    /// Reads what `create` was given into an empty configuration. Where that stands its secrets can be wiped: a move would leave a copy
    /// of them behind.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of this version.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(ITEMS)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        for secret in [&mut self.seed, &mut self.entropy] {
            let given = decoder.bytes(secret.len())?;
            if given.len() != secret.len() {
                return Err(Malformed);
            }
            secret.copy_from_slice(given);
        }
        self.known_key.extend_from_slice(decoder.bytes(MAX_KNOWN_KEY)?);
        self.network.push_str(decoder.text(MAX_URL)?);
        if decoder.uint_max(1)? == 1 {
            self.role = Role::Member;
        }
        for list in [&mut self.addresses, &mut self.bootstraps, &mut self.dials] {
            decode_list(&mut decoder, list)?;
        }
        self.allow_private = decoder.bool()?;
        self.trust_on_first_use = decoder.bool()?;
        self.idle_ms = decoder.uint()?;
        self.domain.push_str(decoder.text(MAX_URL)?);
        if decoder.uint_max(1)? == 1 {
            self.admission = Admission::Dns;
        }
        self.authority.extend_from_slice(decoder.bytes(MAX_AUTHORITY)?);
        self.certificate
            .extend_from_slice(decoder.bytes(MAX_CERTIFICATE)?);
        self.confirms = decoder.bool()?;
        self.take_over = decoder.bool()?;
        decoder.finish()
    }
}

// Not inlined three times.
#[inline(never)]
fn decode_list(decoder: &mut Decoder<'_>, list: &mut Vec<String>) -> Result<(), Malformed> {
    for _ in 0..decoder.array(MAX_LIST)? {
        list.push(decoder.text(MAX_URL)?.into());
    }
    Ok(())
}

/// Says nothing of the secrets
impl core::fmt::Debug for Config {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Config")
            .field("network", &self.network)
            .field("role", &self.role)
            .field("addresses", &self.addresses)
            .field("bootstraps", &self.bootstraps)
            .finish_non_exhaustive()
    }
}
