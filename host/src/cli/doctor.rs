//! The command that says what is wrong with a node, and how to mend it.

use core::time::Duration;

use selfsame_host::{Code, Error, IDENTITY_FILE, Node, Seed};
use serde_json::Value;
use tokio::time::timeout;

use super::args::{DoctorCommand, Member, NodeCommand};
use super::output::{Failure, Output};
use super::running;
use super::value::{each, text};

mod admission;
mod certificate;

mod clock;
use clock::Clocks;

mod finding;
use finding::{Finding, Report};

mod grants;
mod plan;
mod position;

pub(crate) async fn run(command: DoctorCommand, output: Output) -> Result<(), Failure> {
    let asked = running::ask(&command.running(), command.timeout.0).await?;
    let mut report = Report::new(output);
    let subject = Subject::new(&command, asked.as_ref())?;
    report.tell(&subject.identity(&command))?;
    report.tell(&subject.running(&command))?;
    if subject.status.is_none() && !subject.is_closed() {
        for finding in subject.start().await {
            report.tell(&finding)?;
        }
    }
    if subject.is_closed() {
        for finding in admission::findings(&command, &subject).await {
            report.tell(&finding)?;
        }
    }
    for finding in grants::findings(&command.node, &subject.network) {
        report.tell(&finding)?;
    }
    for finding in asked.as_ref().map_or_else(Vec::new, duplicates) {
        report.tell(&finding)?;
    }
    let clocks = Clocks::compare(&subject.bootstraps, &subject.neighbours()).await;
    for finding in clocks.findings() {
        report.tell(&finding)?;
    }
    if subject.is_closed() {
        report.tell(&Finding::unknown(
            "ring",
            "it is a closed network, which lets no visitor in",
        ))?;
        return report.end();
    }
    for bootstrap in &subject.bootstraps {
        report.tell(&subject.bootstrap(bootstrap, &clocks).await)?;
    }
    for finding in subject.reachability().await {
        report.tell(&finding)?;
    }
    for finding in subject.position().await {
        report.tell(&finding)?;
    }
    report.end()
}

/// The node that is looked at
struct Subject {
    network: String,
    bootstraps: Vec<String>,
    /// What a node that does not run yet is to listen on, and to tell others as its addresses.
    listen: Vec<String>,
    addresses: Vec<String>,
    allow_private: bool,
    trust_on_first_use: bool,
    /// What it says itself, if it runs.
    status: Option<Value>,
    longest: Duration,
}

impl Subject {
    fn new(command: &DoctorCommand, running: Option<&Value>) -> Result<Self, Failure> {
        let said = running.map_or(&Value::Null, |answer| &answer["network"]);
        let NodeCommand {
            member: Member { network, data, .. },
            listen,
            ..
        } = &command.node;
        let names = [network.network.as_str(), text(said)];
        let name = names.into_iter().find(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            Failure::usage(format!(
                "no node runs in {}: name its folder with --data or its address with --url, or say --network and --join to \
                 try what one would do",
                data.folder.display()
            ))
        })?;
        let known = running.map_or_else(Vec::new, |answer| texts(&answer["bootstraps"]));
        // A node that runs with a bootstrap without an id was told to trust whoever answers there.
        let trusts = known.iter().any(|url| !url.contains('#'));
        let allows_private = running.is_some_and(|answer| answer["allow_private"] == true);
        Ok(Self {
            network: name.into(),
            bootstraps: if network.join.is_empty() {
                known
            } else {
                network.join.clone()
            },
            listen: listen.clone(),
            addresses: command.node.member.address.clone(),
            allow_private: network.allow_private || allows_private,
            trust_on_first_use: network.trust_on_first_use || trusts,
            status: running.map(|answer| answer["status"].clone()),
            longest: command.timeout.0,
        })
    }

    /// Whether nobody may look at the ring without a certificate.
    fn is_closed(&self) -> bool {
        self.network.contains('@')
    }

    fn identity(&self, command: &DoctorCommand) -> Finding {
        let path = command.node.member.data.folder.join(IDENTITY_FILE);
        let check = "identity";
        if command.url.is_some() {
            return Finding::unknown(check, "it is in another folder, or on another machine");
        }
        let id = Seed::load(&path).and_then(|seed| {
            if self.is_closed() {
                seed.node_key(&self.network).map(|key| key.to_string())
            } else {
                seed.peer_id(&self.network).map(|id| id.to_string())
            }
        });
        match id {
            Ok(_) if others_may_read(&path) => Finding::wrong(
                check,
                format!("others may read {}, and who has it is this node", path.display()),
                format!("chmod 600 {}", path.display()),
            ),
            Ok(id) => Finding::well(check, format!("{id} in {}", self.network)),
            Err(_) if self.status.is_none() && !path.exists() => {
                let text = format!("there is no {}: the node makes a new identity", path.display());
                Finding::well(check, text)
            }
            Err(error) => Finding::wrong(
                check,
                error.to_string(),
                "restore the file, or `selfsame id new` makes a new identity, to which grants have to be made anew",
            ),
        }
    }

    fn running(&self, command: &DoctorCommand) -> Finding {
        match &self.status {
            Some(status) => Finding::well("node", format!("it runs as a {}", text(&status["role"]))),
            None => {
                let folder = command.node.member.data.folder.display();
                let text = format!("no node runs in {folder}: tried is what one would do with these flags");
                Finding::unknown("node", text)
            }
        }
    }

    /// Whether a node can join through a bootstrap: that it is there, who it says it is, and of this network.
    async fn bootstrap(&self, bootstrap: &str, clocks: &Clocks) -> Finding {
        match self.visit(vec![bootstrap.to_owned()]).await {
            Ok(visitor) => {
                visitor.stop().await;
                Finding::well("bootstrap", format!("a node joins through {bootstrap}"))
            }
            // A peer drops what a node signs whose clock is wrong: all that the node sees is that nobody answers.
            Err(error) => clocks.refusal(bootstrap).unwrap_or_else(|| {
                Finding::wrong("bootstrap", format!("{bootstrap}: {error}"), remedy_of(&error))
            }),
        }
    }

    /// Addresses of the nodes next to this one in the ring.
    fn neighbours(&self) -> Vec<String> {
        let near = |status: &Value| {
            each(&status["successors"])
                .chain(each(&status["predecessor"]))
                .filter_map(|node| {
                    let mut urls = texts(&node["addresses"]).into_iter();
                    urls.find(|url| !url.starts_with("tcp:") && !url.starts_with("udp:"))
                })
                .collect()
        };
        self.status.as_ref().map_or_else(Vec::new, near)
    }

    /// Whether the node can be reached at each address that it tells others.
    async fn reachability(&self) -> Vec<Finding> {
        let check = "reachability";
        let Some(status) = &self.status else {
            return Vec::new();
        };
        // Where a leaf is reached through others is no address of its own.
        let mut addresses = texts(&status["addresses"]);
        addresses.retain(|address| !address.starts_with("relay:"));
        if addresses.is_empty() {
            let relays = each(&status["relays"]).count();
            return vec![match relays {
                0 => Finding::wrong(
                    check,
                    "a leaf that no member relays for, so that nobody reaches it",
                    "look at its bootstraps, or give it an address: --listen URL --address URL",
                ),
                relays => Finding::well(check, format!("a leaf that is reached through {relays} members")),
            }];
        }
        if status["joined"] != true {
            return vec![Finding::unknown(
                check,
                "nobody joins through it before it has joined itself",
            )];
        }
        let mut findings = Vec::new();
        for address in addresses {
            findings.push(self.address(&address, text(&status["id"])).await);
        }
        findings
    }

    async fn address(&self, address: &str, id: &str) -> Finding {
        let check = "reachability";
        if let Some(finding) = self.resolution(address).await {
            return finding;
        }
        match self.visit(vec![format!("{address}#{id}")]).await {
            Ok(visitor) => {
                visitor.stop().await;
                Finding::well(check, format!("it answers at {address}, seen from here"))
            }
            Err(error) => Finding::wrong(
                check,
                format!("{address}: {error}"),
                "let --address name where others reach it, and let firewall and proxy pass that on (WebSocket to /.mesh)",
            ),
        }
    }

    /// A node that joins in this one's network through others, in memory, to see what it would see.
    async fn visit(&self, through: Vec<String>) -> Result<Node, Error> {
        let builder = Node::builder(&self.network)
            .in_memory()
            .bootstrap(through)
            .trust_on_first_use(self.trust_on_first_use)
            .allow_private(self.allow_private)
            .unowned();
        let joined = timeout(self.longest, builder.start()).await;
        joined.unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut)))
    }
}

/// The identities that two nodes run with: this node's, or one that it has met.
fn duplicates(answer: &Value) -> Vec<Finding> {
    let own = text(&answer["status"]["id"]);
    let told = each(&answer["duplicates"]).map(|duplicate| {
        let peer = text(&duplicate["peer"]);
        let whose = if peer == own { "this node's identity" } else { peer };
        let places = each(&duplicate["addresses"]).map(|addresses| texts(addresses).join(" "));
        let places: Vec<String> = places.collect();
        Finding::wrong(
            "duplicate",
            format!("two nodes run with {whose}: at {}", places.join(" and at ")),
            "stop one of the two, or give it a folder of its own (`selfsame id new`); --take-over lets the one that is started \
             last stay",
        )
    });
    told.collect()
}

/// What an error means for whoever runs the node.
fn remedy_of(error: &Error) -> &'static str {
    match error.code() {
        Some(Code::WrongPeer) => "the id behind # is another node's: use the one that it prints at its start",
        Some(Code::WrongNetwork) => "it is in another network: --network and its own have to be the same",
        Some(Code::StaleRecord) => "a clock is wrong: let both machines take their time from NTP",
        Some(Code::NoBootstrap) if !error.to_string().contains("private address") => {
            "wait until it has joined itself"
        }
        Some(Code::NoBootstrap | Code::ForbiddenAddress) => {
            "--allow-private if that is meant, or a public address"
        }
        Some(_) => "start it, or let --join name another; look at name, port, firewall and certificate",
        None => "write it as URL#PEER-ID, as a node prints it at its start",
    }
}

#[cfg(unix)]
fn others_may_read(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_may_read(_path: &std::path::Path) -> bool {
    false
}

fn texts(value: &Value) -> Vec<String> {
    each(value).map(|text| self::text(text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use selfsame_host::PeerId;
    use serde_json::json as value;

    use super::*;

    #[test]
    fn duplicate_is_named_with_both_addresses() {
        let [own, other] = [PeerId([1; 32]), PeerId([2; 32])].map(|id| id.to_string());
        let duplicate =
            |peer: &str| value!({ "peer": peer, "addresses": [["ws://a:1"], ["ws://b:1", "ws://b:2"]] });
        let answer = value!({ "status": { "id": own }, "duplicates": [duplicate(&own), duplicate(&other)] });
        let found: Vec<String> = duplicates(&answer)
            .into_iter()
            .map(|finding| finding.text)
            .collect();
        assert_eq!(
            found,
            [
                "two nodes run with this node's identity: at ws://a:1 and at ws://b:1 ws://b:2".to_owned(),
                format!("two nodes run with {other}: at ws://a:1 and at ws://b:1 ws://b:2"),
            ]
        );
    }
}
