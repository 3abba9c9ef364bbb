//! Captured datagrams that come again, to the same replica and to others, after restarts and rotations (RFC 8446, section 8).

use selfsame_codec::Code;

mod world;
use world::{
    Datagram, Dice, IDEMPOTENT, ONCE, Outcome, START_US, Setup, TICKET_LIFE_S, World, address, answer,
};

/// A run of calls of both kinds, of one packet and of many; what was sent.
fn captured(world: &mut World) -> Vec<Datagram> {
    for call in 0..12_u32 {
        let options = if call % 2 == 0 { ONCE } else { IDEMPOTENT };
        let mut payload = answer(if call % 5 == 0 { 4_000 } else { 20 });
        payload[0] = call as u8;
        payload[1] = options;
        world.call(call, 1 + call as u16 % 2, options, &payload);
        world.run(1);
        assert!(matches!(world.outcomes[&call], Outcome::Done(_)));
    }
    world.captured.clone()
}

/// Payloads that were carried out more than once by one replica, and those of calls that are not idempotent by any two.
fn repeated(world: &World) -> Vec<Vec<u8>> {
    let mut repeated = Vec::new();
    for payload in world.executed() {
        let most = world
            .replicas
            .values()
            .map(|replica| replica.executed.iter().filter(|one| **one == payload).count());
        if most.max() > Some(1) || (payload[1] == ONCE && world.executions(&payload) > 1) {
            repeated.push(payload);
        }
    }
    repeated
}

fn deliver_to(world: &mut World, datagram: &Datagram, replica: u16) {
    let datagram = Datagram {
        to: address(replica),
        ..datagram.clone()
    };
    world.deliver(&datagram);
    world.network.clear();
}

#[test]
fn replayed_datagrams_are_carried_out_by_no_replica_twice() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed + 1);
        let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2), Setup::idempotent(3)]);
        let all = captured(&mut world);
        let mut rotations = 0;
        for _ in 0..600 {
            let datagram = all[dice.below(all.len() as u64) as usize].clone();
            if dice.below(40) == 0 {
                rotations += 1;
                world.rotate_ticket_keys(address(2), rotations);
            }
            deliver_to(&mut world, &datagram, 1 + dice.below(3) as u16);
        }
        assert_eq!(repeated(&world), Vec::<Vec<u8>>::new(), "seed {seed}");
    }
}

#[test]
fn replica_that_was_restarted_carries_out_nothing_old() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    let all = captured(&mut world);
    let restarted = Setup {
        not_before_ms: world.now_us / 1000 + 1,
        ..Setup::idempotent(9)
    };
    world.start(1, &restarted);
    all.iter()
        .for_each(|datagram| deliver_to(&mut world, datagram, 1));
    assert!(world.replica(1).executed.is_empty());
}

#[test]
fn held_back_datagram_is_not_carried_out() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    world.call(1, 1, IDEMPOTENT, b"ping");
    let held = world.network.pop_front().expect("the request");
    world.now_us += 11_000_000;
    deliver_to(&mut world, &held, 1);
    deliver_to(&mut world, &held, 2);
    assert_eq!(world.executions(b"ping"), 0);
}

#[test]
fn request_under_an_expired_ticket_is_not_carried_out() {
    let mut world = World::new(&[Setup::bound(1)]);
    world.call(1, 1, ONCE, b"warm");
    world.run(1);
    world.call(2, 1, ONCE, b"late");
    let late = world.network.pop_front().expect("the request");
    world.now_us += u64::from(TICKET_LIFE_S) * 1_000_000;
    world.deliver(&late);
    assert_eq!(world.executions(b"late"), 0);
}

#[test]
fn service_that_binds_carries_out_no_early_data() {
    let mut world = World::new(&[Setup::bound(1), Setup::bound(2)]);
    let all = captured(&mut world);
    all.iter()
        .for_each(|datagram| deliver_to(&mut world, datagram, 2));
    all.iter()
        .for_each(|datagram| deliver_to(&mut world, datagram, 1));
    for payload in world.executed() {
        assert_eq!(world.executions(&payload), 1);
    }
}

/// A carries the call out, its answer is held back, and the client is made to turn to B.
#[test]
fn call_executed_at_one_replica_is_refused_at_another() {
    let mut world = World::new(&[Setup::bound(1), Setup::bound(2)]);
    world.call(1, 1, ONCE, b"warm");
    world.run(1);
    world.call(2, 1, ONCE, b"pay");
    let until_us = world.now_us + 40_000_000;
    world.run_until(until_us, |world, datagram| {
        // No answer of A passes, and B gets all that A gets.
        if datagram.to == address(1) {
            world.deliver(&datagram);
            world.deliver(&Datagram {
                to: address(2),
                ..datagram
            });
        } else if datagram.from == address(2) {
            world.deliver(&Datagram {
                from: address(1),
                ..datagram
            });
        }
    });
    assert_eq!(world.outcomes[&2], Outcome::Failed(Code::OutcomeUnknown));
    assert_eq!(world.executions(b"pay"), 1);
    assert!(world.replica(2).executed.is_empty());
}

#[test]
fn replica_that_restarts_under_a_call_leaves_one_typed_error() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, ONCE, b"warm");
    world.run(1);
    world.replica(1).is_silent = true;
    world.call(2, 1, ONCE, b"pay");
    world.run_until(world.now_us + 1_000, |world, datagram| world.deliver(&datagram));
    assert_eq!(world.executions(b"pay"), 1);
    world.start(1, &Setup::idempotent(9));
    world.run(31);
    assert_eq!(world.outcomes[&2], Outcome::Failed(Code::OutcomeUnknown));
    assert_eq!(world.executions(b"pay"), 0, "the new one carries out nothing");
    assert!(world.now_us < START_US + 40_000_000);
}

/// A request that an earlier life of the session would have taken comes late, when its client has sealed the call again.
#[test]
fn request_that_was_rejected_is_not_carried_out_beside_its_successor() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, b"warm");
    world.run(1);
    world.start(1, &Setup::idempotent(9));
    world.call(2, 1, IDEMPOTENT, b"ping");
    world.call(3, 1, IDEMPOTENT, b"pong");
    let rejected = world.network.clone();
    world.run(1);
    for late in rejected {
        world.deliver(&late);
    }
    world.run(1);
    for (call, payload) in [(2, b"ping"), (3, b"pong")] {
        assert_eq!(world.outcomes[&call], Outcome::Done(payload.to_vec()));
        assert_eq!(world.executions(payload), 1);
    }
}

#[test]
fn forged_rejection_does_not_repeat_a_call() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    world.call(1, 1, ONCE, b"warm");
    world.run(1);
    world.call(2, 1, ONCE, b"pay");
    let request = world.network.pop_front().expect("the request");
    world.deliver(&request);
    world.network.clear();
    let counter = &request.bytes[10..14];
    let tag = &request.bytes[request.bytes.len() - 16..];
    for reason in [1, 2] {
        let bytes = [&[0x63, reason], counter, tag].concat();
        let rejection = Datagram {
            from: address(1),
            to: address(0),
            bytes,
        };
        world.deliver(&rejection);
    }
    world.run(1);
    assert_eq!(world.outcomes[&2], Outcome::Failed(Code::OutcomeUnknown));
    assert_eq!(world.executions(b"pay"), 1);
}
