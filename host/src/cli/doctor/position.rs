//! Whether a node has the place in the ring that it takes itself to have.

use core::time::Duration;

use selfsame_host::{Code, Error, Node, PeerId};
use serde_json::Value;
use tokio::time::timeout;

use super::finding::Finding;
use super::{Subject, texts};
use crate::cli::value::{each, text};

impl Subject {
    /// Whether the ring knows the node at the place that it takes itself to have.
    pub(super) async fn position(&self) -> Vec<Finding> {
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

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;
    use crate::cli::doctor::finding::Verdict;

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
    fn the_position_behind_the_last_is_the_first() {
        assert_eq!(next(PeerId([255; 32])), PeerId([0; 32]));
        let mut behind = [0; 32];
        behind[31] = 1;
        assert_eq!(next(PeerId([0; 32])), PeerId(behind));
    }
}
