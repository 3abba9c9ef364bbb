//! The authority of a closed network.

use std::time::SystemTime;

use selfsame_host::admission::{TsigKey, ZoneUpdates};
use selfsame_host::{
    Authority, AuthorityError, AuthorityKey, Certificate, CertificateTerms, Error, Revocations, Zone,
};
use serde_json::{Value, json};

use super::args::{
    AuthorityArguments, AuthorityCommand, AuthorityRevoke, AuthoritySign, DnsCommand, DnsInit, DnsServer,
};
use super::output::{Failure, Output};

const REMEDY: &str = "`selfsame authority new` makes one, --key names another";
const NOT_PUBLISHED: &str = "the certificate is not in the zone yet, run the command again";
const NOT_WITHDRAWN: &str = "the list counts, but the records are still in the zone, run the command again";

pub(crate) async fn run(command: AuthorityCommand, output: Output) -> Result<(), Failure> {
    match command {
        AuthorityCommand::New(arguments) => {
            let authority = Authority::create(&arguments.key, name_of(&arguments.network)?)?;
            show(&authority, &arguments, output)
        }
        AuthorityCommand::Show(arguments) => show(&open(&arguments)?, &arguments, output),
        AuthorityCommand::Sign(command) => {
            let certificate = sign(&open(&command.authority)?.quotas(command.quotas()), &command)?;
            output.print(&certificate, &signed(&command, &certificate))
        }
        AuthorityCommand::Revoke(command) => {
            let list = open(&command.authority)?.revoke(&command.node)?;
            output.print(&list, &revoked(&command, &list))
        }
        AuthorityCommand::Dns(command) => run_dns(command, output).await,
    }
}

async fn run_dns(command: DnsCommand, output: Output) -> Result<(), Failure> {
    match command {
        DnsCommand::Init(command) => init(command, output).await,
        DnsCommand::Sign { sign, server } => sign_in_dns(&sign, &server, output).await,
        DnsCommand::Revoke { revoke, server } => revoke_in_dns(&revoke, &server, output).await,
        DnsCommand::Zone(arguments) => print_zone(&open(&arguments)?, output),
    }
}

fn show(authority: &Authority, arguments: &AuthorityArguments, output: Output) -> Result<(), Failure> {
    let key = authority.key()?;
    let network = full_name(arguments, &key)?;
    let value = json!({ "network": network, "authority": key.to_string(), "file": arguments.key });
    output.print(&network, &value)
}

async fn init(command: DnsInit, output: Output) -> Result<(), Failure> {
    let authority = open(&command.authority)?;
    let domain = command.domain.trim_end_matches('.').to_ascii_lowercase();
    let mail = command.mail.unwrap_or_else(|| format!("hostmaster@{domain}"));
    authority.set_zone(Zone {
        domain,
        mail: mail.to_ascii_lowercase(),
        name_servers: command.ns,
    })?;
    if let Some(updates) = updates(&authority, &command.server)? {
        updates
            .publish_authority(&authority.key()?)
            .await
            .map_err(Error::from)?;
    }
    print_zone(&authority, output)
}

async fn sign_in_dns(command: &AuthoritySign, server: &DnsServer, output: Output) -> Result<(), Failure> {
    let authority = open(&command.authority)?.quotas(command.quotas());
    let updates = updates(&authority, server)?;
    let domain = authority.domain()?;
    let certificate = sign(&authority, command)?;
    let line = certificate.zone_line(&command.node, &domain)?;
    if let Some(updates) = &updates {
        let published = updates.publish(&command.node, &certificate).await;
        published.map_err(|error| Failure::from(Error::from(error)).at(NOT_PUBLISHED))?;
    }
    let mut value = signed(command, &certificate);
    value["zone"] = line.as_str().into();
    value["name_server"] = server.name_server.map(|at| at.to_string()).into();
    let text = match server.name_server {
        None => line,
        Some(at) => format!(
            "the zone {domain} at {at} holds the certificate of {}",
            command.node
        ),
    };
    output.print(text, &value)
}

async fn revoke_in_dns(command: &AuthorityRevoke, server: &DnsServer, output: Output) -> Result<(), Failure> {
    let authority = open(&command.authority)?;
    let updates = updates(&authority, server)?;
    let list = authority.revoke(&command.node)?;
    // Members take the list whatever the name server does.
    output.print(&list, &revoked(command, &list))?;
    if let Some(updates) = updates.filter(|_| !command.node.is_empty()) {
        let withdrawn = updates.withdraw(&command.node).await;
        withdrawn.map_err(|error| Failure::from(Error::from(error)).at(NOT_WITHDRAWN))?;
    }
    Ok(())
}

fn print_zone(authority: &Authority, output: Output) -> Result<(), Failure> {
    let zone = authority.zone_file()?;
    let value = json!({ "domain": authority.domain()?, "zone": zone });
    output.print(zone.trim_end(), &value)
}

/// Where updates of the network's zone go, if that is wanted.
fn updates(authority: &Authority, server: &DnsServer) -> Result<Option<ZoneUpdates>, Failure> {
    let (Some(at), Some(file)) = (server.name_server, &server.tsig_key) else {
        return Ok(None);
    };
    let updates = ZoneUpdates::new(at, TsigKey::load(file)?, authority.domain()?);
    Ok(Some(updates.map_err(Error::from)?))
}

fn sign(authority: &Authority, command: &AuthoritySign) -> Result<Certificate, Failure> {
    let now = SystemTime::now();
    let address = command.address.as_ref();
    let terms = CertificateTerms {
        key: command.node,
        address: address.map(|address| address.to_ascii_lowercase()),
        not_before: now,
        expires: now + command.expires.0,
    };
    Ok(authority.sign(&terms, command.seen_at)?)
}

fn signed(command: &AuthoritySign, certificate: &Certificate) -> Value {
    json!({
        "certificate": certificate.to_string(),
        "node": command.node.to_string(),
        "address": command.address.as_ref().map(|address| address.to_ascii_lowercase()),
    })
}

fn revoked(command: &AuthorityRevoke, list: &Revocations) -> Value {
    let keys: Vec<_> = command.node.iter().map(ToString::to_string).collect();
    json!({ "revocations": list.to_string(), "nodes": keys })
}

fn open(arguments: &AuthorityArguments) -> Result<Authority, Failure> {
    let network = name_of(&arguments.network)?;
    let authority = Authority::open(&arguments.key, network).map_err(|error| match error {
        Error::Io { source, .. } => Failure::file(&arguments.key, format_args!("{source}: {REMEDY}")),
        error => error.into(),
    })?;
    Ok(authority)
}

fn full_name(arguments: &AuthorityArguments, key: &AuthorityKey) -> Result<String, Failure> {
    Ok(format!("{}@{key}", name_of(&arguments.network)?))
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

impl From<AuthorityError> for Failure {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::Other(error) => error.into(),
            error => Self::usage(error.to_string()),
        }
    }
}
