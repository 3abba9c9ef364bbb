//! Whose capsules a replica holds.

use crate::common::server::{Client, Map, Server};
use crate::common::{charter, owner};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::message::Operation;
use selfsame_codec::Code;

#[test]
fn a_replica_for_certain_owners_takes_capsules_of_nobody_else() {
    let metadata = charter().encoded().to_vec();
    let create = || [Operation::Create { metadata: &metadata }];
    let mut stranger = Server::new(Map::new()).for_owners(vec![KeyPair::from_seed(&[77; 32]).public()]);
    let mut client = Client::of(&charter());
    assert_eq!(client.ask(&mut stranger, &create()), [Err(Code::OwnerRefused)]);
    assert!(stranger.store.is_empty(), "nothing is stored");
    let mut known = Server::new(Map::new()).for_owners(vec![owner().public()]);
    assert_eq!(client.ask(&mut known, &create()), [Ok(Vec::new())]);
    // What it holds it keeps when its owner is no longer among them.
    let mut before = Server::new(known.store).for_owners(vec![KeyPair::from_seed(&[77; 32]).public()]);
    assert_eq!(client.ask(&mut before, &create()), [Ok(Vec::new())]);
}
