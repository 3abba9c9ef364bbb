//! Identities, owners and grants.

use std::path::Path;
use std::time::SystemTime;

use selfsame_host::{Grant, IDENTITY_FILE, Seed};
use serde_json::json;

use super::args::{GrantCommand, IdCommand, OwnerCommand};
use super::output::{Failure, Output};

pub(crate) fn id(command: IdCommand, output: Output) -> Result<(), Failure> {
    let (arguments, make) = match command {
        IdCommand::New(arguments) => (arguments, true),
        IdCommand::Show(arguments) => (arguments, false),
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
fn seed(path: &Path, make: bool, remedy: &str) -> Result<Seed, Failure> {
    if make {
        return Ok(Seed::generate()?);
    }
    Seed::load(path).map_err(|error| match error {
        selfsame_host::Error::Io { source, .. } => Failure::file(path, format_args!("{source}: {remedy}")),
        error => error.into(),
    })
}

/// The grants in files.
pub(crate) fn read_grants(paths: &[impl AsRef<Path>]) -> Result<Vec<Grant>, Failure> {
    paths.iter().map(|path| read_grant(path.as_ref())).collect()
}

/// The grant in a file.
pub(crate) fn read_grant(path: &Path) -> Result<Grant, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the grant {}: {error}", path.display())))?;
    text.parse::<Grant>().map_err(|error| Failure::file(path, error))
}
