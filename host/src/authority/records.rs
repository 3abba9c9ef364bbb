//! What an authority has signed, in a file beside its secret.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{AuthorityError, Zone};
use crate::certificate::Certificate;
use crate::file::replace_secret;
use crate::id::NodeKey;
use crate::keys::milliseconds;

/// Longest file: 2^16 certificates, of about 700 bytes each in it.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Most certificates that count at once.
const MAX_SIGNED: usize = 1 << 16;
/// How far a clock that is being set right may step back.
const MAX_STEP_BACK_MS: u64 = 1000;
const VERSION: u64 = 1;

/// A certificate that was signed
#[derive(Clone, Debug)]
pub(super) struct Signed {
    pub(super) node: NodeKey,
    pub(super) address: Option<String>,
    pub(super) holder: String,
    pub(super) since: SystemTime,
    pub(super) expires: SystemTime,
    /// Until when it is held against its holder: as long as any before it for the same node and address.
    pub(super) held_until: SystemTime,
    pub(super) certificate: Certificate,
}

/// Whose certificates are counted, but for the one that a node renews
pub(super) struct Held<'a> {
    pub(super) holder: &'a str,
    pub(super) node: &'a NodeKey,
    pub(super) address: Option<&'a str>,
}

/// A node that was shut out
#[derive(Clone, Copy, Debug)]
struct Revoked {
    before: SystemTime,
    /// Until when a certificate from before could count.
    until: SystemTime,
}

/// The records of one network; others wait meanwhile
pub(super) struct Records {
    path: PathBuf,
    /// The secret's file, which is locked: it is never replaced.
    _lock: File,
    /// The whole file, with the networks of other names.
    all: Value,
    network: String,
    signed: Vec<Signed>,
    revoked: BTreeMap<NodeKey, Revoked>,
    last_list_ms: u64,
    zone_serial: u32,
    pub(super) zone: Option<Zone>,
}

impl Records {
    pub(super) fn open(key_file: &Path, network: &str) -> Result<Self, AuthorityError> {
        let mut path = key_file.as_os_str().to_owned();
        path.push(".signed");
        let path = PathBuf::from(path);
        let failed = |source| AuthorityError::File {
            path: path.clone(),
            source,
        };
        let lock = File::open(key_file).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let all = read(&path).map_err(failed)?;
        let mut records = Self {
            path: path.clone(),
            _lock: lock,
            network: network.into(),
            signed: Vec::new(),
            revoked: BTreeMap::new(),
            last_list_ms: 0,
            zone_serial: 0,
            zone: None,
            all,
        };
        let known = records.all["networks"][network].take();
        if !known.is_null() {
            records.take(&known).ok_or_else(|| failed(damaged()))?;
        }
        Ok(records)
    }

    fn take(&mut self, known: &Value) -> Option<()> {
        for one in known["signed"].as_array()? {
            self.signed.push(Signed {
                node: one["node"].as_str()?.parse().ok()?,
                address: one["address"].as_str().map(String::from),
                holder: one["holder"].as_str()?.into(),
                since: time(&one["since"])?,
                expires: time(&one["expires"])?,
                held_until: time(&one["held_until"])?,
                certificate: one["certificate"].as_str()?.parse().ok()?,
            });
        }
        for one in known["revoked"].as_array()? {
            let revoked = Revoked {
                before: time(&one["before"])?,
                until: time(&one["until"])?,
            };
            self.revoked.insert(one["node"].as_str()?.parse().ok()?, revoked);
        }
        self.last_list_ms = known["last_list"].as_u64()?;
        self.zone_serial = known["zone_serial"].as_u64()?.try_into().ok()?;
        self.zone = match &known["zone"] {
            Value::Null => None,
            zone => Some(Zone::from_json(zone)?),
        };
        Some(())
    }

    pub(super) fn forget_expired(&mut self, now: SystemTime) {
        self.signed.retain(|one| now < one.held_until);
        self.revoked.retain(|_, one| now < one.until);
    }

    /// How many certificates a holder has. Those of nodes that were shut out count until they expire: else a liar would be shut out
    /// and come back at the next address.
    pub(super) fn count(&self, held: &Held<'_>) -> usize {
        let is_renewed = |one: &&Signed| one.node == *held.node && one.address.as_deref() == held.address;
        let of_holder = self.signed.iter().filter(|one| one.holder == held.holder);
        of_holder.filter(|one| !is_renewed(one)).count()
    }

    pub(super) fn add(&mut self, mut signed: Signed) {
        let is_same = |one: &Signed| one.node == signed.node && one.address == signed.address;
        if let Some(at) = self.signed.iter().position(is_same) {
            let old = self.signed.remove(at);
            signed.held_until = signed.held_until.max(old.held_until);
        }
        self.signed.push(signed);
    }

    pub(super) fn revoke(&mut self, node: NodeKey, before: SystemTime, until: SystemTime) {
        self.revoked.insert(node, Revoked { before, until });
    }

    pub(super) fn revoked(&self) -> Vec<(NodeKey, SystemTime)> {
        self.revoked
            .iter()
            .map(|(node, one)| (*node, one.before))
            .collect()
    }

    /// The serial of a list that is signed now: the time, or one above the last.
    pub(super) fn next_list_serial(&mut self, now: SystemTime) -> Result<u64, AuthorityError> {
        let now_ms = milliseconds(now);
        // By a clock that has gone back, certificates that were signed since would not be among those from before.
        if now_ms.saturating_add(MAX_STEP_BACK_MS) < self.last_list_ms {
            return Err(AuthorityError::Clock);
        }
        self.last_list_ms = now_ms.max(self.last_list_ms.saturating_add(1));
        Ok(self.last_list_ms)
    }

    /// The serial of a zone that is written now: the seconds of the clock, or one above the last.
    pub(super) fn next_zone_serial(&mut self, now: SystemTime) -> u32 {
        let now_s = u32::try_from(milliseconds(now) / 1000).unwrap_or(u32::MAX);
        self.zone_serial = now_s.max(self.zone_serial.saturating_add(1));
        self.zone_serial
    }

    /// The last certificate of each node that counts now.
    pub(super) fn published(&self, now: SystemTime) -> Vec<&Signed> {
        let is_revoked = |one: &Signed| {
            let revoked = self.revoked.get(&one.node);
            revoked.is_some_and(|revoked| one.since < revoked.before)
        };
        let counting = self
            .signed
            .iter()
            .filter(|one| now < one.expires && !is_revoked(one));
        let last: BTreeMap<NodeKey, &Signed> = counting.map(|one| (one.node, one)).collect();
        last.into_values().collect()
    }

    pub(super) fn save(mut self) -> Result<(), AuthorityError> {
        let signed: Vec<Value> = self.signed.iter().map(Signed::to_json).collect();
        let failed = |source| AuthorityError::File {
            path: self.path.clone(),
            source,
        };
        if signed.len() > MAX_SIGNED {
            return Err(failed(io::Error::other(
                "it would hold more than 65,536 certificates",
            )));
        }
        let revoked = self.revoked.iter().map(|(node, one)| {
            json!({ "node": node.to_string(), "before": milliseconds(one.before), "until": milliseconds(one.until) })
        });
        let revoked: Vec<Value> = revoked.collect();
        self.all["version"] = VERSION.into();
        self.all["networks"][&self.network] = json!({
            "signed": signed,
            "revoked": revoked,
            "last_list": self.last_list_ms,
            "zone_serial": self.zone_serial,
            "zone": self.zone.as_ref().map(Zone::to_json),
        });
        replace_secret(&self.path, self.all.to_string().as_bytes()).map_err(failed)
    }
}

impl Signed {
    fn to_json(&self) -> Value {
        json!({
            "node": self.node.to_string(),
            "address": self.address,
            "holder": self.holder,
            "since": milliseconds(self.since),
            "expires": milliseconds(self.expires),
            "held_until": milliseconds(self.held_until),
            "certificate": self.certificate.to_string(),
        })
    }
}

fn read(path: &Path) -> io::Result<Value> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(json!({ "networks": {} })),
        file => file?,
    };
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(damaged());
    }
    let all: Value = serde_json::from_reader(io::BufReader::new(file)).map_err(|_| damaged())?;
    if all["version"] != VERSION || !all["networks"].is_object() {
        return Err(damaged());
    }
    Ok(all)
}

fn damaged() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is damaged, or of another version")
}

fn time(value: &Value) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(value.as_u64()?))
}
