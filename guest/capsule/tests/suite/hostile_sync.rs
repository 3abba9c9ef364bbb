//! Another replica that lies: nothing false is stored, little is wasted, and it comes to an end.

use crate::common::Log;
use crate::common::world::{World, between_replicas, chain, give};
use selfsame_capsule::message::{Operation, Part};
use selfsame_capsule::replica::SyncOutcome;
use selfsame_capsule::writer::Written;
use selfsame_codec::Code;

/// Two replicas that share some records of a log of sixty, and each have others.
fn apart(log: &Log) -> World {
    let records: Vec<&Written> = log.records.iter().collect();
    let mut world = World::created(2, &log.charter);
    give(&mut world, 0, &log.charter, &records[..30], &[]);
    give(
        &mut world,
        1,
        &log.charter,
        &records[20..],
        &[(&log.writer, &log.records[59])],
    );
    world
}

/// One lie of how much differs costs about one large sketch, not one for each part that such a difference would be cut into.
#[test]
fn a_difference_that_is_a_lie_is_soon_found_out() {
    const ELEMENTS: core::ops::Range<usize> = 53..61;
    let log = chain(60);
    let mut world = apart(&log);
    let mut lies = 1;
    let synced = world.sync_with(0, 1, log.charter.name(), |operation, mut response| {
        if operation == 11 && lies > 0 {
            lies -= 1;
            response[ELEMENTS].copy_from_slice(&(1_u64 << 26).to_le_bytes());
        }
        response
    });
    assert_eq!((synced.outcome, lies), (SyncOutcome::Agreed, 0));
    assert!(world.cost.bytes < 1 << 20, "{:?}", world.cost);
    assert_eq!(world.stored(0), world.stored(1));
}

/// What somebody on the way makes of responses: never does anything false get stored, nor a synchronisation fail to end.
#[test]
fn a_hostile_peer_gets_nothing_false_stored() {
    let log = chain(60);
    let forged = chain_of_a_stranger();
    for attack in 0..7 {
        let mut world = apart(&log);
        let mut state = 1_u8;
        let synced = world.sync_with(0, 1, log.charter.name(), |operation, response| {
            state = state.wrapping_mul(5).wrapping_add(1);
            spoil(attack, operation, response, state, &forged)
        });
        assert_ne!(synced.outcome, SyncOutcome::Agreed, "attack {attack}");
        for (key, value) in &world.servers[0].store {
            if key[32] == b'R' {
                let honest = log.records.iter().find(|record| record.name.0 == key[33..]);
                let honest = honest.unwrap_or_else(|| panic!("attack {attack}: a record that nobody wrote"));
                let stored = &value[..value.len() - 8];
                assert!(stored.ends_with(&[honest.header.as_slice(), &honest.body].concat()));
            }
            assert!(
                key[32] != b'G' || key[33..] == log.name(59).0,
                "attack {attack}: a forged signature"
            );
        }
        // Afterwards an honest one brings the rest.
        world.converge(0, 1, &log.charter, "after an attack");
    }
}

/// A record whose body is not its own, as a result of reading it.
fn chain_of_a_stranger() -> Vec<u8> {
    let mut record = chain(1).records.remove(0);
    record.body[0] ^= 1;
    [&[0, 0][..], &record.header, &record.body].concat()
}

/// One way of lying: in sketches, in the elements that ids stand for, in records, in signatures, or in everything.
fn spoil(attack: u8, operation: u8, mut response: Vec<u8>, state: u8, forged: &[u8]) -> Vec<u8> {
    let flip = |response: &mut Vec<u8>, from: usize| {
        let count = response.len();
        response[from..count - 1]
            .iter_mut()
            .step_by(7)
            .for_each(|byte| *byte ^= state | 1);
    };
    match (attack, operation) {
        (0, 11) if response.len() > 61 => flip(&mut response, 61),
        (1, 12) => flip(&mut response, 13),
        (2, 5) => return [&response[..7], forged, &[0]].concat(),
        (3, 13) => flip(&mut response, 18),
        (4, 5 | 13) => response.truncate(response.len() / 2),
        (5, 11) => response.resize(11 << 20, 0),
        (6, _) => response = vec![state; usize::from(state)],
        _ => {}
    }
    response
}

/// Requests of a hostile replica: what is malformed or too much is refused by name, and an old salt gives nothing new.
#[test]
fn a_hostile_replica_asks() {
    let log = chain(40);
    let mut world = World::of(&log);
    let capsule = log.charter.name();
    let compare = |part, symbols| Operation::Compare {
        salt: [1; 16],
        part,
        symbols,
        unless: [0; 32],
    };
    let mut ask =
        |operations: &[Operation<'_>]| world.servers[0].respond(between_replicas(capsule, operations));
    let code = |response: &[u8], at: usize| u16::from_le_bytes([response[at], response[at + 1]]);
    let honest = ask(&[compare(Part::WHOLE, 64)]);
    assert!(code(&honest, 1) == 0 && code(&honest, 7) == 0);
    assert_eq!(
        ask(&[compare(Part::WHOLE, 64)]),
        honest,
        "an old salt gives the same"
    );
    let too_many = ask(&[compare(Part::WHOLE, 1 << 16 | 1)]);
    assert_eq!(code(&too_many, 1), Code::BadMessage.as_u16());
    let twice = ask(&[compare(Part::WHOLE, 1), compare(Part::WHOLE, 1)]);
    assert_eq!(code(&twice, 1), Code::TooLarge.as_u16());
    let later = Part {
        since: 41,
        ..Part::WHOLE
    };
    assert_eq!(code(&ask(&[compare(later, 8)]), 7), Code::NoRecord.as_u16());
    let backwards = Part {
        since: 0,
        first: 9,
        last: 3,
    };
    assert_eq!(code(&ask(&[compare(backwards, 8)]), 1), Code::BadMessage.as_u16());
    let unsigned = Operation::Signature { record: log.name(3) };
    assert_eq!(code(&ask(&[unsigned]), 7), Code::Unproven.as_u16());
    // However many ids are asked for, no more elements come than there are.
    let ids = vec![7; 8 * 60_000];
    let elements = ask(&[Operation::Elements {
        salt: [1; 16],
        part: Part::WHOLE,
        ids: &ids,
    }]);
    assert_eq!(elements[9..], [0, 0, 0, 0, 0]);
    let mut message = between_replicas(capsule, &[]);
    message.extend_from_slice(&[12; 1 + 16 + 24]);
    message.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        code(&world.servers[0].respond(message), 1),
        Code::BadMessage.as_u16()
    );
}
