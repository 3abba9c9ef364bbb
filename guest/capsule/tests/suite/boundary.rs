//! Clients, verifiers and synchronisation behind the boundary: what is malformed is refused, and one kind takes nothing of another.

use crate::common::{OWNER_SEED, charter};
use selfsame_capsule::keys::{Key, KeyPair};
use selfsame_capsule::machine::Machine;
use selfsame_codec::capsule::{Input, Output, ReplicaConfig, VERIFIER_CONFIG};
use selfsame_codec::client::{ClientConfig, Command, FIRST_KIND, Reply};
use selfsame_codec::{BatchReader, BatchWriter, Code, Item};

const NOW_MS: u64 = 1_800_000_000_000;

fn bad() -> u16 {
    Code::BadInput.as_u16()
}

fn server() -> Key {
    KeyPair::from_seed(&[3; 32]).public()
}

fn client_config(servers: &[u8], seed: &[u8], write_quorum: u32) -> Vec<u8> {
    let charter = charter();
    let config = ClientConfig {
        capsule: charter.name().0,
        metadata: charter.encoded(),
        servers,
        seed,
        write_quorum,
        read_quorum: 1,
        timing: [10, 100, 50, 1000],
        entropy: [9; 32],
    };
    config.encode()
}

fn client() -> Machine {
    let config = client_config(&server().0, &OWNER_SEED, 1);
    Machine::new(&config).expect("it is a configuration")
}

fn replica() -> Machine {
    let config = ReplicaConfig {
        seed: [7; 32],
        cache: 1 << 20,
        mirrors: 1 << 16,
        owners: Vec::new(),
    };
    Machine::new(&config.encode()).expect("it is a configuration")
}

fn step(machine: &mut Machine, now_ms: u64, write: impl FnOnce(&mut BatchWriter)) -> Vec<u8> {
    let mut batch = BatchWriter::new();
    write(&mut batch);
    let batch = [now_ms.to_le_bytes().as_slice(), batch.as_bytes()].concat();
    machine.step(&batch).to_vec()
}

fn items(outputs: &[u8]) -> Vec<Item<'_>> {
    BatchReader::new(outputs).expect("a batch").collect()
}

/// What is no reply.
fn outputs(outputs: &[u8]) -> Vec<Output<'_>> {
    let own = items(outputs).into_iter().filter(|item| item.kind < FIRST_KIND);
    own.map(|item| Output::decode(item).expect("an output")).collect()
}

fn replies(outputs: &[u8]) -> Vec<Reply<'_>> {
    let replies = items(outputs).into_iter().filter(|item| item.kind >= FIRST_KIND);
    replies
        .map(|item| Reply::decode(item).expect("a reply"))
        .collect()
}

fn refusals(out: &[u8]) -> Vec<(u32, u16)> {
    let refused = |output| match output {
        Output::Refused { input, code } => Some((input, code)),
        _ => None,
    };
    outputs(out).into_iter().filter_map(refused).collect()
}

#[test]
fn a_configuration_of_a_client_that_cannot_be_is_refused_and_none_shows_its_secrets() {
    let key = server().0;
    let good = client_config(&key, &OWNER_SEED, 1);
    for len in 0..good.len() {
        assert_eq!(Machine::new(&good[..len]).err(), Some(Code::BadConfig));
    }
    for (servers, seed, quorum) in [
        (&key[..31], &OWNER_SEED[..], 1),
        (&[], &OWNER_SEED, 1),
        (&[key, key].concat(), &OWNER_SEED, 1),
        (&key, &OWNER_SEED[..5], 1),
        (&key, &OWNER_SEED, 0),
        (&key, &OWNER_SEED, 2),
    ] {
        let config = client_config(servers, seed, quorum);
        assert_eq!(Machine::new(&config).err(), Some(Code::BadConfig));
    }
    assert!(!format!("{:?}", client()).contains(&format!("{OWNER_SEED:?}")));
    let shown = format!("{:?}", ClientConfig::decode(&good).expect("it is one"));
    assert!(!shown.contains("seed") && !shown.contains("entropy"), "{shown}");
}

#[test]
fn a_client_reads_its_store_first_and_does_nothing_if_it_cannot() {
    let mut machine = client();
    let out = step(&mut machine, NOW_MS, |batch| {
        Command::Create { command: 3 }.encode(batch);
    });
    let [Output::StoreGet { tag, .. }, Output::Wake { at_ms }] = outputs(&out)[..] else {
        panic!("{:?}", outputs(&out));
    };
    assert_eq!(at_ms, NOW_MS + 1000, "when the command is given up");
    let failed = Input::StoreValues {
        tag,
        ok: false,
        values: &[],
    };
    let out = step(&mut machine, NOW_MS, |batch| failed.encode(batch));
    assert_eq!(refusals(&out), [(0, Code::StoreFailed.as_u16())]);
    let out = step(&mut machine, at_ms, |_| {});
    let [Reply::Failed { command: 3, code, .. }] = replies(&out)[..] else {
        panic!("{:?}", replies(&out));
    };
    assert_eq!(code, Code::Deadline.as_u16());
    assert_eq!(outputs(&out), [Output::Wake { at_ms: u64::MAX }]);
}

#[test]
fn a_client_asks_its_server_by_its_key_and_hears_that_it_does_not_answer() {
    let mut machine = client();
    let out = step(&mut machine, NOW_MS, |batch| {
        Command::QueryFresh { command: 3 }.encode(batch);
    });
    let [Output::StoreGet { tag, keys }, _] = outputs(&out)[..] else {
        panic!("{:?}", outputs(&out));
    };
    let count = selfsame_codec::capsule::Keys::new(keys).count();
    let (short, all) = (vec![0; count - 1], vec![0; count]);
    let values = |values| Input::StoreValues {
        tag,
        ok: true,
        values,
    };
    let mut other = client();
    step(&mut other, NOW_MS, |_| {});
    let out = step(&mut other, NOW_MS, |batch| values(&short).encode(batch));
    assert_eq!(refusals(&out), [(0, bad())], "too few values");
    let out = step(&mut machine, NOW_MS, |batch| values(&all).encode(batch));
    let [Output::Ask { tag, peer, .. }, Output::Wake { .. }] = outputs(&out)[..] else {
        panic!("{:?}", outputs(&out));
    };
    assert_eq!(peer, server().0);
    let none = Input::Answered {
        tag,
        ok: false,
        response: &[],
    };
    let mut out = step(&mut machine, NOW_MS, |batch| none.encode(batch));
    let mut steps = 0;
    while replies(&out).is_empty() {
        steps += 1;
        assert!(steps < 100, "it gives up");
        let wake = outputs(&out).pop();
        let Some(Output::Wake { at_ms }) = wake else {
            panic!("{wake:?}");
        };
        out = step(&mut machine, at_ms, |_| {});
    }
    let [Reply::Failed { command: 3, code, .. }] = replies(&out)[..] else {
        panic!("{:?}", replies(&out));
    };
    assert_eq!(code, Code::NoQuorum.as_u16());
}

#[test]
fn a_malformed_command_is_refused() {
    let half = [1; 31];
    let shortcuts_and_pointers = Command::Write {
        command: 1,
        sign: true,
        shortcuts: true,
        pointers: &[1; 32],
        contents: &[],
    };
    let cut_content = Command::Write {
        command: 1,
        sign: true,
        shortcuts: true,
        pointers: &[],
        contents: &[9, 0, 0, 0, 1],
    };
    let govern = |added, revoked, readers| Command::Govern {
        command: 1,
        next: true,
        added,
        revoked,
        readers,
    };
    let two = [1; 64];
    let malformed = [
        Command::Init {
            command: 1,
            after: &half,
        },
        Command::Init {
            command: 1,
            after: &two,
        },
        shortcuts_and_pointers,
        cut_content,
        govern(&half, &[], &[]),
        govern(&[], &[1, 0, 32, 0, 0, 0, 1], &[]),
        govern(&[], &[], &half),
        Command::Read {
            command: 1,
            names: &half,
        },
        Command::ReadParts {
            command: 1,
            name: [1; 32],
            indexes: &[1, 0, 0],
        },
    ];
    let mut machine = client();
    let out = step(&mut machine, NOW_MS, |batch| {
        malformed.iter().for_each(|command| command.encode(batch));
        let message = &[1];
        let source = [0; 32];
        Input::Request {
            request: 1,
            source,
            message,
        }
        .encode(batch);
        Input::End {}.encode(batch);
    });
    let expected: Vec<(u32, u16)> = (0..11).map(|position| (position, bad())).collect();
    assert_eq!(refusals(&out), expected);
    assert_eq!(replies(&out), []);
}

#[test]
fn a_replica_takes_no_command_of_a_client() {
    let half = [1; 31];
    let out = step(&mut replica(), NOW_MS, |batch| {
        Command::Create { command: 1 }.encode(batch);
        Input::Replicas {
            capsule: [1; 32],
            peers: &half,
        }
        .encode(batch);
        Input::Chunk { bytes: &[] }.encode(batch);
    });
    assert_eq!(refusals(&out), [(0, bad()), (1, bad()), (2, bad())]);
}

#[test]
fn a_synchronisation_ends_and_says_that_the_other_did_not_answer() {
    let mut machine = replica();
    let sync = Input::Sync {
        peer: [1; 32],
        capsule: [2; 32],
        entropy: [3; 32],
    };
    let mut out = step(&mut machine, NOW_MS, |batch| {
        sync.encode(batch);
        sync.encode(batch);
    });
    let busy = Output::Synced {
        peer: [1; 32],
        capsule: [2; 32],
        outcome: 2,
        code: Code::TooManyRequests.as_u16(),
        at: 0,
        pulled: 0,
        pushed: 0,
    };
    assert!(outputs(&out).contains(&busy), "{:?}", outputs(&out));
    // It has nothing of the capsule: whatever it reads is not there.
    loop {
        let asked = outputs(&out).into_iter().find_map(|output| match output {
            Output::StoreGet { tag, keys } => Some((tag, selfsame_codec::capsule::Keys::new(keys).count())),
            Output::Refused { .. } => panic!("nothing is refused"),
            _ => None,
        });
        let Some((tag, count)) = asked else { break };
        let values = &vec![0; count];
        out = step(&mut machine, NOW_MS, |batch| {
            Input::StoreValues {
                tag,
                ok: true,
                values,
            }
            .encode(batch);
        });
    }
    let [Output::Ask { tag, peer, .. }] = outputs(&out)[..] else {
        panic!("{:?}", outputs(&out));
    };
    assert_eq!(peer, [1; 32]);
    let none = Input::Answered {
        tag,
        ok: false,
        response: &[],
    };
    let out = step(&mut machine, NOW_MS, |batch| none.encode(batch));
    assert!(
        matches!(outputs(&out)[..], [Output::Synced { outcome: 3, .. }]),
        "{:?}",
        outputs(&out)
    );
}

#[test]
fn a_verifier_says_once_that_a_file_is_damaged() {
    let mut machine = Machine::new(&VERIFIER_CONFIG).expect("it is a configuration");
    let out = step(&mut machine, NOW_MS, |batch| {
        Input::Chunk {
            bytes: b"selfsame capsule 2",
        }
        .encode(batch);
        Input::Chunk { bytes: b"\n" }.encode(batch);
        Input::End {}.encode(batch);
        Command::Sign { command: 1 }.encode(batch);
    });
    let code = Code::BadFile.as_u16();
    assert_eq!(
        outputs(&out),
        [
            Output::Damaged { code, at: 17 },
            Output::Refused {
                input: 3,
                code: bad()
            }
        ]
    );
}
