//! Answers as JSON: the form in which the command line prints them.

use selfsame_codec::reply::{Membership, Node, Provider, Status, Validity};
use selfsame_codec::{Code, MAX_WEIGHT, Role};
use serde_json::{Map, Value, json};

use crate::id::{AuthorityKey, PeerId};

/// A provider as JSON.
#[must_use]
pub fn provider(provider: &Provider) -> Value {
    json!({
        "peer": id(&provider.peer),
        "version": provider.version,
        "weight": share(provider.weight),
        "addresses": provider.node.as_ref().map(|node| &node.addresses),
    })
}

/// A status as JSON.
#[must_use]
pub fn status(status: &Status) -> Value {
    let nodes = |nodes: &[Node]| nodes.iter().map(node).collect::<Vec<_>>();
    let services: Vec<_> = status
        .services
        .iter()
        .map(|service| json!({ "name": service.name, "version": service.version, "weight": share(service.weight) }))
        .collect();
    let counters: Map<_, _> = status
        .counters
        .iter()
        .map(|(code, total)| (code_name(*code), json!(total)))
        .collect();
    json!({
        "id": id(&status.id),
        "network": status.network,
        "role": role(status.role),
        "joined": status.joined,
        "addresses": status.addresses,
        "predecessor": status.predecessor.as_ref().map(node),
        "successors": nodes(&status.successors),
        "fingers": nodes(&status.fingers),
        "relays": nodes(&status.relays),
        "peers": status.peers.iter().map(id).collect::<Vec<_>>(),
        "services": services,
        "objects": status.objects,
        "counters": counters,
        "membership": status.membership.as_ref().map(membership),
    })
}

fn membership(membership: &Membership) -> Value {
    let neighbours: Vec<_> = membership
        .neighbours
        .iter()
        .map(|(peer, certificate)| json!({ "id": id(peer), "certificate": validity(certificate) }))
        .collect();
    json!({
        "authority": AuthorityKey(membership.authority).to_string(),
        "certificate": validity(&membership.certificate),
        "revocations": { "serial": membership.serial, "revoked": membership.revoked },
        "neighbours": neighbours,
    })
}

fn validity(validity: &Validity) -> Value {
    json!({ "since_ms": validity.since_ms, "until_ms": validity.until_ms })
}

/// The name of a code, or the number of one that a newer core counts.
fn code_name(code: u16) -> String {
    Code::from_u16(code).map_or_else(|| format!("{code:#06x}"), |code| code.name().into())
}

fn node(node: &Node) -> Value {
    json!({
        "id": id(&node.id),
        "role": role(node.role),
        "addresses": node.addresses,
        "domain": node.domain,
    })
}

fn id(id: &[u8; 32]) -> String {
    PeerId(*id).to_string()
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leaf => "leaf",
        Role::Member => "member",
    }
}

/// A weight as a share of the whole.
fn share(weight: u16) -> f64 {
    f64::from(weight) / f64::from(MAX_WEIGHT)
}
