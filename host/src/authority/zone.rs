use core::fmt::Write as _;
use core::net::IpAddr;

use serde_json::{Value, json};

use super::AuthorityError;

/// Seconds for which resolvers remember the zone's own records.
const TTL_S: u32 = 300;
/// When a secondary asks again, when it tries again, and when it gives up: as RIPE-203 recommends, but for the first, since
/// certificates come and go within minutes.
const TIMES_S: &str = "900 300 1209600";
/// Seconds for which resolvers remember that there is no certificate, so that a newcomer waits no longer.
const ABSENT_S: u32 = 30;

/// Where the certificates of a network stand in the DNS
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its domain.
    pub domain: String,
    /// The name servers that are responsible for it, the first one the primary.
    pub name_servers: Vec<ZoneNameServer>,
    /// The mailbox of who looks after it, `name@domain`.
    pub mail: String,
}

/// A name server of a zone
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneNameServer {
    /// Its name.
    pub name: String,
    /// Its addresses, which the zone has to say if the name is in it.
    pub addresses: Vec<IpAddr>,
}

impl Zone {
    pub(super) fn check(&self) -> Result<(), AuthorityError> {
        let wrong = |text: String| Err(AuthorityError::Zone(text));
        if self.name_servers.is_empty() {
            return wrong("a zone has a name server: --ns NAME, or --ns NAME=IP".into());
        }
        for server in &self.name_servers {
            if !is_name(&server.name) {
                return wrong(format!("\"{}\" is no name of a name server", server.name));
            }
            if self.contains(&server.name) && server.addresses.is_empty() {
                return wrong(format!(
                    "the name server {name} is in the zone, which has to say where it is: --ns {name}=IP",
                    name = server.name
                ));
            }
        }
        match self.mail.split_once('@') {
            Some((local, domain)) if is_name(local) && is_name(domain) => Ok(()),
            _ => wrong(format!(
                "\"{}\" is no mailbox such as hostmaster@ring.example",
                self.mail
            )),
        }
    }

    /// The lines before those of the certificates.
    pub(super) fn head(&self, serial: u32) -> String {
        let domain = &self.domain;
        let mail = self.mail_name();
        let first = self.name_servers.first().map_or("", |server| &server.name);
        let mut text = format!("{domain}. {TTL_S} IN SOA {first}. {mail}. {serial} {TIMES_S} {ABSENT_S}\n");
        for server in &self.name_servers {
            // Writing to a text cannot fail.
            _ = writeln!(text, "{domain}. {TTL_S} IN NS {}.", server.name);
        }
        for server in self
            .name_servers
            .iter()
            .filter(|server| self.contains(&server.name))
        {
            for address in &server.addresses {
                let kind = if address.is_ipv4() { "A" } else { "AAAA" };
                _ = writeln!(text, "{}. {TTL_S} IN {kind} {address}", server.name);
            }
        }
        text
    }

    /// A mailbox as a name: a dot before the `@` would otherwise end its label.
    fn mail_name(&self) -> String {
        let (local, domain) = self.mail.split_once('@').unwrap_or(("hostmaster", &self.mail));
        format!("{}.{domain}", local.replace('.', "\\."))
    }

    fn contains(&self, name: &str) -> bool {
        name.strip_suffix(&self.domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    pub(super) fn to_json(&self) -> Value {
        let servers = self.name_servers.iter().map(|server| {
            let addresses: Vec<String> = server.addresses.iter().map(ToString::to_string).collect();
            json!({ "name": server.name, "addresses": addresses })
        });
        json!({ "domain": self.domain, "mail": self.mail, "name_servers": servers.collect::<Vec<_>>() })
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let server = |one: &Value| {
            let addresses = one["addresses"].as_array()?.iter();
            let addresses = addresses.map(|address| address.as_str()?.parse().ok());
            Some(ZoneNameServer {
                name: one["name"].as_str()?.into(),
                addresses: addresses.collect::<Option<_>>()?,
            })
        };
        let name_servers = value["name_servers"].as_array()?.iter().map(server);
        Some(Self {
            domain: value["domain"].as_str()?.into(),
            mail: value["mail"].as_str()?.into(),
            name_servers: name_servers.collect::<Option<_>>()?,
        })
    }
}

/// Whether a text is a name as a zone file has it, with nothing that means something there.
fn is_name(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_plain);
    text.len() <= 200 && text.split('.').all(is_label)
}
