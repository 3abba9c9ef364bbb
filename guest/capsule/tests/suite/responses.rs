//! What a response of a replica may hold: it has to fit the memory of the smallest platform.

use crate::common::server::{Client, Map, Server, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::{charter, owner, view, writer};
use selfsame_capsule::message::{Operation, TO_THE_TOP};
use selfsame_capsule::tree::{Claim, End, Tree, verify_each};
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Reader};

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

/// Sub-records are read with what proves them against the record's tree.
#[test]
fn a_subrecord_comes_with_its_path() {
    let mut server = Server::new(Map::new());
    let mut client = Client::of(&charter());
    let metadata = charter().encoded().to_vec();
    let given = client.ask(&mut server, &[Operation::Create { metadata: &metadata }]);
    assert_eq!(given, [Ok(Vec::new())]);
    let mut writer = writer(&charter(), 0, owner(), None);
    let parts: Vec<Vec<u8>> = (0..23_u8).map(|index| vec![index; 5]).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let written = writer
        .commit(&parts, &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let signed = sign(written.name, writer.sign(&written.name));
    assert!(
        client
            .ask(&mut server, &[write(&written), signed])
            .iter()
            .all(Result::is_ok)
    );
    let charter = charter();
    let whole = End::Root {
        root: view(&written).body(),
        preamble: &[],
    };
    let hasher = charter.hasher();
    let leaves = parts.iter().map(|part| hasher.leaf(part)).collect();
    let tree = Tree::new(hasher, leaves).expect("it has leaves");
    for (index, part) in (0..).zip(&parts) {
        for levels in [0, 1, 2, 3, TO_THE_TOP] {
            let operation = Operation::ReadPart {
                record: written.name,
                index,
                levels,
            };
            let given = client
                .ask(&mut server, &[operation])
                .remove(0)
                .expect("it is there");
            let mut reader = Reader::new(&given);
            let read: &[u8] = reader.field().expect("the sub-record");
            let count: u16 = reader.field().expect("a count");
            let path: Vec<[u8; 32]> = (0..count).map(|_| reader.array().expect("a hash")).collect();
            assert_eq!(read, *part);
            let mut expected = Vec::new();
            tree.path(index as usize, levels, &mut expected);
            assert_eq!(
                path.as_flattened(),
                expected,
                "sub-record {index}, {levels} levels"
            );
            let claim = Claim {
                count: parts.len(),
                index: index as usize,
                leaf: hasher.leaf(read),
                path: &path,
                end: whole,
            };
            let (verified, _) = verify_each(hasher, &[claim]);
            assert_eq!(
                verified[0].is_ok(),
                levels >= 3,
                "sub-record {index}, {levels} levels"
            );
        }
    }
    let beyond = Operation::ReadPart {
        record: written.name,
        index: 23,
        levels: TO_THE_TOP,
    };
    assert_eq!(client.ask(&mut server, &[beyond]), [Err(Code::NoRecord)]);
}
