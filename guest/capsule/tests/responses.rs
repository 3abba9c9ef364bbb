//! What a response of a replica may hold: it has to fit the memory of the smallest platform.

mod common;

use common::server::{Client, Map, Server, write};
use common::{charter, owner, writer};
use selfsame_capsule::message::Operation;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Code;

/// On its way a response takes memory several times, which a small platform has not: what comes after two megabytes is asked again.
#[test]
fn a_response_holds_bodies_up_to_two_megabytes_and_the_last_one() {
    let mut server = Server::new(Map::new());
    let mut client = Client::of(&charter());
    let metadata = charter().encoded().to_vec();
    let given = client.ask(&mut server, &[Operation::Create { metadata: &metadata }]);
    assert_eq!(given, [Ok(Vec::new())]);
    let mut author = writer(&charter(), 0, owner(), None);
    let body = vec![7; 1_000_000];
    let records: Vec<Written> = (0..5)
        .map(|_| {
            author
                .write(&body, &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    for record in &records {
        assert!(client.ask(&mut server, &[write(record)])[0].is_ok());
    }
    let reads: Vec<Operation<'_>> = records
        .iter()
        .map(|record| Operation::Read { record: record.name })
        .chain([Operation::Describe])
        .collect();
    let given = client.ask(&mut server, &reads);
    let codes: Vec<Option<Code>> = given.iter().map(|one| one.as_ref().err().copied()).collect();
    let full = Some(Code::TooLarge);
    assert_eq!(codes, [None, None, None, full, full, None]);
    let again = client.ask(&mut server, &reads[3..5]);
    assert!(
        again.iter().all(Result::is_ok),
        "the others are given when they are asked for again"
    );
}
