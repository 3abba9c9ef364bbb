//! The authority of a closed network.

use std::time::SystemTime;

use selfsame_host::{CertificateTerms, Seed};
use serde_json::json;

use super::args::{AuthorityArguments, AuthorityCommand, AuthorityRevoke, AuthoritySign};
use super::keys::seed;
use super::output::{Failure, Output};

const REMEDY: &str = "`selfsame authority new` makes one, --key names another";

pub(crate) fn run(command: AuthorityCommand, output: Output) -> Result<(), Failure> {
    match command {
        AuthorityCommand::New(arguments) => show(&arguments, true, output),
        AuthorityCommand::Show(arguments) => show(&arguments, false, output),
        AuthorityCommand::Sign(command) => sign(&command, output),
        AuthorityCommand::Revoke(command) => revoke(&command, output),
    }
}

fn show(arguments: &AuthorityArguments, make: bool, output: Output) -> Result<(), Failure> {
    let name = name_of(&arguments.network)?;
    let seed = seed(&arguments.key, make, REMEDY)?;
    let key = seed.authority_key(name)?;
    if make {
        seed.save(&arguments.key)?;
    }
    let network = format!("{name}@{key}");
    let line = arguments
        .zone
        .as_ref()
        .map(|domain| key.zone_line(domain))
        .transpose()?;
    let value = json!({
        "network": network,
        "authority": key.to_string(),
        "file": arguments.key,
        "zone": line,
    });
    output.print(line.as_ref().unwrap_or(&network), &value)
}

fn sign(command: &AuthoritySign, output: Output) -> Result<(), Failure> {
    let authority = load(&command.authority)?;
    let now = SystemTime::now();
    let terms = CertificateTerms {
        key: command.node,
        address: command
            .address
            .as_ref()
            .map(|address| address.to_ascii_lowercase()),
        not_before: now,
        expires: now + command.expires.0,
    };
    let certificate = authority.certify(name_of(&command.authority.network)?, &terms)?;
    let zone = command.authority.zone.as_ref();
    let line = zone
        .map(|domain| certificate.zone_line(&terms.key, domain))
        .transpose()?;
    let value = json!({
        "certificate": certificate.to_string(),
        "node": terms.key.to_string(),
        "address": terms.address,
        "zone": line,
    });
    output.print(line.unwrap_or_else(|| certificate.to_string()), &value)
}

fn revoke(command: &AuthorityRevoke, output: Output) -> Result<(), Failure> {
    let authority = load(&command.authority)?;
    let now = SystemTime::now();
    let revoked: Vec<_> = command.node.iter().map(|key| (*key, now)).collect();
    let list = authority.revoke(name_of(&command.authority.network)?, &revoked)?;
    let keys: Vec<_> = command.node.iter().map(ToString::to_string).collect();
    let value = json!({ "revocations": list.to_string(), "nodes": keys });
    output.print(&list, &value)
}

fn load(arguments: &AuthorityArguments) -> Result<Seed, Failure> {
    seed(&arguments.key, false, REMEDY)
}

/// The name of a network, of which the key may be given, too.
fn name_of(network: &str) -> Result<&str, Failure> {
    match network.split_once('@') {
        Some(("", _)) => Err(Failure::usage(
            "a network has a name before its authority's key: NAME@KEY",
        )),
        Some((name, _)) => Ok(name),
        None => Ok(network),
    }
}
