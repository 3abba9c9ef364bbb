//! What a server gives of records with sub-records: any of them at any place of a long body, with as much of its path as is asked for,
//! whether it has the tree at hand or not.

use crate::common::server::{Client, Given, Map, Server, sign, write};
use crate::common::{charter, charter_of, owner, writer};
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::epoch::epoch_key;
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::message::{Operation, TO_THE_TOP};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::record::TreeBody;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Field as _};

/// Bodies longer than this are stored in chunks of about fifteen times as much.
const SHORT: usize = 4096;

fn is_sealed(charter: &Charter) -> bool {
    charter.metadata().readers == Readers::Granted
}

fn charters() -> [Charter; 2] {
    [
        charter(),
        charter_of(HashKind::Blake3, Readers::Granted, Vec::new()),
    ]
}

/// A record of sub-records of these lengths.
fn committed(charter: &Charter, lens: &[usize]) -> Written {
    let seal = is_sealed(charter).then(|| epoch_key(&[1; 32], &charter.name(), 0));
    let parts: Vec<Vec<u8>> = (0_u8..).zip(lens).map(|(index, len)| vec![index; *len]).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let written = writer(charter, 0, owner(), seal).commit(&parts, &Backpointers::Chain, &[3; 16]);
    written.expect("it is made")
}

/// A server that has just stored a record.
fn stored(charter: &Charter, written: &Written) -> (Server, Client) {
    let mut server = Server::new(Map::new());
    let mut client = Client::of(charter);
    let metadata = charter.encoded();
    let signature = sign_record(&owner(), &written.name);
    let operations = [
        Operation::Create { metadata },
        write(written),
        sign(written.name, signature),
    ];
    let given = client.ask(&mut server, &operations);
    assert!(given.iter().all(Result::is_ok), "{given:?}");
    (server, client)
}

fn read(written: &Written, index: u32, levels: u8) -> Operation<'static> {
    Operation::ReadPart {
        record: written.name,
        index,
        levels,
    }
}

/// What a server is to give.
fn expected(charter: &Charter, written: &Written, index: usize, levels: u8) -> Given {
    let body = TreeBody::decode(&written.body, is_sealed(charter)).expect("a body");
    let tree = body.hashes(charter.hasher()).expect("a tree");
    let (mut out, mut path) = (Vec::new(), Vec::new());
    body.subrecords[index].write(&mut out);
    tree.path(index, levels, &mut path);
    ((path.len() / 32) as u16).write(&mut out);
    out.extend_from_slice(&path);
    Ok(out)
}

#[test]
fn any_sub_record_is_given_from_wherever_in_the_body_it_lies() {
    // In the record's own value, in one chunk, over the ends of chunks, and over two ends.
    for lens in [
        [10, 0, 7, 1, 300, 20],
        [4096, 1, 0, 900, 30_000, 5],
        [61_000, 1, 400, 61_000, 61_000, 61_000],
        [130_000, 0, 60_000, 200_000, 1, 1],
    ] {
        for charter in charters() {
            let written = committed(&charter, &lens);
            assert_eq!(written.body.len() > SHORT, lens[0] > 10);
            let (mut server, mut client) = stored(&charter, &written);
            for levels in [0, 1, TO_THE_TOP, 0] {
                // As it has just stored it, and as it finds it in its store.
                let mut anew = Server::new(server.store.clone());
                for server in [&mut server, &mut anew] {
                    for index in 0..lens.len() {
                        let given = client.ask(server, &[read(&written, index as u32, levels)]);
                        let expected = expected(&charter, &written, index, levels);
                        assert!(given == [expected], "{lens:?}: {index}, {levels} levels");
                    }
                }
            }
        }
    }
}

#[test]
fn a_path_is_given_though_the_tree_was_not_needed_before() {
    let charter = charter();
    let written = committed(&charter, &[9000; 30]);
    let (server, mut client) = stored(&charter, &written);
    let mut anew = Server::new(server.store);
    for levels in [0, 2, 0, TO_THE_TOP] {
        let given = client.ask(&mut anew, &[read(&written, 29, levels)]);
        assert!(
            given == [expected(&charter, &written, 29, levels)],
            "{levels} levels"
        );
    }
}

#[test]
fn one_sub_record_is_read_without_the_rest_of_a_long_body() {
    let charter = charter();
    let written = committed(&charter, &[25_000; 40]);
    let (server, mut client) = stored(&charter, &written);
    let chunks = server.store.len();
    assert!(chunks > 17);
    let mut anew = Server::new(server.store);
    client.ask(&mut anew, &[read(&written, 20, 0)]);
    assert!(anew.reads < 12, "{} of {chunks}", anew.reads);
    let before = anew.reads;
    client.ask(&mut anew, &[read(&written, 20, TO_THE_TOP)]);
    assert!(anew.reads > before + 12, "{} of {chunks}", anew.reads);
}

#[test]
fn what_a_record_begins_with_is_given_without_its_body() {
    for charter in charters() {
        let written = committed(&charter, &[25_000; 40]);
        let (server, mut client) = stored(&charter, &written);
        let mut anew = Server::new(server.store);
        let record = written.name;
        let response = anew.respond(client.message(&[Operation::Subrecords { record }]));
        assert!(anew.reads < 12, "{}", anew.reads);
        let body = TreeBody::decode(&written.body, is_sealed(&charter)).expect("a body");
        let mut begin = written.header.clone();
        40_u32.write(&mut begin);
        body.preamble.write(&mut begin);
        assert!(response.windows(begin.len()).any(|bytes| bytes == begin));
        let given = client.ask(&mut anew, &[read(&written, 39, 0)]);
        assert!(given == [expected(&charter, &written, 39, 0)]);
    }
}

#[test]
fn what_is_none_of_its_sub_records_is_refused() {
    let charter = charter();
    for lens in [[5, 5], [50_000, 70_000]] {
        let written = committed(&charter, &lens);
        let (server, mut client) = stored(&charter, &written);
        let anew = Server::new(server.store.clone());
        for mut server in [server, anew] {
            for levels in [0, TO_THE_TOP] {
                for index in [2, u32::MAX] {
                    let given = client.ask(&mut server, &[read(&written, index, levels)]);
                    assert_eq!(given, [Err(Code::NoRecord)]);
                }
            }
        }
    }
}

#[test]
fn a_sub_record_is_not_given_once_its_chunk_is_lost_though_its_tree_is_known() {
    let charter = charter();
    let written = committed(&charter, &[50_000; 10]);
    let (server, mut client) = stored(&charter, &written);
    // It remembers the tree, and no more of the body than it was asked for.
    let mut anew = Server::new(server.store);
    let ask = |server: &mut Server, client: &mut Client, index| {
        client
            .ask(server, &[read(&written, index, 0)])
            .remove(0)
            .map(drop)
    };
    assert_eq!(ask(&mut anew, &mut client, 0), Ok(()));
    let last = anew.store.keys().rfind(|key| key[32] == b'B').cloned();
    anew.store.remove(&last.expect("it is in chunks"));
    assert_eq!(ask(&mut anew, &mut client, 9), Err(Code::NoRecord));
    // Of a body of which something is lost nothing is served until it is brought again.
    assert_eq!(ask(&mut anew, &mut client, 0), Err(Code::NoRecord));
    let again = [write(&written)];
    assert!(client.ask(&mut anew, &again)[0].is_ok());
    for index in [0, 9] {
        assert_eq!(ask(&mut anew, &mut client, index), Ok(()));
    }
}
