use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use selfsame_host::{Builder, Certificate, CertificateTerms, Code, Node, NodeKey, Revocations, Seed};

use crate::Outcome;

const NAME: &str = "revoke";
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Number of the member that is revoked.
pub(crate) const REVOKED: u16 = 0;

/// A closed network with its authority
pub(crate) struct Network {
    /// Its full name.
    pub(crate) name: String,
    authority: Seed,
    folder: PathBuf,
    /// What the revoked member was admitted by.
    revoked: Certificate,
}

impl Network {
    /// Makes the authority with the command line.
    pub(crate) fn found(folder: &Path) -> Outcome<Self> {
        let name = selfsame(folder, &["authority", "new", "--network", NAME])?;
        let authority = Seed::load(&folder.join("authority.key"))?;
        let revoked = certify(&authority, &name, REVOKED)?;
        let folder = folder.to_owned();
        Ok(Self {
            name,
            authority,
            folder,
            revoked,
        })
    }

    /// The key of the member of this number.
    pub(crate) fn key(&self, number: u16) -> Outcome<NodeKey> {
        Ok(seed(number).node_key(&self.name)?)
    }

    pub(crate) fn certificate(&self, number: u16) -> Outcome<Certificate> {
        if number == REVOKED {
            return Ok(self.revoked.clone());
        }
        certify(&self.authority, &self.name, number)
    }

    /// The member of this number, which keeps nothing.
    pub(crate) fn member(&self, number: u16) -> Outcome<Builder> {
        let builder = Node::builder(&self.name)
            .in_memory()
            .seed(seed(number))
            .certificate(self.certificate(number)?)
            .listen("ws://127.0.0.1:0")
            .allow_private(true)
            .unowned();
        Ok(builder)
    }

    /// The folder of the member of this number.
    pub(crate) fn folder(&self, number: u16) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Puts identity and certificate of a member where a process finds them.
    pub(crate) fn settle(&self, number: u16) -> Outcome<()> {
        let folder = self.folder(number);
        std::fs::create_dir(&folder)?;
        seed(number).save(&folder.join(selfsame_host::IDENTITY_FILE))?;
        std::fs::write(folder.join("certificate"), self.certificate(number)?.to_string())?;
        Ok(())
    }

    /// Revokes these members with the command line.
    pub(crate) fn revoke(&self, numbers: &[u16]) -> Outcome<Revocations> {
        let mut arguments = vec![
            "authority".into(),
            "revoke".into(),
            "--network".into(),
            NAME.into(),
        ];
        for number in numbers {
            arguments.extend(["--node".into(), self.key(*number)?.to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Ok(selfsame(&self.folder, &arguments)?.parse()?)
    }

    /// Whether whoever is at this address refuses the revoked member, whose other run has to have ended.
    pub(crate) async fn is_refused_by(&self, bootstrap: &str) -> Outcome<bool> {
        let attempt = self.member(REVOKED)?.bootstrap([bootstrap]).start().await;
        match attempt {
            Ok(node) => {
                node.stop().await;
                Ok(false)
            }
            Err(error) if error.code() == Some(Code::RevokedCertificate) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Identity of the member of this number, no secret.
fn seed(number: u16) -> Seed {
    let mut bytes = [0x5e; 32];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    Seed::from_bytes(bytes)
}

/// The place on the ring follows from the address: each member gets a port of its own in it.
fn certify(authority: &Seed, network: &str, number: u16) -> Outcome<Certificate> {
    let now = SystemTime::now();
    let terms = CertificateTerms {
        key: seed(number).node_key(network)?,
        address: Some(format!("127.0.0.1:{}", 10_000 + number)),
        not_before: now,
        expires: now + HOUR,
    };
    Ok(authority.certify(NAME, &terms)?)
}

/// Runs a command to its end; what it prints.
fn selfsame(folder: &Path, arguments: &[&str]) -> Outcome<String> {
    let done = Command::new(program()?)
        .args(arguments)
        .current_dir(folder)
        .output()?;
    if done.status.success() {
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into())
    }
}

/// The program, which is built into the same folder as this one.
pub(crate) fn program() -> Outcome<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("selfsame"))
}
