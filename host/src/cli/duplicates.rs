//! Identities that two nodes were seen to run with.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use selfsame_host::{Event, Node, PeerId};
use serde_json::{Value, json as value};
use tokio::sync::broadcast::error::RecvError;

/// Identities kept, the latest ones: anybody can run twice, and one line each tells an operator enough.
const MAX_DUPLICATES: usize = 16;
/// How long one counts: two runs that go on are seen again and again.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// What a node was told of identities that run twice.
#[derive(Debug, Default)]
pub(crate) struct Duplicates(Mutex<Vec<Duplicate>>);

#[derive(Debug)]
struct Duplicate {
    peer: PeerId,
    addresses: [Vec<String>; 2],
    seen: Instant,
}

impl Duplicates {
    /// Notes what a node tells, until it ends.
    pub(crate) async fn follow(&self, node: &Node) {
        let mut events = node.events();
        loop {
            match events.recv().await {
                Ok(Event::DuplicateIdentity { peer, addresses }) => self.note(peer, addresses),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn note(&self, peer: PeerId, addresses: [Vec<String>; 2]) {
        let seen = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|duplicate| duplicate.peer != peer);
        if all.len() >= MAX_DUPLICATES {
            all.remove(0);
        }
        all.push(Duplicate {
            peer,
            addresses,
            seen,
        });
    }

    /// Those of late, as JSON.
    pub(crate) fn json(&self) -> Value {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = all.iter().filter(|duplicate| duplicate.seen.elapsed() < KEPT);
        late.map(
            |Duplicate { peer, addresses, .. }| value!({ "peer": peer.to_string(), "addresses": addresses }),
        )
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> PeerId {
        PeerId([number; 32])
    }

    #[test]
    fn latest_addresses_of_an_identity_count() {
        let duplicates = Duplicates::default();
        duplicates.note(peer(1), [vec!["ws://a:1".into()], vec!["ws://b:1".into()]]);
        duplicates.note(peer(1), [vec!["ws://a:1".into()], vec!["ws://c:1".into()]]);
        let told = duplicates.json();
        assert_eq!(told.as_array().map(Vec::len), Some(1));
        assert_eq!(told[0]["peer"], peer(1).to_string());
        assert_eq!(told[0]["addresses"], value!([["ws://a:1"], ["ws://c:1"]]));
    }

    #[test]
    fn identities_of_strangers_fill_no_memory() {
        let duplicates = Duplicates::default();
        for number in 0..=u8::MAX {
            duplicates.note(peer(number), [Vec::new(), Vec::new()]);
        }
        let told = duplicates.json();
        assert_eq!(told.as_array().map(Vec::len), Some(MAX_DUPLICATES));
        assert_eq!(told[MAX_DUPLICATES - 1]["peer"], peer(u8::MAX).to_string());
    }
}
