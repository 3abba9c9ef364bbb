//! The command that says what is wrong with a node, and how to mend it.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use selfsame_host::{Code, Error, IDENTITY_FILE, Node, PeerId, Seed};
use serde_json::{Value, json as value};
use tokio::time::timeout;

use super::args::DoctorCommand;
use super::output::{Failure, Output};
use super::running;
use super::value::{each, text};

mod clock;
use clock::Clocks;

pub(crate) async fn run(command: DoctorCommand, output: Output) -> Result<(), Failure> {
    let asked = running::ask(&command.running, command.timeout.0).await?;
    let mut report = Report { output, wrong: 0 };
    let subject = Subject::new(&command, asked.as_ref())?;
    report.tell(&subject.identity(&command))?;
    report.tell(&subject.running(&command))?;
    for finding in asked.as_ref().map_or_else(Vec::new, duplicates) {
        report.tell(&finding)?;
    }
    let clocks = Clocks::compare(&subject.bootstraps, &subject.neighbours()).await;
    for bootstrap in &subject.bootstraps {
        report.tell(&subject.bootstrap(bootstrap, &clocks).await)?;
    }
    for finding in clocks.findings() {
        report.tell(&finding)?;
    }
    for finding in subject.reachability().await {
        report.tell(&finding)?;
    }
    for finding in subject.position().await {
        report.tell(&finding)?;
    }
    report.end()
}

/// What was found out about one thing
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// All is well.
    Well,
    /// It could not be found out.
    Unknown,
    /// Something is wrong, and this mends it.
    Wrong { remedy: String },
}

impl Finding {
    fn well(check: &'static str, text: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Well,
            text: text.into(),
        }
    }

    fn unknown(check: &'static str, text: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Unknown,
            text: text.into(),
        }
    }

    fn wrong(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Wrong {
                remedy: remedy.into(),
            },
            text: text.into(),
        }
    }
}

/// Tells each finding as it comes
struct Report {
    output: Output,
    wrong: usize,
}

impl Report {
    fn tell(&mut self, finding: &Finding) -> Result<(), Failure> {
        let Finding { check, verdict, text } = finding;
        let (word, remedy) = match verdict {
            Verdict::Well => ("ok", None),
            Verdict::Unknown => ("unknown", None),
            Verdict::Wrong { remedy } => {
                self.wrong += 1;
                ("wrong", Some(remedy))
            }
        };
        let mend = remedy.map_or_else(String::new, |remedy| format!(": {remedy}"));
        self.output.print(
            format_args!("{word:<8}{check:<14}{text}{mend}"),
            &value!({ "check": check, "verdict": word, "text": text, "remedy": remedy }),
        )
    }

    fn end(self) -> Result<(), Failure> {
        match self.wrong {
            0 => Ok(()),
            1 => Err(Failure::other("one thing is wrong")),
            wrong => Err(Failure::other(format!("{wrong} things are wrong"))),
        }
    }
}

/// The node that is looked at
struct Subject {
    network: String,
    bootstraps: Vec<String>,
    allow_private: bool,
    /// What it says itself, if it runs.
    status: Option<Value>,
    longest: Duration,
}

impl Subject {
    fn new(command: &DoctorCommand, running: Option<&Value>) -> Result<Self, Failure> {
        let said = running.map_or(&Value::Null, |answer| &answer["status"]["network"]);
        let network = command
            .network
            .clone()
            .or_else(|| said.as_str().map(str::to_owned));
        let network = network.ok_or_else(|| {
            Failure::usage(format!(
                "no node runs in {}: name its folder with --data or its address with --url, or say --network and --join to \
                 look at what it would meet",
                command.running.folder.display()
            ))
        })?;
        let known = running.map_or_else(Vec::new, |answer| texts(&answer["bootstraps"]));
        Ok(Self {
            network,
            bootstraps: if command.join.is_empty() {
                known
            } else {
                command.join.clone()
            },
            allow_private: running.is_none_or(|answer| answer["allow_private"] == true),
            status: running.map(|answer| answer["status"].clone()),
            longest: command.timeout.0,
        })
    }

    fn identity(&self, command: &DoctorCommand) -> Finding {
        let path = command.running.folder.join(IDENTITY_FILE);
        let check = "identity";
        if command.running.url.is_some() {
            return Finding::unknown(check, "it is in another folder, or on another machine");
        }
        let id = Seed::load(&path).and_then(|seed| seed.peer_id(&self.network));
        match id {
            Ok(_) if others_may_read(&path) => Finding::wrong(
                check,
                format!("others may read {}, and who has it is this node", path.display()),
                format!("chmod 600 {}", path.display()),
            ),
            Ok(id) => Finding::well(check, format!("{id} in {}", self.network)),
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
            None => Finding::wrong(
                "node",
                format!("no node runs in {}", command.running.folder.display()),
                "start it: selfsame node --network NAME --listen URL --data DIR",
            ),
        }
    }

    /// Whether a node can join through a bootstrap: that it is there, who it says it is, and of this network.
    async fn bootstrap(&self, bootstrap: &str, clocks: &Clocks) -> Finding {
        match self.visit(vec![bootstrap.to_owned()]).await {
            Ok(visitor) => {
                visitor.stop().await;
                Finding::well("bootstrap", format!("{bootstrap} answers"))
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
        let addresses = texts(&status["addresses"]);
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
        let mut findings = Vec::new();
        for address in addresses {
            findings.push(self.address(&address, text(&status["id"])).await);
        }
        findings
    }

    async fn address(&self, address: &str, id: &str) -> Finding {
        let check = "reachability";
        if !self.allow_private && is_private(address) {
            return Finding::wrong(
                check,
                format!("{address} is a private address, which other nodes do not dial"),
                "say at which public one they reach it: --address wss://NAME",
            );
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

    /// Whether the ring knows the node at the place that it takes itself to have.
    async fn position(&self) -> Vec<Finding> {
        let check = "ring";
        let Some(status) = &self.status else {
            return Vec::new();
        };
        if status["joined"] != true {
            let text = "the node is not in the ring yet";
            return vec![Finding::wrong(
                check,
                text,
                "mend its bootstraps; it goes on trying",
            )];
        }
        if status["role"] == "leaf" {
            return vec![Finding::well(
                check,
                "a leaf: it has no place in the ring of its own",
            )];
        }
        let alone = each(&status["successors"]).next().is_none();
        if alone && self.bootstraps.is_empty() {
            return vec![Finding::well(
                check,
                "it is the only member: others join through it",
            )];
        }
        if alone {
            let text = "it stands alone, though it has bootstraps";
            return vec![Finding::wrong(
                check,
                text,
                "mend its bootstraps; it goes on trying",
            )];
        }
        if status["predecessor"].is_null() {
            let text = "it knows no predecessor";
            return vec![Finding::wrong(
                check,
                text,
                "wait half a minute; if it stays so, look at its reachability",
            )];
        }
        self.seen_from_outside(status).await
    }

    /// What another node of the ring finds at the node's position and behind it.
    async fn seen_from_outside(&self, status: &Value) -> Vec<Finding> {
        let own = text(&status["id"]);
        let mut through = self.bootstraps.clone();
        if through.is_empty() {
            let near = each(&status["successors"]).take(1);
            through.extend(near.filter_map(|node| {
                let url = texts(&node["addresses"]).into_iter().next()?;
                Some(format!("{url}#{}", text(&node["id"])))
            }));
        }
        let visitor = match self.visit(through).await {
            Ok(visitor) => visitor,
            Err(error) => {
                return vec![Finding::unknown(
                    "ring",
                    format!("nobody lets us look at it: {error}"),
                )];
            }
        };
        let found = found_places(&visitor, own, self.longest).await;
        visitor.stop().await;
        match found {
            Err(error) => vec![Finding::wrong(
                "ring",
                format!("a lookup of its position fails: {error}"),
                "wait half a minute; if it stays so, look at its reachability and at those of its successors",
            )],
            Ok([here, next]) => placed(status, here, next),
        }
    }

    /// A node that joins in this one's network through others, in memory, to see what it would see.
    async fn visit(&self, through: Vec<String>) -> Result<Node, Error> {
        let trusts = through.iter().any(|url| !url.contains('#'));
        let builder = Node::builder(&self.network)
            .in_memory()
            .bootstrap(through)
            .trust_on_first_use(trusts)
            .allow_private(self.allow_private)
            .unowned();
        let joined = timeout(self.longest, builder.start()).await;
        joined.unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut)))
    }
}

/// The members that are responsible for a node's position and for the one behind it.
async fn found_places(visitor: &Node, own: &str, longest: Duration) -> Result<[PeerId; 2], Error> {
    let own: PeerId = own.parse()?;
    let mut found = [own; 2];
    for (found, position) in found.iter_mut().zip([own, next(own)]) {
        let lookup = timeout(longest, visitor.find_node(position.0)).await;
        let (node, _) = lookup.unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut)))?;
        *found = PeerId(node.id);
    }
    Ok(found)
}

/// The position behind another one.
fn next(PeerId(mut id): PeerId) -> PeerId {
    for byte in id.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    PeerId(id)
}

fn placed(status: &Value, here: PeerId, next: PeerId) -> Vec<Finding> {
    let wait =
        "wait half a minute; if it stays so, two rings have parted: give all members the same bootstraps";
    let is_here = if here.to_string() == text(&status["id"]) {
        Finding::well("ring", "lookups of its position arrive at it")
    } else {
        Finding::wrong("ring", format!("lookups of its position arrive at {here}"), wait)
    };
    let successor = each(&status["successors"])
        .next()
        .map_or("", |node| text(&node["id"]));
    let is_next = if next.to_string() == successor {
        Finding::well("ring", "its successor is the one that the ring knows")
    } else {
        let text = format!("the ring has {next} behind it, and it knows {successor}");
        Finding::wrong("ring", text, wait)
    };
    vec![is_here, is_next]
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
        Some(Code::ForbiddenAddress) => "its address is private: --allow-private if that is meant",
        Some(_) => "start it, or let --join name another; look at name, port, firewall and certificate",
        None => "write it as URL#PEER-ID, as a node prints it at its start",
    }
}

/// Whether a URL names an address of this machine or of a private network.
fn is_private(url: &str) -> bool {
    let host = url
        .parse::<http::Uri>()
        .ok()
        .and_then(|uri| uri.host().map(str::to_owned));
    let host = host.unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(IpAddr::V4(ip)) => is_private_v4(ip),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                || ip.to_ipv4_mapped().is_some_and(is_private_v4)
        }
        Err(_) => host == "localhost",
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
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
    use super::*;

    #[test]
    fn a_ring_that_finds_another_node_at_this_place_is_wrong() {
        let [own, other] = [PeerId([1; 32]), PeerId([2; 32])];
        let status = value!({ "id": own.to_string(), "successors": [{ "id": other.to_string() }] });
        let wrong = |here, next| {
            let findings = placed(&status, here, next);
            findings
                .iter()
                .filter(|finding| matches!(finding.verdict, Verdict::Wrong { .. }))
                .count()
        };
        assert_eq!(wrong(own, other), 0);
        assert_eq!(wrong(other, other), 1);
        assert_eq!(wrong(own, own), 1);
    }

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

    #[test]
    fn the_position_behind_the_last_is_the_first() {
        assert_eq!(next(PeerId([255; 32])), PeerId([0; 32]));
        let mut behind = [0; 32];
        behind[31] = 1;
        assert_eq!(next(PeerId([0; 32])), PeerId(behind));
    }

    #[test]
    fn private_addresses_are_known() {
        for url in [
            "ws://127.0.0.1:7000",
            "ws://[::1]:7000",
            "tcp://10.1.2.3:7",
            "ws://localhost:1",
            "ws://[fd00::1]:2",
        ] {
            assert!(is_private(url), "{url}");
        }
        for url in [
            "wss://node.example",
            "ws://1.1.1.1:7000",
            "ws://[2606:4700::1]:80",
        ] {
            assert!(!is_private(url), "{url}");
        }
    }
}
