//! Seeds, ids, owner keys and grants, as values, text and files.
//!
//! All cryptography is in the core; this file only asks it.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use selfsame_codec::{Code, Field, Reader};
use zeroize::Zeroize as _;

use crate::core::CoreModule;
use crate::error::Error;
use crate::id::{AuthorityKey, NodeKey, OwnerKey, PeerId, decode_hex};

/// Longest name of a network.
const MAX_NETWORK: usize = 63;

/// A secret from which the keys of every network are derived: a node's or an owner's
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Drop for Seed {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Seed {
    /// A new seed from the system's random source.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    pub fn generate() -> Result<Self, Error> {
        random_bytes().map(Self)
    }

    /// The seed with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the seed in a file.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Input`] when it holds no seed.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let mut text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => damaged(path),
            _ => Error::io(path.display(), error),
        })?;
        let seed = decode_hex(&text).map(Self);
        text.zeroize();
        warn_when_readable_by_others(path);
        seed.ok_or_else(|| damaged(path))
    }

    /// Writes the seed into a new file that only its user may read.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written, [`Error::Input`] when there is a file already.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let mut text = HEXLOWER.encode(&self.0) + "\n";
        let saved = crate::file::create_secret(path, text.as_bytes());
        text.zeroize();
        saved.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::Input(format!(
                "{} exists already and holds a secret: it is not replaced",
                path.display()
            )),
            _ => Error::io(path.display(), error),
        })
    }

    /// Reads the seed in a file, or makes a new one when there is none.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::save`].
    pub fn load_or_create(path: &Path) -> Result<Self, Error> {
        match Self::load(path) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let seed = Self::generate()?;
                seed.save(path)?;
                Ok(seed)
            }
            other => other,
        }
    }

    /// The peer id that a node with this seed has in an open network; in a closed one its certificate says that.
    ///
    /// # Errors
    /// [`Error::Input`] when the network's name is not usable.
    pub fn peer_id(&self, network: &str) -> Result<PeerId, Error> {
        let answer = self.identify(network)?;
        Reader::new(&answer)
            .array()
            .map(PeerId)
            .map_err(|_| Error::version_skew())
    }

    /// The public key that a node with this seed has in a network, which the authority of a closed one certifies.
    ///
    /// # Errors
    /// [`Error::Input`] when the network's name is not usable.
    pub fn node_key(&self, network: &str) -> Result<NodeKey, Error> {
        let answer = self.identify(network)?;
        let mut reader = Reader::new(&answer);
        let key = reader.array().and_then(|_: [u8; 32]| reader.array());
        key.map(NodeKey).map_err(|_| Error::version_skew())
    }

    /// The id and the public key of a node, which the id of a member of a closed network does not follow from alone.
    fn identify(&self, network: &str) -> Result<Vec<u8>, Error> {
        check_network(network)?;
        let known_key: &[u8] = &[];
        derive(network, 1, |request| {
            self.0.write(request);
            network.write(request);
            known_key.write(request);
        })
    }

    /// The key of an owner with this seed in a network.
    ///
    /// # Errors
    /// [`Error::Input`] when the network's name is not usable.
    pub fn owner_key(&self, network: &str) -> Result<OwnerKey, Error> {
        check_network(network)?;
        let answer = derive(network, 2, |request| {
            self.0.write(request);
            network.write(request);
        })?;
        Reader::new(&answer)
            .array()
            .map(OwnerKey)
            .map_err(|_| Error::version_skew())
    }

    /// Grants a peer to serve a name of the owner with this seed until `expires`.
    ///
    /// # Errors
    /// [`Error::Input`] when the network's name is not usable, [`Error::Core`] when the service's is not or when `expires`
    /// has passed.
    pub fn grant(
        &self,
        network: &str,
        name: &str,
        peer: PeerId,
        expires: SystemTime,
    ) -> Result<Grant, Error> {
        self.grant_and_revoke(network, name, peer, expires, &[])
    }

    /// The same; once the grant is in use, callers leave out the `revoked` peers unless they have a newer one.
    ///
    /// # Errors
    /// Those of [`grant`](Self::grant), and [`Error::Core`] when more than 8 peers, or `peer` itself, are to be revoked.
    pub fn grant_and_revoke(
        &self,
        network: &str,
        name: &str,
        peer: PeerId,
        expires: SystemTime,
        revoked: &[PeerId],
    ) -> Result<Grant, Error> {
        check_network(network)?;
        let revoked: Vec<u8> = revoked.iter().flat_map(|peer| peer.0).collect();
        derive(network, 3, |request| {
            self.0.write(request);
            network.write(request);
            name.write(request);
            peer.0.write(request);
            milliseconds(SystemTime::now()).write(request);
            milliseconds(expires).write(request);
            revoked.as_slice().write(request);
        })
        .map(Grant)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

fn damaged(path: &Path) -> Error {
    Error::Input(format!(
        "{} does not hold a secret of 64 hexadecimal digits: restore a copy of it (a new one has another id)",
        path.display()
    ))
}

fn warn_when_readable_by_others(path: &Path) {
    #[cfg(unix)]
    if let Ok(file) = std::fs::metadata(path)
        && std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0
    {
        tracing::warn!(path = %path.display(), "others may read this secret: run chmod 600 on it");
    }
}

/// An owner's permission for one peer to serve one name until it expires
#[derive(Clone, PartialEq, Eq)]
pub struct Grant(Vec<u8>);

/// What a grant says, once its signature is verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Whose name it is.
    pub owner: OwnerKey,
    /// Who may serve it.
    pub peer: PeerId,
    /// The name.
    pub name: String,
    /// When it was signed.
    pub issued: SystemTime,
    /// Until when.
    pub expires: SystemTime,
    /// Peers whose grants count no more unless they are issued later.
    pub revoked: Vec<PeerId>,
}

impl Grant {
    /// Verifies the grant.
    ///
    /// # Errors
    /// [`Error::Core`] when it is of another network, has expired, or is not signed by its owner.
    pub fn verify(&self, network: &str) -> Result<Granted, Error> {
        check_network(network)?;
        let mut request = vec![1];
        self.0.as_slice().write(&mut request);
        network.write(&mut request);
        milliseconds(SystemTime::now()).write(&mut request);
        let answer = answer_of(&module_of(network)?.instantiate()?.verify(&request)?)?;
        let mut reader = Reader::new(&answer);
        let mut read = || {
            Ok(Granted {
                owner: OwnerKey(reader.array()?),
                peer: PeerId(reader.array()?),
                issued: UNIX_EPOCH + Duration::from_millis(reader.field()?),
                expires: UNIX_EPOCH + Duration::from_millis(reader.field()?),
                name: reader.field::<&str>()?.into(),
                revoked: reader
                    .field::<&[u8]>()?
                    .as_chunks()
                    .0
                    .iter()
                    .copied()
                    .map(PeerId)
                    .collect(),
            })
        };
        read().map_err(|_: selfsame_codec::Malformed| Error::version_skew())
    }

    /// The signed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grant({self})")
    }
}

impl FromStr for Grant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match BASE64URL_NOPAD.decode(text.trim().as_bytes()) {
            Ok(bytes) if !bytes.is_empty() => Ok(Self(bytes)),
            _ => Err(Error::Input(
                "a grant is the line of base64url text that `selfsame grant` prints".into(),
            )),
        }
    }
}

/// The name of a network, and the key of its authority if it is closed.
pub(crate) fn parts(network: &str) -> Result<(&str, Option<AuthorityKey>), Error> {
    match network.split_once('@') {
        Some((name, key)) => Ok((name, Some(key.parse()?))),
        None => Ok((network, None)),
    }
}

/// Checks the name of a network, and the key of a closed one's authority, so that the mistake is named before anything starts.
pub(crate) fn check_network(network: &str) -> Result<(), Error> {
    let (name, _) = parts(network)?;
    if (1..=MAX_NETWORK).contains(&name.chars().count()) {
        Ok(())
    } else {
        Err(Error::Input(format!(
            "\"{network}\" is no name of a network: it has 1 to {MAX_NETWORK} characters"
        )))
    }
}

/// Fresh random bytes of the system.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::io("the system's random source", std::io::Error::other(error)))?;
    Ok(bytes)
}

/// Milliseconds since 1970, as the core counts time.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The core that knows a network.
pub(crate) fn module_of(network: &str) -> Result<CoreModule, Error> {
    let module = match parts(network)? {
        (_, Some(_)) => CoreModule::closed(),
        (_, None) => CoreModule::embedded(),
    };
    module.map_err(Error::from)
}

fn derive(network: &str, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, Error> {
    let mut request = vec![kind];
    write(&mut request);
    let answer = module_of(network)?.instantiate()?.derive(&request);
    request.zeroize();
    answer_of(&answer?)
}

/// Splits an answer of `derive` or `verify` into its status and its body.
pub(crate) fn answer_of(answer: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(answer);
    match reader.field::<u16>() {
        Ok(0) => Ok(reader.rest().to_vec()),
        Ok(code) => Err(Error::core(code, "")),
        Err(_) => Err(Error::core(Code::BadInput.as_u16(), "")),
    }
}
