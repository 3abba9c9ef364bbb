//! Routers between a client and replicas.

use std::collections::BTreeMap;

use selfsame_codec::rpc::{Input, Output, RouterConfig};
use selfsame_codec::{BatchReader, BatchWriter, Code};
use selfsame_rpc::Machine;

mod world;
use world::{Address, Datagram, IDEMPOTENT, ONCE, Outcome, ROUTER_SECRET, Setup, World, address, answer};

/// Where the router is.
const ROUTER: u16 = 100;
const RANDOM: u8 = 0;
const ROUND_ROBIN: u8 = 1;
const SHORTEST_QUEUE: u8 = 2;
const BOUNDED: u8 = 3;
const POWER_OF_TWO: u8 = 4;
const PROBED: u8 = 5;
const FIXED: u8 = 1;
const REPLICATED: u8 = 2;

struct Router {
    machine: Machine,
    wake_us: u64,
}

impl Router {
    fn new(selection: u8, redirects: bool) -> Self {
        let config = RouterConfig {
            secret: ROUTER_SECRET,
            entropy: [4; 32],
            selection,
            bound: 1,
            redirects,
        };
        Self {
            machine: Machine::new(&config.encode()).expect("a router"),
            wake_us: u64::MAX,
        }
    }

    fn set_servers(&mut self, world: &mut World, count: u16) {
        let endpoints: Vec<u8> = (1..=count).flat_map(address).collect();
        self.tell(
            world,
            &[Input::SetServers {
                endpoints: &endpoints,
            }],
        );
    }

    fn tell(&mut self, world: &mut World, inputs: &[Input<'_>]) {
        let mut batch = BatchWriter::new();
        inputs.iter().for_each(|input| input.encode(&mut batch));
        let batch = [&world.now_us.to_le_bytes(), batch.as_bytes()].concat();
        let outputs = self.machine.step(&batch).to_vec();
        for item in BatchReader::new(&outputs).expect("whole items") {
            match Output::decode(item).expect("an output") {
                Output::Send { target, bytes } => world.network.push_back(Datagram {
                    from: address(ROUTER),
                    to: target,
                    bytes: bytes.to_vec(),
                }),
                Output::Wake { unix_us } => self.wake_us = unix_us,
                other => panic!("a router said {other:?}"),
            }
        }
    }

    /// Delivers all that is under way, until there is nothing any more.
    fn deliver(&mut self, world: &mut World) {
        while let Some(datagram) = world.network.pop_front() {
            self.deliver_one(world, &datagram);
        }
    }

    fn deliver_one(&mut self, world: &mut World, datagram: &Datagram) {
        if datagram.to == address(ROUTER) {
            let input = Input::Datagram {
                source: datagram.from,
                bytes: &datagram.bytes,
            };
            self.tell(world, &[input]);
        } else {
            world.deliver(datagram);
        }
    }
}

/// A router with three replicas behind it.
fn routed(selection: u8, redirects: bool) -> (World, Router) {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2), Setup::idempotent(3)]);
    let mut router = Router::new(selection, redirects);
    router.set_servers(&mut world, 3);
    (world, router)
}

fn loads(world: &World) -> Vec<usize> {
    world
        .replicas
        .values()
        .map(|replica| replica.executed.len())
        .collect()
}

#[test]
fn every_selection_gets_each_call_answered_by_one_server() {
    for selection in [RANDOM, ROUND_ROBIN, SHORTEST_QUEUE, BOUNDED, POWER_OF_TWO, PROBED] {
        for redirects in [false, true] {
            let (mut world, mut router) = routed(selection, redirects);
            for call in 0..60_u32 {
                world.call(call, ROUTER, IDEMPOTENT, &call.to_le_bytes());
                router.deliver(&mut world);
                assert!(
                    matches!(world.outcomes[&call], Outcome::Done(_)),
                    "{selection} {redirects}"
                );
            }
            assert_eq!(loads(&world).iter().sum::<usize>(), 60, "{selection} {redirects}");
            assert!(
                loads(&world).iter().all(|load| *load > 5),
                "{selection}: {:?}",
                loads(&world)
            );
        }
    }
}

#[test]
fn answers_come_from_the_server_and_not_through_the_router() {
    let (mut world, mut router) = routed(ROUND_ROBIN, false);
    world.call(1, ROUTER, IDEMPOTENT, b"ping");
    let mut to_client = Vec::new();
    while let Some(datagram) = world.network.pop_front() {
        if datagram.to == address(0) {
            to_client.push(datagram.from);
        }
        router.deliver_one(&mut world, &datagram);
    }
    assert_eq!(to_client.len(), 1);
    assert_ne!(to_client[0], address(ROUTER));
}

#[test]
fn large_request_goes_straight_to_the_chosen_server() {
    let (mut world, mut router) = routed(ROUND_ROBIN, false);
    let payload = answer(20_000);
    world.call(1, ROUTER, IDEMPOTENT, &payload);
    let mut through_router = 0;
    while world.outcomes.is_empty() {
        while let Some(datagram) = world.network.pop_front() {
            through_router += usize::from(datagram.from == address(0) && datagram.to == address(ROUTER));
            router.deliver_one(&mut world, &datagram);
        }
        world.now_us += 1_000;
        world.tell_client(&[]);
    }
    assert!(world.outcomes[&1] == Outcome::Done(payload));
    assert_eq!(through_router, 1);
}

#[test]
fn call_that_is_not_idempotent_is_bound_to_the_chosen_server() {
    let (mut world, mut router) = routed(ROUND_ROBIN, false);
    for call in 0..9_u32 {
        world.call(call, ROUTER, ONCE, &call.to_le_bytes());
        router.deliver(&mut world);
        assert!(matches!(world.outcomes[&call], Outcome::Done(_)));
    }
    assert_eq!(loads(&world).iter().sum::<usize>(), 9);
}

#[test]
fn policies_decide_who_carries_a_call_out() {
    let (mut world, mut router) = routed(ROUND_ROBIN, false);
    for call in 0..10_u32 {
        world.call(call, ROUTER, IDEMPOTENT | FIXED, &call.to_le_bytes());
        router.deliver(&mut world);
    }
    assert_eq!(loads(&world).iter().max(), Some(&10));
    let (mut world, mut router) = routed(ROUND_ROBIN, false);
    world.call(1, ROUTER, IDEMPOTENT | REPLICATED, b"ping");
    router.deliver(&mut world);
    assert_eq!(loads(&world), [1, 1, 1]);
    assert_eq!(world.outcomes[&1], Outcome::Done(b"ping".to_vec()));
}

/// With a bound of one request at each server the others wait at the router, and each feedback lets one go on.
#[test]
fn bound_keeps_requests_at_the_router_until_a_server_is_idle() {
    let (mut world, mut router) = routed(BOUNDED, false);
    (1..=3).for_each(|number| world.replica(number).is_silent = true);
    for call in 0..8_u32 {
        world.call(call, ROUTER, IDEMPOTENT, &call.to_le_bytes());
    }
    router.deliver(&mut world);
    assert_eq!(loads(&world), [1, 1, 1]);
    let open = world.replica(2).open[0];
    world.tell_replica(
        address(2),
        &[Input::Answer {
            call: open,
            payload: b"",
        }],
    );
    router.deliver(&mut world);
    assert_eq!(loads(&world), [1, 2, 1]);
}

#[test]
fn credit_whose_feedback_is_lost_returns_with_its_lease() {
    let (mut world, mut router) = routed(BOUNDED, false);
    for call in 0..3_u32 {
        world.call(call, ROUTER, IDEMPOTENT, &call.to_le_bytes());
    }
    while let Some(datagram) = world.network.pop_front() {
        let is_feedback = datagram.bytes[0] == 0x65;
        if !is_feedback {
            router.deliver_one(&mut world, &datagram);
        }
    }
    world.call(3, ROUTER, IDEMPOTENT, b"late");
    router.deliver(&mut world);
    assert_eq!(world.executions(b"late"), 0);
    world.now_us = router.wake_us;
    router.tell(&mut world, &[]);
    router.deliver(&mut world);
    assert_eq!(world.executions(b"late"), 1);
}

#[test]
fn feedback_of_strangers_and_stale_credit_count_for_nothing() {
    let (mut world, mut router) = routed(BOUNDED, false);
    (1..=3).for_each(|number| world.replica(number).is_silent = true);
    for call in 0..4_u32 {
        world.call(call, ROUTER, IDEMPOTENT, &call.to_le_bytes());
    }
    router.deliver(&mut world);
    let open = world.replica(1).open[0];
    world.tell_replica(
        address(1),
        &[Input::Answer {
            call: open,
            payload: b"",
        }],
    );
    let feedback: Vec<Datagram> = world
        .network
        .iter()
        .filter(|one| one.bytes[0] == 0x65)
        .cloned()
        .collect();
    world.network.clear();
    let mut try_all = |datagram: Datagram| {
        router.deliver_one(&mut world, &datagram);
        router.deliver(&mut world);
        world
            .replicas
            .values()
            .map(|replica| replica.executed.len())
            .sum::<usize>()
    };
    // From another address, changed, then as it was, and that again.
    assert_eq!(
        try_all(Datagram {
            from: address(9),
            ..feedback[0].clone()
        }),
        3
    );
    for at in 0..feedback[0].bytes.len() {
        let mut changed = feedback[0].clone();
        changed.bytes[at] ^= 1;
        assert_eq!(try_all(changed), 3);
    }
    assert_eq!(try_all(feedback[0].clone()), 4);
    world.call(9, ROUTER, IDEMPOTENT, b"next");
    router.deliver_one(&mut world, &feedback[0]);
    router.deliver(&mut world);
    assert_eq!(world.executions(b"next"), 0);
}

/// Without the key nobody makes a server answer to an address of their choice.
#[test]
fn forged_router_makes_a_server_send_nothing() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    world.call(1, 1, IDEMPOTENT, b"ping");
    let request = world.network.pop_front().expect("the request");
    let victim: Address = address(77);
    let forged = [&[0x64][..], &victim, &[0; 16], &request.bytes].concat();
    let (from, to) = (address(9), address(1));
    world.deliver(&Datagram {
        from,
        to,
        bytes: forged,
    });
    assert!(world.network.is_empty());
    assert!(world.replica(1).executed.is_empty());
}

#[test]
fn router_without_servers_or_room_says_so() {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let mut router = Router::new(BOUNDED, false);
    world.call(1, ROUTER, IDEMPOTENT, b"ping");
    router.deliver(&mut world);
    assert_eq!(world.outcomes[&1], Outcome::Failed(Code::NoProvider));
    router.set_servers(&mut world, 1);
    world.replica(1).is_silent = true;
    for call in 2..600 {
        world.call(call, ROUTER, IDEMPOTENT, &call.to_le_bytes());
    }
    router.deliver(&mut world);
    let mut failed: BTreeMap<_, usize> = BTreeMap::new();
    for outcome in world.outcomes.values() {
        *failed.entry(format!("{outcome:?}")).or_default() += 1;
    }
    assert_eq!(failed["Failed(TooManyRequests)"], 598 - 513);
}
