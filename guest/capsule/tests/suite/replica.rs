//! A replica stores what writers send it and proves it, whatever order it comes in and whenever it is stopped.

use crate::common::server::{Client, Map, Server, created, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::{Log, charter, owner, writer};
use selfsame_capsule::cache::Verified;
use selfsame_capsule::epoch::{EpochChange, Revoked};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Fresh, FreshQuery, MAX_MESSAGE_BYTES, Operation};
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::record::Record;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Field, Reader};

/// Asks for a proof and verifies it; how many bytes it has.
fn proven(server: &mut Server, client: &mut Client, record: RecordName) -> Result<usize, Code> {
    client.proves(server, &charter(), record)
}

fn heads(server: &mut Server, client: &mut Client) -> Vec<RecordName> {
    let query = FreshQuery::heads([3; 32]);
    let mut given = client.ask(server, &[Operation::QueryFresh(query)]);
    let given = given.remove(0).expect("heads");
    let fresh = Fresh::read(&mut Reader::new(&given)).expect("heads");
    let verify = |query| fresh.verify(&mut Default::default(), &client.capsule, query);
    assert!(verify(&query) && !verify(&FreshQuery::heads([4; 32])));
    fresh.heads
}

#[test]
fn what_was_written_and_signed_is_read_and_proven_also_after_a_restart() {
    let (mut server, mut client) = created(&charter());
    let log = Log::new(charter(), 20, &Backpointers::Shortcuts);
    let mut operations: Vec<Operation<'_>> = log.records.iter().map(write).collect();
    operations.push(sign(log.name(19), log.writer.sign(&log.name(19))));
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    for _ in 0..2 {
        for record in &log.records {
            let read = client.ask(&mut server, &[Operation::Read { record: record.name }]);
            assert_eq!(read, [Ok([record.header.as_slice(), &record.body].concat())]);
            client.cache.clear();
            client.session = record.name.0[..16].try_into().expect("sixteen bytes");
            assert!(proven(&mut server, &mut client, record.name).is_ok());
        }
        assert_eq!(heads(&mut server, &mut client), [log.name(19)]);
        server = server.lose_power();
        // The second half is judged by what the first half let it learn.
        for half in operations[..20].chunks(10) {
            assert!(client.ask(&mut server, half).iter().all(Result::is_ok));
        }
    }
}

/// Records that are written together.
fn batch(count: usize) -> Log {
    let mut log = Log::new(charter(), 0, &Backpointers::Shortcuts);
    let contents: Vec<Vec<u8>> = (0..count).map(|index| index.to_string().into_bytes()).collect();
    let contents: Vec<(&[u8], [u8; 16])> = contents
        .iter()
        .map(|content| (content.as_slice(), [0; 16]))
        .collect();
    let mut records = Vec::new();
    let mut take = |name: &RecordName, record: Record<'_>| {
        records.push(Written {
            name: *name,
            header: record.header.encoded().to_vec(),
            body: record.body.to_vec(),
        });
    };
    let made = log
        .writer
        .write_each(&contents, &Backpointers::Shortcuts, &mut take);
    made.expect("they are small");
    log.records = records;
    log
}

#[test]
fn any_record_of_a_batch_is_proven_by_a_few_headers_and_all_by_fewer_than_there_are() {
    let (mut server, mut client) = created(&charter());
    let log = batch(400);
    let last = log.name(399);
    let mut operations: Vec<Operation<'_>> = log.records.iter().map(write).collect();
    operations.push(sign(last, log.writer.sign(&last)));
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    for record in &log.records {
        client.cache.clear();
        client.session = record.name.0[..16].try_into().expect("sixteen bytes");
        let bytes = proven(&mut server, &mut client, record.name).expect("it is proven");
        assert!(bytes < 1500, "{bytes} bytes");
    }
    client.cache = Verified::new(10);
    client.ask(&mut server, &[Operation::Open { slots_log2: 10 }]);
    let mut bytes = 0;
    for record in &log.records {
        bytes += proven(&mut server, &mut client, record.name).expect("it is proven");
    }
    let headers: usize = log.records.iter().map(|record| record.header.len()).sum();
    assert!(bytes < headers, "{bytes} of {headers}");
}

#[test]
fn few_records_together_are_what_they_are_one_after_the_other() {
    let log = batch(14);
    let mut writer = writer(&charter(), 0, owner(), None);
    for (index, record) in log.records.iter().enumerate() {
        let content = index.to_string();
        let alone = writer.write(content.as_bytes(), &Backpointers::Shortcuts, &[0; 16]);
        assert_eq!(alone.as_ref(), Ok(record));
    }
}

#[test]
fn a_hole_that_is_filled_lets_what_lies_behind_it_be_proven() {
    let (mut server, mut client) = created(&charter());
    let log = Log::new(charter(), 5, &Backpointers::Chain);
    let operations = [
        write(&log.records[0]),
        write(&log.records[1]),
        write(&log.records[3]),
        write(&log.records[4]),
        sign(log.name(4), log.writer.sign(&log.name(4))),
    ];
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert!(proven(&mut server, &mut client, log.name(3)).is_ok());
    for record in [0, 1] {
        client.cache.clear();
        assert_eq!(
            proven(&mut server, &mut client, log.name(record)),
            Err(Code::Unproven)
        );
    }
    let missing = client.ask(&mut server, &[Operation::Read { record: log.name(2) }]);
    assert_eq!(missing, [Err(Code::NoRecord)]);
    // Also when it was stopped in between.
    server = server.lose_power();
    assert!(client.ask(&mut server, &[write(&log.records[2])])[0].is_ok());
    for record in 0..5 {
        assert!(
            proven(&mut server, &mut client, log.name(record)).is_ok(),
            "record {record}"
        );
    }
    assert_eq!(heads(&mut server, &mut client), [log.name(4)]);
}

#[test]
fn a_mirrored_cache_makes_proofs_short_and_its_loss_only_makes_them_longer() {
    let (mut server, mut client) = created(&charter());
    let log = Log::new(charter(), 100, &Backpointers::Chain);
    let mut operations: Vec<Operation<'_>> = log.records.iter().map(write).collect();
    operations.push(sign(log.name(99), log.writer.sign(&log.name(99))));
    operations.push(Operation::Open { slots_log2: 8 });
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    let long = proven(&mut server, &mut client, log.name(50)).expect("it is proven");
    let short = proven(&mut server, &mut client, log.name(49)).expect("it is proven");
    let next = proven(&mut server, &mut client, log.name(47)).expect("it is proven");
    assert!(
        long > 4000 && short < 100 && next < 200,
        "{long}, {short}, {next} bytes"
    );
    // A response that is lost: what it proved is not counted on.
    let request = server.send(client.message(&[Operation::Prove { record: log.name(30) }]));
    assert!(server.responses.remove(&request).is_some());
    assert!(proven(&mut server, &mut client, log.name(29)).is_ok());
    // A server that forgets.
    server = server.lose_power();
    assert!(proven(&mut server, &mut client, log.name(10)).is_ok());
    // A reader that forgets, and does not say so: it meets an anchor that it does not know, and asks anew.
    let mut operations = vec![Operation::Open { slots_log2: 8 }];
    operations.push(Operation::Prove { record: log.name(5) });
    client.ask(&mut server, &operations);
    client.cache.clear();
    assert_eq!(
        proven(&mut server, &mut client, log.name(4)),
        Err(Code::UnknownAnchor)
    );
    client.ask(&mut server, &[Operation::Open { slots_log2: 8 }]);
    assert!(proven(&mut server, &mut client, log.name(4)).is_ok());
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable_and_many_share_one_write() {
    let (mut server, mut client) = created(&charter());
    let log = Log::new(charter(), 6, &Backpointers::Chain);
    server.holds = true;
    let before = server.durable_commits;
    let introduced = client.introduction(&server.public).expect("it is a writer");
    let requests: Vec<u32> = log
        .records
        .iter()
        .map(|record| server.send(client.message(&[introduced, write(record)])))
        .collect();
    assert!(server.responses.is_empty());
    // Reads do not wait.
    let read = client.ask(&mut server, &[Operation::Read { record: log.name(3) }]);
    assert!(read[0].is_ok());
    server.release();
    assert_eq!(server.responses.len(), 1);
    server.release();
    assert_eq!(server.responses.len(), 6);
    assert_eq!(server.durable_commits - before, 2);
    for (request, record) in requests.iter().zip(&log.records) {
        let response = server.responses.remove(request).expect("it is answered");
        assert!(
            client
                .read(&response, &[introduced, write(record)])
                .expect("it is understood")[1]
                .is_ok()
        );
    }
    // What was not acknowledged may be lost, what was is there.
    let more = Log::new(charter(), 8, &Backpointers::Chain);
    server.send(client.message(&[introduced, write(&more.records[7])]));
    server = server.lose_power();
    for record in &log.records {
        let read = client.ask(&mut server, &[Operation::Read { record: record.name }]);
        assert!(read[0].is_ok());
    }
    let lost = client.ask(&mut server, &[Operation::Read { record: more.name(7) }]);
    assert_eq!(lost, [Err(Code::NoRecord)]);
}

#[test]
fn what_is_wrong_is_refused_by_name_and_nothing_is_stored() {
    let (mut server, mut client) = created(&charter());
    let log = Log::new(charter(), 3, &Backpointers::Chain);
    let before = server.store.clone();
    let mut wrong = log.records[0].clone();
    wrong.body[0] ^= 1;
    assert_eq!(client.ask(&mut server, &[write(&wrong)]), [Err(Code::BadBody)]);
    let forged = sign(log.name(0), Signature([1; 64]));
    assert_eq!(client.ask(&mut server, &[forged]), [Err(Code::NoRecord)]);
    assert_eq!(server.store, before);
    assert!(client.ask(&mut server, &[write(&log.records[0])])[0].is_ok());
    assert_eq!(client.ask(&mut server, &[forged]), [Err(Code::BadSignature)]);
    let stranger = writer(&charter(), 9, owner(), None)
        .write(b"x", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let given = client.ask(
        &mut server,
        &[
            write(&stranger),
            sign(stranger.name, log.writer.sign(&stranger.name)),
        ],
    );
    assert_eq!(given[1], Err(Code::NotAWriter));
    let metadata = charter().encoded().to_vec();
    let mut elsewhere = Client {
        capsule: selfsame_capsule::hash::CapsuleName([5; 32]),
        ..Client::of(&charter())
    };
    let given = elsewhere.ask(&mut server, &[Operation::Create { metadata: &metadata }]);
    assert_eq!(given, [Err(Code::BadMetadata)]);
    let given = elsewhere.ask(&mut server, &[Operation::Describe]);
    assert_eq!(given, [Err(Code::NoCapsule)]);
}

#[test]
fn a_request_that_does_not_decode_is_refused_as_a_whole_where_it_fails() {
    let (mut server, mut client) = created(&charter());
    let log = Log::new(charter(), 2, &Backpointers::Chain);
    let whole = [write(&log.records[0]), Operation::Read { record: log.name(0) }];
    let message = client.message(&whole);
    let before = server.store.clone();
    // After 53 bytes the operations begin; the last one has 33.
    for len in (0..message.len()).filter(|len| *len != message.len() - 33) {
        let request = server.send(message[..len].to_vec());
        let response = server.responses.remove(&request).expect("it is answered");
        match client.read(&response, &[]) {
            Err((_, at)) => assert!(at as usize <= len),
            Ok(_) => assert_eq!(len, 53),
        }
        assert_eq!(server.store, before, "{len} bytes");
    }
    let request = server.send(vec![1; MAX_MESSAGE_BYTES + 1]);
    let response = server.responses.remove(&request).expect("it is answered");
    assert_eq!(
        client.read(&response, &[]).map(|_| ()),
        Err((Code::TooLarge, MAX_MESSAGE_BYTES as u32))
    );
}

#[test]
fn a_long_body_lies_in_chunks_and_is_whole_or_not_there() {
    let (mut server, mut client) = created(&charter());
    let content = vec![7; 300_000];
    let mut long = writer(&charter(), 0, owner(), None);
    let written = long
        .write(&content, &Backpointers::Chain, &[0; 16])
        .expect("it fits");
    let signed = sign(written.name, long.sign(&written.name));
    assert!(
        client
            .ask(&mut server, &[write(&written), signed])
            .iter()
            .all(Result::is_ok)
    );
    assert!(server.store.values().all(|value| value.len() <= 60 * 1024));
    let read = Operation::Read { record: written.name };
    let whole = [written.header.as_slice(), &written.body].concat();
    assert_eq!(client.ask(&mut server, &[read]), [Ok(whole.clone())]);
    // A chunk that the store has lost is not papered over: the record is missing until it is brought again.
    let lost = server
        .durable
        .iter()
        .find(|(key, _)| key[32] == b'B')
        .map(|(key, _)| key.clone());
    server.durable.remove(&lost.expect("there are chunks"));
    server = server.lose_power();
    assert_eq!(client.ask(&mut server, &[read]), [Err(Code::NoRecord)]);
    let again = client.ask(&mut server, &[write(&written), read]);
    assert_eq!(again, [Ok(Vec::new()), Ok(whole)]);
}

/// Of a writer that is revoked only what the owner accepts is proven still, and nothing that it signs later is taken.
#[test]
fn a_revoked_writer_cannot_backdate() {
    let alice = || KeyPair::from_seed(&[2; 32]);
    let charter = crate::common::charter_of(HashKind::Blake3, Readers::Everybody, vec![alice().public()]);
    let mut server = Server::new(Map::new());
    let mut client = Client::of(&charter);
    let mut hers = writer(&charter, 1, alice(), None);
    let records: Vec<Written> = (0..4)
        .map(|index| {
            hers.write(&[index], &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    let metadata = charter.encoded().to_vec();
    let mut operations = vec![Operation::Create { metadata: &metadata }];
    operations.extend(records[..3].iter().map(write));
    operations.push(sign(records[2].name, hers.sign(&records[2].name)));
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert!(client.proves(&mut server, &charter, records[2].name).is_ok());

    let mut owners = writer(&charter, 0, owner(), None);
    let change = EpochChange {
        revoked: vec![Revoked {
            number: 1,
            heads: vec![records[1].name],
        }],
        ..EpochChange::default()
    };
    let epoch = owners
        .begin_epoch(change.encode(), 1, None, vec![records[1].name])
        .expect("it is small");
    let operations = [write(&epoch), sign(epoch.name, owners.sign(&epoch.name))];
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert_eq!(heads(&mut server, &mut client), [epoch.name]);
    for _ in 0..2 {
        // She signs a record that she says is old.
        let operations = [
            write(&records[3]),
            sign(records[3].name, hers.sign(&records[3].name)),
        ];
        assert_eq!(client.ask(&mut server, &operations)[1], Err(Code::RevokedWriter));
        let ask = |server: &mut Server, client: &mut Client, index: usize| {
            let given = client.ask(
                server,
                &[Operation::Prove {
                    record: records[index].name,
                }],
            );
            given[0].as_ref().map(|_| ()).map_err(|code| *code)
        };
        assert_eq!(ask(&mut server, &mut client, 0), Ok(()));
        assert_eq!(ask(&mut server, &mut client, 1), Ok(()));
        assert_eq!(ask(&mut server, &mut client, 2), Err(Code::Unproven));
        assert_eq!(ask(&mut server, &mut client, 3), Err(Code::Unproven));
        server = server.lose_power();
    }
}

fn unfinished(server: &Server) -> usize {
    server.store.keys().filter(|key| key[32] == b'W').count()
}

/// Wherever its machine stops while witnesses spread over many commits, a replica goes on there, and ends with nothing left.
#[test]
fn spreading_that_was_stopped_goes_on_and_leaves_nothing_behind() {
    let log = Log::new(charter(), 1500, &Backpointers::Chain);
    let (mut server, mut client) = created(&charter());
    for records in log.records.chunks(500) {
        let operations: Vec<Operation<'_>> = records.iter().map(write).collect();
        assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    }
    let last = log.name(1499);
    let signed = [sign(last, log.writer.sign(&last))];
    let before = server.store.clone();
    for lives_for in 1.. {
        server = Server::new(before.clone());
        server.lives_for = lives_for;
        let request = server.send(client.message(&signed));
        let is_done = server.responses.contains_key(&request);
        assert!(unfinished(&server) > 0 || lives_for > 3, "{lives_for} commits");
        server = Server::new(server.store);
        assert!(client.ask(&mut server, &signed)[0].is_ok());
        assert_eq!(unfinished(&server), 0, "after {lives_for} commits");
        for index in [0, 1, 700, 1498] {
            client.cache.clear();
            client.session = log.name(index).0[..16].try_into().expect("sixteen bytes");
            assert!(proven(&mut server, &mut client, log.name(index)).is_ok());
        }
        assert_eq!(heads(&mut server, &mut client), [last]);
        if is_done {
            return;
        }
    }
}

/// However many records were signed, a revocation changes no more at a time than the smallest store takes.
#[test]
fn a_revocation_among_many_signed_records_is_written_in_parts() {
    let alice = || KeyPair::from_seed(&[2; 32]);
    let charter = crate::common::charter_of(HashKind::Blake3, Readers::Everybody, vec![alice().public()]);
    let mut server = Server::new(Map::new());
    let mut client = Client::of(&charter);
    let metadata = charter.encoded().to_vec();
    let mut hers = writer(&charter, 1, alice(), None);
    let mut owners = writer(&charter, 0, owner(), None);
    let mut operations = vec![Operation::Create { metadata: &metadata }];
    let records: Vec<Written> = (0..1400_u32)
        .map(|index| {
            let by = if index % 2 == 0 { &mut hers } else { &mut owners };
            by.write(&index.to_le_bytes(), &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    for (index, record) in records.iter().enumerate() {
        let by = if index % 2 == 0 { &hers } else { &owners };
        operations.extend([write(record), sign(record.name, by.sign(&record.name))]);
    }
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    let change = EpochChange {
        revoked: vec![Revoked {
            number: 1,
            heads: Vec::new(),
        }],
        ..EpochChange::default()
    };
    let epoch = owners
        .begin_epoch(change.encode(), 1, None, vec![records[1399].name])
        .expect("it is small");
    let operations = [write(&epoch), sign(epoch.name, owners.sign(&epoch.name))];
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert_eq!(heads(&mut server, &mut client), [epoch.name]);
    assert_eq!(unfinished(&server), 0);
    let signed = server.store.keys().filter(|key| key[32] == b'G').count();
    assert_eq!(signed, 701, "signatures that count");
    for (index, record) in records.iter().enumerate() {
        let given = client.ask(&mut server, &[Operation::Prove { record: record.name }]);
        assert_eq!(given[0].is_ok(), index % 2 == 1, "record {index}");
    }
}

/// More records point to a missing one than are remembered, and only the last is signed: it proves the missing one when it comes.
#[test]
fn a_hole_to_which_very_many_point_is_proven_by_any_of_them() {
    let (mut server, mut client) = created(&charter());
    let mut by = writer(&charter(), 0, owner(), None);
    let first = by
        .write(b"first", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let other = |index: u32| {
        by.follow(first.name);
        by.write(&index.to_le_bytes(), &Backpointers::Chain, &[0; 16])
            .expect("it is small")
    };
    let others: Vec<Written> = (0..1100).map(other).collect();
    let mut operations: Vec<Operation<'_>> = others.iter().map(write).collect();
    operations.push(sign(others[1099].name, by.sign(&others[1099].name)));
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert!(client.ask(&mut server, &[write(&first)])[0].is_ok());
    assert!(proven(&mut server, &mut client, first.name).is_ok());
}
