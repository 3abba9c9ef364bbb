//! Servers that lie, forget or roll back, and a network that loses: a client believes nothing that is false, and says what is wrong.

use crate::common::dice::Dice;
use crate::common::net::{Fate, User, agree, code, config, server_key, servers};
use crate::common::server::{Map, Server};
use crate::common::{OWNER_SEED, charter};
use bytes::Bytes;
use selfsame_capsule::client::{Command, Content, Reply, Signing, Start};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn content(index: usize) -> Bytes {
    format!("the content of record {index}").into()
}

fn writing(from: usize, count: usize) -> Command {
    Command::Write {
        contents: (from..from + count).map(content).collect(),
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    }
}

/// Servers with so many records, their writer and their names.
fn stored(count: usize, records: usize) -> (Vec<Server>, User, Vec<RecordName>) {
    let mut servers = servers(count);
    let mut owner = User::new(config(&charter(), count, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    let names = owner.written(&mut servers, writing(0, records));
    owner.settle(&mut servers);
    (servers, owner, names)
}

fn reader(charter: &Charter, count: usize) -> User {
    User::new(config(charter, count, None, 2))
}

/// Reads all records; panics on what is false, returns how many were read.
fn read_all(user: &mut User, servers: &mut [Server], names: &[RecordName]) -> usize {
    let records = names.to_vec();
    let Ok(Reply::Records(got)) = user.run(servers, Command::Read { records }) else {
        return 0;
    };
    let mut right = 0;
    for (index, got) in got.into_iter().enumerate() {
        if let Ok(got) = got {
            assert_eq!(got.content, Content::Plain(content(index)), "record {index}");
            right += 1;
        }
    }
    right
}

#[test]
fn a_server_that_changes_any_byte_is_found_out_and_another_one_is_asked() {
    let (mut servers, _, names) = stored(3, 12);
    for seed in 1..=300_u64 {
        let mut dice = Dice(seed * 0x9e37_79b9);
        let mut user = reader(&charter(), 3);
        user.rule = Box::new(move |(server, _), bytes| {
            if server == 0 && !bytes.is_empty() {
                for _ in 0..=dice.below(3) {
                    let at = dice.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << dice.below(8);
                }
                if dice.below(4) == 0 {
                    bytes.truncate(dice.below(bytes.len() as u64) as usize);
                }
            }
            Fate::After(5)
        });
        assert_eq!(read_all(&mut user, &mut servers, &names), 12, "seed {seed}");
        let heads = user.fresh(&mut servers).expect("two others answer");
        assert_eq!(heads.heads.len(), 1, "seed {seed}");
        assert_eq!(heads.heads[0].name, names[11], "seed {seed}");
    }
}

#[test]
fn when_all_lie_nothing_is_believed() {
    let (mut servers, _, names) = stored(2, 12);
    let mut refused = 0;
    for seed in 1..=200_u64 {
        let mut dice = Dice(seed * 0x51ed_270b);
        let mut user = reader(&charter(), 2);
        user.rule = Box::new(move |_, bytes| {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] = bytes[at].wrapping_add(1 + dice.below(255) as u8);
            Fate::After(5)
        });
        // Whatever is read is right; what was changed is not read.
        refused += usize::from(read_all(&mut user, &mut servers, &names) < 12);
        for (_, fresh) in user.fresh(&mut servers).map_or(Vec::new(), |heads| heads.answers) {
            assert_eq!(fresh.heads, [names[11]]);
        }
    }
    assert!(refused > 150, "{refused} of 200");
}

/// The attack that the published client falls for: a header of the attacker's spliced into a proof.
#[test]
fn a_server_that_gives_another_record_or_proof_is_avoided() {
    let (mut servers, _, names) = stored(2, 4);
    // Server 0 answers each request with what it has answered to the first.
    let mut first: Option<Vec<u8>> = None;
    let mut user = reader(&charter(), 2);
    user.rule = Box::new(move |(server, _), bytes| {
        if server == 0 {
            *bytes = first.get_or_insert_with(|| bytes.clone()).clone();
        }
        Fate::After(5)
    });
    assert_eq!(user.read(&mut servers, names[0]), Ok(content(0).to_vec()));
    assert_eq!(user.read(&mut servers, names[1]), Ok(content(1).to_vec()));
    let asked = user.asked.len();
    assert_eq!(user.read(&mut servers, names[2]), Ok(content(2).to_vec()));
    assert!(
        user.asked[asked..].iter().all(|server| *server == 1),
        "it is avoided"
    );
}

#[test]
fn an_acknowledgement_that_is_not_the_servers_own_does_not_count() {
    let (mut servers, mut owner, _) = stored(3, 1);
    // The last bytes of a response are the time, the server's key and signature, and two of the way.
    let spoil = |place: usize| {
        move |(server, _): (usize, &[u8]), bytes: &mut Vec<u8>| {
            if server > 0 {
                let at = bytes.len() - place;
                bytes[at] ^= 1;
            }
            Fate::After(5)
        }
    };
    for place in [3, 66, 67, 98, 99, 106] {
        owner.rule = Box::new(spoil(place));
        let refused = code(owner.run(&mut servers, writing(1, 1)));
        assert_eq!(refused, Code::BadSignature, "{place} from the end");
        owner.now += 20_000;
    }
    // An acknowledgement of other records, by a server that has them.
    let mut earlier: std::collections::BTreeMap<usize, Vec<u8>> = std::collections::BTreeMap::new();
    owner.rule = Box::new(move |(server, _), bytes| {
        let before = earlier.entry(server).or_insert_with(|| bytes.clone());
        *bytes = before.clone();
        Fate::After(5)
    });
    assert!(owner.run(&mut servers, writing(1, 1)).is_ok());
    assert_eq!(code(owner.run(&mut servers, writing(2, 1))), Code::BadSignature);
}

#[test]
fn a_reader_remembers_what_it_has_seen_and_refuses_what_is_older() {
    let (mut servers, mut owner, names) = stored(3, 2);
    let old: Vec<Map> = servers.iter().map(|server| server.store.clone()).collect();
    owner.written(&mut servers, writing(2, 2));
    owner.settle(&mut servers);
    let mut user = reader(&charter(), 3);
    let newest = user.heads(&mut servers);
    assert_ne!(newest, [names[1]]);
    // One server with an older state changes nothing: the newest wins, and that they disagree is told.
    servers[0] = Server::with_key(server_key(0), old[0].clone());
    let mut others = config(&charter(), 3, None, 3);
    others.read_quorum = 3;
    let mut other = User::new(others);
    let heads = other.fresh(&mut servers).expect("fresh");
    assert!(!agree(&heads));
    assert_eq!(
        heads.heads.iter().map(|head| head.name).collect::<Vec<_>>(),
        newest
    );
    assert_eq!(user.heads(&mut servers), newest);
    // When all roll back it is refused, also by a client that was started again.
    for index in 1..3 {
        servers[index] = Server::with_key(server_key(index), old[index].clone());
    }
    assert_eq!(code(user.fresh(&mut servers)), Code::RolledBack);
    let mut again = User::with_store(config(&charter(), 3, None, 4), user.store);
    assert_eq!(code(again.fresh(&mut servers)), Code::RolledBack);
    assert_eq!(reader(&charter(), 3).heads(&mut servers), [names[1]]);
}

#[test]
fn a_fork_is_seen_and_there_is_evidence_that_anybody_can_check() {
    let (mut servers, mut owner, _) = stored(2, 3);
    // The same writer again, with a store from before and servers that tell it nothing.
    let mut twin = User::with_store(config(&charter(), 2, Some(OWNER_SEED), 9), Map::new());
    let mut blank = crate::common::net::servers(2);
    assert_eq!(twin.run(&mut blank, Command::Create), Ok(Reply::Done));
    twin.begin(&mut blank);
    let one = owner.written(&mut servers, writing(3, 2));
    let other = twin.written(&mut servers, writing(100, 4));
    let mut user = reader(&charter(), 2);
    let records = vec![one[0], other[3]];
    user.run(&mut servers, Command::Read { records })
        .expect("both are proven");
    let forks = user.fresh(&mut servers).expect("fresh").forks;
    let mut pair = [one[0], other[3]];
    pair.sort_unstable();
    assert_eq!(forks, [pair]);
    let Ok(Reply::Fork(fork)) = user.run(&mut servers, Command::Accuse { records: forks[0] }) else {
        panic!("there is evidence");
    };
    let authority = selfsame_capsule::authority::Authority::new(charter().metadata());
    assert_eq!(fork.verify(charter().hasher(), &authority), Ok(0));
    let mut wrong = fork.clone();
    wrong.other = wrong.one.clone();
    assert_eq!(code(wrong.verify(charter().hasher(), &authority)), Code::BadFork);
    let mut wrong = fork;
    *wrong.other.proof.last_mut().expect("a signature") ^= 1;
    assert_eq!(
        code(wrong.verify(charter().hasher(), &authority)),
        Code::BadSignature
    );
    let records = [one[0], one[1]];
    assert_eq!(
        code(user.run(&mut servers, Command::Accuse { records })),
        Code::BadFork
    );
}

/// What a client says is written is there, whatever the network loses, delays and doubles.
#[test]
fn what_is_said_to_be_written_is_read_over_a_bad_network() {
    for seed in 1..=15_u64 {
        let mut dice = Dice(seed * 0x2545_f491);
        let (mut servers, mut owner, _) = stored(3, 1);
        owner.rule = Box::new(move |_, _| match dice.below(10) {
            0 | 1 => Fate::Lost,
            2 => Fate::Failed,
            3 => Fate::Twice(dice.below(300), dice.below(900)),
            _ => Fate::After(dice.below(400)),
        });
        let mut written = Vec::new();
        for round in 0..10 {
            let ids: Vec<u32> = (0..3)
                .map(|index| owner.give(writing(round * 30 + index * 10, 10)))
                .collect();
            owner.finish(&mut servers);
            for (index, id) in ids.into_iter().enumerate() {
                match owner.replies.remove(&id).expect("it is answered") {
                    Ok(Reply::Written(names)) => written.push((round * 30 + index * 10, names)),
                    Ok(other) => panic!("{other:?}"),
                    Err(refusal) => assert_eq!(refusal.code, Code::NoQuorum, "seed {seed}"),
                }
            }
        }
        assert!(written.len() > 20, "seed {seed}: {} of 30", written.len());
        let mut dice = Dice(seed * 77);
        let mut user = reader(&charter(), 3);
        user.rule = Box::new(move |_, _| match dice.below(10) {
            0 => Fate::Lost,
            1 => Fate::Failed,
            _ => Fate::After(dice.below(400)),
        });
        for (first, names) in written {
            for (index, name) in names.iter().enumerate() {
                assert_eq!(
                    user.read(&mut servers, *name),
                    Ok(content(first + index).to_vec()),
                    "seed {seed}"
                );
            }
        }
        assert_eq!(
            user.fresh(&mut servers).map(|heads| heads.heads.len()),
            Ok(1),
            "seed {seed}"
        );
    }
}

#[test]
fn what_nobody_has_is_refused_by_name() {
    let (mut servers, _, _) = stored(2, 1);
    let mut user = reader(&charter(), 2);
    assert_eq!(code(user.read(&mut servers, RecordName([9; 32]))), Code::NoRecord);
    let mut blank = crate::common::net::servers(2);
    assert_eq!(code(reader(&charter(), 2).fresh(&mut blank)), Code::NoCapsule);
    let mut nameless = config(&charter(), 2, Some(OWNER_SEED), 1);
    nameless.metadata = None;
    let mut user = User::new(nameless);
    assert_eq!(code(user.run(&mut blank, Command::QueryFresh)), Code::NoCapsule);
    let start = Start::Resume;
    assert_eq!(
        code(user.run(&mut blank, Command::Init { start })),
        Code::NoCapsule
    );
}
