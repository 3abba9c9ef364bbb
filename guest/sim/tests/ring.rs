//! Rings form in a simulated network, and one seed always gives the same run.

use std::collections::{BTreeMap, BTreeSet};

use selfsame_codec::{Input, Role};
use selfsame_core::Place;
use selfsame_core::identity::PeerId;
use selfsame_core::ring::Parameters;
use selfsame_sim::attack::Kind;
use selfsame_sim::scenario::{Fault, Plan, Scenario, Schedule, join, play, publish, schedule, settle};
use selfsame_sim::{End, Faults, Native, Outcome, RingState, World};

fn ring_of(nodes: usize, seed: u64) -> World<Native> {
    ring_with(nodes, seed, 15_000)
}

fn ring_with(nodes: usize, seed: u64, idle_ms: u64) -> World<Native> {
    let mut world = World::new(Native::default(), seed);
    world.idle_ms = idle_ms;
    world.network.jitter_ms = 5;
    world.network.loss = 10;
    join(&mut world, nodes, 5);
    settle(&mut world, 120_000).expect("the ring settles");
    world
}

#[test]
fn members_that_join_form_one_ring_with_whole_lists() {
    for nodes in [1, 2, 3, 30] {
        let mut world = ring_of(nodes, 1);
        world.run_ms(120_000);
        assert_eq!(
            RingState::of(&mut world).faults(),
            Faults::default(),
            "{nodes} nodes"
        );
    }
}

#[test]
fn a_member_whose_power_failed_comes_back_with_what_it_had_synced() {
    let mut world = ring_of(12, 2);
    world.end(5, End::PowerLost);
    settle(&mut world, 120_000).expect("the others close the gap");
    world.start(5);
    let tag = world.command(5, |tag| Input::Join { tag });
    settle(&mut world, 120_000).expect("it is taken in again");
    assert!(world.hosts()[5].answer(tag).is_some());
    assert_eq!(RingState::of(&mut world).members().len(), 12);
}

#[test]
fn a_wall_between_two_groups_makes_two_rings_and_its_fall_one() {
    let mut world = ring_of(16, 3);
    for host in 0..16 {
        world.host_mut(host).group = (host % 2) as u8;
    }
    world.network.wall(0, 1);
    world.network.wall(1, 0);
    world.run_ms(300_000);
    assert!(!RingState::of(&mut world).faults().is_settled());
    world.network.heal();
    settle(&mut world, 600_000).expect("the rings merge");
}

#[test]
fn a_process_that_was_stopped_takes_its_place_again_when_it_goes_on() {
    for seed in 10..20 {
        // Updates as rare as where waking costs money: nobody finds out by chance.
        let mut world = ring_with(8, seed, 60_000);
        world.run_ms(300_000);
        world.freeze(3);
        settle(&mut world, 90_000).unwrap_or_else(|faults| panic!("seed {seed}: {faults:?}"));
        assert_eq!(RingState::of(&mut world).members().len(), 7);
        world.thaw(3);
        world.run_ms(2_000);
        let whole = RingState::of(&mut world);
        assert_eq!(whole.members().len(), 8);
        assert!(whole.faults().is_settled(), "seed {seed}: {:?}", whole.faults());
    }
}

/// Two members and a third that rests where waking costs money: it speaks seldom when it has no reason to.
fn ring_with_one_that_updates_seldom(seed: u64) -> (World<Native>, usize) {
    let mut world = ring_of(2, seed);
    world.idle_ms = 75_000;
    let seldom = world.add(Role::Member, &[0, 1]);
    world.start(seldom);
    world.command(seldom, |tag| Input::Join { tag });
    settle(&mut world, 120_000).expect("it joins");
    world.run_ms(200_000);
    world.idle_ms = 15_000;
    (world, seldom)
}

#[test]
fn one_that_goes_on_just_after_it_was_given_up_takes_its_place_again() {
    for seed in 0..8 {
        for frozen_ms in (4_000..12_000).step_by(400) {
            let (mut world, seldom) = ring_with_one_that_updates_seldom(seed);
            let id = world.hosts()[seldom].id().0;
            world.freeze(seldom);
            world.command(0, |tag| Input::FindNode { tag, id });
            world.command(1, |tag| Input::FindNode { tag, id });
            world.run_ms(frozen_ms);
            world.thaw(seldom);
            world.run_ms(2_000);
            let faults = RingState::of(&mut world).faults();
            assert!(faults.is_settled(), "seed {seed}, {frozen_ms} ms: {faults:?}");
        }
    }
}

#[test]
fn one_that_goes_on_is_taken_for_the_predecessor_by_a_member_that_has_lost_its_session() {
    for seed in 0..40 {
        let (mut world, seldom) = ring_with_one_that_updates_seldom(seed);
        let id = world.hosts()[seldom].id().0;
        world.freeze(seldom);
        world.command(1, |tag| Input::FindNode { tag, id });
        // Nobody tells the stopped one that the session is gone.
        world.end(0, End::PowerLost);
        world.start(0);
        world.command(0, |tag| Input::Join { tag });
        world.run_ms(15_000);
        world.thaw(seldom);
        world.run_ms(2_000);
        let faults = RingState::of(&mut world).faults();
        assert!(faults.is_settled(), "seed {seed}: {faults:?}");
    }
}

#[test]
fn what_cannot_be_dialled_is_a_leaf() {
    let mut world = ring_of(6, 4);
    let leaf = world.add(Role::Leaf, &[0, 1]);
    world.host_mut(leaf).is_reachable = false;
    world.start(leaf);
    let tag = world.command(leaf, |tag| Input::Join { tag });
    world.run_ms(10_000);
    assert!(world.hosts()[leaf].answer(tag).is_some());
    assert_eq!(RingState::of(&mut world).members().len(), 6);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let trace = |seed| play(&Plan::new(Scenario::Settle, 12, seed), &mut |_| {}).trace;
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn the_same_schedule_gives_the_same_bytes_and_another_one_others() {
    let trace = |seed| {
        schedule(&Schedule {
            seed,
            nodes: 12,
            fault: None,
        })
        .expect("the ring stays one")
    };
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

#[test]
fn attackers_do_not_lead_others_to_wrong_members() {
    for kind in [Kind::Drop, Kind::Misroute, Kind::Forge, Kind::Replay] {
        withstands(kind);
    }
}

#[test]
fn attackers_do_not_hide_members_or_names_from_others() {
    for kind in [Kind::Eclipse, Kind::Ghost, Kind::Hide, Kind::Leave] {
        withstands(kind);
    }
}

/// Rings whose members guard each other.
static GUARDED: Parameters = Parameters {
    group: 7,
    ..Parameters::DEFAULT
};

#[test]
fn message_comes_nearer_with_each_member_and_takes_many_ways() {
    let mut world = World::closed(Native::with(&GUARDED), 7);
    join(&mut world, 60, 10);
    settle(&mut world, 120_000).expect("the ring settles");
    world.run_ms(5 * 60_000);
    let hosts: BTreeMap<[u8; 32], usize> = (0..60).map(|host| (world.hosts()[host].id().0, host)).collect();
    let ids: Vec<[u8; 32]> = hosts.keys().copied().collect();
    let mut hops = |from: usize, target: [u8; 32]| {
        let core = world.hosts()[from].core().expect("it runs");
        world.machine_mut().hops_to(core, &Place(target))
    };
    let leading = |id: &[u8; 32]| u128::from_be_bytes(id[..16].try_into().expect("16 bytes"));
    for number in 0..60 {
        let target = ids[(number * 7 + 31) % 60];
        let mut at = ids[number];
        let mut steps = 0;
        while at != target {
            let way = |id: &[u8; 32]| leading(&target).wrapping_sub(leading(id));
            let next = hops(hosts[&at], target);
            assert!(
                next.iter().all(|peer| way(&peer.0) < way(&at)),
                "nearer than this one"
            );
            at = next.first().expect("somebody nearer").0;
            steps += 1;
        }
        assert!(steps <= 8);
    }
    let firsts: BTreeSet<PeerId> = (0..100).map(|_| hops(hosts[&ids[0]], ids[40])[0]).collect();
    assert!(firsts.len() >= 4, "{} ways", firsts.len());
    assert!(hops(hosts[&ids[0]], ids[0]).is_empty(), "it is there");
}

#[test]
fn liars_in_closed_networks_mislead_nobody_and_only_they_are_convicted() {
    let plan = Plan {
        seeds: 2,
        share: 8.0,
        ..Plan::new(Scenario::Liars, 40, 1)
    };
    let report = play(&plan, &mut |_| {});
    assert!(report.is_met(), "{}", report.table());
}

fn withstands(kind: Kind) {
    let plan = Plan {
        kind: Some(kind),
        ..Plan::new(Scenario::Attack, 150, 3)
    };
    let report = play(&plan, &mut |_| {});
    assert!(report.is_met(), "{}", report.table());
}

#[test]
fn names_are_found_while_three_of_ten_members_are_dead() {
    let report = play(&Plan::new(Scenario::Loss, 60, 5), &mut |_| {});
    assert!(report.is_met(), "{}", report.table());
}

#[test]
fn an_association_has_copies_at_three_members_although_they_need_not_know_whose() {
    let mut world = ring_of(150, 6);
    let names = publish(&mut world, (0..150).step_by(3), None, 2);
    world.run_ms(60_000);
    let state = RingState::of(&mut world);
    let copies: u64 = state.members().values().map(|status| status.objects).sum();
    assert_eq!(copies, names.len() as u64 * 3 * 4);
}

#[test]
fn ring_recovers_from_each_kind_of_fault() {
    for fault in Fault::EPISODES {
        for seed in 1..=4 {
            let plan = Schedule {
                seed,
                nodes: 20,
                fault: Some(fault),
            };
            schedule(&plan).unwrap_or_else(|failure| panic!("{fault:?}, seed {seed}: {failure}"));
        }
    }
}

#[test]
fn whatever_fails_there_is_one_ring() {
    // In the last one a leaf looks a position up when its relays are gone and it has not noticed.
    for seed in (1..=20).chain([426]) {
        schedule(&Schedule {
            seed,
            nodes: 40,
            fault: None,
        })
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
    }
}

/// A host that others connect to, one after the other
fn host_with_visitors(visitors: usize) -> World<Native> {
    let mut world = World::new(Native::default(), 5);
    let host = world.add(Role::Member, &[]);
    world.start(host);
    for _ in 0..visitors {
        visit(&mut world, host);
    }
    world
}

fn visit(world: &mut World<Native>, host: usize) {
    let address = world.hosts()[host].pinned();
    let visitor = world.add(Role::Member, &[]);
    world.start(visitor);
    let (address, _) = address.split_once('#').expect("an address and an id");
    let peer = world.hosts()[host].id().0;
    let tag = world.command(visitor, |tag| Input::Connect { tag, peer, address });
    // Two round trips, and fast enough that no session is idle for long while a thousand come up.
    world.run_ms(280);
    let answer = world.hosts()[visitor].answer(tag).map(|answer| &answer.outcome);
    assert!(matches!(answer, Some(Outcome::Reply(_))), "{answer:?}");
}

#[test]
fn sessions_that_nobody_uses_end_when_others_come() {
    let mut world = host_with_visitors(140);
    assert_eq!(world.hosts()[0].connections(), 140);
    world.run_ms(300_000);
    assert_eq!(world.hosts()[0].connections(), 140);
    for _ in 0..5 {
        visit(&mut world, 0);
    }
    assert_eq!(world.hosts()[0].connections(), 135);
}

#[test]
fn a_host_with_all_sessions_it_may_have_takes_another_for_the_longest_idle_one() {
    let mut world = host_with_visitors(1_030);
    assert_eq!(world.hosts()[0].connections(), 1_024);
    let is_connected = |host: usize| world.hosts()[host].connections() == 1;
    assert!(!(1..=6).any(is_connected) && (7..=1_030).all(is_connected));
    visit(&mut world, 0);
}
