//! A client writes and reads through quorums of servers, also when some of them, the network or itself stop.

use crate::common::net::{Fate, User, agree, code, config, servers};
use crate::common::server::{Map, Server};
use crate::common::{OWNER_SEED, charter, charter_of};
use bytes::Bytes;
use selfsame_capsule::client::{Client, Command, Content, Period, Position, Reply, Signing, Start};
use selfsame_capsule::epoch::{ReaderKeys, Revoked};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn write(contents: &[&str]) -> Command {
    writing(
        contents
            .iter()
            .map(|content| content.as_bytes().to_vec())
            .collect(),
    )
}

fn writing(contents: Vec<Vec<u8>>) -> Command {
    Command::Write {
        contents: contents.into_iter().map(Bytes::from).collect(),
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    }
}

/// Servers, and an owner that writes at them.
fn begun(charter: &Charter, count: usize) -> (Vec<Server>, User) {
    let mut servers = servers(count);
    let mut owner = User::new(config(charter, count, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    (servers, owner)
}

fn user(charter: &Charter, count: usize, seed: Option<[u8; 32]>) -> User {
    let mut config = config(charter, count, seed, 2);
    config.metadata = None;
    User::new(config)
}

fn sealed() -> Charter {
    charter_of(HashKind::Sha256, Readers::Granted, Vec::new())
}

#[test]
fn what_is_written_is_read_proven_and_the_newest() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let names = owner.written(&mut servers, write(&["one", "two", "three"]));
    let more = owner.written(&mut servers, write(&["four"]));
    let mut reader = user(&charter(), 3, None);
    assert_eq!(reader.read(&mut servers, names[1]), Ok(b"two".to_vec()));
    assert_eq!(reader.heads(&mut servers), more);
    let records = names.iter().chain(&more).copied().collect();
    let Ok(Reply::Records(got)) = reader.run(&mut servers, Command::Read { records }) else {
        panic!("they are read");
    };
    let contents: Vec<_> = got.into_iter().map(|one| one.map(|got| got.content)).collect();
    let expected = ["one", "two", "three", "four"].map(|text| Ok(Content::Plain(text.into())));
    assert_eq!(contents, expected);
    assert!(agree(&reader.fresh(&mut servers).expect("fresh")));
    let Ok(Reply::Described(description)) = reader.run(&mut servers, Command::Describe) else {
        panic!("it is described");
    };
    assert_eq!(description.metadata, charter().encoded());
    assert_eq!((description.writers.len(), description.epoch_records), (1, 0));
}

#[test]
fn what_is_not_signed_is_not_proven_before_it_is() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let names = owner.written(
        &mut servers,
        Command::Write {
            contents: vec!["one".into(), "two".into()],
            backpointers: Backpointers::Chain,
            signing: Signing::Later,
        },
    );
    let mut reader = user(&charter(), 3, None);
    assert_eq!(code(reader.read(&mut servers, names[0])), Code::Unproven);
    assert_eq!(owner.run(&mut servers, Command::Sign), Ok(Reply::Done));
    assert_eq!(reader.read(&mut servers, names[0]), Ok(b"one".to_vec()));
}

#[test]
fn a_large_batch_takes_several_requests_and_each_record_is_there_once() {
    let (mut servers, mut owner) = begun(&charter(), 2);
    let mut contents: Vec<Vec<u8>> = (0..200_u32).map(|index| index.to_le_bytes().to_vec()).collect();
    contents.push(vec![7; 900 << 10]);
    contents.push(vec![8; 900 << 10]);
    let names = owner.written(&mut servers, writing(contents.clone()));
    let mut reader = user(&charter(), 2, None);
    let records = names.clone();
    let Ok(Reply::Records(got)) = reader.run(&mut servers, Command::Read { records }) else {
        panic!("they are read");
    };
    for (got, content) in got.into_iter().zip(contents) {
        assert_eq!(got.expect("it is read").content, Content::Plain(content.into()));
    }
    assert_eq!(
        code(owner.run(&mut servers, writing(vec![vec![0; 1 << 20]]))),
        Code::TooLarge
    );
    // That left nothing behind.
    let last = owner.written(&mut servers, write(&["after"]));
    assert_eq!(reader.read(&mut servers, last[0]), Ok(b"after".to_vec()));
}

#[test]
fn answers_that_are_too_long_for_one_response_are_asked_for_again() {
    let (mut servers, mut owner) = begun(&charter(), 1);
    let contents: Vec<Vec<u8>> = (0..12).map(|index| vec![index; 1000 << 10]).collect();
    let names = owner.written(&mut servers, writing(contents.clone()));
    let mut reader = user(&charter(), 1, None);
    let Ok(Reply::Records(got)) = reader.run(&mut servers, Command::Read { records: names }) else {
        panic!("they are read");
    };
    let read = got.into_iter().map(|got| got.expect("it is read").content);
    assert!(read.eq(contents.into_iter().map(|content| Content::Plain(content.into()))));
}

#[test]
fn sub_records_are_counted_and_read_one_by_one() {
    for charter in [charter(), sealed()] {
        let (mut servers, mut owner) = begun(&charter, 3);
        let subrecords: Vec<Bytes> = (0..37_u8)
            .map(|index| vec![index; usize::from(index)].into())
            .collect();
        let names = owner.written(
            &mut servers,
            Command::Commit {
                subrecords: subrecords.clone(),
                backpointers: Backpointers::Shortcuts,
                signing: Signing::Last,
            },
        );
        let record = names[0];
        let asked = [36, 0, 5, 37].map(|index| (record, index)).to_vec();
        let parts = owner.run(&mut servers, Command::ReadParts { parts: asked });
        let Ok(Reply::Parts(parts)) = parts else {
            panic!("{parts:?}");
        };
        for (part, index) in parts.iter().zip([36_usize, 0, 5]) {
            assert_eq!(part, &Ok(subrecords[index].clone()));
        }
        assert_eq!(code(parts[3].clone()), Code::NoRecord);
        let counted = owner.run(
            &mut servers,
            Command::Subrecords {
                records: names.clone(),
            },
        );
        let Ok(Reply::Subrecords(outlines)) = counted else {
            panic!("{counted:?}");
        };
        let outline = outlines[0].as_ref().expect("it is proven");
        assert_eq!((outline.count, &outline.first), (37, &Ok(subrecords[0].clone())));
        let Ok(Reply::Records(got)) = owner.run(&mut servers, Command::Read { records: names }) else {
            panic!("it is read");
        };
        assert_eq!(
            got[0].as_ref().expect("it is read").content,
            Content::Parts(subrecords)
        );
    }
}

fn grant(readers: &[&ReaderKeys], period: Period) -> Command {
    Command::Govern {
        added: Vec::new(),
        revoked: Vec::new(),
        readers: readers.iter().map(|reader| *reader.public()).collect(),
        period,
    }
}

#[test]
fn readers_read_what_they_were_granted_and_nothing_after_that_is_taken_away() {
    let (mut servers, mut owner) = begun(&sealed(), 3);
    let (one, two) = ([11; 32], [12; 32]);
    let keys = [ReaderKeys::from_seed(&one), ReaderKeys::from_seed(&two)];
    let first = owner.written(&mut servers, write(&["first"]))[0];
    let mut stranger = user(&sealed(), 3, Some(one));
    assert_eq!(code(stranger.read(&mut servers, first)), Code::NotAReader);
    owner.written(&mut servers, grant(&[&keys[0], &keys[1]], Period::Same));
    let mut readers = [one, two].map(|seed| user(&sealed(), 3, Some(seed)));
    for reader in &mut readers {
        assert_eq!(reader.read(&mut servers, first), Ok(b"first".to_vec()));
    }
    owner.written(&mut servers, grant(&[&keys[1]], Period::Next));
    let second = owner.written(&mut servers, write(&["second"]))[0];
    assert_eq!(code(readers[0].read(&mut servers, second)), Code::NotAReader);
    assert_eq!(readers[1].read(&mut servers, second), Ok(b"second".to_vec()));
    assert_eq!(readers[0].read(&mut servers, first), Ok(b"first".to_vec()));
}

#[test]
fn a_writer_joins_writes_and_is_revoked() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let seed = [21; 32];
    let mut writer = user(&charter(), 3, Some(seed));
    let init = Command::Init { start: Start::Resume };
    assert_eq!(code(writer.run(&mut servers, init.clone())), Code::NotAWriter);
    assert_eq!(code(writer.run(&mut servers, write(&["no"]))), Code::NotAWriter);
    let joins = Command::Govern {
        added: vec![KeyPair::from_seed(&seed).public()],
        revoked: Vec::new(),
        readers: Vec::new(),
        period: Period::Same,
    };
    assert_eq!(code(writer.run(&mut servers, joins.clone())), Code::NotAWriter);
    owner.written(&mut servers, joins);
    writer.begin(&mut servers);
    let accepted = writer.written(&mut servers, write(&["accepted"]))[0];
    let refused = writer.written(&mut servers, write(&["refused"]))[0];
    let leaves = |number, period| Command::Govern {
        added: Vec::new(),
        revoked: vec![Revoked {
            number,
            heads: vec![accepted],
        }],
        readers: Vec::new(),
        period,
    };
    for wrong in [
        leaves(1, Period::Same),
        leaves(0, Period::Next),
        leaves(9, Period::Next),
    ] {
        assert_eq!(code(owner.run(&mut servers, wrong)), Code::BadEpoch);
    }
    let mut reader = user(&charter(), 3, None);
    assert_eq!(reader.read(&mut servers, refused), Ok(b"refused".to_vec()));
    owner.written(&mut servers, leaves(1, Period::Next));
    // Also a reader that had verified it, and so asks for no proof, believes it no more.
    assert_eq!(code(reader.read(&mut servers, refused)), Code::Unproven);
    assert_eq!(reader.read(&mut servers, accepted), Ok(b"accepted".to_vec()));
    assert_eq!(
        code(writer.run(&mut servers, write(&["late"]))),
        Code::RevokedWriter
    );
    assert_eq!(code(writer.run(&mut servers, init)), Code::NotAWriter);
    assert!(!reader.heads(&mut servers).contains(&refused));
}

/// A session belongs to the source that it came from first, so that nobody who overhears it is taken for the writer.
#[test]
fn a_writer_goes_on_from_another_network() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    // Too much for one request: what comes first is not signed.
    let long = || writing(vec![vec![7; 600 << 10]; 4]);
    owner.written(&mut servers, long());
    servers.iter_mut().for_each(|server| server.source = [9; 32]);
    owner.written(&mut servers, long());
}

#[test]
fn a_branch_begins_where_it_is_told_to_and_is_merged_by_pointing_to_it() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let names = owner.written(&mut servers, write(&["root", "left"]));
    let start = Start::After(names[0]);
    let Ok(Reply::Ready(Position { parent, .. })) = owner.run(&mut servers, Command::Init { start }) else {
        panic!("it begins");
    };
    assert_eq!(parent, Some(names[0]));
    let right = owner.written(&mut servers, write(&["right"]))[0];
    let mut reader = user(&charter(), 3, None);
    let mut both = vec![names[1], right];
    both.sort_unstable();
    assert_eq!(reader.heads(&mut servers), both);
    let merged = owner.written(
        &mut servers,
        Command::Write {
            contents: vec!["merged".into()],
            backpointers: Backpointers::Own(vec![names[1]]),
            signing: Signing::Last,
        },
    );
    assert_eq!(reader.heads(&mut servers), merged);
    let start = Start::After(RecordName([7; 32]));
    assert_eq!(
        code(owner.run(&mut servers, Command::Init { start })),
        Code::NoRecord
    );
}

#[test]
fn a_quorum_is_enough_and_less_is_not() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    owner.rule = Box::new(|(server, _), _| if server == 0 { Fate::Lost } else { Fate::After(5) });
    let name = owner.written(&mut servers, write(&["two of three"]))[0];
    let mut reader = user(&charter(), 3, None);
    reader.rule = Box::new(|(server, _), _| if server == 0 { Fate::Failed } else { Fate::After(5) });
    assert_eq!(reader.read(&mut servers, name), Ok(b"two of three".to_vec()));
    assert_eq!(reader.heads(&mut servers), [name]);
    owner.rule = Box::new(|(server, _), _| if server < 2 { Fate::Lost } else { Fate::After(5) });
    let began = owner.now;
    assert_eq!(code(owner.run(&mut servers, write(&["one"]))), Code::NoQuorum);
    assert!(owner.now - began <= 30_000);
    reader.rule = Box::new(|(server, _), _| if server < 2 { Fate::Failed } else { Fate::After(5) });
    assert_eq!(code(reader.fresh(&mut servers)), Code::NoQuorum);
}

#[test]
fn refusals_that_rule_out_a_quorum_end_a_command() {
    let mut blank = servers(3);
    for knows_metadata in [true, false] {
        let mut config = config(&charter(), 3, Some(OWNER_SEED), 1);
        config.metadata = config.metadata.filter(|_| knows_metadata);
        let mut user = User::new(config);
        user.rule = Box::new(|(server, _), _| if server == 2 { Fate::Failed } else { Fate::After(5) });
        let began = user.now;
        assert_eq!(code(user.run(&mut blank, Command::QueryFresh)), Code::NoCapsule);
        let took = user.now - began;
        assert!(took < 1_000, "{took} ms");
    }
}

#[test]
fn server_that_fails_once_is_asked_again_for_metadata_that_others_lack() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let name = owner.written(&mut servers, write(&["kept"]))[0];
    servers.splice(..2, self::servers(2));
    let mut config = config(&charter(), 3, None, 1);
    config.metadata = None;
    let mut reader = User::new(config);
    let mut failures = 0;
    reader.rule = Box::new(move |(server, _), _| {
        failures += u32::from(server == 2);
        if server == 2 && failures == 1 {
            Fate::Failed
        } else {
            Fate::After(5)
        }
    });
    assert_eq!(reader.read(&mut servers, name), Ok(b"kept".to_vec()));
}

#[test]
fn only_server_that_has_a_capsule_is_waited_for() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let name = owner.written(&mut servers, write(&["kept"]))[0];
    servers.splice(..2, self::servers(2));
    let mut reader = user(&charter(), 3, None);
    reader.rule = Box::new(|(server, _), _| Fate::After(if server == 2 { 4_000 } else { 5 }));
    assert_eq!(reader.read(&mut servers, name), Ok(b"kept".to_vec()));
}

#[test]
fn a_slow_server_does_not_slow_a_read() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let name = owner.written(&mut servers, write(&["quick"]))[0];
    let mut reader = user(&charter(), 3, None);
    reader.read(&mut servers, name).expect("it is read");
    reader.rule = Box::new(|(server, _), _| Fate::After(if server == 0 { 4_000 } else { 5 }));
    let name = owner.written(&mut servers, write(&["again"]))[0];
    let began = reader.now;
    assert_eq!(reader.read(&mut servers, name), Ok(b"again".to_vec()));
    let took = reader.now - began;
    assert!((250..400).contains(&took), "{took} ms");
    reader.settle(&mut servers);
}

#[test]
fn a_server_that_forgets_its_sessions_costs_longer_proofs_and_nothing_else() {
    let (mut servers, mut owner) = begun(&charter(), 1);
    let contents = (0..400).map(|index| vec![index as u8; 20]).collect();
    let names = owner.written(&mut servers, writing(contents));
    let mut reader = user(&charter(), 1, None);
    for (index, name) in names.iter().enumerate().rev() {
        reader.read(&mut servers, *name).expect("it is read");
        if index % 50 == 25 {
            let server = servers.remove(0);
            servers.push(Server::with_key(
                crate::common::net::server_key(0),
                server.durable,
            ));
        }
    }
    // They were verified before, so no proof comes with them: one of its own would double what a record takes.
    let before = reader.bytes;
    let records = names[..100].to_vec();
    reader
        .run(&mut servers, Command::Read { records })
        .expect("they are read");
    assert!(reader.bytes - before < 15_000, "{} bytes", reader.bytes - before);
}

#[test]
fn what_was_verified_is_read_without_a_proof_though_the_cache_forgets_it_meanwhile() {
    let (mut servers, mut owner) = begun(&charter(), 1);
    let contents = (0..200).map(|number| vec![number; 3]).collect();
    let records = owner.written(&mut servers, writing(contents));
    let mut config = config(&charter(), 1, None, 2);
    config.slots_log2 = 4;
    let mut reader = User::new(config);
    assert_eq!(reader.read(&mut servers, records[0]), Ok(vec![0; 3]));
    let before = reader.asked.len();
    // Their proofs take every place in the cache before the answer comes to what is asked for behind them.
    let others = records[1..].to_vec();
    let others = reader.give(Command::Read { records: others });
    let first = reader.give(Command::Read {
        records: vec![records[0]],
    });
    reader.finish(&mut servers);
    for id in [others, first] {
        let Some(Ok(Reply::Records(got))) = reader.replies.remove(&id) else {
            panic!("they are read");
        };
        assert!(got.iter().all(Result::is_ok));
    }
    assert_eq!(reader.asked.len() - before, 2);
}

#[test]
fn sub_records_are_asked_for_again_when_their_tree_is() {
    let (mut servers, mut owner) = begun(&charter(), 1);
    let subrecords = |number: u8| {
        (0..9)
            .map(|index| Bytes::from(vec![number, index]))
            .collect::<Vec<_>>()
    };
    let records: Vec<RecordName> = (0..40)
        .map(|number| {
            let commit = Command::Commit {
                subrecords: subrecords(number),
                backpointers: Backpointers::Shortcuts,
                signing: Signing::Last,
            };
            owner.written(&mut servers, commit)[0]
        })
        .collect();
    // With eight places, what one response brings in drives out what the proofs of the next build on.
    let mut config = config(&charter(), 1, None, 2);
    config.slots_log2 = 3;
    let mut reader = User::new(config);
    for _ in 0..4 {
        let asked: Vec<u32> = records
            .iter()
            .map(|record| {
                let parts = [8, 0, 3].map(|index| (*record, index)).to_vec();
                reader.give(Command::ReadParts { parts })
            })
            .collect();
        reader.finish(&mut servers);
        for (number, id) in (0..).zip(asked) {
            let Some(Ok(Reply::Parts(parts))) = reader.replies.remove(&id) else {
                panic!("{number} is not read");
            };
            let whole = subrecords(number);
            let right = [8, 0, 3].map(|index: usize| Ok(whole[index].clone()));
            assert_eq!(parts, right, "{number}");
        }
    }
}

#[test]
fn a_writer_that_was_stopped_uses_no_sequence_number_again() {
    let (mut servers, mut owner) = begun(&charter(), 3);
    let mut seen = std::collections::BTreeMap::new();
    let mut last = None;
    for round in 0..6_u8 {
        let names = owner.written(&mut servers, writing(vec![vec![round]; 5]));
        if round % 2 == 0 {
            // These are sent, and the writer is stopped before it hears of them.
            owner.give(writing(vec![vec![round, 1]; 5]));
            owner.work();
        }
        let records = names.clone();
        let Ok(Reply::Records(got)) = user(&charter(), 3, None).run(&mut servers, Command::Read { records })
        else {
            panic!("they are read");
        };
        for (name, got) in names.iter().zip(got) {
            let header = got.expect("it is read").header;
            assert_eq!(
                seen.insert(header.view().sequence(), *name),
                None,
                "round {round}"
            );
            if let Some(parent) = last.replace(*name) {
                assert_eq!(
                    header.view().backpointers().next(),
                    Some(parent),
                    "it goes on where it was"
                );
            }
        }
        // After a power loss only what was made durable is left.
        let store = if round % 3 == 2 {
            owner.durable
        } else {
            owner.store
        };
        let lost = round % 3 == 2;
        owner = User::with_store(config(&charter(), 3, Some(OWNER_SEED), 10 + round), store);
        owner.begin(&mut servers);
        if lost {
            last = None;
        }
    }
    // Also one that has lost its store knows from its servers what it has used.
    let mut forgetful = user(&charter(), 3, Some(OWNER_SEED));
    let Ok(Reply::Ready(position)) = forgetful.run(&mut servers, Command::Init { start: Start::Resume })
    else {
        panic!("it begins");
    };
    assert!(seen.keys().all(|sequence| *sequence < position.sequence));
}

#[test]
fn a_store_that_does_not_write_stops_the_writer_and_not_the_reader() {
    let mut servers = servers(1);
    let mut owner = User::new(config(&charter(), 1, Some(OWNER_SEED), 1));
    owner.run(&mut servers, Command::Create).expect("created");
    owner.fails = true;
    owner.begin(&mut servers);
    assert_eq!(code(owner.run(&mut servers, write(&["x"]))), Code::StoreFailed);
    assert_eq!(owner.heads(&mut servers), []);
    owner.fails = false;
    owner.begin(&mut servers);
    owner.written(&mut servers, write(&["x"]));
    let mut store = Map::new();
    for key in owner.store.keys() {
        store.insert(key.clone(), Bytes::from_static(&[1, 2, 3]));
    }
    let mut broken = User::with_store(config(&charter(), 1, Some(OWNER_SEED), 1), store);
    assert_eq!(
        code(broken.run(&mut servers, Command::QueryFresh)),
        Code::StoreCorrupt
    );
}

#[test]
fn many_batches_are_under_way_at_a_time_and_too_many_are_refused() {
    let (mut servers, mut owner) = begun(&charter(), 2);
    let ids: Vec<u32> = (0..40_u8)
        .map(|index| owner.give(writing(vec![vec![index]; 100])))
        .collect();
    owner.finish(&mut servers);
    let mut parents = 0;
    for id in ids {
        let Some(Ok(Reply::Written(names))) = owner.replies.remove(&id) else {
            panic!("it is written");
        };
        parents += names.len();
    }
    assert_eq!((parents, owner.heads(&mut servers).len()), (4000, 1));
    let ids: Vec<u32> = (0..70)
        .map(|_| owner.give(writing(vec![vec![0; 1_000_000]])))
        .collect();
    owner.finish(&mut servers);
    let refused = ids
        .iter()
        .filter(|id| matches!(owner.replies[id], Err(refusal) if refusal.code == Code::TooManyRequests));
    assert!((1..10).contains(&refused.count()));
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let right = config(&charter(), 3, None, 1);
    let mut wrong = vec![right.clone(); 5];
    wrong[0].servers.clear();
    wrong[1].servers[2] = wrong[1].servers[0];
    wrong[2].write_quorum = 4;
    wrong[3].read_quorum = 0;
    wrong[4].servers = (0..33_u8)
        .map(|index| KeyPair::from_seed(&[index; 32]).public())
        .collect();
    for config in wrong {
        assert_eq!(code(Client::new(config)), Code::BadConfig);
    }
    let mut elsewhere = right;
    elsewhere.metadata = Some(sealed().encoded().to_vec());
    assert_eq!(code(Client::new(elsewhere)), Code::BadMetadata);
}
