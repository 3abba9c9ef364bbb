//! Updates of a zone (RFC 2136), signed with TSIG (RFC 8945).

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::path::Path;
use std::time::SystemTime;

use data_encoding::BASE64;
use selfsame_codec::Field as _;
use selfsame_codec::admission::{Derive, Verify};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::error::ResolveError;
use super::module::Module;
use super::plain::{exchange, random_id, wrong};
use crate::certificate::{Certificate, ZONE_TTL_S};
use crate::core::Core;
use crate::error::Error;
use crate::id::{AuthorityKey, NodeKey};
use crate::keys::milliseconds;

/// Time for one update: the server writes it to its disk first.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest file with a key.
const MAX_FILE_BYTES: u64 = 16 * 1024;
/// The only algorithm.
const ALGORITHM: &str = "hmac-sha256";
/// Least and most bytes of a secret: RFC 8945 asks for as many as the hash has, and its block is where more is hashed first.
const SECRET_BYTES: core::ops::RangeInclusive<usize> = 16..=64;

/// A secret that a name server shares with whoever may change a zone
#[derive(Clone)]
pub struct TsigKey {
    name: String,
    secret: Zeroizing<Vec<u8>>,
}

impl TsigKey {
    /// The key of this name, for `hmac-sha256`.
    ///
    /// # Errors
    /// [`Error::Input`] for a secret of less than 16 bytes or more than 64.
    pub fn new(name: impl Into<String>, secret: &[u8]) -> Result<Self, Error> {
        if !SECRET_BYTES.contains(&secret.len()) {
            return Err(Error::Input(format!(
                "the secret of a TSIG key has {} to {} bytes, and this one {}",
                SECRET_BYTES.start(),
                SECRET_BYTES.end(),
                secret.len()
            )));
        }
        let name: String = name.into();
        Ok(Self {
            name: name.to_ascii_lowercase(),
            secret: Zeroizing::new(secret.to_vec()),
        })
    }

    /// The key in a file as `tsig-keygen` of BIND writes it, or in a line `hmac-sha256:NAME:SECRET`, as `keymgr -t` of Knot does.
    ///
    /// # Errors
    /// [`Error`] when the file cannot be read, or holds no such key.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = read(path).map_err(|error| Error::io(path.display(), error))?;
        let wrong = || {
            Error::Input(format!(
                "{} holds no key for {ALGORITHM}: `tsig-keygen -a {ALGORITHM} NAME` writes one",
                path.display()
            ))
        };
        let (name, secret) = parse(&text).ok_or_else(wrong)?;
        let secret = Zeroizing::new(BASE64.decode(secret.as_bytes()).map_err(|_| wrong())?);
        Self::new(name, &secret)
    }
}

fn read(path: &Path) -> std::io::Result<Zeroizing<String>> {
    use std::io::Read as _;
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// The name and the secret, in base64, of the first key in a text.
fn parse(text: &str) -> Option<(&str, &str)> {
    for line in text.lines() {
        let line = line.trim_start_matches(['#', ' ']).trim_end();
        let mut parts = line.split(':');
        if let (Some(ALGORITHM), Some(name), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            return Some((name, secret));
        }
    }
    let words: Vec<&str> = text
        .split(|char: char| char.is_whitespace() || matches!(char, '{' | '}' | ';' | '"'))
        .filter(|word| !word.is_empty())
        .collect();
    let after = |word: &str| {
        words
            .iter()
            .position(|other| *other == word)
            .and_then(|at| words.get(at + 1))
    };
    (after("algorithm") == Some(&ALGORITHM)).then_some(())?;
    Some((after("key")?, after("secret")?))
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TsigKey")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Changes the zone of a closed network at its primary name server
pub struct ZoneUpdates {
    module: Module,
    server: SocketAddr,
    key: TsigKey,
    domain: String,
}

impl ZoneUpdates {
    /// Updates of the zone of a domain at a name server.
    ///
    /// # Errors
    /// [`ResolveError::Module`] when the build embedded no module of admission.
    pub fn new(server: SocketAddr, key: TsigKey, domain: impl Into<String>) -> Result<Self, ResolveError> {
        Ok(Self {
            module: Module::load()?,
            server,
            key,
            domain: domain.into(),
        })
    }

    /// Puts a certificate in the place of what the zone holds of a node.
    ///
    /// # Errors
    /// [`ResolveError`]: why the name server did not confirm it.
    pub async fn publish(&self, node: &NodeKey, certificate: &Certificate) -> Result<(), ResolveError> {
        let name = self.module.peer_name(&node.0, &self.domain)?;
        self.change(&[(name, certificate.as_bytes())]).await
    }

    /// Takes out what the zone holds of nodes.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub async fn withdraw(&self, nodes: &[NodeKey]) -> Result<(), ResolveError> {
        let names = nodes
            .iter()
            .map(|node| self.module.peer_name(&node.0, &self.domain));
        let changes = names.map(|name| Ok((name?, &[][..])));
        let changes: Vec<(String, &[u8])> = changes.collect::<Result<_, ResolveError>>()?;
        self.change(&changes).await
    }

    /// Puts the key of the authority into the zone.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub async fn publish_authority(&self, key: &AuthorityKey) -> Result<(), ResolveError> {
        let name = self.module.authority_name(&self.domain)?;
        self.change(&[(name, &key.0)]).await
    }

    /// Replaces the values of names; an empty value only deletes.
    async fn change(&self, changes: &[(String, &[u8])]) -> Result<(), ResolveError> {
        let id = random_id()?;
        let mut encoded = Vec::new();
        for (name, value) in changes {
            name.as_str().write(&mut encoded);
            value.write(&mut encoded);
        }
        let request = Derive::Update {
            id,
            zone: &self.domain,
            key_name: &self.key.name,
            secret: &self.key.secret,
            now_s: now_s(),
            ttl_s: ZONE_TTL_S,
            changes: &encoded,
        };
        let made = self.module.call(Core::derive, |batch| request.encode(batch))?;
        let made = made.map_err(|code| ResolveError::Input(format!("\"{}\": {code}", self.domain)))?;
        let version_skew = || ResolveError::from(Error::version_skew());
        let (mac, message) = made.split_first_chunk::<32>().ok_or_else(version_skew)?;
        let exchanged = timeout(TIMEOUT, exchange(self.server, message)).await;
        let exchanged = exchanged.map_err(|_| ResolveError::TimedOut {
            servers: self.server.to_string(),
            tries: 1,
        })?;
        let response = exchanged
            .map_err(|error| ResolveError::unreachable(format_args!("{} over TCP", self.server), error))?;
        let answer = Verify::Updated {
            id,
            key_name: &self.key.name,
            secret: &self.key.secret,
            mac: *mac,
            now_s: now_s(),
            message: &response,
        };
        let checked = self.module.call(Core::verify, |batch| answer.encode(batch))?;
        checked.map(drop).map_err(|code| wrong(self.server, code))
    }
}

impl fmt::Debug for ZoneUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneUpdates")
            .field("server", &self.server)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

fn now_s() -> u64 {
    milliseconds(SystemTime::now()) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_read_in_the_formats_of_bind_and_knot() {
        let bind = "key \"selfsame\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0\";\n};\n";
        let knot = "# hmac-sha256:selfsame:c2VjcmV0\nkey:\n  - id: selfsame\n    algorithm: hmac-sha256\n    secret: c2VjcmV0\n";
        let line = "hmac-sha256:selfsame:c2VjcmV0\n";
        for text in [bind, knot, line] {
            assert_eq!(parse(text), Some(("selfsame", "c2VjcmV0")), "{text}");
        }
        for text in [
            "",
            "key \"selfsame\" { algorithm hmac-md5; secret \"c2VjcmV0\"; };",
            "hmac-sha256:selfsame",
            "hmac-sha512:selfsame:c2VjcmV0",
            "key \"selfsame\" { algorithm hmac-sha256; };",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn secret_is_long_enough_and_not_shown() {
        assert!(TsigKey::new("a", &[1; 15]).is_err() && TsigKey::new("a", &[1; 65]).is_err());
        let key = TsigKey::new("Name", &[77; 32]).expect("a key");
        assert_eq!(format!("{key:?}"), "TsigKey { name: \"name\", .. }");
    }
}
