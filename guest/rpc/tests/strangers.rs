//! What strangers and hostile clients can do: nothing, and not at the expense of others.

use selfsame_codec::Code;
use selfsame_codec::rpc::Input;

mod world;
use world::{Datagram, Dice, IDEMPOTENT, ONCE, Outcome, SECRET, Setup, World, address, answer};

#[test]
fn changed_datagrams_change_nothing() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, b"one");
    world.run(1);
    world.call(2, 1, IDEMPOTENT, b"two");
    world.run(1);
    let all = world.captured.clone();
    let executed = world.replica(1).executed.len();
    world.call(3, 1, IDEMPOTENT, b"three");
    world.network.clear();
    for datagram in &all {
        for at in 0..datagram.bytes.len() {
            for bit in [0, 3, 7] {
                let mut changed = datagram.clone();
                changed.bytes[at] ^= 1 << bit;
                world.deliver(&changed);
                world.network.clear();
            }
        }
        for len in 0..datagram.bytes.len() {
            let mut short = datagram.clone();
            short.bytes.truncate(len);
            world.deliver(&short);
            world.network.clear();
        }
    }
    assert_eq!(world.replica(1).executed.len(), executed);
    assert_eq!(world.outcomes.len(), 2);
}

#[test]
fn random_bytes_get_less_than_they_send() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let mut dice = Dice::new(5);
    let before = world.captured.len();
    let mut received = 0;
    for round in 0..20_000 {
        let len = dice.below(300) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = 0x60 + (round % 8) as u8;
        }
        received += len;
        let (from, to) = (address(9), address(1));
        world.deliver(&Datagram {
            from,
            to,
            bytes: bytes.clone(),
        });
        world.deliver(&Datagram {
            from,
            to: address(0),
            bytes,
        });
    }
    let sent: usize = world.captured[before..]
        .iter()
        .map(|datagram| datagram.bytes.len())
        .sum();
    assert!(sent < received, "{sent} for {received}");
    assert!(world.replica(1).executed.is_empty());
}

#[test]
fn ticket_of_another_service_or_network_opens_nothing() {
    let other = Setup {
        secrets: [2; 64],
        ..Setup::idempotent(2)
    };
    let mut world = World::new(&[Setup::idempotent(1), other]);
    world.issuer = Some(address(2));
    world.call(1, 1, IDEMPOTENT, b"ping");
    world.run(1);
    assert!(world.replica(1).executed.is_empty());
    assert_eq!(world.outcomes[&1], Outcome::Failed(Code::TimedOut));
    assert!(world.tickets_wanted <= 4);
}

/// A request for a long answer, from an address that its ticket does not prove.
fn forged_request(world: &mut World) -> Datagram {
    world.replica(1).answer_bytes = Some(100_000);
    world.call(1, 1, IDEMPOTENT, b"ping");
    Datagram {
        from: address(77),
        ..world.network.pop_front().expect("the request")
    }
}

fn bytes_sent_to(world: &World, target: world::Address) -> usize {
    let datagrams = world.captured.iter().filter(|one| one.to == target);
    datagrams.map(|one| one.bytes.len()).sum()
}

/// A request from an address that its ticket does not prove, as a forged source address is.
#[test]
fn unproven_address_gets_at_most_three_times_as_many_bytes() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let forged = forged_request(&mut world);
    let victim = forged.from;
    world.deliver(&forged);
    world.run_until(world.now_us + 60_000_000, |world, datagram| {
        if datagram.to != victim && datagram.from != address(0) {
            world.deliver(&datagram);
        }
    });
    let sent = bytes_sent_to(&world, victim);
    assert!(
        sent > 0 && sent <= 3 * forged.bytes.len(),
        "{sent} for {}",
        forged.bytes.len()
    );
}

/// Neither do copies of the request make it more, nor does the server wait for a proof by waking again and again.
#[test]
fn copies_from_an_unproven_address_neither_amplify_nor_keep_the_server_awake() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let forged = forged_request(&mut world);
    let victim = forged.from;
    let mut wakes = 0;
    for copies in 1..=5 {
        world.deliver(&forged);
        let until_us = world.now_us + 1_000_000;
        while world.replica(1).wake_us < until_us {
            world.now_us = world.replica(1).wake_us;
            world.tell_replica(address(1), &[]);
            wakes += 1;
            assert!(wakes < 100, "after {copies} copies");
        }
        world.now_us = until_us;
        let sent = bytes_sent_to(&world, victim);
        assert!(
            sent <= 3 * copies * forged.bytes.len(),
            "{sent} for {copies} copies"
        );
    }
    // The first packet of the answer is sent again when the copies allow for it.
    let is_answer = |one: &&Datagram| one.to == victim && one.bytes.len() > 300;
    assert!(world.captured.iter().filter(is_answer).count() > 1);
}

/// A stream proves the address that a ticket does not, and carries a long answer in one message.
#[test]
fn answers_over_streams_are_whole() {
    let streams = Setup {
        streams: true,
        ..Setup::idempotent(1)
    };
    let mut world = World::new(&[streams]);
    let from_elsewhere = forged_request(&mut world);
    let elsewhere = from_elsewhere.from;
    world.deliver(&from_elsewhere);
    let answer = world.network.pop_front().expect("the answer");
    assert!(
        answer.to == elsewhere && answer.bytes.len() > 100_000,
        "{}",
        answer.bytes.len()
    );
}

/// A client whose address has changed proves the new one with the cookie in the first packet.
#[test]
fn moved_client_gets_large_answers() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.replica(1).answer_bytes = Some(100_000);
    world.call(1, 1, IDEMPOTENT, b"ping");
    let moved = address(55);
    let until_us = world.now_us + 10_000_000;
    world.run_until(until_us, |world, datagram| match datagram.to == moved {
        true => world.deliver(&Datagram {
            to: address(0),
            ..datagram
        }),
        false => world.deliver(&Datagram {
            from: moved,
            ..datagram
        }),
    });
    assert!(world.outcomes[&1] == Outcome::Done(answer(100_000)));
}

/// One source with many tickets makes a replica forget its own sessions, not those of others.
#[test]
fn source_with_many_sessions_crowds_out_itself() {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    world.call(1, 1, IDEMPOTENT, b"honest");
    world.run(1);
    let attacker = address(66);
    for number in 0..6_000_u32 {
        let mut other = World::new(&[Setup::idempotent((number % 250) as u8)]);
        other.now_us = world.now_us + u64::from(number);
        other.call(1, 1, IDEMPOTENT, &number.to_le_bytes());
        let request = other.network.pop_front().expect("the request");
        world.deliver(&Datagram {
            from: attacker,
            ..request
        });
    }
    world.network.clear();
    world.captured.clear();
    world.call(2, 1, IDEMPOTENT, b"honest");
    world.run(1);
    assert_eq!(world.outcomes[&2], Outcome::Done(b"honest".to_vec()));
    assert_eq!(world.captured.len(), 2, "the session is still there");
}

/// What an evicted session has carried out is not carried out again under its ticket.
#[test]
fn evicted_session_carries_out_nothing_twice() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, b"first");
    world.run(1);
    let first = world.captured[0].clone();
    for number in 0..5_000_u32 {
        let mut other = World::new(&[Setup::idempotent((number % 250) as u8)]);
        other.now_us = world.now_us + 1_000;
        other.call(1, 1, IDEMPOTENT, &number.to_le_bytes());
        let request = other.network.pop_front().expect("the request");
        world.deliver(&request);
    }
    world.network.clear();
    world.deliver(&first);
    assert_eq!(world.executions(b"first"), 1);
}

#[test]
fn calls_beyond_the_quota_of_a_source_are_refused() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.replica(1).is_silent = true;
    for call in 0..9_000 {
        world.call(call, 1, IDEMPOTENT, b"ping");
    }
    world.run_until(world.now_us + 1_000, |world, datagram| world.deliver(&datagram));
    let refused = world
        .outcomes
        .values()
        .filter(|one| **one == Outcome::Failed(Code::TooManyRequests))
        .count();
    assert_eq!(refused, 9_000 - 8_192);
    let open = world.replica(1).open[0];
    world.tell_replica(
        address(1),
        &[Input::Answer {
            call: open,
            payload: b"pong",
        }],
    );
    world.call(9_001, 1, IDEMPOTENT, b"ping");
    world.run_until(world.now_us + 1_000, |world, datagram| world.deliver(&datagram));
    assert_eq!(world.replica(1).executed.len(), 8_193);
}

/// Whoever knows a session's id can forge requests that are bound to another life of it.
#[test]
fn forged_requests_use_up_nothing_that_binding_needs() {
    let mut world = World::new(&[Setup::bound(1)]);
    world.call(1, 1, ONCE, b"first");
    world.run(1);
    let mut forged = world
        .captured
        .iter()
        .rfind(|datagram| datagram.bytes[0] == 0x61 && datagram.bytes[1] & 0b100 != 0)
        .expect("a bound request")
        .clone();
    *forged.bytes.last_mut().expect("a tag") ^= 1;
    for _ in 0..=u16::MAX {
        world.deliver(&forged);
        world.network.clear();
    }
    // By then the client asks whether the replica still lives.
    world.now_us += 6_000_000;
    world.call(2, 1, ONCE, b"second");
    world.run(1);
    assert_eq!(world.outcomes[&2], Outcome::Done(b"second".to_vec()));
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let world = World::new(&[Setup::idempotent(1)]);
    let text = format!("{:?}", world.replicas[&address(1)].machine);
    assert!(!text.contains(&format!("{SECRET:?}")));
}

/// Whoever copies a server's answers cannot make a client send to an address of their choice.
#[test]
fn client_sends_nothing_where_answers_only_seem_to_come_from() {
    let mut world = World::new(&[Setup::bound(1)]);
    let stranger = address(99);
    let large = answer(50_000);
    world.call(1, 1, IDEMPOTENT, b"ping");
    world.call(2, 1, IDEMPOTENT, &large);
    let until_us = world.now_us + 20_000_000;
    world.run_until(until_us, |world, datagram| {
        assert_ne!(datagram.to, stranger);
        match datagram.to == address(0) {
            true => world.deliver(&Datagram {
                from: stranger,
                ..datagram
            }),
            false => world.deliver(&datagram),
        }
    });
    assert_eq!(world.outcomes[&1], Outcome::Done(b"ping".to_vec()));
    assert!(world.outcomes[&2] == Outcome::Done(large));
}
