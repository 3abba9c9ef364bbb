//! Calls from client to replica through the boundary.

use std::collections::BTreeSet;

use selfsame_codec::Code;
use selfsame_codec::rpc::Input;

mod world;
use world::{Dice, IDEMPOTENT, ONCE, Outcome, START_US, Setup, TICKET_LIFE_S, World, address, answer};

/// Bytes of the datagrams in one direction.
fn sizes(world: &World, to: u16) -> Vec<usize> {
    let datagrams = world
        .captured
        .iter()
        .filter(|datagram| datagram.to == address(to));
    datagrams.map(|datagram| datagram.bytes.len()).collect()
}

#[test]
fn call_is_one_datagram_each_way() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, b"ping");
    world.run(1);
    assert_eq!(world.outcomes[&1], Outcome::Done(b"ping".to_vec()));
    assert_eq!(world.captured.len(), 2);
    assert_eq!(world.tickets_wanted, 1);
}

#[test]
fn overhead_stays_within_its_bounds() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, b"ping");
    world.run(1);
    world.call(2, 1, IDEMPOTENT, b"ping");
    world.run(1);
    world.now_us += u64::from(TICKET_LIFE_S) * 500_001;
    world.call(3, 1, IDEMPOTENT, b"ping");
    world.run(1);
    assert_eq!(sizes(&world, 1), [4 + 128, 4 + 44, 4 + 44]);
    assert_eq!(sizes(&world, 0), [4 + 30, 4 + 30, 4 + 134]);
}

#[test]
fn ticket_from_one_replica_opens_at_another() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    world.call(1, 2, IDEMPOTENT, b"ping");
    world.run(1);
    assert_eq!(world.outcomes[&1], Outcome::Done(b"ping".to_vec()));
    assert_eq!(world.captured.len(), 2);
}

fn assert_all_answered(world: &World) {
    assert!(
        world
            .outcomes
            .values()
            .all(|outcome| *outcome == Outcome::Done(b"ping".to_vec()))
    );
}

#[test]
fn renewed_ticket_is_used_after_the_old_one_expires() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    for call in 0..20 {
        world.call(call, 1 + call as u16 % 2, IDEMPOTENT, b"ping");
        world.run(1);
        world.now_us += u64::from(TICKET_LIFE_S) * 300_000;
    }
    assert_all_answered(&world);
    assert_eq!(world.tickets_wanted, 1);
}

/// Whoever knows a secret that was replaced reads the responses to tickets of it.
#[test]
fn ticket_of_keys_that_were_replaced_is_not_renewed() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    for call in 0..8 {
        world.call(call, 1, IDEMPOTENT, b"ping");
        world.run(1);
        if call == 0 {
            world.replace_ticket_keys(address(1));
        }
        world.now_us += u64::from(TICKET_LIFE_S) * 300_000;
    }
    assert_all_answered(&world);
    // At first, and when that of the replaced keys had expired.
    assert_eq!(world.tickets_wanted, 2);
}

/// A life of a session is one under a ticket: with a new one the call is bound to another life, and was not carried out before.
#[test]
fn call_is_bound_anew_when_the_ticket_is_renewed() {
    for setup in [Setup::idempotent(1), Setup::bound(1)] {
        let mut world = World::new(&[setup]);
        world.call(1, 1, IDEMPOTENT, b"first");
        world.run(1);
        world.now_us += u64::from(TICKET_LIFE_S) * 500_001;
        // The answer to one call brings the ticket while another one asks for the epoch.
        for (call, options) in [(2, IDEMPOTENT), (3, ONCE), (4, IDEMPOTENT)] {
            world.call(call, 1, options, &call.to_le_bytes());
        }
        world.run(1);
        for call in 2..5_u32 {
            assert_eq!(world.outcomes[&call], Outcome::Done(call.to_le_bytes().to_vec()));
            assert_eq!(world.executions(&call.to_le_bytes()), 1);
        }
        assert_eq!(world.tickets_wanted, 1);
    }
}

/// Each of many replicas renews a ticket that is due: one new session is enough.
#[test]
fn ticket_is_renewed_once_whatever_replicas_answer() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2), Setup::idempotent(3)]);
    world.call(0, 1, IDEMPOTENT, b"ping");
    world.run(1);
    world.now_us += u64::from(TICKET_LIFE_S) * 500_001;
    let before = world.captured.len();
    for call in 1..7 {
        world.call(call, 1 + call as u16 % 3, IDEMPOTENT, b"ping");
    }
    world.run(1);
    // The first three know nothing of it; later ones use the ticket of the first answer.
    for call in 7..20 {
        world.call(call, 1 + call as u16 % 3, IDEMPOTENT, b"ping");
        world.run(1);
    }
    let tickets: BTreeSet<&[u8]> = world.captured[before..]
        .iter()
        .filter(|datagram| datagram.bytes[0] == 0x60)
        .map(|datagram| &datagram.bytes[2..94])
        .collect();
    assert_eq!(tickets.len(), 2);
}

#[test]
fn call_without_ticket_fails() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.issuer = None;
    world.call(1, 1, IDEMPOTENT, b"ping");
    assert_eq!(world.outcomes[&1], Outcome::Failed(Code::NoProvider));
    assert!(world.captured.is_empty());
}

#[test]
fn call_that_is_not_idempotent_is_bound_first() {
    for setup in [Setup::bound(1), Setup::idempotent(1)] {
        let mut world = World::new(&[setup]);
        for call in 1..4 {
            world.call(call, 1, ONCE, b"ping");
            world.run(1);
            assert_eq!(world.outcomes[&call], Outcome::Done(b"ping".to_vec()));
        }
        // The first one asks for the epoch.
        assert_eq!(world.captured.len(), 8);
        assert_eq!(world.executions(b"ping"), 3);
    }
}

#[test]
fn idempotent_call_is_bound_where_the_service_wants_it() {
    let mut world = World::new(&[Setup::bound(1)]);
    world.call(1, 1, IDEMPOTENT, b"ping");
    world.run(1);
    assert_eq!(world.outcomes[&1], Outcome::Done(b"ping".to_vec()));
    assert_eq!(world.executions(b"ping"), 1);
    assert_eq!(world.captured.len(), 4);
}

#[test]
fn ticket_of_an_erased_key_is_replaced() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2), Setup::idempotent(3)]);
    world.call(1, 1, IDEMPOTENT, b"one");
    world.run(1);
    for (replica, rotations, tickets) in [(2, 1, 1), (3, 2, 2)] {
        world.rotate_ticket_keys(address(replica), rotations);
        world.issuer = Some(address(replica));
        world.call(u32::from(replica), replica, IDEMPOTENT, b"ping");
        world.run(1);
        assert_eq!(
            world.outcomes[&u32::from(replica)],
            Outcome::Done(b"ping".to_vec())
        );
        assert_eq!(world.tickets_wanted, tickets);
    }
}

#[test]
fn large_messages_arrive_whole() {
    for len in [1_072, 1_073, 5_000, 300_000, 16 * 1024 * 1024] {
        let mut world = World::new(&[Setup::idempotent(1)]);
        let payload = answer(len);
        world.call(1, 1, IDEMPOTENT, &payload);
        world.run(30);
        assert!(world.outcomes[&1] == Outcome::Done(payload), "{len}");
        assert_eq!(world.replica(1).executed.len(), 1);
    }
}

#[test]
fn message_beyond_the_limit_is_refused() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, &answer(16 * 1024 * 1024 + 1));
    assert_eq!(world.refused, [Code::TooLarge]);
}

#[test]
fn cancelled_call_ends_at_the_server() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.replica(1).is_silent = true;
    world.call(1, 1, IDEMPOTENT, b"ping");
    world.run(1);
    world.tell_client(&[Input::Cancel { call: 1 }]);
    world.run(1);
    assert_eq!(world.replica(1).cancelled, 1);
    assert!(world.outcomes.is_empty());
}

#[test]
fn unanswered_call_fails_at_its_deadline() {
    for (options, code) in [(IDEMPOTENT, Code::TimedOut), (ONCE, Code::OutcomeUnknown)] {
        let mut world = World::new(&[Setup::idempotent(1)]);
        world.replica(1).is_silent = true;
        world.call(1, 1, options, b"ping");
        world.run(31);
        assert_eq!(world.outcomes[&1], Outcome::Failed(code));
        assert_eq!(world.executions(b"ping"), 1);
        assert!(world.now_us <= START_US + 31_000_000);
    }
}

/// The server has answered when the last packet of the request comes again: then it answers once more.
#[test]
fn answer_that_is_lost_with_the_last_acknowledgement_is_sent_again() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.replica(1).answer_bytes = Some(20);
    world.call(1, 1, IDEMPOTENT, &answer(1_184));
    let mut to_client = 0;
    world.run_until(START_US + 900_000, |world, datagram| {
        to_client += usize::from(datagram.to == address(0));
        // The first packet is acknowledged, the second neither that nor answered.
        if datagram.to != address(0) || !(3..=4).contains(&to_client) {
            world.deliver(&datagram);
        }
    });
    assert_eq!(world.outcomes[&1], Outcome::Done(answer(20)));
    assert_eq!(world.replica(1).executed.len(), 1);
}

#[test]
fn lossy_network_carries_each_call_once() {
    for seed in 0..30 {
        let mut dice = Dice::new(seed + 1);
        let mut world = World::new(&[Setup::idempotent(1), Setup::bound(2), Setup::idempotent(3)]);
        for call in 0..60_u32 {
            let options = if dice.below(2) == 0 { IDEMPOTENT } else { ONCE };
            let len = if dice.below(8) == 0 { 20_000 } else { 20 };
            let mut payload = answer(len);
            payload[..4].copy_from_slice(&call.to_le_bytes());
            world.call(call, 1 + dice.below(3) as u16, options, &payload);
        }
        let mut late = Vec::new();
        let until = world.now_us + 29_000_000;
        world.run_until(until, |world, datagram| match dice.below(10) {
            0 => {}
            1 => {
                world.deliver(&datagram);
                world.deliver(&datagram);
            }
            2 => late.push(datagram),
            _ => {
                world.deliver(&datagram);
                if dice.below(4) == 0
                    && let Some(datagram) = late.pop()
                {
                    world.deliver(&datagram);
                }
            }
        });
        for call in 0..60 {
            assert!(
                matches!(world.outcomes.get(&call), Some(Outcome::Done(_))),
                "seed {seed}, {call}: {:?}",
                world.outcomes.get(&call).map(|_| ())
            );
        }
        let all: Vec<&Vec<u8>> = world
            .replicas
            .values()
            .flat_map(|replica| &replica.executed)
            .collect();
        assert_eq!(all.len(), 60, "seed {seed}");
        assert_eq!(world.executed().len(), 60, "seed {seed}");
    }
}
