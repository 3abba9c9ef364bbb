//! The command that shows where a node stands in the ring.

use core::fmt::Write as _;

use selfsame_host::PeerId;
use serde_json::Value;

use super::args::RingCommand;
use super::membership::{Validity, admission, now_ms, of_neighbour, revocations};
use super::output::{Failure, Output};
use super::running;
use super::value::{each, text};

/// Digits of an id that tell it from others at a glance.
const DIGITS: usize = 16;

pub(crate) async fn run(command: RingCommand, output: Output) -> Result<(), Failure> {
    let asked = running::ask(&command.running, command.timeout.timeout.0).await?;
    let Some(answer) = asked else {
        return Err(Failure::unanswered(format!(
            "no node runs in {}: start one with `selfsame node`, name its folder with --data, or its address with --url",
            command.running.folder.display()
        )));
    };
    let status = &answer["status"];
    output.print(table(status, now_ms()).trim_end(), status)
}

/// What a node knows of the ring, for people.
fn table(status: &Value, now_ms: u64) -> String {
    let own = id_of(status);
    let mut table = String::new();
    let mut row = |name: &str, text: &str| {
        // Writing to a text cannot fail.
        _ = writeln!(table, "{name:<12} {text}");
    };
    let is = if status["joined"] == true {
        "joined"
    } else {
        "not joined"
    };
    let (role, network) = (text(&status["role"]), text(&status["network"]));
    row(
        "node",
        &format!("{} {role} of {network}, {is}", text(&status["id"])),
    );
    row("position", &percent(own, None));
    row("addresses", &texts(&status["addresses"]));
    row("admission", &admission(status));
    let membership = &status["membership"];
    if let Some(validity) = Validity::from_json(&membership["certificate"]) {
        row("certificate", &validity.text(now_ms));
        row("revocations", &revocations(membership));
    }
    let others = [
        ("predecessor", &status["predecessor"]),
        ("successor", &status["successors"]),
    ];
    for (name, nodes) in others
        .into_iter()
        .chain([("finger", &status["fingers"]), ("relay", &status["relays"])])
    {
        for (at, node) in each(nodes).enumerate() {
            let name = if name == "successor" {
                format!("{name} {}", at + 1)
            } else {
                name.to_owned()
            };
            let away = percent(id_of(node), own);
            let id = text(&node["id"]);
            let certificate = of_neighbour(status, id).map(|validity| validity.text(now_ms));
            let certificate = certificate.map_or_else(String::new, |text| format!(" certificate {text}"));
            let id = id.get(..DIGITS).unwrap_or(id);
            let addresses = texts(&node["addresses"]);
            row(&name, &format!("{id} {away} {addresses}{certificate}"));
        }
    }
    for service in each(&status["services"]) {
        let version = match text(&service["version"]) {
            "" => String::new(),
            version => format!(" version {version}"),
        };
        let weight = &service["weight"];
        row(
            "serves",
            &format!("{}{version} weight {weight}", text(&service["name"])),
        );
    }
    let sessions = status["peers"].as_array().map_or(0, Vec::len);
    let objects = &status["objects"];
    row("holds", &format!("{objects} associations, {sessions} sessions"));
    table
}

fn texts(value: &Value) -> String {
    let all: Vec<&str> = each(value).map(text).collect();
    if all.is_empty() {
        "none".into()
    } else {
        all.join(" ")
    }
}

fn id_of(node: &Value) -> Option<PeerId> {
    text(&node["id"]).parse().ok()
}

/// How far clockwise a position is from another one, or from 0, in hundredths of the circle.
fn percent(to: Option<PeerId>, from: Option<PeerId>) -> String {
    let leading = |id: PeerId| u64::from_be_bytes(core::array::from_fn(|at| id.0[at]));
    let Some(to) = to.map(leading) else {
        return String::new();
    };
    let away = to.wrapping_sub(from.map_or(0, leading));
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let share = away as f64 / (u64::MAX as f64);
    let sign = if from.is_some() { "+" } else { "" };
    format!("{sign}{:.4} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_shown_with_its_distance_from_this_one() {
        let own = "40".to_owned() + &"00".repeat(31);
        let next = "80".to_owned() + &"00".repeat(31);
        let before = "00".repeat(32);
        let status = json!({
            "id": own, "role": "member", "network": "test", "joined": true, "addresses": ["ws://a:1"],
            "predecessor": { "id": before, "addresses": [] },
            "successors": [{ "id": next, "addresses": ["ws://b:1", "tcp://b:2"] }],
            "services": [{ "name": "check", "version": "2", "weight": 0.1 }],
            "peers": [next], "objects": 3,
        });
        let table = table(&status, 0);
        for line in [
            format!("node         {own} member of test, joined"),
            "position     25.0000 %".into(),
            "admission    open".into(),
            "predecessor  0000000000000000 +75.0000 % none".into(),
            "successor 1  8000000000000000 +25.0000 % ws://b:1 tcp://b:2".into(),
            "serves       check version 2 weight 0.1".into(),
            "holds        3 associations, 1 sessions".into(),
        ] {
            assert!(table.lines().any(|shown| shown == line), "{line} in\n{table}");
        }
    }
}
