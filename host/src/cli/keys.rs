//! Identities, owners and grants.

use core::str::FromStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use selfsame_host::{Code, Error, Grant, Granted, IDENTITY_FILE, PeerId, Seed};
use serde_json::json;

use super::args::{GrantCommand, IdArguments, IdCommand, OwnerCommand};
use super::output::{Failure, Output};

pub(crate) fn id(command: IdCommand, output: Output) -> Result<(), Failure> {
    let (arguments, make) = match command {
        IdCommand::New(arguments) => (arguments, true),
        IdCommand::Show(arguments) => (arguments, false),
        IdCommand::Key(arguments) => return key(&arguments, output),
    };
    let path = arguments.data.folder.join(IDENTITY_FILE);
    let seed = seed(&path, make, "`selfsame id new` makes one")?;
    let id = seed.peer_id(&arguments.network)?;
    if make {
        seed.save(&path)?;
    }
    output.print(
        id,
        &json!({ "id": id.to_string(), "network": arguments.network, "file": path }),
    )
}

fn key(arguments: &IdArguments, output: Output) -> Result<(), Failure> {
    let folder = &arguments.data.folder;
    std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
    let path = folder.join(IDENTITY_FILE);
    let key = Seed::load_or_create(&path)?.node_key(&arguments.network)?;
    output.print(
        key,
        &json!({ "key": key.to_string(), "network": arguments.network, "file": path }),
    )
}

pub(crate) fn owner(command: OwnerCommand, output: Output) -> Result<(), Failure> {
    let (arguments, make) = match command {
        OwnerCommand::New(arguments) => (arguments, true),
        OwnerCommand::Show(arguments) => (arguments, false),
    };
    let seed = seed(&arguments.key, make, "`selfsame owner new` makes one")?;
    let owner = seed.owner_key(&arguments.network)?;
    if make {
        seed.save(&arguments.key)?;
    }
    output.print(
        owner,
        &json!({ "owner": owner.to_string(), "network": arguments.network, "file": arguments.key }),
    )
}

pub(crate) fn grant(command: &GrantCommand, output: Output) -> Result<(), Failure> {
    let owner = seed(
        &command.key,
        false,
        "`selfsame owner new` makes one, --key names another",
    )?;
    let expires = SystemTime::now() + command.expires.0;
    let (name, revoked) = (&command.name, &command.revoke);
    let grant = owner.grant_and_revoke(&command.network, name, command.to, expires, revoked)?;
    let expires_ms = expires
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let value = json!({
        "grant": grant.to_string(),
        "name": command.name,
        "to": command.to.to_string(),
        "revoked": revoked.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "network": command.network,
        "expires": u64::try_from(expires_ms).ok(),
    });
    output.print(&grant, &value)
}

/// A new seed, or the one in a file that has to exist.
pub(crate) fn seed(path: &Path, make: bool, remedy: &str) -> Result<Seed, Failure> {
    if make {
        return Ok(Seed::generate()?);
    }
    Seed::load(path).map_err(|error| match error {
        Error::Io { source, .. } => Failure::file(path, format_args!("{source}: {remedy}")),
        error => error.into(),
    })
}

/// The certificate or the list of revocations in a file.
pub(crate) fn read_signed<T: FromStr<Err = Error>>(path: &Path) -> Result<T, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
    text.parse().map_err(|error: Error| Failure::file(path, error))
}

/// What mends a grant that is not usable.
pub(crate) const GRANT_REMEDY: &str = "ask the owner for another one, which `selfsame grant` makes";

/// The grants in files, all for the identity in a folder.
pub(crate) fn read_grants(paths: &[PathBuf], network: &str, folder: &Path) -> Result<Vec<Grant>, Failure> {
    let read = |path: &PathBuf| read_grant(path, network, folder);
    paths.iter().map(read).collect()
}

/// The grant in a file, which has to be for the identity in a folder.
pub(crate) fn read_grant(path: &Path, network: &str, folder: &Path) -> Result<Grant, Failure> {
    let checked = check_grant(path, network, folder);
    checked.map(|(grant, _)| grant).map_err(|why| {
        let text = format!("{}: {why}: {GRANT_REMEDY}", path.display());
        Failure::usage(text).with_code(Code::BadGrant)
    })
}

/// Whether an identity has an id. Of a member of a closed network its certificate says the first half of that.
fn may_be(own: PeerId, id: PeerId, network: &str) -> bool {
    own == id || (network.contains('@') && own.0[16..] == id.0[16..])
}

/// The grant in a file and what it says, or why the identity in a folder cannot use it.
pub(crate) fn check_grant(path: &Path, network: &str, folder: &Path) -> Result<(Grant, Granted), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let grant: Grant = text.parse().map_err(|error: Error| error.to_string())?;
    let granted = grant.verify(network).map_err(|error| match error.code() {
        Some(Code::StaleRecord) => {
            "the grant has expired, or is from the future by this machine's clock".into()
        }
        Some(Code::WrongNetwork) => format!("the grant is for another network than {network} (--network)"),
        Some(_) => "this is no grant, or a damaged one".into(),
        None => error.to_string(),
    })?;
    let identity = folder.join(IDENTITY_FILE);
    let own = identity.exists().then(|| Seed::load(&identity)?.peer_id(network));
    let own = own.transpose().map_err(|error| error.to_string())?;
    if own.is_some_and(|own| may_be(own, granted.peer, network)) {
        return Ok((grant, granted));
    }
    let own = own.map_or_else(
        || "has no identity yet".to_owned(),
        |own| format!("is that of {own}"),
    );
    let (peer, folder) = (granted.peer, folder.display());
    Err(format!(
        "the grant is for peer {peer}, and the folder {folder} (--data) {own}"
    ))
}
